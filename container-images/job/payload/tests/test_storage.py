# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import stat
import zlib
from pathlib import Path

import pytest
from beer_payload import storage
from beer_payload.report import SetupError, StorageError, WrongNumber


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for stand-ins of the XRootD commands, first in PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def tool(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("text", "server", "path"),
    [
        ("root://node1//data/01/jobs/f.root", "node1", "/data/01/jobs/f.root"),
        ("root://node1:1094//data/f", "node1:1094", "/data/f"),
        ("roots://user@node1//f", "user@node1", "/f"),
        ("xroot://[2001:db8::1]:1094//f", "[2001:db8::1]:1094", "/f"),
    ],
)
def test_urls_are_taken_apart(text: str, server: str, path: str):
    url = storage.Url.parse(text)
    assert (url.server, url.path) == (server, path)


@pytest.mark.parametrize(
    "text", ["", "/data/f", "http://node//f", "root://node/f", "root:////f", "root://node//d/", "root://node//f?x=y"]
)
def test_other_urls_are_refused(text: str):
    with pytest.raises(ValueError, match="root://server"):
        storage.Url.parse(text)


def test_checksum_is_adler32_with_leading_zeros(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(b"a")
    assert storage.adler32(path) == "00620062"


def test_checksum_of_a_file_longer_than_a_chunk(tmp_path: Path):
    data = os.urandom(storage.CHUNK + 17)
    (tmp_path / "file").write_bytes(data)
    assert int(storage.adler32(tmp_path / "file"), 16) == zlib.adler32(data)


@pytest.mark.parametrize("text", ["adler32 620062\n", "adler32 00620062 node1\n"])
def test_the_servers_answer_is_read(text: str):
    assert storage.parse_checksum(text) == "00620062"


@pytest.mark.parametrize("text", ["", "adler32", "crc32c 00620062", "adler32 xyz", "adler32 123456789"])
def test_another_answer_is_an_error(text: str):
    with pytest.raises(StorageError, match="checksum query"):
        storage.parse_checksum(text)


def test_a_wrong_checksum_is_a_wrong_number(tools: Path):
    tool(tools, "xrdfs", "echo adler32 00000001")
    with pytest.raises(WrongNumber, match="00000001 in storage, 00000002 here"):
        storage.verify_checksum(storage.Url.parse("root://node//f"), "00000002")


def test_a_failing_command_gives_its_last_line_as_reason(tools: Path):
    tool(tools, "xrdcp", "echo first >&2; echo '[ERROR] permission denied' >&2; exit 54")
    with pytest.raises(StorageError, match=r"a b: \[ERROR\] permission denied$"):
        storage.copy("a", "b")


def test_a_failing_command_without_words_gives_its_exit_code(tools: Path):
    tool(tools, "xrdcp", "exit 54")
    with pytest.raises(StorageError, match="exit code 54"):
        storage.copy("a", "b")


def test_a_missing_command_is_the_containers_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match="xrdcp: not in this container"):
        storage.copy("a", "b")


def test_the_client_is_patient_but_the_user_decides(tools: Path, monkeypatch: pytest.MonkeyPatch):
    tool(tools, "xrdfs", 'echo "$XRD_STREAMTIMEOUT $XRD_REQUESTTIMEOUT"')
    monkeypatch.delenv("XRD_STREAMTIMEOUT", raising=False)
    monkeypatch.setenv("XRD_REQUESTTIMEOUT", "7")
    assert storage.run("xrdfs").split() == [storage.CLIENT_DEFAULTS["XRD_STREAMTIMEOUT"], "7"]


@pytest.mark.parametrize("from_environment", [True, False])
def test_the_keytab_becomes_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, from_environment: bool):
    (tmp_path / "batch.keytab").write_text("key")
    (tmp_path / "batch.keytab").chmod(0o644)
    monkeypatch.setenv("XrdSecSSSKT", str(tmp_path / "batch.keytab") if from_environment else "/elsewhere")
    private = tmp_path / "private"
    storage.use_keytab(None if from_environment else tmp_path / "batch.keytab", private)
    assert os.environ[storage.KEYTAB_VARIABLE] == str(private)
    assert private.read_text() == "key"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600


def test_no_keytab_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("XrdSecSSSKT", raising=False)
    storage.use_keytab(None, tmp_path / "private")
    assert not (tmp_path / "private").exists()


def test_an_unreadable_keytab_is_the_containers_fault(tmp_path: Path):
    with pytest.raises(SetupError, match="sss keytab"):
        storage.use_keytab(tmp_path / "none", tmp_path / "private")

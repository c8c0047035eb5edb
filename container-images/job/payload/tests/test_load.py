# SPDX-License-Identifier: Apache-2.0
"""The hostile payloads: the disk hog for real on a small file, the XRootD hog against a stand-in of its client."""

from __future__ import annotations

import random
import sys
import types
from pathlib import Path

import pytest
from beer_payload import disk, files, load, storage, stream
from beer_payload.report import SetupError, StorageError

KIB = 1024
URL = storage.Url.parse("root://node//data/01/store/load/file-00")


class Status:
    def __init__(self, message: str = "") -> None:
        self.ok = not message
        self.message = message + "\n"


class File:
    """Stands in for XRootD.client.File; `broken` names the call that fails."""

    broken = ""
    opened: list[str]
    size = 1 << 20

    def _status(self, call: str) -> Status:
        return Status("refused" if self.broken == call else "")

    def open(self, url: str, flags: int, timeout: int) -> tuple[Status, None]:
        self.opened.append(url)
        return self._status("open"), None

    def stat(self, timeout: int) -> tuple[Status, types.SimpleNamespace]:
        return self._status("stat"), types.SimpleNamespace(size=self.size)

    def read(self, offset: int, size: int, timeout: int) -> tuple[Status, bytes]:
        assert 0 <= offset < self.size
        return self._status("read"), bytes(min(size, self.size - offset))

    def vector_read(self, chunks: list[tuple[int, int]], timeout: int) -> tuple[Status, types.SimpleNamespace]:
        assert all(offset >= 0 and offset + size <= self.size for offset, size in chunks)
        return self._status("read"), types.SimpleNamespace(size=sum(size for _, size in chunks))


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> type[File]:
    monkeypatch.setattr(File, "opened", [], raising=False)
    package = types.ModuleType("XRootD")
    package.client = types.ModuleType("XRootD.client")
    package.client.File = File
    package.client.flags = types.ModuleType("XRootD.client.flags")
    package.client.flags.OpenFlags = types.SimpleNamespace(READ=16)
    for module in (package, package.client, package.client.flags):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return File


def test_the_disk_hog_reads_and_writes(tmp_path: Path):
    report = disk.run(tmp_path, threads=3, seconds=0.2, block=8 * KIB, size=300 * KIB, write_share=0.5)
    assert report["operations"] > 0
    assert report["bytes"] == report["operations"] * 8 * KIB
    assert report["errors"] == 0
    assert list(tmp_path.iterdir()) == []


def test_the_cached_disk_hog_flushes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    flushes: list[int] = []
    monkeypatch.setattr(disk.os, "fsync", flushes.append)
    run = {"threads": 2, "seconds": 0.2, "block": 4 * KIB, "size": 64 * KIB, "write_share": 1.0}
    report = disk.run(tmp_path, **run, cached=True)
    # Once after the file is filled.
    assert report["operations"] // disk.FLUSH_EVERY - 2 <= len(flushes) - 1 <= report["operations"] // disk.FLUSH_EVERY
    assert len(flushes) > 1
    assert not list(tmp_path.iterdir())


def test_the_disk_hog_stays_inside_its_file(tmp_path: Path):
    descriptor = disk.open_file(tmp_path, cached=False)
    disk.fill(descriptor, 64 * KIB)
    once = disk.operation(descriptor, 8 * KIB, 64 * KIB, 0.5, random.Random(1))  # noqa: S311 - offsets, no secrets
    assert {once() for _ in range(200)} == {8 * KIB}


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path):
    with pytest.raises(SetupError, match="no direct I/O on"):
        disk.run(tmp_path / "none", threads=1, seconds=0.1, block=8 * KIB, size=8 * KIB, write_share=0)


@pytest.mark.parametrize(("block", "size"), [(100, 8192), (4097, 8192), (0, 8192), (8192, 4096)])
def test_sizes_that_direct_io_cannot_do_are_refused(block: int, size: int):
    with pytest.raises(ValueError, match="--"):
        disk.check_sizes(block, size)


def test_the_hog_of_small_files_makes_and_removes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    flushed = []
    monkeypatch.setattr(files.os, "fsync", flushed.append)
    once = files.operation(tmp_path / "0", random.Random(1))  # noqa: S311 - places in a file, no secrets
    assert [once() for _ in range(12)] == [files.BLOCK] * 12
    assert (len(flushed), len(list(tmp_path.glob("0/*/file")))) == (3, 8)
    found = files.run(tmp_path, threads=2, seconds=0.2)
    assert found["operations"] >= 2
    assert not found["errors"]
    assert [path.name for path in tmp_path.iterdir()] == ["0"], "nothing of it is left"
    with pytest.raises(SetupError):
        files.run(tmp_path / "absent", threads=1, seconds=0.1)


def test_the_xrootd_hog_counts_what_it_read(client: type[File]):
    report = stream.run([URL], streams=2, seconds=0.1, block=64 * KIB, pieces=1, keytab=None)
    assert report["operations"] > 0
    assert report["bytes"] == report["operations"] * 64 * KIB


def test_each_stream_has_a_connection_of_its_own(client: type[File]):
    stream.run([URL], streams=3, seconds=0.1, block=64 * KIB, pieces=1, keytab=None)
    assert client.opened == [f"root://s{number}@node//data/01/store/load/file-00" for number in range(3)]


def test_streams_are_shared_out_over_the_files(client: type[File]):
    other = storage.Url.parse("root://node//data/02/store/load/file-00")
    stream.run([URL, other], streams=4, seconds=0.1, block=64 * KIB, pieces=1, keytab=None)
    assert [url.split("//")[2][:7] for url in client.opened] == ["data/01", "data/02", "data/01", "data/02"]


def test_one_request_may_be_for_many_places(client: type[File]):
    report = stream.run([URL], streams=2, seconds=0.1, block=4 * KIB, pieces=32, keytab=None)
    assert report["operations"] > 0
    assert report["bytes"] == report["operations"] * 32 * 4 * KIB


@pytest.mark.parametrize("call", ["open", "stat", "read"])
def test_a_refusal_is_a_storage_error(client: type[File], monkeypatch: pytest.MonkeyPatch, call: str):
    monkeypatch.setattr(client, "broken", call)
    with pytest.raises(StorageError, match="refused"):
        stream.run([URL], streams=1, seconds=0.1, block=64 * KIB, pieces=1, keytab=None)


def test_a_container_without_the_client_is_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "XRootD", None)
    with pytest.raises(SetupError, match="no XRootD client"):
        stream.run([URL], streams=1, seconds=0.1, block=64 * KIB, pieces=1, keytab=None)


def test_errors_are_counted_and_do_not_end_the_attack(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(load, "ERROR_PAUSE", 0.001)
    calls = iter(range(1_000_000))

    def every_other() -> int:
        if next(calls) % 2:
            raise OSError("busy")
        return 10

    report = load.hammer([every_other], 0.1, OSError)
    assert report["errors"] > 0
    assert report["operations"] > 1
    assert report["last_error"] == "busy"
    assert report["bytes"] == 10 * report["operations"]

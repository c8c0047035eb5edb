# SPDX-License-Identifier: Apache-2.0
"""Who may do what, with the keys and rules that are shipped."""

import re
import stat
import subprocess
from pathlib import Path

import pytest
from server import TOP, Server

AUTHDB = TOP / "config" / "beer-authdb"


@pytest.fixture
def upload(tmp_path: Path) -> Path:
    path = tmp_path / "upload"
    path.write_bytes(b"result of a job")
    return path


def denied(result: "subprocess.CompletedProcess[str]") -> bool:
    return result.returncode != 0 and re.search("permission denied|not authorized", result.stderr, re.I) is not None


def test_batch_reads_the_store_and_writes_its_jobs(running: Server, batch_port: int, upload: Path) -> None:
    running.run("xrdcp", running.url("01/store/file", port=batch_port), "/dev/null", "-f", user="batch")
    running.run("xrdcp", "-p", upload, running.url("01/jobs/7/output", port=batch_port), user="batch")
    assert (running.data / "01/jobs/7/output").read_bytes() == upload.read_bytes()
    running.run("xrdcp", running.url("01/jobs/7/output"), "/dev/null", "-f", user="batch")
    running.xrdfs("query", "checksum", running.path("01/jobs/7/output"), user="batch")


def test_batch_cannot_harm_the_store(running: Server, upload: Path, content: bytes) -> None:
    file = running.path("01/store/file")
    for command in (
        ("rm", file),
        ("mv", file, file + "2"),
        ("mv", file, running.path("01/jobs/stolen")),
        ("truncate", file, "0"),
        ("chmod", file, "rwx------"),
        ("mkdir", running.path("01/store/mine")),
        ("rmdir", running.path("02/store")),
    ):
        assert denied(running.xrdfs(*command, user="batch", check=False)), command
    assert denied(running.run("xrdcp", "-f", upload, running.url("01/store/file"), user="batch", check=False))
    assert denied(running.run("xrdcp", upload, running.url("01/store/other"), user="batch", check=False))
    assert Path(file).read_bytes() == content


def test_batch_cannot_delete_what_it_wrote(running: Server, upload: Path) -> None:
    running.run("xrdcp", upload, running.url("01/jobs/output"), user="batch")
    assert denied(running.xrdfs("rm", running.path("01/jobs/output"), user="batch", check=False))
    running.xrdfs("rm", running.path("01/jobs/output"))


def test_without_a_key_there_is_nothing(running: Server, tmp_path: Path) -> None:
    done = running.xrdfs("ls", running.path("01/store"), check=False, env={"XrdSecSSSKT": str(tmp_path / "none")})
    assert done.returncode != 0
    done = running.xrdfs("ls", running.path("01/store"), check=False, env={"XrdSecPROTOCOL": "unix"})
    assert done.returncode != 0


def test_keys_are_private_and_stay(tmp_path: Path) -> None:
    script = TOP / "config" / "beer-storage-keys"
    files = ["etc/beer/keys/storage.keytab", "etc/beer/keys/batch.keytab", "etc/xrootd/beer.keytab"]
    subprocess.run([script, "--root", tmp_path], check=True)
    first = [(tmp_path / name).read_text() for name in files]
    assert first[2] == first[0] + first[1]
    numbers = re.findall(r" N:(\d+) ", first[2])
    assert len(set(numbers)) == 2, "the server finds a key by its number"
    subprocess.run([script, "--root", tmp_path], check=True)
    assert [(tmp_path / name).read_text() for name in files] == first
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in files} == {0o600}
    assert stat.S_IMODE((tmp_path / "etc/beer/keys").stat().st_mode) == 0o700
    assert sorted(p.name for p in (tmp_path / "etc/beer/keys").iterdir()) == ["batch.keytab", "storage.keytab"]
    assert subprocess.run([script, "--rot"], capture_output=True, check=False).returncode == 2


def test_the_rules_name_every_disk_and_nothing_more() -> None:
    text = AUTHDB.read_text().replace("\\\n", " ")
    rules = {line.split()[1]: line.split()[2:] for line in text.splitlines() if line.startswith("u ")}
    assert rules["storage"] == ["/data", "a"]
    pairs = dict(zip(rules["batch"][::2], rules["batch"][1::2], strict=True))
    disks = [f"/data/{n:02d}" for n in range(1, 97)]
    expected = {f"{disk}/store": "rl" for disk in disks} | {f"{disk}/jobs": "rliw" for disk in disks}
    assert pairs == expected

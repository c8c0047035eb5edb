# SPDX-License-Identifier: Apache-2.0
"""What clients do is in the segment, in full and in the right place."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import segment
from conftest import FILE_BYTES
from server import Server
from session import Session

# How a client can read a whole file: pages with checksums (the default of xrdcp 5), or plain reads, which go by
# sendfile where they can (test_sendfile.py).
READERS = {
    "pages": {},
    "plain": {"XRD_CPUSEPGWRTRD": "0"},
}


@pytest.mark.parametrize("reader", READERS)
def test_every_byte_read_is_counted(running: Server, content: bytes, tmp_path: Path, reader: str) -> None:
    copy = tmp_path / "copy"
    with running.counting(read_storage_bytes=FILE_BYTES, read_batch_operations=0, read_internal_operations=0):
        running.run("xrdcp", running.url("01/store/file"), copy, env=READERS[reader])
    assert copy.read_bytes() == content


def test_cat_is_counted(running: Server) -> None:
    with running.counting(read_storage_bytes=FILE_BYTES):
        running.run("sh", "-c", f"xrdfs 127.0.0.1:{running.port} cat {running.path('01/store/file')} >/dev/null")


def test_writes_and_the_close_that_flushes_are_counted(running: Server, content: bytes, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(content)
    with running.counting(write_storage_bytes=FILE_BYTES, sync_storage_operations=1, sync_storage_errors=0):
        running.run("xrdcp", source, running.url("02/store/new"))
    assert (running.data / "02/store/new").read_bytes() == content
    written = [s for s in running.segment()["series"] if s["name"] == "write.storage"]
    assert [s["filesystem"] for s in written] == [1]


def test_vector_reads_and_single_requests(running: Server, content: bytes) -> None:
    pieces = [(n * 1_000_000, 1000) for n in range(16)]
    with Session(running.url("01/store/file"), running.client_env(), update=True) as file:
        with running.counting(read_storage_operations=1, read_storage_bytes=16_000):
            assert file.call("vector_read", pieces) == [content[at : at + size] for at, size in pieces]
        with running.counting(read_storage_operations=1, read_storage_bytes=4096):
            assert file.call("read", 0, 4096) == [content[:4096]]
        with running.counting(write_storage_operations=1, write_storage_bytes=5):
            file.call("write", "hello", 0, 5)
        with running.counting(sync_storage_operations=1):
            file.call("sync")
        with running.counting(meta_storage_operations=1):
            file.call("truncate", 100)
    assert (running.data / "01/store/file").read_bytes() == b"hello" + content[5:100]


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_open_streams_are_counted_also_of_clients_that_vanish(running: Server) -> None:
    def streams() -> tuple[int, int]:
        record = running.segment()["filesystems"][0]
        return record["open_readers"], record["open_writers"]

    other = running.data / "01/store/other"  # XRootD lets nobody write a file that others read
    other.write_bytes(b"")
    shutil.chown(other, "xrootd")
    url, env = running.url("01/store/file"), running.client_env()
    lost = Session(url, env)
    with Session(url, env), Session(running.url("01/store/other"), env, update=True):
        assert streams() == (2, 1)
    assert eventually(lambda: streams() == (1, 0))
    lost.kill()
    assert eventually(lambda: streams() == (0, 0))


def test_metadata_is_counted(running: Server) -> None:
    path = running.path("01/store/file")
    with running.counting(meta_storage_operations=1):
        assert "20000000" in running.xrdfs("stat", path).stdout
    before = running.count("meta.storage")
    assert path in running.xrdfs("ls", "-l", running.path("01/store")).stdout
    assert running.count("meta.storage") > before
    with running.counting(meta_storage_errors=1):
        assert running.xrdfs("stat", running.path("01/store/none"), check=False).returncode != 0
    for command in (
        ("mkdir", running.path("01/store/d")),
        ("chmod", running.path("01/store/d"), "rwxr-x---"),
        ("rmdir", running.path("01/store/d")),
        ("truncate", path, "1000"),
        ("mv", path, path + "2"),
        ("rm", path + "2"),
    ):
        before = running.count("meta.storage")
        running.xrdfs(*command)
        assert running.count("meta.storage") > before, command
    assert not Path(path).exists()


def test_a_checksum_is_work_of_the_server_itself(running: Server) -> None:
    with running.counting(read_internal_bytes=FILE_BYTES, read_storage_bytes=0):
        assert "adler32" in running.xrdfs("query", "checksum", running.path("01/store/file")).stdout
    with running.counting(read_internal_bytes=FILE_BYTES):
        named = running.path("01/store/file") + "?cks.type=crc32c"
        assert "crc32c" in running.xrdfs("query", "checksum", named).stdout


def test_two_clients_of_one_file_are_told_apart(running: Server, batch_port: int, tmp_path: Path) -> None:
    """XRootD shares one storage object among them: both have the file open at the same time."""
    with Session(running.url("01/store/file"), running.client_env()) as reader:
        with running.counting(read_batch_bytes=FILE_BYTES, read_storage_bytes=0):
            running.run("xrdcp", running.url("01/store/file", port=batch_port), tmp_path / "copy", user="batch")
        with running.counting(read_batch_bytes=0, read_storage_bytes=4096):
            reader.call("read", 0, 4096)
    result = running.segment()
    assert [c["address"] for c in result["clients"]] == ["127.0.0.2"]
    assert result["clients"][0]["bytes_read"] == FILE_BYTES
    assert result["header"]["clients_overflow"] == 0
    assert result["header"]["internal_errors"] == 0


def test_a_request_in_flight_shows_while_the_disk_does_not_answer(running: Server) -> None:
    """A FIFO stands for a hung disk: its open does not return until somebody writes."""
    fifo = running.data / "02/store/hung"
    os.mkfifo(fifo)
    shutil.chown(fifo, "xrootd")

    def waiting() -> list[dict[str, int]]:
        return [slot for slot in running.segment()["slots"] if slot["start_ns"]]

    assert waiting() == []
    with subprocess.Popen(
        ["xrdcp", running.url("02/store/hung"), "/dev/null", "-f"], env=running.client_env(), stderr=subprocess.DEVNULL
    ) as stuck:
        assert eventually(lambda: len(waiting()) == 1)
        (slot,) = waiting()
        assert segment.KINDS[slot["series"] % 19] == "open.storage"
        assert slot["series"] // 19 == 1
        assert (Path("/proc") / str(running.pid) / "task" / str(slot["tid"])).exists()
        assert 0 < time.clock_gettime_ns(time.CLOCK_MONOTONIC) - slot["start_ns"] < 60e9
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
        assert eventually(lambda: waiting() == [])
        stuck.kill()


def test_the_heart_beats(running: Server) -> None:
    beats = set()
    deadline = time.monotonic() + 20
    while len(beats) < 4 and time.monotonic() < deadline:
        beats.add(running.segment()["header"]["heartbeat_ns"])
        time.sleep(0.02)
    assert len(beats) >= 4
    assert abs(time.clock_gettime_ns(time.CLOCK_MONOTONIC) - max(beats)) < 2e9


def test_a_killed_server_comes_back_as_another_generation(running: Server, tmp_path: Path) -> None:
    running.run("xrdcp", running.url("01/store/file"), tmp_path / "copy")
    first = running.segment()["header"]
    running.stop(signal.SIGKILL)
    running.start()
    second = running.segment()
    assert second["header"]["generation"] > first["generation"]
    assert second["header"]["pid"] != first["pid"]
    assert second["series"] == []
    assert sorted(p.name for p in running.segment_file.parent.iterdir()) == ["beer.info", "beer.lat"]

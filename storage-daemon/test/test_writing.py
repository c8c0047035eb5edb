# SPDX-License-Identifier: Apache-2.0
"""What is written arrives, is counted, and fails where the disk fails."""

from http.client import HTTPConnection

import pytest
from bench import OPEN_HOUSE, WITHOUT
from protocol import FOR_UPDATE, File
from server import Server, free_port
from session import Session, SessionError
from test_info import streams

KINDS = ("buffered", "direct", "sync", "csync")
# Files of the server itself in /proc stand for broken disks (proc(5)).
NO_SYNC = "/proc/self/coredump_filter"  # takes a number, and cannot be synced (EINVAL)
NO_WRITE = "/proc/self/mem"  # at address 0 there is nothing (EIO)


@pytest.fixture
def with_broken_disks(server: Server) -> Server:
    """Not started; the application `KIND` writes by this type."""
    store = server.data / "01/store"
    (store / "no-sync").symlink_to(NO_SYNC)
    (store / "no-write").symlink_to(NO_WRITE)
    server.write_config(append="".join(f"beer.policy app:{kind} w iotype {kind}\n" for kind in KINDS))
    return server


def opened(server: Server, name: str, kind: str) -> Session:
    return Session(f"{server.url(f'01/store/{name}')}?eos.app={kind}", server.client_env(), update=True)


def said(file: Session, method: str, *arguments: object) -> str:
    """The error that the client is told; empty = it went well."""
    try:
        file.call(method, *arguments)
    except SessionError as error:
        return str(error).lower()
    return ""


@pytest.mark.parametrize(
    ("kind", "fails"), [("buffered", None), ("direct", "write"), ("sync", "write"), ("csync", "close")]
)
def test_a_client_is_told_that_its_data_did_not_reach_the_disk(
    with_broken_disks: Server, kind: str, fails: str | None
) -> None:
    with_broken_disks.start()
    for name in ("no-sync", "file"):
        with opened(with_broken_disks, name, kind) as file:
            for method, arguments in (("write", ("0x33", 0, 4)), ("close", ())):
                error = said(file, method, *arguments)
                failed = name == "no-sync" and method == fails
                assert ("invalid argument" in error) if failed else not error, (name, method, error)
    assert with_broken_disks.segment()["header"]["internal_errors"] == 0
    assert (with_broken_disks.data / "01/store/file").read_bytes()[:4] == b"0x33"


def test_a_write_that_fails_does_so_under_every_type_as_without_the_plugin(with_broken_disks: Server) -> None:
    def write(kind: str) -> str:
        with opened(with_broken_disks, "file", kind) as file:
            assert not said(file, "write", "fine", 0, 4)
        with opened(with_broken_disks, "no-write", kind) as file:
            return said(file, "write", "lost", 0, 4)

    with_broken_disks.start()
    errors = {write(kind) for kind in KINDS}
    with_broken_disks.stop()
    with_broken_disks.write_config(WITHOUT)
    with_broken_disks.start()
    assert errors == {write("bare")}
    assert "input/output error" in errors.pop()


def test_every_place_of_a_vector_write_is_counted(server: Server, content: bytes) -> None:
    server.write_config(OPEN_HOUSE)
    server.start()
    pieces = [(0, b"first"), (1_000_000, b"second" * 700), (19_999_999, b"beyond the end")]
    size = sum(len(data) for _, data in pieces)
    with File(server.port, server.path("01/store/file"), FOR_UPDATE) as file:
        # XRootD's file system writes one place at a time, and that is what the disk sees.
        with server.counting(write_storage_operations=len(pieces), write_storage_bytes=size):
            file.write_vector(pieces)
        (stream,) = streams(server)
        assert stream["written"] == {"bytes": size, "operations": 1}, "for the client it was one request"
        file.close()
    wanted = bytearray(content)
    for offset, data in pieces:
        wanted[offset : offset + len(data)] = data
    assert (server.data / "01/store/file").read_bytes() == wanted


def test_what_comes_by_http_is_written_and_counted(server: Server, content: bytes) -> None:
    port = free_port()
    server.write_config({"ofs.authorize": "# everybody may"}, append=f"xrd.protocol http:{port} libXrdHttp.so\n")
    server.start()
    counted = {"write_storage_bytes": len(content), "write_batch_bytes": 0, "sync_storage_operations": 1}
    with server.counting(**counted):
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("PUT", server.path("02/store/new"), body=content)
        assert connection.getresponse().status in (200, 201)
        connection.close()
    assert (server.data / "02/store/new").read_bytes() == content
    written = [one["filesystem"] for one in server.segment()["series"] if one["name"] == "write.storage"]
    assert written == [1]

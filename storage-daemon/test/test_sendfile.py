# SPDX-License-Identifier: Apache-2.0
"""Plain reads by storage users without a limit are sent by sendfile, and counted like all others."""

import http.client
import os
import re
from contextlib import closing
from pathlib import Path

import pytest
from conftest import FILE_BYTES, batch_port_of
from page_cache import forget, in_memory
from protocol import File
from server import Server, free_port, use_policy
from session import Session
from test_measuring import READERS, eventually

PLAIN = READERS["plain"]
pytestmark = pytest.mark.on_disk


def start(server: Server, *lines: str, replace: dict[str, str] | None = None) -> None:
    """The server, which says in its log what it sends by sendfile."""
    server.write_config(replace, "\n".join(["xrootd.trace response", *lines, ""]))
    policy = {"slow": "bandwidth 50MB/s", "direct": "iotype direct", "polite": "iopriority be:7"}
    use_policy(server, "".join(f"beer.policy app:{app} r {wish}\n" for app, wish in policy.items()))
    server.start()


@pytest.fixture
def sending(server: Server) -> Server:
    start(server)
    return server


def sent(server: Server) -> int:
    return len(re.findall(r" sendfile \d+ data bytes", server.log()))


def test_what_is_in_memory_is_sent_and_what_is_not_is_read(sending: Server, content: bytes, tmp_path: Path) -> None:
    def copy() -> int:
        before = sent(sending)
        with sending.counting(read_storage_bytes=FILE_BYTES, read_batch_operations=0, read_internal_operations=0):
            sending.run("xrdcp", "-f", sending.url("01/store/file"), tmp_path / "copy", env=PLAIN)
        assert (tmp_path / "copy").read_bytes() == content
        return sent(sending) - before

    file = sending.data / "01/store/file"

    def read_then_sent() -> bool:
        forget(file)
        assert copy() == 0, "what is not in memory is never sent"
        return in_memory(file) >= FILE_BYTES and copy() > 0

    # Whoever runs this machine may empty its page cache at any moment (seen: 24 GB free, and 104 pages gone at once).
    assert any(copy() > 0 for _ in range(3))
    assert any(read_then_sent() for _ in range(3))


def test_a_file_that_is_only_opened_is_not_read(sending: Server) -> None:
    file = sending.data / "01/store/file"
    forget(file)
    with Session(sending.url("01/store/file"), sending.client_env()) as client:
        assert in_memory(file) == 0

        def read_and_kept() -> bool:
            client.call("read", 1 << 20, 1 << 20)
            return in_memory(file) >= 1 << 20

        assert any(read_and_kept() for _ in range(3))
    assert sent(sending) == 0


@pytest.mark.parametrize("who", ["slow", "direct", "polite", "batch"])
def test_who_has_a_limit_or_a_priority_or_goes_past_the_page_cache_is_not_sent(
    sending: Server, content: bytes, tmp_path: Path, who: str
) -> None:
    with batch_port_of(sending) as port:
        batch = who == "batch"
        url = sending.url("01/store/file", port=port if batch else None) + f"?eos.app={who}"
        counted = {f"read_{'batch' if batch else 'storage'}_bytes": FILE_BYTES}
        with sending.counting(**counted):
            sending.run("xrdcp", url, tmp_path / "copy", user="batch" if batch else "storage", env=PLAIN)
    assert (tmp_path / "copy").read_bytes() == content
    assert sent(sending) == 0


@pytest.mark.parametrize(
    ("lines", "replace"),
    [(["beer.sendfile off"], {}), ([], {"xrootd.async": "xrootd.async off nosf"})],
    ids=["beer.sendfile", "xrootd.async"],
)
def test_it_can_be_turned_off(
    server: Server, content: bytes, tmp_path: Path, lines: list[str], replace: dict[str, str]
) -> None:
    start(server, *lines, replace=replace)
    with server.counting(read_storage_bytes=FILE_BYTES):
        server.run("xrdcp", server.url("01/store/file"), tmp_path / "copy", env=PLAIN)
    assert (tmp_path / "copy").read_bytes() == content
    assert sent(server) == 0


def test_a_file_that_became_shorter_is_read_to_its_end(sending: Server, content: bytes) -> None:
    with Session(sending.url("01/store/file"), sending.client_env()) as file:
        assert file.call("read", 0, 100_000) == [content[:100_000]]
        before = sent(sending)
        os.truncate(sending.data / "01/store/file", 150_000)
        assert file.call("read", 100_000, 100_000) == [content[100_000:150_000]]
        assert before > 0
        assert sent(sending) == before


def test_http_is_served_by_it(server: Server, content: bytes) -> None:
    port = free_port()
    replace = {"ofs.authorize": "# everybody may"}
    start(server, f"xrd.protocol http:{port} libXrdHttp.so", replace=replace)
    whole = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with server.counting(read_storage_bytes=FILE_BYTES), closing(whole):
        whole.request("GET", server.path("01/store/file"))
        assert whole.getresponse().read() == content
    assert sent(server) > 0
    part = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with server.counting(read_storage_bytes=2_000_000), closing(part):
        part.request("GET", server.path("01/store/file"), headers={"Range": "bytes=1000-2000999"})
        assert part.getresponse().read() == content[1000:2001000]


def test_a_client_that_goes_away_in_the_middle_of_an_answer_leaves_nothing(server: Server, content: bytes) -> None:
    start(server, replace={"xrootd.seclib": "# nobody is asked", "sec.prot": "#", "ofs.authorize": "#"})

    def readers() -> int:
        return int(server.segment()["filesystems"][0]["open_readers"])

    for _ in range(20):
        with File(server.port, server.path("01/store/file")) as leaving:
            leaving.ask_for(0, 16 << 20)
            assert leaving.begins() == content[:1000]
            assert readers() >= 1
    assert eventually(lambda: readers() == 0)
    with File(server.port, server.path("01/store/file")) as staying:
        assert staying.read(5, 1 << 20) == content[5 : 5 + (1 << 20)]
    assert sent(server) > 20
    assert server.segment()["header"]["internal_errors"] == 0

# SPDX-License-Identifier: Apache-2.0
"""Who is told to come back later, or to go elsewhere: he does, others are served, and clients of HTTP get an error."""

import os
import shutil
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import pytest
from bench import OPEN_HOUSE
from certificates import Certificates
from conftest import FILE_BYTES, batch_port_of
from info import ask
from relay import Relay
from server import Server, free_port
from session import Session
from test_measuring import eventually
from test_shaping import command

# DirListFlags::Cksm, which the bindings do not name.
LIST_WITH_CHECKSUMS = """
import sys
from XRootD import client
status, found = client.FileSystem(sys.argv[1]).dirlist(f"{sys.argv[2]}?cks.type={sys.argv[3]}", 64)
print(len(list(found)) if status.ok else "refused")
"""


@contextmanager
def hung(server: Server, *names: str) -> Iterator[None]:
    """FIFOs stand for files on a hung disk: they can be opened when the block ends."""
    for name in names:
        os.mkfifo(server.data / name)
        shutil.chown(server.data / name, "xrootd")
    try:
        yield
    finally:
        for name in names:
            os.close(os.open(server.data / name, os.O_RDWR | os.O_NONBLOCK))


def under_way(server: Server, user: str) -> dict[str, Any]:
    users = {one["name"]: one for one in ask(server.info_socket, "stat")["users"]}
    return dict(users.get(user, {"in_flight": 0, "stalls": 0}))


def test_who_has_as_many_requests_under_way_as_he_may_comes_back_later(server: Server, tmp_path: Path) -> None:
    server.write_config(append="beer.threads user:batch 2\n")
    server.start()
    files = ["02/store/hung-1", "02/store/hung-2"]
    log = tmp_path / "client.log"
    logged = {"XRD_LOGLEVEL": "Dump", "XRD_LOGFILE": str(log)}
    with batch_port_of(server) as port, ExitStack() as clients:
        stat = ("xrdfs", f"127.0.0.1:{port}", "stat", server.path("01/store/file"))
        copies = [("xrdcp", "-s", "-f", server.url(name, port=port), "/dev/null") for name in files]
        with hung(server, *files):
            for copy in copies:
                clients.enter_context(command(server, *copy))
            assert eventually(lambda: under_way(server, "batch")["in_flight"] == 2)
            assert server.count("stall.batch") == 0
            third = clients.enter_context(command(server, *stat, env=logged))
            assert eventually(lambda: server.count("stall.batch") > 0)
            assert under_way(server, "batch")["stalls"] > 0
            lines = {line["name"]: line["total"] for line in ask(server.info_socket, "stat")["metadata"]}
            assert lines["Stall::threads::batch"] > 0
            assert eventually(lambda: "you have 2 requests under way, 2 are allowed" in log.read_text())
            server.run("xrdcp", "-s", "-f", server.url("01/store/file"), "/dev/null")
            assert third.poll() is None, "it was told to come back"
        assert third.wait(timeout=60) == 0
    assert eventually(lambda: under_way(server, "batch")["in_flight"] == 0)
    assert server.count("stall.storage") == 0


def test_a_listing_that_xrootd_forgets_is_not_under_way_for_ever(server: Server) -> None:
    server.write_config(append="beer.threads user:storage 2\n")
    server.start()
    words = [sys.executable, "-c", LIST_WITH_CHECKSUMS, f"root://127.0.0.1:{server.port}", server.path("01/store")]
    entries = str(len(list((server.data / "01/store").iterdir())))
    for algorithm, answer in (("md5", "refused"), ("adler32", entries)):  # the server has no md5
        for _ in range(3):
            done = server.run(*words, algorithm)
            assert done.stdout.split() == [answer]
    assert eventually(lambda: under_way(server, "storage")["in_flight"] == 0)
    assert under_way(server, "storage")["stalls"] == 0


def test_an_overloaded_server_sends_clients_to_another_one(
    server: Server, other: Server, content: bytes, tmp_path: Path
) -> None:
    # It has the same files.
    other.write_config(OPEN_HOUSE | {"all.export": f"all.export {server.data}", "beer.fs": f"beer.fs {server.data}/01"})
    elsewhere = {"xrootd.fsoverload": f"xrootd.fsoverload redirect 127.0.0.1:{other.port}"}
    server.write_config(OPEN_HOUSE | elsewhere, append=f"beer.overload {server.data}/01 readers 1\n")
    server.start()
    other.start()
    with Session(server.url("01/store/file"), server.client_env()) as first:
        with server.counting(read_storage_bytes=0), other.counting(read_storage_bytes=FILE_BYTES):
            server.run("xrdcp", "-s", server.url("01/store/file"), tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == content
        with server.counting(read_storage_bytes=4096), other.counting(read_storage_bytes=0):
            assert first.call("read", 0, 4096) == [content[:4096]], "who is in is served"
    assert server.count("stall") == 0
    with server.counting(read_storage_bytes=FILE_BYTES), other.counting(read_storage_bytes=0):
        server.run("xrdcp", "-s", "-f", server.url("01/store/file"), tmp_path / "copy")


# A stall breaks the HTTP bridge of XRootD 5.8.


def start_http(server: Server, *lines: str) -> int:
    """Its port."""
    port = free_port()
    for name in ("01/store/small", "02/store/small"):
        (server.data / name).write_bytes(b"small")
    append = "\n".join([f"xrd.protocol http:{port} libXrdHttp.so", *lines, ""])
    server.write_config({"ofs.authorize": "# everybody may"}, append=append)
    server.start()
    return port


def get(server: Server, port: int, name: str) -> int:
    """The status; 0 = something else came."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{server.path(name)}", timeout=30) as answer:
            return int(answer.status) if answer.read() == b"small" else 0
    except urllib.error.HTTPError as error:
        return error.code


def test_a_client_of_http_gets_an_error_and_no_stall(server: Server) -> None:
    port = start_http(server, "beer.metarate user:* OpenRead 1/s")
    answers = [get(server, port, "01/store/small") for _ in range(40)]
    assert answers[0] == 200
    assert set(answers) == {200, 500}, answers
    assert eventually(lambda: get(server, port, "01/store/small") == 200)
    assert server.count("stall") == 0


@contextmanager
def one_place_taken(server: Server) -> Iterator[None]:
    with Session(server.url("01/store/file"), server.client_env()):
        yield


@contextmanager
def batch_held(server: Server) -> Iterator[None]:
    server.control.limit(0)
    yield
    server.control.lift()


@contextmanager
def being_opened(server: Server) -> Iterator[None]:
    """XRootD itself tells who opens a file to come back while it is being opened for somebody else."""
    words = ["xrdcp", "-s", "-f", server.url("01/store/hung"), "/dev/null"]
    with (
        hung(server, "01/store/hung"),
        subprocess.Popen(words, env=server.client_env(), stderr=subprocess.DEVNULL) as first,
    ):
        try:
            assert eventually(lambda: under_way(server, "storage")["in_flight"] == 1)
            yield
        finally:
            first.kill()


@pytest.mark.parametrize(
    ("line", "meanwhile", "name", "comes_from", "innocent"),
    [
        ("beer.overload {data}/01 readers 1", one_place_taken, "01/store/small", "127.0.0.1", "02/store/small"),
        ("", batch_held, "01/store/small", "127.0.0.2", "01/store/small"),
        ("", being_opened, "01/store/hung", "127.0.0.1", "01/store/small"),
    ],
    ids=["overload", "guard", "lower layer"],
)
def test_whoever_would_stall_a_client_of_http_it_gets_an_error(
    server: Server,
    line: str,
    meanwhile: Callable[[Server], AbstractContextManager[None]],
    name: str,
    comes_from: str,
    innocent: str,
) -> None:
    port = start_http(server, line.format(data=server.data))
    with Relay(port, comes_from) as relay:
        with meanwhile(server):
            assert {get(server, relay.port, name) for _ in range(3)} == {500}
            assert get(server, port, innocent) == 200
        assert server.count("stall") == 0
        if meanwhile is not being_opened:  # which is no file
            assert eventually(lambda: get(server, relay.port, name) == 200)


def test_a_certificate_does_not_make_it_http(server: Server) -> None:
    known = Certificates(server.folder / "certificates")
    port = free_port()
    lines = [
        "beer.metarate user:* OpenRead 1/s",
        f"xrd.tls {known.folder}/host.pem {known.folder}/host.key",
        f"xrd.tlsca certdir {known.authorities}",
        f"xrd.protocol http:{port} libXrdHttp.so",
    ]
    server.write_config(known.directives, append="\n".join([*lines, ""]))
    server.start()
    by_http = ssl.create_default_context(capath=str(known.authorities))
    by_http.load_cert_chain(known.folder / "user.pem", known.folder / "user.key")

    (server.data / "01/store/small").write_bytes(b"small")

    def get_once() -> int:
        with closing(HTTPSConnection("127.0.0.1", port, timeout=30, context=by_http)) as connection:
            connection.request("GET", server.path("01/store/small"))
            answer = connection.getresponse()
            return answer.status if answer.status != 200 or answer.read() == b"small" else 0

    answers = {get_once() for _ in range(12)}
    assert answers == {200, 500}
    assert server.count("stall") == 0
    plain = server.url("01/store/file")
    for url in (plain, plain.replace("root://", "roots://")):
        before = server.count("stall.storage")
        read = ("xrdcp", "-s", "-f", url, "/dev/null")
        with ExitStack() as clients:
            copies = [clients.enter_context(command(server, *read, env=known.client_env)) for _ in range(8)]
            assert eventually(lambda count=before: server.count("stall.storage") > count)
            assert [copy.wait(timeout=100) for copy in copies] == [0] * len(copies), "they came back"

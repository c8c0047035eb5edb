# SPDX-License-Identifier: Apache-2.0
"""What the guard says to a running server: batch waits, storage does not, and nothing is lost or changed.

Bounds on time are those that no slow machine can break: batch never gets more than its rate.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import FILE_BYTES, batch_port_of
from page_cache import forget, in_memory
from server import PATIENT, Server, ServerError, use_policy
from session import Session, SessionError
from test_measuring import READERS, eventually

MB = 1_000_000
MIB = 1 << 20


@contextmanager
def command(
    server: Server, *words: str | Path, env: dict[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """A batch client that runs meanwhile."""
    all_env = server.client_env("batch") | PATIENT | (env or {})
    with subprocess.Popen([str(word) for word in words], env=all_env, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def moved(server: Server) -> int:
    return server.count("read.batch", "bytes") + server.count("write.batch", "bytes")


def stands_still(server: Server) -> bool:
    before = moved(server)
    time.sleep(0.3)
    return moved(server) == before


@pytest.mark.parametrize("reader", READERS)
def test_a_limit_of_zero_holds_a_transfer_under_way(
    running: Server, batch_port: int, content: bytes, tmp_path: Path, reader: str
) -> None:
    running.control.limit(2 * MB)
    url = running.url("01/store/file", port=batch_port)
    with command(running, "xrdcp", "-s", "-f", url, tmp_path / "copy", env=READERS[reader]) as copy:
        assert eventually(lambda: moved(running) > 0)
        running.control.limit(0)
        assert eventually(lambda: stands_still(running))
        assert moved(running) < FILE_BYTES
        with running.counting(read_storage_bytes=FILE_BYTES):
            running.run("xrdcp", "-s", running.url("01/store/file"), tmp_path / "other")
        assert copy.poll() is None
        assert stands_still(running)
        running.control.lift()
        assert copy.wait(timeout=60) == 0
    assert (tmp_path / "copy").read_bytes() == content
    assert running.count("pacing.batch") > 0
    assert running.count("pacing.storage") == 0


@pytest.mark.parametrize("what", ["read", "write", "vector read"])
def test_batch_never_gets_more_than_its_rate(
    running: Server, batch_port: int, content: bytes, tmp_path: Path, what: str
) -> None:
    rate, burst, piece = 4 * MB, 4 * MB // 20, 2 * 1024 * 1024
    source = tmp_path / "source"
    source.write_bytes(content[: 8 * MB])
    running.control.limit(rate)
    start, began = moved(running), time.monotonic()
    if what == "read":
        words = ["xrdcp", "-s", "-f", running.url("01/store/file", port=batch_port), tmp_path / "copy"]
    else:
        words = ["xrdcp", "-s", source, running.url("02/jobs/new", port=batch_port)]
    if what == "vector read":
        with Session(running.url("01/store/file", port=batch_port), running.client_env("batch")) as file:
            for _ in range(4):
                pieces = [(n * MB, 128 * 1024) for n in range(16)]
                assert file.call("vector_read", pieces) == [content[at : at + size] for at, size in pieces]
                got, took = moved(running) - start, time.monotonic() - began
                assert got <= rate * took + burst + piece, f"{got} bytes in {took:.2f} s"
        return
    with command(running, *words) as copy:
        while copy.poll() is None:
            got, took = moved(running) - start, time.monotonic() - began
            assert got <= rate * took + burst + piece, f"{got} bytes in {took:.2f} s"
            time.sleep(0.05)
        assert copy.returncode == 0, copy.stderr and copy.stderr.read()
    assert moved(running) - start == (FILE_BYTES if what == "read" else 8 * MB)


def test_operations_are_limited_too(running: Server, batch_port: int, content: bytes) -> None:
    running.control.limit(operations=10)
    with Session(running.url("01/store/file", port=batch_port), running.client_env("batch")) as file:
        began = time.monotonic()
        for n in range(6):
            assert file.call("read", n * 4096, 4096) == [content[n * 4096 : (n + 1) * 4096]]
        pieces = [(n * MB, 1000) for n in range(6)]
        assert file.call("vector_read", pieces) == [content[at : at + size] for at, size in pieces]
        assert time.monotonic() - began >= 1.05, "twelve reads at ten per second, the first at once"


def test_without_a_renewal_everything_goes_on(running: Server, batch_port: int, content: bytes) -> None:
    with Session(running.url("01/store/file", port=batch_port), running.client_env("batch")) as file:
        began = time.monotonic()
        running.control.limit(0, lease=3.0)
        time.sleep(0.5)
        assert file.call("read", 0, 4096) == [content[:4096]]
        assert time.monotonic() - began >= 2.9, "it was held"


def test_a_held_client_that_vanishes_leaves_nothing_behind(running: Server, batch_port: int, tmp_path: Path) -> None:
    running.control.limit(1 * MB)
    url = running.url("01/store/file", port=batch_port)
    with command(running, "xrdcp", "-s", "-f", url, tmp_path / "copy"):
        assert eventually(lambda: running.segment()["filesystems"][0]["open_readers"] == 1)
        running.control.limit(0)
        assert eventually(lambda: stands_still(running))
    running.control.lift()
    assert eventually(lambda: running.segment()["filesystems"][0]["open_readers"] == 0)
    running.run("xrdcp", "-s", "-f", url, tmp_path / "again", user="batch")
    assert running.segment()["header"]["internal_errors"] == 0


def test_more_batch_connections_than_may_be_held_come_back_later(server: Server) -> None:
    server.write_config(
        {"xrd.sched": "xrd.sched mint 8 maxt 32 avlt 4 idle 60", "xrootd.fsoverload": "xrootd.fsoverload stall 1"}
    )
    server.start()
    with batch_port_of(server) as port:
        url, env = server.url("01/store/file", port=port), server.client_env("batch")
        first, second = Session(url, env), Session(url, env)
        with command(server, "xrdcp", "-s", "-f", url, "/dev/null") as third:
            time.sleep(1.5)
            assert third.poll() is None, "it was told to come back"
            assert server.count("read.batch") == 0
            server.run("xrdcp", "-s", "-f", server.url("01/store/file"), "/dev/null")
            for one in (first, second):
                one.__exit__(None, None, None)
            assert third.wait(timeout=60) == 0


# What is configured


@pytest.fixture
def with_policy(server: Server) -> Server:
    """A server whose policy file limits the application `slow`."""
    use_policy(server, "# comment\nbeer.policy app:slow r bandwidth 2MB/s\n")
    server.start()
    return server


def test_two_applications_read_one_file_at_their_own_pace(with_policy: Server, content: bytes, tmp_path: Path) -> None:
    url = with_policy.url("01/store/file")
    rate, burst, piece = 2 * MB, 2 * MB // 20, 2 * 1024 * 1024
    with Session(f"{url}?eos.app=slow", with_policy.client_env()) as slow:
        began, got = time.monotonic(), 0
        while got < 3 * MB:
            assert slow.call("read", got, MB) == [content[got : got + MB]]
            got += MB
            assert got <= rate * (time.monotonic() - began) + burst + piece
        paced = with_policy.count("pacing.storage")
        assert paced > 0
        with_policy.run("xrdcp", "-s", f"{url}?eos.app=other", tmp_path / "copy")
        assert with_policy.count("pacing.storage") == paced, "the other application never waits"
    assert (tmp_path / "copy").read_bytes() == content


def test_a_new_policy_reaches_a_transfer_under_way_and_a_bad_one_nothing(
    with_policy: Server, content: bytes, tmp_path: Path
) -> None:
    use_policy(with_policy, "beer.policy app:slow r bandwidth 0B/s\n")
    assert eventually(lambda: "new policy from" in with_policy.log())
    words = ["xrdcp", "-s", with_policy.url("01/store/file") + "?eos.app=slow", str(tmp_path / "copy")]
    with subprocess.Popen(words, env=with_policy.client_env()) as copy:
        time.sleep(1.0)
        use_policy(with_policy, "beer.policy app:slow r bandwidth fast\n")
        assert eventually(lambda: "the old policy stays" in with_policy.log())
        assert "policy:1: beer.policy 'fast' is not a rate" in with_policy.log()
        assert copy.poll() is None
        assert with_policy.count("read.storage", "bytes") == 0
        use_policy(with_policy, "")
        assert copy.wait(timeout=60) == 0
    assert (tmp_path / "copy").read_bytes() == content


def test_a_bad_policy_keeps_the_server_from_starting(server: Server) -> None:
    use_policy(server, "beer.policy app:slow r bandwith 2MB/s\n")
    with pytest.raises(ServerError, match=r"policy:1: beer\.policy 'bandwith' is not iotype"):
        server.start()


def assert_paced(server: Server, url: str, content: bytes, rate: int) -> None:
    """3 MB are read at no more than the rate."""
    with Session(url, server.client_env()) as file:
        began = time.monotonic()
        for n in range(3):
            assert file.call("read", n * MB, MB) == [content[n * MB : (n + 1) * MB]]
        assert time.monotonic() - began >= (3 * MB - rate / 20) / rate
    assert server.count("pacing.storage") > 0


def test_the_operator_limits_a_directory_and_asks_for_more(server: Server, content: bytes) -> None:
    os.setxattr(server.data / "01", "user.beer.forced.bandwidth.r", b"2MB/s")
    os.setxattr(server.data / "01", "user.beer.forced.iops.w", b"lots")
    use_policy(server, "beer.operator batch\n")
    server.start()
    url = server.url("01/store/file")
    assert_paced(server, url, content, rate=2 * MB)
    assert "01: attribute user.beer.forced.iops.w does not count: 'lots' is not" in server.log()
    paced = server.count("pacing.storage")
    with Session(f"{url}?eos.iobw=unlimited", server.client_env("batch")) as file:
        assert file.call("read", 0, 8 * MB) == [content[: 8 * MB]]
    assert server.count("pacing.storage") == paced, "an operator gets what he asks for"
    assert_paced(server, f"{url}?eos.iobw=unlimited", content, rate=2 * MB)
    with (
        pytest.raises(SessionError, match=r"eos\.iobw: 'quick' is not"),
        Session(f"{url}?eos.iobw=quick", server.client_env("batch")),
    ):
        pass


# How a request reaches the disk


def open_flags(server: Server, name: str) -> list[int]:
    """Of each descriptor that the server has of this file."""
    found = []
    for descriptor in Path(f"/proc/{server.pid}/fd").iterdir():
        if descriptor.resolve() == (server.data / name).resolve():
            text = (Path(f"/proc/{server.pid}/fdinfo") / descriptor.name).read_text()
            found.append(int(text.split("flags:")[1].split()[0], 8))
    return found


@pytest.mark.parametrize("kind", ["buffered", "direct", "sync", "csync"])
def test_every_io_type_reads_and_writes_the_same_bytes(
    server: Server, content: bytes, tmp_path: Path, kind: str
) -> None:
    server.write_config(append=f"beer.policy app:typed rw iotype {kind} iopriority be:6\n")
    server.start()
    with Session(server.url("01/store/file") + "?eos.app=typed", server.client_env()) as file:
        assert file.call("read", 0, 2 * MB) == [content[: 2 * MB]]
        assert file.call("read", 4096 * 100, 4096 * 10) == [content[4096 * 100 : 4096 * 110]]
        assert file.call("read", FILE_BYTES - 100, 4096) == [content[-100:]]
        direct = [flags & os.O_DIRECT for flags in open_flags(server, "01/store/file")]
        assert any(direct) == (kind == "direct")
        assert not all(direct)
    source = tmp_path / "source"
    source.write_bytes(content[: 3 * MB + 17])
    server.run("xrdcp", "-s", source, server.url("02/store/new") + "?eos.app=typed")
    assert (server.data / "02/store/new").read_bytes() == content[: 3 * MB + 17]
    server.run("xrdcp", "-s", "-f", server.url("02/store/new"), tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == content[: 3 * MB + 17]
    assert server.segment()["header"]["internal_errors"] == 0


def start_with_a_cold_file(server: Server, policy: str) -> Path:
    """The file, of which nothing is in memory."""
    use_policy(server, policy)
    server.start()
    path = server.data / "01/store/file"
    forget(path)
    return path


@pytest.mark.on_disk
def test_direct_reads_go_past_the_page_cache(server: Server, content: bytes) -> None:
    path = start_with_a_cold_file(server, "beer.policy app:past r iotype direct\n")
    with Session(server.url("01/store/file") + "?eos.app=past", server.client_env()) as file:
        for n in range(8):
            assert file.call("read", n * MIB, MIB) == [content[n * MIB : (n + 1) * MIB]]
        assert in_memory(path) == 0
    with Session(server.url("01/store/file"), server.client_env()) as other:

        def read_and_kept() -> bool:
            assert other.call("read", 0, MIB) == [content[:MIB]]
            return in_memory(path) >= MIB

        # Whoever runs this machine may empty its page cache at any moment.
        assert any(read_and_kept() for _ in range(3))


@pytest.mark.on_disk
def test_a_long_stretch_is_read_ahead_for_those_who_are_meant(server: Server, content: bytes) -> None:
    path = start_with_a_cold_file(server, "beer.policy app:far r readahead 4MiB\nbeer.trust far *\n")
    with Session(server.url("01/store/file"), server.client_env()) as other:
        assert other.call("read", 0, 4096) == [content[:4096]]
        time.sleep(0.2)
        assert 0 < in_memory(path) < 4 << 20, "what the kernel does by itself"
    forget(path)
    with Session(server.url("01/store/file") + "?eos.app=far", server.client_env()) as far:
        assert far.call("read", 0, 4096) == [content[:4096]]
        assert eventually(lambda: in_memory(path) >= 4 << 20)
        assert in_memory(path) <= 5 << 20
        assert far.call("read", 2 << 20, 4096) == [content[2 << 20 : (2 << 20) + 4096]], "begins no stretch"
        time.sleep(0.2)
        assert in_memory(path) <= 5 << 20


# Overload


def test_an_overloaded_filesystem_takes_new_files_again_when_others_are_closed(server: Server) -> None:
    server.write_config(
        {"xrootd.fsoverload": "xrootd.fsoverload stall 1"}, append=f"beer.overload {server.data}/01 readers 3\n"
    )
    server.start()
    url, env = server.url("01/store/file"), server.client_env()

    def flags() -> list[int]:
        return [record["flags"] for record in server.segment()["filesystems"]]

    open_files = [Session(url, env) for _ in range(3)]
    assert flags() == [1, 0]
    words = ["xrdcp", "-s", "-f", url, "/dev/null"]
    with subprocess.Popen(words, env=env) as late:
        time.sleep(1.5)
        assert late.poll() is None, "it was told to come back"
        assert open_files[0].call("read", 0, 10), "who is in is served"
        server.run("xrdcp", "-s", server.data / "01/store/file", server.url("02/store/other"))  # another disk
        open_files.pop().__exit__(None, None, None)
        assert late.wait(timeout=60) == 0
    for one in open_files:
        one.__exit__(None, None, None)
    assert eventually(lambda: flags() == [0, 0])


# Metadata


def test_a_storm_of_requests_is_told_to_come_back_and_does(server: Server) -> None:
    server.write_config(append="beer.metarate user:storage Stat 1/s\n")
    server.start()
    commands = f"stat {server.path('01/store/file')}\n" * 8
    began = time.monotonic()
    said = server.run("sh", "-c", f"printf '{commands}' | xrdfs 127.0.0.1:{server.port}").stdout
    assert said.count("20000000") == 8
    assert time.monotonic() - began >= 5, "it was told to wait"
    assert server.count("stall.storage") > 0
    server.run("xrdcp", "-s", "-f", server.url("01/store/file"), "/dev/null")  # other operations go on


def test_who_is_banned_is_told_so_and_others_are_served(server: Server, tmp_path: Path) -> None:
    use_policy(server, "beer.ban batch\n")
    server.start()
    refused = server.xrdfs("stat", server.path("01/store/file"), user="batch", check=False)
    assert refused.returncode != 0
    assert "banned" in refused.stdout + refused.stderr
    server.xrdfs("stat", server.path("01/store/file"))
    use_policy(server, "")
    path = server.path("01/store/file")
    assert eventually(lambda: server.xrdfs("stat", path, user="batch", check=False).returncode == 0)

# SPDX-License-Identifier: Apache-2.0
"""Whom a limit is for, and what it does to several streams at the same time.

Rates are bytes over the time in the same run. None of them can be too high on a slow machine, and those that are
compared with each other are far below what any machine can do.
"""

import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import pytest
from conftest import FILE_BYTES, batch_port_of
from control import EVERY, UNLIMITED
from server import PATIENT, Server, own_disk, use_policy
from session import Session
from test_info import streams
from test_measuring import eventually
from test_shaping import MB


@dataclass
class Window:
    """A stretch of time, and what each application has read in it."""

    seconds: float
    read: dict[str, int]

    @property
    def together(self) -> int:
        return sum(self.read.values())

    @property
    def rate(self) -> float:
        return self.together / self.seconds


def most(rate: int, seconds: float) -> float:
    """Bytes that two streams get by such a limit: a twentieth of a second at once after a pause, pieces of a tenth."""
    return rate * seconds + rate / 20 + 2 * rate / 10


def window(server: Server, size: int, *apps: str) -> Window:
    """Until these applications together have read `size` more. All are at it when it begins."""

    def read() -> dict[str, int]:
        return {one["app"]: one["read"]["bytes"] for one in streams(server) if one["app"] in apps}

    assert eventually(lambda: len(read()) == len(apps) and all(read().values()))
    began, before = time.monotonic(), read()
    assert eventually(lambda: sum(read().values()) - sum(before.values()) >= size)
    after = read()
    return Window(time.monotonic() - began, {app: after[app] - before[app] for app in apps})


def new_policy(server: Server, text: str) -> None:
    """Returns when it is in force."""
    before = server.log().count("new policy from")
    use_policy(server, text)
    assert eventually(lambda: server.log().count("new policy from") > before)


def both_have_the_file(server: Server) -> None:
    shutil.copy(server.data / "01/store/file", server.data / "02/store/file")
    shutil.chown(server.data / "02/store/file", "xrootd", "xrootd")


# The guard


def test_what_a_limit_holds_is_never_latency_of_the_disk(running: Server, batch_port: int, content: bytes) -> None:
    with (
        Session(running.url("01/store/file", port=batch_port), running.client_env("batch") | PATIENT) as held,
        Session(running.url("01/store/file"), running.client_env()) as free,
    ):
        running.control.limit(0)
        held.ask("read", 0, MB)

        def held_ns() -> int:
            return sum(one["waits_for_ns"] or 0 for one in streams(running) if one["class"] == "batch")

        assert eventually(lambda: held_ns() > 2e9)
        assert free.call("read", 0, MB) == [content[:MB]]
        at_least = held_ns()
        running.control.lift()
        assert held.answer() == [content[:MB]]
    assert running.count("pacing.batch", "sum_ns") >= at_least
    assert running.count("read.batch", "bytes") == MB
    assert 0 < running.count("read.batch", "sum_ns") < at_least, "all of its pieces together"
    assert running.count("pacing.storage") == 0


def test_the_guard_holds_one_filesystem_and_not_the_other(server: Server, content: bytes) -> None:
    server.prefix = own_disk(server.data / "02", "64m")
    server.start()
    server.run("xrdcp", "-s", "-p", server.data / "01/store/file", server.url("02/store/file"))
    first, second = ((one["major"], one["minor"]) for one in server.segment()["filesystems"])
    assert first != second
    nothing, everything = (0, UNLIMITED), (UNLIMITED, UNLIMITED)
    said = [
        ("01", "02", [(*first, *nothing), (*second, *everything)]),
        ("02", "01", [(*first, *everything), (*second, *nothing)]),
        ("02", "01", [(EVERY, EVERY, *nothing), (*first, *everything)]),
        ("01", "02", [(*first, *nothing)]),
    ]
    with batch_port_of(server) as port, ExitStack() as stack:
        env = server.client_env("batch") | PATIENT
        open_files = {
            disk: stack.enter_context(Session(server.url(f"{disk}/store/file", port=port), env))
            for disk in ("01", "02")
        }

        def waits(disk: str) -> bool:
            path = server.path(f"{disk}/store/file")
            return [one["requests_waiting"] for one in streams(server) if one["path"] == path] == [1]

        for held, free, records in said:
            server.control.write(records, lease=50.0)
            server.control.wait()
            open_files[held].ask("read", 0, MB)
            assert eventually(partial(waits, held))
            assert open_files[free].call("read", 0, MB) == [content[:MB]]
            server.xrdfs("stat", server.path(f"{free}/store/file"), user="batch", port=port)
            for disk in ("01", "02"):
                server.run("xrdcp", "-s", "-f", server.url(f"{disk}/store/file"), "/dev/null")
            assert waits(held), records
            server.control.lift()
            assert open_files[held].answer() == [content[:MB]]
    assert server.count("stall.batch") == server.count("pacing.storage") == 0


# A limit that many share


@pytest.mark.parametrize(
    ("rules", "sharers", "innocent"),
    [
        ("beer.share user:storage r bandwidth 4MB/s\n", [("storage", "01"), ("storage", "02")], ("batch", "01")),
        (
            "beer.space slow {data}/01\nbeer.share space:slow r bandwidth 4MB/s\n",
            [("storage", "01"), ("batch", "01")],
            ("storage", "02"),
        ),
    ],
    ids=["user", "space"],
)
def test_who_shares_a_limit_has_half_of_it(
    server: Server, content: bytes, rules: str, sharers: list[tuple[str, str]], innocent: tuple[str, str]
) -> None:
    both_have_the_file(server)
    use_policy(server, rules.format(data=server.data))
    server.start()

    def opened(user: str, disk: str, app: str) -> Session:
        return Session(f"{server.url(f'{disk}/store/file')}?eos.app={app}", server.client_env(user) | PATIENT)

    with opened(*sharers[0], "one") as one, opened(*sharers[1], "two") as two, opened(*innocent, "innocent") as free:
        for session in (one, two):
            session.ask("read", 0, FILE_BYTES)
        found = window(server, 8 * MB, "one", "two")
        assert found.together <= most(4 * MB, found.seconds), found
        for app, read in found.read.items():
            assert 0.3 < read / found.together < 0.7, (app, found)
        assert free.call("read", 0, FILE_BYTES) == [content]
        waits = {each["app"]: each["waits"] for each in streams(server)}
        assert min(waits["one"], waits["two"]) > 0, waits
        assert waits["innocent"] == 0
        new_policy(server, "")
        assert one.answer() == two.answer() == [content]


def test_two_users_of_one_file_have_each_the_limit_of_their_application(server: Server, content: bytes) -> None:
    """XRootD shares one storage object among them."""
    use_policy(server, "beer.policy app:slow r bandwidth 1MB/s\nbeer.policy app:quick r bandwidth 4MB/s\n")
    server.start()
    url = server.url("01/store/file")
    with (
        Session(f"{url}?eos.app=slow", server.client_env("storage") | PATIENT) as one,
        Session(f"{url}?eos.app=quick", server.client_env("batch") | PATIENT) as two,
        Session(url, server.client_env("storage")) as free,
    ):
        for session in (one, two):
            session.ask("read", 0, FILE_BYTES)
        found = window(server, 5 * MB, "slow", "quick")
        assert found.read["slow"] <= most(1 * MB, found.seconds), found
        assert found.read["quick"] <= most(4 * MB, found.seconds), found
        assert found.read["quick"] > 2 * found.read["slow"], found
        assert free.call("read", 0, FILE_BYTES) == [content]
        shown = {each["app"]: (each["user"], each["by"], each["waits"] > 0) for each in streams(server)}
        assert shown == {
            "slow": ("storage", "app r", True),
            "quick": ("batch", "app r", True),
            "default": ("storage", None, False),
        }
        new_policy(server, "")
        assert one.answer() == two.answer() == [content]


# A limit that changes


def by_guard(server: Server, rate: int) -> None:
    server.control.limit(rate)


def by_policy(server: Server, rate: int) -> None:
    new_policy(server, f"beer.policy user:batch r bandwidth {rate}B/s\n")


@pytest.mark.parametrize("limit", [by_guard, by_policy])
def test_another_rate_counts_for_a_transfer_under_way(
    running: Server, batch_port: int, content: bytes, limit: Callable[[Server, int], None]
) -> None:
    limit(running, 1 * MB)
    url = running.url("01/store/file", port=batch_port) + "?eos.app=changing"
    with (
        Session(url, running.client_env("batch") | PATIENT) as file,
        Session(running.url("01/store/file"), running.client_env()) as free,
    ):
        file.ask("read", 0, FILE_BYTES)
        slow = window(running, 2 * MB, "changing").rate
        # No more than that: the file must not be over before the last rate is in force.
        limit(running, 4 * MB)
        quick = window(running, 4 * MB, "changing").rate
        limit(running, 1 * MB + 1)
        slow_again = window(running, 2 * MB, "changing").rate
        assert quick > 2 * max(slow, slow_again), (slow, quick, slow_again)
        assert free.call("read", 0, FILE_BYTES) == [content]
        limit(running, 1000 * MB)
        assert file.answer() == [content]
    assert running.count("pacing.storage") == 0
    assert running.segment()["header"]["internal_errors"] == 0

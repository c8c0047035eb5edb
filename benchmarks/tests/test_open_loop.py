# SPDX-License-Identifier: Apache-2.0
"""The open loop with a pretended server: what it records when answers fail, come late or never come."""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from beerbench.client.connections import Pool
from beerbench.client.inflight import InFlight
from beerbench.client.open_loop import OpenLoop
from beerbench.client.progress import Progress
from beerbench.client.samples import Header, Writer
from beerbench.timeline.requests import Requests


class Status:
    def __init__(self, ok: bool) -> None:
        self.ok = ok
        self.message = "" if ok else "no such luck"


class FakeReader:
    """Answers after `delay`; fails while `broken`; says nothing while `mute`."""

    broken = False
    mute = False
    opened = 0

    def open(self, _url: str, callback: Callable[[Any, Any, Any], None]) -> Status:
        FakeReader.opened += 1
        callback(Status(not self.broken), None, None)
        return Status(True)

    def stat_size(self) -> int:
        return 1 << 30

    def read(self, _offset: int, size: int, callback: Callable[[Any, Any, Any], None]) -> Status:
        if not self.mute:
            ok = not self.broken
            threading.Timer(0.005, callback, (Status(ok), b"x" * size if ok else None, None)).start()
        return Status(True)


def loop(tmp_path: Path, reader: type[FakeReader], rate: float, duration: float) -> OpenLoop:
    pool = Pool("nowhere:1", [["/a"], ["/b"]], 2, make_reader=reader)
    pool.open_all(5)
    options = argparse.Namespace(
        rate=rate,
        duration=duration,
        size=100,
        stride=1000,
        seed=1,
        even=True,
        connections=2,
        start_at=None,
        stop_file=None,
        drain=0.1,
        out=tmp_path / "samples",
    )
    return OpenLoop(options, pool)


def run(tmp_path: Path, reader: type[FakeReader], rate: float = 200, duration: float = 0.5) -> Requests:
    loop(tmp_path, reader, rate, duration).run()
    return Requests.load(tmp_path / "samples")


def test_every_request_is_recorded_once(tmp_path: Path) -> None:
    found = run(tmp_path, FakeReader)
    assert len(found) == 100
    assert found.failed == found.unanswered == 0
    assert list(found.disk[:4]) == [0, 1, 0, 1]
    assert 0.004 < found.quantile(0.5) < 2


def test_an_answer_that_comes_as_the_run_ends_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # An answer is slow to be written down, as on a machine with few processors.
    add = Writer.add

    def slow_add(*arguments: Any) -> None:
        time.sleep(0.005)
        add(*arguments)

    monkeypatch.setattr(Writer, "add", slow_add)
    for _ in range(5):
        end = loop(tmp_path, FakeReader, rate=200, duration=0.1).run()
        assert len(Requests.load(tmp_path / "samples")) == end["sent"] == end["done"] == 20


def test_nothing_is_sent_once_the_run_has_ended(tmp_path: Path) -> None:
    pool = Pool("nowhere:1", [["/a"]], 1, make_reader=FakeReader)
    pool.open_all(5)
    [connection] = pool.all()
    header = Header("test", 0, 0, 1, 1, 1, pool.targets, pool.disk_of_target)
    progress = Progress()
    flight = InFlight(Writer(tmp_path / "samples", header), progress)
    assert flight.add(0, 0, connection) == 0
    assert flight.end(7) == 1
    assert flight.add(8, 8, connection) is None
    assert flight.answered(0, 9, 1, None) is None
    assert (progress.sent, len(Requests.load(tmp_path / "samples"))) == (1, 1)


def test_unanswered_requests_carry_their_age(tmp_path: Path) -> None:
    class Mute(FakeReader):
        mute = True

    found = run(tmp_path, Mute)
    assert found.unanswered == len(found) == 100
    assert 0.5 < float(found.latency.max()) < 2


def test_failures_are_infinitely_late(tmp_path: Path) -> None:
    class Broken(FakeReader):
        """Opens, then refuses every read, and cannot be opened again."""

        def open(self, _url: str, callback: Callable[[Any, Any, Any], None]) -> Status:
            callback(Status(True), None, None)
            return Status(True)

        broken = True

    found = run(tmp_path, Broken)
    assert found.failed == len(found)
    assert found.quantile(0.5) == float("inf")


def test_a_connection_that_failed_is_opened_again(tmp_path: Path) -> None:
    class Once(FakeReader):
        calls = 0

        def read(self, offset: int, size: int, callback: Callable[[Any, Any, Any], None]) -> Status:
            Once.calls += 1
            if Once.calls == 1:
                callback(Status(False), None, None)
                return Status(True)
            return super().read(offset, size, callback)

    FakeReader.opened = 0
    found = run(tmp_path, Once, duration=2.5)
    assert found.failed == 1
    assert FakeReader.opened == 5


def test_the_least_busy_connection_is_picked() -> None:
    pool = Pool("nowhere:1", [["/a"]], 3, make_reader=FakeReader)
    pool.open_all(5)
    picked = [pool.pick(0) for _ in range(6)]
    assert sorted(connection.number for connection in picked if connection) == [0, 0, 1, 1, 2, 2]


def test_idle_connections_take_turns() -> None:
    pool = Pool("nowhere:1", [["/a", "/b"]], 3, make_reader=FakeReader)
    pool.open_all(5)
    numbers = []
    for _ in range(6):
        connection = pool.pick(0)
        assert connection is not None
        numbers.append(connection.number)
        pool.done(connection, None)
    assert numbers == [0, 1, 2, 0, 1, 2]

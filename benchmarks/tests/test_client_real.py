# SPDX-License-Identifier: Apache-2.0
"""The clients against a real XRootD server: they must see what a storage user would see."""

from __future__ import annotations

import os
import signal
import time
import zlib
from itertools import pairwise
from pathlib import Path

import pytest
from beerbench.clients import ClientError, Clients, Load, Storage, Stream
from beerbench.neighbours import Sample, read
from beerbench.timeline.requests import OK, Requests
from beerbench.transfers import File, Transfers
from beerbench.waiting import wait_until
from beerlab import client_root
from conftest import Server

RATE = 100.0
# Long enough for whatever is in flight at the end of a run.
DRAIN = ["--drain", "20"]


def clients(server: Server, out: Path) -> Clients:
    out.mkdir(mode=0o755)
    return Clients(client_root(), Storage(server.endpoint, server.disks), out)


def stolen_since(sample: Sample) -> float:
    """CPU seconds that neighbours of this machine took: no request of that time waited longer for want of a CPU."""
    return (read().stolen - sample.stolen) / os.sysconf("SC_CLK_TCK")


def test_open_loop_sends_on_schedule_and_reads_both_disks(server: Server, tmp_path: Path) -> None:
    one = clients(server, tmp_path / "out")
    began = read()
    end = one.measure("open_loop", "calm", Load(duration=3, connections=3, rate=RATE, extra=DRAIN))
    found = Requests.load(tmp_path / "out/calm.samples")
    assert end["errors"] == end["outstanding"] == 0
    assert len(found) == end["sent"] == end["done"]
    assert 0.7 * 3 * RATE < len(found) < 1.3 * 3 * RATE
    assert set(found.disk) == {0, 1}
    assert abs(found.due[0] - time.time()) < 60
    assert found.quantile(0.5) < 0.05 + stolen_since(began)
    assert found.failed == found.unanswered == 0


def test_a_run_that_ends_amid_requests_counts_every_one_once(server: Server, tmp_path: Path) -> None:
    one = clients(server, tmp_path / "out")
    run = one.start("open_loop", "cut", Load(duration=60, connections=3, rate=RATE))
    run.wait_ready(30)
    time.sleep(1.0)
    server.signal(signal.SIGSTOP)
    time.sleep(0.5)
    end = run.finish(30)
    found = Requests.load(tmp_path / "out/cut.samples")
    assert end["outstanding"] == found.unanswered > 0.5 * 0.5 * RATE
    assert len(found) == end["sent"] == end["done"] + end["outstanding"]


def test_a_stall_of_the_server_is_seen_by_every_request_that_was_due_in_it(server: Server, tmp_path: Path) -> None:
    one = clients(server, tmp_path / "out")
    began = read()
    run = one.start("open_loop", "stall", Load(duration=60, connections=3, rate=RATE, extra=DRAIN))
    run.wait_ready(30)
    time.sleep(1.0)
    server.signal(signal.SIGSTOP)
    stopped = time.time()
    time.sleep(1.5)
    server.signal(signal.SIGCONT)
    time.sleep(2.0)
    run.finish(30)
    found = Requests.load(tmp_path / "out/stall.samples")
    inside = found.due_between(stopped + 0.05, stopped + 1.0)
    # Closed-loop clients would have 6 requests in the stall: one per connection.
    assert len(inside) > 0.6 * 0.95 * RATE
    assert float(inside.latency.min()) > 0.4
    assert found.due_between(stopped + 2.5, stopped + 3).quantile(0.5) < 0.1 + stolen_since(began)


def test_requests_that_are_never_answered_are_counted_with_their_age(server: Server, tmp_path: Path) -> None:
    one = clients(server, tmp_path / "out")
    run = one.start("open_loop", "dead", Load(duration=3, connections=3, rate=RATE))
    run.wait_ready(30)
    time.sleep(1.0)
    server.signal(signal.SIGSTOP)
    run.wait(30)
    found = Requests.load(tmp_path / "out/dead.samples")
    assert found.unanswered > 0.5 * RATE
    assert 1.0 < float(found.latency.max()) < 3.5


def test_the_client_goes_on_after_a_restart_of_the_server(server: Server, tmp_path: Path) -> None:
    one = clients(server, tmp_path / "out")
    began = read()
    run = one.start("open_loop", "restart", Load(duration=120, connections=3, rate=RATE, extra=DRAIN))
    run.wait_ready(30)
    time.sleep(1.0)
    server.stop()
    server.start()
    back = time.time()
    time.sleep(9.5)
    run.finish(60)
    found = Requests.load(tmp_path / "out/restart.samples")
    late = found.due_between(back + 7, back + 9)
    assert len(late) > 100
    assert late.failed == 0
    assert late.quantile(0.9) < 0.1 + stolen_since(began)


def test_saturate_counts_what_it_moves(server: Server, tmp_path: Path) -> None:
    one = clients(server, tmp_path / "out")
    end = one.measure("saturate", "full", Load(duration=1, connections=2))
    found = Requests.load(tmp_path / "out/full.samples")
    assert end["requests_per_s"] > 100
    assert end["errors"] == 0
    assert found.size[found.outcome == OK].sum() / end["seconds"] / 1e6 == pytest.approx(end["mb_s"], rel=0.01)


def test_streams_that_compete_count_what_each_moved(server: Server, tmp_path: Path) -> None:
    one = clients(server, tmp_path / "out")
    writer, reader = Stream("a", "w", "/srv/bench/data/01/new"), Stream("b", "r", server.disks[0][0])
    end = one.streams("race", [writer, reader], 1).wait(60)
    assert end["errors"] == []
    assert all(rate > 0.1 for rate in end["mb_s"])
    assert (server.folder / "data/01/new").stat().st_size > 0
    with pytest.raises(ClientError, match=r"streams: /srv/bench/data/none: .*no such file"):
        one.streams("none", [Stream("a", "r", "/srv/bench/data/none")], 1).wait(60)


def test_clients_that_copy_say_how_long_each_took(server: Server, tmp_path: Path) -> None:
    one = clients(server, tmp_path / "out")
    seen: list[dict[str, float]] = []
    run = one.copies("copies", 2, 1 << 20, [1.0, 0.0], 60, seen.append)
    wait_until(lambda: len(seen) >= 4, 30, "four copies are done")
    run.finish(30)
    assert {copy["copy"] for copy in seen} == {0}, "the other disk has no weight"
    assert not any(copy["error"] for copy in seen)
    assert all(0 < copy["seconds"] < 30 for copy in seen)


def test_clients_that_copy_once_each_read_another_place(server: Server, tmp_path: Path) -> None:
    one = clients(server, tmp_path / "out")
    one.storage.disks.pop()
    seen: list[dict[str, float]] = []
    one.copies_once("once", 6, 2 << 20, 1 << 20, seen.append, stagger=0.2).wait(60)
    assert [copy["copy"] for copy in seen] == [0] * 6
    assert not any(copy["error"] for copy in seen)
    assert all(0 < copy["opening"] < copy["seconds"] < 30 for copy in seen)
    starts = sorted(copy["start"] for copy in seen)
    assert all(later - sooner > 0.15 for sooner, later in pairwise(starts))


def test_copies_of_xrdcp_are_timed_and_compared_with_their_checksum(server: Server, tmp_path: Path) -> None:
    one = clients(server, tmp_path / "out")
    content = (server.folder / "data/01/file-1").read_bytes()
    path = server.disks[0][0]
    good = File(path, len(content), f"{zlib.adler32(content):08x}")
    copies = Transfers(one, [good, File(path, len(content), "00000001")], rate=100 << 20)
    wait_until(lambda: len(copies.done) >= 2, 30, "two copies are done")
    first, second = copies.finish()[:2]
    assert first["ok"], first
    assert 0 < first["end"] - first["start"] < 20
    assert not second["ok"]
    assert "checksum" in second["message"].lower()

# SPDX-License-Identifier: Apache-2.0
"""Storage is slow, and batch is not the reason: it stands still for as long as it takes to know that, gets back all
that it had, and the journal says so.

Victim: the storage clients, of whom nobody else may become slow. Innocent: batch.
"""

from __future__ import annotations

import time

import pytest
from beerbench.batch import RUNNING, Batch, Job
from beerbench.guard import Guard
from beerbench.neighbours import Neighbours
from beerbench.timeline import clock
from beerbench.timeline.decisions import Decisions
from beerbench.waiting import wait_until
from beerlab import Machine
from support import (
    OBJECTIVE_SECONDS,
    StorageUser,
    assert_one_run,
    assert_undisturbed,
    cpu_ticks,
    disk_requests,
    figures,
    knobs,
    percentile,
    report_of,
)
from test_protection_disk import AGAIN, RATE, wait_until_learned

ALONE = 15.0
SLOW = 45.0  # within the minute for which batch is known to be innocent
# guard.toml: effect_timeout, and a precaution before it; what is left is for an emulated node to write and look.
ACQUITTED_WITHIN = 10.0 + 1.0 + 2.0
INNOCENT = "burn --seconds 90 --on-signal 1"


def until(moment: float, what: str) -> None:
    wait_until(lambda: time.time() > moment, moment - time.time() + 30, what, interval=1.0)


def assert_acquitted(node: Machine, guard: Guard, struck: float, over: float, scopes: list[str]) -> None:
    """One freeze of everybody at most, as long as it takes to know; then they run as before, and nobody leaves."""
    why = guard.why()
    decisions = Decisions(guard.decisions())
    acted = [one for one in decisions.items if struck < one.time < over]
    froze = [one for one in acted if one.action in ("freeze", "extend") and not one.precaution]
    acquitted = [one for one in acted if one.action == "thaw" and one.cause == "batch_innocent"]
    assert len(froze) <= 1, why
    assert len(acquitted) == len(froze), why
    assert "batch is innocent" in why or not froze, why
    assert not [one for one in acted if one.action in ("limit", "narrow", "vacate", "evacuate", "kill")], why
    for scope in scopes:
        lost = decisions.stood_still(scope.rsplit("/", 1)[1], struck, over)
        assert lost <= ACQUITTED_WITHIN, f"{lost} s of {scope}\n{why}"
        assert not node.execute(f"cat {scope}/io.max").stdout.strip(), why
    assert not guard.frozen(), why


def ends_well(jobs: list[Job]) -> None:
    for job in jobs:
        assert report_of(job, timeout=400)["ok"] is True
        assert_one_run(job)


@AGAIN
@pytest.mark.full
def test_storage_overloads_a_disk_by_itself(
    node: Machine,
    batch: Batch,
    guard: Guard,
    storage: StorageUser,
    others: StorageUser,
    neighbours: Neighbours,
) -> None:
    guard.wait_for_state("open", timeout=120)
    innocent = batch.submit(INNOCENT)
    scope = batch.wait_until_ready(innocent, timeout=240)
    storage.start(rate=RATE, duration=900, disks=("/data/01",))
    wait_until_learned(guard, neighbours)
    time_of = clock.measure(node)
    batch.signal(scope)
    had, quiet_from = knobs(node), time.time()
    until(quiet_from + ALONE, "storage alone was measured")
    # Before the connections are open: what comes through the first of them may be slow.
    began = time.time()
    # Together more than the disk can do, with 32 requests in flight at most: slow, and not stuck.
    others.start(rate=RATE, duration=SLOW + 300, disks=("/data/01",), seed=2)
    open_at = time.time()
    until(open_at + SLOW - 15, "batch is acquitted")
    before = cpu_ticks(node, scope)
    until(open_at + SLOW, "storage was slow for long enough")
    idle, ticks = (now - then for now, then in zip(cpu_ticks(node, scope), before, strict=True))
    assert knobs(node) == had, "it was given back less than it had"
    others.stop()
    over = time.time()
    samples = storage.stop()
    parts = {"alone": samples.due_between(quiet_from, began), "overloaded": samples.due_between(open_at, over)}
    struck = began + time_of.offset
    figures("storage overloads its disk", parts, guard, time_of, struck, {"innocent": scope})
    print(f"{guard.why()}\nafter the acquittal {idle / ticks:.0%} of the CPUs that batch may use were idle")
    assert_undisturbed(neighbours, quiet_from, over)
    assert percentile(parts["overloaded"], 50) > OBJECTIVE_SECONDS, "storage had no reason to complain"
    assert [one for one in guard.decisions() if one.action == "freeze" and one.time > struck], "it was not suspected"
    assert_acquitted(node, guard, struck, over + time_of.offset, [scope])
    # What it has of them is a matter of what storage needs; it always has work for the rest.
    assert idle < 0.1 * ticks, "it was given back less than it had"
    assert innocent.status == RUNNING
    ends_well([innocent])
    guard.wait_for_state("open", timeout=300)


@AGAIN
@pytest.mark.full
@pytest.mark.layout("scratch-apart", data=4)
def test_one_disk_of_many_is_slow(
    node: Machine,
    batch: Batch,
    guard: Guard,
    storage: StorageUser,
    others: StorageUser,
    neighbours: Neighbours,
) -> None:
    """Batch works on a disk of its own, storage clients on three, of which one does a third of what it did."""
    guard.wait_for_state("open", timeout=120)
    host = node.execute("hostname").stdout.strip()
    reader = f"hog-xrootd --url root://{host}//data/03/store/load/file-03 --streams 2 --block 4KiB --pieces 16"
    jobs = [batch.submit(f"{reader} --seconds 90 --on-signal 1"), batch.submit(INNOCENT)]
    scopes = [batch.wait_until_ready(job, timeout=240) for job in jobs]
    others.start(rate=30, duration=900, disks=("/data/01", "/data/04"))
    storage.start(rate=45, duration=900, disks=("/data/02",))
    wait_until_learned(guard, neighbours)
    time_of = clock.measure(node)
    for scope in scopes:
        batch.signal(scope)
    quiet_from = time.time()
    until(quiet_from + ALONE, "all disks were well")
    began = time.time()
    # 16 requests in flight: 400 ms each, which is slow, and not stuck.
    node.throttle("beer-data2", 40, None)
    until(began + SLOW - 15, "batch is acquitted")
    reads = disk_requests(node, "storage.slice", "rios")
    until(began + SLOW, "the disk was slow for long enough")
    reads = disk_requests(node, "storage.slice", "rios") - reads
    over = time.time()
    on_slow, elsewhere = storage.stop(), others.stop()
    parts = {
        "others alone": elsewhere.due_between(quiet_from, began),
        "others": elsewhere.due_between(began, over),
        "slow alone": on_slow.due_between(quiet_from, began),
        "slow": on_slow.due_between(began, over),
    }
    struck = began + time_of.offset
    figures("one disk of many", parts, guard, time_of, struck, {"reader": scopes[0], "innocent": scopes[1]})
    print(f"{guard.why()}\n{reads} reads of all disks in the last 15 s")
    assert_undisturbed(neighbours, quiet_from, over)
    assert percentile(parts["slow"], 50) > OBJECTIVE_SECONDS, "no disk was slow"
    assert percentile(parts["others"], 99) <= OBJECTIVE_SECONDS, "clients of other disks noticed"
    assert_acquitted(node, guard, struck, over + time_of.offset, scopes)
    # The slow disk, the two others, and batch: without it there are no more than 70 a second.
    assert reads / 15 > 85, "what batch reads from another disk is held"
    node.throttle("beer-data2", *node.spec.disks[1].limits)
    ends_well(jobs)
    guard.wait_for_state("open", timeout=300)

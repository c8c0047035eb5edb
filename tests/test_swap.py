# SPDX-License-Identifier: Apache-2.0
"""A job that needs more memory than it may have cannot swap to a disk that storage serves from, nor read its own code
from there again and again.

The kernel lets swap pass every limit of a disk, so the jobs have none while there is some on such a disk. Without swap
it takes the code of the hog's processes away instead, so it slows them before they come to their limit. Where there is
no guard the same job does harm where it swaps, and is at its limit where it does not: all in one run (`full`).

Victim: the storage client outside the node. Innocent: a job beside the hog; it is not ended.
"""

from __future__ import annotations

import time

import pytest
from beerbench.batch import RUNNING, Batch
from beerbench.guard import JOBS, Guard
from beerbench.neighbours import Neighbours
from beerbench.timeline import clock
from beerbench.waiting import wait_until
from beerlab import Machine
from support import StorageUser, assert_undisturbed, figures, let_storage_be_alone, limits_of_disks, require_well
from test_protection_disk import AGAIN, QUIET, RATE, RECOVERY, wait_until_learned

HOG = "hog-memory --size 1GiB --processes 24 --seconds 600 --on-signal 1"
INNOCENT = "burn --seconds 600 --on-signal 1"
ATTACK = 30.0
AT_FULL_SPEED = 0.95  # `job_memory_high` in guard.toml
ALLOWED = 0.01  # of the requests may be over the objective: `share` in guard.toml
SWAP = "/data/01/scratch/swap"
CONFIG = "/etc/beer/guard.toml"


def allowed(node: Machine) -> str:
    return node.execute(f"cat {JOBS}/memory.swap.max").stdout.strip()


def most_swapped(node: Machine) -> int:
    """Bytes that jobs have had in swap at most (cgroup-v2.rst)."""
    return int(node.execute(f"cat {JOBS}/memory.swap.peak").stdout)


def times(node: Machine, what: str) -> int:
    """How often jobs had so much memory (cgroup-v2.rst, memory.events): `high` is what they may have at their full
    speed, `max` their limit. Counts for those that have ended too, and for the slice itself, which has room."""
    return int(node.execute(f"sed -n 's/^{what} //p' {JOBS}/memory.events").stdout)


def share_at_full_speed(node: Machine, scope: str) -> float:
    """Of its memory limit."""
    high, most = node.execute(f"cat {scope}/memory.high {scope}/memory.max").stdout.split()
    return float("inf") if high == "max" else int(high) / int(most)


def attack(node: Machine, batch: Batch, scope: str) -> tuple[float, float, int]:
    """The hog in this cgroup has its time: when that began, here and on the node; how often it was at its limit."""
    before = times(node, "max")
    began = time.time()
    struck = batch.signal(scope)
    wait_until(lambda: time.time() > began + ATTACK, ATTACK + 30, "the attack has had its time", interval=1.0)
    return began, struck, times(node, "max") - before


@AGAIN
@pytest.mark.full
def test_nobody_swaps_to_a_disk_of_storage(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser, neighbours: Neighbours
) -> None:
    guard.wait_for_state("open", timeout=120)
    assert SWAP in node.execute("cat /proc/swaps").stdout
    wait_until(lambda: allowed(node) == "0", 60, "the jobs have no swap", explain=guard.why)
    assert f"Batch as a whole has no swap, as long as there is some on {SWAP}" in guard.why("1h")
    innocent, job = batch.submit(INNOCENT), batch.submit(HOG)
    beside, hostile = batch.wait_until_ready(innocent, timeout=240), batch.wait_until_ready(job, timeout=240)
    storage.start(rate=RATE, duration=900, disks=("/data/01",))
    wait_until_learned(guard, neighbours)
    wait_until(lambda: share_at_full_speed(node, hostile) < 1, 60, "it is slowed before its limit")
    assert share_at_full_speed(node, hostile) == pytest.approx(AT_FULL_SPEED, abs=0.01)
    batch.signal(beside)
    quiet_from = let_storage_be_alone(QUIET)
    slowed = times(node, "high")
    began, struck, slowed_at_limit = attack(node, batch, hostile)
    assert_undisturbed(neighbours, began, began + ATTACK)
    client = storage.stop()
    require_well(client.due_between(quiet_from, began))
    parts = {"no swap": client.due_between(began, began + ATTACK)}
    jobs = {"hog": hostile, "innocent": beside}
    figures("a hog of memory, no swap on a data disk", parts, guard, clock.measure(node), struck, jobs)
    assert times(node, "high") > slowed, "it has not asked for more than it may have: this shows nothing"
    assert most_swapped(node) == 0
    assert innocent.status == RUNNING
    print(guard.why())
    job.remove()

    # Nobody slows it, and there is no guard.
    job = batch.submit(HOG)
    hostile = batch.wait_until_ready(job, timeout=240)
    guard.take_away()
    node.execute("systemctl set-property --runtime beer-jobs.slice MemorySwapMax=0")
    assert share_at_full_speed(node, hostile) > 1
    storage.start(rate=RATE, duration=900, disks=("/data/01",), seed=2)
    time.sleep(RECOVERY)  # the first requests of a connection are slow
    began, _, at_limit = attack(node, batch, hostile)
    assert_undisturbed(neighbours, began, began + ATTACK)
    parts["no swap, no guard"] = storage.stop().due_between(began, began + ATTACK)
    print(f"the hog was at its limit {slowed_at_limit} times, and {at_limit} times where nobody slows it")
    job.remove()

    # The site lets them swap there.
    node.execute(f"sed -i 's/^swap_on_data_disks = false/swap_on_data_disks = true/' {CONFIG}")
    guard.bring_back()
    guard.wait_for_state("open", timeout=180)
    wait_until(lambda: allowed(node) == "max", 60, "the jobs have swap", explain=guard.why)
    hostile = batch.wait_until_ready(batch.submit(HOG), timeout=240)
    guard.take_away()
    wait_until(lambda: limits_of_disks(node) == "", 30, "batch is limited by nobody")
    storage.start(rate=RATE, duration=900, disks=("/data/01",), seed=3)
    time.sleep(RECOVERY)
    began, *_ = attack(node, batch, hostile)
    assert most_swapped(node) > 0
    assert_undisturbed(neighbours, began, began + ATTACK)
    parts["swap, no guard"] = storage.stop().due_between(began, began + ATTACK)
    seen = figures("a hog of memory, swap on a data disk", parts)
    assert seen["swap, no guard"]["over_objective"] > ALLOWED, "it does no harm: this shows nothing"
    assert seen["no swap"]["over_objective"] <= ALLOWED, guard.why()
    assert slowed_at_limit < at_limit

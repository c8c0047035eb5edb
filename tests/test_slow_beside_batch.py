# SPDX-License-Identifier: Apache-2.0
"""Jobs that make storage slow, and not by what they do on a disk: they get less CPU until storage is well beside them.

As if somebody had put batch before storage, six threads want all CPUs: storage gets a tenth of what it would have
beside them. With next to nothing, as in `test_without_the_slices_storage_does[cpu]` (test_hostile.py, which also shows
what they do without a guard), its daemon has no CPU to say that it is slow: `stale_floor` helps half a minute later.
Victim: the storage client outside the node. Innocent: a job of one thread; it is neither blamed nor ended.
"""

from __future__ import annotations

import time

import pytest
from beerbench.batch import RUNNING, Batch
from beerbench.guard import Guard
from beerbench.neighbours import Neighbours
from beerbench.timeline import clock
from beerbench.waiting import wait_until
from beerlab import Machine
from support import StorageUser, assert_undisturbed, figures, let_storage_be_alone
from test_protection_disk import AGAIN, QUIET, RATE, wait_until_learned
from test_squeeze import cpus_used

BEFORE_STORAGE = (
    "systemctl set-property --runtime beer.slice AllowedCPUs=$(cat /sys/devices/system/cpu/online) CPUWeight=1000 && "
    "systemctl set-property --runtime beer-jobs.slice CPUWeight=100 && "
    "systemctl set-property --runtime storage.slice CPUWeight=100"
)
# HTCondor and the engine are before storage then, too, and what they do at each change takes all of an emulated CPU
# for a tenth of a second: storage is slow for that, whatever the jobs are left. So they stand still meanwhile.
CONTROL = "/sys/fs/cgroup/beer.slice/beer-ctl.slice/cgroup.freeze"
HOGS = ["burn --seconds 900"] * 6
INNOCENT = "burn --seconds 900 --on-signal 1"
WELL = 20.0  # nobody stands still for so long
ALLOWED = 0.01  # of the requests may be over the objective: `share` in guard.toml


@AGAIN
@pytest.mark.full
@pytest.mark.layout("scratch-apart")
def test_batch_gets_less_cpu_until_storage_is_well(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser, neighbours: Neighbours
) -> None:
    guard.wait_for_state("open", timeout=120)
    hostile, innocent = batch.submit_mix(HOGS, "256MB"), batch.submit(INNOCENT)
    scope = batch.wait_until_ready(hostile, timeout=300, payloads=len(HOGS))
    beside = batch.wait_until_ready(innocent, timeout=240)
    storage.start(rate=RATE, duration=900, disks=("/data/01",))
    wait_until_learned(guard, neighbours)
    quiet_from = let_storage_be_alone(QUIET)
    time_of = clock.measure(node)
    node.execute(f"{BEFORE_STORAGE} && echo 1 > {CONTROL}")
    batch.signal(beside)
    began = time.time()
    struck = batch.signal(scope)

    def less() -> bool:
        return bool(guard.status()["squeezed"])

    wait_until(less, 180, "batch gets less CPU", interval=2.0, explain=guard.why)

    def well() -> bool:
        stood = [one for one in guard.decisions() if one.action in ("freeze", "extend", "thaw")]
        return bool(stood) and time.time() + time_of.offset - stood[-1].time > WELL and not guard.frozen()

    wait_until(well, 300, f"nobody stands still for {WELL:.0f} s", interval=2.0, explain=guard.why)
    settled = time.time()
    used = cpus_used(node)
    over = time.time()
    # A precaution may be just now: the guard cannot know yet that it is needless.
    guard.wait_for_state("throttled", timeout=30)
    samples = storage.stop()
    node.execute(f"echo 0 > {CONTROL}")
    assert_undisturbed(neighbours, began, over)
    parts = {
        "alone": samples.due_between(quiet_from, began),
        "attack": samples.due_between(began, settled),
        "settled": samples.due_between(settled - WELL, over),
    }
    jobs = {"hog": scope, "innocent": beside}
    seen = figures("CPU hog, no slices", parts, guard, time_of, struck, jobs)
    has = guard.status()["squeezed"]
    print(f"batch may have {has} and uses {used:.2f} CPUs {settled - began:.0f} s after it began\n{guard.why()}")
    assert [one for one in guard.decisions() if one.cause == "slow_beside_batch"], guard.why()
    assert seen["settled"]["over_objective"] <= ALLOWED, guard.why()
    assert used > 0.02, "it is to have less, and not nothing"
    assert not [one for one in guard.decisions() if one.action in ("limit", "vacate")], "nobody is blamed for a disk"
    for job in (hostile, innocent):
        assert job.status == RUNNING
        job.remove()

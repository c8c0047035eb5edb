# SPDX-License-Identifier: Apache-2.0
"""Jobs that take processes, CPU and memory instead of disks: the slices keep storage as it is, the guard need not act.

Victim: the storage client outside the node. Scratch and swap lie on disks of their own: where swap is on a data disk a
memory hog is a disk hog, and the guard's matter.
"""

from __future__ import annotations

import time

import pytest
from beerbench.batch import Batch
from beerbench.guard import JOBS, Guard
from beerbench.neighbours import Neighbours
from beerlab import Machine
from support import OBJECTIVE_SECONDS, StorageUser, assert_undisturbed, percentile
from test_protection_disk import AGAIN, RATE, wait_until_learned

ALONE = 15.0
ATTACK = 20.0
FORKS, MEMORY = "fork-bomb --seconds 30", "hog-memory --size 1GiB --seconds 30"
CASES = [
    pytest.param([FORKS], id="forks", marks=pytest.mark.full),
    pytest.param([MEMORY], id="memory", marks=pytest.mark.full),
    pytest.param([FORKS, MEMORY], id="mix"),
]


def number(node: Machine, file: str, key: str = "") -> int:
    """Of a file in beer-jobs.slice, which counts for those that have ended too."""
    text = node.execute(f"cat {JOBS}/{file}").stdout
    return int(next(line.split()[-1] for line in text.splitlines() if not key or line.split()[0] == key))


@AGAIN
@pytest.mark.layout("scratch-apart")
@pytest.mark.parametrize("hogs", CASES)
def test_storage_does_not_notice(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser, neighbours: Neighbours, hogs: list[str]
) -> None:
    guard.wait_for_state("open", timeout=120)
    jobs = [batch.submit(f"{hog} --on-signal 1") for hog in hogs]
    scopes = [batch.wait_until_ready(job, timeout=240) for job in jobs]
    storage.start(rate=RATE, duration=900, disks=("/data/01",))
    wait_until_learned(guard, neighbours)
    hits = number(node, "memory.events", "max")
    quiet_from = time.time()
    time.sleep(ALONE)
    began = time.time()
    for scope in scopes:
        batch.signal(scope)
    time.sleep(ATTACK)
    over = time.time()
    processes, hits = number(node, "pids.peak"), number(node, "memory.events", "max") - hits
    samples = storage.stop()
    alone, under = samples.due_between(quiet_from, began), samples.due_between(began, over)
    for name, part in (("alone", alone), ("under attack", under)):
        slow = float((part.latency > OBJECTIVE_SECONDS).mean())
        p50, p99 = (percentile(part, share) * 1e3 for share in (50, 99))
        print(f"{name}: p50 {p50:.1f} ms, p99 {p99:.1f} ms, {slow:.2%} over the objective")
    print(f"{processes} processes at most, {hits} times at the limit of memory\n{guard.why()}")
    assert_undisturbed(neighbours, quiet_from, over)
    # It was an attack: an emulated node forks some 20 times a second, and a quiet job has four processes.
    assert processes > 100 or FORKS not in hogs
    assert hits > 0 or MEMORY not in hogs
    assert float((under.latency > OBJECTIVE_SECONDS).mean()) <= 0.01
    acted = [one for one in guard.decisions() if one.action in ("freeze", "extend", "limit") and not one.precaution]
    assert not acted, guard.why()
    assert node.execute("systemctl is-active xrootd@beer beer-guard condor docker").stdout.split() == ["active"] * 4

# SPDX-License-Identifier: Apache-2.0
"""Jobs that take processes, memory, CPU and the network instead of disks: the slices keep storage as it is, the guard
need not act.

Victim: the storage client outside the node. Innocent: a job beside the hostile one, which gets its part of batch's CPU.
Scratch and swap lie on disks of their own: where swap is on a data disk the jobs have none (test_swap.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from beerbench.batch import Batch, Job
from beerbench.guard import JOBS, Guard
from beerbench.neighbours import Neighbours
from beerbench.timeline import clock
from beerbench.waiting import wait_until
from beerlab import Machine
from support import (
    CPU_TICKS,
    ENOUGH,
    StorageUser,
    assert_one_run,
    assert_undisturbed,
    figures,
    let_compute,
    report_of,
    ticks_in,
)
from test_protection_disk import AGAIN, RATE, wait_until_learned

ALONE = 15.0
ATTACK = 20.0
# Hundreds of processes leave the memory hog of a mix little CPU: it is done with its memory some time after them.
FORKS, MEMORY = "fork-bomb --seconds 40", "hog-memory --size 1GiB --seconds 150"
FORKED = 100
# Of fewer requests there are no percentiles.
AFTER = 1.2 * ENOUGH / RATE
# One thread each, of which any number may be in one job.
CPU = ["burn --seconds 30"] * 6
# For as long as is measured: what the end of a container costs a node is another matter.
INNOCENT = "burn --seconds 120 --on-signal 1"
# The host, by the interface that storage clients come by; nobody listens there.
NETWORK = "hog-network --to 10.0.2.2:9 --seconds 30"
INTERFACE = "enp0s3"
# As if nobody had put storage before batch.
UNPROTECTED = (
    "systemctl set-property --runtime beer.slice AllowedCPUs=$(cat /sys/devices/system/cpu/online) CPUWeight=10000 && "
    "systemctl set-property --runtime beer-jobs.slice CPUWeight=100 && "
    "systemctl set-property --runtime storage.slice CPUWeight=1"
)
CASES = [
    pytest.param([FORKS], id="forks", marks=pytest.mark.full),
    pytest.param([MEMORY], id="memory", marks=pytest.mark.full),
    pytest.param(CPU, id="cpu", marks=pytest.mark.full),
    pytest.param([NETWORK], id="network", marks=pytest.mark.full),
    pytest.param([FORKS, MEMORY, *CPU[:2], NETWORK], id="mix"),
]
# Memory is kept from a job by HTCondor's own limit, too, which nobody takes away here.
WITHOUT = [case for case in CASES if case.id != "memory"]


def number(node: Machine, file: str, key: str = "") -> int:
    """Of a file in beer-jobs.slice, which counts for those that have ended too."""
    text = node.execute(f"cat {JOBS}/{file}").stdout
    return int(next(line.split()[-1] for line in text.splitlines() if not key or line.split()[0] == key))


def times_at_limit(node: Machine) -> int:
    """How often a job had all the memory that it may have: it was slowed there, or the kernel had to find some."""
    events = node.execute(f"grep -E '^(high|max) ' {JOBS}/memory.events").stdout
    return sum(int(line.split()[1]) for line in events.splitlines())


def counters(node: Machine, scope: str, beside: str) -> list[int]:
    """CPU microseconds of these cgroups, bytes that left the node, and the ticks of its CPUs (`cpu_ticks`)."""
    asked = f"sed -n 's/^usage_usec //p' {scope}/cpu.stat {beside}/cpu.stat; "
    asked += f"cat /sys/class/net/{INTERFACE}/statistics/tx_bytes; {CPU_TICKS.format(scope=scope)}"
    own, others, sent, *ticks = node.execute(asked).stdout.splitlines()
    return [int(own), int(others), int(sent), *ticks_in(ticks)]


def populated(node: Machine, scope: str) -> bool:
    return "populated 1" in node.execute(f"cat {scope}/cgroup.events", check=False).stdout


@dataclass(frozen=True)
class Seen:
    """What the client saw, and what shows that it was an attack."""

    struck: float
    client: dict[str, Any]
    innocent: Job
    hostile_cpu: float
    innocent_cpu: float
    idle: float
    sent: int
    served: float
    processes: int
    hits: int


def attack(
    node: Machine,
    batch: Batch,
    guard: Guard,
    storage: StorageUser,
    neighbours: Neighbours,
    case: str,
    hogs: list[str],
    *,
    protected: bool = True,
) -> Seen:
    guard.wait_for_state("open", timeout=120)
    hostile, innocent = batch.submit_mix(hogs, "256MB"), batch.submit(INNOCENT)
    scope = batch.wait_until_ready(hostile, timeout=300, payloads=len(hogs))
    beside = batch.wait_until_ready(innocent, timeout=240)
    storage.start(rate=RATE, duration=900, disks=("/data/01",))
    wait_until_learned(guard, neighbours)
    if not protected:
        guard.take_away()
        node.execute(UNPROTECTED)
    hits = times_at_limit(node)
    quiet_from = time.time()
    time.sleep(ALONE)
    batch.signal(beside)
    before = counters(node, scope, beside)
    began = time.time()
    struck = batch.signal(scope)
    time.sleep(ATTACK)
    counted = time.time()
    after = counters(node, scope, beside)
    own, others, sent, idle, ticks = (now - then for now, then in zip(after, before, strict=True))
    if FORKS in hogs and protected:
        # It forks some 20 times a second, and a quiet job has four processes.
        wait_until(lambda: number(node, "pids.peak") > FORKED, 60, "it was a fork bomb")
    if MEMORY in hogs and protected:
        wait_until(lambda: times_at_limit(node) > hits, 120, "the hog has all memory it may have")
    over = time.time()
    processes, hits = number(node, "pids.peak"), times_at_limit(node) - hits
    # Hundreds of processes that share memory, and have none left, need minutes to end: it is over once it is measured.
    node.execute(f"echo 1 > {scope}/cgroup.kill", check=False)
    wait_until(lambda: not populated(node, scope), 300, "all of the hostile job has ended")
    print(f"the hostile ended within {time.time() - over:.1f} s")
    ended = max(time.time(), over + AFTER)
    let_compute(ended)
    samples = storage.stop()
    spans = {"end": (over, ended), "alone": (quiet_from, began), "all": (began, over), "attack": (began, counted)}
    parts = {name: samples.due_between(*span) for name, span in spans.items()}
    scopes = {"hostile": scope, "innocent": beside}
    case = case if protected else f"{case}, no slices, no guard"
    client = figures(case, parts, guard if protected else None, clock.measure(node), struck, scopes)
    served = float(parts["attack"].size.sum())
    print(f"{processes} processes at most, {hits} times at the limit of memory")
    print(f"CPU: {own / 1e6:.1f} s for the hostile, {others / 1e6:.1f} s for the innocent, {idle / ticks:.0%} idle")
    print(f"{sent / 1e6:.0f} MB left the node, {served / 1e6:.0f} MB of them for the storage client\n{guard.why()}")
    assert_undisturbed(neighbours, quiet_from, over)
    return Seen(struck, client, innocent, own / 1e6, others / 1e6, idle / ticks, sent, served, processes, hits)


@pytest.fixture
def attacked(
    request: pytest.FixtureRequest,
    node: Machine,
    batch: Batch,
    guard: Guard,
    storage: StorageUser,
    neighbours: Neighbours,
) -> Callable[..., Seen]:
    """`attack` in the case of this test."""
    return partial(attack, node, batch, guard, storage, neighbours, request.node.callspec.id)


@AGAIN
@pytest.mark.layout("scratch-apart")
@pytest.mark.parametrize("hogs", CASES)
def test_storage_does_not_notice(node: Machine, guard: Guard, attacked: Callable[..., Seen], hogs: list[str]) -> None:
    seen = attacked(hogs)
    # It was an attack.
    assert seen.processes > FORKED or FORKS not in hogs
    assert seen.hits > 0 or MEMORY not in hogs
    # An emulated processor is what limits CPU hogs and the network, in some runs to less than storage sends: they left
    # nothing of it, and had their part. Of what others leave it in a mix there is little.
    part = seen.innocent_cpu / (seen.hostile_cpu + seen.innocent_cpu)
    assert (part <= 0.7 and seen.idle < 0.1) or not {CPU[0], NETWORK} & set(hogs)
    assert seen.sent - seen.served > 0.3 * seen.served or hogs != [NETWORK]
    assert max(seen.client[name]["over_objective"] for name in ("attack", "all", "end")) <= 0.01
    assert part >= 0.3, "the innocent starved"
    acted = [one for one in guard.decisions() if one.action in ("freeze", "extend", "limit") and one.time > seen.struck]
    assert all(one.precaution for one in acted), guard.why()
    assert node.execute("systemctl is-active xrootd@beer beer-guard condor docker").stdout.split() == ["active"] * 4
    assert report_of(seen.innocent, timeout=300)["ok"] is True
    assert_one_run(seen.innocent)


@AGAIN
@pytest.mark.layout("scratch-apart")
@pytest.mark.parametrize("hogs", WITHOUT)
def test_without_the_slices_storage_does(attacked: Callable[..., Seen], hogs: list[str]) -> None:
    seen = attacked(hogs, protected=False)
    assert seen.client["attack"]["over_objective"] > 0.05, "it does no harm: the test above shows nothing"

# SPDX-License-Identifier: Apache-2.0
"""A job attacks a data disk while a storage user reads from it: with the guard the user's p99 is back within 2 s.

The same attack runs with the guard stopped, which proves that the test can fail. Victim: the storage client outside
the node. Innocent: a CPU job beside the hog, which loses no more than the time the guard says batch was frozen.
"""

from __future__ import annotations

import time

import pytest
from beerbench.batch import Batch, Job
from beerbench.guard import Guard
from beerbench.timeline.requests import Requests
from beerbench.waiting import wait_until
from beerlab import Machine
from support import OBJECTIVE_SECONDS, StorageUser, assert_one_run, first_over, percentile, report_of

# A container that starts on a data disk under load is itself frozen again and again, so this takes many minutes.
pytestmark = pytest.mark.full

RATE = 84.0  # 70 % of the disk's 120 requests/s, all of it on one disk: DESIGN section 7
RECOVERY = 2.0
WINDOW = 8.0  # after the recovery; within the shortest hold of a freeze (10 s)
QUIET = 6.0
ATTACK = 25.0

HOGS = {
    "direct": "hog-disk --threads 24 --size 64MiB --seconds 40",
    "xrootd": "hog-xrootd --url root://{host}//data/01/store/load/file-03 --streams 24 --seconds 40",
}


def start_innocent(batch: Batch) -> Job:
    innocent = batch.submit("burn --seconds 180")
    batch.wait_for_containers([innocent], timeout=240)
    return innocent


def disk_reads(node: Machine) -> int:
    io = node.execute("cat /sys/fs/cgroup/storage.slice/io.stat").stdout.split()
    return sum(int(word.split("=")[1]) for word in io if word.startswith("rios="))


def attack(node: Machine, batch: Batch, storage: StorageUser, hog: str) -> tuple[Requests, float, Job]:
    """The hog beside a storage load that runs already: what the client saw, when it first hurt, and the hog."""
    host = node.execute("hostname").stdout.strip()
    quiet_from, reads = time.time(), disk_reads(node)
    attacker = batch.submit(HOGS[hog].format(host=host))
    batch.wait_for_containers([attacker], timeout=240)
    attack_from, reads = time.time(), disk_reads(node) - reads
    assert attack_from - quiet_from > QUIET, "the hog was there before storage alone could be measured"
    wait_until(lambda: time.time() > attack_from + ATTACK, ATTACK + 30, "the attack has had its time", interval=1.0)
    samples = storage.stop()
    asked = len(samples.due_between(quiet_from, attack_from))
    assert reads >= 0.8 * asked, f"the page cache answers: {reads} disk reads for {asked} requests"
    calm = samples.due_between(quiet_from, quiet_from + QUIET)
    print(f"storage alone: p50 {percentile(calm, 50) * 1e3:.0f} ms, p99 {percentile(calm, 99) * 1e3:.0f} ms")
    return samples, first_over(samples, OBJECTIVE_SECONDS, after=quiet_from + QUIET), attacker


def after_recovery(samples: Requests, onset: float) -> float:
    """The client's p99 from RECOVERY after the onset."""
    window = samples.due_between(onset + RECOVERY, onset + RECOVERY + WINDOW)
    p99 = percentile(window, 99)
    print(f"from {RECOVERY:g} s after the onset: p50 {percentile(window, 50) * 1e3:.0f} ms, p99 {p99 * 1e3:.0f} ms")
    return p99


CASES = [
    pytest.param("direct", marks=pytest.mark.layout("scratch-on-data")),
    pytest.param("xrootd", marks=pytest.mark.layout("scratch-apart")),
]


@pytest.mark.parametrize("hog", CASES)
def test_with_the_guard(node: Machine, batch: Batch, guard: Guard, storage: StorageUser, hog: str) -> None:
    guard.wait_for_state("open", timeout=120)
    # before the storage load: what a container start costs the disk is not its doing
    innocent = start_innocent(batch)
    storage.start(rate=RATE, duration=900, disks=("/data/01",))
    guard.wait_until_learned(timeout=240)
    samples, onset, attacker = attack(node, batch, storage, hog)
    print(guard.why())
    assert after_recovery(samples, onset) <= OBJECTIVE_SECONDS, guard.why()
    assert any(record.action == "freeze" for record in guard.decisions()), f"nobody froze anything:\n{guard.why()}"

    report_of(attacker, timeout=400)
    assert_one_run(attacker)
    report = report_of(innocent, timeout=400)
    assert_one_run(innocent)
    lost = report["longest_gap_seconds"]
    frozen = guard.metric("beer_frozen_seconds_total")
    assert lost <= frozen + 5, f"the innocent stood still for {lost} s, batch was frozen for {frozen} s"
    guard.wait_for_state("open", timeout=180)


@pytest.mark.parametrize("hog", CASES)
def test_without_the_guard(node: Machine, batch: Batch, guard: Guard, storage: StorageUser, hog: str) -> None:
    guard.wait_for_state("open", timeout=120)
    storage.start(rate=RATE, duration=500, disks=("/data/01",))
    guard.wait_until_learned(timeout=240)
    # START believes in the last heartbeat for 60 s, so that the hog still starts
    guard.take_away()
    samples, onset, _ = attack(node, batch, storage, hog)
    assert not guard.frozen()
    assert after_recovery(samples, onset) > OBJECTIVE_SECONDS, "the attack does no harm: the test above shows nothing"

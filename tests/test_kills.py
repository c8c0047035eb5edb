# SPDX-License-Identifier: Apache-2.0
"""What starts and watches jobs is killed: the container engine, HTCondor's startd. No job is lost, and storage goes on.

Victim: the storage client outside the node. Innocent: the job, which runs on or again, and ends with its right result.
"""

from __future__ import annotations

import time

import pytest
from beerbench.batch import Batch
from beerbench.guard import JOBS, Guard
from beerbench.neighbours import Neighbours
from beerbench.timeline import clock
from beerbench.waiting import wait_until
from beerlab import Machine
from support import StorageUser, assert_undisturbed, figures, report_of
from test_protection_disk import AGAIN, RATE, wait_until_learned

pytestmark = pytest.mark.full

ALONE = 15.0
BURN = "burn --seconds 60 --on-signal 1"
# Where a starter is gone without a word HTCondor queues the job again at the end of its lease (10 min as shipped).
LEASE = "job_lease_duration = 60"
SERVICES = "xrootd@beer beer-guard condor docker"


def pid(node: Machine, name: str) -> str:
    return node.execute(f"pgrep -x {name}", check=False).stdout.strip()


def scopes(node: Machine) -> list[str]:
    return node.execute(f"ls -d {JOBS}/docker-*.scope 2>/dev/null", check=False).stdout.split()


@AGAIN
@pytest.mark.layout("scratch-apart")
@pytest.mark.parametrize("daemon", ["dockerd", "condor_startd"])
def test_no_job_is_lost(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser, neighbours: Neighbours, daemon: str
) -> None:
    guard.wait_for_state("open", timeout=120)
    innocent = batch.submit(BURN, LEASE)
    first = batch.wait_until_ready(innocent, timeout=240)
    storage.start(rate=RATE, duration=900, disks=("/data/01",))
    wait_until_learned(guard, neighbours)
    quiet_from = time.time()
    time.sleep(ALONE)
    batch.signal(first)
    time_of = clock.measure(node)
    killed, began = pid(node, daemon), time.time()
    node.execute(f"kill -KILL {killed}")

    def ended() -> bool:
        # A job that runs again waits for its signal again.
        for scope in scopes(node):
            if batch.sleeps(scope):
                print(f"{time.time() - began:.0f} s after the kill another container is ready")
                batch.signal(scope)
        return innocent.ended()

    wait_until(ended, 500, "the job ends", interval=2.0, explain=innocent.explain)
    over = time.time()
    samples = storage.stop()
    starts, held = innocent.attributes("NumJobStarts", "NumHolds")
    print(f"the job ended {over - began:.0f} s after the kill, {starts} starts\n{guard.why()}")
    parts = {
        "alone": samples.due_between(quiet_from, began),
        "30 s from the kill": samples.due_between(began, began + 30),
        "until the job's end": samples.due_between(began, over),
    }
    seen = figures(f"{daemon} is killed", parts, guard, time_of, began + time_of.offset, {"innocent": first})
    # A lost engine is exit code 125, which must not be the job's end (25-beer-queue.config).
    report = report_of(innocent, timeout=60)
    assert report["ok"] is True
    assert report["units"] > 0
    assert held in ("0", "undefined"), innocent.explain()
    wait_until(lambda: not scopes(node), 180, "no container is left", interval=2.0, explain=guard.why)
    assert pid(node, daemon) not in ("", killed)
    assert node.execute(f"systemctl is-active {SERVICES}").stdout.split() == ["active"] * 4
    assert samples.failed == 0
    assert_undisturbed(neighbours, quiet_from, over)
    assert seen["until the job's end"]["over_objective"] <= 0.01

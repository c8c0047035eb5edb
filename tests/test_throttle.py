# SPDX-License-Identifier: Apache-2.0
"""A job that was frozen because it made a disk slow gets that disk back bit by bit, and storage does not feel it.

Victim: the storage client outside the node. Innocent: a job beside the hog; it is never limited. With
`throttle = false` the hog comes back with all its force, and the client feels each of its returns.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest
from beerbench.batch import Batch
from beerbench.guard import Guard
from beerbench.neighbours import Neighbours
from beerbench.timeline.requests import Requests
from beerbench.waiting import wait_until
from beerlab import Machine
from support import OBJECTIVE_SECONDS, StorageUser, assert_undisturbed, disk_requests, percentile
from test_protection_disk import AGAIN, RATE, RECOVERY, wait_until_learned

HOGS = {
    "direct": "hog-disk --threads 24 --size 64MiB --seconds 600 --on-signal 1",
    "cached": "hog-disk --cached --write-share 1 --block 16KiB --threads 24 --size 64MiB --seconds 600 --on-signal 1",
}
# Where swap is on a data disk: it is written and read there for whoever has more memory than he may.
HOGS["swap"] = "hog-memory --size 1GiB --seconds 600 --on-signal 1"
INNOCENT = "burn --seconds 600 --on-signal 1"
ATTACK = 75.0  # the returns of a hog that is not limited: after holds of 10, 20 and 40 s
CONFIG = "/etc/beer/guard.toml"


@dataclass(frozen=True)
class Seen:
    """What the client saw from RECOVERY after the attack began until its end, and what the hog got meanwhile."""

    requests: Requests
    hog: int

    @property
    def over(self) -> float:
        """Share of the requests that took longer than the objective allows."""
        return float((self.requests.latency > OBJECTIVE_SECONDS).mean())


def limits(node: Machine, scope: str) -> str:
    return node.execute(f"cat {scope}/io.max").stdout.strip()


def jobs(node: Machine, batch: Batch, hog: str) -> tuple[str, str]:
    hostile, innocent = batch.submit(HOGS[hog]), batch.submit(INNOCENT)
    return batch.wait_until_ready(hostile, timeout=240), batch.wait_until_ready(innocent, timeout=240)


def returns(node: Machine, batch: Batch, storage: StorageUser, neighbours: Neighbours, scopes: tuple[str, str]) -> Seen:
    """A hog that goes on whatever becomes of it."""
    hog, innocent = scopes
    batch.signal(innocent)
    began = time.time()
    batch.signal(hog)
    time.sleep(RECOVERY)
    before = disk_requests(node, hog, "rios", "wios")
    wait_until(lambda: time.time() > began + ATTACK, ATTACK + 30, "the attack has had its time", interval=1.0)
    done = disk_requests(node, hog, "rios", "wios") - before
    samples = storage.stop().due_between(began + RECOVERY, began + ATTACK)
    assert_undisturbed(neighbours, began, began + ATTACK)
    seen = Seen(samples, done)
    p50, p99 = percentile(samples, 50) * 1e3, percentile(samples, 99) * 1e3
    print(f"from {RECOVERY:g} to {ATTACK:g} s: p50 {p50:.0f} ms, p99 {p99:.0f} ms, {seen.over:.2%} over the objective")
    print(f"the hog did {done} requests")
    return seen


@AGAIN
@pytest.mark.parametrize("hog", ["direct", *(pytest.param(hog, marks=pytest.mark.full) for hog in ("cached", "swap"))])
def test_the_guilty_get_their_disk_back_bit_by_bit(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser, neighbours: Neighbours, hog: str
) -> None:
    guard.wait_for_state("open", timeout=120)
    scopes = jobs(node, batch, hog)
    storage.start(rate=RATE, duration=900, disks=("/data/01",))
    wait_until_learned(guard, neighbours)
    seen = returns(node, batch, storage, neighbours, scopes)
    why = guard.why()
    print(why)
    hostile, innocent = scopes
    limited = [one for one in guard.decisions() if one.action == "limit"]
    assert {job for one in limited for job in one.jobs} == {hostile.rsplit("/", 1)[1]}, why
    assert not limits(node, innocent), "the innocent has a limit"
    assert seen.hog > 0, "it may as well have been frozen all the time"
    assert seen.over <= 0.01, why
    # Nobody stays limited by a guard that is gone on purpose.
    node.execute("systemctl stop beer-guard", timeout=60)
    assert not limits(node, hostile), why


@AGAIN
@pytest.mark.full
@pytest.mark.parametrize("hog", sorted(HOGS))
def test_who_comes_back_with_all_his_force_hurts_again(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser, neighbours: Neighbours, hog: str
) -> None:
    node.execute(f"sed -i 's/^throttle = true/throttle = false/' {CONFIG} && systemctl restart beer-guard", timeout=120)
    guard.wait_for_state("open", timeout=120)
    scopes = jobs(node, batch, hog)
    storage.start(rate=RATE, duration=900, disks=("/data/01",))
    wait_until_learned(guard, neighbours)
    seen = returns(node, batch, storage, neighbours, scopes)
    why = guard.why()
    print(why)
    assert not limits(node, scopes[0])
    assert seen.over > 0.01, f"it does no harm: the test above shows nothing\n{why}"

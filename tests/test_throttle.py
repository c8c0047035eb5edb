# SPDX-License-Identifier: Apache-2.0
"""A job that was frozen because it made a disk slow gets that disk back bit by bit, and storage keeps its objective.
What it does then costs storage clients less than half of what the same work costs them with `throttle = false`, where
it comes back with all its force: both in one run (`full`; benchmarks/runs has figures).

Victim: the storage client outside the node. Innocent: a job beside the hog; it is never limited.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from beerbench.batch import RUNNING, Batch, Job
from beerbench.guard import Guard
from beerbench.neighbours import Neighbours
from beerbench.timeline import clock
from beerbench.timeline.clock import Clock
from beerbench.timeline.requests import Requests
from beerbench.waiting import wait_until
from beerlab import Machine
from support import StorageUser, assert_undisturbed, disk_requests, figures, let_storage_be_alone, require_well
from test_protection_disk import AGAIN, QUIET, RATE, RECOVERY, wait_until_learned
from test_protection_disk import HOGS as ATTACKS

HOGS = {hog: ATTACKS[hog].format(seconds=600) for hog in ("direct", "cached")}
INNOCENT = "burn --seconds 600 --on-signal 1"
ATTACK = 75.0
ALLOWED = 0.01  # of the requests may be over the objective: `share` in guard.toml
HELD = 3.0  # of a hog that is not limited; by default 10, 20 and 40 s
CONFIG = "/etc/beer/guard.toml"
MANY, SMALL = 3, "hog-disk --threads 4 --size 16MiB --seconds 600 --on-signal 1"
TOGETHER = 8  # requests/s, where clients fill the disk (guard: guardd/src/actuators/io_max)
SEEN = 10.0  # after that it is known that clients fill a disk (guard: policy/src/filled.rs)


def limits(node: Machine, scope: str) -> str:
    return node.execute(f"cat {scope}/io.max").stdout.strip()


def returns(node: Machine, batch: Batch, neighbours: Neighbours, hog: str) -> tuple[float, float, int]:
    """A hog that goes on whatever becomes of it. When it began, by our clock and by the node's; what it did from
    RECOVERY on."""
    began = time.time()
    struck = batch.signal(hog)
    time.sleep(RECOVERY)
    before = disk_requests(node, hog, "rios", "wios")
    wait_until(lambda: time.time() > began + ATTACK, ATTACK + 30, "the attack has had its time", interval=1.0)
    done = disk_requests(node, hog, "rios", "wios") - before
    assert_undisturbed(neighbours, began, began + ATTACK)
    return began, struck, done


def without_limits(node: Machine, guard: Guard) -> None:
    """Nor is it held for longer and longer: what a return costs is compared, so there are to be many of them."""
    edits = "; ".join(
        (
            "s/^throttle = true/throttle = false/",
            f's/^hold = .*/hold = "{HELD:g}s"/',
            f's/^hold_max = .*/hold_max = "{HELD:g}s"/',
        )
    )
    node.execute(f"sed -i '{edits}' {CONFIG} && systemctl restart beer-guard", timeout=120)
    guard.wait_for_state("open", timeout=180)


@dataclass
class Limited:
    """A hog under the guard: its job, the cgroups of both, when it began (by the node's clock), what it did, what the
    client saw meanwhile, what the guard said."""

    job: Job
    scopes: dict[str, str]
    time_of: Clock
    struck: float
    requests: int
    client: Requests
    why: str

    @property
    def scope(self) -> str:
        return self.scopes["hog"]


def limited(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser, neighbours: Neighbours, hog: str
) -> Limited:
    """Attacks; the hog and nobody else is limited, and is so no more when the guard has been stopped."""
    guard.wait_for_state("open", timeout=120)
    innocent, job = batch.submit(INNOCENT), batch.submit(HOGS[hog])
    beside, hostile = batch.wait_until_ready(innocent, timeout=240), batch.wait_until_ready(job, timeout=240)
    storage.start(rate=RATE, duration=900, disks=("/data/01",))
    wait_until_learned(guard, neighbours)
    batch.signal(beside)
    quiet_from = let_storage_be_alone(QUIET)
    began, struck, requests = returns(node, batch, neighbours, hostile)
    client = storage.stop()
    require_well(client.due_between(quiet_from, began))
    client = client.due_between(began + RECOVERY, began + ATTACK)
    why, decisions = guard.why(), guard.decisions()
    print(why)
    assert {job for one in decisions if one.action == "limit" for job in one.jobs} == {hostile.rsplit("/", 1)[1]}, why
    assert not limits(node, beside), "the innocent has a limit"
    assert requests > 0, "it may as well have been frozen all the time"
    # Nobody stays limited by a guard that is gone on purpose.
    node.execute("systemctl stop beer-guard", timeout=60)
    wait_until(lambda: not limits(node, hostile), 60, "the hog has no limit", explain=guard.why)
    scopes = {"hog": hostile, "innocent": beside}
    return Limited(job, scopes, clock.measure(node), struck, requests, client, why)


@AGAIN
@pytest.mark.full
def test_the_guilty_get_their_disk_back_bit_by_bit(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser, neighbours: Neighbours
) -> None:
    one = limited(node, batch, guard, storage, neighbours, "direct")
    parts = {"limited": one.client}
    seen = figures("a hog that comes back, direct", parts, guard, one.time_of, one.struck, one.scopes)
    assert seen["limited"]["over_objective"] <= ALLOWED, one.why


@AGAIN
@pytest.mark.full
@pytest.mark.parametrize("hog", ["direct", "cached"])
def test_limits_keep_half_of_the_harm_away(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser, neighbours: Neighbours, hog: str
) -> None:
    one = limited(node, batch, guard, storage, neighbours, hog)
    one.job.remove()
    wait_until(one.job.ended, 120, "the first hog has ended", interval=1.0, explain=one.job.explain)
    without_limits(node, guard)
    # No storage user yet: what the start of a container costs a disk would have it frozen before it is ready.
    hostile = batch.wait_until_ready(batch.submit(HOGS[hog]), timeout=240)
    storage.start(rate=RATE, duration=900, disks=("/data/01",), seed=2)  # other blocks: memory has those of before
    wait_until_learned(guard, neighbours)
    guard.wait_for_state("open", timeout=180)
    began, _, requests = returns(node, batch, neighbours, hostile)
    assert not limits(node, hostile)
    parts = {"limited": one.client, "free": storage.stop().due_between(began + RECOVERY, began + ATTACK)}
    seen = figures(f"a hog that comes back, {hog}", parts)
    print(f"the hog did {one.requests} requests, without limits {requests}")
    harm = {name: seen[name]["over_objective"] * len(part) for name, part in parts.items()}
    assert seen["free"]["over_objective"] > ALLOWED, f"no harm without limits: this shows nothing\n{guard.why()}"
    assert harm["limited"] * requests <= harm["free"] * one.requests / 2, one.why


def rate(storage: StorageUser, neighbours: Neighbours, seconds: float, seed: int) -> float:
    """Requests per second of clients who fill the disk; what the guard takes to see that they do is not counted."""
    began = time.time()
    seen = storage.saturate("/data/01", seconds, seed)
    assert_undisturbed(neighbours, began, time.time())
    return float(seen.answered_per_second(float(seen.due[0]) + SEEN, float(seen.due[0]) + seconds).mean())


def attacked(
    node: Machine,
    guard: Guard,
    storage: StorageUser,
    neighbours: Neighbours,
    begin: Callable[[], None],
    hogs: list[str],
) -> tuple[float, float, float, float]:
    """Requests per second of clients who ask for all of a disk: alone, beside these hogs, and the same without the
    guard; and per second of the hogs, with it."""
    storage.start(rate=RATE, duration=900, disks=("/data/01",))
    wait_until_learned(guard, neighbours)
    storage.stop()
    alone = rate(storage, neighbours, SEEN + 20, 2)
    begin()
    time.sleep(RECOVERY)

    def done() -> int:
        return sum(disk_requests(node, hog, "rios", "wios") for hog in hogs)

    before, began = done(), time.time()
    guarded = rate(storage, neighbours, SEEN + 40, 3)
    of_hogs = (done() - before) / (time.time() - began)
    print(guard.why())
    decisions = guard.decisions()
    guard.take_away()
    free = rate(storage, neighbours, SEEN + 20, 4)
    print(
        f"{alone:.1f} requests/s alone, {guarded:.1f} with hogs (they did {of_hogs:.1f}), {free:.1f} without the guard"
    )
    assert free < 0.9 * alone, "no harm without the guard: this shows nothing"
    made_way = [one for one in decisions if one.action == "give_way"]
    assert {one.cause for one in made_way} == {"clients_fill_disk"}
    assert {one for record in made_way for one in record.jobs} == {hog.rsplit("/", 1)[1] for hog in hogs}
    return alone, guarded, free, of_hogs


@AGAIN
@pytest.mark.full
def test_batch_makes_way_where_clients_fill_a_disk(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser, neighbours: Neighbours
) -> None:
    """Clients who ask for all of a disk have it, whoever of batch wants a part of it.

    With the guard the hog costs them less than a quarter of what it costs them without, in the same run.
    """
    guard.wait_for_state("open", timeout=120)
    innocent, job = batch.submit(INNOCENT), batch.submit(HOGS["direct"])
    beside, hostile = batch.wait_until_ready(innocent, timeout=240), batch.wait_until_ready(job, timeout=240)
    batch.signal(beside)
    alone, guarded, free, done = attacked(node, guard, storage, neighbours, lambda: batch.signal(hostile), [hostile])
    assert alone - guarded < (alone - free) / 4
    assert done > 0, "the hog is as good as frozen"
    assert not limits(node, beside), "the innocent has a limit"
    assert innocent.status == RUNNING


@AGAIN
@pytest.mark.full
def test_many_make_way_together(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser, neighbours: Neighbours
) -> None:
    """The kernel leaves each job two reads and two writes per second: all of them together have no more than eight."""
    node.execute("sed -i 's/^#cores = .*/cores = \"400%\"/' /etc/beer/slices.toml && systemctl daemon-reload")
    node.execute("systemctl restart condor", timeout=300)
    answers = "condor_q >/dev/null && condor_status -af TotalCpus | grep -q ^4"
    wait_until(lambda: node.execute(answers, check=False, timeout=60).status == 0, 180, "four slots", interval=2.0)
    guard.wait_for_state("open", timeout=120)
    innocent, *jobs = [batch.submit(one, "request_memory = 128MB") for one in (INNOCENT, *[SMALL] * MANY)]
    beside, *hogs = [batch.wait_until_ready(job, timeout=300) for job in (innocent, *jobs)]
    batch.signal(beside)

    def begin() -> None:
        for hog in hogs:
            batch.signal(hog)

    alone, guarded, free, done = attacked(node, guard, storage, neighbours, begin, hogs)
    assert alone - guarded < (alone - free) / 4
    assert 0 < done < TOGETHER + 0.5
    assert "many_limited" in {one.cause for one in guard.decisions()}, guard.why()
    assert not limits(node, beside), "the innocent has a limit of its own"
    assert innocent.status == RUNNING

# SPDX-License-Identifier: Apache-2.0
"""Jobs that made a disk slow run again one after the other, the oldest first: all of them at once would be the attack
anew.

What the storage client outside the node saw is told and not judged: that it is protected is test_protection_disk.py's,
and so is the innocent, who does not wait.
"""

from __future__ import annotations

import shlex
import time
from itertools import pairwise

import pytest
from beerbench.batch import Batch
from beerbench.guard import Guard
from beerbench.neighbours import Neighbours
from beerbench.timeline import clock
from beerbench.timeline.decisions import Decision
from beerbench.waiting import wait_until
from beerlab import Machine
from support import StorageUser, assert_undisturbed, figures, let_storage_be_alone
from test_protection_disk import AGAIN, QUIET, RATE, wait_until_learned

HOG = "hog-disk --threads 12 --size 32MiB --seconds 300 --on-signal 1"
SEEN = "/run/frozen-scopes"
APART = 1.0  # seconds: guard, policy/src/ladder/stages.rs


def watch(node: Machine, *scopes: str) -> None:
    """Writes down ten times a second, as far as the node can, which of them the kernel says is frozen."""
    files = " ".join(f"{scope}/cgroup.events" for scope in scopes)
    loop = (
        f"while grep -h ^frozen {files} > {SEEN}.now; do "
        f"echo $(date +%s.%N) $(cut -d' ' -f2 {SEEN}.now) >> {SEEN}; sleep 0.1; done"
    )
    node.execute(f"systemd-run --quiet --unit=frozen-scopes --slice=guard.slice sh -c {shlex.quote(loop)}")


def thaws(node: Machine, scopes: int) -> list[list[float]]:
    """When each of them ran again, each time."""
    looks = [line.split() for line in node.execute(f"cat {SEEN}").stdout.splitlines()]
    whole = [look for look in looks if len(look) == 1 + scopes]
    return [
        [float(now[0]) for was, now in pairwise(whole) if (was[1 + place], now[1 + place]) == ("1", "0")]
        for place in range(scopes)
    ]


@AGAIN
@pytest.mark.full
def test_the_oldest_runs_again_first(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser, neighbours: Neighbours
) -> None:
    guard.wait_for_state("open", timeout=120)
    jobs, scopes = [], []
    for _ in range(2):
        jobs.append(batch.submit(HOG))
        scopes.append(batch.wait_until_ready(jobs[-1], timeout=240))
    storage.start(rate=RATE, duration=900, disks=("/data/01",))
    wait_until_learned(guard, neighbours)
    quiet_from = let_storage_be_alone(QUIET)
    watch(node, *scopes)
    began = time.time()
    time_of = clock.measure(node)
    # The younger one first: who attacks first is not who runs first.
    struck = batch.signal(scopes[1])
    batch.signal(scopes[0])

    def staged() -> list[Decision]:
        return [one for one in guard.decisions() if one.action == "stage"]

    wait_until(staged, 240, "they run again in stages", interval=2.0, explain=guard.why)
    time.sleep(2 * APART)
    over = time.time()
    samples = storage.stop()
    assert_undisturbed(neighbours, began, over)
    parts = {"alone": samples.due_between(quiet_from, began), "attack": samples.due_between(began, over)}
    figures("two hogs", parts, guard, time_of, struck, dict(zip(("elder", "younger"), scopes, strict=True)))
    [last] = staged()[:1]
    assert last.jobs == (scopes[1].rsplit("/", 1)[1],), guard.why()
    # As the kernel has it: which of them ran when, around that.
    elder, younger = (
        min(times, key=lambda seen: abs(seen - due))
        for times, due in zip(thaws(node, 2), (last.time - APART, last.time), strict=True)
    )
    print(f"the younger ran {younger - elder:.2f} s after the elder\n{guard.why()}")
    assert abs(younger - last.time) < APART, guard.why()
    assert APART / 2 < younger - elder < 3 * APART, guard.why()
    for job in jobs:
        job.remove()

# SPDX-License-Identifier: Apache-2.0
"""A guard in a dry run decides and says so, and touches nothing: the hog does what it does without any.

Victim: the storage client outside the node, who is not protected. Innocent: a job beside the hog.
"""

from __future__ import annotations

import pytest
from beerbench.batch import Batch
from beerbench.guard import JOBS, Guard
from beerbench.neighbours import Neighbours
from beerlab import Machine
from support import OBJECTIVE_SECONDS, StorageUser, assert_one_run, assert_undisturbed, percentile, report_of
from test_protection_disk import AGAIN, ATTACK, RATE, Jobs, attack, wait_until_learned

CONFIG = "/etc/beer/guard.toml"
# All that a guard may write, of the slice and of each job.
KNOBS = f"""cd {JOBS}
for knob in cgroup.freeze cpu.max cpu.weight memory.high io.max cpuset.cpus; do grep -sH . $knob */$knob; done
ls /run/beer/control"""


@AGAIN
@pytest.mark.full
def test_a_dry_run_decides_and_touches_nothing(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser, neighbours: Neighbours
) -> None:
    node.execute(f"sed -i 's/^dry_run = false/dry_run = true/' {CONFIG} && systemctl restart beer-guard", timeout=120)
    guard.wait_for_state("open", timeout=120)
    jobs = Jobs.start(node, batch, "direct")
    storage.start(rate=RATE, duration=900, disks=("/data/01",))
    wait_until_learned(guard, neighbours)
    before = node.execute(KNOBS).stdout
    assert "cgroup.freeze:0\n" in before
    seen = attack(node, batch, storage, jobs, neighbours)
    seen.figures("disk hog, direct, dry run", node, jobs, guard)
    why = guard.why()
    print(why)
    assert_undisturbed(neighbours, seen.began, seen.began + ATTACK)
    decided = [one for one in guard.decisions() if one.time > seen.struck]
    assert [one for one in decided if one.action == "freeze"], why
    assert {one.outcome for one in decided if one.action in ("freeze", "thaw", "narrow")} == {"skipped"}, why
    assert node.execute(KNOBS).stdout == before
    assert node.execute(f"cat {JOBS}/cgroup.events").stdout.split()[-1] == "0"
    harm = percentile(seen.samples.due_between(seen.began, seen.began + ATTACK), 99)
    assert harm > OBJECTIVE_SECONDS, "the attack does no harm: this shows nothing"
    assert guard.state() == "open", "HTCondor hears of nothing"
    for job in (jobs.hog, jobs.innocent):
        report_of(job, timeout=400)
        assert_one_run(job)

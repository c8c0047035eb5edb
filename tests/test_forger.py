# SPDX-License-Identifier: Apache-2.0
"""A job attacks a disk and says that it is another one, wherever a job can write: the guard blames it all the same.

Victim: the storage client. Innocent: the job whose number, owner, slot and starter the hog gives for its own, which
runs on. The same attack without the guard is in test_protection_disk.py.
"""

from __future__ import annotations

import pytest
from beerbench.batch import USER, Batch
from beerbench.guard import Guard
from beerbench.neighbours import Neighbours
from beerlab import Machine
from support import OBJECTIVE_SECONDS, StorageUser, assert_one_run, let_compute, report_of, stood_still
from test_protection_disk import (
    AGAIN,
    COMPUTES,
    DIRECT,
    HOLD,
    LASTS,
    RATE,
    Jobs,
    after_recovery,
    attack,
    wait_until_learned,
)

pytestmark = pytest.mark.full

SCRIPT = "forger.sh"
# What it can write are the descriptions of job and slot in its scratch folder, folders and processes of any name, and
# its environment. The rest it tries in vain. It prints a line for each thing that it could do.
FORGER = r"""
cluster=$1 slot=$2 starter=$3
for ad in .job.ad .machine.ad; do
  rm -f $ad
  printf 'ClusterId = %s\nProcId = 0\nOwner = "root"\nName = "%s@node1"\nSlotName = "%s"\nBeerVacateSlots = "%s"\n' \
    $cluster $slot $slot $slot > $ad && echo "forged $ad"
done
mkdir -p dir_$starter/tmp && ln -s /bin/sh condor_starter && ln -s /bin/sh docker && echo 'sleep 1000' > start
printf './docker start -a HTCJob%s_0_%s_PID%s & wait' $cluster $slot $starter > starter && echo "forged a starter"
./condor_starter starter &
for file in cgroup.freeze cgroup.kill cgroup.procs io.max cpu.max memory.max; do
  (echo 0 > /sys/fs/cgroup/$file) 2> /dev/null && echo "changed $file"
done
for place in /run/docker.sock /run/beer /etc/beer; do
  [ ! -e $place ] || echo "sees $place"
done
"""
ENVIRONMENT = (
    "XrdSecSSSKT=batch.keytab HTCJob{cluster}_0_{slot}_PID{starter}=1 _CONDOR_SLOT={slot} USER=root LOGNAME=root "
    "_CONDOR_SCRATCH_DIR=/var/lib/beer/scratch/execute/dir_{starter}"
)


def name_of_container(node: Machine, cluster: int) -> tuple[str, str]:
    """Slot and starter of a job, as HTCondor's name of its container has them."""
    names = node.execute("docker ps --no-trunc --format '{{.Names}}'").stdout.split()
    [name] = [name for name in names if name.startswith(f"HTCJob{cluster}_0_")]
    slot, _, starter = name.removeprefix(f"HTCJob{cluster}_0_").rpartition("_PID")
    return slot, starter


@AGAIN
def test_a_job_that_says_it_is_another(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser, neighbours: Neighbours
) -> None:
    guard.wait_for_state("open", timeout=120)
    innocent = batch.submit(f"burn --seconds {COMPUTES:.0f} --on-signal 1")
    beside = batch.wait_until_ready(innocent, timeout=240)
    slot, starter = name_of_container(node, innocent.cluster)
    script = f"{FORGER}exec beer-payload {DIRECT.format(seconds=LASTS)}\n"
    node.execute(f"runuser -u {USER} -- tee /home/{USER}/{SCRIPT}", input=script)
    environment = ENVIRONMENT.format(cluster=innocent.cluster, slot=slot, starter=starter)
    hog = batch.submit(
        f"{SCRIPT} {innocent.cluster} {slot} {starter}",
        f'executable = /bin/sh\ntransfer_input_files = batch.keytab, {SCRIPT}\nenvironment = "{environment}"\n'
        f'+SlotName = "{slot}"\n+JobDescription = "HTCJob{innocent.cluster}_0_{slot}_PID{starter}"',
    )
    jobs = Jobs(hog, innocent, (batch.wait_until_ready(hog, timeout=240), beside))
    own_slot, _ = name_of_container(node, hog.cluster)
    assert own_slot != slot
    starters = int(node.execute("pgrep -c -x condor_starter").stdout)
    assert starters == 3, "those of both jobs, and the forged one"
    storage.start(rate=RATE, duration=900, disks=("/data/01",))
    wait_until_learned(guard, neighbours)
    seen = attack(node, batch, storage, jobs, neighbours)
    let_compute(seen.began + COMPUTES)
    seen.figures("a job that says it is another", node, jobs, guard)
    why = guard.why()
    print(why)
    assert after_recovery(seen.samples, seen.began, neighbours) <= OBJECTIVE_SECONDS, why

    alone = [one for one in guard.decisions() if one.action == "narrow" and one.time > seen.struck]
    scope = jobs.scopes[0].rsplit("/", 1)[1]
    assert {one.jobs for one in alone} == {(scope,)}, f"not the hog alone:\n{why}"
    assert f"1 of 2 jobs: {hog.cluster}.0 of {USER} in {own_slot}]" in why, why
    assert f"1 of 2 jobs: {innocent.cluster}.0 " not in why, why

    report = report_of(innocent, timeout=400)
    assert stood_still(report, neighbours, seen.began) < HOLD / 2, "the innocent stood still with the hog"
    report_of(hog, timeout=400)
    *said, _ = node.execute(f"cat /home/{USER}/bench.{hog.cluster}.out").stdout.splitlines()
    assert said == ["forged .job.ad", "forged .machine.ad", "forged a starter"]
    for job in (hog, innocent):
        assert_one_run(job)

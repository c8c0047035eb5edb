# SPDX-License-Identifier: Apache-2.0
"""podman keeps a monitor beside each container, in the slice that is frozen: who reaps a container must run for it.

Innocent: a job of docker's, which stands still by order all the time and loses nothing.
"""

from __future__ import annotations

import time

import pytest
from beerbench.batch import Batch
from beerbench.guard import JOBS, Guard
from beerbench.timeline import clock
from beerbench.waiting import wait_until
from beerlab import Machine
from support import StorageUser, assert_one_run, figures, report_of

pytestmark = pytest.mark.full

# As HTCondor would have it, but of a starter that has ended: no process has this number (kernel, PID_MAX_LIMIT).
SCRATCH = "/run/beer-test/dir_4194304"
RUN = f"""set -e
mkdir -p {SCRATCH}/work /run/beer-test/rootfs/usr
ln -s usr/lib /run/beer-test/rootfs/lib
ln -s usr/lib64 /run/beer-test/rootfs/lib64
podman run --detach --name orphan --cgroup-parent=beer-jobs.slice --network=none --volume=/usr:/usr:ro \\
  --volume={SCRATCH}/work:/mnt --rootfs /run/beer-test/rootfs /usr/bin/sleep 1000"""
KILLED = 128 + 9


def test_a_container_of_podmans_is_ended_and_reaped_while_all_jobs_stand_still(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser
) -> None:
    guard.wait_for_state("open", timeout=120)
    innocent = batch.submit("burn --seconds 20 --on-signal 1")
    other = batch.wait_until_ready(innocent, timeout=240)
    container = node.execute(RUN, timeout=120).stdout.split()[-1]
    scope, monitor = f"libpod-{container}.scope", f"libpod-conmon-{container}.scope"
    names = set(node.execute(f"ls {JOBS}").stdout.split())
    assert {scope, monitor} <= names, names
    storage.watch()
    time_of, struck = clock.measure(node), storage.part("frozen, and one is ended")
    node.execute("beer freeze --for 10min")
    wait_until(guard.frozen, 30, "batch is frozen by order", explain=guard.why)
    jobs = {str(job["scope"]) for job in guard.status()["each_job"]}
    assert jobs == {scope, other.rsplit("/", 1)[1]}, "the monitor is no job"

    began = time.time()
    gone = f"[ ! -e {JOBS}/{scope} ]"
    wait_until(lambda: node.execute(gone, check=False).status == 0, 180, "it is gone", interval=2.0, explain=guard.why)
    code = node.execute("timeout 30 podman wait orphan").stdout.strip()
    print(f"gone {time.time() - began:.0f} s after the freeze, exit code {code}\n{guard.why()}")
    parts, jobs = storage.parts(), {"podman's": f"{JOBS}/{scope}", "innocent": other}
    figures("podman", parts, guard, time_of, struck + time_of.offset, jobs)
    assert code == str(KILLED), "podman knows its end"
    assert "frozen 1" in node.execute(f"cat {other}/cgroup.events").stdout, "the innocent ran meanwhile"
    [ended] = [one for one in guard.decisions() if one.action == "kill"]
    assert (ended.cause, ended.jobs) == ("orphan", (scope,))

    node.execute("beer resume --why 'it is over' && podman rm orphan")
    wait_until(lambda: not guard.frozen(), 60, "batch is thawed by order", explain=guard.why)
    batch.signal(other)
    assert report_of(innocent, timeout=300)["ok"] is True
    assert_one_run(innocent)

# SPDX-License-Identifier: Apache-2.0
"""The guard dies or hangs while jobs are frozen: it is replaced, takes over what it finds, and nothing stays frozen."""

from __future__ import annotations

import json
import shlex
import time

import pytest
from beerbench.batch import Batch
from beerbench.guard import JOBS, Guard
from beerbench.neighbours import Neighbours
from beerbench.timeline import clock
from beerbench.waiting import wait_until
from beerlab import Machine
from support import (
    OBJECTIVE_SECONDS,
    StorageUser,
    assert_one_run,
    assert_served,
    assert_undisturbed,
    disk_requests,
    figures,
    limits_of_disks,
    percentile,
    report_of,
    stood_still,
)
from test_protection_disk import AGAIN, ATTACK, RATE, Jobs, attack, wait_until_learned

# WatchdogSec=2s of the unit plus RestartSec, start-up and the kill itself, ten times over for emulation.
REPLACED_WITHIN = 60
THAWED_WITHIN = 90
QUIET = 5.0


NO_LIMIT = "rbps=max wbps=max riops=max wiops=max"
# There while the fail-safe's caps are, with what batch had before.
CAPPED = "/run/beer/guard/capped"
FROZEN = f"grep -q 'frozen 1' {JOBS}/cgroup.events"
SHAPING = "/run/beer/control/shaping"
# The state a guard leaves behind that dies just after a freeze.
FREEZE = f"echo 1 > {JOBS}/cgroup.freeze; for i in $(seq 100); do {FROZEN} && break; sleep 0.1; done; {FROZEN}"


# The control loop hangs and everything else of the guard goes on: a debugger's stop of that one thread (ptrace(2)).
HANG = """\
import ctypes, os, sys
pid, slice = sys.argv[1:]
tasks = f"/proc/{pid}/task"
task = next(int(task) for task in os.listdir(tasks) if open(f"{tasks}/{task}/comm").read() == "control\\n")
libc = ctypes.CDLL(None, use_errno=True)
SEIZE, INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000
for request in (SEIZE, INTERRUPT):
    if libc.ptrace(request, task, ctypes.c_void_p(0), ctypes.c_void_p(0)) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")
open(f"{slice}/cgroup.freeze", "w").write("1")
try:
    while True:  # who traces a task must see its end, or it never ends
        os.waitpid(task, WALL)
except ChildProcessError:
    pass
"""


def quota(node: Machine) -> str:
    """Of all jobs together."""
    return node.execute(f"cat {JOBS}/cpu.max").stdout.split()[0]


def hang(node: Machine, pid: int) -> None:
    node.execute(f"systemd-run --quiet --unit=beer-test-hang python3 -c {shlex.quote(HANG)} {pid} {JOBS}")


@pytest.mark.parametrize(
    "signal", ["KILL", pytest.param("STOP", marks=pytest.mark.full), pytest.param("hang", marks=pytest.mark.full)]
)
def test_guard_is_replaced_and_thaws(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser, signal: str
) -> None:
    innocent = batch.submit("burn --seconds 20 --on-signal 1")
    scope = batch.wait_until_ready(innocent, timeout=240)
    storage.start(rate=RATE, duration=400, disks=("/data/01",))
    time.sleep(QUIET)  # the first requests of a connection are slow
    before, quiet_from = guard.pid(), time.time()
    time.sleep(QUIET)
    time_of, struck, gone = clock.measure(node), batch.signal(scope), time.time()

    if signal == "hang":
        hang(node, before)
    else:
        # Stopped, so that it cannot thaw what is frozen now; its watchdog ends it soon anyhow. Nor must the timer.
        killed = f"kill -KILL {before} || true" if signal == "KILL" else "true"
        node.execute(f"systemctl stop beer-deadman.timer; kill -STOP {before}; {FREEZE} && {{ {killed}; }}", timeout=60)

    wait_until(lambda: guard.pid() not in (0, before), REPLACED_WITHIN, "another guard runs", explain=guard.why)
    wait_until(lambda: not guard.frozen(), THAWED_WITHIN, "the jobs are thawed", explain=guard.why)
    thawed = time.time()
    adopted = [record for record in guard.decisions() if record.cause == "adopted"]
    assert adopted, f"the new guard did not say that it took over a freeze:\n{guard.why()}"
    end = time.time()
    client = storage.stop()
    parts = {"before": client.due_between(quiet_from, gone), "until the thaw": client.due_between(gone, thawed)}
    # What the innocent lost he says himself: no guard has frozen him.
    figures(f"the guard gets {signal}", parts, guard, time_of, struck)
    assert_served(client, end)

    report = report_of(innocent, timeout=240)
    print(f"the innocent stood still for {report['longest_gap_seconds']:.1f} s")
    assert report["ok"] is True
    assert report["longest_gap_seconds"] > 1, "it was not frozen: this shows nothing"
    assert_one_run(innocent)


def test_frozen_jobs_thaw_when_the_guard_never_comes_back(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser
) -> None:
    """The timer that does not depend on the guard thaws, into caps that do no harm."""
    innocent = batch.submit("burn --seconds 20 --on-signal 1")
    scope = batch.wait_until_ready(innocent, timeout=240)
    storage.watch()
    node.execute("systemctl mask --runtime --now beer-guard", timeout=120)
    # As from a guard that was killed: what its own end has capped is not there.
    node.execute("systemctl stop beer-deadman.timer; systemctl set-property --runtime beer-jobs.slice CPUQuota=")
    batch.signal(scope)
    node.execute(f"rm -f {CAPPED}; {FREEZE}; systemctl start beer-deadman.timer", timeout=60)

    storage.part("no guard")
    frozen = time.time()
    wait_until(lambda: not guard.frozen(), 120, "the deadman timer thawed the jobs")
    print(f"thawed {time.time() - frozen:.0f} s after they were frozen")
    # What it did not come to in time it does when it looks again.
    wait_until(lambda: quota(node) != "max", 60, "there is a quota")
    figures("the guard never comes back", storage.parts())
    lost = report_of(innocent, timeout=240)["longest_gap_seconds"]
    print(f"the innocent stood still for {lost:.1f} s")
    assert lost > 1, "it was not frozen: this shows nothing"
    assert_one_run(innocent)


def lease(node: Machine) -> int:
    """Until when the storage daemons limit batch, in their node's nanoseconds; 0 = not at all (shaping-segment.md)."""
    return int(node.execute(f"od -An -tu8 -j24 -N8 {SHAPING}").stdout)


def streams_that_wait(node: Machine) -> int:
    """In the storage daemon, because of what stands in the shaping segment."""
    [said] = json.loads(node.execute("beer storage streams --json").stdout)
    return sum((stream.get("by") or "").startswith("guard ") for stream in said["streams"])


@AGAIN
@pytest.mark.full
@pytest.mark.parametrize("hog", ["direct", "cached", pytest.param("xrootd", marks=pytest.mark.layout("scratch-apart"))])
def test_a_hog_has_little_of_the_disk_while_no_guard_is_there(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser, neighbours: Neighbours, hog: str
) -> None:
    """What it does to storage with nobody there at all, not even the fail-safe, is test_protection_disk's."""
    guard.wait_for_state("open", timeout=120)
    jobs = Jobs.start(node, batch, hog)
    storage.start(rate=RATE, duration=900, disks=("/data/01",))
    wait_until_learned(guard, neighbours)
    node.execute("systemctl mask --runtime --now beer-guard", timeout=120)
    wait_until(lambda: limits_of_disks(node) != "", 30, "batch is limited on the data disks")
    print(limits_of_disks(node))
    wait_until(lambda: lease(node) > 0, 30, "batch is limited in the storage daemons")
    before = disk_requests(node, jobs.scopes[0], "rios", "wios")
    seen = attack(node, batch, storage, jobs, neighbours)
    did = disk_requests(node, jobs.scopes[0], "rios", "wios") - before
    assert (streams_that_wait(node) if hog == "xrootd" else did) > 0, "the hog did nothing"
    seen.print_hog(node, jobs)
    seen.figures(f"disk hog, {hog}, no guard but its fail-safe", node, jobs)
    assert_undisturbed(neighbours, seen.began, seen.began + ATTACK)
    assert percentile(seen.samples.due_between(seen.began, seen.began + ATTACK), 99) <= OBJECTIVE_SECONDS

    node.execute("systemctl unmask --runtime beer-guard && systemctl start beer-guard", timeout=120)
    wait_until(lambda: limits_of_disks(node) == "", 60, "the guard's return lifts the limits", explain=guard.why)
    wait_until(lambda: quota(node) == "max", 60, "and the quota", explain=guard.why)
    wait_until(lambda: lease(node) == 0, 60, "and those in the storage daemons", explain=guard.why)
    left = "ls /run/systemd/system.control/beer-jobs.slice.d 2>/dev/null | grep IO"
    wait_until(lambda: not node.execute(left, check=False).stdout, 60, "nothing hides later changes of the unit")
    report = report_of(jobs.innocent, timeout=400)
    assert stood_still(report, neighbours, seen.began) < 5, "the innocent stood still"
    assert_one_run(jobs.innocent)


@pytest.mark.full
def test_a_hog_has_little_of_the_disk_while_nothing_is_heard_of_storage(
    node: Machine, batch: Batch, guard: Guard
) -> None:
    """XRootD hangs, and nobody knows what its clients see: `stale_floor`. The innocent computes on, with less."""
    guard.wait_for_state("open", timeout=120)
    jobs = Jobs.start(node, batch, "direct")
    try:
        node.execute("pkill -STOP -x xrootd")
        wait_until(lambda: limits_of_disks(node) != "", 120, "batch is limited on the data disks", explain=guard.why)
        batch.signal(jobs.scopes[1])
        batch.signal(jobs.scopes[0])
        time.sleep(5)
        before = disk_requests(node, jobs.scopes[0], "rios", "wios")
        time.sleep(20)
        done = disk_requests(node, jobs.scopes[0], "rios", "wios") - before
        # Somebody else lifts what is in force: it is seen, and put right.
        limits = limits_of_disks(node)
        drifts = guard.metric("beer_limit_drifts_total", absent=0)
        node.execute(
            f"cut -d' ' -f1 {JOBS}/io.max | while read -r disk; do echo \"$disk {NO_LIMIT}\" > {JOBS}/io.max; done"
        )
        assert not limits_of_disks(node), "they were not lifted"
        wait_until(lambda: limits_of_disks(node) == limits, 30, "the limits are put right", explain=guard.why)
        assert guard.metric("beer_limit_drifts_total") > drifts
    finally:
        node.execute("pkill -CONT -x xrootd")
    print(f"{done} disk requests of the hog in 20 s")
    assert 0 < done <= 1.5 * 20 * 8, "8 requests/s are what batch is left"
    assert "frozen 1" not in node.execute(f"cat {JOBS}/cgroup.events").stdout
    wait_until(lambda: limits_of_disks(node) == "", 30, "storage is heard, and the disks are free", explain=guard.why)
    report_of(jobs.innocent, timeout=400)
    assert_one_run(jobs.innocent)

# SPDX-License-Identifier: Apache-2.0
"""A frozen job burns no CPU and issues no I/O, and HTCondor starts no other; thawed, it ends with the right result."""

from __future__ import annotations

import time

import pytest
from beerbench.batch import IDLE, RUNNING, Batch
from beerbench.guard import JOBS, Guard
from beerbench.timeline import clock
from beerbench.waiting import wait_until
from beerlab import Machine
from support import StorageUser, assert_one_run, figures, per_second, report_of

RATE = 84.0
SETTLE = 3.0  # requests in flight and tasks in an uninterruptible wait end within a second: DESIGN section 2
# Long enough for two looks and a job that does not start, however slow the node is.
HOLD = "sed -i 's/^hold = .*/hold = \"30s\"/' /etc/beer/guard.toml && systemctl restart beer-guard"


def test_frozen_job(node: Machine, batch: Batch, guard: Guard, storage: StorageUser) -> None:
    node.execute(HOLD, timeout=120)
    guard.wait_for_state("open", timeout=120)
    hog = batch.submit("hog-disk --threads 24 --size 64MiB --seconds 30 --on-signal 1")
    scope = batch.wait_until_ready(hog, timeout=240)
    storage.start(rate=RATE, duration=400, disks=("/data/01",))
    guard.wait_until_learned(timeout=240)
    time_of, began = clock.measure(node), time.time()
    struck = batch.signal(scope)
    wait_until(guard.frozen, 120, "the hog is frozen", explain=guard.why)

    # while frozen: nothing runs, nothing starts, HTCondor still sees a running job
    before = measure_while_frozen(node, guard, scope)
    assert before[0] == before[1], f"a frozen job used CPU or disk: {before}"
    waiting = batch.submit("burn --seconds 1")
    assert hog.status == RUNNING
    frozen_states = []
    for _ in range(5):
        frozen_states.append((guard.frozen(), waiting.status, guard.frozen()))
    looked = [status for was, status, still in frozen_states if was and still]
    assert looked, f"no look while it was frozen: {frozen_states}"
    assert set(looked) == {IDLE}

    # the storage load ends and so does the reason for the freeze
    seen = storage.stop().due_between(began, time.time())
    figures("a hog until storage rests", {"attacked": seen}, guard, time_of, struck, {"hog": scope})
    wait_until(lambda: not guard.frozen(), 180, "batch is thawed", explain=guard.why)
    report = report_of(hog, timeout=400)
    assert report["ok"] is True
    assert_one_run(hog)
    report_of(waiting, timeout=300)


def measure_while_frozen(node: Machine, guard: Guard, scope: str) -> tuple[str, str]:
    """What the job has used of CPU and disk by two looks, both inside one freeze; again when a thaw came between."""
    frozen = f"grep -q '^frozen 1' {JOBS}/cgroup.events {scope}/cgroup.events"
    used = f"grep ^usage_usec {scope}/cpu.stat; cat {scope}/io.stat"
    look = f"sleep {SETTLE}; {frozen} || exit 1; {used}; echo then; sleep 2; {used}; {frozen}"

    def attempt() -> tuple[str, str] | None:
        since = guard.status()["state_ns"]
        looked = node.execute(look, check=False)
        # The time since the state began goes back when there was another state.
        if looked.status != 0 or guard.status()["state_ns"] < since:
            return None
        first, second = looked.stdout.split("then\n")
        return first, second

    return wait_until(attempt, 120, "two looks inside one freeze", explain=guard.why)


def test_no_job_starts_without_a_living_guard(node: Machine, batch: Batch, guard: Guard) -> None:
    """START needs a heartbeat younger than 60 s, and only the control loop writes it."""
    guard.wait_for_state("open", timeout=120)
    node.execute("systemctl stop beer-deadman.timer; systemctl stop beer-guard")
    wait_until(lambda: heartbeat_age(node) > 65, 150, "the heartbeat is older than the dead-man time")
    job = batch.submit("burn --seconds 1")
    looks = [job.status for _ in range(15)]  # each look takes about a second under emulation
    assert set(looks) == {IDLE}, f"a job started without a guard: {looks}"

    node.execute("systemctl start beer-guard beer-deadman.timer")
    guard.wait_for_state("open", timeout=120)
    report_of(job, timeout=240)


def heartbeat_age(node: Machine) -> float:
    value = node.execute("condor_status -af BeerHeartbeat | head -n 1").stdout.strip()
    return float(node.execute("date +%s").stdout) - float(value) if value not in ("", "undefined") else float("inf")


BUSY = "for cpu in $(seq $(nproc)); do systemd-run --quiet --slice=storage.slice --unit=busy$cpu "
BUSY += "sh -c 'while :; do :; done'; done"
EFFECT = 10.0  # DESIGN 4.5: then a freeze without effect is told as one


@pytest.mark.full
def test_a_freeze_takes_effect_while_storage_keeps_every_cpu_busy(node: Machine, batch: Batch, guard: Guard) -> None:
    """Who has no CPU at all does not come to be frozen either."""
    guard.wait_for_state("open", timeout=120)
    jobs = [batch.submit("burn --seconds 20 --on-signal 1") for _ in range(2)]
    scopes = [batch.wait_until_ready(job, timeout=240) for job in jobs]
    for scope in scopes:
        batch.signal(scope)
    node.execute(BUSY, timeout=60)
    idle = f"cat {JOBS}/cpu.idle"
    assert node.execute(idle).stdout.strip() == "1"
    got = per_second(node, f"sed -n 's/^usage_usec //p' {JOBS}/cpu.stat")
    print(f"jobs get {got / 1e4:.2f} % of a CPU beside a storage that keeps all busy")
    assert got < 1e4, "storage does not keep all busy: this shows nothing"
    # Meanwhile systemd sets something in that slice, and with it all that it knows of.
    node.execute("beer freeze --for 5min && systemctl set-property --runtime beer-jobs.slice IOWeight=100", timeout=60)
    ordered = time.time()
    frozen = f"grep -q '^frozen 1' {JOBS}/cgroup.events"
    wait_until(lambda: not node.execute(frozen, check=False).status, EFFECT, "all jobs stand still", explain=guard.why)
    print(f"frozen {time.time() - ordered:.1f} s after the order, or earlier")
    wait_until(lambda: node.execute(idle).stdout.strip() == "1", 10, "they are idle again", explain=guard.why)
    node.execute("systemctl stop 'busy*'; beer resume --why 'it is over'", timeout=60)
    for job in jobs:
        report_of(job, timeout=240)
        assert_one_run(job)


# How far the start of a job has come, by what tells of it: the engine is asked for a container; its cgroup is there,
# and what makes a container of it runs in it.
MOMENTS = {
    "engine-is-asked": "pgrep -f '^/usr/bin/docker (create|start)' > /dev/null",
    "cgroup-is-there": f"[ $(ls {JOBS} | grep -c scope) -gt 1 ]",
}
HELD = 40.0  # longer than anybody should wait for the engine


@pytest.mark.full
@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS.keys())
def test_a_freeze_hits_a_starting_container(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser, moment: str
) -> None:
    """The engine serves others meanwhile, and the job runs once and to its right end."""
    guard.wait_for_state("open", timeout=120)
    running = batch.submit("burn --seconds 20 --on-signal 1")
    scope = batch.wait_until_ready(running, timeout=240)
    storage.watch()
    time_of = clock.measure(node)
    starting, struck = batch.submit("burn --seconds 10"), storage.part("start and freeze")
    order = "beer freeze --for 5min"
    node.execute(f"for look in $(seq 6000); do if {moment}; then exec {order}; fi; done; exit 1", timeout=240)
    wait_until(guard.frozen, 30, "batch is frozen by order", explain=guard.why)
    until, looks = time.time() + HELD, []
    while time.time() < until:
        asked = time.time()
        node.execute("docker info > /dev/null && docker inspect $(docker ps -q) > /dev/null", timeout=30)
        looks.append(time.time() - asked)
    print(f"the engine answered {len(looks)} times, within {max(looks):.1f} s")
    print(node.execute(f"grep . {JOBS}/*/cgroup.events; condor_q -all -af ClusterId JobStatus").stdout)
    assert guard.frozen()
    assert not starting.ended()
    jobs = {"running": scope}
    figures("a freeze hits a starting container", storage.parts(), guard, time_of, struck + time_of.offset, jobs)

    node.execute("beer resume --why 'it is over'")
    wait_until(lambda: not guard.frozen(), 60, "batch is thawed by order", explain=guard.why)
    batch.signal(scope)
    for job in (starting, running):
        assert report_of(job, timeout=300)["ok"] is True
        assert_one_run(job)
    assert node.execute("systemctl is-active docker condor beer-guard").stdout.split() == ["active"] * 3
    report_of(batch.submit("burn --seconds 1"), timeout=300)

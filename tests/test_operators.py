# SPDX-License-Identifier: Apache-2.0
"""Operators keep batch off the node and give it back: what runs runs on, what waits is neither started nor lost."""

from __future__ import annotations

import time

import pytest
from beerbench.batch import IDLE, RUNNING, USER, Batch
from beerbench.guard import JOBS, Guard
from beerbench.timeline import clock
from beerbench.waiting import wait_until
from beerlab import Machine
from support import StorageUser, assert_one_run, assert_served, figures, report_of

OPERATOR = "olga"
RATE = 84.0
QUIET = 3.0
ORDERED = 30.0
# Longer than `ladder.hold`, after which a guard thaws whom it finds frozen and storage is well.
BEYOND_HOLD = 15.0
SUSPENDED = 20
SLEPT = "import time; print(time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic())"


def ad(node: Machine) -> list[str]:
    """What HTCondor knows from the guard: state, whether jobs may start, cores, memory, and why."""
    asked = "BeerState BeerAdmit BeerCores BeerMemoryMB BeerReason"
    return node.execute(f"condor_status -af:t {asked} | head -n 1").stdout.rstrip("\n").split("\t")


def test_drain_freeze_and_resume(node: Machine, batch: Batch, guard: Guard, storage: StorageUser) -> None:
    guard.wait_for_state("open", timeout=120)
    running = batch.submit("burn --seconds 90 --on-signal 1")
    scope = batch.wait_until_ready(running, timeout=240)
    state, admit, cores, memory, _ = ad(node)
    assert (state, admit) == ("open", "true")
    assert min(int(cores), int(memory)) > 0
    storage.start(rate=RATE, duration=600, disks=("/data/01",))
    time.sleep(QUIET)  # the first requests of a connection are slow
    times = [time.time()]

    # a job's user may not, whoever is in the group may
    assert node.execute("stat -c '%a %U %G' /run/beer/guard/control.sock").stdout.strip() == "660 root beer"
    refused = node.execute(f"runuser -u {USER} -- beer drain", check=False)
    assert refused.status == 1
    assert "group beer" in refused.stderr
    node.execute(f"useradd --groups beer {OPERATOR}")
    time.sleep(QUIET)
    times.append(time.time())
    said = node.execute(f"runuser -u {OPERATOR} -- beer drain --why 'new disks'").stdout
    assert "until `beer resume`" in said

    # It may have been closed for something else a moment before: an order to drain is the reason all the same.
    guard.wait_for_state("closed", timeout=30)
    drained = time.time()
    told = ["closed", "false", "0", "0", "drained"]
    wait_until(lambda: ad(node) == told, 60, "HTCondor knows it", explain=lambda: f"{ad(node)}\n{guard.why()}")
    print(f"the collector knew it {time.time() - drained:.0f} s later")
    waiting = batch.submit("burn --seconds 1")
    node.execute("systemctl restart beer-guard", timeout=120)
    guard.wait_for_state("closed", timeout=60)
    batch.signal(scope)
    looks = [(waiting.status, running.status) for _ in range(15)]  # each look takes about a second under emulation
    assert {one for one, _ in looks} == {IDLE}, f"a job started on a drained node: {looks}"
    assert looks[0][1] == RUNNING

    time_of = clock.measure(node)
    times.append(time.time())
    node.execute("beer freeze --for 10m")
    wait_until(guard.frozen, 30, "batch is frozen by order", explain=guard.why)
    drifts = guard.metric("beer_limit_drifts_total", absent=0)
    node.execute("truncate --size 0 /run/beer/control/shaping")
    seen = "what storage daemons are told is put right"
    wait_until(lambda: guard.metric("beer_limit_drifts_total") > drifts, 30, seen, explain=guard.why)
    assert node.execute("stat -c %s /run/beer/control/shaping").stdout.strip() != "0"
    assert guard.metric("beer_shaping_failed") == 0
    node.execute(f"echo 0 > {JOBS}/cgroup.freeze")
    wait_until(lambda: guard.metric("beer_freezer_drifts_total") > 0, 30, "somebody else thawed", explain=guard.why)
    assert guard.frozen(), guard.why()
    time.sleep(QUIET)
    node.execute("beer resume --why 'disks are in'")
    wait_until(lambda: not guard.frozen(), 30, "batch is thawed by order", explain=guard.why)
    times.append(time.time())
    end = time.time()
    client = storage.stop()
    spans = zip(("open", "drained", "frozen"), times[:-1], times[1:], strict=True)
    parts = {name: client.due_between(start, end) for name, start, end in spans}
    figures("drain and freeze", parts, guard, time_of, times[2] + time_of.offset, {"running": scope})
    assert_served(client, end)
    for job in (running, waiting):
        assert report_of(job, timeout=300)["ok"] is True
        assert_one_run(job)

    status = node.execute("beer status").stdout
    assert "objective   storage-read: slack " in status, status
    assert " offered" in status, status
    why = guard.why()
    assert f"{OPERATOR} drained the node because new disks." in why
    assert "root gave the node back to batch because disks are in." in why


@pytest.mark.full
def test_the_clock_is_set(node: Machine, batch: Batch, guard: Guard, storage: StorageUser) -> None:
    """Forth and back: an order lasts as long as it was to, nobody is frozen for it, and jobs start again.

    By more than any time of the guard and of START. Set back, HTCondor's daemons put off what they are to do by as
    much, and beyond MAX_TIME_SKIP (20 minutes) condor_master restarts them.
    """
    guard.wait_for_state("open", timeout=120)
    innocent = batch.submit("burn --seconds 60 --on-signal 1")
    scope = batch.wait_until_ready(innocent, timeout=240)
    storage.watch()
    pid, froze = guard.pid(), time.time()
    node.execute(f"beer freeze --for {ORDERED:.0f}s --why 'a clock is set'")
    wait_until(guard.frozen, 30, "batch is frozen by order", explain=guard.why)
    storage.part("the clock is set")
    for jump in ("+2 minutes", "-2 minutes"):
        node.execute(f"date --set '{jump}'")
        time.sleep(QUIET)
        assert guard.frozen(), guard.why()
    wait_until(lambda: not guard.frozen(), 2 * ORDERED, "the freeze ends", explain=guard.why)
    lasted = time.time() - froze
    print(f"a freeze of {ORDERED:.0f} s lasted {lasted:.0f} s")
    assert lasted > ORDERED - 1
    storage.part("jobs run")
    batch.signal(scope)
    guard.wait_for_state("open", timeout=60)
    assert guard.pid() == pid, "the guard was replaced"
    assert not [one for one in guard.decisions() if one.action == "freeze" and one.cause != "ordered"], guard.why()
    report_of(batch.submit("burn --seconds 1"), timeout=300)
    parts = storage.parts()
    figures("the clock is set", parts, guard)
    assert all(part.failed == 0 for part in parts.values())
    report_of(innocent, timeout=300)
    assert_one_run(innocent)


@pytest.mark.full
def test_a_freeze_by_order_outlives_the_guard_and_a_suspended_node(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser
) -> None:
    guard.wait_for_state("open", timeout=120)
    innocent = batch.submit("burn --seconds 60 --on-signal 1")
    scope = batch.wait_until_ready(innocent, timeout=240)
    storage.watch()
    node.execute("beer freeze --for 10m --why 'nobody is to run'")
    wait_until(guard.frozen, 30, "batch is frozen by order", explain=guard.why)

    killed = guard.pid()
    node.execute("systemctl kill --signal KILL beer-guard")
    wait_until(lambda: guard.pid() not in (0, killed), 60, "another guard")
    time.sleep(BEYOND_HOLD)
    assert guard.frozen(), guard.why()

    storage.part("the node sleeps")
    pid = guard.pid()
    slept_before = float(node.execute(f"python3 -c '{SLEPT}'").stdout)
    node.execute(f"rtcwake --mode mem --seconds {SUSPENDED}", timeout=120)
    slept = float(node.execute(f"python3 -c '{SLEPT}'").stdout) - slept_before
    assert slept > SUSPENDED / 2, f"the node slept for {slept:.1f} s"
    storage.part("awake")
    time.sleep(BEYOND_HOLD)
    assert guard.pid() == pid, "the guard was replaced for what nobody could do"
    assert guard.frozen(), guard.why()

    node.execute("systemctl restart beer-guard", timeout=120)
    wait_until(guard.frozen, 30, "batch is frozen again", explain=guard.why)
    node.execute("beer resume --why 'they may'")
    wait_until(lambda: not guard.frozen(), 30, "batch is thawed by order", explain=guard.why)
    batch.signal(scope)
    guard.wait_for_state("open", timeout=60)
    assert not [one for one in guard.decisions() if one.action == "freeze" and one.cause != "ordered"], guard.why()
    parts = storage.parts()
    figures("a frozen node sleeps", parts, guard)
    assert all(part.failed == 0 for part in parts.values())
    for job in (innocent, batch.submit("burn --seconds 1")):
        assert report_of(job, timeout=300)["ok"] is True
        assert_one_run(job)

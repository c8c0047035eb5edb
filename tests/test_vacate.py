# SPDX-License-Identifier: Apache-2.0
"""Jobs leave the node through HTCondor, which queues them again: none is lost, held or taken for complete.

The hog that comes back with all its force is the victim here, the job beside it the innocent. The short times are in
the node's configuration; what decides is the guard as shipped.
"""

from __future__ import annotations

import time

import pytest
from beerbench.batch import IDLE, RUNNING, Batch, Job
from beerbench.guard import JOBS, Guard
from beerbench.neighbours import Neighbours
from beerbench.timeline import clock
from beerbench.timeline.decisions import Decision
from beerbench.waiting import wait_until
from beerlab import Machine
from support import StorageUser, assert_one_run, assert_undisturbed, figures, let_storage_be_alone, report_of
from test_protection_disk import AGAIN, RATE, RECOVERY, wait_until_learned

HOG = "hog-disk --threads 24 --size 64MiB --seconds 600 --on-signal 1"
CONFIG = "/etc/beer/guard.toml"
CROWDED = '[[gauge]]\nname = "crowded"\nsource = "host.load"\nabove = 0.0\nfor = "0s"\ndwell = "1s"\nthen = "vacate"\n'
# Batch may have so much more of its memory before somebody leaves for it.
# For as long as in guard.toml: who grew is seen every 5 s.
GROWN = """
[[gauge]]
name = "grown"
source = "batch.memory"
above = {:.4f}
for = "10s"
dwell = "1s"
then = "vacate"
"""
ROOM = 150e6
BATCH = "/sys/fs/cgroup/beer.slice"
# Who grew in the last minute is looked for first.
LONG_AGO = 70.0
# All of it in use, again and again.
HELD_MIB = 400
WAITER = f"hog-memory --size {HELD_MIB}MiB --seconds 900 --on-signal 1"
# More than a twentieth of a minute is to be seen, whatever of it is of the first look.
WAITED = 40.0
# Less than this is no growth (policy/src/taker.rs).
GROWTH_MIB = 64
# So much less than what they use is left to jobs, as where the node is short of memory for whomever. Who writes this
# waits until the kernel has taken it back.
LESS = 150 << 20
LEFT_TO_JOBS = "systemd-run --quiet sh -c 'echo {bytes} > " + JOBS + "/memory.high'"
# A service of storage that asks for more than it may have: the kernel slows it down (cgroup-v2.rst, memory.high).
SHORT = "storage-short-of-memory"
SHORT_OF_MEMORY = f"systemd-run --quiet --unit={SHORT} --slice=storage.slice -p MemoryHigh=8M -p MemoryMax=256M "
SHORT_OF_MEMORY += "-p MemorySwapMax=0 tail /dev/zero"
# The same, ended by the kernel at once.
OUT_OF_MEMORY = "systemd-run --quiet --wait --slice=storage.slice -p MemoryMax=64M -p MemorySwapMax=0 tail /dev/zero"
ENDED_FOR_MEMORY = """
[[gauge]]
name = "out-of-memory"
source = "storage.memory.ooms"
above = 0.0
for = "0s"
dwell = "1s"
then = "emergency"
"""
# When a starter is gone without a word HTCondor queues the job again at the end of its lease (10 min as shipped).
LEASE = "job_lease_duration = 60"


def configure(node: Machine, **ladder: str) -> None:
    edits = "; ".join(f"s/^{key} = .*/{key} = {value}/" for key, value in ladder.items())
    node.execute(f"sed -i '{edits}' {CONFIG} && systemctl restart beer-guard", timeout=120)


def times_started(job: Job) -> int:
    return int(job.attributes("NumJobStarts")[0])


def evicted(node: Machine, job: Job) -> bool:
    """HTCondor's log of the job says so (event 004; 024 when the starter had gone before)."""
    return node.execute(f"grep -qE '^(004|024) \\(0*{job.cluster}\\.' /home/alice/bench.log", check=False).status == 0


def assert_queued_again(job: Job) -> None:
    assert not job.ended(), job.explain()
    assert job.status in (IDLE, RUNNING), job.explain()
    held = job.attributes("NumHolds")
    assert held in (["0"], ["undefined"]), held


def kills(guard: Guard) -> list[Decision]:
    return [one for one in guard.decisions() if one.action == "kill"]


def decision(guard: Guard, action: str) -> Decision:
    found = [one for one in guard.decisions() if one.action == action]
    assert found, guard.why()
    return found[0]


def held_mib(node: Machine, scope: str) -> float:
    """What its tasks hold, with what is in swap."""
    asked = f"sed -nE 's/^(anon|shmem) //p' {scope}/memory.stat; cat {scope}/memory.swap.current"
    return sum(map(int, node.execute(asked).stdout.split())) / 2**20


def waited_for_memory(node: Machine, scope: str) -> float:
    """Seconds in which some task of it did."""
    return int(node.execute(f"sed -n 's/^some .*total=//p' {scope}/memory.pressure").stdout) / 1e6


def leave_storage_short_of_memory(node: Machine, guard: Guard) -> None:
    """Until somebody is told to leave for it."""
    node.execute(SHORT_OF_MEMORY, timeout=60)
    wait_until(
        lambda: [one for one in guard.decisions() if one.action == "vacate"],
        120,
        "somebody is told to leave",
        interval=1.0,
        explain=guard.why,
    )
    node.execute(f"systemctl stop {SHORT}", timeout=60)


def assert_left_alone(guard: Guard, cause: str, leaver: Job, scope: str, innocent: Job) -> None:
    """HTCondor ended that job for that cause, and queued it again; the innocent ran to its right end."""
    why = guard.why()
    print(why)
    left = decision(guard, "vacate")
    assert (left.cause, left.jobs) == (cause, (scope.rsplit("/", 1)[1],)), why
    assert not [one for one in guard.decisions() if one.action in ("evacuate", "kill")], why
    # it may start anew, and waits for a signal then
    assert_queued_again(leaver)
    assert report_of(innocent, timeout=300)["ok"] is True
    assert_one_run(innocent)


@AGAIN
def test_who_attacks_again_and_again_leaves_and_is_queued_again(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser, neighbours: Neighbours
) -> None:
    configure(node, throttle="false", freeze_max='"15s"', hold_max='"15s"')
    guard.wait_for_state("open", timeout=120)
    hog, innocent = batch.submit(HOG), batch.submit("burn --seconds 60 --on-signal 1")
    hostile, peaceful = (batch.wait_until_ready(job, timeout=240) for job in (hog, innocent))
    storage.start(rate=RATE, duration=900, disks=("/data/01",))
    wait_until_learned(guard, neighbours)
    time_of = clock.measure(node)
    batch.signal(peaceful)
    began = time.time()
    struck = batch.signal(hostile)
    wait_until(lambda: evicted(node, hog), 180, "HTCondor ends the hog", interval=2.0, explain=guard.why)
    over = time.time()
    samples = storage.stop()
    parts = {"onset": samples.due_between(began, began + RECOVERY), "attacked": samples.due_between(began, over)}
    figures("a hog that leaves", parts, guard, time_of, struck, {"hog": hostile, "innocent": peaceful})
    assert_undisturbed(neighbours, began, over)

    guard.wait_for_state("open", timeout=120)
    assert_left_alone(guard, "stood_too_long", hog, hostile, innocent)


@pytest.mark.full
def test_whom_htcondor_does_not_end_is_ended_and_queued_again(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser
) -> None:
    guard.wait_for_state("open", timeout=120)
    elder, younger = (
        batch.submit("burn --seconds 20 --on-signal 1", LEASE),
        batch.submit("burn --seconds 20 --on-signal 1", LEASE),
    )
    scopes = [batch.wait_until_ready(job, timeout=240) for job in (elder, younger)]
    storage.watch()
    node.execute("kill -STOP $(pgrep -x dockerd)")  # HTCondor waits for it, as for a storage driver that hangs
    configure(node, vacate_deadline='"10s"')
    guard.wait_for_state("open", timeout=60)
    time_of, struck = clock.measure(node), storage.part("emergency")
    node.execute(f"cat >> {CONFIG} && systemctl reload beer-guard", input=CROWDED, timeout=60)
    guard.wait_for_state("emergency", timeout=60)
    gone = [f"[ ! -e {scope} ]" for scope in scopes]
    wait_until(
        lambda: node.execute(" && ".join(gone), check=False).status == 0,
        90,
        "all jobs are gone",
        interval=2.0,
        explain=guard.why,
    )
    jobs = dict(zip(("elder", "younger"), scopes, strict=True))
    figures("emergency", storage.parts(), guard, time_of, struck + time_of.offset, jobs)
    node.execute("kill -CONT $(pgrep -x dockerd)")
    why = guard.why()
    print(why)
    vacate, evacuate, kill = (decision(guard, action) for action in ("vacate", "evacuate", "kill"))
    names = [scope.rsplit("/", 1)[1] for scope in scopes]
    assert (vacate.cause, len(vacate.jobs)) == ("gauge_above", 1), why
    assert (evacuate.cause, set(evacuate.jobs)) == ("vacate_overdue", set(names)), why
    assert kill.jobs == vacate.jobs, why
    for job in (elder, younger):
        wait_until(lambda job=job: evicted(node, job), 180, "HTCondor knows it", interval=2.0, explain=job.explain)
        assert_queued_again(job)

    # nothing starts until an operator says so
    assert guard.state() == "emergency"
    node.execute(
        f'sed -i \'s/^then = "vacate"/then = "close"/; s/^above = 0.0/above = 1000.0/\' {CONFIG} && '
        "systemctl reload beer-guard && beer resume",
        timeout=60,
    )
    for job in (elder, younger):
        batch.signal(batch.wait_until_ready(job, timeout=300))
    for job in (elder, younger):
        assert report_of(job, timeout=300)["ok"] is True
        assert times_started(job) == 2


@pytest.mark.full
def test_whose_memory_grew_leaves_and_not_the_youngest(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser
) -> None:
    guard.wait_for_state("open", timeout=120)
    grower = batch.submit("hog-memory --size 400MiB --seconds 300 --on-signal 1", "request_memory = 600MB")
    grows = batch.wait_until_ready(grower, timeout=240)
    younger = batch.submit("burn --seconds 60 --on-signal 1")
    beside = batch.wait_until_ready(younger, timeout=240)
    used, limit = (
        float(word) for word in node.execute(f"cat {BATCH}/memory.current {BATCH}/memory.max").stdout.split()
    )
    gauge = GROWN.format((used + ROOM) / limit)
    node.execute(f"cat >> {CONFIG} && systemctl reload beer-guard", input=gauge, timeout=60)
    storage.watch()
    time_of = clock.measure(node)
    batch.signal(beside)
    storage.part("memory grows")
    struck = batch.signal(grows)
    wait_until(lambda: evicted(node, grower), 240, "HTCondor ends the one that grew", interval=2.0, explain=guard.why)
    jobs = {"grower": grows, "younger": beside}
    figures("the memory of a job grows", storage.parts(), guard, time_of, struck, jobs)
    assert_left_alone(guard, "memory_growth", grower, grows, younger)


@pytest.mark.full
def test_the_youngest_leaves_while_storage_waits_for_memory(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser
) -> None:
    """The gauge and its limit as shipped, and what the kernel says of storage.slice."""
    guard.wait_for_state("open", timeout=120)
    elder = batch.submit("burn --seconds 60 --on-signal 1")
    stays = batch.wait_until_ready(elder, timeout=240)
    younger = batch.submit("burn --seconds 10 --on-signal 1")
    leaves = batch.wait_until_ready(younger, timeout=240)
    storage.watch()
    let_storage_be_alone(LONG_AGO)
    time_of = clock.measure(node)
    batch.signal(stays)
    struck = storage.part("storage waits for memory")
    leave_storage_short_of_memory(node, guard)
    wait_until(lambda: evicted(node, younger), 180, "HTCondor ends the youngest", interval=2.0, explain=guard.why)
    jobs = {"elder": stays, "younger": leaves}
    figures("storage waits for memory", storage.parts(), guard, time_of, struck + time_of.offset, jobs)
    assert_left_alone(guard, "gauge_above", younger, leaves, elder)
    batch.signal(batch.wait_until_ready(younger, timeout=300))
    assert report_of(younger, timeout=300)["ok"] is True
    assert times_started(younger) == 2


@pytest.mark.full
@pytest.mark.layout("scratch-apart")
def test_who_waits_most_for_memory_leaves_and_not_the_youngest(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser
) -> None:
    """On disks of their own jobs may swap."""
    guard.wait_for_state("open", timeout=120)
    waiter = batch.submit(WAITER, "request_memory = 600MB")
    waits = batch.wait_until_ready(waiter, timeout=240)
    younger = batch.submit("burn --seconds 60 --on-signal 1")
    beside = batch.wait_until_ready(younger, timeout=240)
    storage.watch()
    time_of = clock.measure(node)
    batch.signal(waits)
    wait_until(lambda: held_mib(node, waits) >= HELD_MIB, 300, "it holds all", interval=3.0, explain=guard.why)
    held = held_mib(node, waits)
    let_storage_be_alone(LONG_AGO)

    batch.signal(beside)
    storage.part("memory is taken from jobs")
    used = int(node.execute(f"cat {JOBS}/memory.current").stdout)
    node.execute(LEFT_TO_JOBS.format(bytes=used - LESS))
    before = waited_for_memory(node, waits)
    let_storage_be_alone(WAITED)
    assert waited_for_memory(node, waits) - before > WAITED / 10, "it does not wait for memory: this shows nothing"
    assert held_mib(node, waits) - held < GROWTH_MIB
    assert not [one for one in guard.decisions() if one.action == "vacate"], guard.why()
    struck = storage.part("storage waits for memory")
    leave_storage_short_of_memory(node, guard)
    node.execute(f"[ -e {beside} ] && echo max > {JOBS}/memory.high", timeout=60)
    wait_until(lambda: evicted(node, waiter), 180, "HTCondor ends it", interval=2.0, explain=guard.why)
    jobs = {"waiter": waits, "younger": beside}
    figures("one job waits for memory", storage.parts(), guard, time_of, struck + time_of.offset, jobs)
    assert_left_alone(guard, "memory_wait", waiter, waits, younger)


@pytest.mark.full
def test_all_leave_when_storage_runs_out_of_memory(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser
) -> None:
    node.execute(f"cat >> {CONFIG} && systemctl reload beer-guard", input=ENDED_FOR_MEMORY, timeout=60)
    guard.wait_for_state("open", timeout=120)
    jobs = [batch.submit("burn --seconds 10 --on-signal 1") for _ in range(2)]
    scopes = [batch.wait_until_ready(job, timeout=240) for job in jobs]
    storage.watch()
    time_of, struck = clock.measure(node), storage.part("storage is out of memory")
    ended = node.execute(OUT_OF_MEMORY, timeout=120, check=False)
    assert ended.status != 0, "it was not ended: this shows nothing"
    guard.wait_for_state("emergency", timeout=30)
    for job in jobs:
        wait_until(lambda job=job: evicted(node, job), 180, "HTCondor ends it", interval=2.0, explain=guard.why)
    named = dict(zip(("elder", "younger"), scopes, strict=True))
    figures("storage is out of memory", storage.parts(), guard, time_of, struck + time_of.offset, named)
    why = guard.why()
    print(why)
    evacuate = decision(guard, "evacuate")
    names = {scope.rsplit("/", 1)[1] for scope in scopes}
    assert (evacuate.cause, set(evacuate.jobs)) == ("gauge_above", names), why
    assert not kills(guard), why
    for job in jobs:
        assert_queued_again(job)

    # nothing starts until an operator says so
    assert guard.state() == "emergency"
    node.execute("beer resume --why 'it has memory again'")
    for job in jobs:
        batch.signal(batch.wait_until_ready(job, timeout=300))
    for job in jobs:
        assert report_of(job, timeout=300)["ok"] is True
        assert times_started(job) == 2


@pytest.mark.full
def test_a_container_whose_starter_died_is_ended(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser
) -> None:
    guard.wait_for_state("open", timeout=120)
    orphan, other = (
        batch.submit("burn --seconds 5 --on-signal 1", LEASE),
        batch.submit("burn --seconds 5 --on-signal 1"),
    )
    scope, kept = (batch.wait_until_ready(job, timeout=240) for job in (orphan, other))
    name = scope.rsplit("/", 1)[1]
    [starter] = [
        child.split("PID")[1]
        for child in node.execute("docker ps --no-trunc --format '{{.ID}} {{.Names}}'").stdout.splitlines()
        if child.split()[0] in name
    ]
    storage.watch()
    time_of = clock.measure(node)
    node.execute(f"kill -KILL {starter}")
    began = storage.part("an orphan")
    gone = f"[ ! -e {scope} ]"
    wait_until(lambda: node.execute(gone, check=False).status == 0, 180, "it is gone", interval=2.0, explain=guard.why)
    print(f"gone {time.time() - began:.0f} s after its starter")
    jobs = {"orphan": scope, "other": kept}
    figures("a starter is killed", storage.parts(), guard, time_of, began + time_of.offset, jobs)
    # The journal waits for what came of it.
    wait_until(lambda: kills(guard), 30, "the journal says so", explain=guard.why)
    [ended] = kills(guard)
    assert (ended.cause, ended.jobs) == ("orphan", (name,))
    wait_until(lambda: evicted(node, orphan), 180, "HTCondor knows it", interval=2.0, explain=orphan.explain)
    assert_queued_again(orphan)
    batch.signal(kept)
    assert report_of(other, timeout=300)["ok"] is True
    assert_one_run(other)

# SPDX-License-Identifier: Apache-2.0
"""Batch as a whole gets less CPU, memory and network while storage is short of it, and all of it back, whatever becomes
of the guard.

What storage is short of is said by a signal of the site's own, so that the test is the one who says it. Innocent: the
job, which runs on with less and is never frozen.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from beerbench.batch import RUNNING, Batch
from beerbench.guard import JOBS, Guard
from beerbench.waiting import wait_until
from beerlab import Machine
from support import assert_one_run, knobs, of_cpu_list, per_second
from test_site_signal import set_value

SCRIPT = r"""#!/bin/sh
read value < /run/site-value
echo "{\"cpu\": $value, \"memory\": $value, \"network\": $value}"
"""
CONFIG = """
[[exec]]
name = "site"
command = ["/usr/local/bin/site-signal"]
interval = "5s"
timeout = "5s"
metrics = ["cpu", "memory", "network"]

[[gauge]]
name = "site-cpu"
source = "exec.site.cpu"
above = 10
for = "0s"
dwell = "5s"
grace = "30s"
then = "throttle-cpu"

[[gauge]]
name = "site-memory"
source = "exec.site.memory"
above = 10
for = "0s"
dwell = "5s"
grace = "30s"
then = "throttle-memory"

[[gauge]]
name = "site-network"
source = "exec.site.network"
above = 10
for = "0s"
dwell = "5s"
grace = "30s"
then = "throttle-network"
"""
# The emulated interface does not say how fast it is.
SPEED = 'sed -i \'s/^speed = ""/speed = "1Gbit"/\' /etc/beer/guard.toml'
RESOURCES = {"cpu", "memory", "network"}
FLOOR = 0.05  # of what it had: policy/src/squeeze.rs
DROP_INS = "/run/systemd/system.control/beer-jobs.slice.d"


def network_limits(node: Machine) -> int:
    """How many there are: one for each direction."""
    return node.execute("nft list chain inet beer limit_batch", check=False).stdout.count("limit rate over")


def cpus_used(node: Machine) -> float:
    """Of all jobs together, over some seconds."""
    return per_second(node, f"sed -n 's/^usage_usec //p' {JOBS}/cpu.stat") / 1e6


def wait_for_the_least(guard: Guard) -> None:
    least = len(RESOURCES) * FLOOR + 1e-6
    wait_until(
        lambda: guard.metric("beer_batch_allowed_ratio") <= least, 120, "the least of all of them", explain=guard.why
    )


def short_of_nothing(node: Machine, guard: Guard, folder: Path) -> None:
    """From here on the site's own signal says what storage is short of."""
    set_value(node, "1")
    script = folder / "site-signal"
    script.write_text(SCRIPT)
    node.copy_to(script, "/usr/local/bin/site-signal")
    node.execute(f"chmod 755 /usr/local/bin/site-signal && cat >> /etc/beer/guard.toml <<'END'\n{CONFIG}\nEND")
    node.execute(SPEED)
    node.execute("systemctl start beer-exec@site && systemctl restart beer-guard", timeout=120)
    guard.wait_for_state("open", timeout=180)


def test_batch_as_a_whole_gets_less_and_all_of_it_back(
    node: Machine, batch: Batch, guard: Guard, tmp_path: Path
) -> None:
    short_of_nothing(node, guard, tmp_path)
    job = batch.submit("burn --seconds 900 --on-signal 1")
    batch.signal(batch.wait_until_ready(job, timeout=240))
    before = knobs(node)
    free = cpus_used(node)

    set_value(node, "20")
    wait_until(lambda: guard.metric("beer_batch_allowed_ratio") < len(RESOURCES), 60, "less of it", explain=guard.why)
    # It helps a little, so it is not in vain.
    set_value(node, "12")

    wait_for_the_least(guard)

    def quota() -> bool:
        return node.execute(f"cat {JOBS}/cpu.max").stdout.startswith("5000 ")

    def idle() -> bool:
        return node.execute(f"cat {JOBS}/cpu.idle").stdout.strip() == "1"

    wait_until(quota, 60, "5 % of the one CPU")
    squeezed = cpus_used(node)
    print(f"CPUs used by batch: {free:.2f} free, {squeezed:.3f} with the least")
    assert squeezed < 2 * FLOOR, "a quota of a twentieth of a CPU"
    assert free > 4 * squeezed
    now = knobs(node)
    assert now[3] != "max"
    assert set(guard.status()["squeezed"]) == RESOURCES
    wait_until(lambda: network_limits(node) == 2, 60, "the network is limited", explain=guard.why)
    less = "Batch as a whole has 50Mbit/s of network"
    wait_until(lambda: less in guard.why(), 60, "the journal says so", explain=guard.why)
    assert not guard.frozen()
    assert "Batch as a whole has 0.05 of 1 CPUs because storage was short of it" in guard.why()

    drifts = guard.metric("beer_limit_drifts_total", absent=0)
    node.execute(f"echo max > {JOBS}/cpu.max; nft delete table inet beer")
    wait_until(quota, 60, "somebody's change is undone")
    wait_until(lambda: network_limits(node) == 2, 90, "all rules are back", explain=guard.why)
    seen = "both were seen"
    wait_until(lambda: guard.metric("beer_limit_drifts_total") >= drifts + 2, 30, seen, explain=guard.why)

    # With a twentieth of a CPU they would stand still later.
    node.execute("beer freeze --for 10min")
    wait_until(guard.frozen, 30, "frozen with a quota", explain=guard.why)
    print(*(line for line in guard.why().splitlines() if "frozen" in line), sep="\n")
    wait_until(lambda: quota() and idle(), 10, "lifted only until they stand still", explain=lambda: str(knobs(node)))
    assert guard.frozen()
    node.execute("beer resume")
    wait_until(lambda: not guard.frozen(), 30, "runs again", explain=guard.why)
    assert quota()
    assert idle()
    guard.wait_for_state("throttled", timeout=30)

    # The guard dies in the middle of it, and storage is short of it still when the next one comes, to which the
    # fail-safe has left its caps.
    old = guard.pid()
    node.execute("systemctl kill -s KILL beer-guard")
    wait_until(lambda: guard.pid() not in (0, old), 60, "another guard", explain=guard.why)
    # A whole core is the fail-safe's.
    part = f"[ $(cut -d' ' -f1 {JOBS}/cpu.max) -lt 100000 ]"
    wait_until(lambda: not node.execute(part, check=False).status, 120, "it gives batch less, too", explain=guard.why)
    set_value(node, "1")
    as_before = f"all is as it was before: {before}"
    wait_until(lambda: knobs(node) == before, 300, as_before, explain=lambda: str(knobs(node)))
    guard.wait_for_state("open", timeout=60)
    wait_until(lambda: guard.metric("beer_batch_allowed_ratio") == len(RESOURCES), 30, "and said so", explain=guard.why)
    wait_until(lambda: network_limits(node) == 0, 60, "the network is free", explain=guard.why)
    tidy = f"ls {DROP_INS} 2>/dev/null | grep -E 'AllowedCPUs|CPUQuota|CPUWeight|MemoryHigh' || true"
    wait_until(lambda: not node.execute(tidy).stdout, 60, "nothing of ours is left with systemd")
    assert cpus_used(node) > 4 * squeezed
    assert job.status == RUNNING


@pytest.mark.full
def test_what_was_of_no_use_is_given_back(node: Machine, batch: Batch, guard: Guard, tmp_path: Path) -> None:
    """Storage is as short as before whatever batch has: it was not batch, which gets all back and is left alone."""
    short_of_nothing(node, guard, tmp_path)
    job = batch.submit("burn --seconds 900 --on-signal 1")
    batch.signal(batch.wait_until_ready(job, timeout=240))
    before = knobs(node)

    def allowed() -> float:
        return guard.metric("beer_batch_allowed_ratio")

    set_value(node, "20")
    wait_until(lambda: allowed() < len(RESOURCES), 60, "less of it", explain=guard.why)
    wait_until(lambda: knobs(node) != before, 60, "the kernel knows", explain=guard.why)
    wait_until(lambda: allowed() == len(RESOURCES), 240, "all of it again", interval=2.0, explain=guard.why)
    wait_until(lambda: knobs(node) == before, 60, "as it was", explain=lambda: f"{before}\n{knobs(node)}")
    wait_until(lambda: network_limits(node) == 0, 60, "the network is free", explain=guard.why)
    why = guard.why()
    print(why)
    gone = [one for one in guard.decisions() if one.cause == "squeeze_in_vain"]
    assert len(gone) == len(RESOURCES), why
    assert guard.state() == "closed", "storage is short of it all the while: no new jobs"
    assert not guard.frozen()
    assert job.status == RUNNING
    assert_one_run(job)


def cpus_of_jobs(node: Machine) -> set[int]:
    return of_cpu_list(node.execute(f"cat {JOBS}/cpuset.cpus.effective").stdout)


@pytest.mark.full
@pytest.mark.cpus(cores=6, threads=2)
def test_whole_cores_are_taken_with_all_their_threads(
    node: Machine, batch: Batch, guard: Guard, tmp_path: Path
) -> None:
    """Three cores of two threads each, one of them storage's alone: batch has two, then one, then two again."""
    short_of_nothing(node, guard, tmp_path)
    job = batch.submit("burn --seconds 900 --on-signal 1")
    scope = batch.wait_until_ready(job, timeout=400)
    batch.signal(scope)
    siblings = node.execute("cat /sys/devices/system/cpu/cpu*/topology/thread_siblings_list").stdout.split()
    cores = [of_cpu_list(line) for line in set(siblings)]
    assert sorted(map(len, cores)) == [2, 2, 2]
    before = cpus_of_jobs(node)
    assert len(before) == 4
    set_value(node, "20")
    wait_until(lambda: len(cpus_of_jobs(node)) == 2, 120, "one core is left", explain=guard.why)
    set_value(node, "12")  # it helps a little, so it is not in vain
    left = cpus_of_jobs(node)
    assert left in cores, guard.why()
    assert left < before
    assert of_cpu_list(node.execute(f"cat {scope}/cpuset.cpus.effective").stdout) == left, "of the job that runs, too"

    # Somebody else has it use one thread of each core, while the guard changes nothing: what it changes it would put
    # right unseen.
    wait_for_the_least(guard)
    wait_until(lambda: cpus_of_jobs(node) == left, 10, "of the same core", explain=guard.why)
    drifts = guard.metric("beer_limit_drifts_total", absent=0)
    node.execute(f"systemctl set-property --runtime beer-jobs.slice AllowedCPUs={min(before)},{max(before)}")
    seen = "somebody's change is seen"
    wait_until(lambda: guard.metric("beer_limit_drifts_total", absent=0) > drifts, 60, seen, explain=guard.why)
    wait_until(lambda: cpus_of_jobs(node) == left, 60, "and undone", explain=guard.why)

    set_value(node, "1")
    wait_until(lambda: cpus_of_jobs(node) == before, 300, "all cores are back", interval=2.0, explain=guard.why)
    print(*(line for line in guard.why().splitlines() if "CPUs" in line), sep="\n")
    assert job.status == RUNNING

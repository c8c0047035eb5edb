# SPDX-License-Identifier: Apache-2.0
"""What only tests ask of jobs and of storage. Everything else that moves a node is in benchmarks/beerbench."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from beerbench.batch import RUNNING, Job
from beerbench.clients import OUT_IN_ROOT, Clients, Load, Run, Storage, Stream
from beerbench.guard import JOBS, Guard
from beerbench.neighbours import DISTURBED, Neighbours
from beerbench.timeline.clock import Clock
from beerbench.timeline.decisions import Decisions
from beerbench.timeline.requests import OK, Requests
from beerbench.waiting import wait_until
from beerlab import Machine, client_root
from beerlab.disks import load_paths
from beerlab.process import run

# The promise of guard.toml as shipped; test_path.py compares the two.
OBJECTIVE_SECONDS = 0.1
# So many requests have a p99.
ENOUGH = 100
# How many spells of slow requests are told.
SPELLS = 6
# What was due so many seconds before the end may have had no time for an answer.
LAST = 2.0
DISKS = ("/data/01", "/data/02")
# The first requests of a connection are slow.
CONNECTED = 5.0
ROOT = Path("/sys/fs/cgroup")


def report_of(job: Job, timeout: float) -> dict[str, Any]:
    """Waits for its successful end; the report that the payload printed."""
    report = job.report(timeout)
    assert job.attributes("ExitCode") == ["0"], f"{report}\n{job.explain()}"
    return report


def disk_requests(node: Machine, cgroup: str, *kinds: str) -> int:
    """Requests of a cgroup on all disks so far; kinds: rios, wios (kernel, cgroup-v2.rst, io.stat)."""
    io = node.execute(f"cat {ROOT / cgroup / 'io.stat'}").stdout.split()
    return sum(int(word.split("=")[1]) for word in io if word.split("=")[0] in kinds)


def per_second(node: Machine, counter: str, seconds: float = 8.0) -> float:
    """How fast the number grows that this command prints, over some seconds of the node's time."""
    look = f"{counter}; cut -d' ' -f1 /proc/uptime"
    first = [float(word) for word in node.execute(look).stdout.split()]
    time.sleep(seconds)
    last = [float(word) for word in node.execute(look).stdout.split()]
    return (last[0] - first[0]) / (last[1] - first[1])


def limits_of_disks(node: Machine) -> str:
    """Of all of batch together."""
    return node.execute(f"cat {JOBS}/io.max").stdout.strip()


def knobs(node: Machine) -> tuple[str, ...]:
    """What a guard may change of the slice; a list of all CPUs that there can be is as good as none."""
    text = node.execute(
        f"cd {JOBS} && cat cpu.max cpu.weight cpu.idle memory.high; cpus=$(cat cpuset.cpus 2>/dev/null); "
        '[ "$cpus" != "$(cat /sys/devices/system/cpu/possible)" ] || cpus=; echo ":$cpus"'
    ).stdout
    return tuple(text.split("\n"))


def of_cpu_list(text: str) -> set[int]:
    """Of `0-2,5` (cgroup-v2.rst, `cpuset.cpus`) the numbers."""
    parts = [[int(end) for end in part.split("-")] for part in text.strip().split(",")]
    return {cpu for part in parts for cpu in range(part[0], part[-1] + 1)}


# For `ticks_in`: a node that has no CPU left may need ten seconds for another command.
CPU_TICKS = "cat {scope}/cpuset.cpus.effective; grep '^cpu[0-9]' /proc/stat"


def cpu_ticks(node: Machine, scope: str) -> tuple[int, int]:
    """Of the CPUs that a job may use: those in which they were idle (proc_stat(5): idle, iowait), and all."""
    return ticks_in(node.execute(CPU_TICKS.format(scope=scope)).stdout.splitlines())


def ticks_in(lines: list[str]) -> tuple[int, int]:
    """The same of what CPU_TICKS has printed."""
    allowed, *stat = lines
    mine = {f"cpu{number}" for number in of_cpu_list(allowed)}
    ticks = [[int(word) for word in line.split()[1:9]] for line in stat if line.split()[0] in mine]
    return sum(one[3] + one[4] for one in ticks), sum(map(sum, ticks))


def assert_one_run(job: Job) -> None:
    """It was started once, never evicted, held or suspended by HTCondor: freezing is invisible there.

    While it runs the queue may not know NumJobStarts yet: the shadow counts it, and tells at its next update.
    """
    starts = ("NumShadowStarts",) if job.status == RUNNING else ("NumShadowStarts", "NumJobStarts")
    names = (*starts, "NumHolds", "TotalSuspensions")
    found = dict(zip(names, job.attributes(*names), strict=True))
    assert {found[name] for name in starts} == {"1"}, found
    assert {found["NumHolds"], found["TotalSuspensions"]} <= {"0", "undefined"}, found


def percentile(requests: Requests, share: float) -> float:
    """Of the latency, in seconds; a request without an answer counts with its age."""
    assert len(requests) >= ENOUGH, f"{len(requests)} requests are too few to judge"
    return float(np.percentile(requests.done - requests.due, share))


def assert_served(requests: Requests, end: float) -> None:
    """Every one that was due some time before `end`, when the load was stopped, was answered."""
    due = requests.due_between(0, end - LAST)
    assert due.count(OK) == len(due) > 0, f"{len(due) - due.count(OK)} of {len(due)} requests were not answered"


def first_over(requests: Requests, seconds: float, after: float) -> float | None:
    """When the first request after a moment took longer than that: the onset that storage saw. None = it saw none."""
    over = requests.due[(requests.due >= after) & (requests.done - requests.due > seconds)]
    return float(over[0]) if len(over) else None


def slow_spells(requests: Requests, since: float) -> list[dict[str, float]]:
    """When requests were over the objective, in seconds from then on: those less than a second apart are one spell. The
    longest spells, in their order."""
    over = np.sort(requests.due[requests.latency > OBJECTIVE_SECONDS])
    spells = np.split(over, np.flatnonzero(np.diff(over) > 1.0) + 1) if len(over) else []
    longest = sorted(spells, key=len, reverse=True)[:SPELLS]
    return [
        {
            "from_s": round(float(spell[0]) - since, 2),
            "to_s": round(float(spell[-1]) - since, 2),
            "requests": len(spell),
        }
        for spell in sorted(longest, key=lambda spell: float(spell[0]))
    ]


def figures(
    case: str,
    parts: Mapping[str, Requests],
    guard: Guard | None = None,
    clock: Clock | None = None,
    struck: float = 0.0,
    jobs: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Prints, in one line that can be kept, what an attack did: to the client in each part of the time, and with a
    guard how long that one took from the first slow request of the last part, and what each job lost.

    `struck` is when it began, by the node's clock; `acted_s` tells how long after it the guard first did each thing;
    `jobs` are cgroups. A time to act below zero: nobody was slow yet.
    Of a part with too few requests for percentiles the slowest one is told, of the last part when it was slow.
    """
    found: dict[str, Any] = {"case": case, "guard": guard is not None}
    for name, part in parts.items():
        if len(part) < ENOUGH:
            slowest = max((part.done - part.due).tolist(), default=0.0)
            found[name] = {"requests": len(part), "slowest_ms": round(slowest * 1e3, 1)}
            continue
        slow = float((part.latency > OBJECTIVE_SECONDS).mean())
        p50, p99 = (round(percentile(part, share) * 1e3, 1) for share in (50, 99))
        found[name] = {"requests": len(part), "p50_ms": p50, "p99_ms": p99, "over_objective": round(slow, 4)}
    if guard is not None and clock is not None:
        decisions = Decisions(guard.decisions())
        last = list(parts.values())[-1]
        found["slow"] = slow_spells(last, struck - clock.offset)
        acted: dict[str, float] = {}
        for one in decisions.items:
            if one.time >= struck and one.action != "none":
                acted.setdefault(one.action, round(one.time - struck, 3))
        found["acted_s"] = acted
        froze = decisions.first("freeze", struck)
        onset = first_over(last, OBJECTIVE_SECONDS, after=struck - clock.offset)
        if froze is not None and onset is not None:
            found["slow_to_freeze_s"] = round(froze.time - clock.offset - onset, 3)
            found["clocks_within_s"] = round(clock.error, 3)
        if jobs:
            now = time.time() + clock.offset
            lost = {name: decisions.stood_still(scope.rsplit("/", 1)[1], struck, now) for name, scope in jobs.items()}
            found["lost_s"] = {name: round(seconds, 2) for name, seconds in lost.items()}
    print(f"figures: {json.dumps(found)}")
    return found


class Disturbed(Exception):
    """Neighbours of this machine took so much that latencies in that time are theirs: nothing was shown."""


# Seconds; a job that stands still for longer is looked at.
STALLED = 3.0
LOOKED_AT = 100.0


def assert_undisturbed(neighbours: Neighbours, start: float, end: float) -> None:
    share, others = neighbours.taken(start, end)
    assert not math.isnan(share), "stolen CPU time was not sampled all the time"
    took = f"neighbours of this machine took {share:.0%} of its CPU, and other work on it {others:.0%}"
    print(f"{took}, in {end - start:.0f} s")
    if share > DISTURBED:
        raise Disturbed(f"{share:.0%} of the CPU were taken in {end - start:.0f} s, at most {DISTURBED:.0%} may be")


def let_compute(until: float) -> None:
    """Nobody asks HTCondor anything before: on an emulated CPU that takes seconds from jobs, which looks as if they had
    been made to stand still (2.9 s with nobody frozen, benchmarks/runs/2026-11-28-2-core)."""
    time.sleep(max(0.0, until - time.time()))


def let_storage_be_alone(seconds: float) -> float:
    """Nobody attacks for so long; when that began."""
    since = time.time()
    wait_until(lambda: time.time() > since + seconds, seconds + 30, "storage alone was measured", interval=1.0)
    return since


def require_well(alone: Requests) -> None:
    """What storage was before an attack, or nothing was shown."""
    if (p99 := percentile(alone, 99)) > OBJECTIVE_SECONDS:
        raise Disturbed(f"storage alone had a p99 of {p99 * 1e3:.0f} ms just before the attack")


def stood_still(report: dict[str, Any], neighbours: Neighbours, since: float) -> float:
    """The longest time in seconds for which a job that began then did not run, if this machine went on meanwhile."""
    if (gap := neighbours.longest_gap(since, since + LOOKED_AT)) > STALLED:
        raise Disturbed(f"this machine stood still for {gap:.1f} s, at most {STALLED} s may be")
    gaps = (f"{gap['seconds']:.1f} s until {gap['ended'] - since:.1f} s" for gap in report["gaps"])
    print("gaps of the job, from when it began (by two clocks):", ", ".join(gaps))
    return float(report["longest_gap_seconds"])


class StorageUser:
    """One user outside the node with the key `storage`; reads in the background from `start` to `stop`."""

    def __init__(self, node: Machine, folder: Path) -> None:
        self._clients = Clients(client_root(), Storage.of(node, [], folder), folder)
        self._url = f"root://{self._clients.storage.endpoint}"
        self._load: Run | None = None
        self._parts: list[tuple[str, float]] = []

    def xrdfs(self, *arguments: str) -> str:
        return run(self._clients.command(["xrdfs", self._url, *arguments]), timeout=240)

    def fetch(self, path: str, name: str) -> Path:
        """Copies a file out of storage with xrdcp."""
        run(self._clients.command(["xrdcp", "-s", "-f", f"{self._url}/{path}", f"{OUT_IN_ROOT}/{name}"]), timeout=240)
        return self._clients.out / name

    def compete(self, streams: list[Stream], seconds: float) -> list[float]:
        """MB/s of each of these streams while all of them run."""
        end = self._clients.streams("race", streams, seconds).wait(seconds + 240)
        assert end["errors"] == [], end
        return [float(rate) for rate in end["mb_s"]]

    def start(self, *, rate: float, duration: float, disks: tuple[str, ...] = DISKS, seed: int = 1) -> None:
        """Starts random reads (16 KiB) at a fixed rate over the disks; returns when all connections are open.

        Users with the same seed read the same blocks, which the page cache then has for the second.
        """
        assert self._load is None, "a load is running already"
        files = [load_paths(int(disk.removeprefix("/data/"))) for disk in disks]
        self._clients.storage = replace(self._clients.storage, disks=files)
        self._load = self._clients.start(
            "open_loop", "load", Load(duration=duration, connections=16, rate=rate, seed=seed)
        )
        self._load.wait_ready(180)

    def saturate(self, disk: str, seconds: float, seed: int) -> Requests:
        """Keeps 16 reads (16 KiB) of one disk outstanding for so long, whatever becomes of the others."""
        assert self._load is None, "a load is running already"
        self._clients.storage = replace(self._clients.storage, disks=[load_paths(int(disk.removeprefix("/data/")))])
        run = self._clients.start("saturate", "saturate", Load(duration=seconds, connections=16, seed=seed))
        end = run.wait(seconds + 300)
        assert end["errors"] == 0, end
        return Requests.load(run.samples)

    def stop(self) -> Requests:
        """Ends the load; what the client saw."""
        assert self._load is not None, "no load was started"
        load, self._load = self._load, None
        load.finish(60)
        return Requests.load(load.samples)

    def watch(self, *, rate: float = 40, disks: tuple[str, ...] = ("/data/02",)) -> None:
        """Reads beside what a test does to others; from now on storage is "alone"."""
        self.start(rate=rate, duration=1800, disks=disks)
        time.sleep(CONNECTED)
        self.part("alone")
        time.sleep(1.2 * ENOUGH / rate)

    def part(self, name: str) -> float:
        """What is due from now on belongs to this part of the time, which begins here."""
        self._parts.append((name, time.time()))
        return self._parts[-1][1]

    def parts(self) -> dict[str, Requests]:
        """Ends the load; what the client saw in each part."""
        ends = [*(begin for _, begin in self._parts[1:]), time.time()]
        seen = self.stop()
        return {name: seen.due_between(begin, end) for (name, begin), end in zip(self._parts, ends, strict=True)}

    def kill(self) -> None:
        if self._load is not None:
            self._load.kill()

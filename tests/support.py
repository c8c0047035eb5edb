# SPDX-License-Identifier: Apache-2.0
"""What only tests ask of jobs and of storage. Everything else that moves a node is in benchmarks/beerbench."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from beerbench.batch import Job
from beerbench.clients import OUT_IN_ROOT, Clients, Load, Run, Storage, Stream
from beerbench.neighbours import DISTURBED, Neighbours
from beerbench.timeline.requests import Requests
from beerlab import Machine, client_root
from beerlab.disks import load_paths
from beerlab.process import run

# The promise of guard.toml as shipped; test_path.py compares the two.
OBJECTIVE_SECONDS = 0.1
DISKS = ("/data/01", "/data/02")
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


def assert_one_run(job: Job) -> None:
    """It was started once, never evicted, held or suspended by HTCondor: freezing is invisible there."""
    names = ("NumJobStarts", "NumShadowStarts", "NumHolds", "TotalSuspensions")
    found = dict(zip(names, job.attributes(*names), strict=True))
    assert found["NumJobStarts"] == found["NumShadowStarts"] == "1", found
    assert {found["NumHolds"], found["TotalSuspensions"]} <= {"0", "undefined"}, found


def percentile(requests: Requests, share: float) -> float:
    """Of the latency, in seconds; a request without an answer counts with its age."""
    assert len(requests) >= 100, f"{len(requests)} requests are too few to judge"
    return float(np.percentile(requests.done - requests.due, share))


def first_over(requests: Requests, seconds: float, after: float) -> float | None:
    """When the first request after a moment took longer than that: the onset that storage saw. None = it saw none."""
    over = requests.due[(requests.due >= after) & (requests.done - requests.due > seconds)]
    return float(over[0]) if len(over) else None


class Disturbed(Exception):
    """Neighbours of this machine took so much CPU that latencies in that time are theirs: nothing was shown."""


def assert_undisturbed(neighbours: Neighbours, start: float, end: float) -> None:
    share = neighbours.taken(start, end)
    assert not math.isnan(share), "stolen CPU time was not sampled all the time"
    print(f"neighbours of this machine took {share:.0%} of its CPU in {end - start:.0f} s")
    if share > DISTURBED:
        raise Disturbed(f"{share:.0%} of the CPU were taken in {end - start:.0f} s, at most {DISTURBED:.0%} may be")


class StorageUser:
    """One user outside the node with the key `storage`; reads in the background from `start` to `stop`."""

    def __init__(self, node: Machine, folder: Path) -> None:
        self._clients = Clients(client_root(), Storage.of(node, [], folder), folder)
        self._url = f"root://{self._clients.storage.endpoint}"
        self._load: Run | None = None

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

    def start(self, *, rate: float, duration: float, disks: tuple[str, ...] = DISKS) -> None:
        """Starts random reads (16 KiB) at a fixed rate over the disks; returns when all connections are open."""
        assert self._load is None, "a load is running already"
        files = [load_paths(int(disk.removeprefix("/data/"))) for disk in disks]
        self._clients.storage = replace(self._clients.storage, disks=files)
        self._load = self._clients.start("open_loop", "load", Load(duration=duration, connections=16, rate=rate))
        self._load.wait_ready(180)

    def stop(self) -> Requests:
        """Ends the load; what the client saw."""
        assert self._load is not None, "no load was started"
        self._load.finish(60)
        return Requests.load(self._load.samples)

    def kill(self) -> None:
        if self._load is not None:
            self._load.kill()

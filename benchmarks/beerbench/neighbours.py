# SPDX-License-Identifier: Apache-2.0
"""CPU time that others took: other virtual machines of the same hardware from this one (`steal` of proc_stat(5)), and
other work on this one.

A node that is emulated on such a machine stands still in that time, and its storage with it: a latency measured then
says nothing about storage. Measured beside a latency, this tells whose it is.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

INTERVAL = 1.0
# A share above which a latency is not judged. Storage alone, 49 stretches of 5 s: up to it the median of the p99 was
# 65 ms, from 15 % on 375 ms (benchmarks/runs/2026-11-22-2-core).
DISTURBED = 0.08
# Columns of the line `cpu`; what follows STEAL (guest time) is counted in the first two already.
IDLE, IOWAIT, STEAL = 3, 4, 7
LEAST_OWN = 0.1


class Sample(NamedTuple):
    """Unix time; all, stolen and idle CPU time since boot in clock ticks."""

    time: float
    total: float
    stolen: float
    idle: float = 0.0


def read() -> Sample:
    ticks = [float(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1 : STEAL + 2]]
    return Sample(time.time(), sum(ticks), ticks[STEAL], ticks[IDLE] + ticks[IOWAIT])


def own_seconds(before: Sample, after: Sample) -> float:
    """The time between two samples without what neighbours took of it: how long the same work would have needed alone.

    Of the time in which a CPU had something to do it got this share; at least LEAST_OWN, so that a wait in it ends.
    """
    wanted = (after.total - after.idle) - (before.total - before.idle)
    share = 1 - (after.stolen - before.stolen) / wanted if wanted > 0 else 1.0
    return (after.time - before.time) * min(1.0, max(LEAST_OWN, share))


def taken(samples: Sequence[Sample], start: float, end: float) -> float:
    """Share of this machine's CPU time between two moments that neighbours took; NaN without samples around them."""
    table = np.array(samples)
    if len(table) < 2 or start < table[0, 0] - INTERVAL or end > table[-1, 0] + 2 * INTERVAL:
        return float("nan")
    total, stolen = (np.diff(np.interp((start, end), table[:, 0], table[:, column]))[0] for column in (1, 2))
    return float(stolen / total) if total > 0 else float("nan")


def own_ticks(proc: Path = Path("/proc"), root: int | None = None) -> float:
    """CPU time of a process (this one) and its descendants, living or waited for, in clock ticks."""
    used: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for stat in proc.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            words = stat.read_text().rsplit(")", 1)[1].split()
            pid = int(stat.parent.name)
            children.setdefault(int(words[1]), []).append(pid)
            used[pid] = sum(float(word) for word in words[11:15])  # utime, stime, cutime, cstime
    found = [root or os.getpid()]
    for pid in found:
        found += children.get(pid, [])
    return sum(used.get(pid, 0.0) for pid in found)


class OtherWork:
    """What is done on this machine beside this process and its descendants, from now on."""

    def __init__(self) -> None:
        self._before, self._own = read(), own_ticks()

    def share(self) -> float:
        """Of the CPU time of this machine."""
        now = read()
        busy, total = (of(now) - of(self._before) for of in (busy_ticks, lambda sample: sample.total))
        return max(0.0, busy - (own_ticks() - self._own)) / total if total > 0 else 0.0


def busy_ticks(sample: Sample) -> float:
    return sample.total - sample.idle - sample.stolen


class Neighbours:
    """Samples once a second from entering to leaving."""

    def __init__(self, read: Callable[[], Sample] = read, interval: float = INTERVAL) -> None:
        self._read = read
        self._interval = interval
        self.samples: list[Sample] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="neighbours", daemon=True)

    def __enter__(self) -> Neighbours:
        self.samples.append(self._read())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        self.samples.append(self._read())

    def taken(self, start: float, end: float) -> float:
        """As the function of this name, of what was sampled so far."""
        return taken(list(self.samples), start, end)

    def longest_gap(self, start: float, end: float) -> float:
        """Seconds between two samples in that time: in them this machine stood still."""
        times = [sample.time for sample in list(self.samples) if start <= sample.time <= end]
        return max((later - sooner for sooner, later in pairwise(times)), default=0.0)

    def _run(self) -> None:
        while not self._end.wait(self._interval):
            self.samples.append(self._read())

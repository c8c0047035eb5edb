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
import psutil

INTERVAL = 1.0
# A share above which a latency is not judged. Storage alone, 49 stretches of 5 s: up to it the median of the p99 was
# 65 ms, from 15 % on 375 ms (benchmarks/runs/2026-11-22-2-core).
DISTURBED = 0.08
# Columns of the line `cpu`; what follows STEAL (guest time) is counted in the first two already.
IDLE, IOWAIT, STEAL = 3, 4, 7
LEAST_OWN = 0.1


class Sample(NamedTuple):
    """Unix time; all, stolen and idle CPU time since boot in clock ticks, and what this process and its descendants had
    of it."""

    time: float
    total: float
    stolen: float
    idle: float = 0.0
    own: float = 0.0


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


class Taken(NamedTuple):
    """Shares of this machine's CPU time: what neighbours took, and what other work on it had."""

    neighbours: float
    others: float


def taken(samples: Sequence[Sample], start: float, end: float) -> Taken:
    """Between two moments; NaN without samples around them. Those of a record may lack the last columns: then
    only what neighbours took is known."""
    table = np.array([Sample(*sample) for sample in samples])
    if len(table) < 2 or start < table[0, 0] - INTERVAL or end > table[-1, 0] + 2 * INTERVAL:
        return Taken(float("nan"), float("nan"))
    columns = range(1, table.shape[1])
    total, stolen, idle, own = (
        float(np.diff(np.interp((start, end), table[:, 0], table[:, column]))[0]) for column in columns
    )
    if total <= 0:
        return Taken(float("nan"), float("nan"))
    return Taken(stolen / total, max(0.0, total - stolen - idle - own) / total)


def used_here() -> float:
    """CPU seconds of this process and of its descendants, living or waited for."""
    own = psutil.Process()
    used = 0.0
    for process in (own, *own.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            used += sum(process.cpu_times()[:4])  # its own and that of children it waited for, user and system
    return used


class Neighbours:
    """Samples once a second from entering to leaving."""

    def __init__(
        self, read: Callable[[], Sample] = read, interval: float = INTERVAL, used: Callable[[], float] = used_here
    ) -> None:
        self._read = read
        self._interval = interval
        self._used = used
        self.samples: list[Sample] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="neighbours", daemon=True)

    def __enter__(self) -> Neighbours:
        self._sample()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        self._sample()

    def taken(self, start: float, end: float) -> Taken:
        """As the function of this name, of what was sampled so far."""
        return taken(list(self.samples), start, end)

    def longest_gap(self, start: float, end: float) -> float:
        """Seconds between two samples in that time: in them this machine stood still."""
        times = [sample.time for sample in list(self.samples) if start <= sample.time <= end]
        return max((later - sooner for sooner, later in pairwise(times)), default=0.0)

    def _sample(self) -> None:
        self.samples.append(self._read()._replace(own=self._used() * os.sysconf("SC_CLK_TCK")))

    def _run(self) -> None:
        while not self._end.wait(self._interval):
            self._sample()

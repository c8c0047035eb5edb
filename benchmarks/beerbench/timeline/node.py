# SPDX-License-Identifier: Apache-2.0
"""The node's counters over time, from the lines of node/sampler.py."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..stats import Floats

JOBS = "beer.slice/beer-jobs.slice"
CONTROL = "beer.slice/beer-ctl.slice"
TICKS_PER_SECOND = 100.0  # USER_HZ is 100 on every Linux that matters here
IDLE, IOWAIT = 3, 4


@dataclass(frozen=True)
class NodeTimeline:
    """`time[i]` is the end of an interval that began at `time[i] - step[i]`; rates are means over intervals."""

    time: Floats
    step: Floats
    cpu: dict[str, Floats]  # slice -> cores in use
    idle: Floats  # intervals x CPUs: idle cores, waiting for I/O included
    io_bytes: dict[str, dict[str, Floats]]  # device -> slice -> bytes/s
    io_operations: dict[str, dict[str, Floats]]
    frozen: list[tuple[float, bool]]
    state: list[str]
    io_events: list[tuple[float, dict[str, int]]]

    @classmethod
    def parse(cls, text: str, clock_offset: float = 0.0) -> NodeTimeline:
        lines = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
        samples = [line for line in lines if line["kind"] == "sample"]
        if len(samples) < 2:
            raise ValueError(f"{len(samples)} samples of the node: at least two are needed")
        times = np.array([line["time"] for line in samples])
        step = np.diff(times)
        names = sorted({name for line in samples for name in line["slices"]})
        devices = sorted({dev for line in samples for item in line["slices"].values() for dev in item["io"]})
        ticks = np.array([line["cpus"] for line in samples], dtype=float)
        idle = np.diff(ticks[:, :, IDLE] + ticks[:, :, IOWAIT], axis=0) / TICKS_PER_SECOND / step[:, None]

        def cores(name: str) -> Floats:
            values = [line["slices"].get(name, {}).get("cpu_usec") for line in samples]
            return _rate(values, step) / 1e6

        def io(keys: Sequence[str]) -> dict[str, dict[str, Floats]]:
            return {
                device: {name: _rate([_io(line, name, device, keys) for line in samples], step) for name in names}
                for device in devices
            }

        return cls(
            time=times[1:] - clock_offset,
            step=step,
            cpu={name: cores(name) for name in names},
            idle=np.clip(idle, 0.0, 1.0),
            io_bytes=io(("rbytes", "wbytes")),
            io_operations=io(("rios", "wios")),
            frozen=[(line["time"] - clock_offset, bool(line["frozen"])) for line in lines if line["kind"] == "frozen"],
            state=[line["state"] for line in samples][1:],
            io_events=[(line["time"] - clock_offset, line["operations"]) for line in lines if line["kind"] == "io"],
        )

    def mean(self, values: Floats, start: float, end: float) -> float:
        """Mean over the intervals, each weighted with the part of it inside the window."""
        overlap = np.clip(np.minimum(self.time, end) - np.maximum(self.time - self.step, start), 0, None)
        total = float(overlap.sum())
        return float((values * overlap).sum() / total) if total > 0 else float("nan")

    def cpu_of(self, cgroup: str, start: float, end: float) -> float:
        """Cores that it used."""
        return self.mean(self.cpu.get(cgroup, np.zeros_like(self.time)), start, end)

    def batch_cpu(self, start: float, end: float) -> float:
        """Cores that the jobs used."""
        return self.cpu_of(JOBS, start, end)

    def allowed_idle(self, cpus: Sequence[int], start: float, end: float) -> float:
        """Cores idle inside AllowedCPUs."""
        return sum(self.mean(self.idle[:, cpu], start, end) for cpu in cpus)

    def delivered_share(self, cpus: Sequence[int], start: float, end: float, cgroup: str = JOBS) -> float:
        """Of the CPU inside AllowedCPUs that nobody wanted but the cgroup, which are all jobs or one: what it got."""
        used = self.cpu_of(cgroup, start, end)
        free = used + self.allowed_idle(cpus, start, end)
        return used / free if free > 0 else float("nan")

    def frozen_at(self, since: float) -> float | None:
        """When the kernel first said that the watched cgroup is frozen, from `since` on."""
        return next((time for time, value in self.frozen if value and time >= since), None)

    def thawed_at(self, since: float) -> float | None:
        return next((time for time, value in self.frozen if not value and time >= since), None)

    def last_batch_io(self, device: str, frozen: float, thawed: float) -> float:
        """When its operations on the device were last seen to rise between freeze and thaw, to some 50 ms."""
        last, seen = frozen, None
        for time, operations in self.io_events:
            if not frozen <= time < thawed:
                continue
            count = operations.get(device, 0)
            if seen is not None and count != seen:
                last = time
            seen = count
        return last

    def disk_share(self, device: str) -> dict[str, Floats]:
        """Slice -> its share of the operations on the device, 0 where nobody does any."""
        rates = self.io_operations[device]
        total = sum(rates.values(), np.zeros_like(self.time))
        with np.errstate(invalid="ignore", divide="ignore"):
            return {name: np.where(total > 0, rate / total, 0.0) for name, rate in rates.items()}


def _io(line: dict[str, Any], name: str, device: str, keys: Sequence[str]) -> int | None:
    item = line["slices"].get(name)
    if item is None:
        return None
    return sum(item["io"].get(device, {}).get(key, 0) for key in keys)


def _rate(values: Sequence[int | None], step: Floats) -> Floats:
    """Per second; 0 where a counter does not exist or starts anew (a slice that was made again)."""
    numbers = np.array([np.nan if value is None else value for value in values], dtype=float)
    rate = np.diff(numbers) / step
    return np.where(np.isfinite(rate) & (rate >= 0), rate, 0.0)

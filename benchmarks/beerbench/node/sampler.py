# SPDX-License-Identifier: Apache-2.0
"""Reads the node's counters every PERIOD seconds and notes each change of "frozen" of one cgroup as it happens. Runs on
the node.

One JSON object per line: a `sample` with CPU, I/O and pressure of the slices and of each CPU, or a `frozen` event
(cgroup.events wakes poll). It lives in a slice of its own, costs some milliseconds a second, and reads only.
"""

from __future__ import annotations

import argparse
import json
import select
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

CGROUP = Path("/sys/fs/cgroup")
JOBS = "beer.slice/beer-jobs.slice"
# In an emulated node one look takes a quarter of a second of CPU.
PERIOD = 2.0
# For WATCH seconds after a freeze the I/O counters of the watched cgroup are read every FAST seconds.
WATCH, FAST = 3.0, 0.05
SLICES = ("storage.slice", "guard.slice", JOBS, "beer.slice/beer-ctl.slice", "system.slice", "user.slice")


def flat(text: str) -> dict[str, int]:
    """`key number` per line."""
    return {name: int(value) for name, value in (line.split() for line in text.splitlines())}


def io_stat(text: str) -> dict[str, dict[str, int]]:
    """`major:minor key=number ...` per line; devices without numbers are left out."""
    found = {}
    for line in text.splitlines():
        device, *pairs = line.split()
        numbers = {key: int(value) for key, value in (pair.split("=", 1) for pair in pairs) if value.isdigit()}
        if numbers:
            found[device] = numbers
    return found


def cpu_times(text: str) -> list[list[int]]:
    """Of /proc/stat, for each CPU: user nice system idle iowait irq softirq steal, in clock ticks."""
    lines = [line.split() for line in text.splitlines() if line.startswith("cpu") and line[3].isdigit()]
    return [[int(value) for value in fields[1:9]] for fields in lines]


def pressure(text: str) -> dict[str, int]:
    """Total stall time in microseconds, `some` and `full`."""
    return {line.split()[0]: int(line.rsplit("total=", 1)[1]) for line in text.splitlines()}


def read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # a slice that does not exist yet, or a controller that is off
        return ""


def sample(names: Sequence[str]) -> dict[str, object]:
    slices = {}
    for name in names:
        folder = CGROUP / name
        cpu = flat(read(folder / "cpu.stat"))
        if cpu:
            slices[name] = {
                "cpu_usec": cpu["usage_usec"],
                "io": io_stat(read(folder / "io.stat")),
                "io_pressure": pressure(read(folder / "io.pressure")),
            }
    return {
        "kind": "sample",
        "time": time.time(),
        "cpus": cpu_times(read(Path("/proc/stat"))),
        "slices": slices,
        "state": read(Path("/run/beer/guard/state")).split(" ", 1)[0].removeprefix("state="),
    }


def operations(cgroup: Path) -> dict[str, int]:
    """Device -> I/O operations of a cgroup so far."""
    found = io_stat(read(cgroup / "io.stat"))
    return {device: numbers.get("rios", 0) + numbers.get("wios", 0) for device, numbers in found.items()}


def note_frozen(events: TextIO, out: TextIO, before: int | None) -> int:
    """Reads cgroup.events, which also arms poll again, and writes a line when "frozen" changed."""
    when = time.time()
    events.seek(0)
    value = flat(events.read()).get("frozen", 0)
    if value != before:
        out.write(json.dumps({"kind": "frozen", "time": when, "frozen": value}) + "\n")
    return value


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description="samples of a node")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--watched", type=Path, default=CGROUP / JOBS, help="cgroup whose freezes are noted")
    parser.add_argument("--also", type=Path, action="append", default=[], help="cgroup that is sampled, too")
    options = parser.parse_args(argv)
    names = [*SLICES, *(str(cgroup.relative_to(CGROUP)) for cgroup in options.also)]
    end = time.monotonic() + options.seconds
    due = time.monotonic()
    with options.out.open("w", buffering=1) as out, (options.watched / "cgroup.events").open() as events:
        poll = select.poll()
        poll.register(events, select.POLLPRI)
        frozen = note_frozen(events, out, None)
        watch_until, done = 0.0, {}
        while (now := time.monotonic()) < end:
            if now >= due:
                out.write(json.dumps(sample(names)) + "\n")
                due = max(due + PERIOD, now)
            # After a freeze the last I/O of the jobs is wanted better than that.
            wait = max(0.0, due - now) if now >= watch_until else min(FAST, max(0.0, due - now))
            if poll.poll(wait * 1000):
                before, frozen = frozen, note_frozen(events, out, frozen)
                if frozen and not before:
                    watch_until, done = time.monotonic() + WATCH, operations(options.watched)
                    out.write(json.dumps({"kind": "io", "time": time.time(), "operations": done}) + "\n")
            elif now < watch_until and (more := operations(options.watched)) != done:
                done = more
                out.write(json.dumps({"kind": "io", "time": time.time(), "operations": done}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

# SPDX-License-Identifier: Apache-2.0
"""What the guard itself costs: CPU and memory, with disks, jobs and cgroups of a large server, and as they grow.

Shows: CPU time of all its threads, its resident memory and the time of a tick on this CPU while requests arrive on all
filesystems and nothing is wrong; what as many wake-ups of a thread that does nothing cost in the same run; whether its
memory grows between two runs of different length; whether the cost is linear in disks and in jobs (medians of rounds in
which all sizes take turns).
Does not show: the cost while it acts; nor that of io.stat and memory.stat by job, which the jobs of this benchmark lack
(some 5 % more, benchmarks/runs/2026-11-29-2-core).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib.figure import Figure

from .. import plot, text
from ..guardbench import run
from ..host import host_facts
from ..record import Record

CPU_TARGET, MEMORY_TARGET, LOOP_TARGET = 0.5, 12e6, 0.005
DISKS, JOBS = (1, 24, 48, 96), (0, 16, 32, 64)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--filesystems", type=int, default=96, help="in the segment (default: 96)")
    parser.add_argument("--jobs", type=int, default=64, help="containers (default: 64)")
    parser.add_argument("--cgroups", type=int, default=2000, help="cgroups of others (default: 2000)")
    parser.add_argument("--rate", type=float, default=300, help="requests per second over all (default: 300)")
    parser.add_argument("--seconds", type=float, default=120, help="of the longer run (default: 120)")
    parser.add_argument("--rounds", type=int, default=3, help="of the other sizes, 15 s each; 0 = none (default: 3)")


def measure(filesystems: int, jobs: int, cgroups: int, rate: float, seconds: float) -> dict[str, Any]:
    sizes = ["--filesystems", str(filesystems), "--jobs", str(jobs), "--cgroups", str(cgroups)]
    words = [*sizes, "--rate", str(rate), "--trials", "0", "--tasks", "1", "--cost-seconds", str(seconds)]
    guard: dict[str, Any] = run(words, timeout=900 + 2 * seconds)["guard"]
    return {"filesystems": filesystems, "jobs": jobs, **guard}


def record(options: argparse.Namespace, out: Path) -> Record:
    names = ("filesystems", "jobs", "cgroups", "rate", "seconds", "rounds")
    parameters = {name: getattr(options, name) for name in names}
    facts = host_facts()
    largest = (options.filesystems, options.jobs, options.cgroups, options.rate)
    runs = [measure(*largest, seconds) for seconds in (options.seconds / 4, options.seconds)]
    sizes = [(disks, 0) for disks in DISKS] + [(DISKS[0], jobs) for jobs in JOBS[1:]]
    grown = [measure(*size, 0, options.rate, 15) for _ in range(options.rounds) for size in sizes]
    made = Record("guard-cost", parameters, facts, {"runs": runs, "sizes": grown})
    made.save(out)
    return made


def of_size(runs: list[dict[str, Any]], filesystems: int, jobs: int, key: str) -> float | None:
    values = [run[key] for run in runs if (run["filesystems"], run["jobs"]) == (filesystems, jobs)]
    return median(values) if values else None


def study(record: Record) -> dict[str, Any]:
    short, long = record.data["runs"]
    loop_p99 = long.get("loop_p99_seconds")
    reached = [
        long["cpu_percent"] <= CPU_TARGET,
        long["rss_bytes"] <= MEMORY_TARGET,
        # Records of before have none.
        loop_p99 is None or loop_p99 <= LOOP_TARGET,
    ]
    sizes = record.data.get("sizes", [])

    def row(key: str) -> dict[str, list[float | None]]:
        disks = [of_size(sizes, size, 0, key) for size in DISKS]
        return {"disks": disks, "jobs": [of_size(sizes, DISKS[0], size, key) for size in JOBS]}

    return {
        "cpu_percent": long["cpu_percent"],
        "empty_percent": long.get("cpu_percent_of_empty_wakeups"),
        "wakeups_per_second": long.get("wakeups_per_second"),
        "loop_p99": loop_p99,
        "rss_bytes": long["rss_bytes"],
        "growth_bytes": long["rss_bytes"] - short["rss_bytes"],
        "reached": all(reached),
        "cpu_by_size": row("cpu_percent"),
        "rss_by_size": row("rss_bytes"),
    }


def draw(results: dict[str, Any]) -> Figure:
    with plot.figure(2) as (figure, axes):
        for axis, (key, sizes) in zip(axes, {"disks": DISKS, "jobs": JOBS}.items(), strict=True):
            axis.plot(sizes, results["cpu_by_size"][key], "o-", label="CPU, % of one core")
            memory = [None if size is None else size / 1e6 / 10 for size in results["rss_by_size"][key]]
            axis.plot(sizes, memory, "o-", label="memory, 10 MB")
            axis.axhline(CPU_TARGET, color="#57606a", linewidth=1, linestyle="--", label="goal, CPU")
            axis.set_xlabel(key)
            plot.finish(axis, f"cost by {key}")
    return figure


def empty_wakeups(results: dict[str, Any]) -> list[list[str]]:
    """A row of its own; records of before have none."""
    if results["empty_percent"] is None:
        return []
    what = f"as many empty wake-ups ({results['wakeups_per_second']:.0f}/s)"
    return [[what, f"{results['empty_percent']:.2f} %", ""]]


def loop(results: dict[str, Any]) -> list[list[str]]:
    """Likewise."""
    if results["loop_p99"] is None:
        return []
    return [["tick of the control loop, p99", text.seconds(results["loop_p99"]), f"<= {text.seconds(LOOP_TARGET)}"]]


def show(record: Record, results: dict[str, Any]) -> str:
    def numbers(values: list[float | None], scale: float) -> list[str]:
        return [text.NOTHING if value is None else f"{value / scale:.2f}" for value in values]

    parameters = record.parameters
    rows = [
        ["", "measured", "target"],
        ["CPU, of one core", f"{results['cpu_percent']:.2f} %", f"<= {CPU_TARGET} %"],
        *empty_wakeups(results),
        *loop(results),
        ["resident memory", f"{results['rss_bytes'] / 1e6:.1f} MB", f"<= {MEMORY_TARGET / 1e6:.0f} MB"],
        ["more after 4 times as long", f"{results['growth_bytes'] / 1e3:.0f} kB", "0"],
    ]
    of = ", ".join(f"{parameters[name]} {name}" for name in ("filesystems", "jobs", "cgroups") if name in parameters)
    tables = [f"{of}, {parameters['rate']:g} requests/s", text.table(rows)]
    for key, sizes in {"disks": DISKS, "jobs": JOBS}.items():
        cpu, rss = results["cpu_by_size"][key], results["rss_by_size"][key]
        heading = [key, *(str(size) for size in sizes)]
        tables.append(text.table([heading, ["CPU, %", *numbers(cpu, 1)], ["memory, MB", *numbers(rss, 1e6)]]))
    return "\n".join(tables)

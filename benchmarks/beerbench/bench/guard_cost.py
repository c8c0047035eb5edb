# SPDX-License-Identifier: Apache-2.0
"""What the guard itself costs: CPU and memory with 96 filesystems in the latency segment.

Shows: CPU time of all its threads and its resident memory on this CPU while requests arrive on all filesystems and
nothing is wrong, and whether its memory grows between two runs of different length.
Does not show: the cost while it acts, or with 64 jobs in the cgroup.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .. import text
from ..guardbench import run
from ..host import host_facts
from ..record import Record

CPU_TARGET, MEMORY_TARGET = 0.5, 12e6


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--filesystems", type=int, default=96, help="in the segment (default: 96)")
    parser.add_argument("--rate", type=float, default=300, help="requests per second over all (default: 300)")
    parser.add_argument("--seconds", type=float, default=120, help="of the longer run (default: 120)")


def record(options: argparse.Namespace, out: Path) -> Record:
    parameters = {name: getattr(options, name) for name in ("filesystems", "rate", "seconds")}
    facts = host_facts()
    words = ["--trials", "0", "--filesystems", str(options.filesystems), "--rate", str(options.rate)]
    runs = [
        run([*words, "--cost-seconds", str(seconds)], timeout=900 + 2 * options.seconds)["guard"]
        for seconds in (options.seconds / 4, options.seconds)
    ]
    made = Record("guard-cost", parameters, facts, {"runs": runs})
    made.save(out)
    return made


def study(record: Record) -> dict[str, Any]:
    short, long = record.data["runs"]
    return {
        "cpu_percent": long["cpu_percent"],
        "rss_bytes": long["rss_bytes"],
        "growth_bytes": long["rss_bytes"] - short["rss_bytes"],
        "reached": long["cpu_percent"] <= CPU_TARGET and long["rss_bytes"] <= MEMORY_TARGET,
    }


def show(record: Record, results: dict[str, Any]) -> str:
    rows = [
        ["", "measured", "target"],
        ["CPU, of one core", f"{results['cpu_percent']:.2f} %", f"<= {CPU_TARGET} %"],
        ["resident memory", f"{results['rss_bytes'] / 1e6:.1f} MB", f"<= {MEMORY_TARGET / 1e6:.0f} MB"],
        ["more after 4 times as long", f"{results['growth_bytes'] / 1e3:.0f} kB", "0"],
    ]
    return "\n".join([f"{record.parameters['filesystems']} filesystems, {record.parameters['rate']:g} requests/s",
                      text.table(rows)])  # fmt: skip

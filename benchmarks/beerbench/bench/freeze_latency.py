# SPDX-License-Identifier: Apache-2.0
"""Time from the first slow request to the freeze: real guard and cgroup, synthetic segment, no virtual machine.

Shows: detector, control loop and cgroup write of the guard that is shipped, on this kernel and this CPU, for a step of
the latency (3 times longer) at a known request rate; how often it missed, and how often it froze for nothing before.
Does not show: time until jobs that wait for a disk are frozen (these spin), time until their last I/O, or what XRootD
and the plug-in add: for those see `demo`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .. import text
from ..guardbench import run
from ..host import host_facts
from ..record import Record

TARGET_MS = 100.0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, default=100, help="steps (default: 100)")
    parser.add_argument("--rate", type=float, default=300, help="requests per second (default: 300)")
    parser.add_argument("--factor", type=float, default=3, help="how much longer requests take (default: 3)")
    parser.add_argument("--tasks", type=int, default=2, help="spinning tasks to freeze (default: 2)")


def record(options: argparse.Namespace, out: Path) -> Record:
    parameters = {name: getattr(options, name) for name in ("trials", "rate", "factor", "tasks")}
    facts = host_facts()
    words = [word for name, value in parameters.items() for word in (f"--{name}", str(value))]
    measured = run([*words, "--cost-seconds", "5"], timeout=900 + 60 * options.trials)
    made = Record("freeze-latency", parameters, facts, measured)
    if facts["load_1m"] > 0.5 * (facts["cpus"] or 1):
        made.missing.append(f"a quiet machine: the load was {facts['load_1m']} at the start")
    made.save(out)
    return made


def study(record: Record) -> dict[str, Any]:
    data = record.data
    written = data["first_slow_request_to_freeze_write_ms"]
    return {
        "written_ms": written,
        "frozen_ms": data["first_slow_request_to_frozen_ms"],
        "requests": data["requests_until_freeze_write"],
        "missed": data["missed"],
        "trials": data["trials"],
        "failed_actions": data["failed_actions"],
        "reached": data["missed"] == 0 and written["p99"] is not None and written["p99"] <= TARGET_MS,
    }


def show(record: Record, results: dict[str, Any]) -> str:
    def row(name: str, values: dict[str, float | None], unit: str) -> list[str]:
        shown = [text.NOTHING if values[key] is None else f"{values[key]:.1f}" for key in ("p50", "p90", "p99", "max")]
        return [f"{name}, {unit}", *shown]

    rows = [["", "p50", "p90", "p99", "max"]]
    rows.append(row("to the freeze write", results["written_ms"], "ms"))
    rows.append(row("to all tasks frozen", results["frozen_ms"], "ms"))
    rows.append(row("requests until the write", results["requests"], "requests"))
    wanted = "reached" if results["reached"] else "NOT reached"
    return "\n".join(
        [
            f"a step of {record.parameters['factor']:g}x at {record.parameters['rate']:g} requests/s",
            text.table(rows),
            f"{results['missed']} of {results['trials']} steps missed, {results['failed_actions']} actions failed",
            f"target: p99 of the freeze write <= {TARGET_MS:g} ms: {wanted}",
        ]
    )

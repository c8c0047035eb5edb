# SPDX-License-Identifier: Apache-2.0
"""How soon a limit of the guard holds transfers that run, and how soon they go on when it is lifted.

Shows: the time from writing the shaping segment to the last byte that batch is served, and from the lift to the first,
with streams that read a cached file without a pause through the real server: storage-daemon's own `make bench-control`.
In the EOS talk (HEPiX 2022) a limit is "defined on open and then valid until a file gets closed".
Does not show: a disk, which finishes what it works on when the limit comes, or the guard's own reaction: for that see
`freeze-latency`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from .. import plot, stats, text
from ..host import host_facts
from ..inroot import run_json
from ..record import Record

ROWS = {"held_ms": "limit of zero to the last byte", "lifted_ms": "lift to the first byte"}
TALK = "at the next open"
CONTRACT_MS = 100  # from the write to the last byte (DESIGN, contract 4.3)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, default=200, help="limits, each lifted again (default: 200)")
    parser.add_argument("--streams", type=int, default=4, help="that read (default: 4)")


def record(options: argparse.Namespace, out: Path) -> Record:
    parameters = {name: getattr(options, name) for name in ("trials", "streams")}
    words = " ".join(f"--{name} {value}" for name, value in parameters.items())
    command = ["make", "--no-print-directory", "-s", "-C", "storage-daemon", "bench-control", f"ARGUMENTS={words}"]
    facts = host_facts()
    measured = run_json("limits on transfers that run", command, timeout=900 + 5 * options.trials)
    made = Record("limit-delay", parameters, facts, measured)
    made.save(out)
    return made


def study(record: Record) -> dict[str, Any]:
    results = {}
    for name in ROWS:
        found = np.array(record.data[name]) / 1e3
        results[name] = {key: stats.quantile(found, at) for key, at in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))}
        results[name]["late"] = int((found > CONTRACT_MS / 1e3).sum())
    return results


def show(record: Record, results: dict[str, Any]) -> str:
    runs = f"{record.data['trials']} trials, {record.data['streams']} streams"
    rows = [[runs, "p50", "p99", "max", f"above {CONTRACT_MS} ms", "the talk's"]]
    for name, title in ROWS.items():
        times = [text.seconds(results[name][key]) for key in ("p50", "p99", "max")]
        rows.append([title, *times, str(results[name]["late"]), TALK])
    return text.table(rows)


def draw(results: dict[str, Any]) -> Figure:
    with plot.figure(1) as (figure, (axis,)):
        keys = {"p50": "p50", "p99": "p99", "max": "longest"}
        values = {label: [results[name][key] * 1e3 for name in ROWS] for key, label in keys.items()}
        plot.bars(axis, list(ROWS.values()), values, "milliseconds", goal=CONTRACT_MS)
    return figure

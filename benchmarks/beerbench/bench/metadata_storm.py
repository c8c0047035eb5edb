# SPDX-License-Identifier: Apache-2.0
"""One user's storm of metadata requests, and how long another user's requests take: with and without limits.

Shows: latencies of one client's stats (counted from when each was due) beside a storm of another user's listings of a
directory of 1000 files (`ls -l`), without a limit, with `beer.threads`, with `beer.metarate` and with both, through the
real server on loopback, all cases in turn on one machine: storage-daemon's own `make bench-meta`. The EOS talk (HEPiX
2022) says "significantly decreased" of the degradation and gives no number to stand beside.
Does not show: the storm of thousands of jobs (its clients share this machine's CPUs with the server and the victim, so
part of the harm is theirs), or a namespace: the directory is in memory.
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


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=20, help="of each case in each round (default: 20)")
    parser.add_argument("--rounds", type=int, default=5, help="of all cases (default: 5)")
    parser.add_argument("--processes", type=int, default=4, help="of the storm, 8 requests at once each (default: 4)")


def record(options: argparse.Namespace, out: Path) -> Record:
    parameters = {name: getattr(options, name) for name in ("seconds", "rounds", "processes")}
    words = " ".join(f"--{name} {value}" for name, value in parameters.items())
    command = ["make", "--no-print-directory", "-s", "-C", "storage-daemon", "bench-meta", f"ARGUMENTS={words}"]
    facts = host_facts()
    measured = run_json("the storm of metadata requests", command, timeout=900 + 25 * options.rounds * options.seconds)
    made = Record("metadata-storm", parameters, facts, measured)
    made.save(out)
    return made


def study(record: Record) -> dict[str, Any]:
    """For each case the victim's quantiles over all rounds, and the medians of the rounds of what the storm got."""
    rows = []
    for name, rounds in record.data["cases"].items():
        found = np.array([latency for one in rounds for latency in one["latencies_ms"]]) / 1e3
        row = {"case": name, "policy": record.data["policies"][name], "requests": len(found)}
        row |= {key: stats.quantile(found, share) for key, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))}
        for key in ("storm_per_second", "stalled"):
            row[key] = stats.median([one[key] for one in rounds])
        p99s = [stats.quantile(np.array(one["latencies_ms"]), 0.99) for one in rounds]
        rows.append(row | {"spread": stats.spread(p99s)})
    return {"rows": rows}


def show(record: Record, results: dict[str, Any]) -> str:
    rows = [
        ["stats of the other user", "p50", "p99", "max", "p99 / alone", "spread of p99", "storm gets", "told to wait"]
    ]
    alone = results["rows"][0]
    for row in results["rows"]:
        times = [text.seconds(row[key]) for key in ("p50", "p99", "max")]
        ratios = [f"{row['p99'] / alone['p99']:.2f}", f"{row['spread']:.2f}"]
        rates = [f"{row['storm_per_second']:.1f}/s", f"{row['stalled']:.0f} times"]
        rows.append([row["case"], *times, *ratios, *rates])
    limits = [f"{row['case']}: {'; '.join(row['policy'])}" for row in results["rows"] if row["policy"]]
    storm = f"the storm: {record.data['requests_at_once']} requests at once from {record.data['processes']} processes"
    return "\n".join([storm, *limits, "", text.table(rows)])


def draw(results: dict[str, Any]) -> Figure:
    groups = {key: [1e3 * row[key] for row in results["rows"]] for key in ("p50", "p99")}
    with plot.figure(1) as (figure, [axis]):
        plot.bars(axis, [row["case"] for row in results["rows"]], groups, "a stat of the other user, ms")
    return figure

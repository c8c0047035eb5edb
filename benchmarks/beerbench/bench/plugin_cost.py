# SPDX-License-Identifier: Apache-2.0
"""What libXrdBeer costs XRootD: the same work by a server with the plug-in and by one without, taking turns.

Shows: on files in memory, the rates of storage-daemon's own `make bench` (against bare XRootD, and against one without
sendfile, which tells what that is worth) and the server's CPU per unit; on a throttled disk of a
node, what a saturating client gets from the node's server with and without the plug-in.
Does not show: a network card, many cores, or the server of another version.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from .. import plot, stats, text
from ..client.arguments import REQUEST_BYTES
from ..clients import Load
from ..errors import BenchmarkError
from ..host import host_facts
from ..inroot import run_json
from ..lab import Node
from ..labnode import lab_session
from ..record import Record
from ..waiting import Story

CONFIG = "/etc/xrootd/xrootd-beer.cfg"
PLUGIN_LINES = r"libXrdBeer\|^beer\."
DISK = "/data/01"
# Of what bare XRootD does; whatever moves data in large pieces, by one stream or many, has the default.
TARGETS = {"read_4KiB_random": 0.97, "open": 0.95, "open_many_files": 0.95, "stat": 0.95}
TARGET = 0.98


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pairs", type=int, default=15, help="pairs on files in memory (default: 15)")
    parser.add_argument("--throttled", type=int, default=5, help="pairs on a throttled disk; 0 = none (default: 5)")
    parser.add_argument("--seconds", type=float, default=15, help="of a run on the throttled disk (default: 15)")


def record(options: argparse.Namespace, out: Path) -> Record:
    facts = host_facts()
    build = ["make", "--no-print-directory", "-s", "-C", "storage-daemon", "bench", f"PAIRS={options.pairs}"]
    data = {"memory": run_json("storage-daemon's benchmark", build, timeout=3600)}
    if options.throttled:
        throttled, facts = _throttled(options, out)
        data["throttled"] = throttled
    parameters = {name: getattr(options, name) for name in ("pairs", "throttled", "seconds")}
    made = Record("plugin-cost", parameters, facts, data)
    made.save(out)
    return made


def _throttled(options: argparse.Namespace, out: Path) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """ABBA on one node: its server with its configuration, and with the plug-in's lines taken out."""
    story = Story()
    rates: dict[str, list[float]] = {"with": [], "without": []}
    with lab_session("scratch-apart", out, [DISK]) as session:
        node = session.node
        facts = session.facts()
        session.guard.take_away()
        node.execute(f"cp -p {CONFIG} /run/with.cfg; sed '/{PLUGIN_LINES}/d' {CONFIG} > /run/without.cfg")
        for number in range(options.throttled):
            for kind in ("with", "without") if number % 2 == 0 else ("without", "with"):
                _serve(node, kind)
                session.drop_caches()
                load = Load(duration=options.seconds, seed=100 + number, connections=24)
                found = session.clients.measure("saturate", "throttled", load)
                rates[kind].append(found["mb_s"])
                story.say(f"throttled, {kind} the plug-in: {found['mb_s']:.2f} MB/s")
    return rates, facts


def _serve(node: Node, kind: str) -> None:
    """Restarts the server `with` or `without` the plug-in, and looks whether it is so."""
    node.execute(f"cp /run/{kind}.cfg {CONFIG} && systemctl restart xrootd@beer", timeout=120)
    node.execute("until ss -Hltn sport = :1094 | grep -q .; do sleep 0.2; done", timeout=120)
    loaded = node.execute("grep -c libXrdBeer /proc/$(systemctl show -P MainPID xrootd@beer)/maps || true")
    if (loaded.stdout.strip() != "0") != (kind == "with"):
        raise BenchmarkError(f"the server that should be {kind} the plug-in is not")


def study(record: Record) -> dict[str, Any]:
    cases = []
    for name, case in record.data["memory"]["cases"].items():
        rate, bare = case["bare"]["rate"], case["bare"]["ratio"]
        cases.append(
            {"name": name, "unit": case["unit"], "with": rate[0], "without": rate[1], "ratio": bare["median"]}
            | {"low": bare["low"], "own_work": case["copying"]["ratio"]["median"]}
            | {"cpu": case["bare"]["cpu_ratio"]["median"], "noise": case["noise"]["ratio"]["low"]}
            | {"target": TARGETS.get(name, TARGET)}
        )
    results: dict[str, Any] = {"memory": cases}
    if "throttled" in record.data:
        rates = record.data["throttled"]
        ratios = [a / b for a, b in zip(rates["with"], rates["without"], strict=True)]
        results["throttled"] = {
            "with": stats.median(rates["with"]),
            "without": stats.median(rates["without"]),
            "ratio": stats.median(ratios),
            "low": stats.lower_bound(ratios),
            "noise": stats.spread(rates["without"]),
            "target": TARGET,
        }
    return results


def show(_: Record, results: dict[str, Any]) -> str:
    rows = [["in memory", "bare", "with plug-in", "ratio", "low", "against nosf", "server CPU", "noise", "target", ""]]
    for case in results["memory"]:
        unit, scale = ("MB/s", 1e6) if case["unit"] == "B/s" else (case["unit"], 1)
        shown = [f"{case[kind] / scale:.0f} {unit}" for kind in ("without", "with")]
        ratios = [f"{case[key]:.3f}" for key in ("ratio", "low", "own_work", "cpu", "noise")]
        rows.append([case["name"], *shown, *ratios, f">= {case['target']:.2f}", verdict(case)])
    parts = [text.table(rows)]
    if "throttled" in results:
        case = results["throttled"]
        rows = [["throttled disk", "bare", "with plug-in", "ratio", "95 % bound", "noise", "target", ""]]
        shown = [f"{case[kind]:.2f} MB/s" for kind in ("without", "with")]
        ratios = [f"{case[key]:.3f}" for key in ("ratio", "low", "noise")]
        name = f"{REQUEST_BYTES >> 10} KiB random"
        rows.append([name, *shown, *ratios, f">= {case['target']:.2f}", verdict(case)])
        parts += ["", text.table(rows)]
    return "\n".join(parts)


def draw(results: dict[str, Any]) -> Figure:
    cases = results["memory"]
    with plot.figure(1) as (figure, (axis,)):
        values = {"measured": [case["ratio"] for case in cases], "target": [case["target"] for case in cases]}
        names = [case["name"].replace("_", "\n") for case in cases]
        plot.bars(axis, names, values, "with the plug-in / without")
    return figure


def verdict(case: dict[str, Any]) -> str:
    return "reached" if case["ratio"] >= case["target"] else "NOT reached"

# SPDX-License-Identifier: Apache-2.0
"""Policies for many copies at once, and the tails of their times: the table of the EOS talk, switched while copies run.

Shows: mean, p95 and p99 of the time of a copy, and the total throughput, under bandwidth policies that are the same
parts of a fair share as the talk's (HEPiX 2022: 50 to 200 MB/s of an instance of 30 GB/s, and none), through the real
server, with two disks of which one is asked for more often. Each policy is written while copies are under way.
--disks throttled: disks that only count bytes and requests, read directly. --disks seeks: disks with a head
(lab/beerlab/seekdisk.py), read through the page cache; the policies that spare them seeks stand beside the talk's.
Does not show: what an instance with thousands of streams and disks does, or absolute rates.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from .. import plot, shaping, stats, text
from ..labnode import lab_session
from ..record import Record
from ..session import Session
from ..waiting import Story

DISKS = ["/data/01", "/data/02"]
LABELS = ["beer-data1", "beer-data2"]
WEIGHTS = [0.65, 0.35]
# What the emulated node can serve without its CPU being the limit; of one throttled disk.
BYTES_PER_SECOND, IOPS = 5_000_000, 120
CLIENTS = 12
COPY_BYTES = {"throttled": 4 << 20, "seeks": 8 << 20}
STALL_SECONDS = 1


@dataclass(frozen=True)
class Case:
    part: float | None = None  # of a fair share, for each stream
    rules: str = ""  # what else the policy says
    talk: tuple[float, float, float, float] | None = None  # mean, p95, p99 in seconds, GB/s


UNLIMITED = "unlimited"
CASES = {
    "50": Case(50 / 214, talk=(42, 43.7, 44.2, 8)),
    "100": Case(100 / 214, talk=(22, 23.3, 24.5, 16)),
    "150": Case(150 / 214, talk=(15, 16.6, 18.1, 23)),
    "175": Case(175 / 214, talk=(13.4, 15.6, 20.2, 26)),
    "200": Case(200 / 214, talk=(12.3, 15.7, 25.4, 28)),
    UNLIMITED: Case(talk=(11.9, 40.7, 104, 30)),
    "readahead": Case(rules="beer.policy space:* r readahead 4MiB\n"),
    "one-reader": Case(rules="beer.overload * readers 1\n"),
}
DEFAULTS = {
    # Unlimited last, as in the talk; or first, since its throughput says what a fair share is, and last again.
    "throttled": "50,100,150,175,200,unlimited",
    "seeks": "unlimited,100,200,readahead,one-reader,unlimited",
}
# The goal beyond the talk: as much less p99 as its best policy, for at most so much of the throughput.
GOAL_P99, GOAL_THROUGHPUT = 0.19, 0.95


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--disks", choices=sorted(DEFAULTS), default="seeks", help="what they are like (default: seeks)"
    )
    parser.add_argument("--policies", help="in this order, of: " + " ".join(CASES))
    parser.add_argument("--seconds", type=float, default=150, help="of each policy (default: 150)")
    parser.add_argument("--settle", type=float, default=40, help="seconds before each that do not count (default: 40)")
    parser.add_argument("--slower", type=float, default=16, help="than an HDD is a disk with a head (default: 16)")
    parser.add_argument("--scheduler", default="mq-deadline", help="of disks with a head (default: mq-deadline)")


def rules_of(name: str, disks: str, fair: float) -> str:
    """The policy file; `fair`: bytes per second that each stream would have if all had the same."""
    case = CASES[name]
    wishes = " iotype direct" if disks == "throttled" else ""
    if case.part is not None:
        wishes += f" bandwidth {int(case.part * fair)}B/s"
    return (f"beer.policy space:* r{wishes}\n" if wishes else "") + case.rules


def record(options: argparse.Namespace, out: Path) -> Record:
    story = Story()
    copies: list[dict[str, Any]] = []
    windows: list[dict[str, Any]] = []
    seeks = options.disks == "seeks"
    names = (options.policies or DEFAULTS[options.disks]).split(",")
    spec = shaping.with_heads(options.slower, LABELS) if seeks else None
    with lab_session("scratch-apart", out, DISKS, spec=spec) as session:
        facts = session.facts()
        session.guard.take_away()
        _prepare(session, options)
        fair = len(DISKS) * BYTES_PER_SECOND / CLIENTS
        size = COPY_BYTES[options.disks]
        total = len(names) * (options.seconds + options.settle) + 600
        run = session.clients.copies("copies", CLIENTS, size, WEIGHTS, total, copies.append)
        run.wait_ready(180)
        for name in names:
            rules = rules_of(name, options.disks, fair)
            shaping.set_policy(session.node, rules)
            time.sleep(options.settle)
            start = time.time()
            time.sleep(options.seconds)
            window = {"policy": name, "rules": rules, "start": start, "end": time.time()}
            windows.append(window)
            moved = size * int(_inside(copies, [window]).sum())
            if seeks and name == UNLIMITED:
                fair = moved / options.seconds / CLIENTS
            story.say(f"policy {name}: {moved / options.seconds / 1e6:.2f} MB/s")
        run.finish(60)
    parameters = {name: getattr(options, name) for name in ("disks", "seconds", "settle", "slower", "scheduler")}
    made = Record("bandwidth", parameters, facts, {"copies": copies, "windows": windows, "copy_bytes": size})
    made.save(out)
    return made


def _prepare(session: Session, options: argparse.Namespace) -> None:
    for disk, label in zip(DISKS, LABELS, strict=True):
        if options.disks == "seeks":
            session.use_scheduler(disk, options.scheduler)
        else:
            session.node.throttle(label, IOPS, BYTES_PER_SECOND)  # type: ignore[attr-defined]
    shaping.set_policy(session.node, rules_of(UNLIMITED, options.disks, 0))
    shaping.stall_the_refused(session.node, STALL_SECONDS)
    shaping.restart(session.node)


def _inside(copies: list[dict[str, Any]], windows: list[dict[str, Any]]) -> Any:
    """Which copies ended in one of these windows."""
    ends = np.array([one["start"] + one["seconds"] for one in copies])
    inside = np.zeros(len(ends), dtype=bool)
    for one in windows:
        inside |= (ends >= one["start"]) & (ends < one["end"])
    return inside


def study(record: Record) -> dict[str, Any]:
    """Copies that ended in a window of the policy; throughput from their bytes."""
    rows = []
    copies = list(record.data["copies"])
    took = np.array([one["seconds"] for one in copies])
    failed = sorted({one["error"] for one in copies if one["error"]})
    for name in dict.fromkeys(one["policy"] for one in record.data["windows"]):
        windows = [one for one in record.data["windows"] if one["policy"] == name]
        mine = took[_inside(copies, windows)]
        seconds = sum(one["end"] - one["start"] for one in windows)
        row: dict[str, Any] = {"policy": name, "rules": windows[0]["rules"], "copies": len(mine)}
        row |= {"mean": float(mine.mean()) if len(mine) else float("nan")}
        row |= {key: stats.quantile(mine, share) for key, share in (("p95", 0.95), ("p99", 0.99))}
        row |= {"mb_s": len(mine) * record.data["copy_bytes"] / seconds / 1e6, "talk": CASES[name].talk}
        rows.append(row)
    rows.sort(key=lambda row: list(CASES).index(row["policy"]))
    base = next((row for row in rows if row["policy"] == UNLIMITED), None)
    for row in rows:
        of, talk = base or row, row["talk"]
        row["p99_ratio"], row["mb_s_ratio"] = row["p99"] / of["p99"], row["mb_s"] / of["mb_s"]
        row["talk_ratios"] = talk and (talk[2] / CASES[UNLIMITED].talk[2], talk[3] / CASES[UNLIMITED].talk[3])  # type: ignore[index]
        row["goal"] = row["p99_ratio"] <= GOAL_P99 and row["mb_s_ratio"] >= GOAL_THROUGHPUT
    return {"rows": rows, "errors": failed}


def show(record: Record, results: dict[str, Any]) -> str:
    head = ["policy", "copies", "mean", "p95", "p99", "MB/s"]
    rows = [[*head, "p99 / unlimited", "the talk's", "MB/s / unlimited", "the talk's"]]
    for row in results["rows"]:
        times = [text.seconds(row[key]) for key in ("mean", "p95", "p99")]
        talk = [f"{one:.2f}" for one in row["talk_ratios"]] if row["talk_ratios"] else [text.NOTHING] * 2
        ratios = [f"{row['p99_ratio']:.2f}", talk[0], f"{row['mb_s_ratio']:.2f}", talk[1]]
        rows.append([row["policy"], str(row["copies"]), *times, f"{row['mb_s']:.2f}", *ratios])
    kind = record.parameters["disks"]
    lines = [f"disks: {shaping.head_in_words(record.parameters['slower'])}" if kind == "seeks" else "disks: throttled"]
    lines += [f"{row['policy']}: {line}" for row in results["rows"] for line in row["rules"].splitlines()]
    reached = [row["policy"] for row in results["rows"] if row["goal"]]
    goal = f"goal: p99 x {GOAL_P99} at {GOAL_THROUGHPUT:.2f} of the throughput: "
    lines += ["", text.table(rows), "", goal + (f"reached with {', '.join(reached)}" if reached else "NOT reached")]
    return "\n".join(lines + [f"errors: {'; '.join(results['errors'])}"] * bool(results["errors"]))


def draw(results: dict[str, Any]) -> Figure:
    names = [row["policy"] for row in results["rows"]]
    pairs = [row["talk_ratios"] or (None, None) for row in results["rows"]]
    with plot.figure(2) as (figure, (tail, whole)):
        tails = {"here": [row["p99_ratio"] for row in results["rows"]], "the talk": [one for one, _ in pairs]}
        plot.bars(tail, names, tails, "p99 of a copy / unlimited", goal=GOAL_P99)
        rates = {"here": [row["mb_s_ratio"] for row in results["rows"]], "the talk": [one for _, one in pairs]}
        plot.bars(whole, names, rates, "throughput / unlimited", goal=GOAL_THROUGHPUT)
    return figure

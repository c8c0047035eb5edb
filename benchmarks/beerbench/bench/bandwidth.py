# SPDX-License-Identifier: Apache-2.0
"""Policies for many copies at once, and the tails of their times: the table of the EOS talk, switched while copies run.

Shows: mean, p95 and p99 of the time of a copy, and the total throughput, under bandwidth policies that are the same
parts of a fair share as the talk's (HEPiX 2022: 50 to 200 MB/s of an instance of 30 GB/s, and none), through the real
server, with two disks of which one is asked for more often. Each policy is written while copies are under way;
with --static server and clients begin anew with each.
--disks throttled: disks that only count bytes and requests, read directly. --disks seeks: disks with a head
(lab/beerlab/seekdisk.py), read through the page cache; the policies that spare them seeks stand beside the talk's.
Does not show: what an instance with thousands of streams and disks does, or absolute rates.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from .. import plot, shaping, stats, text
from ..clients import Run
from ..errors import BenchmarkError
from ..labnode import lab_session
from ..record import Record
from ..session import Session
from ..waiting import Story, wait_until

DISKS = ["/data/01", "/data/02"]
LABELS = ["beer-data1", "beer-data2"]
WEIGHTS = [0.65, 0.35]
# What the emulated node can serve without its CPU being the limit; of one throttled disk.
BYTES_PER_SECOND, IOPS = 5_000_000, 120
CLIENTS = 12
STALL_SECONDS = 1
SETTLE = 6.0  # the policy is looked at once a second
LONGEST_COPY = 600.0
ENOUGH = 100


@dataclass(frozen=True)
class Case:
    part: float | None = None  # of a fair share, for each stream
    readahead: bool = False  # in stretches of --stretch-mib
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
    "readahead": Case(readahead=True),
    "one-reader": Case(rules="beer.overload * readers 1\n"),
}
DEFAULTS = {
    # Unlimited last, as in the talk; or first, since its throughput says what a fair share is.
    "throttled": "50,100,150,175,200,unlimited",
    "seeks": "unlimited,readahead,200,one-reader",
}
# The goal beyond the talk: as much less p99 as its best policy, for at most so much of the throughput.
GOAL_P99, GOAL_THROUGHPUT = 0.19, 0.95


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--disks", choices=sorted(DEFAULTS), default="seeks", help="what they are like (default: seeks)"
    )
    parser.add_argument("--policies", help="in this order, of: " + " ".join(CASES))
    parser.add_argument("--static", action="store_true", help="begin anew with each policy (default: switch them)")
    parser.add_argument("--copies", type=int, default=120, help="that begin under each policy (default: 120)")
    parser.add_argument("--seconds", type=float, default=500, help="of each policy, at most (default: 500)")
    parser.add_argument("--depth", type=int, default=1, help="requests at a time of each client (default: 1)")
    parser.add_argument("--copy-mib", type=int, default=4, help="size of a copy (default: 4)")
    parser.add_argument("--block-kib", type=int, default=256, help="of one request (default: 256)")
    parser.add_argument("--stretch-mib", type=int, default=2, help="of the policy readahead (default: 2)")
    parser.add_argument("--slower", type=float, default=24, help="than an HDD is a disk with a head (default: 24)")
    parser.add_argument("--scheduler", default="mq-deadline", help="of disks with a head (default: mq-deadline)")


def rules_of(name: str, disks: str, fair: float, stretch_mib: int) -> str:
    """The policy file; `fair`: bytes per second that each stream would have if all had the same."""
    case = CASES[name]
    wishes = " iotype direct" if disks == "throttled" else ""
    if case.part is not None:
        wishes += f" bandwidth {int(case.part * fair)}B/s"
    if case.readahead:
        wishes += f" readahead {stretch_mib}MiB"
    return (f"beer.policy space:* r{wishes}\n" if wishes else "") + case.rules


def record(options: argparse.Namespace, out: Path) -> Record:
    story = Story()
    copies: list[dict[str, Any]] = []
    windows: list[dict[str, Any]] = []
    seeks = options.disks == "seeks"
    names = _names(options)
    spec = shaping.with_heads(options.slower, LABELS) if seeks else None
    with lab_session("scratch-apart", out, DISKS, spec=spec) as session:
        facts = session.facts()
        session.guard.take_away()
        _prepare(session, options)
        fair = len(DISKS) * BYTES_PER_SECOND / CLIENTS
        size = options.copy_mib << 20
        run = None
        for name in names:
            rules = rules_of(name, options.disks, fair, options.stretch_mib)
            if run and options.static:
                run.finish(LONGEST_COPY)
            shaping.set_policy(session.node, rules)
            if not run or options.static:
                shaping.restart(session.node)
                run = _start(session, options, len(names), copies)
            time.sleep(SETTLE)
            _wait_for_all(copies)
            start = time.time()
            while time.time() < start + options.seconds and len(_begun(copies, [(start, math.inf)])) < options.copies:
                time.sleep(1)
            window = {"policy": name, "rules": rules, "start": start, "end": time.time()}
            _wait_for_all(copies)
            windows.append(window)
            rate = _bytes_per_second(copies, _spans([window]), size)
            if seeks and name == UNLIMITED:
                fair = rate / CLIENTS
            story.say(f"policy {name}: {rate / 1e6:.2f} MB/s")
        if run:
            run.finish(LONGEST_COPY)
    sizes = ("copies", "seconds", "depth", "copy_mib", "block_kib", "stretch_mib", "slower")
    parameters = {name: getattr(options, name) for name in ("disks", "static", *sizes, "scheduler")}
    made = Record("bandwidth", parameters, facts, {"copies": copies, "windows": windows, "copy_bytes": size})
    made.save(out)
    return made


def _start(session: Session, options: argparse.Namespace, windows: int, copies: list[dict[str, Any]]) -> Run:
    """The clients, for as long as so many windows may take."""
    seconds = windows * (options.seconds + 2 * LONGEST_COPY) + 600
    size, block = options.copy_mib << 20, options.block_kib << 10
    run = session.clients.copies("copies", CLIENTS, size, WEIGHTS, seconds, copies.append, options.depth, block)
    run.wait_ready(180)
    return run


def _prepare(session: Session, options: argparse.Namespace) -> None:
    for disk, label in zip(DISKS, LABELS, strict=True):
        if options.disks == "seeks":
            session.use_scheduler(disk, options.scheduler)
        else:
            session.node.throttle(label, IOPS, BYTES_PER_SECOND)  # type: ignore[attr-defined]
    shaping.stall_the_refused(session.node, STALL_SECONDS)


def _names(options: argparse.Namespace) -> list[str]:
    names: list[str] = (options.policies or DEFAULTS[options.disks]).split(",")
    if unknown := [name for name in names if name not in CASES]:
        raise BenchmarkError(f"--policies: no {', '.join(unknown)}; there are: {', '.join(CASES)}")
    if options.disks == "seeks" and names[0] != UNLIMITED:
        raise BenchmarkError(f"--policies: {UNLIMITED} must be first: its throughput says what a fair share is")
    return names


def _wait_for_all(copies: list[dict[str, Any]]) -> None:
    """Until every client has ended the copy that it is at now: the next one is by the policy in force."""
    since = time.time()

    def ended() -> bool:
        return len({one["client"] for one in list(copies) if one["start"] + one["seconds"] > since}) == CLIENTS

    wait_until(ended, LONGEST_COPY, "every client has ended a copy")


def _spans(windows: list[dict[str, Any]]) -> list[tuple[float, float]]:
    return [(window["start"], window["end"]) for window in windows]


def _begun(copies: list[dict[str, Any]], spans: list[tuple[float, float]]) -> Any:
    """How long those copies took that began in one of these times; a failed one for ever.

    The policy of those times was in force until they ended.
    """
    took = [
        math.inf if one["error"] else one["seconds"]
        for one in list(copies)
        if any(start <= one["start"] < end for start, end in spans)
    ]
    return np.array(took)


def _bytes_per_second(copies: list[dict[str, Any]], spans: list[tuple[float, float]], size: int) -> float:
    """Of the copies that ended well in these times."""
    ends = [one["start"] + one["seconds"] for one in list(copies) if not one["error"]]
    count = sum(start <= at < end for at in ends for start, end in spans)
    return count * size / sum(end - start for start, end in spans)


def study(record: Record) -> dict[str, Any]:
    """For each policy the times of copies that began in its windows, and the throughput of those that ended in them."""
    rows = []
    copies = list(record.data["copies"])
    failed = sorted({one["error"] for one in copies if one["error"]})
    for name in sorted({one["policy"] for one in record.data["windows"]}, key=list(CASES).index):
        windows = [one for one in record.data["windows"] if one["policy"] == name]
        mine = _begun(copies, _spans(windows))
        row: dict[str, Any] = {"policy": name, "rules": windows[0]["rules"], "copies": len(mine)}
        row |= {"mean": float(mine.mean()) if len(mine) else float("nan")}
        row |= {key: stats.quantile(mine, share) for key, share in (("p95", 0.95), ("p99", 0.99))}
        row |= {
            "mb_s": _bytes_per_second(copies, _spans(windows), record.data["copy_bytes"]) / 1e6,
            "talk": CASES[name].talk,
        }
        rows.append(row)
    base = next((row for row in rows if row["policy"] == UNLIMITED), {"p99": float("nan"), "mb_s": float("nan")})
    for row in rows:
        talk, unlimited = row["talk"], CASES[UNLIMITED].talk
        row["p99_ratio"] = row["p99"] / base["p99"]
        row["mb_s_ratio"] = row["mb_s"] / base["mb_s"] if base["mb_s"] else float("nan")
        row["talk_ratios"] = (talk[2] / unlimited[2], talk[3] / unlimited[3]) if talk and unlimited else None
        # Of less than a hundred copies the p99 is the longest, and longer with every copy more.
        enough = min(row["copies"], base.get("copies", 0)) >= ENOUGH
        row["goal"] = enough and row["p99_ratio"] <= GOAL_P99 and row["mb_s_ratio"] >= GOAL_THROUGHPUT
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
    depth, block = record.parameters["depth"], record.parameters["block_kib"]
    lines += ["static: server and clients begin anew" if record.parameters["static"] else "switched on the fly"]
    lines += [f"{CLIENTS} clients copy {record.data['copy_bytes'] >> 20} MiB each, {depth} x {block} KiB at a time"]
    lines += [f"{row['policy']}: {line}" for row in results["rows"] for line in row["rules"].splitlines()]
    reached = [row["policy"] for row in results["rows"] if row["goal"]]
    goal = f"goal: p99 x {GOAL_P99} at {GOAL_THROUGHPUT:.2f} of the throughput, of {ENOUGH} copies or more: "
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

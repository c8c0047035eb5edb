# SPDX-License-Identifier: Apache-2.0
"""Streams with different I/O priorities that compete for one disk, by scheduler, beside the table of the EOS talk.

Shows: which share of one throttled disk a stream gets against others, by their I/O priorities (`beer.policy`), with
direct I/O, through the real server, beside the talk's numbers (HEPiX 2022: one HDD of 190 MB/s, CFQ).
bfq keeps the disk free for the next request of a stream for 8 ms, which an emulated client and server do not make: here
it does so for longer. Does not show: absolute rates, and what an HDD's own head would do.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from .. import plot, shaping, text
from ..clients import Stream
from ..errors import BenchmarkError
from ..labnode import lab_session
from ..record import Record
from ..session import Session
from ..waiting import Story

DISK, LABEL = "/data/01", "beer-data1"
USER = "storage"
ALONE = "-alone"
# What the emulated node can serve without its CPU being the limit.
BYTES_PER_SECOND, IOPS = 8_000_000, 120
SETTLE = 7.0  # the policy is looked at once a second, the scheduler every 5 s


@dataclass(frozen=True)
class Cell:
    """One writer against some others, all of one priority; the talk's MB/s of the first and of all others together."""

    first: str
    others: tuple[str, ...] = ()
    reading: bool = False
    talk: tuple[float, float] = (0, 0)

    @property
    def name(self) -> str:
        if not self.others:
            return f"{self.first} alone"
        count = f"{len(self.others)} x " if len(self.others) > 1 else ""
        return f"{self.first} against {count}{self.others[0]}{' reading' if self.reading else ''}"


CELLS = (
    Cell("rt:0", talk=(192, 0)),
    Cell("rt:0", ("rt:0",), talk=(96, 96)),
    Cell("rt:1", ("be:4",), talk=(166, 16)),
    Cell("rt:1", ("be:7",), talk=(170, 15)),
    Cell("rt:0", ("be:7",), talk=(172, 13)),
    Cell("rt:0", ("rt:7",), talk=(140, 35)),
    Cell("be:0", ("be:7",), talk=(143, 32)),
    Cell("rt:0", ("be:0",), talk=(169, 15)),
    Cell("rt:0", ("be:0",) * 2, talk=(160, 18)),
    Cell("rt:0", ("be:0",) * 3, talk=(158, 22)),
    Cell("rt:0", ("be:0",) * 4, talk=(150, 25)),
    Cell("rt:0", ("be:0",) * 10, talk=(131, 50)),
    Cell("rt:0", ("be:0",) * 10, reading=True, talk=(162, 13)),
)
# The goal beyond the talk: of the disk for rt:0 against ten be:0.
GOAL = 0.68
GOAL_CELL = CELLS[11].name


def arguments(parser: argparse.ArgumentParser) -> None:
    schedulers = "of the node's disk, in this order; with -alone: without the turns of the plug-in"
    parser.add_argument("--schedulers", default="bfq,bfq-alone,mq-deadline,none", help=schedulers)
    parser.add_argument("--cells", help="numbers of rows, from 1 on, such as 12 or 1,12 (default: all)")
    idle = "that bfq waits for a stream's next request; its own 8 ms are for real CPUs (default: 100)"
    parser.add_argument("--slice-idle-ms", type=int, default=100, help=idle)
    parser.add_argument("--seconds", type=float, default=10, help="of each cell, after the warm-up (default: 10)")
    parser.add_argument("--rounds", type=int, default=1, help="of the whole table (default: 1)")


def application(priority: str) -> str:
    return priority.replace(":", "")


def policy_lines(turns: bool = True) -> str:
    """An application for each priority; the storage user may call himself so. `turns`: those of the plug-in."""
    priorities = sorted({one for cell in CELLS for one in (cell.first, *cell.others)})
    lines = [f"beer.policy app:{application(one)} rw iotype direct iopriority {one}" for one in priorities]
    lines += [f"beer.trust {application(one)} {USER}" for one in priorities]
    return "\n".join(lines if turns else [*lines, "beer.turns off"]) + "\n"


def streams_of(cell: Cell, readable: list[str]) -> list[Stream]:
    found = [Stream(application(cell.first), "w", f"{DISK}/store/bench-0")]
    for number, priority in enumerate(cell.others):
        path = readable[number] if cell.reading else f"{DISK}/store/bench-{number + 1}"
        found.append(Stream(application(priority), "r" if cell.reading else "w", path))
    return found


def record(options: argparse.Namespace, out: Path) -> Record:
    story = Story()
    measured: list[dict[str, Any]] = []
    rows = [int(word) for word in options.cells.split(",")] if options.cells else range(1, len(CELLS) + 1)
    if not all(1 <= row <= len(CELLS) for row in rows):
        raise BenchmarkError(f"--cells: there are 1 to {len(CELLS)}")
    cells = [CELLS[row - 1] for row in rows]
    with lab_session("scratch-apart", out, [DISK]) as session:
        facts = session.facts()
        session.guard.take_away()
        _prepare(session)
        for _ in range(options.rounds):
            for scheduler in options.schedulers.split(","):
                kernels = scheduler.removesuffix(ALONE)
                session.use_scheduler(DISK, kernels)
                shaping.set_policy(session.node, policy_lines(turns=kernels == scheduler))
                time.sleep(SETTLE)
                if kernels == "bfq":
                    _set_slice_idle(session, options.slice_idle_ms)
                for cell in cells:
                    streams = streams_of(cell, session.clients.storage.disks[0])
                    end = session.clients.streams("cell", streams, options.seconds).wait(options.seconds + 300)
                    if end["errors"]:
                        raise BenchmarkError(f"{cell.name}: {'; '.join(end['errors'])}")
                    first, others = end["mb_s"][0], sum(end["mb_s"][1:])
                    measured.append({"scheduler": scheduler, "cell": cell.name, "first": first, "others": others})
                    story.say(f"{scheduler}, {cell.name}: {first:.2f} and {others:.2f} MB/s")
    parameters = {
        name: getattr(options, name) for name in ("schedulers", "cells", "slice_idle_ms", "seconds", "rounds")
    }
    made = Record("priorities", parameters, facts, {"cells": measured})
    made.save(out)
    return made


def _prepare(session: Session) -> None:
    node: Any = session.node
    node.throttle(LABEL, IOPS, BYTES_PER_SECOND)
    shaping.set_policy(session.node, policy_lines())
    shaping.restart(session.node)


def _set_slice_idle(session: Session, milliseconds: int) -> None:
    session.node.execute(f"echo {milliseconds} > /sys/dev/block/{session.device(DISK)}/queue/iosched/slice_idle")


def study(record: Record) -> dict[str, Any]:
    """For each cell and scheduler the median share of the first stream (of two the lower), and both sides' MB/s."""
    results: dict[str, Any] = {"rows": [], "goal": GOAL}
    schedulers = list(dict.fromkeys(one["scheduler"] for one in record.data["cells"]))
    measured = {one["cell"] for one in record.data["cells"]}
    for cell in (one for one in CELLS if one.name in measured):
        row: dict[str, Any] = {"cell": cell.name, "talk": share(*cell.talk)}
        for scheduler in schedulers:
            found = [one for one in record.data["cells"] if one["cell"] == cell.name and one["scheduler"] == scheduler]
            middle = sorted(found, key=lambda one: share(one["first"], one["others"]))[(len(found) - 1) // 2]
            row[scheduler] = {key: middle[key] for key in ("first", "others")}
            row[scheduler]["share"] = share(middle["first"], middle["others"])
        results["rows"].append(row)
    results["schedulers"] = schedulers
    return results


def share(first: float, others: float) -> float:
    return first / (first + others) if first + others else float("nan")


def show(_: Record, results: dict[str, Any]) -> str:
    head = ["share of the first stream", "talk"]
    for scheduler in results["schedulers"]:
        head += [scheduler, "MB/s"]
    rows = [head]
    for row in results["rows"]:
        line = [row["cell"], text.percent(row["talk"])]
        for scheduler in results["schedulers"]:
            one = row[scheduler]
            line += [text.percent(one["share"]), f"{one['first']:.1f} + {one['others']:.1f}"]
        rows.append(line)
    goal = next((row for row in results["rows"] if row["cell"] == GOAL_CELL), None)
    if goal is None:
        return text.table(rows)
    verdicts = [
        f"{scheduler}: {'reached' if goal[scheduler]['share'] >= results['goal'] else 'NOT reached'}"
        for scheduler in results["schedulers"]
    ]
    return f"{text.table(rows)}\n\n{GOAL_CELL}, goal {text.percent(results['goal'])}: {', '.join(verdicts)}"


def draw(results: dict[str, Any]) -> Figure:
    names = [row["cell"].replace(" against ", "\n") for row in results["rows"]]
    groups = {"the talk": [100 * row["talk"] for row in results["rows"]]}
    groups |= {name: [100 * row[name]["share"] for row in results["rows"]] for name in results["schedulers"]}
    halves = (slice(0, len(names) // 2), slice(len(names) // 2, None)) if len(names) > 3 else (slice(None),)
    with plot.figure(len(halves)) as (figure, axes):
        for axis, part in zip(axes, halves, strict=True):
            some = {label: values[part] for label, values in groups.items()}
            plot.bars(axis, names[part], some, "share of the disk for the first stream, %")
    return figure

# SPDX-License-Identifier: Apache-2.0
"""How often the guard acts on storage that is well: recorded requests of a healthy node, played to it for days.

Takes the storage-only windows of a record of `isolation`: requests that a real XRootD answered from a throttled disk
(70 % of what it can), while jobs were there and idle. Days are made of blocks of ten seconds of them, drawn at random
(a moving block bootstrap, Künsch 1989), and played to the detectors and the ladder that guard a node, as shipped.
Shows: precautions, freezes and evictions per day where batch does nothing on the disk, where it does a third of its
work, and where it does two thirds of it half of the time; and, so that it is no guard that is asleep, what it does when
the same requests take three times as long for an hour.
Does not show: what happens once in hours and is not in the recording (scrubs, backups, a controller that resets), or
what lasts longer than a block; nor a second in which no request began; nor gauges and disks: only what clients get.
A few minutes of recording stay a few minutes, for however many days they are played.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from .. import text
from ..client.samples import OK
from ..errors import BenchmarkError
from ..guardbench import replay
from ..host import host_facts
from ..record import Record, RecordError
from ..timeline.requests import Requests
from .isolation import ALONE

RECORDS = Path("out/isolation")
TRACE = "healthy.trace"
# Batch's share of the disk's work, and the mean length in seconds of its bursts; with a fifth and more, and more than
# is usual, weak evidence is enough for a freeze, if it is rare.
PLAYED: tuple[dict[str, float], ...] = ({"share": 0.0}, {"share": 0.33}, {"share": 0.33, "bursts": 10})
SLOWER = 3.0
PER_DAY = 1.0
NEEDLESS = 0.001
# Counted per day, and what each may come to. Of core-hours 1 % may be evicted: without an eviction none are.
TARGETS = {
    "freezes": f"<= {PER_DAY:g}",
    "evictions": "0",
    "precautions": "",
    "closings": "",
    "tightened": "",
    "squeezes": "",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--of", type=Path, help="record of isolation to play (default: the last one in out/isolation)")
    parser.add_argument("--days", type=float, default=5, help="to play (default: 5)")
    parser.add_argument("--block", type=float, default=10, help="seconds of a block (default: 10)")


def last_record() -> Path:
    """The last one that has latencies."""
    for folder in sorted(RECORDS.glob("*"), reverse=True):
        try:
            source = Record.load(folder)
        except (OSError, RecordError):
            continue
        if "requests" in source.data.get("files", {}) and source.file("requests").exists():
            return folder
    raise BenchmarkError(f"{RECORDS}: no record with latencies; first: run isolation --only latency, or --of RECORD")


def healthy(source: Record) -> np.typing.NDArray[np.int64]:
    """Start, end and filesystem of each request that was answered in a storage-only window, in nanoseconds."""
    requests = Requests.load(source.file("requests"))
    windows = [one for one in source.data["segments"] if one["measure"] == "latency" and one["kind"] == ALONE]
    if not windows:
        raise BenchmarkError(f"{source.folder}: it has no storage-only window with latencies")
    rows = []
    for window in windows:
        found = requests.due_between(window["start"], window["end"])
        found = found.select(found.outcome == OK)
        times = [((moment - requests.due.min() + 1) * 1e9).astype(np.int64) for moment in (found.sent, found.done)]
        rows.append(np.stack([*times, found.disk - requests.disk.min()], axis=1))
    return np.concatenate(rows)


def record(options: argparse.Namespace, out: Path) -> Record:
    folder = options.of or last_record()
    try:
        source = Record.load(folder)
        requests = healthy(source)
    except (OSError, KeyError, RecordError) as error:
        raise BenchmarkError(f"{folder}: no record of isolation with its samples: {error}") from error
    out.mkdir(parents=True, exist_ok=True)
    trace = out / TRACE
    np.savetxt(trace, requests, fmt="%d")
    played = [replay(trace, options.days, block=options.block, **case) for case in PLAYED]
    awake = replay(trace, 1, block=options.block, slower=SLOWER)
    parameters = {"of": source.started, "days": options.days, "block": options.block}
    data = {"played": played, "awake": awake, "files": {"trace": TRACE}}
    made = Record("false-actions", parameters, host_facts(), data)
    made.save(out)
    return made


def study(record: Record) -> dict[str, Any]:
    def of(played: dict[str, Any]) -> dict[str, Any]:
        counts = {name: played[name] / played["days"] for name in TARGETS}
        bursts = played.get("bursts_seconds", 0.0)
        return {"share": played["share"], "bursts": bursts, **counts, "frozen_share": played["frozen_share"]}

    cases = [of(played) for played in record.data["played"]]
    awake = record.data["awake"]["freezes"] > 0
    rare = all(
        case["freezes"] <= PER_DAY and case["frozen_share"] <= NEEDLESS and case["evictions"] == 0 for case in cases
    )
    return {
        "requests": record.data["awake"]["requests_in_trace"],
        "seconds": record.data["awake"]["seconds_in_trace"],
        "cases": cases,
        "reached": rare and awake,
        "awake": awake,
    }


def show(record: Record, results: dict[str, Any]) -> str:
    def work(case: dict[str, Any]) -> str:
        bursts = f", in bursts of {case['bursts']:g} s" if case["bursts"] else ""
        return text.percent(case["share"]) + bursts

    rows = [["batch's share of the disk", *map(work, results["cases"]), "target"]]
    for name, target in TARGETS.items():
        rows.append([f"{name} per day", *(f"{case[name]:.2f}" for case in results["cases"]), target])
    shares = (f"{100 * case['frozen_share']:.4f} %" for case in results["cases"])
    rows.append(["frozen for nothing", *shares, f"<= {100 * NEEDLESS:g} %"])
    verdict = "reached" if results["reached"] else "NOT reached"
    asleep = "and acts" if results["awake"] else "and does NOT act: the guard is asleep"
    days, block = record.parameters["days"], record.parameters["block"]
    recording = f"{results['requests']} requests in {results['seconds']:.0f} s"
    facts = f"{days:g} days made of blocks of {block:g} s of {recording}; {verdict}"
    return f"{text.table(rows)}\n\n{facts}; {asleep} when they take {SLOWER:g} times as long"

# SPDX-License-Identifier: Apache-2.0
"""A bandwidth policy for each stream against the tails of copies: the table of the EOS talk, switched while copies run.

Shows: mean, p95 and p99 of the time of a copy, and the total throughput, under policies that are the same parts of a
fair share as the talk's (HEPiX 2022: 50 to 200 MB/s of an instance of 30 GB/s, and none), through the real server, with
two throttled disks of which one is asked for more often. Each policy is written while copies are under way.
Does not show: what seeks cost (a throttled disk has none), which is where the talk's worst tails come from.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from .. import text
from ..labnode import lab_session
from ..record import Record
from ..session import Session
from ..waiting import Story

DISKS = ["/data/01", "/data/02"]
LABELS = ["beer-data1", "beer-data2"]
WEIGHTS = [0.65, 0.35]
POLICY = "/etc/xrootd/beer-policy.cfg"
# What the emulated node can serve without its CPU being the limit; of one disk.
BYTES_PER_SECOND, IOPS = 5_000_000, 120
CLIENTS, COPY_BYTES = 12, 4 << 20
# Its policies as parts of a fair share (30 GB/s in all; 200 MB/s gave 28), and what it measured: mean, p95, p99 in
# seconds, GB/s.
TALK: dict[str, tuple[float | None, tuple[float, float, float, float]]] = {
    "50": (50 / 214, (42, 43.7, 44.2, 8)),
    "100": (100 / 214, (22, 23.3, 24.5, 16)),
    "150": (150 / 214, (15, 16.6, 18.1, 23)),
    "175": (175 / 214, (13.4, 15.6, 20.2, 26)),
    "200": (200 / 214, (12.3, 15.7, 25.4, 28)),
    "unlimited": (None, (11.9, 40.7, 104, 30)),
}
SETTLE = 6.0  # the file is looked at once a second; copies of the policy before end


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=60, help="of each policy (default: 60)")
    parser.add_argument("--rounds", type=int, default=1, help="of all policies (default: 1)")


def rate_of(name: str) -> int | None:
    """Bytes per second of each stream."""
    part = TALK[name][0]
    return None if part is None else int(part * len(DISKS) * BYTES_PER_SECOND / CLIENTS)


def policy_line(name: str) -> str:
    rate = rate_of(name)
    limit = "" if rate is None else f" bandwidth {rate}B/s"
    return f"beer.policy space:* r iotype direct{limit}\n"


def record(options: argparse.Namespace, out: Path) -> Record:
    story = Story()
    copies: list[dict[str, Any]] = []
    windows: list[dict[str, Any]] = []
    with lab_session("scratch-apart", out, DISKS) as session:
        facts = session.facts()
        session.guard.take_away()
        for label in LABELS:
            session.node.throttle(label, IOPS, BYTES_PER_SECOND)  # type: ignore[attr-defined]
        _set(session, "unlimited")
        total = options.rounds * len(TALK) * (options.seconds + SETTLE) + 600
        run = session.clients.copies("copies", CLIENTS, COPY_BYTES, WEIGHTS, total, copies.append)
        run.wait_ready(180)
        for _ in range(options.rounds):
            for name in TALK:
                _set(session, name)
                time.sleep(SETTLE)
                start = time.time()
                time.sleep(options.seconds)
                windows.append({"policy": name, "start": start, "end": time.time()})
                story.say(f"policy {name} ({rate_of(name)} B/s): done")
        run.finish(60)
    parameters = {name: getattr(options, name) for name in ("seconds", "rounds")}
    made = Record("bandwidth", parameters, facts, {"copies": copies, "windows": windows, "copy_bytes": COPY_BYTES})
    made.save(out)
    return made


def _set(session: Session, name: str) -> None:
    """By rename, as puppet does: the server never sees half a file."""
    session.node.execute(f"cat > {POLICY}.new && mv {POLICY}.new {POLICY}", input=policy_line(name))


def study(record: Record) -> dict[str, Any]:
    """Copies that ended in a window of the policy; throughput from their bytes."""
    rows = []
    ends = np.array([one["start"] + one["seconds"] for one in record.data["copies"]])
    took = np.array([one["seconds"] for one in record.data["copies"]])
    failed = [one["error"] for one in record.data["copies"] if one["error"]]
    for name, (_, talk) in TALK.items():
        windows = [one for one in record.data["windows"] if one["policy"] == name]
        inside = np.zeros(len(ends), dtype=bool)
        for one in windows:
            inside |= (ends >= one["start"]) & (ends < one["end"])
        seconds = sum(one["end"] - one["start"] for one in windows)
        mine = took[inside]
        rows.append(
            {
                "policy": name,
                "rate": rate_of(name),
                "copies": len(mine),
                "mean": float(mine.mean()) if len(mine) else None,
                "p95": float(np.percentile(mine, 95)) if len(mine) else None,
                "p99": float(np.percentile(mine, 99)) if len(mine) else None,
                "mb_s": len(mine) * record.data["copy_bytes"] / seconds / 1e6 if seconds else None,
                "talk": talk,
            }
        )
    return {"rows": rows, "errors": sorted(set(failed))}


def show(_: Record, results: dict[str, Any]) -> str:
    def part(value: float | None, of: float | None) -> str:
        return text.NOTHING if value is None or not of else f"{value / of:.2f}"

    last = results["rows"][-1]
    head = ["policy", "of each stream", "copies", "mean", "p95", "p99", "MB/s"]
    rows = [[*head, "p99 / unlimited", "the talk's", "MB/s / unlimited", "the talk's"]]
    for row in results["rows"]:
        rate = "-" if row["rate"] is None else f"{row['rate'] / 1e6:.2f} MB/s"
        times = [text.NOTHING if row[key] is None else f"{row[key]:.2f} s" for key in ("mean", "p95", "p99")]
        ratios = [part(row["p99"], last["p99"]), part(row["talk"][2], last["talk"][2])]
        ratios += [part(row["mb_s"], last["mb_s"]), part(row["talk"][3], last["talk"][3])]
        speed = text.NOTHING if row["mb_s"] is None else f"{row['mb_s']:.2f}"
        rows.append([row["policy"], rate, str(row["copies"]), *times, speed, *ratios])
    table = text.table(rows)
    return table if not results["errors"] else f"{table}\n\nerrors: {'; '.join(results['errors'])}"

# SPDX-License-Identifier: Apache-2.0
"""Many readers at once on a disk with seeks: how the whole slows down, and what a limit of open files gives back.

Shows: total throughput and the time of a file while 1 to 64 clients read a big file each, without a limit and with
`beer.overload`, in turn on one node, through the real server, with the node's own page cache, readahead and scheduler.
Its data disk takes the time of an HDD of 190 MB/s with seeks of 8 ms (lab/beerlab/seekdisk.py), but both slowed down
by the same factor, since an emulated CPU could not serve such a disk. This is the "black hole" of the EOS talk (HEPiX
2022), which names limits (`space.max.ropen=200`) and gives no throughput to stand beside.
Does not show: absolute rates; writers; what the cache and the zones of a real drive change; what another server of the
instance would do for those who are told to wait (here they come back to the same one); or clients that come in the same
moment: they come one after the other to files whose metadata are in memory (--stagger 0 is the other case).
"""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from .. import plot, shaping, stats, text
from ..errors import BenchmarkError
from ..labnode import lab_session
from ..record import Record
from ..session import Session
from ..waiting import Story

DISK, LABEL = "/data/01", "beer-data1"
NO_LIMIT = 0
BAR = 24


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--clients", default="1,2,4,8,16,32,64", help="at once")
    parser.add_argument("--limits", default="1,2,8", help="of open files, each beside none")
    parser.add_argument("--mib", type=int, default=16, help="that each client reads (default: 16)")
    parser.add_argument("--block-kib", type=int, default=256, help="of one request (default: 256)")
    parser.add_argument("--slower", type=float, default=24, help="than the HDD is the disk (default: 24)")
    parser.add_argument("--stagger", type=float, default=0.5, help="seconds between two clients' coming (default: 0.5)")
    parser.add_argument("--stall", type=int, default=1, help="seconds until who was refused comes back (default: 1)")
    parser.add_argument("--scheduler", default="mq-deadline", help="of the node's disk (default: mq-deadline)")
    parser.add_argument("--rounds", type=int, default=1, help="of the whole table (default: 1)")


def record(options: argparse.Namespace, out: Path) -> Record:
    story = Story()
    measured: list[dict[str, Any]] = []
    with lab_session("scratch-apart", out, [DISK], spec=shaping.with_heads(options.slower, [LABEL])) as session:
        facts = session.facts()
        session.guard.take_away()
        _prepare(session, options)
        limits = [NO_LIMIT, *(int(word) for word in options.limits.split(","))]
        for number in range(options.rounds):
            for clients in (int(word) for word in options.clients.split(",")):
                # A limit that nobody meets is no other case.
                sides = [limit for limit in limits if limit < clients]
                for limit in sides if number % 2 == 0 else sides[::-1]:
                    _set_limit(session, limit)
                    one = _measure(session, options, clients)
                    measured.append({"clients": clients, "limit": limit} | one)
                    done = f"{rate_of(one):.2f} MB/s, told to wait {one['told_to_wait']} times"
                    story.say(f"{clients} clients, {name_of(limit)}: {done}")
    names = ("clients", "limits", "mib", "block_kib", "slower", "stagger", "stall", "scheduler", "rounds")
    made = Record("overload", {name: getattr(options, name) for name in names}, facts, {"cells": measured})
    made.save(out)
    return made


def _prepare(session: Session, options: argparse.Namespace) -> None:
    session.use_scheduler(DISK, options.scheduler)
    shaping.stall_the_refused(session.node, options.stall)
    _set_limit(session, NO_LIMIT)
    shaping.restart(session.node)


def name_of(limit: int) -> str:
    return f"limit {limit}" if limit else "no limit"


def _set_limit(session: Session, limit: int) -> None:
    shaping.set_policy(session.node, f"beer.overload * readers {limit}\n" if limit else "")
    time.sleep(4)  # it is looked at once a second


def _measure(session: Session, options: argparse.Namespace, clients: int) -> dict[str, Any]:
    copies: list[dict[str, Any]] = []
    session.drop_caches()
    # Opening a file must not have to wait for the disk: who is opening it is not counted yet.
    [paths] = session.clients.storage.disks
    session.node.execute(f"tail -qc 1 {' '.join(paths)} | wc -c", timeout=300)
    before, waited = _disk_reads(session), _told_to_wait(session)
    size = options.mib << 20
    block = options.block_kib << 10
    run = session.clients.copies_once("overload", clients, size, block, copies.append, options.stagger)
    # A seek for every 128 KiB, which is what the kernel reads ahead.
    slowest = clients * size * (1 / shaping.HDD_BYTES_PER_SECOND + shaping.HDD_SEEK_MS / 1e3 / (128 << 10))
    run.wait(300 + 2 * options.slower * slowest)
    after, told = _disk_reads(session), _told_to_wait(session) - waited
    failed = sorted({one["error"] for one in copies if one["error"]})
    if failed or len(copies) != clients:
        raise BenchmarkError(f"{clients} clients, {len(copies)} copies: {'; '.join(failed)}")
    requests, sectors = (now - was for now, was in zip(after, before, strict=True))
    return {"copies": copies, "bytes": size, "told_to_wait": told, "requests": requests, "disk_bytes": 512 * sectors}


def _disk_reads(session: Session) -> tuple[int, int]:
    """Requests and sectors that the node's kernel has read from the disk."""
    words = session.node.execute(f"cat /sys/dev/block/{session.device(DISK)}/stat").stdout.split()
    return int(words[0]), int(words[2])


def _told_to_wait(session: Session) -> int:
    """How often the server has sent a client away for a while, as its own statistics say."""
    key = "XrdSecPROTOCOL=sss XrdSecSSSKT=/etc/beer/keys/storage.keytab"
    said = session.node.execute(f"{key} xrdfs 127.0.0.1:1094 query stats p", timeout=120).stdout
    found = re.search(r"<dly>(\d+)</dly>", said)
    if found is None:
        raise BenchmarkError(f"the server's statistics have no <dly>: {said[:500]}")
    return int(found[1])


def rate_of(cell: dict[str, Any]) -> float:
    """MB/s of all clients together, from the first that came to the last that was done."""
    start = min(one["start"] for one in cell["copies"])
    end = max(one["start"] + one["seconds"] for one in cell["copies"])
    return float(len(cell["copies"]) * cell["bytes"] / (end - start) / 1e6)


def study(record: Record) -> dict[str, Any]:
    """For each number of clients and limit the median of the rounds; quantiles of file times over all of them."""
    rows = []
    for clients, limit in dict.fromkeys((cell["clients"], cell["limit"]) for cell in _in_order(record)):
        cells = [one for one in record.data["cells"] if (one["clients"], one["limit"]) == (clients, limit)]
        copies = [one for cell in cells for one in cell["copies"]]
        whole = np.array([one["seconds"] for one in copies])
        reading = whole - np.array([one["opening"] for one in copies])
        rows.append(
            {
                "clients": clients,
                "limit": limit,
                "mb_s": stats.median([rate_of(cell) for cell in cells]),
                "p50": stats.quantile(whole, 0.5),
                "max": stats.quantile(whole, 1.0),
                "reading_p50": stats.quantile(reading, 0.5),
                "told_to_wait": stats.median([cell["told_to_wait"] for cell in cells]),
                "request_kib": sum(cell["disk_bytes"] for cell in cells)
                / sum(cell["requests"] for cell in cells)
                / 1024,
            }
        )
    return {"rows": rows}


def _in_order(record: Record) -> list[dict[str, Any]]:
    return sorted(record.data["cells"], key=lambda cell: (cell["clients"], cell["limit"]))


def show(record: Record, results: dict[str, Any]) -> str:
    options = record.parameters
    first, best = results["rows"][0]["mb_s"], max(row["mb_s"] for row in results["rows"])
    times = {"p50": "file p50", "max": "last file", "reading_p50": "reading p50"}
    rows = [["clients", "", "MB/s", "of the first", *times.values(), "per disk request", "told to wait", ""]]
    for row in results["rows"]:
        line = [str(row["clients"]), name_of(row["limit"]), f"{row['mb_s']:.2f}", text.percent(row["mb_s"] / first)]
        line += [text.seconds(row[key]) for key in times]
        line += [f"{row['request_kib']:.0f} KiB", f"{row['told_to_wait']:.0f}"]
        rows.append([*line, ("#" * round(BAR * row["mb_s"] / best)).ljust(BAR)])
    disk = f"the disk: {shaping.head_in_words(options['slower'])}"
    work = f"{options['mib']} MiB each, in requests of {options['block_kib']} KiB, {options['scheduler']}"
    come = f"clients come {options['stagger']:g} s apart, and again {options['stall']} s after they were told to wait"
    return f"{disk}\n{work}\n{come}\n\n{text.table(rows)}"


def draw(results: dict[str, Any]) -> Figure:
    found = {(row["clients"], row["limit"]): row for row in results["rows"]}
    clients = sorted({one for one, _ in found})
    limits = sorted({limit for _, limit in found})
    with plot.figure(2) as (figure, (whole, file)):
        for axis, key, title in ((whole, "mb_s", "throughput, MB/s"), (file, "p50", "time of a file, p50, s")):
            # What nobody meets is no other case, and was measured once.
            groups = {
                name_of(limit): [found.get((one, limit), found[one, NO_LIMIT])[key] for one in clients]
                for limit in limits
            }
            plot.lines(axis, clients, groups, title, "clients at once")
    return figure

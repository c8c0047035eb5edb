# SPDX-License-Identifier: Apache-2.0
"""One node, one attack on its data disk, with and without the guard: table and page.

Shows: that the whole path works, and by how much a guard helps against direct I/O on a data disk; how long it takes
from the first slow request of a client to frozen jobs; what it costs batch.
Does not show: medians, bounds, other attacks (see `isolation`), or absolute speed of real disks and CPUs.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from ..demo import jobs, page, table
from ..demo.findings import study as findings
from ..demo.plan import Plan
from ..demo.run import Demo
from ..labnode import lab_session
from ..record import Record
from ..transfers import File
from ..waiting import Story

LAYOUT: Literal["scratch-on-data"] = "scratch-on-data"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", action="store_true", help="leave the node up and print how to log in")
    parser.add_argument("--load", type=float, default=Plan.load, help="share of the disk's limit asked for")


def record(options: argparse.Namespace, out: Path) -> Record:
    from beerlab import Preparation
    from beerlab.disks import real_files
    from beerlab.spec import DATA_IOPS

    story = Story()
    story.say("the virtual disk server comes up (the first time it is built: see the lines of the lab)")
    files = [File(file.path, file.size, file.adler32) for file in real_files(1)]
    plan = Plan(load=options.load)
    preparation = Preparation("the-demo", jobs.inputs(plan), lambda node: jobs.prepare(node, plan))
    with lab_session(LAYOUT, out, ["/data/01"], keep=options.keep, preparation=preparation) as session:
        return Demo(session, plan, DATA_IOPS, files, story).record()


def study(record: Record) -> dict[str, Any]:
    found = findings(record)
    page.write(found, record.folder / "report.html")
    alone, bad, good = (found.phases[name] for name in ("alone", "unguarded", "guarded"))
    return {
        "phases": {name: asdict(phase) for name, phase in found.phases.items()},
        "reaction": asdict(found.reaction),
        # The control loop writes cgroup.freeze in the tick in which it decides.
        "slow_to_written": found.reaction.since_slow(found.reaction.decided),
        "slow_to_frozen": found.reaction.since_slow(found.reaction.frozen),
        "slow_to_last_io": found.reaction.since_slow(found.reaction.last_io),
        # Half of what it would be without: anything less is luck, not protection.
        "protected": math.isfinite(good.p99) and good.p99 < max(bad.p99 / 2, alone.p99 * 1.5),
    }


def show(record: Record, results: dict[str, Any]) -> str:
    shown = table.terminal(findings(record))
    if not results["protected"]:
        shown += "\n\nNOT PROTECTED: the guard did not bring the p99 of storage clients down"
    return shown

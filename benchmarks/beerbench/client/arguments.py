# SPDX-License-Identifier: Apache-2.0
"""Command-line arguments that the clients share."""

from __future__ import annotations

import argparse
import contextlib
import os
from pathlib import Path

# A disk that seeks does not care about 16 or 64 KiB; an emulated network does: the packets of 64 KiB cost a node three
# times the CPU, and its p99 was then that of its CPU.
REQUEST_BYTES = 16384
# The page before a block is never in the page cache, so the kernel reads nothing ahead; and the lab's 16 files of 1 GiB
# hold blocks for an hour of 72 requests/s, of which none is answered from memory.
STRIDE_BYTES = 65536


def parser(description: str) -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(description=description)
    arguments.add_argument("--endpoint", required=True, help="host:port of the XRootD server")
    arguments.add_argument(
        "--disk",
        action="append",
        required=True,
        metavar="PATH[,PATH...]",
        help="files of one data disk, absolute paths; once per disk",
    )
    arguments.add_argument("--connections", type=int, default=24, help="connections per disk")
    arguments.add_argument("--duration", type=float, required=True, help="seconds")
    arguments.add_argument("--size", type=int, default=REQUEST_BYTES, help="bytes per request")
    arguments.add_argument("--stride", type=int, default=STRIDE_BYTES, help="offsets are multiples of this")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--start-at", type=float, help="Unix time of the first request; at once if not given")
    arguments.add_argument("--stop-file", type=Path, help="end the run early once this file exists")
    arguments.add_argument("--ready-file", type=Path, help="made when all connections are open")
    arguments.add_argument("--open-timeout", type=float, default=120, help="seconds for opening the connections")
    arguments.add_argument("--drain", type=float, default=0, help="seconds to wait for requests still outstanding")
    arguments.add_argument("--out", type=Path, required=True, help="file of samples")
    return arguments


def raise_priority() -> None:
    """The machine that emulates the node also runs this client: being late here would look like a slow disk.

    Real time where allowed: a nice value does not count between sessions (sched_autogroup). The client needs a few
    percent of a core. What is left of lateness is in the samples (sent - scheduled).
    """
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


def disks(values: list[str]) -> list[list[str]]:
    return [value.split(",") for value in values]

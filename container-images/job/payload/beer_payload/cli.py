# SPDX-License-Identifier: Apache-2.0
"""Command line of beer-payload: one subcommand per payload."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from beer_payload import (
    __version__,
    begin,
    burn,
    disk,
    files,
    forks,
    job,
    memory,
    network,
    physics,
    reader,
    storage,
    stream,
)
from beer_payload.report import EXIT_CODES, PayloadError, emit

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def size(text: str) -> int:
    """A size with its unit: 64KiB, 1MiB."""
    match = re.fullmatch(r"(\d+)\s*([KMG]i)?B", text)
    if not match or int(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size with a unit (B, KiB, MiB, GiB), such as 64KiB")
    return int(match[1]) * UNITS[f"{match[2] or ''}B"]


def url(text: str) -> storage.Url:
    try:
        return storage.Url.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def address(text: str) -> network.Address:
    try:
        return network.Address.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def whole(low: int, high: int) -> Any:
    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from {low} to {high}")
        return int(text)

    return parse


def duration(text: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?", text) or float(text) <= 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive number of seconds")
    return float(text)


def share(text: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?", text) or float(text) > 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a share from 0 to 1")
    return float(text)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="beer-payload",
        description="Jobs for a BEER node. Each prints one JSON report.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = top.add_subparsers(dest="payload", required=True)
    count, streams, pieces = whole(1, 10_000_000), whole(1, 256), whole(1, 1024)
    keytab = "sss keytab (default: the one that $XrdSecSSSKT names)"

    one = commands.add_parser("physics", help="generate collisions, store them in XRootD, check every number")
    one.add_argument("--events", type=count, default=100, help="collisions to generate (default: 100)")
    one.add_argument("--seconds", type=duration, default=math.inf, help="or as many as it makes in so long")
    one.add_argument("--seed", type=whole(1, physics.MAX_SEED), default=1, help="of the random numbers (default: 1)")
    processes = "; ".join(f"{process.name}: {process.about}" for process in physics.PROCESSES.values())
    one.add_argument("--process", choices=sorted(physics.PROCESSES), default="hard-qcd", help=processes)
    one.add_argument("--output", type=url, help="root://server[:port]//path; without it the file is checked locally")
    one.add_argument("--keytab", type=Path, help=keytab)
    one.add_argument("--on-signal", action="store_true", help="begin when SIGUSR1 comes (default: at once)")
    one.set_defaults(run=lambda a: job.run(a.process, a.events, a.seed, a.output, a.keytab, a.on_signal, a.seconds))

    signals = {
        "type": whole(1, 1000),
        "default": 0,
        "metavar": "N",
        "help": "get ready, then do it N times, each time when SIGUSR1 comes (default: once, at once)",
    }

    one = commands.add_parser("burn", help="test payload, innocent: CPU only, equal units of work")
    amount = one.add_mutually_exclusive_group(required=True)
    amount.add_argument("--seconds", type=duration, help="work for so long")
    amount.add_argument("--units", type=count, help="do so much work")
    one.add_argument("--on-signal", **signals)
    one.set_defaults(run=lambda a: burn.run(a.seconds, a.units, a.on_signal))

    one = commands.add_parser("read-disk", help="test payload, innocent: a few direct reads of scratch each second")
    one.add_argument("--path", type=Path, default=Path(), help="folder on the disk to read from (default: .)")
    one.add_argument("--rate", type=whole(1, 1000), default=5, help="reads per second (default: 5)")
    one.add_argument("--seconds", type=duration, required=True)
    one.add_argument("--on-signal", **signals)
    one.set_defaults(run=lambda a: reader.run(a.path, a.rate, a.seconds, a.on_signal))

    one = commands.add_parser("hog-disk", help="test payload, hostile: random I/O on scratch")
    one.add_argument("--path", type=Path, default=Path(), help="folder on the disk to attack (default: .)")
    one.add_argument("--threads", type=streams, default=8)
    one.add_argument("--seconds", type=duration, required=True, help="length of the attack, after the file is filled")
    one.add_argument("--block", type=size, default=size("64KiB"), help="bytes per request (default: 64KiB)")
    one.add_argument("--size", type=size, default=size("256MiB"), help="of the file (default: 256MiB)")
    one.add_argument("--write-share", type=share, default=0.5, help="share of writes (default: 0.5)")
    one.add_argument("--on-signal", **signals)
    cached = "through the page cache, flushed again and again (default: direct I/O)"
    one.add_argument("--cached", action="store_true", help=cached)
    one.set_defaults(
        run=lambda a: disk.run(a.path, a.threads, a.seconds, a.block, a.size, a.write_share, a.on_signal, a.cached)
    )

    one = commands.add_parser("hog-files", help="test payload, hostile: makes and removes small files on scratch")
    one.add_argument("--path", type=Path, default=Path(), help="folder on the disk to attack (default: .)")
    one.add_argument("--threads", type=streams, default=8)
    one.add_argument("--seconds", type=duration, required=True)
    one.add_argument("--on-signal", **signals)
    one.set_defaults(run=lambda a: files.run(a.path, a.threads, a.seconds, a.on_signal))

    one = commands.add_parser("hog-memory", help="test payload, hostile: takes memory and writes to all of it")
    one.add_argument("--size", type=size, required=True, help="most to take; more than the job is allowed ends it")
    one.add_argument("--seconds", type=duration, required=True)
    one.add_argument("--processes", type=streams, default=1, help="that share it (default: 1)")
    one.add_argument("--on-signal", **signals)
    one.set_defaults(run=lambda a: memory.run(a.size, a.seconds, a.on_signal, a.processes))

    one = commands.add_parser("fork-bomb", help="test payload, hostile: processes that make processes")
    one.add_argument("--seconds", type=duration, required=True)
    one.add_argument("--on-signal", **signals)
    one.add_argument("--processes", type=count, help="at most so many of this user (default: no limit of its own)")
    one.set_defaults(run=lambda a: forks.run(a.seconds, a.on_signal, a.processes))

    one = commands.add_parser("hog-network", help="test payload, hostile: floods an address with datagrams (UDP)")
    one.add_argument("--to", type=address, required=True, metavar="HOST:PORT", help="nobody need listen there")
    one.add_argument("--streams", type=streams, default=2, help="sockets and threads (default: 2)")
    one.add_argument("--seconds", type=duration, required=True)
    one.add_argument("--on-signal", **signals)
    one.set_defaults(run=lambda a: network.run(a.to, a.streams, a.seconds, a.on_signal))

    one = commands.add_parser("hog-xrootd", help="test payload, hostile: random reads through XRootD")
    one.add_argument("--url", type=url, action="append", required=True, help="file to read; may be given again")
    one.add_argument("--streams", type=streams, default=8, help="connections (default: 8)")
    one.add_argument("--seconds", type=duration, required=True)
    one.add_argument("--block", type=size, default=size("64KiB"), help="bytes per piece (default: 64KiB)")
    one.add_argument("--pieces", type=pieces, default=1, help="per request, more than 1 is a vector read (default: 1)")
    one.add_argument("--keytab", type=Path, help=keytab)
    one.add_argument("--on-signal", **signals)
    one.set_defaults(run=lambda a: stream.run(a.url, a.streams, a.seconds, a.block, a.pieces, a.keytab, a.on_signal))
    return top


def main(argv: Sequence[str] | None = None) -> int:
    top = parser()
    arguments = top.parse_args(argv)
    try:
        if arguments.payload == "hog-disk":
            disk.check_sizes(arguments.block, arguments.size)
        if arguments.payload == "hog-memory":
            memory.check_sizes(arguments.size, arguments.processes)
    except ValueError as error:
        top.error(str(error))
    if arguments.on_signal:
        begin.hold()
    try:
        return emit(arguments.payload, arguments.run(arguments))
    except PayloadError as error:
        return emit(arguments.payload, {}, error)

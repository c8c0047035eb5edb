# SPDX-License-Identifier: Apache-2.0
"""Clients that copy: each opens a file, reads a stretch of it from the start to the end, closes it, and begins anew.

Each copy is a line of the output: by which client, when it began (Unix time), how long it took, how much of that until
the file was open, from which disk. The disks are chosen at random with the weights that are given, so that one of them
has more to do. Each copy is of another place, as long as the files of the disk hold so many: nobody finds what another
has read. With --once each client copies one stretch and ends.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

from . import arguments as shared
from .connections import CLIENT_SETTINGS
from .progress import emit

BLOCK = 256 << 10


class Places:
    """What is copied next from a disk: a file, and which stretch of it. All files once, then their next stretches."""

    def __init__(self, disks: list[list[str]]) -> None:
        self._disks = disks
        self._taken = [0] * len(disks)
        self._lock = threading.Lock()

    def next_of(self, disk: int) -> tuple[str, int]:
        with self._lock:
            number = self._taken[disk]
            self._taken[disk] += 1
        turn, file = divmod(number, len(self._disks[disk]))
        return self._disks[disk][file], turn


class Copier(threading.Thread):
    def __init__(self, number: int, options: argparse.Namespace, places: Places, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._options = options
        self._number = number
        self._opened = 0.0
        self._url = f"root://c{number:03d}@{options.endpoint}/"
        self._disks = len(options.disk)
        self._places = places
        self._chance = random.Random(f"{options.seed} {number}")  # noqa: S311 (no secret)
        self._stop_asked = stop

    def run(self) -> None:
        if self._options.once:
            self._report(self._number % self._disks)
            return
        while not self._stop_asked.is_set():
            [disk] = self._chance.choices(range(self._disks), self._options.weight)
            self._report(disk)

    def _report(self, disk: int) -> None:
        path, turn = self._places.next_of(disk)
        began = time.time()
        self._opened = began
        error = self._copy(path, turn)
        opening = self._opened - began
        emit(
            {
                "client": self._number,
                "copy": disk,
                "start": began,
                "seconds": time.time() - began,
                "opening": opening,
                "error": error,
            }
        )

    def _copy(self, path: str, turn: int) -> str:
        """The `turn`-th stretch of the file."""
        from XRootD import client  # type: ignore[import-not-found]

        file = client.File()
        status, _ = file.open(f"{self._url}{path}")
        if not status.ok:
            return str(status.message.strip())
        self._opened = time.time()
        size = int(file.stat()[1].size)
        block, wanted = self._options.block, self._options.bytes
        first = turn % max(1, size // wanted) * wanted
        errors: list[str] = []
        slots = threading.Semaphore(self._options.depth)

        def done(status: Any, _data: Any, _hosts: Any) -> None:
            if not status.ok:
                errors.append(status.message.strip())
            slots.release()

        for offset in range(first, first + wanted, block):
            slots.acquire()
            status = file.read(offset, block, callback=done)
            if not status.ok:
                done(status, None, None)
        for _ in range(self._options.depth):
            slots.acquire()
        file.close()
        return errors[0] if errors else ""


def main(argv: list[str]) -> int:
    arguments = argparse.ArgumentParser(description="clients that copy, one file after the other")
    arguments.add_argument("--endpoint", required=True, help="host:port of the XRootD server")
    arguments.add_argument("--disk", action="append", required=True, metavar="PATH[,PATH...]", help="files of a disk")
    arguments.add_argument("--weight", action="append", type=float, help="chance of a disk; one for each, or none")
    arguments.add_argument("--clients", type=int, default=12)
    arguments.add_argument("--bytes", type=int, default=4 << 20, help="of a copy")
    arguments.add_argument("--block", type=int, default=BLOCK, help="bytes per request")
    arguments.add_argument("--depth", type=int, default=4, help="requests at a time of each client (default: 4)")
    length = arguments.add_mutually_exclusive_group(required=True)
    length.add_argument("--duration", type=float, default=float("inf"), help="seconds")
    length.add_argument("--once", action="store_true", help="one copy by each client")
    arguments.add_argument("--stagger", type=float, default=0, help="seconds between the first copies of two clients")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--stop-file", type=Path, required=True, help="end the run early once this file exists")
    options = arguments.parse_args(argv)
    for name, value in CLIENT_SETTINGS.items():
        os.environ.setdefault(name, value)
    stop = threading.Event()
    places = Places(shared.disks(options.disk))
    copiers = [Copier(number, options, places, stop) for number in range(options.clients)]
    emit({"ready": True, "connections": len(copiers)})
    end = time.monotonic() + options.duration
    for copier in copiers:
        copier.start()
        time.sleep(options.stagger)
    while time.monotonic() < end and not options.stop_file.exists() and any(one.is_alive() for one in copiers):
        time.sleep(0.2)
    emit({"end": True})
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # copies that are under way do not count

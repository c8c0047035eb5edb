# SPDX-License-Identifier: Apache-2.0
"""Closed-loop storage client: K requests always outstanding per disk. For capacity and throughput, not for latency."""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any

from . import arguments as shared
from .connections import Connection, Pool
from .inflight import InFlight
from .progress import Progress, emit
from .samples import Header, Writer, epoch_offset_ns
from .schedule import Offsets, Sequential


class Saturate:
    def __init__(self, options: argparse.Namespace, pool: Pool) -> None:
        self._options = options
        self._pool = pool
        self._progress = Progress()
        self._stopping = False
        self._idle: list[Connection] = []
        for connection in pool.all():
            if options.sequential:
                connection.offsets = Sequential(connection.file_size, options.size)
            else:
                seed = f"{options.seed} {connection.number}"
                connection.offsets = Offsets(connection.file_size, options.size, options.stride, seed)

    def run(self) -> dict[str, object]:
        options = self._options
        offset_ns = epoch_offset_ns()
        start_ns = time.monotonic_ns()
        if options.start_at is not None:
            start_ns = max(start_ns, int(options.start_at * 1e9) - offset_ns)
            while (left := start_ns - time.monotonic_ns()) > 0:
                time.sleep(left / 1e9)
        header = Header(
            kind="saturate",
            start_ns=start_ns,
            epoch_offset_ns=offset_ns,
            rate=0,
            size=options.size,
            seed=options.seed,
            targets=self._pool.targets,
            disk_of_target=self._pool.disk_of_target,
            settings={
                "outstanding_per_disk": options.connections,
                "sequential": options.sequential,
                "stride": options.stride,
                "duration": options.duration,
            },
        )
        writer = Writer(options.out, header)
        self._in_flight = InFlight(writer, self._progress)
        for connection in self._pool.all():
            self._send(connection)
        end_ns = start_ns + int(options.duration * 1e9)
        report_ns = start_ns
        while (now := time.monotonic_ns()) < end_ns:
            if options.stop_file is not None and options.stop_file.exists():
                end_ns = now
                break
            self._resume()
            writer.flush()
            if now - report_ns >= 1e9:
                emit(self._progress.report((now - start_ns) / 1e9, (now - report_ns) / 1e9))
                report_ns = now
            time.sleep(min(0.2, (end_ns - now) / 1e9))
        self._stopping = True
        return self._finish(start_ns, time.monotonic_ns())

    def _send(self, connection: Connection) -> None:
        sent_ns = time.monotonic_ns()
        number = self._in_flight.add(sent_ns, sent_ns, connection)
        if number is None:  # a call-back that the end of the run overtook
            return
        self._pool.take(connection)

        def answered(status: Any, data: Any, _hosts: Any) -> None:
            self._answered(number, status, data)

        status = connection.reader.read(connection.offsets.next(), self._options.size, answered)
        if not status.ok:
            self._answered(number, status, None)

    def _answered(self, number: int, status: Any, data: Any) -> None:
        done_ns = time.monotonic_ns()
        size = len(data) if data is not None else 0
        error = None
        if not status.ok:
            error = status.message.strip()
        elif size != self._options.size and not self._options.sequential:
            error = f"{size} bytes instead of {self._options.size}"
        connection = self._in_flight.answered(number, done_ns, size, error)
        if connection is None:
            return
        self._pool.done(connection, error)
        if self._stopping:
            return
        if error is None:
            self._send(connection)
        else:
            self._idle.append(connection)

    def _resume(self) -> None:
        """Puts connections that failed back to work, from the main thread: opening from a call-back would dead-lock."""
        self._pool.repair()
        waiting, self._idle = self._idle, []
        for connection in waiting:
            if connection.usable:
                self._send(connection)
            else:
                self._idle.append(connection)

    def _finish(self, start_ns: int, end_ns: int) -> dict[str, object]:
        outstanding = self._in_flight.end(end_ns)
        seconds = (end_ns - start_ns) / 1e9
        done = self._progress.done - self._progress.errors
        return {
            "end": True,
            "seconds": round(seconds, 3),
            "requests_per_s": round(done / seconds, 3),
            "mb_s": round(self._progress.bytes / seconds / 1e6, 4),
            "errors": self._progress.errors,
            "outstanding": outstanding,
        }


def main(argv: list[str]) -> int:
    arguments = shared.parser("closed-loop storage client: --connections requests outstanding per disk")
    arguments.add_argument("--sequential", action="store_true", help="read the files from their start")
    options = arguments.parse_args(argv)
    pool = Pool(options.endpoint, shared.disks(options.disk), options.connections)
    pool.open_all(options.open_timeout)
    if options.ready_file is not None:
        options.ready_file.touch()
    emit({"ready": True, "connections": len(pool.all())})
    emit(Saturate(options, pool).run())
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # see open_loop

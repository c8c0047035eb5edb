# SPDX-License-Identifier: Apache-2.0
"""Open-loop storage client: requests are sent on schedule, whatever happened to the ones before.

Latency counts from the moment a request was *due*. A client that waits for one answer before it asks again sends
nothing during a stall and so hardly sees it (coordinated omission); this one sees every request that the stall hit.
Requests that are still unanswered at the end are recorded with their age.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any

from . import arguments as shared
from .connections import Pool
from .inflight import InFlight
from .progress import Progress, emit
from .samples import UNAVAILABLE, Header, Writer, epoch_offset_ns
from .schedule import Offsets, arrivals


class OpenLoop:
    """One run over an open pool of connections."""

    HOUSEKEEPING = 0.25

    def __init__(self, options: argparse.Namespace, pool: Pool) -> None:
        self._options = options
        self._pool = pool
        self._progress = Progress()
        self._report_ns = 0
        self._housekeeping_ns = 0
        # One walk for all connections of a file: a block that one of them has read is in the page cache for the others.
        walks: dict[int, Offsets] = {}
        for connection in pool.all():
            seed = f"{options.seed} {connection.target}"
            walk = Offsets(connection.file_size, options.size, options.stride, seed)
            connection.offsets = walks.setdefault(connection.target, walk)

    def run(self) -> dict[str, object]:
        options = self._options
        start_ns = time.monotonic_ns()
        offset_ns = epoch_offset_ns()
        if options.start_at is not None:
            start_ns = max(start_ns, int(options.start_at * 1e9) - offset_ns)
        header = Header(
            kind="open-loop",
            start_ns=start_ns,
            epoch_offset_ns=offset_ns,
            rate=options.rate,
            size=options.size,
            seed=options.seed,
            targets=self._pool.targets,
            disk_of_target=self._pool.disk_of_target,
            settings={
                "connections_per_disk": options.connections,
                "even": options.even,
                "stride": options.stride,
                "duration": options.duration,
            },
        )
        self._writer = Writer(options.out, header)
        self._in_flight = InFlight(self._writer, self._progress)
        disks = len(self._pool.connections)
        self._report_ns = self._housekeeping_ns = start_ns
        end_ns = start_ns + int(options.duration * 1e9)
        for number, due in enumerate(arrivals(options.rate, options.seed, even=options.even)):
            due_ns = start_ns + int(due * 1e9)
            if not self._wait_until(min(due_ns, end_ns), start_ns):
                end_ns = time.monotonic_ns()
            if due_ns >= end_ns:
                break
            self._send(due_ns, number % disks)
        return self._finish(start_ns, end_ns)

    def _wait_until(self, due_ns: int, start_ns: int) -> bool:
        """Waits and keeps house, also when there is no time to wait; False when the run was asked to stop."""
        while True:
            now = time.monotonic_ns()
            if now - self._housekeeping_ns >= self.HOUSEKEEPING * 1e9 and not self._keep_house(now, start_ns):
                return False
            if now >= due_ns:
                return True
            time.sleep(min(due_ns - now, 100_000_000) / 1e9)

    def _keep_house(self, now: int, start_ns: int) -> bool:
        self._housekeeping_ns = now
        self._pool.repair()
        self._writer.flush()
        if now - self._report_ns >= 1e9:
            emit(self._progress.report((now - start_ns) / 1e9, (now - self._report_ns) / 1e9))
            self._report_ns = now
        return self._options.stop_file is None or not self._options.stop_file.exists()

    def _send(self, due_ns: int, disk: int) -> None:
        connection = self._pool.pick(disk)
        sent_ns = time.monotonic_ns()
        if connection is None:
            self._progress.send()
            target = self._pool.connections[disk][0].target
            self._writer.add(due_ns, sent_ns, sent_ns, 0, target, UNAVAILABLE)
            self._progress.finish(0, 0, ok=False)
            return
        number = self._in_flight.add(due_ns, sent_ns, connection)
        assert number is not None  # who sends also ends the run

        def answered(status: Any, data: Any, _hosts: Any) -> None:
            self._answered(number, time.monotonic_ns(), status, data)

        status = connection.reader.read(connection.offsets.next(), self._options.size, answered)
        if not status.ok:
            self._answered(number, time.monotonic_ns(), status, None)

    def _answered(self, number: int, done_ns: int, status: Any, data: Any) -> None:
        size = len(data) if data is not None else 0
        error = None if status.ok else status.message.strip()
        if error is None and size != self._options.size:
            error = f"{size} bytes instead of {self._options.size}"
        connection = self._in_flight.answered(number, done_ns, size, error)
        if connection is not None:
            self._pool.done(connection, error)

    def _finish(self, start_ns: int, end_ns: int) -> dict[str, object]:
        drain_ns = time.monotonic_ns() + int(self._options.drain * 1e9)
        while self._in_flight and time.monotonic_ns() < drain_ns:
            time.sleep(0.02)
        outstanding = self._in_flight.end(time.monotonic_ns())
        summary = self._progress.report((end_ns - start_ns) / 1e9, max((end_ns - start_ns) / 1e9, 1e-9))
        summary["outstanding"] = outstanding
        errors = sorted({connection.last_error for connection in self._pool.all() if connection.last_error})
        return {"end": True, **summary, "last_errors": errors}


def main(argv: list[str]) -> int:
    arguments = shared.parser("open-loop storage client")
    arguments.add_argument("--rate", type=float, required=True, help="requests per second, over all disks")
    arguments.add_argument("--even", action="store_true", help="evenly spaced requests instead of Poisson arrivals")
    options = arguments.parse_args(argv)
    shared.raise_priority()
    pool = Pool(options.endpoint, shared.disks(options.disk), options.connections)
    pool.open_all(options.open_timeout)
    if options.ready_file is not None:
        options.ready_file.touch()
    emit({"ready": True, "connections": len(pool.all())})
    emit(OpenLoop(options, pool).run())
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    # Destroying files whose server does not answer would wait for it.
    os._exit(code)

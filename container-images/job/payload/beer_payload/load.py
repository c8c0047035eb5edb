# SPDX-License-Identifier: Apache-2.0
"""What hostile payloads share: threads that do one kind of operation until a deadline, and their counts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from beer_payload import begin

ERROR_PAUSE = 0.2  # seconds; a refused operation must not become a busy loop


@dataclass
class Tally:
    """Counts of one thread."""

    operations: int = 0
    bytes: int = 0
    errors: int = 0
    busy_seconds: float = 0.0
    slowest_seconds: float = 0.0
    last_error: str = ""

    def add(self, size: int, seconds: float) -> None:
        self.operations += 1
        self.bytes += size
        self.busy_seconds += seconds
        self.slowest_seconds = max(self.slowest_seconds, seconds)

    def fail(self, error: Exception) -> None:
        self.errors += 1
        self.last_error = str(error)


# Does one operation and returns its size in bytes.
Operation = Callable[[], int]


def work(operation: Operation, tally: Tally, stop: threading.Event, failures: type[Exception]) -> None:
    while not stop.is_set():
        start = time.monotonic()
        try:
            tally.add(operation(), time.monotonic() - start)
        except failures as error:
            tally.fail(error)
            stop.wait(ERROR_PAUSE)


def hammer(
    operations: list[Operation], seconds: float, failures: type[Exception], on_signal: int = 0
) -> dict[str, Any]:
    """Runs each operation in a thread of its own, again and again, for so long; returns the totals.

    With `on_signal` it does so that many times, each when the signal comes: a job that behaved until then.
    """
    tallies = [Tally() for _ in operations]
    started, wall = [], 0.0
    for _ in begin.rounds(on_signal):
        started.append(round(time.time(), 3))
        wall += attack(operations, tallies, seconds, failures)
    done = sum(tally.operations for tally in tallies)
    return {
        "operations": done,
        "bytes": sum(tally.bytes for tally in tallies),
        "errors": sum(tally.errors for tally in tallies),
        "last_error": next((tally.last_error for tally in tallies if tally.last_error), None),
        "operations_per_second": round(done / wall, 2),
        "mean_seconds": round(sum(tally.busy_seconds for tally in tallies) / done, 6) if done else None,
        "slowest_seconds": round(max(tally.slowest_seconds for tally in tallies), 6),
        "attacks_started_unix": started,
        "attack_seconds": round(wall, 3),
    }


def attack(operations: list[Operation], tallies: list[Tally], seconds: float, failures: type[Exception]) -> float:
    """One attack; returns how long it took, operations that were slow to end included."""
    stop = threading.Event()
    threads = [
        threading.Thread(target=work, args=(operation, tally, stop, failures), daemon=True)
        for operation, tally in zip(operations, tallies, strict=True)
    ]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    stop.wait(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    return time.monotonic() - start

# SPDX-License-Identifier: Apache-2.0
"""The file of request samples: one JSON header line, then fixed-size records.

Times are CLOCK_MONOTONIC nanoseconds of the machine the client runs on; `epoch_offset_ns` of the header turns them
into Unix time. A record is written when the request ends, so records are in order of completion.
"""

from __future__ import annotations

import json
import struct
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO

FORMAT = "beer-samples/1"
RECORD = struct.Struct("<qqqIHBB")  # scheduled, sent, done, bytes, target, outcome, unused

OK = 0
ERROR = 1  # the server or the client library refused or lost the request
OUTSTANDING = 2  # not answered when the run ended: `done` is the end of the run, so done - scheduled is its age
UNAVAILABLE = 3  # no usable connection to that disk when the request was due
OUTCOMES = {OK: "ok", ERROR: "error", OUTSTANDING: "outstanding", UNAVAILABLE: "unavailable"}


@dataclass
class Header:
    """What was run; `targets[i]` is the path that the number `target` of a record stands for."""

    kind: str
    start_ns: int
    epoch_offset_ns: int
    rate: float
    size: int
    seed: int
    targets: list[str]
    disk_of_target: list[int]
    format: str = FORMAT
    settings: dict[str, object] = field(default_factory=dict)


def epoch_offset_ns() -> int:
    """Unix time minus CLOCK_MONOTONIC; the tightest of a few readings, since the process may be preempted between."""
    best: tuple[int, int] | None = None
    for _ in range(9):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        if best is None or after - before < best[0]:
            best = (after - before, wall - (before + after) // 2)
    assert best is not None
    return best[1]


class Writer:
    """Collects records from any thread; `flush` puts them to disk, away from the threads that time requests."""

    def __init__(self, path: Path, header: Header) -> None:
        self._file: BinaryIO = path.open("wb")
        self._file.write(json.dumps(asdict(header)).encode() + b"\n")
        self._file.flush()
        self._lock = threading.Lock()
        self._pending: list[bytes] = []

    def add(self, scheduled: int, sent: int, done: int, size: int, target: int, outcome: int) -> None:
        record = RECORD.pack(scheduled, sent, done, size, target, outcome, 0)
        with self._lock:
            self._pending.append(record)

    def flush(self) -> None:
        with self._lock:
            pending, self._pending = self._pending, []
        self._file.write(b"".join(pending))
        self._file.flush()

    def close(self) -> None:
        self.flush()
        self._file.close()

# SPDX-License-Identifier: Apache-2.0
"""Requests that were sent and have no answer yet. Each ends as one sample: answered, failed, or outstanding."""

from __future__ import annotations

import threading

from .connections import Connection
from .progress import Progress
from .samples import ERROR, OK, OUTSTANDING, Writer


class InFlight:
    """Takes answers from any thread."""

    def __init__(self, writer: Writer, progress: Progress) -> None:
        self._writer = writer
        self._progress = progress
        self._lock = threading.Lock()
        self._requests: dict[int, tuple[int, int, Connection]] = {}
        self._number = 0
        self._ended = False

    def add(self, due_ns: int, sent_ns: int, connection: Connection) -> int | None:
        """The number by which the answer must be told; None when the run has ended: then nothing may be sent."""
        with self._lock:
            if self._ended:
                return None
            self._progress.send()
            number = self._number
            self._number += 1
            self._requests[number] = (due_ns, sent_ns, connection)
        return number

    def answered(self, number: int, done_ns: int, size: int, error: str | None) -> Connection | None:
        """Records the answer; the connection it came by, or None when the run has ended without it."""
        # Recorded before the lock is released: `end` must not close the file between.
        with self._lock:
            entry = self._requests.pop(number, None)
            if entry is None:
                return None
            due_ns, sent_ns, connection = entry
            self._writer.add(due_ns, sent_ns, done_ns, size, connection.target, OK if error is None else ERROR)
            self._progress.finish((done_ns - due_ns) / 1e9, size, error is None)
            return connection

    def end(self, now_ns: int) -> int:
        """Records what has no answer as outstanding, with its age; how many. Later answers are too late."""
        with self._lock:
            self._ended = True
            left, self._requests = self._requests, {}
            for due_ns, sent_ns, connection in left.values():
                self._writer.add(due_ns, sent_ns, now_ns, 0, connection.target, OUTSTANDING)
            self._writer.close()
        return len(left)

    def __len__(self) -> int:
        return len(self._requests)

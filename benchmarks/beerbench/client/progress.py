# SPDX-License-Identifier: Apache-2.0
"""Counts of the running client, printed once a second as JSON on stderr."""

from __future__ import annotations

import json
import sys
import threading


def quantile(values: list[float], share: float) -> float | None:
    """Nearest-rank quantile; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Progress:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.sent = 0
        self.done = 0
        self.errors = 0
        self.bytes = 0
        self._recent: list[float] = []
        self._recent_bytes = 0

    def send(self) -> None:
        with self._lock:
            self.sent += 1

    def finish(self, latency: float, size: int, ok: bool) -> None:
        with self._lock:
            self.done += 1
            if ok:
                self.bytes += size
                self._recent_bytes += size
                self._recent.append(latency)
            else:
                self.errors += 1

    def report(self, elapsed: float, interval: float) -> dict[str, object]:
        with self._lock:
            recent, self._recent = self._recent, []
            size, self._recent_bytes = self._recent_bytes, 0
            line: dict[str, object] = {
                "t": round(elapsed, 3),
                "sent": self.sent,
                "done": self.done,
                "outstanding": self.sent - self.done,
                "errors": self.errors,
                "mb_s": round(size / interval / 1e6, 3),
            }
        for name, share in (("p50_ms", 0.50), ("p99_ms", 0.99)):
            value = quantile(recent, share)
            line[name] = None if value is None else round(value * 1e3, 2)
        return line


def emit(line: dict[str, object]) -> None:
    """From any thread: print() would write the end of the line apart from it."""
    sys.stderr.write(json.dumps(line) + "\n")
    sys.stderr.flush()

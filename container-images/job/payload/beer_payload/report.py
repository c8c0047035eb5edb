# SPDX-License-Identifier: Apache-2.0
"""What every payload hands back: one JSON object on standard output, and an exit code that says whose fault it was."""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any, ClassVar

from beer_payload import __version__


class PayloadError(Exception):
    """The payload cannot report success; `code` is the exit code."""

    code: ClassVar[int] = 1


class WrongNumber(PayloadError):
    """A result was checked and is wrong: the one failure that must never be ignored."""

    code = 1


class StorageError(PayloadError):
    """Storage refused, failed or was not there."""

    code = 3


class SetupError(PayloadError):
    """The container or its scratch folder lacks something the payload needs."""

    code = 4


EXIT_CODES = """exit codes:
  0  all numbers were checked and are right
  1  a number is wrong
  2  wrong call
  3  storage refused or failed
  4  the container lacks something (library, key, scratch folder)
"""


class Stopwatch:
    """Wall time and CPU time, children included, since it was made."""

    def __init__(self) -> None:
        self._wall = time.monotonic()
        self._cpu = self._cpu_now()

    @staticmethod
    def _cpu_now() -> float:
        usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(usage.ru_utime + usage.ru_stime for usage in usages)

    def wall(self) -> float:
        return time.monotonic() - self._wall

    def cpu(self) -> float:
        return self._cpu_now() - self._cpu

    def times(self) -> dict[str, float]:
        return {"wall_seconds": round(self.wall(), 3), "cpu_seconds": round(self.cpu(), 3)}


class Gaps:
    """Times between two steps of work: a freeze of the job shows here."""

    # Seconds; and how many of them are kept, the longest.
    NOTED = 0.5
    MOST = 64

    def __init__(self, now: float) -> None:
        self._last = now
        self.longest = 0.0
        self._noted: list[tuple[float, float]] = []

    def step(self, now: float) -> None:
        gap = now - self._last
        self.longest = max(self.longest, gap)
        self._last = now
        if gap >= self.NOTED:
            self._noted.append((gap, time.time()))
            self._noted = sorted(self._noted, reverse=True)[: self.MOST]

    def noted(self) -> list[dict[str, float]]:
        """The long ones with when each ended (seconds since the epoch), in that order."""
        noted = sorted(self._noted, key=lambda gap: gap[1])
        return [{"seconds": round(gap, 3), "ended": round(ended, 3)} for gap, ended in noted]


def emit(payload: str, result: dict[str, Any], failure: PayloadError | None = None) -> int:
    """Prints the report; returns the exit code."""
    document: dict[str, Any] = {"payload": payload, "version": __version__, "ok": failure is None, **result}
    if failure is not None:
        document["reason"] = str(failure)
        print(f"beer-payload {payload}: {failure}", file=sys.stderr)
    print(json.dumps(document), flush=True)
    return failure.code if failure else 0

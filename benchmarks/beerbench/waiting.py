# SPDX-License-Identifier: Apache-2.0
"""Waiting with a deadline, and progress that shows the time since the start."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TypeVar

from . import neighbours
from .errors import BenchmarkError

T = TypeVar("T")
REST = 3.0


def wait_until(
    probe: Callable[[], T], timeout: float, what: str, *, interval: float = 0.3, explain: Callable[[], str] = str
) -> T:
    """Calls `probe` until it returns something true, and returns that. An exception of the probe ends the wait.

    What it asks of an emulated node must not become the node's load: it rests twice as long as each call took,
    but no more than REST. What neighbours of this machine took of its CPU does not count towards the timeout.
    """
    began = looked = neighbours.read()
    left = timeout
    while True:
        asked = time.monotonic()
        if value := probe():
            return value
        took = time.monotonic() - asked
        now = neighbours.read()
        left -= neighbours.own_seconds(looked, now)
        looked = now
        if left < 0:
            lost = now.time - began.time - timeout + left
            beside = f" (and {lost:.0f} s that neighbours of this machine took)" if lost >= 1 else ""
            raise BenchmarkError(f"not within {timeout:g} s{beside}: {what}\n{explain()}".rstrip())
        time.sleep(max(interval, min(REST, 2 * took)))


class Story:
    """Says what goes on, each line with the minutes and seconds since the start."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._live = False

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._start

    def say(self, text: str) -> None:
        self._end_live()
        print(f"{self._stamp()} {text}", file=sys.stderr, flush=True)

    def live(self, text: str) -> None:
        """A line that the next one replaces; only on a terminal."""
        if self._terminal:
            print(f"\r\x1b[2K{self._stamp()}   {text}", end="", file=sys.stderr, flush=True)
            self._live = True

    def _end_live(self) -> None:
        if self._live:
            print("\r\x1b[2K", end="", file=sys.stderr)
            self._live = False

    def _stamp(self) -> str:
        minutes, seconds = divmod(int(self.elapsed), 60)
        return f"[{minutes}:{seconds:02}]"

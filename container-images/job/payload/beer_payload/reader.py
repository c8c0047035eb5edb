# SPDX-License-Identifier: Apache-2.0
"""The innocent job that uses a disk: a few small direct reads of its own scratch each second, one at a time."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from beer_payload import begin, disk
from beer_payload.report import Gaps, SetupError, Stopwatch

SIZE = 16 << 20


def run(
    path: Path,
    rate: float,
    seconds: float,
    on_signal: int = 0,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Reads `rate` times a second for so long; a read that was slow is not made up for.

    `longest_gap_seconds` is the longest time between two answers, beyond the pause that the rate asks for.
    """
    watch, done, longest, slowest = Stopwatch(), 0, 0.0, 0.0
    noted: list[dict[str, float]] = []
    descriptor = disk.open_file(path, cached=False)
    try:
        disk.fill(descriptor, SIZE)
        os.fsync(descriptor)
        chance = random.Random(0)  # noqa: S311 - offsets, no secrets
        read = disk.operation(descriptor, disk.ALIGNMENT, SIZE, 0.0, chance)
        for _ in begin.rounds(on_signal):
            start = now = clock()
            gaps = Gaps(start)
            while now - start < seconds:
                asked = now
                read()
                done += 1
                answered = clock()
                gaps.step(answered)
                slowest = max(slowest, answered - asked)
                sleep(max(0.0, asked + 1 / rate - answered))
                now = clock()
            longest = max(longest, gaps.longest)
            noted += gaps.noted()
    except OSError as error:
        raise SetupError(f"cannot read its own file on {path}: {error}") from error
    finally:
        os.close(descriptor)
    return {
        "operations": done,
        "slowest_seconds": round(slowest, 6),
        "longest_gap_seconds": round(max(0.0, longest - 1 / rate), 3),
        "gaps": noted,
        **watch.times(),
    }

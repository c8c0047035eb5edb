# SPDX-License-Identifier: Apache-2.0
"""The innocent job: a stream of equal units of integer arithmetic, no I/O, each with a known result."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from beer_payload import begin
from beer_payload.report import Gaps, Stopwatch, WrongNumber

# About 2 ms on a current core and 40 ms emulated: short beside a freeze, long beside a look at the clock.
STEPS = 20_000
MASK = (1 << 64) - 1
RESULT = 0x92D32D9DDB0CD321


def unit() -> int:
    """Knuth's linear congruential generator, STEPS times."""
    value = 1
    for _ in range(STEPS):
        value = (value * 6364136223846793005 + 1442695040888963407) & MASK
    return value


def run(
    seconds: float | None,
    units: int | None,
    on_signal: int = 0,
    clock: Callable[[], float] = time.monotonic,
    work: Callable[[], int] = unit,
) -> dict[str, Any]:
    """Works for so long, or for so many units (a fixed amount of work, whose wall time tells what was lost).

    With `on_signal` it does so that many times, each when the signal comes; `wall_seconds` counts the waiting too.
    """
    watch, done, longest = Stopwatch(), 0, 0.0
    noted: list[dict[str, float]] = []
    for _ in begin.rounds(on_signal):
        start, before = clock(), done
        gaps = Gaps(start)
        while done - before < units if units is not None else clock() - start < (seconds or 0):
            if work() != RESULT:
                raise WrongNumber(f"unit {done} came out wrong")
            done += 1
            gaps.step(clock())
        longest = max(longest, gaps.longest)
        noted += gaps.noted()
    times = watch.times()
    rate = done / times["cpu_seconds"] if times["cpu_seconds"] > 0 else 0.0
    return {
        "units": done,
        "units_per_cpu_second": round(rate, 2),
        "longest_gap_seconds": round(longest, 3),
        "gaps": noted,
        **times,
    }

# SPDX-License-Identifier: Apache-2.0
"""The few statistics that the benchmarks share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def quantile(values: Floats, share: float) -> float:
    """The smallest value that at least `share` of the values do not exceed; nan of nothing.

    No interpolation: it would invent latencies, and with failed requests (infinite) it would give nan.
    """
    if len(values) == 0:
        return float("nan")
    return float(np.quantile(values, share, method="inverted_cdf"))


def median(values: Sequence[float]) -> float:
    return float(np.median(np.asarray(values, dtype=float))) if len(values) else float("nan")


def upper_bound(values: Sequence[float], confidence: float = 0.95) -> float:
    """One-sided upper bound of the median: the smallest value that holds with that confidence for any distribution.

    By counting (sign test): n values are all below the median with probability 2^-n. A percentile bootstrap would be
    too low for the few pairs that a benchmark has (for 9 of a normal distribution it held 90 times of 100, not 95).
    With fewer than 5 values no bound holds with 95 %; the largest is given.
    """
    ordered = sorted(values)
    count = len(ordered)
    for rank in range(1, count + 1):
        # the rank-th smallest is below the median if at least `rank` values are
        below = sum(math.comb(count, above) for above in range(rank, count + 1)) / 2**count
        if 1 - below >= confidence:
            return ordered[rank - 1]
    return ordered[-1] if ordered else float("nan")


def lower_bound(values: Sequence[float], confidence: float = 0.95) -> float:
    """One-sided lower bound of the median."""
    return -upper_bound([-value for value in values], confidence)


def spread(values: Sequence[float]) -> float:
    """Largest over smallest: what the lab itself does to a number that should be constant."""
    low = min(values, default=float("nan"))
    return max(values) / low if values and low > 0 else float("nan")


def isolation_score(rates: Floats, target: float, share: float) -> float:
    """isol-pNN of resctl-bench: the share-quantile of per-second rates over the target, in percent, at most 100."""
    if target <= 0 or len(rates) == 0:
        return float("nan")
    return min(100.0, 100.0 * quantile(rates / target, share))

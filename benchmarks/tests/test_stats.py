# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
from beerbench import stats


def test_quantiles_are_values_that_occurred() -> None:
    values = np.array([1.0, 2.0, 3.0, 4.0])
    assert stats.quantile(values, 0.5) == 2.0
    assert stats.quantile(values, 0.99) == 4.0
    assert np.isnan(stats.quantile(np.array([]), 0.5))


def test_the_upper_bound_lies_above_the_median_and_within_the_values() -> None:
    values = [1.00, 1.01, 1.02, 1.03, 1.20]
    bound = stats.upper_bound(values)
    assert bound == 1.20  # of five values only the largest holds with 95 %
    assert stats.upper_bound(values * 3) == 1.03
    assert stats.lower_bound(values) == 1.00


def test_with_two_values_the_bound_is_the_larger() -> None:
    assert stats.upper_bound([1.0, 2.0]) == 2.0


def test_the_bound_covers_the_true_median_as_often_as_it_says() -> None:
    generator = np.random.default_rng(1)
    hits = sum(stats.upper_bound(list(generator.lognormal(0, 0.5, 9))) >= 1 for _ in range(1000))
    assert hits / 1000 > 0.96


def test_isolation_scores_are_those_of_resctl_bench() -> None:
    rates = np.array([100.0] * 95 + [50.0] * 5)
    assert stats.isolation_score(rates, 100, 0.05) == 50
    assert stats.isolation_score(rates, 100, 0.06) == 100
    assert stats.isolation_score(rates, 50, 0.01) == 100


def test_spread_of_the_lab() -> None:
    assert stats.spread([2.0, 3.0]) == 1.5

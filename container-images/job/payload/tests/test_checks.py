# SPDX-License-Identifier: Apache-2.0
"""Each check passes on the right number and fails on a wrong one: a check that cannot fail checks nothing."""

from __future__ import annotations

import math

import pytest
from beer_payload import checks
from beer_payload.report import WrongNumber

EXPECTED = checks.Expectation(energy=100.0, charge=0, charged_mean=20.0, charged_deviation=6.0)


@pytest.mark.parametrize(
    ("check", "arguments"),
    [
        (checks.event_count, (10, 10)),
        (checks.energy, (0, 100.019, 100.0)),
        (checks.momentum, (0, 0.019, 100.0)),
        (checks.charge, (0, 2, 2)),
        (checks.multiplicity, (20.0, 100, EXPECTED)),
        (checks.multiplicity, (23.5, 100, EXPECTED)),
        (checks.multiplicity, (40.0, 2, EXPECTED)),
    ],
)
def test_right_numbers_pass(check, arguments):
    check(*arguments)


@pytest.mark.parametrize(
    ("check", "arguments", "reason"),
    [
        (checks.event_count, (9, 10), "9 events in the file, 10 were asked for"),
        (checks.energy, (3, 100.021, 100.0), "event 3: energy 100.0210 GeV"),
        (checks.energy, (3, 99.979, 100.0), "event 3"),
        (checks.energy, (3, math.nan, 100.0), "event 3"),
        (checks.momentum, (3, 0.021, 100.0), "event 3"),
        (checks.momentum, (3, math.nan, 100.0), "event 3"),
        (checks.charge, (3, 1, 2), "event 3: charge 1, 2 went in"),
        (checks.multiplicity, (23.7, 100, EXPECTED), "23.70 charged particles"),
        (checks.multiplicity, (16.3, 100, EXPECTED), "expected 20.0"),
        (checks.multiplicity, (0.0, 100, EXPECTED), "0.00 charged"),
        (checks.multiplicity, (math.nan, 100, EXPECTED), "nan charged"),
    ],
)
def test_wrong_numbers_fail_with_a_reason(check, arguments, reason):
    with pytest.raises(WrongNumber, match=reason):
        check(*arguments)


def test_the_window_narrows_with_more_events():
    checks.multiplicity(23.5, 100, EXPECTED)
    with pytest.raises(WrongNumber):
        checks.multiplicity(23.5, 10_000, EXPECTED)

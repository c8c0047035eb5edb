# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import time

import pytest
from beer_payload import burn
from beer_payload.report import WrongNumber


def test_a_unit_has_the_known_result():
    assert burn.unit() == burn.RESULT


def test_so_many_units_are_done():
    assert burn.run(None, 3)["units"] == 3


def test_work_ends_after_so_many_seconds():
    ticks = itertools.count(0, 0.5)
    report = burn.run(2.0, None, clock=lambda: next(ticks), work=lambda: burn.RESULT)
    # The clock is read once at the start, then before and after each unit.
    assert report["units"] == 2


def test_a_pause_shows_as_the_longest_gap():
    times = iter([0.0, 1.0, 2.0, 99.0])
    report = burn.run(None, 3, clock=lambda: next(times), work=lambda: burn.RESULT)
    assert report["longest_gap_seconds"] == 97.0
    assert [gap["seconds"] for gap in report["gaps"]] == [1.0, 1.0, 97.0]
    assert all(abs(gap["ended"] - time.time()) < 60 for gap in report["gaps"])


def test_a_wrong_unit_is_an_error():
    with pytest.raises(WrongNumber, match="unit 0"):
        burn.run(None, 1, work=lambda: burn.RESULT + 1)

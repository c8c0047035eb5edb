# SPDX-License-Identifier: Apache-2.0
"""Stolen CPU time, from made-up samples and from this machine's kernel."""

import math
import time

from beerbench.neighbours import Neighbours, read, taken
from beerbench.waiting import wait_until

# Two CPUs of 100 ticks a second; from 110 to 120 half of their time is stolen.
SAMPLES = [(float(t), 200.0 * t, 100.0 * min(max(t - 110, 0), 10)) for t in range(100, 131)]


def test_share_of_a_stretch_of_time():
    assert taken(SAMPLES, 100, 110) == 0.0
    assert math.isclose(taken(SAMPLES, 110.5, 119.5), 0.5)
    assert math.isclose(taken(SAMPLES, 105, 115), 0.25)


def test_what_was_not_sampled_is_not_known():
    assert math.isnan(taken([], 100, 110))
    assert math.isnan(taken(SAMPLES, 90, 110))
    assert math.isnan(taken(SAMPLES, 120, 140))


def test_the_kernels_numbers_are_read_while_it_runs():
    with Neighbours(interval=0.01) as neighbours:
        start = time.time()
        wait_until(lambda: len(neighbours.samples) > 20, 10, "samples")
    assert 0.0 <= neighbours.taken(start, time.time()) <= 1.0
    assert [sample[1] for sample in neighbours.samples] == sorted(sample[1] for sample in neighbours.samples)
    assert read()[1] >= neighbours.samples[-1][1] > 0

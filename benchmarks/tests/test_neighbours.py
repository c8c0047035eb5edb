# SPDX-License-Identifier: Apache-2.0
"""Stolen CPU time, from made-up samples and from this machine's kernel."""

import math
import os
import subprocess
import time

import psutil
import pytest
from beerbench.errors import BenchmarkError
from beerbench.neighbours import LEAST_OWN, Neighbours, Sample, own_seconds, read, taken, used_here
from beerbench.waiting import wait_until

# Two CPUs of 100 ticks a second; from 110 to 120 half of their time is stolen.
SAMPLES = [Sample(float(t), 200.0 * t, 100.0 * min(max(t - 110, 0), 10)) for t in range(100, 131)]


def test_share_of_a_stretch_of_time():
    assert taken(SAMPLES, 100, 110).neighbours == 0.0
    assert math.isclose(taken(SAMPLES, 110.5, 119.5).neighbours, 0.5)
    assert math.isclose(taken(SAMPLES, 105, 115).neighbours, 0.25)


def test_what_was_not_sampled_is_not_known():
    assert all(math.isnan(share) for share in taken([], 100, 110))
    assert all(math.isnan(share) for share in taken(SAMPLES, 90, 110))
    assert all(math.isnan(share) for share in taken(SAMPLES, 120, 140))


def test_the_kernels_numbers_are_read_while_it_runs():
    with Neighbours(interval=0.01) as neighbours:
        start = time.time()
        wait_until(lambda: len(neighbours.samples) > 20, 10, "samples")
    assert 0.0 <= neighbours.taken(start, time.time()).neighbours <= 1.0
    assert [sample[1] for sample in neighbours.samples] == sorted(sample[1] for sample in neighbours.samples)
    assert read()[1] >= neighbours.samples[-1][1] > 0


def test_own_time_leaves_out_what_neighbours_took_of_the_time_in_which_there_was_work():
    start = Sample(100, 0, 0, 0)
    # Ten seconds of two CPUs, each with 100 ticks per second.
    for stolen, idle, expected in [(0, 0, 10), (0, 2000, 10), (1000, 0, 5), (500, 1000, 5), (2000, 0, 10 * LEAST_OWN)]:
        assert math.isclose(own_seconds(start, Sample(110, 2000, stolen, idle)), expected), (stolen, idle)
    assert own_seconds(start, start) == 0


def test_a_wait_does_not_count_what_neighbours_took(monkeypatch):
    looks = iter([Sample(100.0 + n, 200.0 * n, 100.0 * n) for n in range(100)])  # half of it stolen
    monkeypatch.setattr("beerbench.neighbours.read", lambda: next(looks))
    asked = []
    with pytest.raises(BenchmarkError, match=r"not within 5 s \(and 6 s that neighbours .* took\): pigs fly"):
        wait_until(lambda: asked.append(1), 5, "pigs fly", interval=0)
    assert len(asked) == 11


def test_other_work_is_what_is_neither_own_nor_stolen_nor_idle():
    """Two CPUs for 10 s: 4 s idle, 2 s stolen, 5 s our own; then as long with nothing but ours."""
    samples = [Sample(0, 0, 0, 0, 100), Sample(10, 20, 2, 4, 105), Sample(20, 40, 2, 4, 125)]
    for start, end, others in [(0, 10, 9 / 20), (0, 20, 9 / 40), (10, 20, 0)]:
        assert taken(samples, start, end).others == pytest.approx(others)


def test_own_work_is_sampled_in_the_kernels_ticks():
    hertz = os.sysconf("SC_CLK_TCK")
    with Neighbours(used=lambda: 3.0) as neighbours:
        pass
    assert [sample.own for sample in neighbours.samples] == [3.0 * hertz] * 2


SPIN = "n=0; while [ $n -lt 300000 ]; do n=$((n + 1)); done"


def test_the_work_of_descendants_is_own_work():
    before = used_here()
    subprocess.run(["sh", "-c", f"sh -c '{SPIN}'; true"], check=True)
    ended = used_here()
    assert ended > before
    with subprocess.Popen(["sh", "-c", "sh -c 'while :; do :; done' & echo; wait"], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            wait_until(lambda: used_here() > ended + 0.1, 60, "what a grandchild does counts while it lives")
        finally:
            for process in psutil.Process(child.pid).children():
                process.kill()

# SPDX-License-Identifier: Apache-2.0
"""Stolen CPU time, from made-up samples and from this machine's kernel."""

import math
import subprocess
import time
from pathlib import Path

import pytest
from beerbench.errors import BenchmarkError
from beerbench.neighbours import LEAST_OWN, Neighbours, OtherWork, Sample, own_seconds, own_ticks, read, taken
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


def test_own_ticks_are_those_of_all_descendants(tmp_path: Path):
    def process(pid: int, parent: int, *ticks: int) -> None:
        (tmp_path / str(pid)).mkdir()
        words = f"S {parent} " + "0 " * 9 + " ".join(map(str, ticks))
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a (b) c) {words} 20 0\n")

    process(1, 0, 1000, 0, 0, 0)
    process(7, 1, 1, 2, 4, 8)
    process(9, 7, 16, 0, 0, 0)
    process(8, 9, 32, 0, 0, 0)
    process(10, 1, 64, 0, 0, 0)
    assert own_ticks(tmp_path, root=7) == 63
    assert own_ticks(tmp_path, root=11) == 0


def test_a_child_that_has_ended_counts():
    other, before = OtherWork(), own_ticks()
    subprocess.run(["sh", "-c", "n=0; while [ $n -lt 300000 ]; do n=$((n + 1)); done"], check=True)
    assert own_ticks() > before
    assert 0.0 <= other.share() <= 1.0

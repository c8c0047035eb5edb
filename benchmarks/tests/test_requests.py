# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from beerbench.client.samples import ERROR, OK, OUTSTANDING, Header, Writer
from beerbench.timeline.requests import Requests, SampleError

EPOCH = 1_800_000_000
MS = 1_000_000


def write(path: Path, rows: list[tuple[int, int, int]]) -> Path:
    """rows: due in ms, latency in ms, outcome; disks alternate."""
    header = Header("open-loop", 0, EPOCH * 10**9, 10, 100, 1, ["/a", "/b"], [0, 1])
    writer = Writer(path, header)
    for number, (due, latency, outcome) in enumerate(rows):
        size = 100 if outcome == OK else 0
        writer.add(due * MS, due * MS, (due + latency) * MS, size, number % 2, outcome)
    writer.close()
    return path


def test_times_become_unix_seconds_and_order_is_that_of_the_schedule(tmp_path: Path) -> None:
    found = Requests.load(write(tmp_path / "s", [(2000, 5, OK), (1000, 7, OK)]))
    assert found.due == pytest.approx([EPOCH + 1, EPOCH + 2])
    assert found.latency == pytest.approx([0.007, 0.005], abs=1e-6)
    assert list(found.disk) == [1, 0]


def test_failed_requests_push_the_quantile_to_infinity(tmp_path: Path) -> None:
    rows = [(i, 5, OK) for i in range(98)] + [(100, 1, ERROR), (101, 1, ERROR)]
    found = Requests.load(write(tmp_path / "s", rows))
    assert found.quantile(0.98) == pytest.approx(0.005, abs=1e-6)
    assert found.quantile(0.99) == float("inf")
    assert found.failed == 2


def test_windows_go_by_the_time_a_request_was_due(tmp_path: Path) -> None:
    found = Requests.load(write(tmp_path / "s", [(100, 5000, OK), (1100, 5, OK), (1200, 800, OUTSTANDING)]))
    first = found.due_between(EPOCH, EPOCH + 1)
    assert len(first) == 1
    assert first.quantile(0.99) == pytest.approx(5.0)
    times, values = found.per_second(EPOCH, EPOCH + 3, 0.99)
    assert list(times) == [EPOCH + 0.5, EPOCH + 1.5, EPOCH + 2.5]
    assert values[:2] == pytest.approx([5.0, 0.8])
    assert np.isnan(values[2])


def test_delivered_counts_what_arrived_in_the_window(tmp_path: Path) -> None:
    found = Requests.load(write(tmp_path / "s", [(100, 5000, OK), (1100, 5, OK), (1200, 5, ERROR)]))
    assert found.delivered(EPOCH + 1, EPOCH + 2) == pytest.approx(100)
    assert list(found.answered_per_second(EPOCH, EPOCH + 6)) == [0, 1, 0, 0, 0, 1]


def test_half_a_record_at_the_end_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "s", [(1, 1, OK), (2, 1, OK)])
    path.write_bytes(path.read_bytes()[:-5])
    assert len(Requests.load(path)) == 1


@pytest.mark.parametrize("content", [b"", b"junk\n", json.dumps({"format": "other/1"}).encode() + b"\n"])
def test_other_files_are_refused_with_their_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "junk"
    path.write_bytes(content)
    with pytest.raises(SampleError, match="junk"):
        Requests.load(path)

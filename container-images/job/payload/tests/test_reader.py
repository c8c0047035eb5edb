# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from beer_payload import disk, reader
from beer_payload.report import SetupError


class Time:
    """A clock that goes on while somebody sleeps or a read is answered."""

    now = 100.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> tuple[Time, list[float]]:
    """How long each read takes; 10 ms once they are used up."""
    time, slow = Time(), []

    def operation(*arguments: object) -> object:
        def once() -> int:
            time.sleep(slow.pop(0) if slow else 0.01)
            return disk.ALIGNMENT

        return once

    monkeypatch.setattr(disk, "operation", operation)
    return time, slow


def test_it_reads_its_own_file_and_leaves_nothing(tmp_path: Path):
    report = reader.run(tmp_path, rate=50, seconds=0.3)
    assert 1 <= report["operations"] <= 16
    assert not list(tmp_path.iterdir())


def test_it_keeps_its_rate(tmp_path: Path, answers: tuple[Time, list[float]]):
    time, _ = answers
    report = reader.run(tmp_path, rate=4, seconds=10, clock=lambda: time.now, sleep=time.sleep)
    assert (report["operations"], report["longest_gap_seconds"]) == (40, 0.0)


def test_a_freeze_shows_as_the_longest_gap(tmp_path: Path, answers: tuple[Time, list[float]]):
    time, slow = answers
    slow += [0.01, 3.0]
    report = reader.run(tmp_path, rate=4, seconds=10, clock=lambda: time.now, sleep=time.sleep)
    # From the first answer to the second one 0.24 s of pause and 3 s; what it did not ask for meanwhile is lost.
    assert (report["slowest_seconds"], report["longest_gap_seconds"]) == (3.0, 2.99)
    assert report["operations"] == 29


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path):
    with pytest.raises(SetupError, match="no direct I/O on"):
        reader.run(tmp_path / "none", rate=1, seconds=1)

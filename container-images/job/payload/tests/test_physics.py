# SPDX-License-Identifier: Apache-2.0
"""The physics job with the real Pythia and the real uproot, and with files that were damaged on purpose."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from beer_payload import begin, job, physics, rootfile, storage
from beer_payload.report import SetupError, StorageError, WrongNumber

CHEAP = physics.PROCESSES["z-hadrons"]


@pytest.fixture(scope="module")
def events() -> physics.Events:
    return physics.generate(CHEAP, 50, 7)


@pytest.mark.parametrize("name", sorted(physics.PROCESSES))
def test_every_process_gives_right_numbers(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    report = job.run(name, 20, 3, None, None)
    assert report["events"] == 20
    assert report["particles"] > 20
    assert report["bytes"] > 1000
    assert list(tmp_path.iterdir()) == []


def test_the_seed_decides_the_events():
    first, same, other = (physics.generate(CHEAP, 5, seed) for seed in (1, 1, 2))
    assert np.array_equal(first.columns["px"], same.columns["px"])
    assert not np.array_equal(first.columns["px"], other.columns["px"])


def test_who_waits_for_a_signal_has_run_the_code_and_makes_the_same_events(
    events: physics.Events, monkeypatch: pytest.MonkeyPatch
):
    made, waited_after = [], []

    class Counted:
        def __init__(self, generator: Any) -> None:
            self._generator = generator

        def __getattr__(self, name: str) -> Any:
            return getattr(self._generator, name)

        def next(self) -> bool:
            made.append(self._generator.next())
            return made[-1]

    def rounds(count: int) -> Iterator[int]:
        waited_after.append(sum(made))
        return iter(range(count))

    ready = physics.pythia
    monkeypatch.setattr(physics, "pythia", lambda process, seed: Counted(ready(process, seed)))
    monkeypatch.setattr(begin, "rounds", rounds)
    same = physics.generate(CHEAP, 50, 7, on_signal=True)
    assert waited_after == [physics.FIRST]
    assert np.array_equal(same.columns["px"], events.columns["px"])
    physics.generate(CHEAP, 1, 7, on_signal=True)
    assert len(waited_after) == 2, "a job of one event waits as well"


def test_it_makes_as_many_as_it_can_in_so_long(events: physics.Events, tmp_path: Path):
    some = physics.generate(CHEAP, 1_000_000, 7, seconds=0.05)
    assert 1 <= len(some.counts) < 1_000_000
    both = min(len(some.columns["px"]), len(events.columns["px"]))
    assert np.array_equal(some.columns["px"][:both], events.columns["px"][:both]), "the same ones"
    rootfile.write(some, tmp_path / "events.root")
    rootfile.verify(tmp_path / "events.root", CHEAP, some)
    assert len(physics.generate(CHEAP, 5, 7, seconds=0).counts) == 1, "one at least"


def test_a_file_round_trip_keeps_every_value(events: physics.Events, tmp_path: Path):
    rootfile.write(events, tmp_path / "events.root")
    found = rootfile.verify(tmp_path / "events.root", CHEAP, events)
    assert found["particles"] == len(events.columns["pdg"]) == events.counts.sum()


def test_a_file_with_fewer_events_is_noticed(events: physics.Events, tmp_path: Path):
    last = events.counts[-1]
    short = dataclasses.replace(
        events, counts=events.counts[:-1], columns={name: column[:-last] for name, column in events.columns.items()}
    )
    rootfile.write(short, tmp_path / "events.root")
    with pytest.raises(WrongNumber, match="49 events"):
        rootfile.verify(tmp_path / "events.root", CHEAP, events)


def test_another_value_in_the_file_is_noticed(events: physics.Events, tmp_path: Path):
    columns = {name: column.copy() for name, column in events.columns.items()}
    columns["px"][5] *= 1.0001
    rootfile.write(dataclasses.replace(events, columns=columns), tmp_path / "events.root")
    with pytest.raises(WrongNumber, match="particle_px"):
        rootfile.verify(tmp_path / "events.root", CHEAP, events)


@pytest.mark.parametrize(
    ("column", "change", "reason"),
    [("energy", 1.0, "energy"), ("px", 1.0, "momentum"), ("charge", 1, "charge")],
)
def test_unphysical_events_are_noticed(events: physics.Events, column: str, change: float, reason: str):
    columns = {name: values.copy() for name, values in events.columns.items()}
    columns[column][0] += change
    with pytest.raises(WrongNumber, match=reason):
        rootfile.check_physics(events.counts, columns, CHEAP)


def test_events_of_another_process_are_noticed(events: physics.Events):
    expectation = dataclasses.replace(CHEAP.expectation, charged_mean=60.0)
    with pytest.raises(WrongNumber, match="charged particles"):
        rootfile.check_physics(events.counts, events.columns, dataclasses.replace(CHEAP, expectation=expectation))


def test_an_empty_event_is_noticed(events: physics.Events):
    counts = np.append(events.counts, 0)
    with pytest.raises(WrongNumber, match="event 50 is empty"):
        rootfile.check_physics(counts, events.columns, CHEAP)


def test_a_setting_that_pythia_does_not_know_is_refused():
    with pytest.raises(SetupError, match="NoSuchSetting"):
        physics.pythia(dataclasses.replace(CHEAP, settings=("NoSuchSetting:x = on",)), 1)


def test_a_generator_that_gives_up_on_everything_ends(monkeypatch: pytest.MonkeyPatch):
    class Broken:
        def next(self) -> bool:
            return False

    monkeypatch.setattr(physics, "pythia", lambda process, seed: Broken())
    with pytest.raises(WrongNumber, match="gave up on 12 of 12"):
        physics.generate(CHEAP, 10, 1)


def test_storage_that_changes_the_file_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def damaging_copy(source: str, target: str) -> None:
        if target.startswith("root:"):
            data = bytearray(Path(source).read_bytes())
            data[len(data) // 2] ^= 1
            (tmp_path / "stored").write_bytes(data)

    def query(*command: str) -> str:
        assert command[:2] == ("xrdfs", "node")
        return f"adler32 {storage.adler32(tmp_path / 'stored')}\n"

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(storage, "copy", damaging_copy)
    monkeypatch.setattr(storage, "run", query)
    with pytest.raises(WrongNumber, match="in storage"):
        job.run("z-hadrons", 5, 1, storage.Url.parse("root://node//data/f.root"), None)


def test_a_storage_failure_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def failing_copy(source: str, target: str) -> None:
        raise StorageError("no space")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(storage, "copy", failing_copy)
    with pytest.raises(StorageError):
        job.run("z-hadrons", 5, 1, storage.Url.parse("root://node//data/f.root"), None)
    assert list(tmp_path.iterdir()) == []


def test_the_longest_gap_is_measured(events: physics.Events):
    assert 0 < events.longest_gap_seconds < 10
    assert math.isfinite(events.init_seconds)

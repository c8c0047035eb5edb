# SPDX-License-Identifier: Apache-2.0
"""What `false-actions` plays, and what it makes of it."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from beerbench.bench import false_actions
from beerbench.errors import BenchmarkError
from beerbench.record import Record
from test_isolation import make


def test_only_storage_alone_is_healthy(tmp_path: Path) -> None:
    trace = false_actions.healthy(make(tmp_path))
    assert trace.shape == (5 * 1000, 3)
    latency = (trace[:, 1] - trace[:, 0]) / 1e9
    assert latency.min() > 0.0099
    assert latency.max() < 0.0201, "hybrid windows are slower"
    assert (trace[:, 0] > 0).all()
    assert set(trace[:, 2]) == {0}


def test_a_record_without_latencies_is_refused(tmp_path: Path) -> None:
    source = make(tmp_path)
    source.data["segments"] = [one for one in source.data["segments"] if one["measure"] != "latency"]
    with pytest.raises(BenchmarkError, match="no storage-only window"):
        false_actions.healthy(source)
    options = argparse.Namespace(of=tmp_path / "none", days=1, block=10)
    with pytest.raises(BenchmarkError, match="none"):
        false_actions.record(options, tmp_path / "out")


def made(freezes: int, frozen_share: float, awake: int, evictions: int = 0) -> Record:
    counts = {
        "evictions": evictions,
        "precautions": 40,
        "closings": 0,
        "tightened": 0,
        "squeezes": 0,
        "frozen_share": frozen_share,
        "days": 5.0,
    }
    of = [(case["share"], case.get("bursts", 0.0)) for case in false_actions.PLAYED]
    played = [{**counts, "share": share, "bursts_seconds": bursts, "freezes": freezes} for share, bursts in of]
    data = {"played": played, "awake": {"requests_in_trace": 30000, "seconds_in_trace": 360.0, "freezes": awake}}
    return Record("false-actions", {"days": 5.0, "block": 10.0}, {}, data)


def test_one_freeze_a_day_is_allowed_and_a_guard_that_sleeps_is_not() -> None:
    good = made(freezes=5, frozen_share=0.0004, awake=3)
    assert false_actions.study(good)["reached"]
    shown = false_actions.show(good, false_actions.study(good))
    assert "8.00" in shown
    assert "in bursts of 10 s" in shown
    for bad in (made(6, 0.0004, 3), made(5, 0.002, 3), made(5, 0.0004, 3, evictions=1)):
        assert "NOT reached" in false_actions.show(bad, false_actions.study(bad))
    asleep = made(0, 0.0, 0)
    assert not false_actions.study(asleep)["reached"]
    assert "asleep" in false_actions.show(asleep, false_actions.study(asleep))

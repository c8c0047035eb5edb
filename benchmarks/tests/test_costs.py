# SPDX-License-Identifier: Apache-2.0
"""Benchmarks whose measuring is another part's: what is made of their numbers."""

from __future__ import annotations

from pathlib import Path

from beerbench.bench import freeze_latency, guard_cost, plugin_cost
from beerbench.record import Record


def times(p99: float | None) -> dict[str, float | None]:
    return {"p50": 60.0, "p90": 80.0, "p99": p99, "max": p99}


def freeze_record(p99: float | None, missed: int = 0) -> Record:
    data = {
        "first_slow_request_to_freeze_write_ms": times(p99),
        "first_slow_request_to_frozen_ms": times(p99),
        "requests_until_freeze_write": times(30),
        "missed": missed,
        "trials": 100,
        "failed_actions": 0,
    }
    return Record("freeze-latency", {"factor": 3.0, "rate": 300.0}, {}, data)


def test_the_target_of_the_freeze_needs_every_step_found() -> None:
    assert freeze_latency.study(freeze_record(99.0))["reached"]
    assert not freeze_latency.study(freeze_record(101.0))["reached"]
    assert not freeze_latency.study(freeze_record(99.0, missed=1))["reached"]
    assert not freeze_latency.study(freeze_record(None, missed=100))["reached"]
    record = freeze_record(101.0)
    assert "NOT reached" in freeze_latency.show(record, freeze_latency.study(record))


def test_growth_of_the_guard_is_shown() -> None:
    runs = [{"cpu_percent": 0.4, "rss_bytes": 9_000_000}, {"cpu_percent": 0.45, "rss_bytes": 9_004_096}]
    record = Record("guard-cost", {"filesystems": 96, "rate": 300.0}, {}, {"runs": runs})
    results = guard_cost.study(record)
    assert results["reached"]
    assert results["growth_bytes"] == 4096
    assert "9.0 MB" in guard_cost.show(record, results)


def comparison(rate: list[float], median: float) -> dict[str, object]:
    return {"rate": rate, "ratio": {"median": median, "low": median - 0.01, "high": 1.0}, "cpu_ratio": {"median": 1.02}}


def test_the_plugin_is_judged_in_memory_and_on_a_throttled_disk(tmp_path: Path) -> None:
    case = {"unit": "B/s", "bare": comparison([99e6, 100e6], 0.99), "copying": comparison([99e6, 99e6], 1.0)}
    case["noise"] = comparison([100e6, 100e6], 1.0)
    small = {**case, "unit": "1/s"}
    throttled = {"with": [7.6, 7.5, 7.7], "without": [7.6, 7.6, 7.6]}
    data = {"memory": {"cases": {"read_pages": case, "read_4KiB_random": small}}, "throttled": throttled}
    record = Record("plugin-cost", {}, {}, data)
    record.save(tmp_path)
    results = plugin_cost.study(Record.load(tmp_path))
    assert [case["target"] for case in results["memory"]] == [0.98, 0.97]
    assert results["memory"][0]["own_work"] == 1.0
    assert results["throttled"]["ratio"] == 1.0
    shown = plugin_cost.show(record, results)
    assert "99 MB/s" in shown
    assert "throttled disk" in shown

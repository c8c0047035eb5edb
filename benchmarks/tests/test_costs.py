# SPDX-License-Identifier: Apache-2.0
"""Benchmarks whose measuring is another part's: what is made of their numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from beerbench import plot
from beerbench.bench import (
    bandwidth,
    freeze_latency,
    guard_cost,
    limit_delay,
    metadata_storm,
    plugin_cost,
    priorities,
)
from beerbench.record import Record
from matplotlib.figure import Figure


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
    shown = guard_cost.show(record, results)
    assert "9.0 MB" in shown
    assert "wake-ups" not in shown
    assert "control loop" not in shown
    wakeups = {"wakeups_per_second": 61.6, "cpu_percent_of_empty_wakeups": 0.301, "loop_p99_seconds": 0.00031}
    record = Record("guard-cost", record.parameters, {}, {"runs": [run | wakeups for run in runs]})
    shown = guard_cost.show(record, guard_cost.study(record))
    assert "as many empty wake-ups (62/s)" in shown
    assert "0.30 %" in shown
    assert "0.31 ms" in shown


def test_the_cost_of_each_size_is_the_median_of_its_rounds() -> None:
    def sizes(round_: float) -> list[dict[str, Any]]:
        of_disks = [{"filesystems": disks, "jobs": 0} for disks in guard_cost.DISKS]
        of_jobs = [{"filesystems": 1, "jobs": jobs} for jobs in guard_cost.JOBS[1:]]
        cost = {"cpu_percent": 0.1 * round_, "rss_bytes": 1e6 * round_}
        return [{**size, **cost} for size in of_disks + of_jobs]

    runs = [{"cpu_percent": 0.4, "rss_bytes": 9_000_000}] * 2
    data = {"runs": runs, "sizes": [*sizes(1), *sizes(9), *sizes(2)]}
    record = Record("guard-cost", {"filesystems": 96, "jobs": 64, "cgroups": 2000, "rate": 300.0}, {}, data)
    results = guard_cost.study(record)
    assert results["cpu_by_size"]["jobs"] == [0.2] * 4
    assert results["rss_by_size"]["disks"] == [2e6] * 4
    shown = guard_cost.show(record, results)
    assert "96 filesystems, 64 jobs, 2000 cgroups" in shown
    assert "memory, MB" in shown
    assert isinstance(guard_cost.draw(results), Figure)


def comparison(rate: list[float], median: float) -> dict[str, object]:
    return {"rate": rate, "ratio": {"median": median, "low": median - 0.01, "high": 1.0}, "cpu_ratio": {"median": 1.02}}


def test_the_plugin_is_judged_in_memory_and_on_a_throttled_disk(tmp_path: Path) -> None:
    case = {"unit": "B/s", "bare": comparison([99e6, 100e6], 0.99), "copying": comparison([99e6, 99e6], 1.0)}
    case["noise"] = comparison([100e6, 100e6], 1.0)
    small = {**case, "unit": "1/s"}
    throttled = {"with": [7.6, 7.5, 7.7], "without": [7.6, 7.6, 7.6]}
    slow = {**small, "bare": comparison([94.0, 100.0], 0.94)}
    cases = {"read_pages": case, "write_pages_many": case, "read_4KiB_random": small}
    cases |= {"open": slow, "open_many_files": small, "stat": small}
    data = {"memory": {"cases": cases}, "throttled": throttled}
    record = Record("plugin-cost", {}, {}, data)
    record.save(tmp_path)
    results = plugin_cost.study(Record.load(tmp_path))
    assert [case["target"] for case in results["memory"]] == [0.98, 0.98, 0.97, 0.95, 0.95, 0.95]
    assert results["memory"][0]["own_work"] == 1.0
    assert results["throttled"]["ratio"] == 1.0
    shown = plugin_cost.show(record, results)
    assert "99 MB/s" in shown
    assert "throttled disk" in shown
    missed = [line.split()[0] for line in shown.splitlines() if "NOT reached" in line]
    assert missed == ["open"]


def test_who_gets_the_disk_is_shown_beside_the_talk() -> None:
    cells = [
        {"scheduler": scheduler, "cell": cell.name, "first": first, "others": 2.0}
        for scheduler, firsts in (("bfq", (6.0, 2.0, 8.0)), ("none", (1.0, 1.0, 1.0)))
        for first in firsts
        for cell in priorities.CELLS
    ]
    record = Record("priorities", {}, {}, {"cells": cells})
    results = priorities.study(record)
    last = results["rows"][11]
    assert last["cell"] == "rt:0 against 10 x be:0"
    assert (last["bfq"]["share"], last["none"]["share"]) == (0.75, 1 / 3), "the median of the rounds"
    assert abs(last["talk"] - 131 / 181) < 1e-9
    shown = priorities.show(record, results)
    assert "goal 68 %: bfq: reached, none: NOT reached" in shown


def test_every_priority_of_the_table_has_its_application() -> None:
    lines = priorities.policy_lines().splitlines()
    for cell in priorities.CELLS:
        for stream in priorities.streams_of(cell, [f"/data/01/file-{n}" for n in range(10)]):
            assert any(line.startswith(f"beer.policy app:{stream.app} rw ") for line in lines)


def test_copies_count_for_the_policy_under_which_they_end() -> None:
    names = [*bandwidth.DEFAULTS["throttled"].split(","), "readahead"]
    windows = [{"policy": name, "rules": "", "start": 100.0 * n, "end": 100.0 * n + 50} for n, name in enumerate(names)]

    def copy(start: float, seconds: float, error: str = "") -> dict[str, Any]:
        return {"client": 0, "copy": 0, "start": start, "seconds": seconds, "error": error}

    copies = [copy(100.0 * n + t / 2, 4.0) for n in range(6) for t in range(100)]
    copies += [copy(600.0 + t / 2, 0.5) for t in range(100)]
    copies += [copy(200.0, 0.01, "lost"), copy(199.0, 3.0)]
    data = {"copies": copies, "windows": windows, "copy_bytes": 1_000_000}
    parameters = {"disks": "seeks", "static": False, "slower": 16, "depth": 1, "block_kib": 256}
    record = Record("bandwidth", parameters, {}, data)
    results = bandwidth.study(record)
    rows = {row["policy"]: row for row in results["rows"]}
    assert [rows[name]["copies"] for name in names] == [100, 100, 101, 100, 100, 100, 100]
    assert rows["50"]["p99"] == 4.0
    assert rows["150"]["mean"] == float("inf"), "a failed copy is no fast one"
    assert abs(rows["50"]["mb_s"] - 92 / 50) < 1e-9
    assert abs(rows["150"]["mb_s"] - 93 / 50) < 1e-9, "one of another policy, which is there all the same"
    assert rows["readahead"]["p99_ratio"] == 0.125
    assert [name for name in names if rows[name]["goal"]] == ["readahead"]
    shown = bandwidth.show(record, results)
    assert "reached with readahead" in shown
    assert "errors: lost" in shown


def test_a_policy_is_the_talks_part_of_a_fair_share() -> None:
    assert bandwidth.rules_of("unlimited", "throttled", 1e6, 4) == "beer.policy space:* r iotype direct\n"
    assert bandwidth.rules_of("unlimited", "seeks", 1e6, 4) == ""
    assert bandwidth.rules_of("100", "seeks", 2.14e6, 4) == "beer.policy space:* r bandwidth 1000000B/s\n"
    assert bandwidth.rules_of("readahead", "seeks", 1e6, 4) == "beer.policy space:* r readahead 4MiB\n"
    assert bandwidth.rules_of("one-reader", "seeks", 1e6, 4) == "beer.overload * readers 1\n"


def pictures() -> dict[str, Figure]:
    cell = {"first": 1.0, "others": 3.0, "share": 0.25}
    rows = [
        {"policy": "200", "talk_ratios": (0.24, 0.93), "p99_ratio": 0.9, "mb_s_ratio": 1.0},
        {"policy": "readahead", "talk_ratios": None, "p99_ratio": 0.1, "mb_s_ratio": 4.0},
    ]
    cells = [{"cell": one.name, "talk": 0.5, "bfq": cell} for one in priorities.CELLS]
    return {
        "bandwidth": bandwidth.draw({"rows": rows}),
        "priorities": priorities.draw({"rows": cells, "schedulers": ["bfq"]}),
        "one cell": priorities.draw({"rows": cells[:1], "schedulers": ["bfq"]}),
        "metadata-storm": metadata_storm.draw({"rows": [{"case": "alone", "p50": 0.001, "p99": 0.01}]}),
        "limit-delay": limit_delay.draw({name: {"p50": 0.02, "p99": 0.05, "max": 0.1} for name in limit_delay.ROWS}),
        "plugin-cost": plugin_cost.draw({"memory": [{"name": "stat", "ratio": 0.97, "target": 0.95}]}),
    }


def test_every_picture_is_drawn_and_the_same_again(tmp_path: Path) -> None:
    first, second = tmp_path / "first.svg", tmp_path / "second.svg"
    for (name, figure), again in zip(pictures().items(), pictures().values(), strict=True):
        plot.save(figure, first)
        plot.save(again, second)
        assert first.read_bytes() == second.read_bytes()
        assert (b"the talk" in first.read_bytes()) == (name in ("bandwidth", "priorities", "one cell"))


def test_a_storm_is_shown_with_what_its_limits_did() -> None:
    def one(latency: float, rate: float, stalled: int) -> dict[str, object]:
        return {"latencies_ms": [1.0] * 49 + [latency], "storm_per_second": rate, "stalled": stalled}

    policies = {"alone": [], "no limit": [], "rate limit": ["beer.metarate user:batch Stat 50/s"]}
    cases = {
        "alone": [one(2.0, 0, 0)] * 2,
        "no limit": [one(40.0, 7000, 0), one(60.0, 8000, 0)],
        "rate limit": [one(3.0, 49, 30), one(2.0, 51, 32)],
    }
    data = {"processes": 4, "requests_at_once": 32, "policies": policies, "cases": cases}
    record = Record("metadata-storm", {}, {}, data)
    results = metadata_storm.study(record)
    assert [row["p99"] for row in results["rows"]] == [0.002, 0.04, 0.002], "over all rounds: 99 of 100 are not above"
    assert [row["spread"] for row in results["rows"]] == [1.0, 1.5, 1.5]
    shown = metadata_storm.show(record, results)
    assert "rate limit: beer.metarate user:batch Stat 50/s" in shown
    limited = shown.splitlines()[-1].split()
    assert limited[-3:] == ["50.0/s", "31", "times"]


def test_limits_are_timed_in_both_directions() -> None:
    data = {"trials": 4, "streams": 4, "held_ms": [18.0, 19.0, 20.0, 40.0], "lifted_ms": [1.0, 2.0, 3.0, 4.0]}
    record = Record("limit-delay", {}, {}, data)
    results = limit_delay.study(record)
    assert (results["held_ms"]["p50"], results["lifted_ms"]["max"]) == (0.019, 0.004)
    assert "at the next open" in limit_delay.show(record, results)

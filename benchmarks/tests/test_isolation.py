# SPDX-License-Identifier: Apache-2.0
"""What `isolation` computes from a record with known numbers."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from beerbench.bench import isolation
from beerbench.client.samples import OK, Header, Writer
from beerbench.record import Record

T0 = 1_800_000_000.0
SECONDS = 10.0
SLOWER, BUSY = 1.02, 1.3  # in hybrid windows beyond those with a busy CPU, and in those
JOBS = "beer.slice/beer-jobs.slice"
INNOCENT, DEVICE = f"{JOBS}/docker-1.scope", "252:16"
FACTOR = {isolation.ALONE: 1.0, isolation.INNOCENT: BUSY, isolation.HYBRID: BUSY * SLOWER}
# After the decision.
FROZEN = [(0.1, True), (0.9, False)]


def make(folder: Path, pairs: int = 5) -> Record:
    chance = random.Random(3)  # noqa: S311 (no secret)
    header = Header("open-loop", 0, int(T0 * 1e9), 100, 65536, 1, ["/a"], [0])
    writer = Writer(folder / "requests.samples", header)
    segments = []
    kinds = isolation.order(pairs)
    for number, kind in enumerate(kinds):
        start = 20.0 * number
        for request in range(1000):
            due = start + request * SECONDS / 1000
            latency = chance.uniform(0.010, 0.020) * FACTOR[kind]
            writer.add(int(due * 1e9), int(due * 1e9), int((due + latency) * 1e9), 65536, 0, OK)
        segments.append({"measure": "latency", "kind": kind, "pair": number // 3}
                        | {"start": T0 + start, "end": T0 + start + SECONDS})  # fmt: skip
    for number, kind in enumerate(kinds):
        start = T0 + 1000 + 20 * number
        speed = 5.0 if kind == isolation.ALONE else 4.9
        segments.append({"measure": "throughput", "kind": kind, "pair": number // 3, "start": start}
                        | {"end": start + SECONDS, "mb_s": speed, "requests_per_s": 80})  # fmt: skip
    writer.close()
    lines = []
    for second in range(1400):
        used = {JOBS: second * 900_000, INNOCENT: second * 400_000}
        slices = {name: {"cpu_usec": usec, "io": {}, "io_pressure": {}} for name, usec in used.items()}
        cpus = [[0] * 8, [0, 0, 0, second * 10, 0, 0, 0, 0]]
        line = {"kind": "sample", "time": T0 + second, "cpus": cpus, "slices": slices, "state": "open"}
        lines.append(json.dumps(line))
    operations = {DEVICE: 7}
    lines += [json.dumps({"kind": "frozen", "time": T0 + 45 + after, "frozen": value}) for after, value in FROZEN]
    for after in (0.0, 0.3, 0.9):
        # The last of them come after the thaw.
        operations = {DEVICE: operations[DEVICE] + 1}
        lines.append(json.dumps({"kind": "io", "time": T0 + 45.1 + after, "operations": operations}))
    (folder / "node.jsonl").write_text("\n".join(lines))
    freeze = {"time_ns": int((T0 + 45) * 1e9), "from": "open", "to": "frozen", "cause": "weak", "action": "freeze"}
    freeze |= {"outcome": "done", "duration_ns": 1, "precaution": True}
    thaw = {**freeze, "time_ns": int((T0 + 46) * 1e9), "from": "frozen", "to": "open", "action": "thaw"}
    (folder / "journal.jsonl").write_text(json.dumps(freeze) + "\n" + json.dumps(thaw) + "\n")
    data = {"segments": segments, "clock": {"offset": 0.0, "error": 0.01, "drift": 0.0}}
    data |= {"innocent": INNOCENT, "device": DEVICE}
    data["files"] = {name: f"{name}.jsonl" for name in ("node", "journal")} | {"requests": "requests.samples"}
    record = Record("isolation", {"pairs": pairs}, {"node": {"allowed_cpus": "1"}}, data)
    record.save(folder)
    return record


def test_windows_go_back_and_forth() -> None:
    a, b, c = isolation.KINDS
    assert isolation.order(3) == [a, b, c, c, b, a, a, b, c]


def test_ratios_scores_and_idle_cpu(tmp_path: Path) -> None:
    make(tmp_path)
    results = isolation.study(Record.load(tmp_path))
    p99 = results["p99"]
    assert p99["of_cpu"]["median"] == pytest.approx(BUSY, abs=0.01)
    assert p99["to_innocent"]["median"] == pytest.approx(SLOWER, abs=0.01)
    assert p99["to_alone"]["median"] == pytest.approx(BUSY * SLOWER, abs=0.01)
    assert p99["to_alone"]["upper"] >= p99["to_alone"]["median"]
    assert len(p99["to_alone"]["ratios"]) == 5
    assert results["throughput"]["to_alone"]["median"] == pytest.approx(0.98)
    assert results["isol_p01"] > 95
    assert results["idle_cpu_used"] == pytest.approx(0.9, abs=0.01)
    assert results["idle_cpu_innocent"] == pytest.approx(0.8, abs=0.01)
    assert results["last_io_p99"] == pytest.approx(0.4, abs=0.001)
    assert results["freezes_hybrid"] == 1
    assert 1.0 <= results["noise_p99"] < 1.02
    # The one precaution lies in a hybrid window.
    assert (results["false_actions"], results["precautions_peaceful"]) == (0, 0)
    assert results["frozen_share_hybrid"] == pytest.approx(1 / 100, rel=0.1)


def test_a_precaution_that_became_a_real_freeze_is_a_false_action_too(tmp_path: Path) -> None:
    make(tmp_path)
    journal = tmp_path / "journal.jsonl"
    freeze = json.loads(journal.read_text().splitlines()[0]) | {"time_ns": int((T0 + 1) * 1e9)}
    extend = freeze | {"time_ns": int((T0 + 1.1) * 1e9), "from": "frozen", "action": "extend", "precaution": False}
    journal.write_text(f"{json.dumps(freeze)}\n{json.dumps(extend)}\n")
    results = isolation.study(Record.load(tmp_path))
    assert (results["false_actions"], results["precautions_peaceful"]) == (1, 1)


def test_the_last_request_is_not_looked_for_after_a_precaution_that_was_over_before_it_took_effect(
    tmp_path: Path,
) -> None:
    make(tmp_path)
    journal = tmp_path / "journal.jsonl"
    freeze, thaw = (json.loads(line) for line in journal.read_text().splitlines())
    short = [freeze | {"time_ns": int((T0 + 42) * 1e9)}, thaw | {"time_ns": int((T0 + 42.4) * 1e9)}]
    journal.write_text("".join(json.dumps(line) + "\n" for line in (*short, freeze, thaw)))
    results = isolation.study(Record.load(tmp_path))
    assert results["freezes_hybrid"] == 1
    assert results["last_io_p99"] == pytest.approx(0.4, abs=0.001)


def test_the_text_puts_targets_beside_results(tmp_path: Path) -> None:
    make(tmp_path)
    record = Record.load(tmp_path)
    shown = isolation.show(record, isolation.study(record))
    assert "<= 1.04" in shown
    assert "throughput" in shown
    assert "lab noise" in shown
    assert "hybrid/innocent" in shown

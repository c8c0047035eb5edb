# SPDX-License-Identifier: Apache-2.0
"""A demo run that never happened: known numbers, to test what is computed and drawn."""

from __future__ import annotations

import json
import random
from pathlib import Path

from beerbench.client.samples import OK, Header, Writer
from beerbench.record import Record

T0 = 1_800_000_000.0
OFFSET = 0.25  # node's clock minus host's
DEVICE = "252:16"
PHASES = {"alone": [5.0, 29.0], "guarded": [45.0, 77.0], "after": [77.0, 85.0], "unguarded": [93.0, 117.0]}
# With the guard, and without it.
ATTACKS = ((48.0, 69.0), (96.0, 117.0))
FROZEN = (48.3, 70.0)
RATE = 84.0


def attacked(time: float) -> bool:
    frozen = FROZEN[0] <= time < FROZEN[1]
    return not frozen and any(start <= time < end for start, end in ATTACKS)


def make(folder: Path, *, frozen: bool = True) -> Record:
    """Requests take 8 to 20 ms, and 300 ms while jobs attack; the guard freezes 0.3 s after the first attack."""
    chance = random.Random(1)  # noqa: S311 (no secret)
    folder.mkdir(parents=True, exist_ok=True)
    header = Header("open-loop", 0, int(T0 * 1e9), RATE, 65536, 1, ["/data/01/a"], [0])
    writer = Writer(folder / "requests.samples", header)
    due = 0.0
    while due < 126:
        due += chance.expovariate(RATE)
        slow = attacked(due) if frozen else any(start <= due < end for start, end in ATTACKS)
        latency = chance.uniform(0.2, 0.4) if slow else chance.uniform(0.008, 0.02)
        ns = int(due * 1e9)
        writer.add(ns, ns, ns + int(latency * 1e9), 65536, 0, OK)
    writer.close()
    (folder / "node.jsonl").write_text("\n".join(_node_lines(frozen)) + "\n")
    (folder / "journal.jsonl").write_text("\n".join(_journal_lines()) + "\n" if frozen else "")
    (folder / "jobs.log").write_text("")
    data = {
        "phases": {name: [T0 + start, T0 + end] for name, (start, end) in PHASES.items()},
        "marks": [{"time": T0 + 88, "what": "guard_gone"}, {"time": T0 + 119, "what": "guard_back"}],
        "disk": "/data/01",
        "device": DEVICE,
        "rate": RATE,
        "iops": 120,
        "speed": 1 / 18,
        "client": {},
        "transfers": [
            {"path": "/f", "size": 4 << 20, "start": T0 + s, "end": T0 + s + 1.5, "ok": True, "message": ""}
            for s in (7, 12, 46, 55)
        ]
        + [{"path": "/f", "size": 4 << 20, "start": T0 + 98, "end": T0 + 115, "ok": True, "message": ""}],
        "neighbours": [(T0 + t, 200.0 * t, 4.0 * t) for t in range(-2, 130)],
        "physics": {"cluster": 1, "report": {"events": 500}, "through": True},
        "attacks": {"guarded": T0 + ATTACKS[0][0] + OFFSET, "unguarded": T0 + ATTACKS[1][0] + OFFSET},
        "why": "12:00:00 open -> frozen: freeze (strong_evidence)",
        "files": {"node": "node.jsonl", "journal": "journal.jsonl", "jobs": "jobs.log"}
        | {"requests": "requests.samples"},
        "clock": {"offset": OFFSET, "error": 0.02, "drift": 0.0},
    }
    host = {"cpus": 2, "commit": "0" * 7, "lab": {"accelerator": "tcg"}, "node": {"name": "x", "allowed_cpus": "1"}}
    plan = {"load": 0.7, "hog_threads": 24, "lead": 3, "attack": 21, "copy_rate": 512 << 10}
    record = Record("demo", plan, host, data)
    record.save(folder)
    return record


def _node_lines(frozen: bool) -> list[str]:
    lines: list[str] = []
    storage = jobs = 0
    idle = [0.0, 0.0]
    cpu = 0.0
    for second in range(127):
        time = T0 + second
        hit = attacked(second) if frozen else any(start <= second < end for start, end in ATTACKS)
        storage += 40 if hit else 84
        jobs += 80 if hit else 0
        stopped = frozen and FROZEN[0] <= second < FROZEN[1]
        busy = 0.95 if second >= 40 and not stopped else 0.0
        cpu += busy
        idle = [idle[0] + 50, idle[1] + 100 * (1 - busy)]
        slices = {
            "storage.slice": {"cpu_usec": second * 200_000, "io": _io(storage), "io_pressure": {}},
            "beer.slice/beer-jobs.slice": {"cpu_usec": int(cpu * 1e6), "io": _io(jobs), "io_pressure": {}},
        }
        cpus = [[0, 0, 0, int(value), 0, 0, 0, 0] for value in idle]
        line = {"kind": "sample", "time": time + OFFSET, "cpus": cpus, "slices": slices, "state": "open"}
        lines.append(json.dumps(line))
        if frozen and second == int(FROZEN[0]):
            at = T0 + FROZEN[0] + OFFSET
            lines.append(json.dumps({"kind": "frozen", "time": at, "frozen": 1}))
            for delay, count in ((0.01, jobs), (0.06, jobs + 4), (0.2, jobs + 4)):
                lines.append(json.dumps({"kind": "io", "time": at + delay, "operations": {DEVICE: count}}))
        if frozen and second == int(FROZEN[1]):
            lines.append(json.dumps({"kind": "frozen", "time": T0 + FROZEN[1] + OFFSET, "frozen": 0}))
    return lines


def _io(operations: int) -> dict[str, dict[str, int]]:
    return {DEVICE: {"rbytes": operations * 65536, "wbytes": 0, "rios": operations, "wios": 0}}


def _journal_lines() -> list[str]:
    evidence = {"objective": "read", "series": "storage read on /data/01", "value": 18.2, "limit": 12.0, "unit": "nats"}
    rows = [
        (FROZEN[0] - 0.02, "open", "frozen", "freeze", "strong_evidence", 20_000_000, evidence),
        (FROZEN[1], "frozen", "closed", "thaw", "calm", 8_000_000, None),
        (FROZEN[1] + 6, "closed", "open", "open", "calm", 0, None),
    ]
    lines = []
    for time, before, after, action, cause, duration, proof in rows:
        line = {"time_ns": int((T0 + time + OFFSET) * 1e9), "monotonic_ns": 1, "from": before, "to": after}
        line |= {"cause": cause, "action": action, "outcome": "done", "duration_ns": duration}
        lines.append(json.dumps(line | ({"evidence": proof} if proof else {})))
    return lines

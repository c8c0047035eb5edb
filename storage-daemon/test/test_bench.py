# SPDX-License-Identifier: Apache-2.0
"""Do the benchmarks measure what they say? The server counts what it was asked for."""

import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

import bench
import bench_meta
import pytest
from server import Server

SMALL = 8 << 20


@pytest.fixture
def measured(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(bench, "LARGE_BYTES", SMALL)
    monkeypatch.setattr(bench, "OPENS", 30)
    server.write_config(bench.OPEN_HOUSE)
    bench.make_shared(server.folder, bytes(SMALL))
    bench.furnish(server, server.folder)
    server.start()
    return server


@pytest.mark.parametrize("name", bench.CASES)
def test_a_case_does_the_work_that_it_counts(measured: Server, name: str) -> None:
    case, unit, _ = bench.CASES[name]
    opened, read = measured.count("open.storage"), measured.count("read.storage", "bytes")
    written, asked = measured.count("write.storage", "bytes"), measured.count("meta.storage")
    units = case(measured)
    if name.startswith("write"):
        assert measured.count("write.storage", "bytes") - written == units == SMALL
    elif unit == "B/s":
        assert measured.count("read.storage", "bytes") - read == units == SMALL
    elif name == "stat":
        assert measured.count("meta.storage") - asked == units
    elif name.startswith("open"):
        assert measured.count("open.storage") - opened == units == 30
    else:
        assert measured.count("read.storage", "operations") >= units
    if unit == "B/s":
        logins = set(re.findall(r" XrootdXeq: (s\d+)\.\S+ pvt IP\S* login", measured.log()))
        assert len(logins) == (bench.STREAMS if name.endswith("many") else 1), "a connection for each stream"


def test_a_ratio_comes_with_its_interval() -> None:
    assert bench.interval([0.9, 1.0, 1.1, 1.0, 1.0]) == {"median": 1.0, "low": 0.9, "high": 1.1}


def test_a_storm_of_metadata_is_one_and_its_limit_holds() -> None:
    policies = {"no": "", "rate": bench_meta.RATE_LIMIT, "threads": bench_meta.THREAD_LIMIT}
    found = {name: bench_meta.one(1, policy, 2) for name, policy in policies.items()}
    assert all(len(one["latencies_ms"]) == 2 * bench_meta.RATE for one in found.values())
    assert found["rate"]["storm_per_second"] < 17, "5/s are judged over 5 s: in 2 s 25, and 8 that were under way"
    assert found["no"]["storm_per_second"] > 2 * found["rate"]["storm_per_second"]
    assert found["rate"]["stalled"] > 0 < found["threads"]["stalled"]
    assert found["no"]["stalled"] == 0


def test_how_soon_a_limit_works_is_found_out_for_every_trial() -> None:
    words = [sys.executable, Path(bench.__file__).with_name("bench_control.py"), "--trials", "2", "--streams", "1"]
    found = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
    assert len(found["held_ms"]) == len(found["lifted_ms"]) == 2
    assert statistics.median(found["held_ms"]) < 1000, "bytes came for long after the limit"
    assert all(0 < one < 20_000 for one in found["lifted_ms"])

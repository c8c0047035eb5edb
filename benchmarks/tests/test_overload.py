# SPDX-License-Identifier: Apache-2.0
"""What is made of the times of many readers, and what their node is."""

from __future__ import annotations

from typing import Any

import pytest
from beerbench import shaping
from beerbench.bench import overload
from beerbench.record import Record
from beerlab import NodeSpec
from fakes import FakeNode

PARAMETERS = {"mib": 1, "block_kib": 1024, "slower": 24, "stagger": 0.5, "stall": 2, "scheduler": "mq-deadline"}


def cell(clients: int, limit: int, ends: list[float], opening: float = 0.0, told: int = 0) -> dict[str, Any]:
    copies = [{"copy": 0, "start": 100.0, "seconds": end, "opening": opening, "error": ""} for end in ends]
    work = {"bytes": 1 << 20, "requests": 8 * clients, "disk_bytes": clients << 20}
    return {"clients": clients, "limit": limit, "copies": copies, "told_to_wait": told, **work}


def test_throughput_is_of_all_and_a_files_time_includes_its_wait() -> None:
    cells = [
        cell(2, 1, [2.0, 4.194304], opening=1.5, told=3),
        cell(2, 0, [10.48576, 10.48576]),
        cell(1, 0, [1.048576]),
    ]
    record = Record("overload", PARAMETERS, {}, {"cells": cells})
    results = overload.study(record)
    [_, bad, good] = results["rows"]
    assert (bad["limit"], good["limit"]) == (0, 1), "without a limit comes first, in whatever turn it was measured"
    assert bad["mb_s"] == pytest.approx(0.2)
    assert good["mb_s"] == pytest.approx(0.5)
    assert (good["p50"], good["reading_p50"]) == (2.0, 0.5)
    assert good["request_kib"] == 128
    shown = [line.split() for line in overload.show(record, results).splitlines()[-2:]]
    assert shown[0][:6] == ["2", "no", "limit", "0.20", "20", "%"]
    assert shown[1][:6] == ["2", "limit", "1", "0.50", "50", "%"]
    assert shown[1][-2:] == ["3", "#" * 12]


def test_only_the_disk_that_is_measured_has_a_head_and_its_times_are_those_of_the_hdd() -> None:
    spec = shaping.with_heads(10, [overload.LABEL])
    heads = {disk.label: disk.head for disk in spec.disks}
    assert [label for label, head in heads.items() if head] == ["beer-data1"]
    assert (heads["beer-data1"].seek_ms, heads["beer-data1"].bytes_per_second) == (80, 19_000_000)
    assert spec.without_heads() == NodeSpec()


class Measured:
    """As much of a session as reads counters."""

    def __init__(self, node: FakeNode) -> None:
        self.node = node

    def device(self, _: str) -> str:
        return "252:16"


def test_counters_are_read_from_kernel_and_server() -> None:
    stats = '<stats id="xrootd"><err>9</err><rdr>0</rdr><dly>7</dly></stats>'
    session: Any = Measured(FakeNode([("252:16/stat", "  11 2 4096 7 0 0 0 0 0 8 9\n"), ("query stats", stats)]))
    assert overload._disk_reads(session) == (11, 4096)
    assert overload._told_to_wait(session) == 7
    session.node = FakeNode([("query stats", "nothing")])
    with pytest.raises(overload.BenchmarkError, match="no <dly>: nothing"):
        overload._told_to_wait(session)

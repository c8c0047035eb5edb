# SPDX-License-Identifier: Apache-2.0
"""Planned drop-ins, their explanation and the offer to HTCondor, per example host, byte by byte.

After a wanted change: `make golden`, then read the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from beerslices import inventory, plan, quantity, render
from beerslices.config import Config

HERE = Path(__file__).parent
HOSTS = sorted((HERE / "hosts").glob("*.json"))


def planned_text(host: Path) -> str:
    made = plan.make(inventory.from_json(host.read_text(), host.name), Config())
    batch = quantity.share_or_bytes(made.value("beer.slice", "MemoryMax").replace("M", "MiB"), 0)
    offer = plan.offer(Config(), len(made.allowed_cpus), batch)
    parts = [f"## {name}\n{text}" for name, text in render.dropins(made).items()]
    return "\n".join([*parts, f"## explained\n{render.explanation(made)}", f"## capacity\n{render.capacity(offer)}"])


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.stem)
def test_plan_of_example_host(host: Path) -> None:
    golden = HERE / "golden" / f"{host.stem}.txt"
    if os.environ.get("GOLDEN_WRITE"):
        golden.write_text(planned_text(host))
    assert planned_text(host) == golden.read_text()


def test_every_golden_file_has_its_host() -> None:
    assert {path.stem for path in (HERE / "golden").iterdir()} == {host.stem for host in HOSTS}
    assert len(HOSTS) >= 3

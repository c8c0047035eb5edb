# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A root directory with /sys and /proc of a two-core machine with hyper-threads and 8 GiB."""
    base = tmp_path / "sys/devices/system/cpu"
    for cpu, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
        topology = base / f"cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "core_cpus_list").write_text(f"{siblings}\n")
        (topology / "physical_package_id").write_text("0\n")
    (base / "online").write_text("0-3\n")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:        8388608 kB\nMemFree: 1 kB\n")
    return tmp_path

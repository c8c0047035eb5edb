# SPDX-License-Identifier: Apache-2.0
"""Builds and runs the guard's own benchmark programs (guard/crates/guardd/examples)."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .inroot import run_json

# In the chroot /run is fresh memory, where the guard has its files on a node, too.
SCRIPT = """\
cd guard
cargo build --quiet --release -p guardd --bins --example freeze_latency
exec env TMPDIR=/run ./with-cgroups.sh "$CARGO_TARGET_DIR"/release/examples/freeze_latency {arguments}
"""
REPLAY = """\
cd guard
cargo build --quiet --release -p guardd --example replay < /dev/null
exec "$CARGO_TARGET_DIR"/release/examples/replay {arguments}
"""
# A day took 40 s on two cores (benchmarks/runs/2026-11-26-2-core).
DAY_SECONDS = 600


def run(arguments: Sequence[str], timeout: float) -> dict[str, Any]:
    """The JSON that it prints."""
    measured: dict[str, Any] = run_json(
        "the guard's benchmark", ["sh", "-ec", SCRIPT.format(arguments=shlex.join(arguments))], timeout
    )
    return measured


def replay(trace: Path, days: float, **settings: float) -> dict[str, Any]:
    """What the guard does in so many days of a recorded trace, `start end filesystem` by line."""
    arguments = [word for name, value in ({"days": days} | settings).items() for word in (f"--{name}", str(value))]
    command = ["sh", "-ec", REPLAY.format(arguments=shlex.join(arguments))]
    played: dict[str, Any] = run_json("the guard's replay", command, 900 + DAY_SECONDS * days, stdin=trace)
    return played

# SPDX-License-Identifier: Apache-2.0
"""Builds and runs the guard's own benchmark program (guard/crates/guardd/examples/freeze_latency.rs)."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from .inroot import run_json

# In the chroot /run is fresh memory, where the guard has its files on a node, too.
SCRIPT = """\
cd guard
cargo build --quiet --release -p guardd --bins --example freeze_latency
exec env TMPDIR=/run ./with-cgroups.sh "$CARGO_TARGET_DIR"/release/examples/freeze_latency {arguments}
"""


def run(arguments: Sequence[str], timeout: float) -> dict[str, Any]:
    """The JSON that it prints."""
    measured: dict[str, Any] = run_json(
        "the guard's benchmark", ["sh", "-ec", SCRIPT.format(arguments=shlex.join(arguments))], timeout
    )
    return measured

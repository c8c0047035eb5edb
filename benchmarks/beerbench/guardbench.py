# SPDX-License-Identifier: Apache-2.0
"""Builds and runs the guard's own benchmark program (guard/crates/guardd/examples/freeze_latency.rs)."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from .inroot import run_json

# The chroot has no /sys of its own; /run is fresh memory in it, where the guard has its files on a node, too. The mount
# goes when the command ends.
SCRIPT = """\
mkdir -p /run/cgroup
mount -t cgroup2 none /run/cgroup || {{ echo "no cgroup2 can be mounted: run as root" >&2; exit 1; }}
export BEER_TEST_CGROUP=/run/cgroup
cd guard
cargo build --quiet --release -p guardd --bins --example freeze_latency
exec env TMPDIR=/run "$CARGO_TARGET_DIR"/release/examples/freeze_latency {arguments}
"""


def run(arguments: Sequence[str], timeout: float) -> dict[str, Any]:
    """The JSON that it prints."""
    measured: dict[str, Any] = run_json(
        "the guard's benchmark", ["sh", "-ec", SCRIPT.format(arguments=shlex.join(arguments))], timeout
    )
    return measured

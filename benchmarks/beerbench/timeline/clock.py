# SPDX-License-Identifier: Apache-2.0
"""The node's clock against the host's: that of a node restored from a snapshot stays behind."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ..lab import Node


@dataclass(frozen=True)
class Clock:
    """node = host + offset, known to within `error` seconds either way."""

    offset: float
    error: float


def measure(node: Node, rounds: int = 7) -> Clock:
    """Asks the node for its time a few times and keeps the quickest answer; the truth is within half its round trip."""
    best: Clock | None = None
    for _ in range(rounds):
        before = time.time()
        # bash prints EPOCHREALTIME without starting a program, which takes 20 ms in an emulated node
        answer = node.execute("echo $EPOCHREALTIME").stdout
        after = time.time()
        found = Clock(float(answer.replace(",", ".")) - (before + after) / 2, (after - before) / 2)
        if best is None or found.error < best.error:
            best = found
    assert best is not None
    return best

# SPDX-License-Identifier: Apache-2.0
"""Waiting with a deadline, never by bare sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    probe: Callable[[], T],
    timeout: float,
    what: str,
    *,
    interval: float = 0.3,
    explain: Callable[[], str] | None = None,
) -> T:
    """Calls `probe` until it returns something true, and returns that. An exception of the probe ends the wait."""
    deadline = time.monotonic() + timeout
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:g} s: {what}\n{explain() if explain else ''}")
        time.sleep(interval)

# SPDX-License-Identifier: Apache-2.0
"""When the work begins: at once, or each time a signal comes, so that whoever watches knows the moment."""

from __future__ import annotations

import signal
from collections.abc import Iterator

SIGNAL = signal.SIGUSR1


def hold() -> None:
    """From here on the signal waits for `rounds`. To be called before there are threads, which inherit it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {SIGNAL})


def rounds(on_signal: int) -> Iterator[int]:
    """Once, at once, if `on_signal` is 0; else so many times, each when the signal has come."""
    for number in range(max(1, on_signal)):
        if on_signal:
            signal.sigwait({SIGNAL})
        yield number

# SPDX-License-Identifier: Apache-2.0
"""Progress of long steps on stderr: a line at the start, one every 15 s, one at the end with the seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERY_SECONDS = 15.0


def say(text: str) -> None:
    print(f"lab: {text}", file=sys.stderr, flush=True)


@contextmanager
def step(what: str, detail: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Says what goes on for as long as the block runs; `detail` is asked for one more word on it."""
    started = time.monotonic()
    done = threading.Event()

    def beat() -> None:
        while not done.wait(EVERY_SECONDS):
            more = detail()
            say(f"{what}: {time.monotonic() - started:.0f} s{': ' + more if more else ''}")

    say(f"{what} ...")
    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    outcome = "failed after"
    try:
        yield
        outcome = "done in"
    finally:
        done.set()
        thread.join()
        say(f"{what}: {outcome} {time.monotonic() - started:.1f} s")

# SPDX-License-Identifier: Apache-2.0
"""The fork bomb: every process makes more of its kind as fast as it can, and uses CPU in between.

It is told when to stop, unlike a real one: all of them end at the same moment.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from typing import Any

from beer_payload import begin
from beer_payload.report import Stopwatch

REFUSED_PAUSE = 0.01  # seconds; what a refused fork is tried again after


def bomb(end: float, log: int) -> None:
    """Forks until `end`; each process says so with one byte in the pipe, where there is room."""
    while time.monotonic() < end:
        try:
            if os.fork() == 0:
                with contextlib.suppress(BlockingIOError):
                    os.write(log, b".")
        except OSError:
            time.sleep(REFUSED_PAUSE)


def count(log: int) -> int:
    with contextlib.suppress(BlockingIOError):
        return len(os.read(log, 1 << 20))
    return 0


def run(seconds: float, on_signal: int = 0, processes: int | None = None) -> dict[str, Any]:
    """As often as signals come. `processes` that were made, as far as there was room to count them.

    From so many `processes` of this user on the kernel refuses more (RLIMIT_NPROC, setrlimit(2)), for a job that is to
    keep within its memory; not those of root.
    """
    watch, made = Stopwatch(), 0
    for _ in begin.rounds(on_signal):
        read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        end = time.monotonic() + seconds
        first = os.fork()
        if first == 0:
            # Who comes later ends with it: nobody waits for so many.
            os.setpgid(0, 0)
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            if processes is not None:
                resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
            bomb(end, write)
            os._exit(0)
        while time.monotonic() < end:
            made += count(read)
            time.sleep(0.05)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(first, signal.SIGKILL)
        os.waitpid(first, 0)
        made += count(read)
        os.close(read)
        os.close(write)
    return {"processes": made, **watch.times()}

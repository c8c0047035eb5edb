# SPDX-License-Identifier: Apache-2.0
"""The memory hog: takes memory as fast as the kernel gives it, and writes to all of it again and again.

What it asks for may be more than it is allowed: then the kernel ends it, and storage should not notice that either.
Where there is swap, one process waits for one page at a time and does a disk little harm: several share the work.
"""

from __future__ import annotations

import mmap
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

from beer_payload import begin
from beer_payload.report import SetupError, Stopwatch

STEP = 8 << 20
PAGE = mmap.PAGESIZE


def touch(block: mmap.mmap, number: int) -> None:
    """Other bytes in every page: pages that are alike could be merged, zero pages need no memory."""
    for offset in range(0, len(block), PAGE):
        block[offset] = (number + offset // PAGE) & 0xFF


def hold(size: int, end: float) -> tuple[int, int]:
    """Holds up to `size` bytes until `end` (monotonic); the bytes held, and the blocks written anew."""
    blocks: list[mmap.mmap] = []
    rewritten = 0
    while time.monotonic() < end:
        if len(blocks) * STEP < size:
            try:
                blocks.append(mmap.mmap(-1, STEP))
            except OSError as error:
                raise SetupError(f"no more memory after {len(blocks) * STEP} bytes: {error}") from error
            touch(blocks[-1], len(blocks))
        else:
            touch(blocks[rewritten % len(blocks)], rewritten)
            rewritten += 1
    for block in blocks:
        block.close()
    return len(blocks) * STEP, rewritten


def check_sizes(size: int, processes: int) -> None:
    if processes > 1 and size < processes * STEP:
        raise ValueError(f"--size is smaller than {STEP >> 20}MiB for each of --processes")


def hold_together(size: int, end: float, processes: int) -> tuple[int, int]:
    """The same, by so many processes with about an equal part each, in whole blocks."""
    blocks = -(-size // STEP)
    parts = [(blocks + number) // processes * STEP for number in range(processes)]
    try:
        with ProcessPoolExecutor(processes, get_context("fork")) as pool:
            held = list(pool.map(hold, parts, [end] * processes))
    except BrokenProcessPool as error:
        raise SetupError("the kernel has ended one of its processes: this much memory is not allowed") from error
    return sum(most for most, _ in held), sum(rewritten for _, rewritten in held)


def run(size: int, seconds: float, on_signal: int = 0, processes: int = 1) -> dict[str, Any]:
    """Holds up to `size` bytes for so long, as often as signals come; the most held, and the blocks written anew."""
    watch, rewritten, most = Stopwatch(), 0, 0
    for _ in begin.rounds(on_signal):
        end = time.monotonic() + seconds
        held, again = hold(size, end) if processes == 1 else hold_together(size, end, processes)
        most, rewritten = max(most, held), rewritten + again
    return {"bytes": most, "rewritten": rewritten, **watch.times()}

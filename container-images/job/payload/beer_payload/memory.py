# SPDX-License-Identifier: Apache-2.0
"""The memory hog: takes memory as fast as the kernel gives it, and writes to all of it again and again.

What it asks for may be more than it is allowed: then the kernel ends it, and storage should not notice that either.
"""

from __future__ import annotations

import mmap
import time
from typing import Any

from beer_payload import begin
from beer_payload.report import SetupError, Stopwatch

STEP = 8 << 20
PAGE = mmap.PAGESIZE


def touch(block: mmap.mmap, number: int) -> None:
    """Other bytes in every page: pages that are alike could be merged, zero pages need no memory."""
    for offset in range(0, len(block), PAGE):
        block[offset] = (number + offset // PAGE) & 0xFF


def run(size: int, seconds: float, on_signal: int = 0) -> dict[str, Any]:
    """Holds up to `size` bytes for so long, as often as signals come; the most held, and the blocks written anew."""
    watch, rewritten, most = Stopwatch(), 0, 0
    for _ in begin.rounds(on_signal):
        end = time.monotonic() + seconds
        blocks: list[mmap.mmap] = []
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
        most = max(most, len(blocks) * STEP)
        for block in blocks:
            block.close()
    return {"bytes": most, "rewritten": rewritten, **watch.times()}

# SPDX-License-Identifier: Apache-2.0
"""The disk hog: random reads and writes on the job's own scratch.

Direct I/O, because the page cache would hide the job from the disk; or writes through the page cache that are flushed
again and again: the kernel carries them out later, and the filesystem's journal has work as well. Many threads, because
one request at a time is polite. Memory for direct I/O must be aligned: anonymous mmap gives whole pages.
"""

from __future__ import annotations

import mmap
import os
import random
from pathlib import Path
from typing import Any

from beer_payload import load
from beer_payload.report import SetupError, Stopwatch

ALIGNMENT = 4096
FILL_BLOCK = 1 << 20
# Through the page cache: as many writes between two flushes of a thread.
FLUSH_EVERY = 8


def check_sizes(block: int, size: int) -> None:
    if block < ALIGNMENT or block % ALIGNMENT:
        raise ValueError(f"--block must be a multiple of {ALIGNMENT} bytes")
    if size < block:
        raise ValueError("--size is smaller than --block")


def open_file(folder: Path, cached: bool) -> int:
    """A file without a name: it is gone when the job is, however the job ends."""
    path = folder / f"beer-payload-{os.getpid()}"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | (0 if cached else os.O_DIRECT), 0o600)
        path.unlink()
    except OSError as error:
        raise SetupError(f"no {'' if cached else 'direct '}I/O on {folder}: {error}") from error
    return descriptor


def fill(descriptor: int, size: int) -> None:
    """Writes the whole file: reads of extents that were never written do not reach the disk."""
    with mmap.mmap(-1, FILL_BLOCK) as block:
        block.write(os.urandom(FILL_BLOCK))
        for offset in range(0, size, FILL_BLOCK):
            try:
                os.pwritev(descriptor, [memoryview(block)[: min(FILL_BLOCK, size - offset)]], offset)
            except OSError as error:
                raise SetupError(f"cannot write {size} bytes of scratch: {error}") from error


def operation(descriptor: int, block: int, size: int, write_share: float, chance: random.Random) -> load.Operation:
    buffer = mmap.mmap(-1, block)
    places = size // block

    def once() -> int:
        offset = chance.randrange(places) * block
        if chance.random() < write_share:
            return os.pwritev(descriptor, [buffer], offset)
        return os.preadv(descriptor, [buffer], offset)

    return once


def flushed(write: load.Operation, descriptor: int) -> load.Operation:
    writes = 0

    def once() -> int:
        nonlocal writes
        done = write()
        writes += 1
        if writes % FLUSH_EVERY == 0:
            os.fsync(descriptor)
        return done

    return once


def run(
    path: Path,
    threads: int,
    seconds: float,
    block: int,
    size: int,
    write_share: float,
    on_signal: int = 0,
    cached: bool = False,
) -> dict[str, Any]:
    watch = Stopwatch()
    size -= size % block
    descriptor = open_file(path, cached)
    try:
        fill(descriptor, size)
        os.fsync(descriptor)
        fill_seconds = watch.wall()
        operations = [
            operation(descriptor, block, size, write_share, random.Random(number))  # noqa: S311 - offsets, no secrets
            for number in range(threads)
        ]
        if cached:
            operations = [flushed(one, descriptor) for one in operations]
        found = load.hammer(operations, seconds, OSError, on_signal)
    finally:
        os.close(descriptor)
    if not found["operations"]:
        raise SetupError(f"not one operation succeeded on {path}: {found['last_error']}")
    return {"threads": threads, "block": block, "fill_seconds": round(fill_seconds, 3), **found, **watch.times()}

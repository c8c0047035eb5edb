# SPDX-License-Identifier: Apache-2.0
"""The hog of small files: makes, writes and removes them on the job's own scratch, in many folders.

Hardly any data: what a filesystem looks up for it are its own tables, and what it writes is its only journal.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

from beer_payload import load
from beer_payload.report import SetupError, Stopwatch

FOLDERS = 50  # per thread
FLUSH_EVERY, REMOVE_EVERY = 4, 3
BLOCK = 4096
SPARSE = 1 << 34  # a place in it is somewhere else on the disk, and has to be looked for


def operation(folder: Path, chance: random.Random) -> load.Operation:
    count = 0

    def once() -> int:
        nonlocal count
        count += 1
        own = folder / str(count % FOLDERS)
        own.mkdir(parents=True, exist_ok=True)
        path = own / "file"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            done = os.pwrite(descriptor, bytes(BLOCK), chance.randrange(SPARSE // BLOCK) * BLOCK)
            if count % FLUSH_EVERY == 0:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if count % REMOVE_EVERY == 0:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
        return done

    return once


def run(path: Path, threads: int, seconds: float, on_signal: int = 0) -> dict[str, Any]:
    watch = Stopwatch()
    try:
        folder = Path(tempfile.mkdtemp(prefix="hog-files-", dir=path))
    except OSError as error:
        raise SetupError(f"no folder on {path}: {error}") from error
    try:
        operations = [
            operation(folder / str(number), random.Random(number))  # noqa: S311 - places in a file, no secrets
            for number in range(threads)
        ]
        found = load.hammer(operations, seconds, OSError, on_signal)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not found["operations"]:
        raise SetupError(f"not one operation succeeded on {path}: {found['last_error']}")
    return {"threads": threads, **found, **watch.times()}

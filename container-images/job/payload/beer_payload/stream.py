# SPDX-License-Identifier: Apache-2.0
"""The storage hog: many clients that read random blocks through XRootD, so that the disk time is charged to storage.

Small random reads and not long copies: they cost a disk the most for the least CPU, and CPU is what the lab lacks.
Still less with vector reads, as analysis jobs do them (ROOT's TTreeCache): one request, many places on the disk.
"""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path
from typing import Any

from beer_payload import load, storage
from beer_payload.report import SetupError, Stopwatch, StorageError

REQUEST_TIMEOUT = 120  # seconds; longer than a freeze


def connect(url: storage.Url, number: int) -> tuple[Any, int]:
    """An open file and its size, on a connection of its own.

    XrdCl sends all requests for one user name and server through one connection, and the server works through a
    connection one request at a time: only streams with names of their own are really parallel.
    """
    try:
        from XRootD import client
        from XRootD.client.flags import OpenFlags
    except ImportError as error:
        raise SetupError(f"no XRootD client for Python here: {error}") from error
    server = url.server if "@" in url.server else f"s{number}@{url.server}"
    file = client.File()
    status, _ = file.open(f"root://{server}/{url.path}", OpenFlags.READ, timeout=REQUEST_TIMEOUT)
    if not status.ok:
        raise StorageError(f"{url}: {status.message.strip()}")
    status, info = file.stat(timeout=REQUEST_TIMEOUT)
    if not status.ok:
        raise StorageError(f"{url}: {status.message.strip()}")
    return file, info.size


def operation(file: Any, block: int, pieces: int, size: int, chance: random.Random) -> load.Operation:
    """One request for `pieces` blocks of `block` bytes at random places of a file of `size` bytes."""
    places = max(1, size // block)

    def once() -> int:
        wanted = [(chance.randrange(places) * block, block) for _ in range(pieces)]
        if pieces == 1:
            status, data = file.read(*wanted[0], timeout=REQUEST_TIMEOUT)
        else:
            status, data = file.vector_read(wanted, timeout=REQUEST_TIMEOUT)
        if not status.ok:
            raise StorageError(status.message.strip())
        return len(data) if pieces == 1 else data.size

    return once


def run(
    urls: list[storage.Url],
    streams: int,
    seconds: float,
    block: int,
    pieces: int,
    keytab: Path | None,
    on_signal: int = 0,
) -> dict[str, Any]:
    watch = Stopwatch()
    for name, value in storage.CLIENT_DEFAULTS.items():
        os.environ.setdefault(name, value)
    with tempfile.TemporaryDirectory(prefix="beer-") as folder:
        storage.use_keytab(keytab, Path(folder) / "keytab")
        files = [connect(urls[number % len(urls)], number) for number in range(streams)]
        operations = [
            operation(file, block, pieces, size, random.Random(number))  # noqa: S311 - offsets, no secrets
            for number, (file, size) in enumerate(files)
        ]
        found = load.hammer(operations, seconds, StorageError, on_signal)
    if not found["operations"]:
        raise StorageError(f"not one read succeeded: {found['last_error']}")
    shape = {"streams": streams, "block": block, "pieces": pieces, "urls": [str(url) for url in urls]}
    return {**shape, **found, **watch.times()}

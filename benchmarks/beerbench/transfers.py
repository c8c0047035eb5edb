# SPDX-License-Identifier: Apache-2.0
"""Whole files copied by the real `xrdcp`, one after the other, each compared with a checksum known beforehand."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .clients import Clients

# One request of 64 KiB at a time: a user far away, not a flood. (xrdcp's own default is four of 8 MiB at once, which
# would be a measurement of this disk's queue.)
SETTINGS = {"XRD_CPCHUNKSIZE": "65536", "XRD_CPPARALLELCHUNKS": "1"}
PAUSE = 4.0
# In the client root, where /tmp is memory.
TARGET = "/tmp/copy"  # noqa: S108


@dataclass(frozen=True)
class File:
    path: str
    size: int
    adler32: str


@dataclass(frozen=True)
class Transfer:
    path: str
    size: int
    start: float
    end: float
    ok: bool
    message: str = ""


class Transfers:
    """Copies the files in turn, at `rate` bytes/s at most, until `finish`; a copy that still runs then is cut off, and
    counts as not done."""

    def __init__(self, clients: Clients, files: Sequence[File], rate: int) -> None:
        self._clients = clients
        self._files = files
        self._rate = rate
        self.done: list[Transfer] = []
        self._stop = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self) -> list[dict[str, Any]]:
        self._stop.set()
        if self._process is not None:
            self._process.kill()
        self._thread.join(30)
        return [asdict(transfer) for transfer in self.done]

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            self.done.append(self._copy(self._files[number % len(self._files)]))
            number += 1
            self._stop.wait(PAUSE)

    def _copy(self, file: File) -> Transfer:
        url = f"root://copy@{self._clients.storage.endpoint}/{file.path}"
        argv = ["env", *(f"{name}={value}" for name, value in SETTINGS.items())]
        argv += ["xrdcp", "--nopbar", "--force", "--xrate", str(self._rate)]
        argv += ["--cksum", f"adler32:{file.adler32}", url, TARGET]
        started = time.time()
        self._process = subprocess.Popen(
            self._clients.command(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        _, said = self._process.communicate()
        code = self._process.returncode
        message = "" if code == 0 else "cut off at the end of the run" if self._stop.is_set() else said.strip()[-300:]
        return Transfer(file.path, file.size, started, time.time(), code == 0, message)

# SPDX-License-Identifier: Apache-2.0
"""What is known of a node between processes: out/lab/run/<name>/state.json. A dead pid or a reused one is noticed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .errors import LabError
from .paths import out
from .process import remove_tree

STOP_SECONDS = 10.0


@dataclass
class State:
    """One node; pid 0 means not running.

    `place` is its folder; the node's name is its host name, which a template has in common with the nodes made of it.
    `owner` is the process that created the node: while that lives, nobody else takes the place.
    """

    place: str
    name: str
    number: int
    spec: dict[str, Any]
    image: str
    accelerator: str
    ports: dict[int, int]
    sockets: str
    site_network: str
    pid: int = 0
    started: int = 0
    detached: bool = False
    owner: int = 0
    owner_started: int = 0

    @property
    def folder(self) -> Path:
        return run_folder() / self.place

    def save(self) -> None:
        path = self.folder / "state.json"
        part = path.with_suffix(".part")
        part.write_text(json.dumps(asdict(self), indent=1) + "\n")
        part.rename(path)

    def running(self) -> bool:
        return self.pid != 0 and started_at(self.pid) == self.started

    def claim(self) -> None:
        self.owner, self.owner_started = os.getpid(), started_at(os.getpid())

    def owned_by_another(self) -> bool:
        return self.owner not in (0, os.getpid()) and started_at(self.owner) == self.owner_started

    def kill(self) -> None:
        """Ends QEMU; its disks are overlays that nobody needs whole afterwards."""
        if self.running():
            os.kill(self.pid, signal.SIGKILL)
            deadline = time.monotonic() + STOP_SECONDS
            while self.running() and time.monotonic() < deadline:
                time.sleep(0.02)
            _reap(self.pid)
            if self.running():
                raise LabError(f"{self.name}: QEMU (pid {self.pid}) does not end")
        self.pid = 0

    def discard(self) -> None:
        """Removes everything of the node but its logs."""
        self.kill()
        shutil.rmtree(self.sockets, ignore_errors=True)
        remove_tree(self.folder)


def run_folder() -> Path:
    return out() / "run"


def load(place: str) -> State | None:
    """The state of a node of this checkout, running or not."""
    path = run_folder() / place / "state.json"
    try:
        raw = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except json.JSONDecodeError as error:
        raise LabError(f"{path}: not JSON: {error}") from error
    try:
        raw["ports"] = {int(guest): host for guest, host in raw["ports"].items()}
        return State(**raw)
    except (KeyError, TypeError) as error:
        raise LabError(f"{path}: written by another version of the lab ({error}): remove {path.parent}") from error


def all_states() -> list[State]:
    folders = sorted(run_folder().glob("*/state.json"))
    return [state for path in folders if (state := load(path.parent.name))]


def started_at(pid: int) -> int:
    """Start time of a process in clock ticks since boot; 0 for none or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])


def _reap(pid: int) -> None:
    """Takes note of the end of a child, so that it is no zombie; QEMU may also be another process's child."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)

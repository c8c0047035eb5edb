# SPDX-License-Identifier: Apache-2.0
"""The storage user outside the node: real XRootD clients on the host, in the lab's client root."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from beerbench.client.samples import OK, RECORD
from beerlab import Machine, client_root

from support.waiting import wait_until

BENCHMARKS = Path(__file__).resolve().parent.parent.parent / "benchmarks"
WORK = "/mnt/work"
CLIENT = "/mnt/client"

# The promise of guard.toml as shipped; test_path.py compares the two.
OBJECTIVE_SECONDS = 0.1
DISKS = ("/data/01", "/data/02")


@dataclass(frozen=True)
class Samples:
    """Requests by the time they were due (Unix seconds) and how long after that they were answered."""

    due: np.ndarray
    latency: np.ndarray
    ok: np.ndarray

    @classmethod
    def read(cls, path: Path) -> Samples:
        raw = path.read_bytes()
        head, _, body = raw.partition(b"\n")
        body = body[: len(body) - len(body) % RECORD.size]
        offset = json.loads(head)["epoch_offset_ns"]
        rows = np.array([record[:6] for record in RECORD.iter_unpack(body)], dtype=np.int64).reshape(-1, 6)
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        return cls((rows[:, 0] + offset) / 1e9, (rows[:, 2] - rows[:, 0]) / 1e9, rows[:, 5] == OK)

    def between(self, start: float, end: float) -> Samples:
        chosen = (self.due >= start) & (self.due < end)
        return Samples(self.due[chosen], self.latency[chosen], self.ok[chosen])

    def percentile(self, share: float) -> float:
        """Of the latency, in seconds; a request without an answer counts with its age."""
        assert len(self.latency) >= 100, f"{len(self.latency)} requests are too few to judge"
        return float(np.percentile(self.latency, share))

    def first_over(self, seconds: float, after: float) -> float:
        """When the first request after a moment took longer than that: the onset that storage saw."""
        over = self.due[(self.due >= after) & (self.latency > seconds)]
        assert len(over), f"no request after {after} took longer than {seconds} s: the attack does not hurt"
        return float(over[0])


class Storage:
    """One user with the key `storage`; background load until `stop`."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.machine = machine
        self.folder = folder
        self.endpoint = f"127.0.0.1:{machine.port(1094)}"
        self.root = client_root()
        keytab = folder / "storage.keytab"
        machine.copy_from("/etc/beer/keys/storage.keytab", keytab)
        keytab.chmod(0o600)
        self._environment = {"XrdSecSSSKT": f"{WORK}/storage.keytab", "PYTHONPATH": CLIENT, "PYTHONUNBUFFERED": "1"}
        self._load: subprocess.Popen[bytes] | None = None

    def _run(self, *command: str, timeout: float = 240) -> str:
        binds = {self.folder: WORK}
        return self.root.run(command, binds=binds, env=self._environment, timeout=timeout).stdout

    def xrdfs(self, *arguments: str) -> str:
        return self._run("xrdfs", f"root://{self.endpoint}", *arguments)

    def fetch(self, path: str, name: str) -> Path:
        """Copies a file out of storage with xrdcp."""
        self._run("xrdcp", "-s", "-f", f"root://{self.endpoint}/{path}", f"{WORK}/{name}")
        return self.folder / name

    def start(self, *, rate: float, duration: float, disks: tuple[str, ...] = DISKS, name: str = "load") -> None:
        """Starts random reads (16 KiB) at a fixed rate over the disks; returns when all connections are open."""
        assert self._load is None, "a load is running already"
        ready = self.folder / f"{name}.ready"
        files = [
            argument
            for disk in disks
            for argument in ("--disk", f"{disk}/store/load/file-00,{disk}/store/load/file-01")
        ]
        command = self.root.command(
            [
                *("python3", "-m", "beerbench.client.open_loop", "--endpoint", self.endpoint, *files),
                *("--rate", str(rate), "--duration", str(duration), "--connections", "16"),
                *("--out", f"{WORK}/{name}.samples", "--ready-file", f"{WORK}/{name}.ready"),
                *("--stop-file", f"{WORK}/{name}.stop"),
            ],
            binds={self.folder: WORK, BENCHMARKS: CLIENT},
            env=self._environment,
        )
        with (self.folder / f"{name}.log").open("wb") as log:
            self._load = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._name = name

        def opened() -> bool:
            assert self._load is not None
            assert self._load.poll() is None, (self.folder / f"{name}.log").read_text()[-2000:]
            return ready.exists()

        wait_until(opened, 180, "the storage client has its connections open")

    def samples(self) -> Samples:
        """Ends the load, if it still runs, and returns what the client saw."""
        self.stop()
        return Samples.read(self.folder / f"{self._name}.samples")

    def stop(self) -> None:
        if self._load is None:
            return
        (self.folder / f"{self._name}.stop").touch()
        try:
            self._load.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._load.kill()
            self._load.wait()
        self._load = None

    @staticmethod
    def now() -> float:
        return time.time()

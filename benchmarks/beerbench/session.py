# SPDX-License-Identifier: Apache-2.0
"""A node under measurement: its storage as clients outside reach it, its batch system, its guard, its counters."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from . import host
from .batch import Batch
from .clients import Clients, Load, Storage
from .errors import BenchmarkError
from .guard import JOBS, Guard
from .lab import ClientRoot, Node
from .timeline import clock

SAMPLER = Path(__file__).resolve().parent / "node" / "sampler.py"
ON_NODE = "/run/beer-bench"
UNIT = "beer-bench-sampler"
# Files beside a record, by the names that `Record.file` knows.
FILES = {"node": "node.jsonl", "journal": "journal.jsonl", "jobs": "jobs.log", "requests": "requests.samples"}


class Session:
    """`disks` are mount points of the node, in the order in which clients number them."""

    def __init__(self, node: Node, root: ClientRoot, out: Path, disks: list[str]) -> None:
        self.node = node
        self.out = out.resolve()
        self.disks = disks
        self.out.mkdir(parents=True, exist_ok=True)
        for name in FILES.values():
            (self.out / name).unlink(missing_ok=True)
        storage = Storage.of(node, [self._load_files(disk) for disk in disks], self.out)
        self.clients = Clients(root, storage, self.out / "clients")
        self.batch = Batch(node)
        self.guard = Guard(node)
        self._clocks = [clock.measure(node)]

    def close(self) -> None:
        """The key must not stay in a folder that people show around."""
        (self.out / "storage.keytab").unlink(missing_ok=True)

    def facts(self) -> dict[str, Any]:
        return {**host.host_facts(), "lab": host.lab_facts(), "node": host.node_facts(self.node)}

    def device(self, disk: str) -> str:
        """major:minor of a mount point, as in io.stat."""
        return self.node.execute(f"findmnt -nr -o MAJ:MIN -M {disk}").stdout.strip()

    def use_scheduler(self, disk: str, scheduler: str) -> None:
        queue = f"/sys/dev/block/{self.device(disk)}/queue/scheduler"
        self.node.execute(f"modprobe -a bfq mq-deadline 2>/dev/null; echo {scheduler} > {queue}")
        if f"[{scheduler}]" not in self.node.execute(f"cat {queue}").stdout:
            raise BenchmarkError(f"{queue}: {scheduler} is not in use")

    def capacity(self, seconds: float, connections: int = 16) -> dict[str, Any]:
        """A saturating run: requests per second and MB/s over all disks of the session.

        Without the guard, which would take the queue of this run for a storage service in trouble, and remember it.
        """
        self.drop_caches()
        self.guard.take_away()
        try:
            load = Load(duration=seconds, connections=connections, seed=99)
            found = self.clients.measure("saturate", "capacity", load)
        finally:
            self.guard.bring_back()
        if not found["requests_per_s"]:
            raise BenchmarkError("the saturating run read nothing")
        return found

    def start_sampler(self, seconds: float, watched: str = JOBS, also: Sequence[str] = ()) -> None:
        """The node's counters, once a second, from a service of its own outside the slices that are measured, of those
        slices and of the cgroups in `also`; and when the cgroup `watched` stands still."""
        more = "".join(f" --also {cgroup}" for cgroup in also)
        self.node.execute(f"mkdir -p {ON_NODE}")
        self.node.copy_to(SAMPLER, f"{ON_NODE}/sampler.py")
        self.node.execute(
            f"systemctl stop {UNIT} 2>/dev/null; rm -f {ON_NODE}/node.jsonl; "
            f"systemd-run -q --collect --unit={UNIT} python3 {ON_NODE}/sampler.py "
            f"--out {ON_NODE}/node.jsonl --seconds {seconds:g} --watched {watched}{more}",
            timeout=120,
        )
        self.node.execute(
            f"for i in $(seq 200); do [ -s {ON_NODE}/node.jsonl ] && exit 0; sleep 0.1; done; "
            f"journalctl -u {UNIT} >&2; exit 1",
            timeout=120,
        )

    def collect(self) -> dict[str, Any]:
        """Ends the sampler and brings the node's side of the run here; what `Record.data` needs to find it."""
        self.node.execute(f"systemctl stop {UNIT}", check=False, timeout=120)
        self.node.copy_from(f"{ON_NODE}/node.jsonl", self.out / FILES["node"])
        (self.out / FILES["journal"]).write_text(self.guard.journal())
        (self.out / FILES["jobs"]).write_text(self.batch.log())
        self._clocks.append(clock.measure(self.node))
        best = min(self._clocks, key=lambda one: one.error)
        drift = self._clocks[-1].offset - self._clocks[0].offset
        return {"files": dict(FILES), "clock": {**asdict(best), "drift": drift}}

    def keep_samples(self, name: str) -> None:
        """Moves the samples of a client to where the record expects them."""
        (self.clients.out / f"{name}.samples").replace(self.out / FILES["requests"])

    def drop_caches(self) -> None:
        self.node.execute("sync; echo 3 > /proc/sys/vm/drop_caches", timeout=120)

    def forget(self, paths: list[str]) -> None:
        """Drops these files from the node's page cache, and nothing else: who reads them next reads the disk."""
        names = " ".join(shlex.quote(path) for path in paths)
        self.node.execute(f'for file in {names}; do dd if="$file" iflag=nocache count=0 status=none || exit; done')

    def _load_files(self, disk: str) -> list[str]:
        found = self.node.execute(f"ls -d {disk}/store/load/*").stdout.split()
        if not found:
            raise BenchmarkError(f"no files to read in {disk}/store/load")
        return found

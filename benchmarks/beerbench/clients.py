# SPDX-License-Identifier: Apache-2.0
"""Starts storage clients outside the node and reads what they say while they run."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .client.arguments import REQUEST_BYTES, STRIDE_BYTES
from .errors import BenchmarkError
from .lab import ClientRoot, Node

CODE = Path(__file__).resolve().parent / "client"
# Where things are inside the client root; /srv is empty there.
CODE_IN_ROOT = "/srv/beerbench/client"
OUT_IN_ROOT = "/srv/beerbench/out"
KEY_IN_ROOT = "/srv/beerbench/storage.keytab"
KEYTAB = "/etc/beer/keys/storage.keytab"


class ClientError(BenchmarkError):
    """A client that ended badly, with the end of what it said."""


@dataclass(frozen=True)
class Storage:
    """How to reach the storage of a node, and which files to read: one list of paths per disk."""

    endpoint: str
    disks: list[list[str]]
    keytab: Path | None = None

    @classmethod
    def of(cls, node: Node, disks: list[list[str]], folder: Path) -> Storage:
        """The storage of a node of the lab; its key comes into the folder."""
        keytab = folder / "storage.keytab"
        node.copy_from(KEYTAB, keytab)
        keytab.chmod(0o600)
        return cls(f"127.0.0.1:{node.port(1094)}", disks, keytab)


@dataclass
class Load:
    """Arguments of the clients, see client/arguments.py."""

    duration: float
    connections: int = 12
    size: int = REQUEST_BYTES
    stride: int = STRIDE_BYTES
    seed: int = 1
    rate: float | None = None
    even: bool = False
    sequential: bool = False
    extra: list[str] = field(default_factory=list)

    def arguments(self) -> list[str]:
        words = ["--duration", str(self.duration), "--connections", str(self.connections), "--size", str(self.size)]
        words += ["--stride", str(self.stride), "--seed", str(self.seed), *self.extra]
        if self.rate is not None:
            words += ["--rate", str(self.rate)]
        if self.even:
            words.append("--even")
        if self.sequential:
            words.append("--sequential")
        return words


@dataclass(frozen=True)
class Stream:
    """One of client/streams.py."""

    app: str
    direction: str  # r or w
    path: str


class Clients:
    """Clients of one storage, in one root; samples go to `out`."""

    def __init__(self, root: ClientRoot, storage: Storage, out: Path) -> None:
        self._root = root
        self.storage = storage
        self.out = out
        out.mkdir(parents=True, exist_ok=True)

    def start(self, kind: str, name: str, load: Load, on_line: Callable[[dict[str, Any]], None] | None = None) -> Run:
        """Starts `open_loop` or `saturate`; samples go to out/<name>.samples."""
        argv = ["python3", "-m", f"client.{kind}", "--endpoint", self.storage.endpoint, *load.arguments()]
        for paths in self.storage.disks:
            argv += ["--disk", ",".join(paths)]
        for ending in ("stop", "samples"):
            (self.out / f"{name}.{ending}").unlink(missing_ok=True)
        argv += ["--out", f"{OUT_IN_ROOT}/{name}.samples", "--stop-file", f"{OUT_IN_ROOT}/{name}.stop"]
        return Run(self.command(argv), self.out, name, on_line)

    def streams(self, name: str, streams: Sequence[Stream], seconds: float) -> Run:
        """Starts streams that compete; their rates are in the last line, in this order."""
        argv = ["python3", "-m", "client.streams", "--endpoint", self.storage.endpoint, "--duration", str(seconds)]
        for stream in streams:
            argv += ["--stream", f"{stream.app}:{stream.direction}:{stream.path}"]
        return Run(self.command(argv), self.out, name, None)

    def copies(
        self,
        name: str,
        clients: int,
        size: int,
        weights: Sequence[float],
        seconds: float,
        on_copy: Callable[[dict[str, Any]], None],
        depth: int = 4,
        block: int = 256 << 10,
    ) -> Run:
        """Starts clients that copy `size` bytes again and again, from disks chosen with these weights."""
        argv = ["python3", "-m", "client.copies", "--endpoint", self.storage.endpoint, "--clients", str(clients)]
        argv += ["--bytes", str(size), "--duration", str(seconds), "--stop-file", f"{OUT_IN_ROOT}/{name}.stop"]
        argv += ["--depth", str(depth), "--block", str(block)]
        for paths, weight in zip(self.storage.disks, weights, strict=True):
            argv += ["--disk", ",".join(paths), "--weight", str(weight)]
        (self.out / f"{name}.stop").unlink(missing_ok=True)
        return Run(self.command(argv), self.out, name, on_copy)

    def copies_once(
        self,
        name: str,
        clients: int,
        size: int,
        block: int,
        on_copy: Callable[[dict[str, Any]], None],
        stagger: float = 0,
    ) -> Run:
        """Starts clients, `stagger` seconds apart, that copy `size` bytes once, each of another place.

        It ends with the last of them.
        """
        argv = ["python3", "-m", "client.copies", "--endpoint", self.storage.endpoint, "--clients", str(clients)]
        argv += ["--bytes", str(size), "--block", str(block), "--once", "--stagger", str(stagger)]
        argv += ["--stop-file", f"{OUT_IN_ROOT}/{name}.stop"]
        for paths in self.storage.disks:
            argv += ["--disk", ",".join(paths)]
        (self.out / f"{name}.stop").unlink(missing_ok=True)
        return Run(self.command(argv), self.out, name, on_copy)

    def measure(self, kind: str, name: str, load: Load) -> dict[str, Any]:
        """Runs a client to its end; its last line."""
        return self.start(kind, name, load).wait(load.duration + 300)

    def command(self, argv: Sequence[str]) -> list[str]:
        """A host command line that runs argv in the client root with the key of the storage."""
        binds: dict[Path | str, str] = {CODE: CODE_IN_ROOT, self.out: OUT_IN_ROOT}
        env = {"PYTHONPATH": str(Path(CODE_IN_ROOT).parent), "PYTHONDONTWRITEBYTECODE": "1"}
        if self.storage.keytab is not None:
            binds[self.storage.keytab] = KEY_IN_ROOT
            env |= {"XrdSecSSSKT": KEY_IN_ROOT, "XrdSecPROTOCOL": "sss"}
        return self._root.command(argv, binds=binds, env=env)


class Run:
    """A running client. Its lines are JSON; anything else is kept for the error message."""

    def __init__(
        self, command: list[str], out: Path, name: str, on_line: Callable[[dict[str, Any]], None] | None
    ) -> None:
        self.samples = out / f"{name}.samples"
        self._stop_file = out / f"{name}.stop"
        self._on_line = on_line
        self._ready = threading.Event()
        self._opened = False
        self._words: list[str] = []
        self._end: dict[str, Any] | None = None
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_ready(self, timeout: float) -> None:
        """Until all connections are open and requests are sent. A client that ends before that ends the wait."""
        self._ready.wait(timeout)
        if not self._opened:
            self.kill()
            raise ClientError(f"storage client ended, or is not ready after {timeout:.0f} s: {self._tail()}")

    def finish(self, timeout: float = 30) -> dict[str, Any]:
        """Asks the client to end, waits for it, returns its last line."""
        self._stop_file.touch()
        return self.wait(timeout)

    def wait(self, timeout: float) -> dict[str, Any]:
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ClientError(f"storage client still runs after {timeout:.0f} s: {self._tail()}") from None
        self._reader.join(10)
        if code != 0 or self._end is None:
            raise ClientError(f"storage client ended with {code}: {self._tail()}")
        return self._end

    def kill(self) -> None:
        """unshare --kill-child takes the client along."""
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                try:
                    parsed = json.loads(line)
                except ValueError:
                    self._words.append(line.rstrip())
                    continue
                if parsed.get("end"):
                    self._end = parsed
                elif parsed.get("ready"):
                    self._opened = True
                    self._ready.set()
                elif self._on_line is not None:
                    self._on_line(parsed)
        self._ready.set()

    def _tail(self) -> str:
        return "\n".join(self._words[-12:])

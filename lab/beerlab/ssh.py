# SPDX-License-Identifier: Apache-2.0
"""Commands and files into a node: one ssh connection is kept open, so that a command costs one emulated fork."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from .errors import LabError, NoEnd
from .process import environment
from .result import Result

# What ssh itself exits with when the connection fails.
NO_CONNECTION = 255


@dataclass(frozen=True)
class Ssh:
    """How to reach root of one node."""

    name: str
    port: int
    key: Path
    control: Path

    def options(self) -> list[str]:
        pairs = {
            "IdentitiesOnly": "yes",
            "BatchMode": "yes",
            "StrictHostKeyChecking": "no",
            "UserKnownHostsFile": "/dev/null",
            "LogLevel": "ERROR",
            "ConnectTimeout": "10",
            "ControlMaster": "auto",
            "ControlPath": str(self.control),
            "ControlPersist": "600",
        }
        words = ["-F", "none", "-i", str(self.key)]
        for key, value in pairs.items():
            words += ["-o", f"{key}={value}"]
        return words

    def command(self, *words: str, terminal: bool = False) -> list[str]:
        return ["ssh", *self.options(), *(["-t"] if terminal else []), "-p", str(self.port), "root@127.0.0.1", *words]

    def run(self, command: str, timeout: float, stdin: str | None = None) -> Result:
        """Runs a shell command; the exit status is the command's own, 255 also when there is no connection."""
        try:
            # The control master inherits nothing of ours: with pipes it would keep them open for ever.
            done = subprocess.run(
                self.command("--", command),
                input=stdin if stdin is not None else "",
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                env=environment(),
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise NoEnd(f"{self.name}: no end after {timeout:.0f} s: {command[:200]}") from error
        return Result(done.stdout, done.stderr, done.returncode)

    def save(self, command: str, target: Path, timeout: float) -> None:
        """Writes the (binary) output of a command to a file."""
        with target.open("wb") as sink:
            subprocess.run(
                self.command("--", command),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.DEVNULL,
                timeout=timeout,
                env=environment(),
                check=False,
            )

    def copy(self, source: str, target: str, timeout: float = 300) -> None:
        """scp; a path in the node is written as `:path`."""
        ends = [f"root@127.0.0.1{end}" if end.startswith(":") else end for end in (source, target)]
        words = ["scp", "-q", "-r", *self.options(), "-P", str(self.port), *ends]
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False
        )
        if done.returncode != 0:
            raise LabError(f"{self.name}: copy {source} {target}: {done.stderr.strip()}")

    def close(self) -> None:
        """Ends the kept connection; there may be none."""
        if self.control.exists():
            subprocess.run(
                ["ssh", *self.options(), "-O", "exit", "-p", str(self.port), "root@127.0.0.1"],
                capture_output=True,
                check=False,
            )

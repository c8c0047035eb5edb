# SPDX-License-Identifier: Apache-2.0
"""A node that answers by a table of patterns and remembers what it was told."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

Answer = str | Callable[[], str]


@dataclass(frozen=True)
class FakeResult:
    stdout: str
    stderr: str = ""
    status: int = 0


class FakeNode:
    name = "fake"

    def __init__(self, answers: Sequence[tuple[str, Answer]] = ()) -> None:
        # The first pattern that matches wins.
        self._answers = [*answers, (r"EPOCHREALTIME", lambda: f"{time.time() + 0.5:.6f}")]
        self.commands: list[str] = []
        self.inputs: list[str] = []

    def execute(self, command: str, *, timeout: float = 60, check: bool = True, input: str | None = None) -> FakeResult:
        self.commands.append(command)
        if input is not None:
            self.inputs.append(input)
        for pattern, answer in self._answers:
            if re.search(pattern, command, re.S):
                return FakeResult(answer if isinstance(answer, str) else answer())
        return FakeResult("")

    def copy_to(self, source: Path, target: str) -> None:
        self.commands.append(f"copy {source.name} to {target}")

    def copy_from(self, source: str, target: Path) -> None:
        target.write_text(f"content of {source}")

    def port(self, guest_port: int) -> int:
        return 40000 + guest_port


class FakeRoot:
    def command(self, argv: Sequence[str | Path], **_: object) -> list[str]:
        return ["true", *(str(word) for word in argv)]

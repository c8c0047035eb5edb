# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks need of the lab, as types: `beerlab.Machine` and `beerlab.Root` fit, and so do a test's fakes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol


class Result(Protocol):
    @property
    def stdout(self) -> str: ...

    @property
    def stderr(self) -> str: ...

    @property
    def status(self) -> int: ...


class Node(Protocol):
    """A node, virtual or not."""

    name: str
    prepared: Any

    def execute(
        self,
        command: str,
        *,
        timeout: float = 60,
        check: bool = True,
        input: str | None = None,
    ) -> Result: ...

    def copy_to(self, source: Path, target: str) -> None: ...

    def copy_from(self, source: str, target: Path) -> None: ...

    def port(self, guest_port: int) -> int: ...


class ClientRoot(Protocol):
    """The Debian root that storage clients run in."""

    def command(
        self,
        argv: Sequence[str | Path],
        *,
        binds: Mapping[Path | str, str] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str = "/",
    ) -> list[str]: ...

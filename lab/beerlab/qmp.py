# SPDX-License-Identifier: Apache-2.0
"""QEMU's monitor socket: snapshots and disk limits at run time."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import TracebackType
from typing import Any

from .errors import LabError


class Monitor:
    """One connection; QEMU serves one at a time, so it is opened for a command and closed after."""

    def __init__(self, path: Path, timeout: float = 120) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise LabError(f"{path}: QEMU's monitor does not answer: {error}") from error
        self._stream = self._socket.makefile("rw")
        self._stream.readline()  # greeting
        self.call("qmp_capabilities")

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stream.close()
        self._socket.close()

    def call(self, command: str, **arguments: Any) -> Any:
        """One QMP command; events that come in between are of no interest."""
        self._stream.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._stream.flush()
        while True:
            line = self._stream.readline()
            if not line:
                raise LabError(f"QEMU ended during {command}")
            answer = json.loads(line)
            if "error" in answer:
                raise LabError(f"QEMU refused {command}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]

    def human(self, line: str) -> str:
        """A command of the human monitor; it tells errors only as text."""
        said = str(self.call("human-monitor-command", **{"command-line": line})).strip()
        if said.startswith("Error") or "does not support" in said or "unknown command" in said:
            raise LabError(f"QEMU refused {line!r}: {said}")
        return said

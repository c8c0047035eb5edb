# SPDX-License-Identifier: Apache-2.0
"""A client that keeps one file open and does one thing at a time: `with Session(...) as s: s.call("read", 0, 10)`.

It is a process of its own, because the XRootD client reads its keys once per process.
"""

import base64
import json
import subprocess
import sys
from types import TracebackType
from typing import Any

from XRootD import client
from XRootD.client.flags import OpenFlags


class SessionError(Exception):
    """What the server answered."""


class Session:
    def __init__(self, url: str, env: dict[str, str], *, update: bool = False) -> None:
        command = [sys.executable, __file__, url, "update" if update else "read"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.answer()

    def call(self, method: str, *arguments: Any) -> list[bytes]:
        """A method of XRootD.client.File; returns the data it brought."""
        self.ask(method, *arguments)
        return self.answer()

    def ask(self, method: str, *arguments: Any) -> None:
        """The same in two parts: for what takes long."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([method, *arguments]) + "\n")
        self._process.stdin.flush()

    def answer(self) -> list[bytes]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SessionError("the client ended")
        answer = json.loads(line)
        if isinstance(answer, str):
            raise SessionError(answer)
        return [base64.b64decode(piece) for piece in answer]

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind:  # it may be held for long
            self.kill()
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(timeout=30) == 0

    def kill(self) -> None:
        """The client goes away without closing its file."""
        self._process.kill()
        self._process.wait()


def _say(status: Any, data: list[bytes]) -> None:
    answer = [base64.b64encode(piece).decode() for piece in data] if status.ok else status.message
    print(json.dumps(answer), flush=True)


def main(url: str, mode: str) -> int:
    with client.File() as file:
        status, _ = file.open(url, OpenFlags.UPDATE if mode == "update" else OpenFlags.READ)
        _say(status, [])
        for line in sys.stdin:
            method, *arguments = json.loads(line)
            if method == "vector_read":
                arguments = [[tuple(piece) for piece in arguments[0]]]
            status, result = getattr(file, method)(*arguments)
            if method == "read" and status.ok:
                _say(status, [result])
            elif method == "vector_read" and status.ok:
                _say(status, [chunk.buffer for chunk in result])
            else:
                _say(status, [])
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))

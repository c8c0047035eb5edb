# SPDX-License-Identifier: Apache-2.0
"""Asks the socket of a server: docs/formats/storage-info.md. `info.py SOCKET stat|streams|policy` prints the answer."""

import json
import socket
import sys
from pathlib import Path
from typing import Any


def ask(path: Path, question: str) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as asker:
        asker.settimeout(20)
        asker.connect(str(path))
        asker.sendall(question.encode() + b"\n")
        with asker.makefile("rb") as answer:
            return dict(json.loads(answer.read()))


if __name__ == "__main__":
    print(json.dumps(ask(Path(sys.argv[1]), sys.argv[2]), indent=1))

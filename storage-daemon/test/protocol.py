# SPDX-License-Identifier: Apache-2.0
"""What the Python client of XRootD cannot say, said byte by byte (XRootD protocol 5.2): checkpoints, half answers.

For servers without authentication. An error is told as the number of the protocol.
"""

import socket
import struct
from types import TracebackType
from typing import Self

CLOSE, LOGIN, OPEN, CHKPOINT, READ, WRITE, TRUNCATE, WRITEV = 3003, 3007, 3010, 3012, 3013, 3019, 3028, 3031
FOR_READING, FOR_UPDATE = 0x10, 0x20
MORE_FOLLOWS = 4000
BEGIN, COMMIT, QUERY, ROLLBACK, EXECUTE = range(5)
STREAM = b"\0\1"


class ProtocolError(Exception):
    """The server refused a request; `number` says why."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(f"{number}: {text}")
        self.number = number


def header(request: int, body: bytes, size: int) -> bytes:
    return STREAM + struct.pack(">H16si", request, body, size)


class File:
    """One connection with one open file."""

    def __init__(self, port: int, path: str, options: int = FOR_READING) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._socket.sendall(struct.pack(">5i", 0, 0, 0, 4, 2012))
        self._answer()
        self._ask(LOGIN, struct.pack(">i8s4B", 1, b"raw", 0, 0, 5, 0))
        self._handle = self._ask(OPEN, struct.pack(">HH", 0, options), path.encode())[:4]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise ConnectionError("the server closed the connection")
            data += more
        return data

    def _begin(self) -> tuple[int, int]:
        _, status, size = struct.unpack(">2sHi", self._receive(8))
        return status, size

    def _answer(self) -> bytes:
        status, size = self._begin()
        body = self._receive(size)
        if status == MORE_FOLLOWS:
            return body + self._answer()
        if status:
            raise ProtocolError(*struct.unpack(">i", body[:4]), body[4:].decode(errors="replace").strip("\0"))
        return body

    def _ask(self, request: int, body: bytes, data: bytes = b"") -> bytes:
        self._socket.sendall(header(request, body, len(data)) + data)
        return self._answer()

    def ask_for(self, offset: int, size: int) -> None:
        """A read whose answer is not waited for."""
        self._socket.sendall(header(READ, self._handle + struct.pack(">qi", offset, size), 0))

    def begins(self) -> bytes:
        """The first 1000 bytes of an answer."""
        self._begin()
        return self._receive(1000)

    def read(self, offset: int, size: int) -> bytes:
        self.ask_for(offset, size)
        return self._answer()

    def close(self) -> None:
        self._ask(CLOSE, self._handle)

    def _vector(self, pieces: list[tuple[int, bytes]]) -> bytes:
        entries = b"".join(struct.pack(">4siq", self._handle, len(data), offset) for offset, data in pieces)
        return header(WRITEV, bytes(16), len(entries)) + entries + b"".join(data for _, data in pieces)

    def write_vector(self, pieces: list[tuple[int, bytes]]) -> None:
        self._socket.sendall(self._vector(pieces))
        self._answer()


class CheckpointedFile(File):
    """One that is open for update."""

    def __init__(self, port: int, path: str) -> None:
        super().__init__(port, path, FOR_UPDATE)

    def _checkpoint(self, action: int, data: bytes = b"") -> bytes:
        body = (self._handle if action != EXECUTE else bytes(4)) + bytes(11) + bytes([action])
        # Of what is executed only the header counts; its data follow.
        self._socket.sendall(header(CHKPOINT, body, min(len(data), 24)) + data)
        return self._answer()

    def begin(self) -> None:
        self._checkpoint(BEGIN)

    def commit(self) -> None:
        self._checkpoint(COMMIT)

    def roll_back(self) -> None:
        self._checkpoint(ROLLBACK)

    def most(self) -> tuple[int, int]:
        """Bytes that a checkpoint may hold, and that it holds."""
        found = struct.unpack(">II", self._checkpoint(QUERY))
        return int(found[0]), int(found[1])

    def write(self, offset: int, data: bytes) -> None:
        body = self._handle + struct.pack(">q4x", offset)
        self._checkpoint(EXECUTE, header(WRITE, body, len(data)) + data)

    def write_vector(self, pieces: list[tuple[int, bytes]]) -> None:
        self._checkpoint(EXECUTE, self._vector(pieces))

    def truncate(self, size: int) -> None:
        self._checkpoint(EXECUTE, header(TRUNCATE, self._handle + struct.pack(">q4x", size), 0))

# SPDX-License-Identifier: Apache-2.0
"""A disk with a head: serves a raw image to one QEMU over NBD, read-only, and takes the time that an HDD would.

QEMU's throttle counts requests and bytes, so on such a disk it does not matter where a request is. Here it does: one
request at a time, after a seek if it does not follow the last one, then at the rate of the platters. What waits is
served in the order of its place, one sweep after the other, as the queue of a drive does it.

A program of its own, with the standard library alone; it ends with the connection. The protocol: fixed newstyle
negotiation and simple replies of https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md
"""

from __future__ import annotations

import argparse
import fcntl
import os
import socket
import struct
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

INIT, OPTION, REPLY = 0x4E42444D41474943, 0x49484156454F5054, 0x3E889045565A9
REQUEST, ANSWER = 0x25609513, 0x67446698
FIXED_NEWSTYLE, NO_ZEROES = 1, 2
HAS_FLAGS, READ_ONLY = 1, 2
EXPORT_NAME, ABORT, GO = 1, 2, 7
ACK, INFO, UNSUPPORTED = 1, 3, (1 << 31) + 1
READ, DISCONNECT = 0, 2
LONGEST_OPTION = 4096
# A QEMU that does not come has failed: nobody else ends this process.
ACCEPT_SECONDS = 60.0


@dataclass
class Head:
    """Where the head is, and how long it takes it to do something."""

    seek_seconds: float
    bytes_per_second: float
    place: int = 0

    def serve(self, offset: int, length: int) -> float:
        """Seconds. A short way ahead is waited for: the platters turn under the head at the rate of reading."""
        ahead = (offset - self.place) / self.bytes_per_second
        way = min(self.seek_seconds, ahead) if ahead >= 0 else self.seek_seconds
        self.place = offset + length
        return way + length / self.bytes_per_second

    def sweep(self, offsets: list[int]) -> list[int]:
        """The order for these: from the head to the end, then what lies before it."""
        return sorted(offsets, key=lambda offset: (offset < self.place, offset))


class Closed(Exception):
    """The other side has gone."""


class Connection:
    def __init__(self, peer: socket.socket, image: int, head: Head) -> None:
        self._peer = peer
        self._image = image
        self._size = os.fstat(image).st_size
        self._head = head
        self._waiting: list[tuple[int, int, int]] = []  # offset, length, cookie
        self._changed = threading.Condition()
        self._open = True

    def negotiate(self) -> None:
        self._peer.sendall(struct.pack(">QQH", INIT, OPTION, FIXED_NEWSTYLE | NO_ZEROES))
        self._take(4)
        export = struct.pack(">QH", self._size, HAS_FLAGS | READ_ONLY)
        while True:
            magic, option, length = struct.unpack(">QII", self._take(16))
            if magic != OPTION or length > LONGEST_OPTION:
                raise Closed
            self._take(length)
            if option == EXPORT_NAME:
                self._peer.sendall(export)
                return
            if option == GO:
                self._reply(option, INFO, struct.pack(">H", 0) + export)
                self._reply(option, ACK)
                return
            self._reply(option, ACK if option == ABORT else UNSUPPORTED)
            if option == ABORT:
                raise Closed

    def serve(self) -> None:
        """Until the other side has gone."""
        reader = threading.Thread(target=self._receive, daemon=True)
        reader.start()
        free = time.monotonic()  # when the head is
        while batch := self._next():
            # One that is late because this process did not run is made up for by the next.
            free = max(free, time.monotonic() - 0.1)
            for offset, length, cookie in batch:
                free += self._head.serve(offset, length)
                data = os.pread(self._image, length, offset)
                time.sleep(max(0.0, free - time.monotonic()))
                self._peer.sendall(struct.pack(">IIQ", ANSWER, 0, cookie) + data)

    def _next(self) -> list[tuple[int, int, int]]:
        with self._changed:
            while self._open and not self._waiting:
                self._changed.wait()
            batch, self._waiting = self._waiting, []
        if not self._open:
            return []
        order = self._head.sweep([offset for offset, _, _ in batch])
        return sorted(batch, key=lambda request: order.index(request[0]))

    def _receive(self) -> None:
        try:
            while True:
                magic, _, kind, cookie, offset, length = struct.unpack(">IHHQQI", self._take(28))
                if magic != REQUEST or kind == DISCONNECT:
                    break
                if kind != READ or offset + length > self._size:
                    # Read-only was negotiated: QEMU asks for nothing else, and no answer is lost between two others.
                    raise Closed
                with self._changed:
                    self._waiting.append((offset, length, cookie))
                    self._changed.notify()
        except (Closed, OSError):
            pass
        with self._changed:
            self._open = False
            self._changed.notify()

    def _reply(self, option: int, kind: int, data: bytes = b"") -> None:
        self._peer.sendall(struct.pack(">QIII", REPLY, option, kind, len(data)) + data)

    def _take(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self._peer.recv(count - len(data))
            if not piece:
                raise Closed
            data += piece
        return data


def main(argv: list[str]) -> int:
    arguments = argparse.ArgumentParser(description="serves a raw image over NBD, as slowly as a disk with a head")
    arguments.add_argument("--image", type=Path, required=True)
    arguments.add_argument("--socket", type=Path, required=True, help="made here, and removed when QEMU has come")
    arguments.add_argument("--seek-ms", type=float, required=True)
    arguments.add_argument("--rate", type=float, required=True, help="bytes per second")
    options = arguments.parse_args(argv)
    image = os.open(options.image, os.O_RDONLY)
    # As a QEMU does, this tells `store.in_use` that the image is. QEMU's own locks are on bytes from 100 on.
    fcntl.lockf(image, fcntl.LOCK_SH, 1, 0)
    with socket.socket(socket.AF_UNIX) as listener:
        # Under its name once somebody answers.
        listener.bind(f"{options.socket}.new")
        listener.listen(1)
        Path(f"{options.socket}.new").rename(options.socket)
        listener.settimeout(ACCEPT_SECONDS)
        try:
            peer, _ = listener.accept()
        except TimeoutError:
            print("seekdisk: nobody came", file=sys.stderr)
            return 1
        finally:
            options.socket.unlink()
    with peer:
        connection = Connection(peer, image, Head(options.seek_ms / 1e3, options.rate))
        try:
            connection.negotiate()
            connection.serve()
        except (Closed, OSError):
            pass
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

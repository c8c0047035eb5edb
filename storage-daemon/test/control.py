# SPDX-License-Identifier: Apache-2.0
"""Writes the shaping segment in the place of the guard: docs/formats/shaping-segment.md."""

import os
import struct
import time
from collections.abc import Callable
from pathlib import Path

UNLIMITED = 2**64 - 1
EVERY = 2**32 - 1


def fnv1a(data: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) % 2**64
    return value


def encode(sequence: int, lease_until_ns: int, records: list[tuple[int, int, int, int]]) -> bytes:
    """The used bytes; a record is major, minor, bytes per second, operations per second."""
    head = struct.pack("<8sIIQQI20x", b"BEERSHP", 1, len(records), sequence, lease_until_ns, os.getpid())
    body = b"".join(struct.pack("<IIQQ8x", *record) for record in records)
    return head + struct.pack("<Q", fnv1a(head + body)) + body


class Control:
    """The file; it does not exist before the first write."""

    def __init__(self, path: Path, applied: Callable[[], int]) -> None:
        """`applied`: the sequence that the server says it has applied."""
        self.path = path
        self._applied = applied
        self._sequence = 0

    def limit(self, byte_rate: int = UNLIMITED, operations: int = UNLIMITED, *, lease: float = 50.0) -> None:
        """For batch on every filesystem, for `lease` seconds; returns when the server does so."""
        self.write([(EVERY, EVERY, byte_rate, operations)], lease)
        self.wait()

    def lift(self) -> None:
        self.write([], 0)
        self.wait()

    def write(self, records: list[tuple[int, int, int, int]], lease: float) -> None:
        self._sequence += 1
        if not self.path.exists():
            self.path.write_bytes(bytes(4096))
        until_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + int(lease * 1e9) if lease else 0
        with self.path.open("r+b", buffering=0) as file:
            file.write(encode(self._sequence, until_ns, records))

    def wait(self) -> None:
        deadline = time.monotonic() + 30
        while self._applied() != self._sequence:
            assert time.monotonic() < deadline, "the server does not apply what the guard says"
            time.sleep(0.005)

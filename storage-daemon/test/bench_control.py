# SPDX-License-Identifier: Apache-2.0
"""How soon a limit of zero holds transfers that run, and how soon they go on when it is lifted, as JSON.

One server, batch streams that read a cached file without a pause, 64 KiB at a time. Each trial writes the limit as the
guard does, looks at the bytes counted for batch every millisecond, and takes the time from before the write to the last
of them (what was counted after that stood still for a fifth of a second); then the same from the lift to the first. It
shows the plug-in and its thread, not a disk: what the disk works on when the limit comes it finishes.
"""

import argparse
import json
import multiprocessing
import os
import struct
import sys
import tempfile
import time
from pathlib import Path

from bench import OPEN_HOUSE
from control import EVERY
from relay import Relay
from segment import KINDS
from server import Server
from XRootD import client
from XRootD.client.flags import OpenFlags

FILE_BYTES = 64 << 20
BLOCK = 64 << 10
HELD = [(EVERY, EVERY, 0, 0)]
QUIET = 0.2  # seconds without a byte: it is held
PATIENCE = 20.0


def read_for_ever(url: str) -> None:
    with client.File() as file:
        file.open(url, OpenFlags.READ)
        place = 0
        while True:
            file.read(place, BLOCK)
            place = (place + BLOCK) % FILE_BYTES


class Counter:
    """Bytes that batch has read on the first filesystem, straight from the segment."""

    def __init__(self, segment: Path) -> None:
        self._file = os.open(segment, os.O_RDONLY)
        series = struct.unpack("<Q", os.pread(self._file, 8, 80))[0]
        self._place = series + KINDS.index("read.batch") * 960 + 8

    def __call__(self) -> int:
        return int(struct.unpack("<Q", os.pread(self._file, 8, self._place))[0])


def last_change(count: Counter, before: int, since: float) -> float:
    """Milliseconds from `since`, when it was `before`, to the last byte before it was quiet; 0 if none came."""
    last = since
    while (now := time.monotonic()) < last + QUIET:
        if (bytes_now := count()) != before:
            before, last = bytes_now, now
        if now > since + PATIENCE:
            raise RuntimeError(f"batch still reads {PATIENCE:g} s after it was held")
        time.sleep(0.001)
    return (last - since) * 1e3


def first_change(count: Counter, since: float) -> float:
    before = count()
    while count() == before:
        if time.monotonic() > since + PATIENCE:
            raise RuntimeError(f"batch reads nothing {PATIENCE:g} s after it was let go")
        time.sleep(0.001)
    return (time.monotonic() - since) * 1e3


def main() -> int:
    parser = argparse.ArgumentParser(description="how soon a limit takes effect, as JSON")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--streams", type=int, default=4)
    options = parser.parse_args()
    held, lifted = [], []
    with tempfile.TemporaryDirectory(prefix="beer-bench.") as folder:
        Path(folder).chmod(0o755)
        server = Server(Path(folder) / "server")
        server.write_config(OPEN_HOUSE)
        (server.data / "01/store/large").write_bytes(os.urandom(FILE_BYTES))
        server.start()
        with Relay(server.port, "127.0.0.2") as relay:
            url = server.url("01/store/large", port=relay.port)
            streams = [multiprocessing.Process(target=read_for_ever, args=(url,)) for _ in range(options.streams)]
            for stream in streams:
                stream.start()
            try:
                count = Counter(server.segment_file)
                first_change(count, time.monotonic())
                for number in range(options.trials):
                    print(f"\rtrial {number + 1} of {options.trials}", end="", file=sys.stderr)
                    time.sleep(0.1)
                    before, begun = count(), time.monotonic()
                    server.control.write(HELD, 50)
                    held.append(last_change(count, before, begun))
                    begun = time.monotonic()
                    server.control.write([], 0)
                    lifted.append(first_change(count, begun))
            finally:
                for stream in streams:
                    stream.kill()
                server.stop(9)
    print(file=sys.stderr)
    shown = {name: [round(one, 1) for one in values] for name, values in (("held_ms", held), ("lifted_ms", lifted))}
    print(json.dumps({"streams": options.streams, "trials": options.trials} | shown))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

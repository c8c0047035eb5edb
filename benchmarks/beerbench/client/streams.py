# SPDX-License-Identifier: Apache-2.0
"""Streams that compete: each is one connection, one file, one direction and one application, as fast as it may go.

Sequential, with some requests outstanding, as xrdcp does. Bytes count from the end of the warm-up to the end.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

from .connections import CLIENT_SETTINGS
from .progress import emit

DEPTH = 8
CLOSE_SECONDS = 60
WRITTEN_BYTES = 64 << 20  # a writer begins anew there


@dataclass(frozen=True)
class Spec:
    app: str
    writes: bool
    path: str

    @classmethod
    def parse(cls, text: str) -> Spec:
        app, direction, path = text.split(":", 2)
        if direction not in ("r", "w") or not path.startswith("/"):
            raise argparse.ArgumentTypeError(f"'{text}' is not APPLICATION:r|w:/PATH")
        return cls(app, direction == "w", path)


class Stream:
    def __init__(self, spec: Spec, number: int, endpoint: str, block: int) -> None:
        from XRootD import client  # type: ignore[import-not-found]
        from XRootD.client.flags import OpenFlags  # type: ignore[import-not-found]

        self.spec = spec
        self.bytes = 0
        self.error = ""
        self._data = os.urandom(block)
        self._file = client.File()
        self._slots = threading.Semaphore(DEPTH)
        self._lock = threading.Lock()
        self._next = 0
        flags = OpenFlags.DELETE | OpenFlags.UPDATE if spec.writes else OpenFlags.READ
        status, _ = self._file.open(f"root://s{number:03d}@{endpoint}/{spec.path}?eos.app={spec.app}", flags)
        if not status.ok:
            raise OSError(f"{spec.path}: {status.message.strip()}")
        self._size = WRITTEN_BYTES if spec.writes else int(self._file.stat()[1].size)

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set() and not self.error:
            if self._slots.acquire(timeout=0.2):
                self._send()

    def _send(self) -> None:
        block = len(self._data)
        offset = self._next % (self._size // block * block)
        self._next += block

        def done(status: Any, _response: Any, _hosts: Any) -> None:
            with self._lock:
                if status.ok:
                    self.bytes += block
                else:
                    self.error = status.message.strip()
            self._slots.release()

        if self.spec.writes:
            status = self._file.write(self._data, offset, callback=done)
        else:
            status = self._file.read(offset, block, callback=done)
        if not status.ok:
            done(status, None, None)

    def close(self) -> None:
        """Once nothing is outstanding: who comes next may want to write the same file."""
        for _ in range(DEPTH):
            self._slots.acquire(timeout=CLOSE_SECONDS)
        self._file.close(timeout=CLOSE_SECONDS)


def main(argv: list[str]) -> int:
    arguments = argparse.ArgumentParser(description="streams that compete for a disk")
    arguments.add_argument("--endpoint", required=True, help="host:port of the XRootD server")
    arguments.add_argument("--stream", action="append", required=True, type=Spec.parse, metavar="APP:r|w:PATH")
    arguments.add_argument("--block", type=int, default=256 << 10, help="bytes per request")
    arguments.add_argument("--warm-up", type=float, default=3, help="seconds that do not count")
    arguments.add_argument("--duration", type=float, required=True, help="seconds that count")
    options = arguments.parse_args(argv)
    for name, value in CLIENT_SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        streams = [Stream(spec, number, options.endpoint, options.block) for number, spec in enumerate(options.stream)]
    except OSError as error:
        print(f"streams: {error}", file=sys.stderr)
        return 1
    emit({"ready": True, "connections": len(streams)})
    stop = threading.Event()
    threads = [threading.Thread(target=stream.run, args=(stop,), daemon=True) for stream in streams]
    for thread in threads:
        thread.start()
    time.sleep(options.warm_up)
    before, began = [stream.bytes for stream in streams], time.monotonic()
    time.sleep(options.duration)
    moved, seconds = [stream.bytes for stream in streams], time.monotonic() - began
    stop.set()
    for thread, stream in zip(threads, streams, strict=True):
        thread.join()
        stream.close()
    rates = [(after - was) / seconds / 1e6 for after, was in zip(moved, before, strict=True)]
    emit({"end": True, "mb_s": rates, "errors": sorted({stream.error for stream in streams if stream.error})})
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # see open_loop

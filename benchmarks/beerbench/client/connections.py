# SPDX-License-Identifier: Apache-2.0
"""Many XRootD connections from one process, spread over the data disks.

An XRootD server works through the requests of one connection in order, so one connection would hide what many clients
get. XrdCl opens one connection per user name in the URL; each connection here has one file open.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

# A server that restarts must be found again within seconds: by default a failed connection is not tried again for half
# an hour, and one connection attempt waits for two minutes. Set before XRootD is imported, which reads them once.
CLIENT_SETTINGS = {
    "XRD_CONNECTIONWINDOW": "3",
    "XRD_CONNECTIONRETRY": "40",
    "XRD_STREAMERRORWINDOW": "1",
    "XRD_TIMEOUTRESOLUTION": "1",
    # plain kXR_read instead of pgread: no checksum per page, so that the client costs little of the shared host
    "XRD_WORKERTHREADS": "2",
    "XRD_PARALLELEVTLOOP": "1",
}


class Reader(Protocol):
    """What is needed of XRootD.client.File; tests bring their own."""

    def open(self, url: str, callback: Callable[[Any, Any, Any], None]) -> Any: ...

    def stat_size(self) -> int: ...

    def read(self, offset: int, size: int, callback: Callable[[Any, Any, Any], None]) -> Any: ...


class XRootDReader:
    """XRootD.client.File with the call-backs as the bindings want them."""

    def __init__(self) -> None:
        from XRootD import client  # type: ignore[import-not-found]

        self._file = client.File()

    def open(self, url: str, callback: Callable[[Any, Any, Any], None]) -> Any:
        return self._file.open(url, callback=callback)

    def stat_size(self) -> int:
        status, info = self._file.stat()
        if not status.ok:
            raise OSError(f"stat: {status.message.strip()}")
        return int(info.size)

    def read(self, offset: int, size: int, callback: Callable[[Any, Any, Any], None]) -> Any:
        return self._file.read(offset, size, callback=callback)


@dataclass
class Connection:
    """One connection with one file; `broken_since` is set by a failed request until it is open again."""

    number: int
    disk: int
    target: int
    url: str
    reader: Reader
    outstanding: int = 0
    taken: int = 0
    broken_since: float | None = None
    opening: bool = False
    file_size: int = 0
    last_error: str = ""
    offsets: Any = None
    abandoned: list[Reader] = field(default_factory=list)

    @property
    def usable(self) -> bool:
        return self.broken_since is None and not self.opening


class Pool:
    """The connections, and which of them takes the next request."""

    REOPEN_AFTER = 0.5
    OPENING_AT_ONCE = 3

    def __init__(
        self,
        endpoint: str,
        disks: list[list[str]],
        per_disk: int,
        make_reader: Callable[[], Reader] = XRootDReader,
    ) -> None:
        for name, value in CLIENT_SETTINGS.items():
            os.environ.setdefault(name, value)
        self._make_reader = make_reader
        self._lock = threading.Lock()
        self.targets = [path for paths in disks for path in paths]
        self.disk_of_target = [disk for disk, paths in enumerate(disks) for _ in paths]
        self.connections: list[list[Connection]] = []
        number = 0
        first_target = 0
        for disk, paths in enumerate(disks):
            row = []
            for index in range(per_disk):
                target = first_target + index % len(paths)
                url = f"root://c{number:03d}@{endpoint}/{self.targets[target]}"
                row.append(Connection(number, disk, target, url, make_reader()))
                number += 1
            self.connections.append(row)
            first_target += len(paths)

    def all(self) -> list[Connection]:
        return [connection for row in self.connections for connection in row]

    def open_all(self, timeout: float) -> None:
        """Opens every connection; raises when one is not open in time.

        A few at a time: each costs the node a handshake with authentication, and the node may be an emulated one.
        """
        deadline = time.monotonic() + timeout
        for connection in self.all():
            while sum(other.opening for other in self.all()) >= self.OPENING_AT_ONCE and time.monotonic() < deadline:
                time.sleep(0.002)
            self._open(connection)
        for connection in self.all():
            while connection.opening and time.monotonic() < deadline:
                time.sleep(0.002)
            if not connection.usable:
                raise OSError(f"{connection.url}: {connection.last_error or f'not open after {timeout} s'}")
            connection.file_size = connection.reader.stat_size()

    def pick(self, disk: int) -> Connection | None:
        """The least busy usable connection to a disk, as if each request came from a client that is free.

        They take turns, or the first ones would soon have read all of their files, and then out of the page cache.
        """
        with self._lock:
            usable = [connection for connection in self.connections[disk] if connection.usable]
            if not usable:
                return None
            chosen = min(usable, key=lambda connection: (connection.outstanding, connection.taken))
            chosen.outstanding += 1
            chosen.taken += 1
            return chosen

    def take(self, connection: Connection) -> None:
        with self._lock:
            connection.outstanding += 1

    def done(self, connection: Connection, error: str | None) -> None:
        with self._lock:
            connection.outstanding -= 1
            if error is not None:
                connection.last_error = error
                if connection.usable:
                    connection.broken_since = time.monotonic()

    def repair(self) -> None:
        """Opens broken connections again. Called now and then by the main thread, never from a call-back."""
        now = time.monotonic()
        for connection in self.all():
            since = connection.broken_since
            if since is not None and not connection.opening and now - since >= self.REOPEN_AFTER:
                # Destroying a File closes it and waits: keep it until the process ends.
                connection.abandoned.append(connection.reader)
                connection.reader = self._make_reader()
                self._open(connection)

    def _open(self, connection: Connection) -> None:
        connection.opening = True

        def opened(status: Any, _response: Any, _hosts: Any) -> None:
            with self._lock:
                connection.opening = False
                if status.ok:
                    connection.broken_since = None
                else:
                    connection.last_error = status.message.strip()
                    connection.broken_since = time.monotonic()

        status = connection.reader.open(connection.url, opened)
        if not status.ok:
            opened(status, None, None)

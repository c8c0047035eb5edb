# SPDX-License-Identifier: Apache-2.0
"""A relay that gives a client another source address: XRootD clients cannot choose theirs."""

import contextlib
import socket
import threading
from types import TracebackType


class Relay:
    """Listens on a port of 127.0.0.1 and passes connections on to another one, coming from `source`."""

    def __init__(self, target: int, source: str) -> None:
        self._target = target
        self._source = source
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            server = socket.create_connection(("127.0.0.1", self._target), source_address=(self._source, 0))
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            # A client that was killed, or the other direction has seen the end first. For a client that is gone its
            # kernel answers with a reset; a socket that is only shut down would take data until the server blocks.
            for one in (source, sink):
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()

    def __enter__(self) -> "Relay":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()

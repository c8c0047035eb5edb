# SPDX-License-Identifier: Apache-2.0
"""The network hog: streams of datagrams, sent to one address as fast as the kernel takes them.

Datagrams and not a connection: nothing slows the sender down but what the node does about it. They fit a frame of 1500
bytes: larger ones would come in fragments, and where they are lost all of the datagram is. Bytes that left the socket
are counted; nobody need listen at the other end.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Any, Self

from beer_payload import load
from beer_payload.report import SetupError, Stopwatch

DATAGRAM = 1472  # bytes: 1500 of an Ethernet frame less 20 of IPv4 and 8 of UDP
BATCH = 64  # datagrams per operation, so that counting costs little
SEND_TIMEOUT = 1.0  # seconds; a full queue below the socket must not keep a stream from its end


@dataclass(frozen=True)
class Address:
    """Where to: HOST:PORT, an IPv6 address in brackets."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        host, separator, port = text.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        if not separator or not host or (":" in host and not bracketed) or host == "[]":
            raise ValueError(f"'{text}' is not HOST:PORT, such as 192.0.2.1:9 or [2001:db8::1]:9")
        if not (port.isascii() and port.isdigit()) or not 1 <= int(port) <= 65535:
            raise ValueError(f"the port of '{text}' is not a whole number from 1 to 65535")
        return cls(host[1:-1] if bracketed else host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def connect(to: Address) -> socket.socket:
    """A datagram socket of its own, with a port of its own, so that streams can take ways of their own."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(to.host, to.port, type=socket.SOCK_DGRAM)[0]
        connected = socket.socket(family, kind, protocol)
        connected.settimeout(SEND_TIMEOUT)
        connected.connect(address)
    except (OSError, UnicodeError) as error:
        raise SetupError(f"cannot send to {to}: {error}") from error
    return connected


def operation(connected: socket.socket, datagram: bytes) -> load.Operation:
    def once() -> int:
        sent = 0
        for _ in range(BATCH):
            try:
                sent += connected.send(datagram)
            except ConnectionRefusedError:
                # Tells of an earlier datagram that nobody listened for (udp(7)); this one was not sent.
                continue
            except OSError:
                if sent == 0:
                    raise
                break
        return sent

    return once


def run(to: Address, streams: int, seconds: float, on_signal: int = 0) -> dict[str, Any]:
    """As often as signals come; `bytes` that the kernel took, without headers."""
    watch = Stopwatch()
    datagram = os.urandom(DATAGRAM)
    sockets = [connect(to) for _ in range(streams)]
    try:
        found = load.hammer([operation(one, datagram) for one in sockets], seconds, OSError, on_signal)
    finally:
        for one in sockets:
            one.close()
    if not found["bytes"]:
        raise SetupError(f"nothing could be sent to {to}: {found['last_error']}")
    return {"to": str(to), "streams": streams, "datagram": DATAGRAM, **found, **watch.times()}

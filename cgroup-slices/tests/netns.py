# SPDX-License-Identifier: Apache-2.0
"""Small networks of namespaces, for rules that want to be tried with packets. Run inside `unshare -n`."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass


def sh(command: str) -> str:
    return subprocess.run(["sh", "-ec", command], check=True, capture_output=True, text=True).stdout


@dataclass(frozen=True)
class Space:
    """A network namespace, kept by a sleeping process."""

    pid: int

    def run(self, command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        line = ["nsenter", "-t", str(self.pid), "-n", "sh", "-ec", command]
        return subprocess.run(line, check=check, capture_output=True, text=True, timeout=20)


@contextlib.contextmanager
def space() -> Iterator[Space]:
    # `sh` prints once it is in the new namespace; then its parent may move devices there.
    command = ["unshare", "-n", "sh", "-c", "ip link set lo up; echo up; exec sleep 600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        try:
            yield Space(process.pid)
        finally:
            process.kill()


def connect(where: Space, host: str, port: int) -> bool:
    """Does a TCP connection from there come about?"""
    return (
        where.run(
            f"python3 -ISc 'import socket; socket.create_connection((\"{host}\", {port}), 0.4)'", False
        ).returncode
        == 0
    )


@contextlib.contextmanager
def listening(*ports: int) -> Iterator[None]:
    """TCP listeners on all addresses of this namespace; each answers with the address it sees, then closes."""
    sockets = [socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True) for port in ports]
    try:
        yield
    finally:
        for each in sockets:
            each.close()


def in_own_namespace() -> bool:
    """`make check` enters a network namespace; refuse to load rules into the machine's own."""
    return {name for _, name in socket.if_nameindex()} == {"lo"} and os.geteuid() == 0

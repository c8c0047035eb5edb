# SPDX-License-Identifier: Apache-2.0
"""A real XRootD server on loopback, in the root that the clients run in."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from beerlab import client_root
from beerlab.vm import free_ports

FILE_BYTES = 8 << 20
CONFIG = """\
all.export /srv/bench/data
all.adminpath /srv/bench/admin
all.pidpath /srv/bench/admin
xrd.port {port}
xrd.network nodnr norpipa
xrd.sched mint 32 maxt 256
xrootd.chksum max 2 adler32
"""


class Server:
    """xrootd with two "disks" of two files each; `signal` reaches the server process itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (self.port,) = free_ports((1094,)).values()
        self.endpoint = f"127.0.0.1:{self.port}"
        self.disks = []
        for disk in ("01", "02"):
            paths = []
            for number in (1, 2):
                path = folder / "data" / disk / f"file-{number}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(os.urandom(FILE_BYTES))
                paths.append(f"/srv/bench/data/{disk}/{path.name}")
            self.disks.append(paths)
        (folder / "admin").mkdir()
        (folder / "xrootd.cfg").write_text(CONFIG.format(port=self.port))
        # xrootd refuses to run as root
        subprocess.run(["chmod", "-R", "a+rwX", str(folder)], check=True)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        argv = ["xrootd", "-n", "bench", "-c", "/srv/bench/xrootd.cfg"]
        command = client_root().command(argv, binds={self.folder: "/srv/bench"}, env={"LANG": "C"}, user="xrootd")
        log = (self.folder / "log").open("ab")
        self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert self._process.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.05)
        raise AssertionError((self.folder / "log").read_text())

    def signal(self, number: signal.Signals) -> None:
        for pid in self._pids():
            os.kill(pid, number)

    def stop(self) -> None:
        if self._process is not None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGKILL)
            self._process.wait(timeout=20)
            self._process = None

    def _pids(self) -> list[int]:
        """The server sits below unshare, which does not hand signals on."""
        marker = str(self.port)
        pids = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                inside = (folder / "root/srv/bench/xrootd.cfg").read_text()
            except OSError:
                continue
            if words[0] == b"xrootd" and marker in inside:
                pids.append(int(folder.name))
        return pids


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    # pytest's folders are closed to the user that xrootd runs as
    for parent in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        parent.chmod(0o755)
    running = Server(tmp_path)
    running.start()
    yield running
    running.stop()

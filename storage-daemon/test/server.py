# SPDX-License-Identifier: Apache-2.0
"""A real xrootd on loopback, with the configuration that is shipped: only places and port are changed."""

import os
import re
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import segment
from control import Control

TOP = Path(__file__).resolve().parent.parent
START_SECONDS = 120.0
FIRST_OF_CLIENTS = 32768  # Linux, net.ipv4.ip_local_port_range
# For clients that are held on purpose.
PATIENT = {"XRD_REQUESTTIMEOUT": "100", "XRD_STREAMTIMEOUT": "100"}


class ServerError(Exception):
    """The server did not do what it was told to."""


def own_disk(place: Path, size: str) -> tuple[str, ...]:
    """For Server.prefix: the server, and nobody else, sees a filesystem of its own there, in memory."""
    mount = f'mount -t tmpfs -o size={size},mode=0777 tmpfs "$1"; shift; exec "$@"'
    return ("unshare", "--mount", "sh", "-ec", mount, "sh", str(place))


def free_port() -> int:
    """Below those that the kernel gives to clients: one of these might take it before the server does."""
    while True:
        port = secrets.choice(range(10000, FIRST_OF_CLIENTS))
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


class Server:
    """One instance with a folder of its own, run as the user `xrootd`: it refuses to run as root."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.data = folder / "data"
        self.config = folder / "xrootd-beer.cfg"
        self.segment_file = folder / "segment" / "beer.lat"
        self.info_socket = folder / "segment" / "beer.info"
        self.control = Control(
            folder / "control" / "shaping", lambda: int(self.segment()["header"]["shaping_sequence"])
        )
        self.policy_file = folder / "policy"
        self.prefix: Sequence[str] = ()  # a command that starts the server
        self.plugin = os.environ["BEER_PLUGIN"]
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(exist_ok=True)
        for name in ("admin", "pid", "segment", "data/01/store", "data/01/jobs", "data/02/store"):
            (folder / name).mkdir(parents=True)
        subprocess.run([TOP / "config" / "beer-storage-keys", "--root", folder / "installed"], check=True)
        shutil.copy(TOP / "config" / "beer-policy.cfg", self.policy_file)
        self.write_config()
        folder.chmod(0o755)
        self.control.path.parent.mkdir(mode=0o755)
        for path in [folder, *folder.rglob("*")]:
            if (folder / "installed/etc/beer") not in path.parents and path != self.control.path.parent:
                shutil.chown(path, "xrootd", "xrootd")

    def write_config(self, replace: dict[str, str] | None = None, append: str = "") -> None:
        """The shipped files, moved into this folder; `replace` changes lines that begin with the key."""
        places = {
            "/etc/xrootd/beer.keytab": f"{self.folder}/installed/etc/xrootd/beer.keytab",
            "/etc/xrootd/beer-authdb": f"{self.folder}/authdb",
            "/run/beer/storage/beer.lat": str(self.segment_file),
            "/run/beer/storage/beer.info": str(self.info_socket),
            "/run/beer/control/shaping": str(self.control.path),
            "/etc/xrootd/beer-policy.cfg": str(self.policy_file),
            "/var/spool/xrootd": f"{self.folder}/admin",
            "/run/xrootd": f"{self.folder}/pid",
            "libXrdBeer.so": self.plugin,
            "xrd.port 1094": f"xrd.port {self.port}",
            # Two directories of one filesystem stand for two mounted disks.
            "beer.fs /data": f"beer.fs {self.data}/01 {self.data}/02",
            "all.export /data": f"all.export {self.data}",
            "beer.batch 10.127.0.0/16": "beer.batch 127.0.0.2/32",
        }
        text = (TOP / "config" / "xrootd-beer.cfg").read_text()
        for old, new in places.items():
            if old not in text:
                raise ServerError(f"{old!r} is no longer in xrootd-beer.cfg")
            text = text.replace(old, new)
        for start, line in (replace or {}).items():
            text, count = re.subn(rf"^{re.escape(start)}.*$", line, text, flags=re.MULTILINE)
            if not count:
                raise ServerError(f"no line {start!r} in xrootd-beer.cfg")
        self.config.write_text(text + append)
        authdb = (TOP / "config" / "beer-authdb").read_text()
        (self.folder / "authdb").write_text(re.sub(r"(?<=\s)/data", str(self.data), authdb))

    # Life

    def launch(self) -> "subprocess.Popen[bytes]":
        """Starts the process and waits for nothing."""
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        if preload := os.environ.get("BEER_PRELOAD"):
            # XRootD itself leaks what it configures; ours is found by the unit tests. It is not built with
            # ThreadSanitizer, which sees its locks but not its memory.
            env |= {"LD_PRELOAD": preload, "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1"}
            env |= {"TSAN_OPTIONS": "ignore_noninstrumented_modules=1:halt_on_error=0:exitcode=66"}
        drop = ["setpriv", "--reuid=xrootd", "--regid=xrootd", "--clear-groups", "env"]
        drop += [f"{key}={value}" for key, value in env.items()]
        command = [*self.prefix, *drop, "xrootd", "-c", str(self.config), "-n", "beer"]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        return self._process

    def start(self) -> None:
        before = len(self.log())
        process = self.launch()
        ready = re.compile(r"xrootd beer@\S+ initialization completed")  # its parts say the same of themselves
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise ServerError(f"xrootd ended with {process.returncode}:\n{self.log()[-3000:]}")
            if ready.search(self.log(), before):
                return
            time.sleep(0.05)
        raise ServerError(f"xrootd is not up after {START_SECONDS} s:\n{self.log()[-3000:]}")

    def stop(self, signal: int = 15) -> int:
        if self._process is None:
            return 0
        self._process.send_signal(signal)
        code = self._process.wait(timeout=30)
        self._process = None
        if "WARNING: ThreadSanitizer" in self.log():
            raise ServerError(f"a data race:\n{self.log()[-20000:]}")
        return code

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServerError("not started")
        return self._process.pid

    @property
    def log_file(self) -> Path:
        return self.folder / "log"

    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    # Clients

    def url(self, path: str, *, port: int | None = None, user: str = "") -> str:
        """A client makes one connection for each `user`; it is no more than a name."""
        name = f"{user}@" if user else ""
        return f"root://{name}127.0.0.1:{port or self.port}/{self.data}/{path}"

    def client_env(self, user: str = "storage") -> dict[str, str]:
        return os.environ | {
            "XrdSecPROTOCOL": "sss",
            "XrdSecSSSKT": str(self.folder / f"installed/etc/beer/keys/{user}.keytab"),
            "XRD_CONNECTIONRETRY": "1",
            "XRD_REQUESTTIMEOUT": "20",
            "XRD_STREAMTIMEOUT": "20",
        }

    def run(
        self, *command: str | Path, user: str = "storage", check: bool = True, env: dict[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """A client command in the name of a user."""
        words = [str(word) for word in command]
        done = subprocess.run(
            words, env=self.client_env(user) | (env or {}), capture_output=True, text=True, timeout=300, check=False
        )
        if check and done.returncode != 0:
            raise ServerError(f"{' '.join(words)}: {done.returncode}: {done.stdout}{done.stderr}")
        return done

    def xrdfs(self, *command: str, port: int | None = None, **options: Any) -> "subprocess.CompletedProcess[str]":
        return self.run("xrdfs", f"127.0.0.1:{port or self.port}", *command, **options)

    def path(self, name: str) -> str:
        """Name of a file as clients say it."""
        return f"{self.data}/{name}"

    # The segment

    def segment(self) -> dict[str, Any]:
        return segment.read(self.segment_file.read_bytes())

    def count(self, name: str, field: str = "operations") -> int:
        return segment.total(self.segment(), name, field)

    @contextmanager
    def counting(self, **expected: int) -> Iterator[None]:
        """Asserts by how much fields grow in the block: counting(read_storage_bytes=100)."""
        names = {key: key.rsplit("_", 1) for key in expected}
        before = {key: self.count(series.replace("_", "."), field) for key, (series, field) in names.items()}
        yield
        grown = {k: self.count(series.replace("_", "."), field) - before[k] for k, (series, field) in names.items()}
        assert grown == expected


def use_policy(server: Server, text: str) -> None:
    new = server.folder / "policy.new"
    new.write_text(text)
    new.chmod(0o644)
    new.rename(server.policy_file)

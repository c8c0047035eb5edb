# SPDX-License-Identifier: Apache-2.0
"""Does one of everything that a client can do, below one folder, and prints what came of each as JSON.

`everything.py HOST:PORT FOLDER FULL`; the folder has `file` (20 MB) and `broken` (every read fails), the other one no
space.
"""

import hashlib
import json
import sys
from collections.abc import Callable
from typing import Any

from XRootD import client
from XRootD.client.flags import AccessMode, DirListFlags, MkDirFlags, OpenFlags, QueryCode

MANY = 4000
EIO_BYTES = 4096


def digest(data: bytes) -> str:
    return f"{len(data)} bytes {hashlib.sha256(data).hexdigest()[:12]}"


class Everything:
    def __init__(self, endpoint: str, folder: str, full: str) -> None:
        self.url = f"root://{endpoint}/{folder}"
        self.full = f"root://{endpoint}/{full}"
        self.folder = folder
        self.fs = client.FileSystem(f"root://{endpoint}")
        self.found: list[tuple[str, Any]] = []

    def note(self, what: str, status: Any, result: Any = None) -> None:
        """What the client is told: the error number of the server, or the result."""
        self.found.append((what, result if status.ok else f"error {status.code} {status.errno}"))

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def open(self, name: str, flags: Any) -> Any:
        file = client.File()
        status, _ = file.open(f"{self.url}/{name}", flags)
        self.note(f"open {name} {flags}", status)
        return file

    def writing(self) -> None:
        file = self.open("new", OpenFlags.NEW)
        data = bytes(range(256)) * 40_000
        self.note("write", file.write(data, 0)[0])
        self.note("write unaligned", file.write(b"x" * 12345, 777)[0])
        self.note("sync", file.sync()[0])
        self.note("truncate", file.truncate(10_000_001)[0])
        self.note("write beyond", file.write(b"end", 10_100_000)[0])
        self.note("set attribute", file.set_xattr([("colour", "blue"), ("size", "L")])[0])
        self.note("close", file.close()[0])
        self.open("new", OpenFlags.NEW)
        file = self.open("new", OpenFlags.UPDATE)
        status, data = file.read(0, 11_000_000)
        self.note("read back", status, digest(data or b""))
        self.note("close", file.close()[0])

    def reading(self) -> None:
        file = self.open("file", OpenFlags.READ)
        status, info = file.stat()
        self.note("stat of a file", status, info and info.size)
        for offset, size in ((0, 1), (0, 8 << 20), (4095, 4097), (19_999_990, 4096), (30_000_000, 10)):
            status, data = file.read(offset, size)
            self.note(f"read {offset} {size}", status, digest(data or b""))
        pieces = [(n * 1_000_003, 5000 + n) for n in range(19)]
        status, found = file.vector_read(pieces)
        self.note("vector read", status, [digest(chunk.buffer) for chunk in found or []])
        status, found = file.vector_read([(0, 10), (19_999_999, 10)])
        self.note("vector read beyond the end", status, [digest(chunk.buffer) for chunk in found or []])
        self.note("write to a file open for reading", file.write(b"x", 0)[0])
        self.note("close", file.close()[0])
        for name in ("none", ".", "none/none"):
            self.open(name, OpenFlags.READ)

    def names(self) -> None:
        fs, path = self.fs, self.path
        calls: list[tuple[str, Callable[[], Any], Callable[[Any], Any]]] = [
            ("mkdir", lambda: fs.mkdir(path("a/b/c"), MkDirFlags.MAKEPATH), bool),
            ("mkdir again", lambda: fs.mkdir(path("a"), MkDirFlags.NONE), bool),
            ("stat", lambda: fs.stat(path("file")), lambda r: (r.size, r.flags)),
            ("stat of a folder", lambda: fs.stat(path("a")), lambda r: r.flags),
            ("stat of nothing", lambda: fs.stat(path("none")), bool),
            ("rename", lambda: fs.mv(path("new"), path("a/b/moved")), bool),
            ("rename nothing", lambda: fs.mv(path("none"), path("a/x")), bool),
            ("truncate", lambda: fs.truncate(path("a/b/moved"), 1000), bool),
            ("chmod", lambda: fs.chmod(path("a/b/moved"), AccessMode.UR | AccessMode.UW), bool),
            ("list", lambda: fs.dirlist(path("a/b"), DirListFlags.STAT), lambda r: sorted(self.entry(e) for e in r)),
            ("list nothing", lambda: fs.dirlist(path("none")), bool),
            ("checksum", lambda: fs.query(QueryCode.CHECKSUM, path("a/b/moved")), lambda r: r.decode().strip("\0")),
            ("checksum of nothing", lambda: fs.query(QueryCode.CHECKSUM, path("none")), bool),
            ("attributes", lambda: fs.list_xattr(path("a/b/moved")), lambda r: sorted(str(one[:2]) for one in r)),
            ("get one", lambda: fs.get_xattr(path("a/b/moved"), ["colour"]), lambda r: [one[:2] for one in r]),
            ("remove one", lambda: fs.del_xattr(path("a/b/moved"), ["colour"]), bool),
            ("attributes", lambda: fs.list_xattr(path("a/b/moved")), lambda r: sorted(str(one[:2]) for one in r)),
            ("space", lambda: fs.query(QueryCode.SPACE, path(".")), lambda r: b"oss.cgroup" in r),
            ("rmdir of a full one", lambda: fs.rmdir(path("a")), bool),
            ("remove", lambda: fs.rm(path("a/b/moved")), bool),
            ("remove nothing", lambda: fs.rm(path("none")), bool),
            ("rmdir", lambda: fs.rmdir(path("a/b/c")), bool),
            ("ping", fs.ping, bool),
        ]
        for what, call, shown in calls:
            status, result = call()
            self.note(what, status, shown(result) if status.ok and result is not None else None)

    @staticmethod
    def entry(entry: Any) -> tuple[str, int]:
        return entry.name, entry.statinfo.size

    def failing(self) -> None:
        """A disk that answers with errors, and one without space."""
        file = self.open("broken", OpenFlags.READ)
        self.note("read of a broken disk", file.read(0, EIO_BYTES)[0])
        self.note("vector read of a broken disk", file.vector_read([(0, 10), (100, 10)])[0])
        self.note("close", file.close()[0])
        file = client.File()
        self.note("open where there is no space", file.open(f"{self.full}/file", OpenFlags.NEW)[0])
        self.note("write without space", file.write(b"x" * (4 << 20), 0)[0])
        self.note("close", file.close()[0])

    def many(self) -> None:
        """So many open files of one client."""
        files = [client.File() for _ in range(MANY)]
        opened = sum(file.open(f"{self.url}/file", OpenFlags.READ)[0].ok for file in files)
        read = sum(file.read(n * 10, 10)[0].ok for n, file in enumerate(files))
        closed = sum(file.close()[0].ok for file in files)
        self.found.append(("many files", (opened, read, closed)))


def main(endpoint: str, folder: str, full: str) -> int:
    one = Everything(endpoint, folder, full)
    for part in (one.writing, one.reading, one.names, one.failing, one.many):
        part()
    print(json.dumps(one.found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))

# SPDX-License-Identifier: Apache-2.0
"""The cache: every entry is a directory named by the hash of its inputs, made once and never changed after.

Two processes that want the same entry build it once: the second waits for the lock. An entry appears by rename, so a
build that was killed leaves nothing that looks finished.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import LabError
from .paths import TOP, cache
from .process import remove_tree
from .progress import say

# How many entries of one name are kept: the newest use counts. Running nodes may still stand on the last but one.
KEEP = 3
INSTANCE = "instance"


def digest(inputs: Any) -> str:
    """Short hash of anything that JSON can say."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True, default=str).encode()).hexdigest()[:16]


def files_of(folder: Path) -> list[Path]:
    """Files of a folder that git tracks or would track, sorted, relative to the folder."""
    listing = subprocess.run(
        ["git", "-C", str(TOP), "ls-files", "-z", "-co", "--exclude-standard", "--", str(folder)],
        capture_output=True,
        check=False,
    )
    if listing.returncode != 0:
        raise LabError(f"{folder}: git ls-files failed: {listing.stderr.decode().strip()}")
    names = {TOP / name.decode() for name in listing.stdout.split(b"\0") if name}
    return sorted(path.relative_to(folder) for path in names if path.is_symlink() or path.is_file())


def folder_digest(folder: Path) -> str:
    """Hash of names, modes and contents of what git sees in a folder."""
    total = hashlib.sha256()
    for relative in files_of(folder):
        path = folder / relative
        content = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
        executable = not path.is_symlink() and os.access(path, os.X_OK)
        total.update(f"{relative}\0{int(executable)}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()[:16]


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Holds the lock of that name; says so when it has to wait."""
    path = cache() / "locks" / f"{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that builds {name}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def entry(kind: str, name: str, inputs: Any, build: Callable[[Path], None]) -> Path:
    """The cache entry for these inputs; `build` fills a fresh directory when there is none."""
    final = cache() / kind / f"{name}-{digest(inputs)}"
    if not final.exists():
        with locked(f"{kind}-{name}"):
            if not final.exists():
                _build(final, name, inputs, build)
    os.utime(final)
    return final


def _build(final: Path, name: str, inputs: Any, build: Callable[[Path], None]) -> None:
    final.parent.mkdir(parents=True, exist_ok=True)
    part = final.with_name(final.name + ".part")
    # Of the same length: `node-demo` is another entry, with a lock of its own, than `node`.
    for stale in final.parent.glob(f"{name}-*.part"):
        if len(stale.name) == len(part.name):
            remove_tree(stale)
    part.mkdir()
    try:
        build(part)
    except BaseException:
        remove_tree(part)
        raise
    (part / "inputs.json").write_text(json.dumps(inputs, sort_keys=True, indent=1, default=str) + "\n")
    (part / INSTANCE).write_text(secrets.token_hex(8) + "\n")
    part.rename(final)
    siblings = sorted(
        (path for path in final.parent.glob(f"{name}-*") if len(path.name) == len(final.name)),
        key=lambda path: path.stat().st_mtime,
        reverse=True,
    )
    for old in siblings[KEEP:]:
        if not in_use(old):
            remove_tree(old)


def instance(path: Path) -> str:
    """Tells an entry from one with the same inputs that was made at another time: file systems differ in their ids."""
    return (path / INSTANCE).read_text().strip()


def in_use(path: Path) -> bool:
    """Whether a disk of the entry is open in a QEMU, which locks every image of a backing chain."""
    for disk in path.glob("*.img"):
        with disk.open("r+b") as handle:
            try:
                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
    return False

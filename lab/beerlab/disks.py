# SPDX-License-Identifier: Apache-2.0
"""Disk images of a node, made without root and without a loop device, and the known files on them."""

from __future__ import annotations

import hashlib
import os
import random
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import loadfiles
from .process import as_root, run
from .progress import step
from .roots import node_root
from .spec import SCRATCH_ON_DATA, DiskSpec, NodeSpec, size
from .store import entry

# Raise when the content of the images changes.
RECIPE = 3
LOAD_FILES = 16
LOAD_FILE_BYTES = 1 << 30
REAL_FILES = 8
REAL_FILE_BYTES = 4 << 20
SWAP_BYTES = 2 << 30
# No metadata_csum: loadfiles edits extent blocks. Small inode tables and journal: made at once, not by the guest later.
FORMAT = ["-t", "ext4", "-O", "^metadata_csum", "-m", "0", "-i", "131072", "-J", "size=64"]
FORMAT += ["-E", "lazy_itable_init=0,lazy_journal_init=0"]


@dataclass(frozen=True)
class RealFile:
    """A file on a data disk with content that is known outside too."""

    path: str
    size: int
    adler32: str
    sha256: str


def load_paths(disk: int) -> list[str]:
    """Big files of a data disk, to load it with reads: /data/0N/store/load/file-NN."""
    return [f"/data/{disk:02}/store/load/file-{number:02}" for number in range(LOAD_FILES)]


def real_files(disk: int) -> list[RealFile]:
    """Files of a data disk with random bytes: /data/0N/store/real/file-NN."""
    found = []
    for number in range(1, REAL_FILES + 1):
        content = real_content(disk, number)
        found.append(
            RealFile(
                f"/data/{disk:02}/store/real/file-{number:02}",
                len(content),
                f"{zlib.adler32(content):08x}",
                hashlib.sha256(content).hexdigest(),
            )
        )
    return found


def real_content(disk: int, number: int) -> bytes:
    """The bytes of a real file: random to look at, the same every time."""
    return random.Random(f"beer {disk} {number}").randbytes(REAL_FILE_BYTES)  # noqa: S311 (no secret)


def node_user(root: Path, name: str) -> tuple[int, int]:
    """Numeric user and group of a user of a root."""
    for line in (root / "etc/passwd").read_text().splitlines():
        fields = line.split(":")
        if fields[0] == name:
            return int(fields[2]), int(fields[3])
    raise KeyError(name)


def images(spec: NodeSpec) -> Mapping[str, Path]:
    """Label -> raw image for all disks of a node but the root disk."""
    return {disk.label: _image(disk, spec) for disk in spec.disks}


def _image(disk: DiskSpec, spec: NodeSpec) -> Path:
    owner = node_user(node_root().path, "xrootd")
    with_scratch = disk.mount is not None and SCRATCH_ON_DATA.startswith(disk.mount + "/")
    with_scratch = with_scratch and spec.layout == "scratch-on-data"
    inputs = {
        "recipe": RECIPE,
        "label": disk.label,
        "kind": disk.kind,
        "size": disk.size,
        "mount": disk.mount,
        "scratch": with_scratch,
        "owner": owner,
        "files": [LOAD_FILES, LOAD_FILE_BYTES, REAL_FILES, REAL_FILE_BYTES, SWAP_BYTES],
    }

    def build(folder: Path) -> None:
        image = folder / "disk.img"
        with step(f"making disk {disk.label}"), image.open("wb") as handle:
            handle.truncate(size(disk.size))
            if disk.kind == "swap":
                run(["mkswap", "-q", "-L", disk.label, image])
            elif disk.kind == "scratch":
                run(["mke2fs", "-q", "-L", disk.label, *FORMAT, image])
            else:
                _make_data(folder, image, disk, owner, with_scratch)

    return entry("disks", disk.label, inputs, build) / "disk.img"


def _make_data(folder: Path, image: Path, disk: DiskSpec, owner: tuple[int, int], with_scratch: bool) -> None:
    assert disk.mount is not None
    number = int(disk.mount.rsplit("/", 1)[1])
    tree = folder / "tree"
    loads = [path.removeprefix(disk.mount) for path in load_paths(number)]
    for name in loads:
        (tree / name[1:]).parent.mkdir(parents=True, exist_ok=True)
        (tree / name[1:]).touch()
    for index, file in enumerate(real_files(number), 1):
        path = tree / file.path.removeprefix(disk.mount)[1:]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(real_content(number, index))
    (tree / "jobs").mkdir()
    user, group = owner
    commands = f"chown -R {user}:{group} {tree}/store {tree}/jobs\n"
    if with_scratch:
        _swap_file(tree / "scratch" / "swap")
        commands += f"chown -R 0:0 {tree}/scratch\n"
    commands += f"mke2fs -q -L {disk.label} {' '.join(FORMAT)},root_owner={user}:{group} -d {tree} {image}\n"
    # One namespace for all of it: the owners exist only inside.
    run([*as_root(), "sh", "-e", "-c", commands + f"rm -rf {tree}"])
    loadfiles.fill(image, loads, LOAD_FILE_BYTES)
    if with_scratch:
        loadfiles.fill(image, ["/scratch/swap"], SWAP_BYTES)


def _swap_file(path: Path) -> None:
    """The header of a swap file; its other blocks are added in the image."""
    path.parent.mkdir()
    with path.open("wb") as handle:
        handle.truncate(SWAP_BYTES)
    path.chmod(0o600)
    run(["mkswap", "-q", path])
    os.truncate(path, loadfiles.BLOCK)


def copy_on_write(image: Path, image_format: str, target: Path) -> None:
    """A disk of a run: a qcow2 overlay, since raw images hold no snapshots."""
    run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", image, "-F", image_format, target])


def clone(source: Path, target: Path) -> None:
    """A copy of a qcow2 file, for nothing where the file system can share extents."""
    run(["cp", "--reflink=auto", "--sparse=auto", source, target])

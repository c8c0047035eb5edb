# SPDX-License-Identifier: Apache-2.0
"""Files of many gigabytes inside an ext4 image that cost the host no space and no time.

Reads must reach the (throttled) disk, so the blocks must count as written: ext4 answers a read of a hole or of an
"unwritten" extent from nothing. debugfs can only allocate unwritten extents (e2fsprogs 1.47 sets the flag whatever the
file's size), so the flag is taken off in the extent blocks themselves. What is read is then what the host's sparse
image holds: zeros, through QEMU's throttle like any other data.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from pathlib import Path

from .errors import LabError
from .process import run

BLOCK = 4096
EXTENT_MAGIC = 0xF30A
# An extent longer than this is an unwritten one of (length - this) blocks: EXT_INIT_MAX_LEN in fs/ext4/ext4_extents.h.
INIT_MAX_LEN = 32768
# At most 128 MiB per unwritten extent and four extents in the inode: from here on there is an extent block to edit.
SMALLEST = 640 << 20


def fill(image: Path, names: Iterable[str], size: int) -> None:
    """Gives each (empty, existing) file `size` bytes of written extents. The image must have no metadata_csum."""
    if size < SMALLEST or size % BLOCK:
        raise LabError(f"load files of {size} bytes: a multiple of {BLOCK} from {SMALLEST} on is needed")
    commands = "".join(
        f"fallocate {name} 0 {size // BLOCK - 1}\nset_inode_field {name} size {size}\n" for name in names
    )
    run(["debugfs", "-w", "-f", "-", image], input_text=commands)
    leaves = [leaf for name in names for leaf in extent_blocks(image, name)]
    with image.open("r+b") as disk:
        for leaf in leaves:
            disk.seek(leaf * BLOCK)
            block = mark_written(disk.read(BLOCK))
            disk.seek(leaf * BLOCK)
            disk.write(block)
    for name in names:
        verify(image, name, size)


def mark_written(block: bytes) -> bytes:
    """An extent leaf block with no unwritten extents."""
    magic, entries, _, depth = struct.unpack_from("<HHHH", block)
    if magic != EXTENT_MAGIC or depth != 0:
        raise LabError(f"no extent leaf block: magic {magic:#x}, depth {depth}")
    changed = bytearray(block)
    for number in range(entries):
        place = 12 + 12 * number + 4
        (length,) = struct.unpack_from("<H", block, place)
        if length > INIT_MAX_LEN:
            struct.pack_into("<H", changed, place, length - INIT_MAX_LEN)
    return bytes(changed)


def extent_blocks(image: Path, name: str) -> list[int]:
    """Block numbers of the extent leaves of a file, from the index level that debugfs prints."""
    leaves = []
    for line in run(["debugfs", "-R", f"ex {name}", image]).splitlines():
        match = re.match(r"\s*(\d+)/\s*(\d+)\s+\d+/\s*\d+\s+\d+\s+-\s+\d+\s+(\d+)\s+\d+\s*$", line)
        if match and int(match[1]) == int(match[2]) - 1:
            leaves.append(int(match[3]))
    if not leaves:
        raise LabError(f"{image.name}: {name} has no extent block")
    return leaves


def verify(image: Path, name: str, size: int) -> None:
    """Every block of the file must be there and count as written."""
    shown = run(["debugfs", "-R", f"ex {name}", image])
    blocks = 0
    for line in shown.splitlines():
        match = re.match(r"\s*(\d+)/\s*(\d+)\s+\d+/\s*\d+\s+\d+\s+-\s+\d+\s+\d+\s+-\s+\d+\s+(\d+)\s*(\w*)", line)
        if match and match[1] == match[2]:
            if match[4]:
                raise LabError(f"{image.name}: {name} has an extent that is {match[4]}")
            blocks += int(match[3])
    if blocks * BLOCK != size:
        raise LabError(f"{image.name}: {name} has {blocks} written blocks, {size // BLOCK} were wanted")

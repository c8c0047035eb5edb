# SPDX-License-Identifier: Apache-2.0
"""Makes the filesystem of the jobs' scratch fit for jobs that are limited on its disk.

A job that waits for a block while it holds a handle of the journal keeps all who write to that filesystem waiting.
Linux lets reads of metadata pass the limits of io.max for that reason (6.12, block/blk-throttle.c), but not what ext4
reads ahead in its tables of inodes (`__ext4_get_inode_loc`, fs/ext4/inode.c): 32 blocks before the one that is asked
for, so that a job that is left two reads per second held up storage for 7 s. That is the largest hole: ext4 also reads
blocks of large extent trees, and the last block of a file that is cut, in a way that waits for the limit. Only a
filesystem of its own for scratch has none. Who lists large folders that are not in memory, storage too, pays for it
with more reads.
"""

from __future__ import annotations

import os
from pathlib import Path

SCRATCH = Path("/var/lib/beer/scratch")


class ScratchError(Exception):
    """The kernel did not take it."""


def prepare(scratch: Path, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> str | None:
    """What was changed; None where there is nothing to change: it is so already, or the filesystem is not ext4.

    It holds until the filesystem is mounted anew.
    """
    number = scratch.stat().st_dev
    name = f"{os.major(number)}:{os.minor(number)}"
    if _kind(name, proc / "self/mountinfo") != "ext4":
        return None
    knob = sys / "fs/ext4" / (sys / "dev/block" / name).resolve(strict=True).name / "inode_readahead_blks"
    before = knob.read_text().strip()
    if before == "0":
        return None
    knob.write_text("0")
    if (found := knob.read_text().strip()) != "0":
        raise ScratchError(f"{knob}: 0 was written, it has {found}")
    return f"{knob}: 0 (was {before})"


def _kind(device: str, mounts: Path) -> str | None:
    """Of the filesystem on this device (man 5 proc_pid_mountinfo)."""
    for line in mounts.read_text(errors="surrogateescape").splitlines():
        about, _, rest = line.partition(" - ")
        if about.split()[2] == device:
            return rest.split()[0]
    return None

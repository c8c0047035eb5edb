# SPDX-License-Identifier: Apache-2.0
"""A node as data: cores, memory, disks and the layout of its scratch space."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from .errors import LabError

Layout = Literal["scratch-apart", "scratch-on-data"]
Kind = Literal["data", "scratch", "swap"]
LAYOUTS: tuple[Layout, ...] = ("scratch-apart", "scratch-on-data")
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}

# One HDD gives 250 IOPS and 190 MB/s. An emulated CPU is some 18 times slower than the host's, so a node could not
# saturate such a disk and still serve requests: the disk is scaled down with the CPU.
DATA_IOPS = 120
DATA_BYTES_PER_SECOND = 60_000_000


def size(text: str) -> int:
    """Bytes of a quantity with unit: "4GiB"."""
    match = re.fullmatch(r"(\d+)(KiB|MiB|GiB|TiB)", text)
    if not match:
        raise LabError(f"{text!r} is not a size: a number with KiB, MiB, GiB or TiB is")
    return int(match[1]) * UNITS[match[2]]


@dataclass(frozen=True)
class HeadSpec:
    """What seekdisk.py adds to the reads of a disk: a seek wherever they are not sequential, and the platters' rate."""

    seek_ms: float
    bytes_per_second: int


@dataclass(frozen=True)
class DiskSpec:
    """One disk; limits of None mean as fast as the host gives it. Those of a disk with a head are the head's."""

    label: str
    kind: Kind
    size: str
    iops: int | None = None
    bytes_per_second: int | None = None
    mount: str | None = None
    head: HeadSpec | None = None

    @property
    def limits(self) -> tuple[int | None, int | None]:
        """Requests and bytes per second that QEMU lets pass."""
        return (None, None) if self.head else (self.iops, self.bytes_per_second)

    def __post_init__(self) -> None:
        size(self.size)
        if not re.fullmatch(r"beer-[a-z0-9]{1,11}", self.label):
            raise LabError(f"disk label {self.label!r}: beer-<name>, at most 16 characters (ext4), is allowed")


def data_disk(number: int, iops: int | None = DATA_IOPS, rate: int | None = DATA_BYTES_PER_SECOND) -> DiskSpec:
    return DiskSpec(f"beer-data{number}", "data", "24GiB", iops, rate, f"/data/{number:02}")


SCRATCH = "/var/lib/beer/scratch"
# On the data disk, beside what is exported: XRootD's authdb knows only store/ and jobs/.
SCRATCH_ON_DATA = "/data/01/scratch"


def default_disks(layout: Layout, data: int = 2) -> tuple[DiskSpec, ...]:
    """Data disks; apart: scratch and swap on disks of their own."""
    disks = tuple(data_disk(number) for number in range(1, data + 1))
    if layout == "scratch-apart":
        disks += (DiskSpec("beer-scratch", "scratch", "16GiB", mount=SCRATCH), DiskSpec("beer-swap", "swap", "2GiB"))
    return disks


def default_cores() -> int:
    """Three where there are three: one that batch may not use, and one each for a hostile and an innocent job.

    Two where there are less: a virtual CPU that the host has put aside holds locks for which the others spin. With two
    instead of three on two cores, the same requests took 0.38 instead of 0.62 CPUs of the storage service.
    """
    return max(2, min(3, len(os.sched_getaffinity(0))))


@dataclass(frozen=True)
class NodeSpec:
    """cores counts all hardware threads: sockets x cores per socket x threads per core."""

    cores: int = field(default_factory=default_cores)
    memory: str = "4GiB"
    layout: Layout = "scratch-apart"
    disks: tuple[DiskSpec, ...] = field(default=())
    sockets: int = 1
    threads: int = 1

    def __post_init__(self) -> None:
        if self.layout not in LAYOUTS:
            raise LabError(f"layout {self.layout!r}: allowed are {', '.join(LAYOUTS)}")
        if self.cores < 1 or self.cores % (self.sockets * self.threads):
            raise LabError(f"cores={self.cores} is no multiple of sockets={self.sockets} x threads={self.threads}")
        size(self.memory)
        object.__setattr__(self, "disks", tuple(self.disks) or default_disks(self.layout))
        labels = [disk.label for disk in self.disks]
        if len(set(labels)) != len(labels):
            raise LabError(f"disk labels are not unique: {', '.join(labels)}")

    def as_dict(self) -> dict[str, Any]:
        raw = asdict(self)
        for disk in raw["disks"]:
            # Few have one: without it the template of a node is the one that it was before there were any.
            if disk["head"] is None:
                del disk["head"]
        return raw

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> NodeSpec:
        disks = [{**disk, "head": HeadSpec(**disk["head"]) if disk.get("head") else None} for disk in raw["disks"]]
        return cls(**{**raw, "disks": tuple(DiskSpec(**disk) for disk in disks)})

    def without_heads(self) -> NodeSpec:
        """The same machine to look at from inside; a snapshot of one can be resumed with the other."""
        return replace(self, disks=tuple(replace(disk, head=None) for disk in self.disks))

    def fstab(self) -> str:
        """What a site would have in /etc/fstab for these disks."""
        lines = []
        for disk in self.disks:
            if disk.kind == "swap":
                lines.append(f"LABEL={disk.label} none swap sw 0 0")
            else:
                lines.append(f"LABEL={disk.label} {disk.mount} ext4 noatime 0 2")
        if self.layout == "scratch-on-data":
            lines.append(f"{SCRATCH_ON_DATA} {SCRATCH} none bind 0 0")
            lines.append(f"{SCRATCH_ON_DATA}/swap none swap sw 0 0")
        return "\n".join(lines) + "\n"

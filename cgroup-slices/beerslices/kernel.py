# SPDX-License-Identifier: Apache-2.0
"""What the kernel really enforces, read back from cgroup v2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .plan import Limit, Plan
from .quantity import MIB, QuantityError, parse_cpus

# slice name -> path below the cgroup root
PATHS = {
    "beer.slice": "beer.slice",
    "beer-jobs.slice": "beer.slice/beer-jobs.slice",
    "beer-ctl.slice": "beer.slice/beer-ctl.slice",
    "storage.slice": "storage.slice",
}
FILES = {
    "AllowedCPUs": "cpuset.cpus",
    "MemoryMax": "memory.max",
    "MemoryHigh": "memory.high",
    "MemoryMin": "memory.min",
    "MemoryLow": "memory.low",
    "MemorySwapMax": "memory.swap.max",
    "IOReadBandwidthMax": "io.max",
    "IOWriteBandwidthMax": "io.max",
}


class KernelError(Exception):
    """A slice is not there, or without the limit it must have."""


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        raise KernelError(f"{path}: {error.strerror}") from error


def cap(cgroups: Path) -> tuple[int, int]:
    """CPUs and bytes inside the hard cap in force now. A cap that is not there is an error, never 'everything'."""
    beer = cgroups / PATHS["beer.slice"]
    # An empty cpuset.cpus means "like the parent": the cap was never set.
    configured, memory = _read(beer / "cpuset.cpus"), _read(beer / "memory.max")
    if not configured:
        raise KernelError(f"{beer / 'cpuset.cpus'}: empty, so batch would have every CPU")
    if memory == "max":
        raise KernelError(f"{beer / 'memory.max'}: max, so batch would have all memory")
    try:
        return len(parse_cpus(_read(beer / "cpuset.cpus.effective"))), int(memory)
    except (QuantityError, ValueError) as error:
        raise KernelError(f"{beer}: {error}") from error


def differences(plan: Plan, cgroups: Path) -> Iterator[str]:
    """One line for each limit that the kernel does not have as planned."""
    for limit in plan.limits:
        path = cgroups / PATHS[limit.slice] / FILES[limit.key]
        try:
            found = _read(path)
            same = _same(limit, found)
        except (KernelError, ValueError) as error:
            found, same = str(error), False
        if not same:
            yield f"{limit.slice} {limit.key}: planned {limit.value}, {path} has {found!r}"


def _same(limit: Limit, found: str) -> bool:
    if limit.key == "AllowedCPUs":
        return parse_cpus(found) == parse_cpus(limit.value)
    if limit.key.startswith("IO"):
        word = {"IOReadBandwidthMax": "rbps", "IOWriteBandwidthMax": "wbps"}[limit.key]
        return f"{word}={limit.value.split()[1]}" in found.split()
    return found != "max" and int(found) == int(limit.value.removesuffix("M")) * MIB

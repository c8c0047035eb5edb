# SPDX-License-Identifier: Apache-2.0
"""What the machine has: physical cores with their hardware threads, by socket, and memory."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from .quantity import QuantityError, format_cpus, parse_cpus


class InventoryError(Exception):
    """The machine, or a file that describes one, could not be read."""


@dataclass(frozen=True)
class Core:
    """One physical core: its hardware threads share execution units and caches, so they are never split."""

    socket: int
    cpus: frozenset[int]

    @property
    def first(self) -> int:
        return min(self.cpus)


@dataclass(frozen=True)
class Inventory:
    cores: tuple[Core, ...]
    memory_bytes: int

    @property
    def cpus(self) -> frozenset[int]:
        return frozenset(cpu for core in self.cores for cpu in core.cpus)

    def to_json(self) -> str:
        sockets: dict[str, list[str]] = {}
        for core in self.cores:
            sockets.setdefault(str(core.socket), []).append(format_cpus(core.cpus))
        return json.dumps({"memory_kib": self.memory_bytes >> 10, "sockets": sockets}, indent=1)


def from_json(text: str, name: str) -> Inventory:
    """Reads what `beer-slices inventory` prints."""
    try:
        data = json.loads(text)
        cores = [Core(int(socket), parse_cpus(cpus)) for socket, entry in data["sockets"].items() for cpus in entry]
        return _checked(cores, int(data["memory_kib"]) << 10)
    except (ValueError, KeyError, AttributeError, TypeError, QuantityError) as error:
        raise InventoryError(f"{name}: not an inventory ({error})") from error


def from_machine(root: Path = Path("/")) -> Inventory:
    """Reads /sys and /proc. Present CPUs that are offline are not part of the machine."""
    base = root / "sys/devices/system/cpu"
    try:
        cores: dict[frozenset[int], Core] = {}
        online = parse_cpus((base / "online").read_text())
        for cpu in sorted(online):
            topology = base / f"cpu{cpu}" / "topology"
            # core_cpus_list lists SMT siblings; core_id repeats between sockets and dies, so it names no core.
            siblings = parse_cpus((topology / "core_cpus_list").read_text()) & online
            cores.setdefault(siblings, Core(int((topology / "physical_package_id").read_text()), siblings))
        match = re.search(r"^MemTotal:\s+(\d+) kB$", (root / "proc/meminfo").read_text(), re.MULTILINE)
    except (OSError, ValueError) as error:
        raise InventoryError(f"cannot read the machine's CPUs and memory: {error}") from error
    if match is None:
        raise InventoryError("cannot read the machine's memory: /proc/meminfo has no MemTotal")
    return _checked(list(cores.values()), int(match[1]) << 10)


def _checked(cores: list[Core], memory: int) -> Inventory:
    if not cores or memory <= 0:
        raise InventoryError("no cores, or no memory")
    if sum(len(core.cpus) for core in cores) != len({cpu for core in cores for cpu in core.cpus}):
        raise InventoryError("a CPU belongs to two cores")
    return Inventory(tuple(sorted(cores, key=lambda core: (core.socket, core.first))), memory)

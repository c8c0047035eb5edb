# SPDX-License-Identifier: Apache-2.0
"""The planner: a pure function (inventory, configuration) -> limits, each with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from . import quantity
from .config import Config
from .inventory import Core, Inventory
from .quantity import MIB, format_cpus

# The system and a small storage daemon do not run well below this, however small the machine.
RESERVED_FLOOR = 1536 * MIB
# HTCondor, Docker and containerd at rest; what each job adds is memory.control_per_cpu.
CONTROL_FLOOR = 256 * MIB
# Less than this is not worth a batch job.
JOBS_FLOOR = 512 * MIB
# On a trial machine with one CPU for batch two jobs share it: with one there is neither guilty nor innocent.
SLOTS_FLOOR = 2


class PlanError(Exception):
    """This machine, or this configuration on it, leaves nothing for batch or nothing for storage."""


@dataclass(frozen=True)
class Limit:
    """One property of one slice, the kernel file that shows it, and why it has this value."""

    slice: str
    key: str
    value: str
    why: str


@dataclass(frozen=True)
class Plan:
    limits: tuple[Limit, ...]
    allowed_cpus: frozenset[int]

    def value(self, slice_: str, key: str) -> str:
        return next(limit.value for limit in self.limits if (limit.slice, limit.key) == (slice_, key))


@dataclass(frozen=True)
class Offer:
    """What HTCondor may hand out."""

    cores: int
    memory_mib: int
    slots_per_core: float


def make(inventory: Inventory, config: Config) -> Plan:
    allowed, why_cpus = _cpus(inventory, config)
    limits = [
        Limit("beer.slice", "AllowedCPUs", format_cpus(allowed), why_cpus),
        *_memory(inventory, config, len(allowed)),
    ]
    for key, text in (("IOReadBandwidthMax", config.control_read), ("IOWriteBandwidthMax", config.control_write)):
        limit = quantity.rate(text)
        if limit is not None:
            why = f"{text} of image pulls and job sandboxes, which no freeze stops (control.*)"
            limits.append(Limit("beer-ctl.slice", key, f"/var/lib/beer/scratch {limit}", why))
    return Plan(tuple(limits), allowed)


def offer(config: Config, cpus: int, batch_bytes: int) -> Offer:
    """The capacity inside a cap of so many CPUs and so much memory."""
    jobs = batch_bytes - _control(config, cpus)
    cores = max(SLOTS_FLOOR, int(cpus * quantity.percent(config.offer_cores, 400)))
    return Offer(cores, int(jobs * quantity.percent(config.offer_memory, 100)) // MIB, cores / cpus)


def _cpus(inventory: Inventory, config: Config) -> tuple[frozenset[int], str]:
    if config.cpu_allowed:
        allowed = quantity.parse_cpus(config.cpu_allowed)
        if not allowed < inventory.cpus:
            missing = format_cpus(allowed - inventory.cpus)
            problem = f"this machine has no CPU {missing}" if missing else "nothing is left for storage"
            raise PlanError(f"cpu.allowed: {config.cpu_allowed}: {problem}")
        split = [core for core in inventory.cores if 0 < len(core.cpus & allowed) < len(core.cpus)]
        warning = f"; splits {len(split)} physical cores between storage and batch" if split else ""
        return allowed, f"as configured (cpu.allowed){warning}"
    count = quantity.share_or_cores(config.cpu_reserved, len(inventory.cores))
    count = max(1, count)
    if count >= len(inventory.cores):
        raise PlanError(f"cpu.reserved: {config.cpu_reserved} of {len(inventory.cores)} cores leaves none for batch")
    kept = _spread(inventory.cores, count)
    storage = frozenset(cpu for core in kept for cpu in core.cpus)
    sockets = len({core.socket for core in kept})
    why = (
        f"all but CPUs {format_cpus(storage)}: {count} whole cores of {len(inventory.cores)}, on {sockets} socket(s), "
        f"stay storage's alone (cpu.reserved {config.cpu_reserved})"
    )
    return inventory.cpus - storage, why


def _spread(cores: Sequence[Core], count: int) -> list[Core]:
    """The first cores of every socket, in turn: a NIC or a disk controller may hang on any of them."""
    sockets: dict[int, list[Core]] = {}
    for core in cores:
        sockets.setdefault(core.socket, []).append(core)
    turns = [(rank, socket, core) for socket, group in sockets.items() for rank, core in enumerate(group)]
    return [core for _, _, core in sorted(turns, key=lambda turn: turn[:2])[:count]]


def _control(config: Config, cpus: int) -> int:
    return CONTROL_FLOOR + cpus * quantity.size(config.memory_control_per_cpu)


def _memory(inventory: Inventory, config: Config, cpus: int) -> list[Limit]:
    total = inventory.memory_bytes
    reserved = max(quantity.share_or_bytes(config.memory_reserved, total), RESERVED_FLOOR)
    batch = total - reserved
    control = _control(config, cpus)
    jobs = batch - control
    if jobs < JOBS_FLOOR:
        raise PlanError(
            f"memory.reserved: {_mib(total)} less {_mib(reserved)} for storage and the system and {_mib(control)} for "
            f"HTCondor and the engine leaves less than {_mib(JOBS_FLOOR)} for jobs"
        )
    swap = quantity.share_or_bytes(config.memory_swap, batch)
    return [
        Limit(
            "beer.slice",
            "MemoryMax",
            _mib(batch),
            f"{_mib(total)} less {_mib(reserved)} for storage and the system (memory.reserved "
            f"{config.memory_reserved}, at least {_mib(RESERVED_FLOOR)})",
        ),
        Limit("beer.slice", "MemorySwapMax", _mib(swap), f"slack, not capacity (memory.swap {config.memory_swap})"),
        Limit("beer.slice", "MemoryMin", _mib(control // 2), "beer-ctl.slice's is void without its parent's"),
        Limit(
            "beer-jobs.slice",
            "MemoryMax",
            _mib(jobs),
            f"the cap less {_mib(control)} that jobs must not take from HTCondor and the engine "
            f"({_mib(CONTROL_FLOOR)} and {config.memory_control_per_cpu} for each of {cpus} CPUs, "
            "memory.control_per_cpu)",
        ),
        Limit("beer-jobs.slice", "MemoryHigh", _mib(jobs * 96 // 100), "reclaim begins before the OOM killer does"),
        Limit(
            "beer-ctl.slice",
            "MemoryMin",
            _mib(control // 2),
            "half of what is kept for the daemons: they stay in memory, their page cache may go",
        ),
        Limit(
            "storage.slice",
            "MemoryLow",
            _mib(reserved * 3 // 4),
            "three quarters of what batch cannot have; the rest is the system's",
        ),
    ]


def _mib(size: int) -> str:
    return f"{size // MIB}M"

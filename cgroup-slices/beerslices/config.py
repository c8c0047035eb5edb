# SPDX-License-Identifier: Apache-2.0
"""What the site wants: /etc/beer/slices.toml. Unknown keys and values are refused with their path."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace

from . import quantity
from .quantity import QuantityError


class ConfigError(Exception):
    """The file says something that cannot be done; the message names file and key."""


@dataclass(frozen=True)
class Config:
    """Texts as written; shares are resolved by the planner, which knows the machine."""

    cpu_reserved: str = "25%"
    cpu_allowed: str = ""
    memory_reserved: str = "25%"
    memory_swap: str = "100%"
    memory_control_per_cpu: str = "32MiB"
    offer_cores: str = "100%"
    offer_memory: str = "92%"
    control_read: str = "100MB/s"
    control_write: str = "100MB/s"


_WHOLE = 1 << 40
# Key path -> field, and a trial reading that raises QuantityError.
KEYS: dict[str, tuple[str, Callable[[object], object]]] = {
    "cpu.reserved": ("cpu_reserved", lambda text: quantity.share_or_cores(text, 1)),
    "cpu.allowed": ("cpu_allowed", quantity.parse_cpus),
    "memory.reserved": ("memory_reserved", lambda text: quantity.share_or_bytes(text, _WHOLE)),
    "memory.swap": ("memory_swap", lambda text: quantity.share_or_bytes(text, _WHOLE)),
    "memory.control_per_cpu": ("memory_control_per_cpu", quantity.size),
    "offer.cores": ("offer_cores", lambda text: quantity.percent(text, 400)),
    "offer.memory": ("offer_memory", lambda text: quantity.percent(text, 100)),
    "control.read": ("control_read", quantity.rate),
    "control.write": ("control_write", quantity.rate),
}


def parse(text: str, name: str) -> Config:
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name}: {error}") from error
    config = Config()
    sections = sorted({path.partition(".")[0] for path in KEYS})
    for section, entries in tree.items():
        if section not in sections or not isinstance(entries, dict):
            raise ConfigError(f"{name}: {section}: unknown; sections are {', '.join(sections)}")
        for key, value in entries.items():
            path = f"{section}.{key}"
            if path not in KEYS:
                known = ", ".join(known for known in KEYS if known.startswith(f"{section}."))
                raise ConfigError(f"{name}: {path}: unknown; known are {known}")
            field, read = KEYS[path]
            try:
                read(value)
            except QuantityError as error:
                raise ConfigError(f"{name}: {path}: {error}") from error
            config = replace(config, **{field: value})
    if config.cpu_allowed and "reserved" in tree.get("cpu", {}):
        raise ConfigError(f"{name}: cpu.reserved: cpu.allowed says the same; remove one of them")
    return config

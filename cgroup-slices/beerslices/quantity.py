# SPDX-License-Identifier: Apache-2.0
"""Quantities as people write them (`40%`, `8GiB`, `100MB/s`, `4 cores`) and CPU lists as the kernel writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable

MIB = 1 << 20
_BYTES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30, "TiB": 1 << 40}
_NUMBER = re.compile(r"(?P<value>\d+(?:\.\d+)?) ?(?P<unit>\D\S*)")


class QuantityError(ValueError):
    """Text that is not a quantity of the kind asked for."""


def _split(text: object, kind: str, example: str) -> tuple[float, str]:
    match = _NUMBER.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise QuantityError(f"{text!r} is not {kind} with its unit, like {example!r}")
    return float(match["value"]), match["unit"]


def share_or_bytes(text: object, whole: int) -> int:
    """`40%` of the whole, or a size; in bytes."""
    value, unit = _split(text, "a size or a share", "8GiB or 40%")
    if unit == "%" and value <= 100:
        return int(whole * value / 100)
    if unit in _BYTES:
        return int(value * _BYTES[unit])
    raise QuantityError(f"{text!r} is not a size or a share up to 100%; units are %, {', '.join(_BYTES)}")


def size(text: object) -> int:
    value, unit = _split(text, "a size", "32MiB")
    if unit not in _BYTES:
        raise QuantityError(f"{text!r} is not a size; units are {', '.join(_BYTES)}")
    return int(value * _BYTES[unit])


def share_or_cores(text: object, whole: int) -> int:
    """`25%` of the cores, rounded up, or `4 cores`."""
    value, unit = _split(text, "a number of cores or a share", "4 cores or 25%")
    if unit == "%" and value <= 100:
        return -int(-whole * value // 100)
    if unit in ("cores", "core") and value == int(value):
        return int(value)
    raise QuantityError(f"{text!r} is not a whole number of cores or a share up to 100%")


def percent(text: object, most: float) -> float:
    value, unit = _split(text, "a share", "92%")
    if unit != "%" or not 0 < value <= most:
        raise QuantityError(f"{text!r} is not a share above 0% and up to {most:g}%")
    return value / 100


def rate(text: object) -> int | None:
    """Bytes per second; None for `unlimited`."""
    if text == "unlimited":
        return None
    value, unit = _split(text, "a bandwidth", "100MB/s or unlimited")
    if not unit.endswith("/s") or unit[:-2] not in _BYTES or value <= 0:
        raise QuantityError(f"{text!r} is not a bandwidth; write it like '100MB/s', or 'unlimited'")
    return int(value * _BYTES[unit[:-2]])


def parse_cpus(text: object) -> frozenset[int]:
    """The kernel's list format: `2-7,10-15`."""
    cpus: set[int] = set()
    if not isinstance(text, str):
        raise QuantityError(f"{text!r} is not a list of CPUs like '2-7,10-15'")
    for part in text.strip().split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if match is None or (match[2] is not None and int(match[2]) < int(match[1])):
            raise QuantityError(f"{text!r} is not a list of CPUs like '2-7,10-15'")
        cpus.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(cpus)


def format_cpus(cpus: Iterable[int]) -> str:
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)

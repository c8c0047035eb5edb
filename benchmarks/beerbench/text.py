# SPDX-License-Identifier: Apache-2.0
"""Numbers for people, and tables for terminals."""

from __future__ import annotations

import math
from collections.abc import Sequence

NOTHING = "-"


def seconds(value: float | None) -> str:
    """A duration with three digits: 8.1 ms, 412 ms, 2.30 s."""
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "failed"
    if abs(value) < 0.00995:
        return f"{value * 1e3:.2f} ms"
    if abs(value) < 0.0995:
        return f"{value * 1e3:.1f} ms"
    if abs(value) < 0.9995:
        return f"{value * 1e3:.0f} ms"
    return f"{value:.2f} s" if abs(value) < 99.5 else f"{value:.0f} s"


def rate(value: float) -> str:
    """Bytes per second as MB/s."""
    return NOTHING if math.isnan(value) else f"{value / 1e6:.2f} MB/s"


def percent(value: float) -> str:
    return NOTHING if math.isnan(value) else f"{100 * value:.0f} %"


def cores(value: float) -> str:
    return NOTHING if math.isnan(value) else f"{value:.2f} cores"


def table(rows: Sequence[Sequence[str]], *, header: bool = True) -> str:
    """Columns aligned, the first to the left and the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for number, row in enumerate(rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
        if header and number == 0:
            lines.append("-" * (sum(widths) + 2 * (len(widths) - 1)))
    return "\n".join(lines)

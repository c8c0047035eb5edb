# SPDX-License-Identifier: Apache-2.0
"""Pictures beside the tables of benchmarks, all in one style; black on white, since they are looked at anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito: told apart with the common colour blindnesses.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9")
STYLE: Any = {
    "svg.fonttype": "none",  # text stays text: searchable, read aloud
    "svg.hashsalt": "beer",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#e3e6ea",
    "legend.frameon": False,
    "axes.prop_cycle": mpl.cycler(color=COLOURS),
}


@contextmanager
def figure(rows: int, height: float = 2.8) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure with so many axes, one above the other."""
    with mpl.rc_context(STYLE):
        made = Figure(figsize=(8.5, height * rows), layout="constrained")
        yield made, list(np.atleast_1d(made.subplots(rows, 1)))


def bars(
    axis: Axes,
    names: Sequence[str],
    groups: Mapping[str, Sequence[float | None]],
    title: str,
    goal: float | None = None,
) -> None:
    """A group of bars for each name; None = there is none. `goal`: a line across."""
    width = 0.8 / len(groups)
    for number, (label, values) in enumerate(groups.items()):
        there = [(at, value) for at, value in enumerate(values) if value is not None and np.isfinite(value)]
        places = [at + (number - (len(groups) - 1) / 2) * width for at, _ in there]
        drawn = axis.bar(places, [value for _, value in there], width * 0.92, label=label)
        axis.bar_label(
            drawn, [f"{value:.2g}" if value < 99.5 else f"{value:.0f}" for _, value in there], fontsize=7, padding=1
        )
    if goal is not None:
        axis.axhline(goal, color="#57606a", linewidth=1, linestyle="--", label="goal")
    axis.set_xticks(range(len(names)), names)
    finish(axis, title)


def lines(
    axis: Axes, at: Sequence[float], groups: Mapping[str, Sequence[float | None]], title: str, along: str
) -> None:
    """A line with marks for each group, over numbers that double."""
    for label, values in groups.items():
        axis.plot(at, [np.nan if value is None else value for value in values], "o-", label=label)
    axis.set_xscale("log", base=2)
    axis.set_xticks(at, [f"{one:g}" for one in at])
    axis.set_xlabel(along)
    finish(axis, title)


def finish(axis: Axes, title: str) -> None:
    axis.set_title(title, loc="left", fontweight="bold")
    axis.set_ylim(bottom=0)
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def save(made: Figure, path: Path) -> None:
    """As SVG, by rename; the same numbers give the same file."""
    staging = path.with_suffix(".new")
    with mpl.rc_context(STYLE):
        made.savefig(staging, format="svg", metadata={"Date": None})
    staging.rename(path)

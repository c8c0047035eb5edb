# SPDX-License-Identifier: Apache-2.0
"""The picture of a demo run: latency, guard, batch CPU and disk on one time axis, as SVG for inlining."""

from __future__ import annotations

import io
import math
import re
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("svg")

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from ..timeline.node import CONTROL, JOBS
from .findings import LETTERS, TITLES, Findings
from .palette import STATES, stand_in, to_variables

STYLE: Any = {
    # text stays text: readable by screen readers, searchable, in the page's font
    "svg.fonttype": "none",
    "svg.hashsalt": "beer",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": stand_in("muted"),
    "axes.labelcolor": stand_in("ink"),
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": stand_in("muted"),
    "ytick.color": stand_in("muted"),
    "text.color": stand_in("ink"),
    "grid.color": stand_in("grid"),
    "grid.linewidth": 0.8,
    "savefig.transparent": True,
    "legend.frameon": False,
}
SLICES = (("storage.slice", "storage", "storage"), (JOBS, "jobs", "batch"), (CONTROL, "container engine", "engine"))
WIDTH, HEIGHT = 9.6, 8.4


def draw(found: Findings) -> str:
    """The SVG element, sized by the page."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, HEIGHT))
        axes = figure.subplots(4, 1, sharex=True, height_ratios=(3.2, 0.5, 2, 2.2))
        for axis in axes:
            _bands(axis, found)
        _latency(axes[0], found)
        _ribbon(axes[1], found)
        _cpu(axes[2], found)
        _disk(axes[3], found)
        axes[3].set_xlabel("seconds since the start of phase A")
        axes[3].set_xlim(0, found.end - found.start)
        figure.subplots_adjust(left=0.085, right=0.985, top=0.935, bottom=0.06, hspace=0.32)
        target = io.StringIO()
        figure.savefig(target, format="svg", metadata={"Date": None})
    return _for_inlining(target.getvalue())


def _bands(axis: Axes, found: Findings) -> None:
    for name in TITLES:
        start, end = (time - found.start for time in found.data["phases"][name])
        axis.axvspan(start, end, color=stand_in("band"), zorder=-2, linewidth=0)


def _title(axis: Axes, text: str) -> None:
    axis.set_title(text, loc="left", fontsize=10.5, fontweight="bold", pad=6)


def _latency(axis: Axes, found: Findings) -> None:
    for name, title in TITLES.items():
        start, end = (time - found.start for time in found.data["phases"][name])
        label = f"{LETTERS[name]}  {title}"
        axis.text((start + end) / 2, 1.055, label, transform=axis.get_xaxis_transform(), ha="center", fontsize=10)
    for share, width, name in ((0.99, 2.0, "p99"), (0.5, 1.1, "p50")):
        times, values = found.requests.per_second(found.start, found.end, share)
        shown = np.where(np.isfinite(values), values * 1e3, np.nan)
        axis.plot(
            times - found.start,
            shown,
            color=stand_in("storage"),
            linewidth=width,
            alpha=1 if share > 0.9 else 0.6,
            linestyle="-" if share > 0.9 else (0, (3, 1.5)),
            label=name,
            solid_joinstyle="round",
        )
        lost = times[np.isinf(values)] - found.start
        if len(lost) and share > 0.9:
            axis.plot(lost, np.full(len(lost), np.nanmax(shown)), "x", color=stand_in("danger"), label="failed")
    for copy in found.transfers():
        if copy["ok"]:
            axis.plot(
                copy["end"] - found.start,
                1.015,
                "v",
                color=stand_in("muted"),
                markersize=4,
                clip_on=False,
                transform=axis.get_xaxis_transform(),
            )
    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}" if value < 1000 else f"{value:,.0f}"))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.grid(axis="y")
    axis.set_ylabel("ms")
    axis.set_title("Latency of storage clients, per second", loc="left", fontsize=10.5, fontweight="bold", pad=27)
    axis.legend(loc="lower right", bbox_to_anchor=(1, 1.1), ncols=3, handlelength=1.8, borderaxespad=0)


def _ribbon(axis: Axes, found: Findings) -> None:
    length = found.end - found.start
    for span in found.spans():
        start, width = span.start - found.start, span.end - span.start
        colour = stand_in(STATES.get(span.state, "other"))
        hatch = "////" if span.state == "stopped" else None
        axis.broken_barh(
            [(start, width)],
            (0, 1),
            facecolor="none" if hatch else colour,
            edgecolor=colour,
            hatch=hatch,
            linewidth=0.4,
        )
        if width > length / 14:
            word = "no guard" if span.state == "stopped" else span.state
            box = {"facecolor": stand_in("surface"), "edgecolor": "none", "pad": 1.6, "alpha": 0.88}
            axis.text(start + width / 2, 0.47, word, ha="center", va="center", fontsize=9, bbox=box)
    axis.set_yticks([])
    axis.set_ylim(0, 1)
    axis.spines["left"].set_visible(False)
    _title(axis, "State of the guard")


def _cpu(axis: Axes, found: Findings) -> None:
    node = found.node
    times = node.time - found.start
    batch = node.cpu.get(JOBS, np.zeros_like(times))
    idle = sum((node.idle[:, cpu] for cpu in found.cpus), np.zeros_like(times))
    axis.stackplot(
        times - node.step / 2,
        batch,
        idle,
        colors=[stand_in("batch"), stand_in("idle")],
        labels=["jobs", "idle in AllowedCPUs"],
        linewidth=0,
    )
    axis.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axis.grid(axis="y")
    axis.set_ylim(0, max(1.0, len(found.cpus)) * 1.18)
    axis.set_ylabel("cores")
    _title(axis, "CPU of batch")
    axis.legend(loc="upper right", ncols=2, handlelength=1.2, borderaxespad=0.2)


def _disk(axis: Axes, found: Findings) -> None:
    node = found.node
    times = node.time - node.step / 2 - found.start
    rates = node.io_operations[found.data["device"]]
    known = [name for name, _, _ in SLICES]
    other = sum((rate for name, rate in rates.items() if name not in known), np.zeros_like(times))
    layers = [rates.get(name, np.zeros_like(times)) for name in known]
    axis.stackplot(
        times,
        *layers,
        other,
        colors=[stand_in(colour) for _, _, colour in SLICES] + [stand_in("other")],
        labels=[label for _, label, _ in SLICES] + ["rest of the system"],
        linewidth=0,
    )
    total = float(np.max(sum(layers, other), initial=1.0))
    axis.set_ylim(0, math.ceil(total * 1.3 / 10) * 10)
    axis.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axis.grid(axis="y")
    axis.set_ylabel("requests/s")
    _title(axis, f"Requests to the disk of {found.data['disk']}, by slice")
    axis.legend(loc="upper right", ncols=4, handlelength=1.2, borderaxespad=0.2)


def _for_inlining(svg: str) -> str:
    """Only the element; colours and fonts become the page's."""
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.S)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r"font: ([^;\"]*?)(\d+(?:\.\d+)?)px [^;\"]*", r"font: \1\2px var(--sans)", svg)
    return to_variables(svg)

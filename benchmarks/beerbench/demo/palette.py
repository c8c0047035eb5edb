# SPDX-License-Identifier: Apache-2.0
"""Colours of plots and page, light and dark.

matplotlib wants real colours; each name here is drawn in a colour that nobody would choose, which then becomes a CSS
variable in the SVG, so that one picture serves both themes. Series colours are distinguishable with the common colour
blindnesses (Okabe and Ito's set, lightened for dark) and are never the only difference.
"""

from __future__ import annotations

# name -> (stand-in, light, dark)
COLOURS = {
    "ink": ("#010101", "#1b1f24", "#e8eaed"),
    "muted": ("#010102", "#57606a", "#a3adb8"),
    "grid": ("#010103", "#e3e6ea", "#2c333b"),
    "storage": ("#010104", "#0072b2", "#56b4e9"),
    "batch": ("#010105", "#d55e00", "#ff9a52"),
    "engine": ("#010106", "#e69f00", "#ffc94d"),
    "other": ("#010107", "#8c959f", "#6e7781"),
    "idle": ("#010108", "#dfe3e8", "#30363d"),
    "open": ("#010109", "#2da66f", "#3fbf86"),
    "closed": ("#01010a", "#e6b800", "#f2cc4d"),
    "frozen": ("#01010b", "#0072b2", "#56b4e9"),
    "danger": ("#01010c", "#cf222e", "#ff7b72"),
    "stopped": ("#01010d", "#57606a", "#8b949e"),
    "band": ("#01010e", "#f4f6f8", "#1a2027"),
    "surface": ("#01010f", "#ffffff", "#12161b"),
}
STATES = {
    "open": "open",
    "closed": "closed",
    "throttled": "closed",
    "frozen": "frozen",
    "vacating": "danger",
    "emergency": "danger",
    "stopped": "stopped",
}


def stand_in(name: str) -> str:
    return COLOURS[name][0]


def to_variables(svg: str) -> str:
    for name, (colour, _, _) in COLOURS.items():
        svg = svg.replace(colour, f"var(--{name})")
    return svg


def css() -> str:
    """Variables for both themes."""
    light = "".join(f"--{name}:{value};" for name, (_, value, _) in COLOURS.items())
    dark = "".join(f"--{name}:{value};" for name, (_, _, value) in COLOURS.items())
    return f":root{{color-scheme:light dark;{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"

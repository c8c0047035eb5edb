# SPDX-License-Identifier: Apache-2.0
"""Where the lab keeps things: the cache (shared by checkouts, safe to delete) and out/ (of this checkout)."""

from __future__ import annotations

import os
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
PACKAGE = Path(__file__).resolve().parent


def cache() -> Path:
    """The cache directory: BEER_CACHE, else XDG_CACHE_HOME/beer, else ~/.cache/beer."""
    named = os.environ.get("BEER_CACHE")
    if named:
        return Path(named).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache").absolute() / "beer"


def out() -> Path:
    """What belongs to this checkout: running nodes and logs."""
    return TOP / "out" / "lab"

# SPDX-License-Identifier: Apache-2.0
"""The benchmarks, one module each. To add one: write the module, add its name to NAMES.

A module has a docstring (first line: what it measures; then what it shows and what it does not) and
    arguments(parser)          its command-line options
    record(options, out)       measures, and saves a Record in the folder `out`
    study(record)              computes results from a record alone, as JSON-able data
    show(record, results)      the results as text, targets beside them
and, where a picture says more,
    draw(results)              a figure (plot.py), kept as plot.svg beside the record
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import Any, Protocol

from ..errors import BenchmarkError
from ..record import Record

NAMES = (
    *("demo", "isolation", "false-actions", "freeze-latency", "guard-cost", "plugin-cost", "priorities", "bandwidth"),
    *("metadata-storm", "limit-delay", "overload"),
)


class Benchmark(Protocol):
    __doc__: str | None

    def arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def record(self, options: argparse.Namespace, out: Path) -> Record: ...

    def study(self, record: Record) -> dict[str, Any]: ...

    def show(self, record: Record, results: dict[str, Any]) -> str: ...


def load(name: str) -> Benchmark:
    if name not in NAMES:
        raise BenchmarkError(f"no benchmark {name!r}; there are: {', '.join(NAMES)}")
    module: Any = importlib.import_module(f".{name.replace('-', '_')}", __name__)
    return module  # type: ignore[no-any-return]


def about(name: str) -> str:
    """First line of its docstring."""
    return (load(name).__doc__ or "").strip().splitlines()[0]

# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks that other parts bring along, inside the trixie build root, where their compilers are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .errors import BenchmarkError

TOP = Path(__file__).resolve().parents[2]


def run_json(what: str, command: Sequence[str], timeout: float, stdin: Path = Path(os.devnull)) -> Any:
    """Runs a command in the build root, with the checkout as its folder; the JSON document that it prints last.

    What it says on stderr goes to the terminal.
    """
    argv = [sys.executable, "-m", "beerlab", "in-root", "build", "--", *command]
    try:
        with stdin.open("rb") as source:
            done = subprocess.run(
                argv, cwd=TOP, stdin=source, stdout=subprocess.PIPE, text=True, timeout=timeout, check=False
            )
    except subprocess.TimeoutExpired as error:
        raise BenchmarkError(f"{what}: no end after {timeout:.0f} s") from error
    if done.returncode != 0:
        raise BenchmarkError(f"{what}: exit status {done.returncode} {done.stdout[-1500:]}".strip())
    return last_json(done.stdout)


def last_json(output: str) -> Any:
    """The last JSON object of an output that may have lines before it."""
    decoder = json.JSONDecoder()
    for start, line in reversed(list(_lines(output))):
        if line.startswith("{"):
            try:
                return decoder.raw_decode(output[start:])[0]
            except ValueError:
                continue
    raise BenchmarkError(f"no JSON in the output: {output[-500:]}")


def _lines(output: str) -> list[tuple[int, str]]:
    place, found = 0, []
    for line in output.splitlines(keepends=True):
        found.append((place, line))
        place += len(line)
    return found

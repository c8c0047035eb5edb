#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the steps of one or more suites, goes on after a failure, and ends with one summary.

    tests/suite.py lint check e2e      what `make test` does
    tests/suite.py --list              the steps

A step is a command. Steps of a part run inside the trixie build root, where the compilers and the real services are,
so that the host needs none of them. Output goes to out/logs/<step>.log; of a failed step the end is shown.
Exit status: 0 = all passed, 1 = at least one failed, 2 = wrong call.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
LOGS = TOP / "out" / "logs"
TAIL_LINES = 60

# Parts whose Makefile has the verbs fmt, lint and check, all of them run inside the build root.
PARTS = ("guard", "storage-daemon", "cgroup-slices", "condor-config", "container-images", "monitoring")
PYTHON_TREES = (
    "lab",
    "tests",
    "benchmarks",
    "storage-daemon",
    "cgroup-slices",
    "condor-config",
    "container-images",
    "monitoring",
)


@dataclass(frozen=True)
class Step:
    """One line of the summary."""

    name: str
    command: tuple[str, ...]
    live: bool = False  # long steps print their own progress


def in_root(*command: str) -> tuple[str, ...]:
    """The command, inside the trixie build root with the checkout as working directory."""
    return (sys.executable, "-m", "beerlab", "in-root", "build", "--", *command)


def pytest(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "pytest", *arguments)


def ruff(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "ruff", *arguments)


def part_steps(verb: str) -> list[Step]:
    return [Step(f"{verb} {part}", in_root("make", "-C", part, verb)) for part in PARTS]


def suites() -> dict[str, list[Step]]:
    e2e = ("tests", "--durations=0", "-v", "-rR", "-p", "no:cacheprovider")
    return {
        "fmt": [Step("fmt python", ruff("format", *PYTHON_TREES)), *part_steps("fmt")],
        "lint": [
            Step("lint python", ruff("check", *PYTHON_TREES)),
            Step("format python", ruff("format", "--check", *PYTHON_TREES)),
            *part_steps("lint"),
        ],
        "check": [
            Step("check lab", pytest("-q", "lab/tests")),
            Step("check benchmarks", pytest("-q", "benchmarks/tests")),
            *part_steps("check"),
        ],
        "e2e": [Step("e2e", pytest(*e2e, "-m", "not full"), live=True)],
        "e2e-full": [Step("e2e", pytest(*e2e), live=True)],
    }


def log_of(step: Step) -> Path:
    return LOGS / f"{step.name.replace(' ', '-')}.log"


def tail(step: Step) -> list[str]:
    return log_of(step).read_text(errors="replace").splitlines()[-TAIL_LINES:]


def run(step: Step) -> tuple[bool, float]:
    """Runs one step; its output goes to its log, and to the terminal when it is live or when it fails."""
    started = time.monotonic()
    with (
        log_of(step).open("wb") as sink,
        subprocess.Popen(
            step.command, cwd=TOP, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            sink.write(line)
            sink.flush()
            if step.live:
                sys.stdout.buffer.write(line)
                sys.stdout.flush()
    seconds = time.monotonic() - started
    if process.returncode != 0 and not step.live:
        print(*tail(step), sep="\n")
    return process.returncode == 0, seconds


def main(argv: list[str]) -> int:
    known = suites()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", nargs="*", choices=[[], *known], help="suites to run, in this order")
    parser.add_argument("--only", default="", metavar="TEXT", help="only steps whose name contains TEXT")
    parser.add_argument("--list", action="store_true", help="print the steps and stop")
    options = parser.parse_args(argv)
    steps = [step for name in options.suite or known for step in known[name] if options.only in step.name]
    if options.list:
        print(*(step.name for step in steps), sep="\n")
        return 0
    if not options.suite or not steps:
        parser.print_usage()
        return 2

    LOGS.mkdir(parents=True, exist_ok=True)
    results: list[tuple[Step, bool, float]] = []
    for number, step in enumerate(steps, 1):
        print(f"[{number}/{len(steps)}] {step.name} ...", flush=True)
        passed, seconds = run(step)
        print(f"[{number}/{len(steps)}] {step.name}: {'passed' if passed else 'FAILED'} in {seconds:.0f} s", flush=True)
        results.append((step, passed, seconds))

    # Once more: of a long run often only the end is seen.
    for step in (step for step, passed, _ in results if not passed and not step.live):
        print(f"\nThe end of {step.name}:", *tail(step), sep="\n")

    print(f"\nSummary ({sum(seconds for *_, seconds in results):.0f} s, logs in {LOGS.relative_to(TOP)}{os.sep})")
    for step, passed, seconds in results:
        print(f"  {'passed' if passed else 'FAILED':7} {seconds:6.0f} s  {step.name}")
    failed = sum(not passed for _, passed, _ in results)
    print(f"\n{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

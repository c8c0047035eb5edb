# SPDX-License-Identifier: Apache-2.0
"""The command beer-slices.

beer-slices plan [--explain] [--inventory FILE] [--config FILE]   the drop-ins, or why each number
beer-slices inventory                                             this machine, as the planner sees it
beer-slices check-config [FILE]                                   exit 1 and one line if it would be refused
beer-slices verify                                                exit 1 and the limits the kernel does not have
beer-slices capacity [--output FILE]                              NUM_CPUS and MEMORY for HTCondor
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from . import inventory, kernel, plan, render
from .config import Config, ConfigError, parse

CONFIG = Path("/etc/beer/slices.toml")
ERRORS = (ConfigError, plan.PlanError, inventory.InventoryError, kernel.KernelError, OSError)


def load_config(path: Path) -> Config:
    """A missing file is the default policy; an unreadable one is an error."""
    try:
        return parse(path.read_text(), str(path))
    except FileNotFoundError:
        return Config()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: {error}") from error


def make_plan(config: Path, inventory_file: Path | None) -> plan.Plan:
    if inventory_file is None:
        machine = inventory.from_machine()
    else:
        machine = inventory.from_json(inventory_file.read_text(), str(inventory_file))
    try:
        return plan.make(machine, load_config(config))
    except plan.PlanError as error:
        raise plan.PlanError(f"{config}: {error}") from error


def generate(directory: Path, config: Path = CONFIG) -> str | None:
    """Writes the drop-ins for systemd; returns what was wrong, if anything.

    A refused configuration must not lift the cap of a running node at its next daemon-reload: the default policy takes
    its place, and beer.slice cannot be started anew until the file is right.
    """
    problem = None
    texts: dict[str, str] = {}
    try:
        texts = render.dropins(make_plan(config, None))
    except Exception as error:
        problem = str(error)
        try:
            texts = render.dropins(plan.make(inventory.from_machine(), Config()))
        except Exception as second:
            problem += f"; nor does the default policy work: {second}"
        texts |= render.refusal()
    for name, text in texts.items():
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return problem


def write_atomically(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text)
    temporary.chmod(0o644)
    temporary.rename(path)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="beer-slices", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("plan", "inventory", "check-config", "verify", "capacity"))
    parser.add_argument("file", nargs="?", type=Path, help="check-config: the file to check")
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--inventory", type=Path, help="plan for another machine (output of the command inventory)")
    parser.add_argument("--explain", action="store_true", help="why each number is what it is")
    parser.add_argument("--output", type=Path, help="capacity: write here, not to the terminal")
    parser.add_argument("--cgroups", type=Path, default=Path("/sys/fs/cgroup"), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.file is not None and options.command != "check-config":
        parser.error(f"{options.command} takes no file")
    try:
        return run(options)
    except BrokenPipeError:
        os.close(sys.stdout.fileno())
        return 1
    except ERRORS as error:
        print(f"beer-slices: {error}", file=sys.stderr)
        return 1


def run(options: argparse.Namespace) -> int:
    if options.command == "inventory":
        print(inventory.from_machine().to_json())
    elif options.command == "check-config":
        make_plan(options.file or options.config, options.inventory)
    elif options.command == "plan":
        made = make_plan(options.config, options.inventory)
        if options.explain:
            print(render.explanation(made), end="")
        else:
            print("\n".join(f"## {name}\n{text}" for name, text in render.dropins(made).items()), end="")
    elif options.command == "verify":
        wrong = list(kernel.differences(make_plan(options.config, options.inventory), options.cgroups))
        print(*wrong, sep="\n", end="\n" if wrong else "")
        return 1 if wrong else 0
    else:
        text = render.capacity(plan.offer(load_config(options.config), *kernel.cap(options.cgroups)))
        if options.output is None:
            print(text, end="")
        else:
            write_atomically(options.output, text)
    return 0

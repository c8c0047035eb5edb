# SPDX-License-Identifier: Apache-2.0
"""PyPI wheels into a folder, by pip, each checked against its pinned hash."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


class WheelError(Exception):
    """pip could not bring the pinned wheels."""


def pip(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise WheelError(f"pip {' '.join(map(str, arguments))}: {result.stderr.strip()}")


def install(requirements: Path, target: Path) -> None:
    """Installs exactly what the file pins. Byte code is made later, in a form that does not depend on file times."""
    checks = ("--no-deps", "--only-binary=:all:", "--require-hashes")
    quiet = ("--no-compile", "--no-warn-script-location", "--root-user-action=ignore")
    pip("install", *checks, *quiet, "--target", target, "--requirement", requirements)


def pin(wanted: Path, pinned: Path, workdir: Path) -> None:
    """Writes `pinned` (every wheel with its hash) from `wanted` (names and versions)."""
    workdir.mkdir(parents=True, exist_ok=True)
    pip("download", "--only-binary=:all:", "--dest", workdir, "--requirement", wanted)
    lines = ["# Written by `make requirements` from requirements.in: wheels for CPython 3.13, manylinux x86_64."]
    for wheel in sorted(workdir.glob("*.whl")):
        name, version = wheel.name.split("-")[:2]
        output = subprocess.run(
            [sys.executable, "-m", "pip", "hash", "--algorithm", "sha256", wheel],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        digest = output.split("--hash=")[1].strip()
        lines.append(f"{name.replace('_', '-')}=={version} --hash={digest}")
    pinned.write_text("\n".join(lines) + "\n")

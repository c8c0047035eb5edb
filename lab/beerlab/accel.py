# SPDX-License-Identifier: Apache-2.0
"""Which accelerator works here: /dev/kvm can exist and still be unable to run an ordinary guest, so it is tried."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
from pathlib import Path

from .errors import LabError
from .paths import cache
from .process import environment, run
from .progress import say

QEMU = "qemu-system-x86_64"
KVM = Path("/dev/kvm")
DEADLINE_SECONDS = 8.0
TCG = "tcg,thread=multi,tb-size=1024"
OLDEST_QEMU = 9


def qemu_version() -> str:
    """First line of --version; QEMU 7.2 crashes guests under multi-threaded emulation, so it is refused."""
    line = run([QEMU, "--version"]).splitlines()[0]
    major = line.removeprefix("QEMU emulator version ").split(".")[0]
    if not major.isdigit() or int(major) < OLDEST_QEMU:
        raise LabError(f"{line}: QEMU {OLDEST_QEMU} or newer is needed: run lab/host-setup")
    return line


def accelerator(kernel: Path) -> str:
    """Value for QEMU's -accel; the answer of a trial is kept per host kernel and QEMU version."""
    if not os.access(KVM, os.R_OK | os.W_OK):
        return TCG
    known = cache() / "accel.json"
    key = f"{platform.node()} {platform.release()} {qemu_version()}"
    answers: dict[str, bool] = {}
    with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
        answers = json.loads(known.read_text())
    if key not in answers:
        answers[key] = _boots_with_kvm(kernel)
        say("hardware virtualisation " + ("works" if answers[key] else "does not work here: emulating"))
        known.parent.mkdir(parents=True, exist_ok=True)
        known.write_text(json.dumps(answers, indent=1) + "\n")
    return "kvm" if answers[key] else TCG


def _boots_with_kvm(kernel: Path) -> bool:
    """A kernel without a root disk panics within a second and QEMU ends; a broken KVM hangs or fails."""
    command = [QEMU, "-machine", "q35", "-accel", "kvm", "-cpu", "max", "-m", "512", "-nodefaults", "-no-reboot"]
    command += ["-display", "none", "-serial", "stdio", "-kernel", str(kernel)]
    command += ["-append", "console=ttyS0 panic=-1"]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DEADLINE_SECONDS,
            env=environment(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return b"Kernel panic" in done.stdout

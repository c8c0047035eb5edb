# SPDX-License-Identifier: Apache-2.0
"""Facts about where a number was measured."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .lab import Node

NODE_FACTS = {
    "kernel": "uname -r",
    "os": ". /etc/os-release; echo $PRETTY_NAME",
    "cpus": "nproc --all",
    "memory_mb": "awk '/^MemTotal/ {print int($2/1024)}' /proc/meminfo",
    "swap_mb": "awk '/^SwapTotal/ {print int($2/1024)}' /proc/meminfo",
    "xrootd": "dpkg-query -W -f '${Version}' xrootd-server",
    "condor": "dpkg-query -W -f '${Version}' condor",
    "docker": "dpkg-query -W -f '${Version}' docker.io",
    "packages": "dpkg-query -W -f '${Package} ${Version}\\n' 'beer-*'",
    "schedulers": "grep . /sys/block/vd*/queue/scheduler",
    "allowed_cpus": "cat /sys/fs/cgroup/beer.slice/cpuset.cpus.effective",
    "cpu_max": "cat /sys/fs/cgroup/beer.slice/cpu.max",
    "cpu_idle": "cat /sys/fs/cgroup/beer.slice/beer-jobs.slice/cpu.idle",
    "data_disks": "findmnt -nr -o TARGET,SOURCE,MAJ:MIN -t ext4",
    "clocksource": "cat /sys/devices/system/clocksource/clocksource0/current_clocksource",
}


def host_facts() -> dict[str, Any]:
    """The machine that the client runs on (and that carries a virtual node)."""
    return {
        "kernel": platform.release(),
        "os": _os_name(),
        "cpus": os.cpu_count(),
        "cpu_model": _cpu_model(),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "load_1m": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "commit": _commit(),
    }


def lab_facts() -> dict[str, Any]:
    """The lab's emulator; empty when the lab is not installed (a real node)."""
    version = _output(["qemu-system-x86_64", "--version"])
    if not version:
        return {}
    command = _qemu_command()
    accelerator = re.search(r"-accel\s+(\S+)", command)
    return {
        "qemu": version.splitlines()[0].removeprefix("QEMU emulator version "),
        "accelerator": accelerator[1] if accelerator else "unknown",
        "throttles": sorted(set(re.findall(r"throttling[.-]([a-z-]+=\d+)", command))),
    }


def node_facts(node: Node) -> dict[str, Any]:
    """One command for all of them: each costs a round trip to an emulated node."""
    script = "\n".join(f"echo '@@{name}'; ({command}) 2>/dev/null" for name, command in NODE_FACTS.items())
    text = node.execute(script, timeout=120, check=False).stdout
    facts: dict[str, Any] = {"name": node.name}
    for part in text.split("@@")[1:]:
        name, _, value = part.partition("\n")
        lines = value.strip().splitlines()
        facts[name] = lines[0] if len(lines) == 1 else lines
    return facts


def cpu_speed(node: Node) -> float:
    """Of the node against this host: about 1 with hardware virtualisation, 1/18 emulated."""
    loop = "i=0; while [ $i -lt 10000 ]; do i=$((i+1)); done"
    empty = _seconds(lambda: node.execute("true"))
    took = max(_seconds(lambda: node.execute(loop)) - empty, 1e-3)
    return max(_seconds(lambda: subprocess.run(["bash", "-c", loop], check=True)), 1e-3) / took


def _seconds(act: Callable[[], object]) -> float:
    """The quicker of two: neighbours of this machine only make it slower."""
    times = []
    for _ in range(2):
        started = time.monotonic()
        act()
        times.append(time.monotonic() - started)
    return min(times)


def host_kind(facts: dict[str, Any]) -> str:
    """Short name for a folder of recorded runs: `2-core-tcg`."""
    accelerator = str(facts.get("lab", {}).get("accelerator", "real")).split(",")[0]
    return f"{facts.get('cpus', 0)}-core-{accelerator}"


def cpu_list(text: str) -> list[int]:
    """`0-2,5` as numbers."""
    numbers: list[int] = []
    for part in filter(None, text.strip().split(",")):
        low, _, high = part.partition("-")
        numbers.extend(range(int(low), int(high or low) + 1))
    return numbers


def _os_name() -> str:
    text = Path("/etc/os-release").read_text() if Path("/etc/os-release").exists() else ""
    match = re.search(r'^PRETTY_NAME="?([^"\n]*)', text, re.M)
    return match[1] if match else platform.system()


def _cpu_model() -> str:
    match = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return match[1] if match else platform.machine()


def _commit() -> str:
    text = _output(["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude", "*"])
    return text.strip() or "unknown"


def _qemu_command() -> str:
    """The command line of the newest emulator on this machine."""
    return _output(["pgrep", "-n", "-a", "qemu-system"])


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""

# SPDX-License-Identifier: Apache-2.0
"""What must be up on a node before it counts as ready."""

from __future__ import annotations

import shlex
import time
from dataclasses import asdict, dataclass
from typing import Any

from .errors import LabError
from .machine import Machine
from .progress import say, step

# Loading the job image takes 70 s on two cores without virtualisation, and took 140 s on a busy one.
UNIT_SECONDS = 480.0


@dataclass(frozen=True)
class Expectation:
    """A unit, and a command that succeeds once it does its work."""

    unit: str
    works: str = "true"


EXPECTED = (
    Expectation("docker.service", "docker info >/dev/null"),
    Expectation("xrootd@beer.service", "ss -Hltn sport = :1094 | grep -q ."),
    Expectation("beer-guard.service", "grep -q '^state=open admit=1' /run/beer/guard/state"),
    Expectation("beer-probe.service", "test -s /run/beer-probe/probe.lat"),
    Expectation("beer-network.service", "nft list table inet beer >/dev/null"),
    Expectation("beer-job-image.service", "docker image inspect beer-job:latest >/dev/null"),
    Expectation("prometheus-node-exporter.service"),
    Expectation("condor.service"),
)
# The first cpu.max of a machine makes Linux patch its scheduler as it runs. Multi-threaded emulation can execute what
# was there in the middle of that ("Oops: int3" in dequeue_entity, seen once): so it happens before any test.
BANDWIDTH = "mkdir -p /sys/fs/cgroup/lab-bandwidth && echo '100000 100000' > /sys/fs/cgroup/lab-bandwidth/cpu.max"
# START of an empty slot as the negotiator will see it: the guard's attributes have reached the collector.
START = "condor_status -constraint 'BeerAdmit =?= true || BeerAdmit =?= 1' -af Name | grep -q ."


def as_data() -> Any:
    return [[asdict(one) for one in EXPECTED], START, BANDWIDTH]


def absent(machine: Machine) -> list[str]:
    """Expected units that the node does not have: parts that are not built yet."""
    # systemd may be too busy to answer while a slow node boots.
    lines = machine.wait("systemctl list-unit-files --no-legend --no-pager", timeout=UNIT_SECONDS).stdout.splitlines()
    listed = [line.split()[0] for line in lines if line.strip()]
    return [one.unit for one in EXPECTED if one.unit not in listed and template_of(one.unit) not in listed]


def wait_until_ready(machine: Machine) -> list[str]:
    """Waits for everything that is installed; returns (and says) what is absent."""
    missing = absent(machine)
    if missing:
        say(f"{machine.name} has no {', '.join(missing)}")
    for one in EXPECTED:
        if one.unit in missing:
            continue
        with step(f"waiting for {one.unit}"):
            started = time.monotonic()
            machine.wait_for_unit(one.unit, UNIT_SECONDS)
            left = UNIT_SECONDS - (time.monotonic() - started)
            machine.wait(one.works, timeout=max(left, 30), unit=one.unit)
    if not missing:
        with step("waiting for START"):
            machine.wait(START, timeout=UNIT_SECONDS, unit="condor.service")
    failed = machine.execute("systemctl --failed --no-legend --plain --no-pager | cut -d' ' -f1").stdout.split()
    if failed:
        end = machine.execute(f"journalctl -q --no-pager -n 10 -o cat -u {shlex.quote(failed[0])}").stdout.strip()
        raise LabError(f"{machine.name}: {', '.join(failed)} failed; {failed[0]} says:\n{end}")
    machine.execute(BANDWIDTH)
    forget_caches(machine)
    return missing


def forget_caches(machine: Machine) -> None:
    """Freed page cache is no part of a snapshot."""
    machine.execute("sync; echo 3 > /proc/sys/vm/drop_caches")


def template_of(unit: str) -> str:
    """xrootd@beer.service -> xrootd@.service"""
    prefix, at, rest = unit.partition("@")
    return f"{prefix}@.{rest.partition('.')[2]}" if at else unit

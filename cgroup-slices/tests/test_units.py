# SPDX-License-Identifier: Apache-2.0
"""systemd itself reads every unit, drop-in and planned drop-in, next to the units of Debian that they change."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest
from beerslices import inventory, plan, render
from beerslices.config import Config
from conftest import TOP

UNITS = sorted((TOP / "units").iterdir())
DROPINS = sorted((TOP / "dropins").glob("*.conf"))
# Docker's units are captured (docker.io 26.1.5+dfsg1-9+deb13u1), so that a check needs no container engine.
CAPTURED = sorted((TOP / "tests/debian-units").iterdir())
OURS = {"usr/libexec/beer/beer-network": "network/beer-network", "usr/bin/beer-slices": "bin/beer-slices"}
FOREIGN = ("usr/sbin/dockerd", "usr/bin/containerd", "usr/sbin/condor_master", "usr/bin/install", "bin/kill")
SLICES = ("beer.slice", "beer-jobs.slice", "beer-ctl.slice", "guard.slice", "storage.slice")


def verify(root: Path) -> subprocess.CompletedProcess[str]:
    names = [*(unit.name for unit in UNITS), "docker.service", "containerd.service", "condor.service"]
    return subprocess.run(
        ["systemd-analyze", "verify", f"--root={root}", "--man=no", "--recursive-errors=yes", *names],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    """A root as the package leaves it, with the plan of an example host in place of the generator's."""
    units = tmp_path / "usr/lib/systemd/system"
    shutil.copytree("/usr/lib/systemd/system", units, symlinks=True)
    for unit in (*CAPTURED, *UNITS):
        shutil.copy(unit, units)
    for dropin in DROPINS:
        target = units / f"{dropin.stem}.d/50-beer.conf"
        target.parent.mkdir(exist_ok=True)
        shutil.copy(dropin, target)
    host = inventory.from_json((TOP / "tests/hosts/seed-32-thread-64g.json").read_text(), "seed")
    for name, text in render.dropins(plan.make(host, Config())).items():
        (units / name).parent.mkdir(exist_ok=True)
        (units / name).write_text(text)
    for name in (*OURS, *FOREIGN):
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TOP / OURS[name] if name in OURS else "/bin/true", target)
    return tmp_path


def test_systemd_has_nothing_to_say(stage: Path) -> None:
    result = verify(stage)
    assert (result.returncode, result.stdout + result.stderr) == (0, "")


def test_systemd_would_say_it(stage: Path) -> None:
    with (stage / "usr/lib/systemd/system/beer.slice.d/10-beer-plan.conf").open("a") as dropin:
        dropin.write("MemoryMaximum=1G\n")
    result = verify(stage)
    assert result.returncode != 0
    assert "MemoryMaximum" in result.stderr


def test_a_refused_plan_is_a_valid_dropin(stage: Path) -> None:
    for name, text in render.refusal().items():
        (stage / "usr/lib/systemd/system" / name).write_text(text)
    result = verify(stage)
    assert (result.returncode, result.stderr) == (0, "")


def settings(path: Path) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment]
    parser.read_string(path.read_text())
    return parser


def test_slices_have_the_properties_of_contract_4_1() -> None:
    values = {name: settings(TOP / "units" / name) for name in SLICES}
    storage, beer, jobs, guard = (
        values[name]["Slice"] for name in ("storage.slice", "beer.slice", "beer-jobs.slice", "guard.slice")
    )
    assert int(storage["CPUWeight"]) > 10 * int(beer["CPUWeight"])
    assert int(storage["IOWeight"]) > 10 * int(beer["IOWeight"])
    # Jobs only: HTCondor and the engine get their part of a CPU that storage keeps busy, too.
    assert (beer["CPUWeight"], jobs["CPUWeight"]) == ("10", "idle")
    assert storage["MemorySwapMax"] == "0"
    assert storage["ManagedOOMPreference"] == "omit"
    assert int(jobs["TasksMax"]) < int(beer["TasksMax"]) == 8000
    assert "kill" not in (jobs["ManagedOOMSwap"], jobs["ManagedOOMMemoryPressure"])
    assert guard["MemoryMin"]
    # In force even if the planner never ran.
    assert beer["MemoryMax"].endswith("%")
    for name in SLICES:
        assert values[name]["Slice"]["CPUAccounting"] == "yes"
        # A slice that nothing wants is inactive while it is empty, and its cgroup files are not there.
        assert values[name]["Install"]["WantedBy"]


@pytest.mark.parametrize("dropin", DROPINS, ids=lambda path: path.name)
def test_batch_services_are_under_the_cap(dropin: Path) -> None:
    assert settings(dropin)["Service"]["Slice"] == "beer-ctl.slice"


@pytest.mark.parametrize("name", ["docker.service.conf", "condor.service.conf"])
def test_nothing_of_batch_starts_on_the_root_disk(name: str) -> None:
    unit = settings(TOP / "dropins" / name)["Unit"]
    assert unit["RequiresMountsFor"] == unit["AssertPathIsMountPoint"] == "/var/lib/beer/scratch"


def test_udev_accepts_the_example_rules() -> None:
    rules = sorted((TOP / "examples").glob("*.rules"))
    assert rules
    result = subprocess.run(["udevadm", "verify", "--no-style", *rules], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr

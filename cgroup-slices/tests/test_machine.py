# SPDX-License-Identifier: Apache-2.0
"""Reading the machine, writing for systemd, and reading the kernel back."""

from __future__ import annotations

from pathlib import Path

import pytest
from beerslices import cli, inventory, kernel, plan
from beerslices.config import Config


def test_a_machine_is_read_with_its_cores(machine: Path) -> None:
    found = inventory.from_machine(machine)
    assert [sorted(core.cpus) for core in found.cores] == [[0, 2], [1, 3]]
    assert found.memory_bytes == 8 << 30
    assert inventory.from_json(found.to_json(), "x") == found


def test_an_offline_thread_is_not_part_of_the_machine(machine: Path) -> None:
    (machine / "sys/devices/system/cpu/online").write_text("0-2\n")
    assert [sorted(core.cpus) for core in inventory.from_machine(machine).cores] == [[0, 2], [1]]


@pytest.mark.parametrize("name", ["sys/devices/system/cpu/online", "proc/meminfo"])
@pytest.mark.parametrize("damage", ["", "nonsense\n", None])
def test_a_damaged_machine_is_an_error(machine: Path, name: str, damage: str | None) -> None:
    if damage is None:
        (machine / name).unlink()
    else:
        (machine / name).write_text(damage)
    with pytest.raises(inventory.InventoryError):
        inventory.from_machine(machine)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"memory_kib": 1, "sockets": {"0": ["0,1", "1"]}}'])
def test_a_wrong_inventory_file_is_an_error(text: str) -> None:
    with pytest.raises(inventory.InventoryError):
        inventory.from_json(text, "x")


@pytest.fixture
def on(machine: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Everything that asks for the machine gets the fixture."""
    real = inventory.from_machine
    monkeypatch.setattr(cli.inventory, "from_machine", lambda: real(machine))
    return machine


def test_the_generator_writes_the_plan(on: Path, tmp_path: Path) -> None:
    assert cli.generate(tmp_path / "out", tmp_path / "absent.toml") is None
    assert "AllowedCPUs=1,3\n" in (tmp_path / "out/beer.slice.d/10-beer-plan.conf").read_text()
    assert not (tmp_path / "out/beer.slice.d/51-beer-plan-refused.conf").exists()


@pytest.mark.parametrize("text", ["[cpu]\nallowed = '0-3'", "[cpu]\nreservd = '1%'", "[", "\udc80"])
def test_a_refused_configuration_keeps_the_cap_and_stops_new_batch(on: Path, tmp_path: Path, text: str) -> None:
    config = tmp_path / "slices.toml"
    config.write_bytes(text.encode("utf-8", "surrogateescape"))
    problem = cli.generate(tmp_path / "out", config)
    assert problem is not None
    assert str(config) in problem
    assert "AllowedCPUs=1,3\n" in (tmp_path / "out/beer.slice.d/10-beer-plan.conf").read_text()
    assert "AssertPathExists=" in (tmp_path / "out/beer.slice.d/51-beer-plan-refused.conf").read_text()


def test_without_a_readable_machine_batch_does_not_start(on: Path, tmp_path: Path) -> None:
    (on / "proc/meminfo").unlink()
    assert cli.generate(tmp_path / "out", tmp_path / "absent.toml") is not None
    assert [path.name for path in (tmp_path / "out").rglob("*.conf")] == ["51-beer-plan-refused.conf"]


@pytest.fixture
def cgroups(tmp_path: Path) -> Path:
    """cgroup files as the kernel shows them after systemd applied the plan of the fixture machine."""
    root = tmp_path / "cgroup"
    mib = 1 << 20
    files = {
        "beer.slice/cpuset.cpus": "1,3",
        "beer.slice/cpuset.cpus.effective": "1,3",
        "beer.slice/memory.max": 6144 * mib,
        "beer.slice/memory.swap.max": 6144 * mib,
        "beer.slice/memory.min": 160 * mib,
        "beer.slice/beer-jobs.slice/memory.max": 5824 * mib,
        "beer.slice/beer-jobs.slice/memory.high": 5591 * mib,
        "beer.slice/beer-ctl.slice/memory.min": 160 * mib,
        "beer.slice/beer-ctl.slice/io.max": "254:16 rbps=100000000 wbps=100000000 riops=max wiops=max",
        "storage.slice/memory.low": 1536 * mib,
    }
    for name, value in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{value}\n")
    return root


def made(machine: Path) -> plan.Plan:
    return plan.make(inventory.from_machine(machine), Config())


def test_limits_in_force_are_no_difference(machine: Path, cgroups: Path) -> None:
    assert list(kernel.differences(made(machine), cgroups)) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("beer.slice/cpuset.cpus", "0-3"),
        ("beer.slice/cpuset.cpus", ""),
        ("beer.slice/memory.max", "max"),
        ("beer.slice/memory.swap.max", "1"),
        ("beer.slice/beer-ctl.slice/io.max", ""),
        ("storage.slice/memory.low", None),
    ],
)
def test_each_limit_that_is_not_in_force_is_named(machine: Path, cgroups: Path, name: str, value: str | None) -> None:
    if value is None:
        (cgroups / name).unlink()
    else:
        (cgroups / name).write_text(f"{value}\n")
    lines = list(kernel.differences(made(machine), cgroups))
    assert lines
    assert all(str(cgroups / name) in line for line in lines)


def test_capacity_is_what_the_kernel_enforces(cgroups: Path, tmp_path: Path) -> None:
    target = tmp_path / "run/capacity.config"
    arguments = ["capacity", "--config", str(tmp_path / "absent"), "--cgroups", str(cgroups), "--output", str(target)]
    assert cli.main(arguments) == 0
    # (6144 - 256 - 2 * 32) MiB * 92 %
    assert target.read_text().splitlines()[1:] == ["NUM_CPUS = 2", "MEMORY = 5358", "BEER_SLOTS_PER_CORE = 1"]


@pytest.mark.parametrize(
    ("name", "value"), [("cpuset.cpus", ""), ("memory.max", "max"), ("memory.max", None), ("cpuset.cpus", None)]
)
def test_without_a_cap_there_is_no_capacity(
    cgroups: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, value: str | None
) -> None:
    target = cgroups / "beer.slice" / name
    if value is None:
        target.unlink()
    else:
        target.write_text(f"{value}\n")
    assert cli.main(["capacity", "--config", str(tmp_path / "absent"), "--cgroups", str(cgroups)]) == 1
    assert str(target) in capsys.readouterr().err

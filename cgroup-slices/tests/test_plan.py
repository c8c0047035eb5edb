# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from beerslices import plan
from beerslices.config import Config
from beerslices.inventory import Core, Inventory
from beerslices.quantity import MIB, format_cpus, parse_cpus

GIB = 1 << 30


def host(sockets: int, cores: int, threads: int, memory: int = 64 * GIB) -> Inventory:
    """Linux numbers first threads through all sockets, then second threads."""
    total = sockets * cores
    return Inventory(
        tuple(
            Core(socket, frozenset(socket * cores + core + total * thread for thread in range(threads)))
            for socket in range(sockets)
            for core in range(cores)
        ),
        memory,
    )


def test_the_seeds_server_gives_the_seeds_cpuset_and_memory() -> None:
    made = plan.make(host(2, 8, 2), Config())
    assert made.value("beer.slice", "AllowedCPUs") == "2-7,10-15,18-23,26-31"
    assert made.value("beer.slice", "MemoryMax") == f"{48 * 1024}M"
    assert plan.offer(Config(), 24, 48 * GIB).cores == 24


def test_two_cores_leave_one_to_each() -> None:
    assert plan.make(host(1, 2, 1, 4 * GIB), Config()).value("beer.slice", "AllowedCPUs") == "1"


@pytest.mark.parametrize("sockets", [1, 2, 4])
@pytest.mark.parametrize("cores", [2, 3, 8, 18, 48])
@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("reserved", ["1%", "25%", "45%"])
def test_no_core_is_split_and_every_socket_keeps_its_share(
    sockets: int, cores: int, threads: int, reserved: str
) -> None:
    inventory = host(sockets, cores, threads, 256 * GIB)
    allowed = plan.make(inventory, Config(cpu_reserved=reserved)).allowed_cpus
    kept = [core for core in inventory.cores if not core.cpus & allowed]
    assert kept
    assert all(core.cpus <= allowed or not core.cpus & allowed for core in inventory.cores)
    per_socket = [sum(core.socket == socket for core in kept) for socket in range(sockets)]
    assert max(per_socket) - min(per_socket) <= 1
    assert len(kept) / len(inventory.cores) >= float(reserved.rstrip("%")) / 100


@pytest.mark.parametrize("memory", [3 * GIB, 4 * GIB, 16 * GIB, 64 * GIB, 2048 * GIB])
def test_memory_adds_up(memory: int) -> None:
    made = plan.make(host(1, 8, 2, memory), Config())
    numbers = {(limit.slice, limit.key): limit.value for limit in made.limits}
    batch, jobs, high, low = (
        int(numbers[key].rstrip("M")) * MIB
        for key in (
            ("beer.slice", "MemoryMax"),
            ("beer-jobs.slice", "MemoryMax"),
            ("beer-jobs.slice", "MemoryHigh"),
            ("storage.slice", "MemoryLow"),
        )
    )
    offered = plan.offer(Config(), len(made.allowed_cpus), batch).memory_mib * MIB
    # jobs' sum < where reclaim begins < where the OOM killer begins < the cap; and the protected part fits beside it
    assert offered < high < jobs < batch
    assert batch + low < memory
    assert memory - batch >= plan.RESERVED_FLOOR


@pytest.mark.parametrize(
    ("inventory", "config", "words"),
    [
        (host(1, 1, 2), Config(), "leaves none for batch"),
        (host(1, 4, 1), Config(cpu_reserved="4 cores"), "4 cores of 4 cores leaves none"),
        (host(1, 4, 1), Config(cpu_reserved="100%"), "leaves none for batch"),
        (host(1, 4, 1), Config(cpu_allowed="2-5"), "this machine has no CPU 4-5"),
        (host(1, 4, 1), Config(cpu_allowed="0-3"), "nothing is left for storage"),
        (host(1, 4, 1, 2 * GIB), Config(), "leaves less than 512M for jobs"),
        (host(1, 4, 1), Config(memory_reserved="64GiB"), "leaves less than 512M for jobs"),
    ],
)
def test_a_plan_that_leaves_nothing_is_refused(inventory: Inventory, config: Config, words: str) -> None:
    with pytest.raises(plan.PlanError, match=words):
        plan.make(inventory, config)


def test_a_split_core_is_allowed_when_asked_for_but_said() -> None:
    made = plan.make(host(1, 4, 2), Config(cpu_allowed="2-3,6"))
    assert made.value("beer.slice", "AllowedCPUs") == "2-3,6"
    assert "splits 1 physical cores" in made.limits[0].why


def test_unlimited_bandwidth_writes_no_limit() -> None:
    made = plan.make(host(1, 4, 2), Config(control_read="unlimited"))
    assert [limit.key for limit in made.limits if limit.key.startswith("IO")] == ["IOWriteBandwidthMax"]


@pytest.mark.parametrize("text", ["0", "2-7,10-15", "0,2,4", "127", "0-127"])
def test_cpu_lists_survive_a_round_trip(text: str) -> None:
    assert format_cpus(parse_cpus(text)) == text

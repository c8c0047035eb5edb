# SPDX-License-Identifier: Apache-2.0
"""The whole path: a physics job from condor_submit to a checksum in storage, inside the limits that were configured."""

from __future__ import annotations

import tomllib
import zlib

from beerbench.batch import Batch
from beerbench.guard import Guard
from beerbench.waiting import wait_until
from beerlab import Machine
from support import OBJECTIVE_SECONDS, StorageUser, assert_one_run, report_of

ROOT = "/sys/fs/cgroup"
# linux/capability.h. HTCondor leaves a job CAP_SYS_PTRACE, within its own container.
NET_ADMIN, NET_RAW = 12, 13

# systemd property -> kernel file; what systemd says was configured must be what the kernel does.
LIMITS = (
    ("beer.slice", "MemoryMax", "memory.max"),
    ("beer.slice", "MemorySwapMax", "memory.swap.max"),
    ("beer.slice", "TasksMax", "pids.max"),
    ("beer-jobs.slice", "MemoryMax", "memory.max"),
    ("beer-jobs.slice", "MemoryHigh", "memory.high"),
    ("storage.slice", "CPUWeight", "cpu.weight"),
    ("storage.slice", "MemoryLow", "memory.low"),
)


def cgroup_of(unit: str) -> str:
    parent = {"beer-jobs.slice": "beer.slice/"}.get(unit, "")
    return f"{ROOT}/{parent}{unit}"


def test_physics_job(node: Machine, batch: Batch, guard: Guard, storage: StorageUser) -> None:
    host = node.execute("hostname").stdout.strip()
    output = "/data/01/jobs/e2e.root"
    guard.wait_for_state("open", timeout=120)
    job = batch.submit(f"physics --process z-hadrons --events 50 --seed 7 --output root://{host}/{output}")

    [scope] = batch.wait_for_containers([job], timeout=240)
    assert node.execute(f"cat {scope}/cgroup.procs").stdout.split(), "no process in the scope of the job"
    assert_limits(node, scope)

    report = report_of(job, timeout=400)
    assert_one_run(job)
    assert report["events"] == 50
    checksum = report["checksum"].split(":")[1]
    assert checksum in storage.xrdfs("query", "checksum", output)
    local = storage.fetch(output, "e2e.root").read_bytes()
    assert len(local) == report["bytes"]
    assert f"{zlib.adler32(local):08x}" == checksum


def assert_limits(node: Machine, scope: str) -> None:
    for unit, key, file in LIMITS:
        configured = node.execute(f"systemctl show -P {key} {unit}").stdout.strip()
        kernel = node.execute(f"cat {cgroup_of(unit)}/{file}").stdout.strip()
        assert configured == kernel.replace("max", "infinity"), f"{unit}: {key}={configured}, kernel has {kernel}"
        assert configured not in ("infinity", "[not set]"), f"{unit}: {key} is not set"
    # For the scheduler a CPU that runs jobs only is a free one.
    assert node.execute(f"cat {cgroup_of('beer-jobs.slice')}/cpu.idle").stdout.strip() == "1"
    allowed = node.execute("systemctl show -P AllowedCPUs beer.slice").stdout.strip()
    effective = node.execute(f"cat {scope}/cpuset.cpus.effective").stdout.strip()
    assert allowed.replace(" ", ",") == effective
    assert int(node.execute(f"cat {scope}/memory.max").stdout) == 256 << 20
    # Blame goes by the address that a container has: nobody in it may take another one (CAP_NET_ADMIN, CAP_NET_RAW).
    asked = f"for pid in $(cat {scope}/cgroup.procs); do grep -hE '^(CapBnd|NoNewPrivs)' /proc/$pid/status; done"
    held = [line.split() for line in node.execute(asked).stdout.splitlines()]
    assert {value for name, value in held if name == "NoNewPrivs:"} == {"1"}, held
    bounds = [int(value, 16) for name, value in held if name == "CapBnd:"]
    assert bounds
    assert not any(bound & (1 << NET_ADMIN | 1 << NET_RAW) for bound in bounds), held


def test_objective_is_what_the_other_tests_assume(node: Machine) -> None:
    config = tomllib.loads(node.execute("cat /etc/beer/guard.toml").stdout)
    reads = [item for item in config["objective"] if item["op"] == "read"]
    assert {item["threshold"] for item in reads} == {f"{OBJECTIVE_SECONDS * 1000:.0f}ms"}


def test_storage_and_batch_are_told_apart(node: Machine, batch: Batch, guard: Guard, storage: StorageUser) -> None:
    """The same file, read from outside and by a job: two series, and the bytes of each."""

    def operations() -> dict[str, float]:
        text = node.execute("curl -sS http://127.0.0.1:9721/metrics").stdout
        found = {"storage": 0.0, "batch": 0.0}
        for line in text.splitlines():
            if line.startswith("beer_storage_latency_seconds_count") and 'op="read"' in line:
                for name in found:
                    if f'class="{name}"' in line:
                        found[name] += float(line.rsplit(" ", 1)[1])
        return found

    host = node.execute("hostname").stdout.strip()
    before = operations()
    storage.fetch(storage.xrdfs("ls", "/data/01/store/real").splitlines()[0].strip(), "real")
    # The guard publishes its counters once a second (`loop.slow`), so they may be a moment behind.
    wait_until(lambda: operations()["storage"] > before["storage"], 30, "reads from outside count as storage")
    middle = operations()
    assert middle["batch"] == before["batch"]
    job = batch.submit(f"hog-xrootd --url root://{host}//data/01/store/load/file-00 --streams 1 --seconds 5")
    report_of(job, timeout=300)
    wait_until(lambda: operations()["batch"] > middle["batch"], 30, "reads of the job count as batch")

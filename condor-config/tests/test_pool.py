# SPDX-License-Identifier: Apache-2.0
"""The shipped configuration in a running pool: what the guard says becomes what HTCondor does."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pool as pools
import pytest
from pool import COMPLETED, HELD, IDLE, RUNNING, Pool


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    with pools.running(tmp_path_factory.mktemp("pool")) as pool:
        yield pool


@pytest.fixture
def pool(machine: Pool) -> Iterator[Pool]:
    """Open, and empty."""
    machine.guard_says()
    yield machine
    machine.run("condor_rm", "-all", check=False)
    machine.wait("empty queue", lambda: not machine.run("condor_q", "-allusers", "-af", "ClusterId").stdout.strip())
    machine.wait("free slots", lambda: machine.slot("TotalSlotCpus - Cpus") == "0")


def test_attributes_have_their_full_names(pool: Pool) -> None:
    assert pool.slot("BeerState") == "open"
    assert pool.slot("BeerAdmit") == "true"
    assert abs(time.time() - int(pool.slot("BeerHeartbeat"))) < 10
    assert pool.slot("BeerNode") == "true"
    assert pool.slot("BeerQueues") == "beer"
    assert pool.slot("BEERBeerState") == pool.slot("BEER_BeerState") == "undefined"


def test_the_print_format_shows_the_node(pool: Pool) -> None:
    path = pools.TOP / "print-formats/beer-nodes.cpf"
    head, line = pool.run("condor_status", "-print-format", str(path)).stdout.splitlines()[:2]
    assert head.split() == ["NODE", "STATE", "ADMIT", "USED", "OFFERED", "HEARD", "REASON"]
    assert line.split()[:3] == ["node1", "open", "true"]


def test_a_job_runs_in_a_container_below_the_slice(pool: Pool) -> None:
    cluster = pool.submit(0.1)
    pool.wait_status(cluster, COMPLETED)
    assert pool.job(cluster, "ExitCode") == "0"
    assert pool.job(cluster, "MachineAttrBeerNode0") == "true"
    (create,) = (call for call in pool.engine_calls() if f"HTCJob{cluster}_" in call and call.startswith("create"))
    for option in ("--cgroup-parent=beer-jobs.slice", "--pids-limit=2048", "--add-host=node1:host-gateway"):
        assert option in create


def test_container_universe_comes_to_the_same(pool: Pool) -> None:
    job = {"universe": "container", "docker_image": "", "container_image": "docker://beer-job:latest"}
    cluster = pool.submit(0.1, **job)
    pool.wait_status(cluster, COMPLETED)
    assert any(f"HTCJob{cluster}_" in call and "beer-jobs.slice" in call for call in pool.engine_calls())


@pytest.mark.parametrize(
    "says",
    [
        {"BeerState": "closed", "BeerAdmit": False},
        {"BeerState": "frozen", "BeerAdmit": False},
        # A guard that died while it was open.
        {"BeerHeartbeat": 1},
    ],
    ids=["closed", "frozen", "dead"],
)
def test_none_starts_unless_admitted_and_what_runs_goes_on(pool: Pool, says: dict[str, object]) -> None:
    before = pool.submit(300)
    pool.wait_in_container(before)
    pool.guard_says(**says)
    pool.wait("closed START", lambda: pool.slot("BeerHeartbeat") == "1" or pool.slot("BeerAdmit") == "false")
    late = pool.submit(0.1)
    done = pool.negotiations()
    pool.wait("two more negotiations", lambda: pool.negotiations() >= done + 2)
    assert pool.status(late) == IDLE
    assert pool.status(before) == RUNNING
    pool.guard_says()
    pool.wait_status(late, COMPLETED)
    assert pool.job(before, "NumShadowStarts") == "1"


def slot_of(pool: Pool, cluster: str) -> str:
    return pool.job(cluster, "RemoteHost").split("@")[0]


def test_a_named_slot_is_vacated_fast_and_its_job_queued_again(pool: Pool) -> None:
    guilty, innocent = pool.submit(300), pool.submit(300)
    for cluster in (guilty, innocent):
        pool.wait_in_container(cluster)
    pool.guard_says(BeerState="vacating", BeerAdmit=False, BeerVacateSlots=slot_of(pool, guilty))
    pool.wait_status(guilty, IDLE)
    assert pool.status(innocent) == RUNNING
    # No SIGTERM: a frozen task could not take it. And no unpause, which would be a load spike.
    verbs = [call.split()[0] for call in pool.engine_calls() if f" HTCJob{guilty}_" in call]
    assert [verb for verb in verbs if verb not in ("create", "start", "inspect")] == ["kill", "rm"]
    assert any(call.startswith(f"kill --signal 9 HTCJob{guilty}_") for call in pool.engine_calls())
    pool.guard_says()
    pool.wait_in_container(guilty, times=2)
    assert pool.job(guilty, "NumShadowStarts") == "2"
    assert pool.job(guilty, "NumHolds") in ("undefined", "0")
    assert pool.job(innocent, "NumShadowStarts") == "1"
    # The node's own record of the lost attempt, for accounting.
    history = pool.run("condor_history", "-startd", "-af", "ClusterId", "BadputCausedByPreemption").stdout
    assert f"{guilty} true" in history.splitlines()


def test_an_emergency_empties_the_node(pool: Pool) -> None:
    clusters = [pool.submit(300), pool.submit(300)]
    for cluster in clusters:
        pool.wait_in_container(cluster)
    pool.guard_says(BeerState="emergency", BeerAdmit=False)
    for cluster in clusters:
        pool.wait_status(cluster, IDLE)
        assert pool.job(cluster, "NumShadowStarts") == "1"


def test_capacity_can_shrink_below_the_slot(pool: Pool) -> None:
    pool.guard_says(BeerCores=1)
    pool.wait("one core", lambda: pool.slot("BeerCores") == "1")
    first, second = pool.submit(300), pool.submit(300)
    pool.wait("one job", lambda: {pool.status(first), pool.status(second)} == {IDLE, RUNNING})
    pool.guard_says(BeerCores=2)
    for cluster in (first, second):
        pool.wait_in_container(cluster)


@pytest.mark.parametrize(
    ("own", "value"),
    [("", {0: [True, True], 1: [True, True], 125: [False, True]}), ("ExitCode == 0", {0: [True], 1: [False, False]})],
    ids=["default", "own"],
)
def test_the_engines_own_exit_code_is_not_the_jobs_end(pool: Pool, own: str, value: dict[int, list[bool]]) -> None:
    # Held: it need not run, and a starter that is to stop while it creates a container takes 30 s for that.
    cluster = pool.submit(300, on_exit_remove=own, hold="True")
    line = pool.run("condor_q", cluster, "-long", "-attributes", "OnExitRemove").stdout.strip()
    expression = line.removeprefix("OnExitRemove = ")
    assert expression == f"({own or 'true'}) && (ExitCode =!= 125 || NumJobStarts >= 3)"
    for code, wanted in value.items():
        for starts, removed in zip((1, 3), wanted, strict=False):
            ad = f"[ExitCode = {code}; NumJobStarts = {starts}]"
            found = pool.run("classad_eval", ad, expression).stdout.split()[-1]
            assert found == str(removed).lower(), (code, starts)


def test_a_job_that_ends_with_125_runs_three_times(pool: Pool) -> None:
    cluster = pool.submit(0, executable="/bin/sh", arguments="\"-c 'exit 125'\"")
    pool.wait_status(cluster, COMPLETED)
    assert pool.job(cluster, "NumJobStarts") == "3"
    assert pool.job(cluster, "ExitCode") == "125"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"docker_image": "evil"}, r"do not run the image evil; allowed are those that match \^beer-job"),
        ({"docker_network_type": "host"}, "no host network and no service ports"),
        ({"container_service_names": "web", "web_container_port": "80"}, "no host network and no service ports"),
        ({"universe": "vanilla", "docker_image": ""}, "add universe = docker and docker_image"),
        ({"should_transfer_files": "NO"}, "set should_transfer_files = YES"),
        ({"+BeerQueue": "True"}, r'with quotes: \+BeerQueue = "beer"'),
    ],
)
def test_a_job_that_could_never_run_is_refused_with_the_reason(
    pool: Pool, changes: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        pool.submit(1, **changes)


def test_jobs_for_other_nodes_are_none_of_our_business(pool: Pool) -> None:
    cluster = pool.submit(1, **{"universe": "vanilla", "docker_image": "", "+BeerQueue": ""})
    assert "BeerNode" not in pool.job(cluster, "Requirements")
    assert pool.status(cluster) not in (COMPLETED, HELD)

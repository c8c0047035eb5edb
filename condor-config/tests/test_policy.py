# SPDX-License-Identifier: Apache-2.0
"""START, PREEMPT and what follows from it as truth tables, evaluated by HTCondor's own ClassAd library."""

from __future__ import annotations

import time
from dataclasses import dataclass

import classad2
import htcondor2  # noqa: F401 (registers HTCondor's own functions, stringListMember and the like)
import pytest
from conftest import install

Ad = dict[str, object]
NODE: Ad = {
    "Name": "slot1_2@node1",
    "BeerQueues": "beer,long",
    "BeerState": "open",
    "BeerAdmit": True,
    "BeerCores": 8,
    "BeerMemoryMB": 16000,
    "BeerVacateSlots": "",
    "TotalSlotCpus": 8,
    "Cpus": 4,
    "TotalSlotMemory": 16000,
    "Memory": 8000,
}
JOB: Ad = {
    "JobUniverse": 5,
    "BeerQueue": "beer",
    "WantDocker": True,
    "DockerImage": "beer-job:latest",
    "ShouldTransferFiles": "YES",
    "RequestCpus": 1,
    "RequestMemory": 1000,
}
ABSENT = object()
CONTAINER: Ad = {
    "WantDocker": ABSENT,
    "DockerImage": ABSENT,
    "WantContainer": True,
    "WantDockerImage": True,
    "ContainerImage": "docker://beer-job:latest",
}


def ad(base: Ad, changes: Ad) -> classad2.ClassAd:
    result = classad2.ClassAd()
    for key, value in (base | changes).items():
        if value is not ABSENT:
            result[key] = value
    return result


@dataclass(frozen=True)
class Policy:
    texts: dict[str, str]

    def __call__(self, knob: str, node: Ad, job: Ad, age: float | None) -> object:
        heartbeat: Ad = {} if age is None else {"BeerHeartbeat": int(time.time() - age)}
        return classad2.ExprTree(self.texts[knob]).eval(ad(NODE | heartbeat, node), ad(JOB, job))


KNOBS = ("START", "SUSPEND", "WANT_SUSPEND", "PREEMPT", "WANT_VACATE", "KILL", "MAXJOBRETIREMENTTIME")


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    installed = install(tmp_path_factory.mktemp("execute"), "execute")
    return Policy({knob: installed.value(knob) for knob in KNOBS})


# (what it is, node, job, age of the heartbeat in seconds, does it start?)
START = [
    ("an ordinary job", {}, {}, 2, True),
    ("heartbeat still fresh", {}, {}, 58, True),
    ("heartbeat stale", {}, {}, 62, False),
    ("node's clock a little ahead", {}, {}, -4, True),
    ("heartbeat of the future", {}, {}, -8, False),
    ("no guard ever", {}, {}, None, False),
    ("guard says no", {"BeerAdmit": False}, {}, 2, False),
    ("guard says nothing", {"BeerAdmit": ABSENT}, {}, 2, False),
    ("guard says nonsense", {"BeerAdmit": "yes"}, {}, 2, False),
    ("other queue of the node", {}, {"BeerQueue": "long"}, 2, True),
    ("queue in other letters", {}, {"BeerQueue": "BEER"}, 2, True),
    ("queue of other nodes", {}, {"BeerQueue": "short"}, 2, False),
    ("job that did not ask for storage nodes", {}, {"BeerQueue": ABSENT}, 2, False),
    ("not a container", {}, {"WantDocker": ABSENT, "DockerImage": ABSENT}, 2, False),
    ("says it is none", {}, {"WantDocker": False}, 2, False),
    ("another universe", {}, {"JobUniverse": 12}, 2, False),
    ("no universe", {}, {"JobUniverse": ABSENT}, 2, False),
    ("container universe", {}, CONTAINER, 2, True),
    ("container universe, name only", {}, CONTAINER | {"ContainerImage": "beer-job"}, 2, True),
    ("container universe, SIF", {}, CONTAINER | {"WantDockerImage": ABSENT, "WantSIF": True}, 2, False),
    ("container universe, other image", {}, CONTAINER | {"ContainerImage": "docker://evil"}, 2, False),
    ("container universe, no image", {}, CONTAINER | {"ContainerImage": ABSENT}, 2, False),
    ("image without tag", {}, {"DockerImage": "beer-job"}, 2, True),
    ("image that only begins alike", {}, {"DockerImage": "beer-jobs:latest"}, 2, False),
    ("image of a registry", {}, {"DockerImage": "example.org/beer-job:latest"}, 2, False),
    ("image with a prefix", {}, {"DockerImage": "xbeer-job:latest"}, 2, False),
    ("no image", {}, {"DockerImage": ABSENT}, 2, False),
    ("image is no text", {}, {"DockerImage": 5}, 2, False),
    ("good image, and a bad one", {}, {"ContainerImage": "docker://evil"}, 2, False),
    ("bad image, and a good one", {}, CONTAINER | {"DockerImage": "evil"}, 2, False),
    ("no network at all", {}, {"DockerNetworkType": "none"}, 2, True),
    ("host network", {}, {"DockerNetworkType": "host"}, 2, False),
    ("network of another container", {}, {"DockerNetworkType": "container:x"}, 2, False),
    ("service ports", {}, {"ContainerServiceNames": "web"}, 2, False),
    ("no file transfer", {}, {"ShouldTransferFiles": "NO"}, 2, False),
    ("file transfer if needed", {}, {"ShouldTransferFiles": "IF_NEEDED"}, 2, True),
    ("fits exactly", {"BeerCores": 5, "BeerMemoryMB": 9000}, {}, 2, True),
    ("offered cores are taken", {"BeerCores": 4}, {}, 2, False),
    ("offered memory is taken", {"BeerMemoryMB": 8999}, {}, 2, False),
    ("nothing offered", {"BeerCores": ABSENT}, {}, 2, False),
]


@pytest.mark.parametrize(("node", "job", "age", "starts"), [row[1:] for row in START], ids=[row[0] for row in START])
def test_start(policy: Policy, node: Ad, job: Ad, age: float | None, starts: bool) -> None:
    assert policy("START", node, job, age) is starts


# (what it is, node, age of the heartbeat, must this slot's job go?)
VACATE = [
    ("open", {}, 2, False),
    ("frozen is no reason", {"BeerState": "frozen", "BeerAdmit": False}, 2, False),
    ("vacating this slot", {"BeerState": "vacating", "BeerVacateSlots": "slot1_1,slot1_2"}, 2, True),
    ("vacating this slot alone", {"BeerState": "vacating", "BeerVacateSlots": "slot1_2"}, 2, True),
    ("vacating others", {"BeerState": "vacating", "BeerVacateSlots": "slot1_1,slot1_22"}, 2, False),
    ("vacating nobody yet", {"BeerState": "vacating"}, 2, False),
    ("emergency", {"BeerState": "emergency"}, 2, True),
    ("stale emergency", {"BeerState": "emergency"}, 90, False),
    ("stale list", {"BeerState": "vacating", "BeerVacateSlots": "slot1_2"}, 90, False),
    ("no list", {"BeerVacateSlots": ABSENT}, 2, False),
    ("no guard", {"BeerState": ABSENT, "BeerVacateSlots": ABSENT}, None, False),
]


@pytest.mark.parametrize(("node", "age", "goes"), [row[1:] for row in VACATE], ids=[row[0] for row in VACATE])
def test_vacate_is_fast_and_forfeits_retirement(policy: Policy, node: Ad, age: float | None, goes: bool) -> None:
    assert policy("PREEMPT", node, {}, age) is goes
    assert policy("KILL", node, {}, age) is goes
    assert policy("WANT_VACATE", node, {}, age) is not goes
    assert policy("MAXJOBRETIREMENTTIME", node, {}, age) == (-1 if goes else 86400)


@pytest.mark.parametrize("state", ["open", "closed", "throttled", "frozen", "vacating", "emergency"])
def test_htcondor_never_suspends(policy: Policy, state: str) -> None:
    assert policy("WANT_SUSPEND", {"BeerState": state}, {}, 2) is False
    assert policy("SUSPEND", {"BeerState": state}, {}, 2) is False

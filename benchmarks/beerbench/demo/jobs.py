# SPDX-License-Identifier: Apache-2.0
"""The jobs of the demo, one hostile and one doing physics. Both wait, idle, for a signal: in the snapshot that every
demo starts from, since starting two containers takes two minutes on an emulated CPU."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..batch import Batch, Job
from ..guard import Guard
from ..host import cpu_speed
from ..lab import Node
from .plan import Plan


@dataclass(frozen=True)
class Waiting:
    """A job that waits for its signal, and its cgroup."""

    job: Job
    scope: str


def prepare(node: Node, plan: Plan) -> dict[str, Any]:
    """Submits both and waits until they wait; what `waiting` needs, and the speed of the node's CPU."""
    batch, guard = Batch(node), Guard(node)
    speed = cpu_speed(node)
    guard.wait_for_state("open", 120)
    process, events = plan.physics(speed)
    output = f"root://{node.execute('hostname').stdout.strip()}//data/02/jobs/demo.root"
    work = {
        "hog": f"hog-disk --threads {plan.hog_threads} --size 64MiB --seconds {plan.attack:g} --on-signal 2",
        "physics": f"physics --process {process} --events {events} --seed 7 --output {output} --on-signal",
    }
    jobs = {name: batch.submit(arguments) for name, arguments in work.items()}
    # Takes some seconds, which the containers need anyway.
    guard.prepare()
    found: dict[str, Any] = {"speed": speed}
    for name, job in jobs.items():
        scope = batch.wait_until_ready(job, 240)
        found[name] = {"cluster": job.cluster, "arguments": job.arguments, "scope": scope}
    return found


def inputs(plan: Plan) -> dict[str, Any]:
    """What the outcome of `prepare` depends on, besides the node."""
    return {"recipe": 1, "plan": asdict(plan)}


def waiting(node: Node, name: str) -> Waiting:
    """One of the jobs on a prepared node."""
    known = node.prepared[name]
    return Waiting(Job(node, known["cluster"], known["arguments"]), known["scope"])

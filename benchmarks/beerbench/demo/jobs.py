# SPDX-License-Identifier: Apache-2.0
"""The jobs of the demo, one hostile and one doing physics. Both wait, idle, for a signal: in the snapshot that every
demo starts from, since starting two containers takes two minutes on an emulated CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..batch import DESCRIPTION, Batch, Job
from ..guard import DROP_IN, Guard
from ..host import cpu_speed
from ..lab import Node
from .plan import Plan

# Raise when `prepare` does something else.
RECIPE = 2


@dataclass(frozen=True)
class Waiting:
    """A job that waits for its signal, and its cgroup."""

    job: Job
    scope: str


def prepare(node: Node, plan: Plan) -> dict[str, Any]:
    """Submits both and waits until they wait; what `waiting` needs."""
    batch, guard = Batch(node), Guard(node)
    process, most = plan.physics(cpu_speed(node))
    guard.wait_for_state("open", 120)
    output = f"root://{node.execute('hostname').stdout.strip()}//data/02/jobs/demo.root"
    work = {
        "hog": f"hog-disk --threads {plan.hog_threads} --size 64MiB --seconds {plan.attack:g} --on-signal 2",
        "physics": f"physics --process {process} --events {most} --seconds {plan.busy_seconds:g} --seed 7"
        f" --output {output} --on-signal",
    }
    jobs = {name: batch.submit(arguments) for name, arguments in work.items()}
    # Takes some seconds, which the containers need anyway.
    guard.prepare()
    found: dict[str, Any] = {}
    for name, job in jobs.items():
        scope = batch.wait_until_ready(job, 240)
        found[name] = {"cluster": job.cluster, "arguments": job.arguments, "scope": scope}
    return found


def inputs(plan: Plan) -> dict[str, Any]:
    """What the outcome of `prepare` depends on, besides the node."""
    of_plan = (plan.hog_threads, plan.attack, plan.busy_seconds, plan.native, plan.emulated)
    return {"recipe": RECIPE, "plan": of_plan, "submitted": DESCRIPTION, "drop-in": DROP_IN}


def waiting(node: Node, name: str) -> Waiting:
    """One of the jobs on a prepared node."""
    known = node.prepared[name]
    return Waiting(Job(node, known["cluster"], known["arguments"]), known["scope"])

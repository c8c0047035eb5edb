# SPDX-License-Identifier: Apache-2.0
"""What a record of the demo says: numbers per phase, and how fast the guard was."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .. import text
from ..host import cpu_list
from ..neighbours import taken
from ..record import Record
from ..stats import median
from ..timeline import jobs
from ..timeline.decisions import Decision, Decisions, Span
from ..timeline.node import CONTROL, JOBS, NodeTimeline
from ..timeline.requests import Requests

TITLES = {
    "alone": "storage alone",
    "guarded": "hostile batch, guarded",
    "unguarded": "hostile batch, no guard",
}
LETTERS = {"alone": "A", "guarded": "B", "unguarded": "C"}
# A request is slow when it takes this many times the p99 of storage alone.
SLOW = 1.5
UNTIL_THAW = ("frozen", "vacating", "emergency")


@dataclass(frozen=True)
class Phase:
    """One column of the table. Latencies in seconds, rates in bytes/s, CPU in cores."""

    name: str
    start: float
    end: float
    requests: int
    failed: int
    unanswered: int
    p50: float
    p99: float
    worst: float
    delivered: float
    offered: float
    copies: int
    copy_speed: float
    batch_cpu: float
    batch_share: float
    batch_disk: float
    taken: float


@dataclass(frozen=True)
class Reaction:
    """Unix times of the first freeze in phase B; None = did not happen."""

    attack: float
    first_slow: float | None = None
    decided: float | None = None
    frozen: float | None = None
    last_io: float | None = None
    thawed: float | None = None
    evidence: str = ""

    def since_slow(self, moment: float | None) -> float | None:
        if moment is None or self.first_slow is None:
            return None
        return moment - self.first_slow


@dataclass
class Findings:
    record: Record
    requests: Requests
    node: NodeTimeline
    decisions: Decisions
    events: list[jobs.Event]
    phases: dict[str, Phase] = field(default_factory=dict)

    @cached_property
    def reaction(self) -> Reaction:
        return _reaction(self)

    @cached_property
    def data(self) -> dict[str, Any]:
        return self.record.data

    @property
    def start(self) -> float:
        return float(self.data["phases"]["alone"][0])

    @property
    def end(self) -> float:
        return float(max(end for _, end in self.data["phases"].values()))

    @property
    def clock_error(self) -> float:
        """The node's times are known to within this."""
        return float(self.data["clock"]["error"])

    @property
    def cpus(self) -> list[int]:
        return cpu_list(str(self.record.host["node"].get("allowed_cpus", "")))

    def spans(self) -> list[Span]:
        """States of the guard over the whole run, with the time it was gone."""
        marks = {mark["what"]: mark["time"] for mark in self.data["marks"]}
        gone = [Span("stopped", marks["guard_gone"], min(marks["guard_back"], self.end))]
        return self.decisions.spans(self.start, self.end, stopped=gone)

    def transfers(self) -> list[dict[str, Any]]:
        return list(self.data["transfers"])


def study(record: Record) -> Findings:
    offset = float(record.data["clock"]["offset"])
    found = Findings(
        record=record,
        requests=Requests.load(record.file("requests")),
        node=NodeTimeline.parse(record.file("node").read_text(), offset),
        decisions=Decisions.parse(record.file("journal").read_text(), offset),
        events=jobs.parse(record.file("jobs").read_text(), offset),
    )
    for name in TITLES:
        found.phases[name] = _phase(found, name)
    return found


def _phase(found: Findings, name: str) -> Phase:
    start, end = found.data["phases"][name]
    requests = found.requests.due_between(start, end)
    copies = [copy for copy in found.transfers() if start <= copy["start"] < end]
    speeds = [copy["size"] / (copy["end"] - copy["start"]) for copy in copies if copy["ok"]]
    shares = found.node.disk_share(found.data["device"])
    batch = sum((shares[name] for name in (JOBS, CONTROL) if name in shares), np.zeros_like(found.node.time))
    latency = requests.latency
    return Phase(
        name=name,
        start=start,
        end=end,
        requests=len(requests),
        failed=requests.failed,
        unanswered=requests.unanswered,
        p50=requests.quantile(0.50),
        p99=requests.quantile(0.99),
        worst=float(latency.max()) if len(latency) else float("nan"),
        delivered=found.requests.delivered(start, end),
        offered=len(requests) * found.requests.header["size"] / (end - start),
        copies=sum(copy["ok"] for copy in copies),
        copy_speed=median(speeds),
        batch_cpu=found.node.batch_cpu(start, end),
        batch_share=found.node.delivered_share(found.cpus, start, end),
        batch_disk=found.node.mean(batch, start, end),
        taken=taken(found.data.get("neighbours", []), start, end).neighbours,
    )


def _reaction(found: Findings) -> Reaction:
    end = found.data["phases"]["guarded"][1]
    device = found.data["device"]
    since = float(found.data["attacks"]["guarded"]) - float(found.data["clock"]["offset"])
    window = found.requests.due_between(since, end)
    slow = window.due[window.latency > SLOW * found.phases["alone"].p99]
    # Where another job stood still already, the rest is frozen by widening that.
    freeze = found.decisions.between(since, end).first(("freeze", "widen"), since)
    frozen = found.node.frozen_at(since)
    thawed = found.node.thawed_at(frozen) if frozen is not None else None
    last_io = found.node.last_batch_io(device, frozen, thawed or end) if frozen is not None else None
    return Reaction(
        attack=since,
        first_slow=float(slow[0]) if len(slow) else None,
        decided=freeze.time if freeze else None,
        frozen=frozen,
        last_io=last_io,
        thawed=thawed,
        evidence=evidence(freeze) if freeze else "",
    )


def evidence(decision: Decision) -> str:
    """What a decision was based on, in words."""
    if decision.value is None:
        return decision.cause.replace("_", " ")

    def shown(value: float) -> str:
        return text.percent(value) if decision.unit == "share" else f"{value:.3g} {decision.unit}".rstrip()

    return (
        f"{decision.cause.replace('_', ' ')}: {decision.series} {shown(decision.value)}, limit {shown(decision.limit)}"
    )

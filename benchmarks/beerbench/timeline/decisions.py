# SPDX-License-Identifier: Apache-2.0
"""The guard's journal: one decision per line (contract 4.6, types in guard/crates/intf/src/journal.rs)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

FROZEN = ("frozen", "vacating", "emergency")
# Who is named stands still from then on; who leaves does, beside those who did before.
STILL, LEAVING = ("freeze", "extend", "narrow", "widen"), ("vacate", "evacuate")
# With it ends who rests.
GUARD_ENDS = ("the_guard_stops", "adopted", "start")


@dataclass(frozen=True)
class Decision:
    """One line, with its time on the host's clock."""

    time: float
    before: str
    after: str
    cause: str
    action: str
    outcome: str
    precaution: bool = False
    series: str = ""
    value: float | None = None
    limit: float | None = None
    unit: str = ""
    jobs: tuple[str, ...] = ()
    detail: str = ""
    lasted: float | None = None

    @classmethod
    def parse(cls, raw: dict[str, Any], clock_offset: float) -> Decision:
        evidence = raw.get("evidence") or {}
        lasted = raw.get("lasted_ns")
        return cls(
            time=raw["time_ns"] / 1e9 - clock_offset,
            before=raw["from"],
            after=raw["to"],
            cause=raw["cause"],
            action=raw["action"],
            outcome=raw["outcome"],
            precaution=raw.get("precaution", False),
            series=evidence.get("series", ""),
            value=evidence.get("value"),
            limit=evidence.get("limit"),
            unit=evidence.get("unit", ""),
            jobs=tuple(job["scope"] for job in raw.get("jobs", ())),
            detail=raw.get("detail", ""),
            lasted=None if lasted is None else lasted / 1e9,
        )


@dataclass(frozen=True)
class Span:
    """A stretch of time in one state."""

    state: str
    start: float
    end: float
    precaution: bool = False


@dataclass
class Decisions:
    """All decisions, oldest first."""

    items: Sequence[Decision] = field(default_factory=list)

    @classmethod
    def parse(cls, text: str, clock_offset: float = 0.0) -> Decisions:
        """The lines of all files; a line that the guard's own end tore off is left out."""
        items = []
        for line in text.splitlines():
            try:
                raw = json.loads(line)
            except ValueError:
                continue
            items.append(Decision.parse(raw, clock_offset))
        return cls(sorted(items, key=lambda item: item.time))

    def between(self, start: float, end: float) -> Decisions:
        return Decisions([item for item in self.items if start <= item.time < end])

    def first(self, actions: str | tuple[str, ...], since: float) -> Decision | None:
        wanted = (actions,) if isinstance(actions, str) else actions
        return next((item for item in self.items if item.action in wanted and item.time >= since), None)

    def spans(self, start: float, end: float, initial: str = "open", stopped: Iterable[Span] = ()) -> list[Span]:
        """The states from start to end without gaps; `stopped` are times at which no guard ran, and win."""
        state, precaution = initial, False
        for item in self.items:
            if item.time < start:
                state, precaution = item.after, item.precaution
        spans: list[Span] = []
        since = start
        for item in self.items:
            if not start <= item.time < end or (item.after, item.precaution) == (state, precaution):
                continue
            spans.append(Span(state, since, item.time, precaution))
            state, precaution, since = item.after, item.precaution, item.time
        spans.append(Span(state, since, end, precaution))
        for hole in stopped:
            spans = _cut(spans, hole)
        return [span for span in spans if span.end > span.start]

    def frozen_seconds(self, start: float, end: float) -> float:
        return sum(span.end - span.start for span in self.spans(start, end) if span.state in FROZEN)

    def stood_still(self, scope: str, start: float, end: float) -> float:
        """Seconds of that time in which the guard kept this job frozen.

        Who was frozen runs with the thaw, or with the stage after it that names him; unless he rests.
        """
        moves = [item for item in self.items if item.outcome != "skipped" and item.time < end]
        total, since, frozen, rests = 0.0, None, False, False
        for number, item in enumerate(moves):
            if item.action in STILL:
                frozen = scope in item.jobs
            elif item.action in LEAVING:
                frozen = frozen or scope in item.jobs
            elif item.action == "thaw":
                frozen = frozen and _waits(scope, moves[number + 1 :])
            elif item.action == "stage":
                frozen = frozen and scope not in item.jobs
            elif item.action in ("rest", "go_on") and scope in item.jobs:
                rests = item.action == "rest"
            rests = rests and item.cause not in GUARD_ENDS
            still = frozen or rests
            if still and since is None:
                since = max(item.time, start)
            elif not still and since is not None:
                total, since = total + max(0.0, item.time - since), None
        return total + (max(0.0, end - since) if since is not None else 0.0)


def _waits(scope: str, later: Sequence[Decision]) -> bool:
    named = (item.action for item in later if item.action in (*STILL, "thaw", "stage") and scope in item.jobs)
    return next(named, None) == "stage"


def _cut(spans: list[Span], hole: Span) -> list[Span]:
    left = [Span(s.state, s.start, min(s.end, hole.start), s.precaution) for s in spans if s.start < hole.start]
    right = [Span(s.state, max(s.start, hole.end), s.end, s.precaution) for s in spans if s.end > hole.end]
    return [*left, hole, *right]

# SPDX-License-Identifier: Apache-2.0
"""What happened to jobs, from HTCondor's user logs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

# HTCondor manual, "Job Event Log Codes"
NAMES = {0: "submitted", 1: "started", 4: "evicted", 5: "ended", 7: "shadow exception", 9: "removed", 12: "held"}
LINE = re.compile(
    r"^(?P<code>\d{3}) \((?P<cluster>\d+)\.(?P<process>\d+)\.\d+\) (?P<when>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)"
)


@dataclass(frozen=True)
class Event:
    """To one second: HTCondor writes no better."""

    time: float
    cluster: int
    what: str


def parse(text: str, clock_offset: float = 0.0) -> list[Event]:
    """Events of the kinds in NAMES, in order. The node's time zone is UTC."""
    events = []
    for line in text.splitlines():
        match = LINE.match(line)
        if match is None or int(match["code"]) not in NAMES:
            continue
        when = datetime.fromisoformat(match["when"]).replace(tzinfo=UTC).timestamp()
        events.append(Event(when - clock_offset, int(match["cluster"]), NAMES[int(match["code"])]))
    return sorted(events, key=lambda event: event.time)


def count(events: Sequence[Event], cluster: int, what: str) -> int:
    return sum(event.cluster == cluster and event.what == what for event in events)

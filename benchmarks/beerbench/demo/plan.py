# SPDX-License-Identifier: Apache-2.0
"""What happens in the demo, for how long, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass

# Against the host: a node that is slower has no hardware virtualisation.
EMULATED = 0.5
# Between the signals to the jobs and the phases.
MARGIN = 10.0


@dataclass(frozen=True)
class Plan:
    """Seconds, shares and jobs of the demo."""

    # The first requests and copies meet cold caches.
    settle: float = 8
    alone: float = 20
    # At most; the guard has learned after some 40 s of requests.
    learn: float = 90
    # As long as each other, or one would have more of the time before and after the attack in it.
    attacked: float = 20
    after: float = 14
    # For requests of the last phase to be answered late and not never.
    drain: float = 8
    # The hog attacks for so long, from this moment of both phases on.
    attack: float = 18
    lead: float = 1
    # Of what the disk is throttled to; the copies of xrdcp come on top, and an emulated CPU has little to spare.
    load: float = 0.5
    connections: int = 24
    # Bytes/s of a copy, at most.
    copy_rate: int = 512 << 10
    hog_threads: int = 24
    # What the physics job makes, and how many at most: its memory is for no more. Natively that is less than a minute.
    native: tuple[str, int] = ("hard-qcd", 4000)
    emulated: tuple[str, int] = ("z-hadrons", 20_000)

    def physics(self, speed: float) -> tuple[str, int]:
        """Process and most collisions, for a node whose CPU has this speed."""
        return self.emulated if speed < EMULATED else self.native

    @property
    def busy_seconds(self) -> float:
        """For so long the physics job computes, if its memory lasts: it is to outlast both attacks."""
        return self.lead + self.attacked + self.after + self.attacked + self.drain + MARGIN

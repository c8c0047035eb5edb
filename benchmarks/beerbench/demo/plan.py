# SPDX-License-Identifier: Apache-2.0
"""What happens in the demo, for how long, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass

# Against the host: a node that is slower has no hardware virtualisation.
EMULATED = 0.5


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
    # Enough collisions to last from one attack into the other on a node as fast as the one that is measured. Natively
    # Pythia is ready for Z in 0.24 s, for hard QCD in 0.59 s. An emulated CPU is slower in floating point than in the
    # loop that measures it: a sixth of 2000/s, the ratio that was found for hard QCD.
    busy_seconds: float = 50
    native: tuple[str, float] = ("hard-qcd", 90)
    emulated: tuple[str, float] = ("z-hadrons", 330)

    def physics(self, speed: float) -> tuple[str, int]:
        """Process and number of collisions, for a node whose CPU has this speed."""
        process, rate = self.emulated if speed < EMULATED else self.native
        return process, max(8, int(self.busy_seconds * rate * speed))

# SPDX-License-Identifier: Apache-2.0
"""The numbers a physics job is judged by. Pure functions, so that each can be shown to fail."""

from __future__ import annotations

import math
from dataclasses import dataclass

from beer_payload.report import WrongNumber

# Pythia itself accepts 1e-4 before it reports an energy-momentum error; single precision in the file adds less.
CONSERVATION_TOLERANCE = 2e-4
# A job in a million is that far off by chance; a wrong settings file or a truncated event is much further.
MULTIPLICITY_SIGMAS = 5.0
# Uncertainty of the expected means, and of Pythia between patch releases.
MULTIPLICITY_MODEL = 0.03


@dataclass(frozen=True)
class Expectation:
    """What events of one process look like: known from theory (energy, charge) or from a large sample."""

    energy: float  # GeV, in the centre of mass
    charge: int
    charged_mean: float
    charged_deviation: float


def event_count(found: int, expected: int) -> None:
    if found != expected:
        raise WrongNumber(f"{found} events in the file, {expected} were asked for")


def energy(event: int, total: float, expected: float) -> None:
    if not abs(total - expected) <= CONSERVATION_TOLERANCE * expected:
        raise WrongNumber(f"event {event}: energy {total:.4f} GeV, {expected:.4f} GeV went in")


def momentum(event: int, total: float, energy: float) -> None:
    if not total <= CONSERVATION_TOLERANCE * energy:
        raise WrongNumber(f"event {event}: {total:.4f} GeV of momentum out of nothing")


def charge(event: int, total: int, expected: int) -> None:
    if total != expected:
        raise WrongNumber(f"event {event}: charge {total}, {expected} went in")


def multiplicity(mean: float, events: int, expected: Expectation) -> None:
    window = MULTIPLICITY_SIGMAS * expected.charged_deviation / math.sqrt(events)
    window += MULTIPLICITY_MODEL * expected.charged_mean
    if not abs(mean - expected.charged_mean) <= window:
        wanted = f"{expected.charged_mean:.1f} +- {window:.1f}"
        raise WrongNumber(f"{mean:.2f} charged particles per event in {events} events, expected {wanted}")

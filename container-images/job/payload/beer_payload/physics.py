# SPDX-License-Identifier: Apache-2.0
"""Collisions from Pythia 8."""

from __future__ import annotations

import math
import os
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beer_payload import begin
from beer_payload.checks import Expectation
from beer_payload.report import Gaps, SetupError, WrongNumber

if TYPE_CHECKING:
    import numpy as np

MAX_SEED = 900_000_000  # Pythia's own limit

# So many events run the code of nearly all that come after them: until it has run it is on the disk.
FIRST = 10


@dataclass(frozen=True)
class Process:
    """Settings of Pythia, and what comes out. Means and deviations: 10,000 events of pythia8mc 8.317.2."""

    name: str
    about: str
    settings: tuple[str, ...]
    expectation: Expectation


PROCESSES = {
    process.name: process
    for process in (
        Process(
            "hard-qcd",
            "two jets in proton collisions at 13 TeV",
            ("Beams:eCM = 13000.", "HardQCD:all = on", "PhaseSpace:pTHatMin = 20."),
            Expectation(energy=13000.0, charge=2, charged_mean=212.2, charged_deviation=83.2),
        ),
        Process(
            "z-muons",
            "Z to a muon pair in proton collisions at 13 TeV",
            ("Beams:eCM = 13000.", "WeakSingleBoson:ffbar2gmZ = on", "23:onMode = off", "23:onIfAny = 13"),
            Expectation(energy=13000.0, charge=2, charged_mean=178.9, charged_deviation=84.9),
        ),
        Process(
            "z-hadrons",
            "Z to quarks in electron-positron collisions at 91.188 GeV: 20 times cheaper than the others",
            (
                *("Beams:idA = 11", "Beams:idB = -11", "Beams:eCM = 91.188", "PDF:lepton = off"),
                *("WeakSingleBoson:ffbar2gmZ = on", "23:onMode = off", "23:onIfAny = 1 2 3 4 5"),
            ),
            Expectation(energy=91.188, charge=0, charged_mean=20.55, charged_deviation=6.36),
        ),
    )
}


@dataclass
class Events:
    """Particles of the final state, one after the other, and how many belong to each event."""

    counts: np.ndarray
    columns: dict[str, np.ndarray]
    init_seconds: float
    longest_gap_seconds: float


# Branches of the file with their types: pdg is the particle's code in the numbering of the Particle Data Group.
COLUMNS = {"pdg": "int32", "charge": "int8", "px": "float32", "py": "float32", "pz": "float32", "energy": "float32"}


def pythia(process: Process, seed: int) -> Any:
    """A generator that is ready to make events."""
    try:
        import pythia8mc
    except ImportError as error:
        raise SetupError(f"no Pythia here: {error}") from error
    if "PYTHIA8DATA" not in os.environ:
        for folder in (Path(pythia8mc.__file__).parent, Path(sysconfig.get_path("data"))):
            if (folder / "share/Pythia8/xmldoc/Index.xml").is_file():
                os.environ["PYTHIA8DATA"] = str(folder / "share/Pythia8/xmldoc")
    generator = pythia8mc.Pythia("", False)
    for line in (*process.settings, "Random:setSeed = on", f"Random:seed = {seed}", "Print:quiet = on"):
        if not generator.readString(line):
            raise SetupError(f"Pythia refuses '{line}'")
    if not generator.init():
        raise SetupError(f"Pythia cannot start process {process.name}")
    return generator


def generate(process: Process, events: int, seed: int, on_signal: bool = False, seconds: float = math.inf) -> Events:
    """Makes so many events, or as many as it can in so long. One that Pythia gives up on is made again.

    With `on_signal` the first ones are made at once, the others when the signal comes: what loading tables and the code
    of libraries costs the disk is over by then.
    """
    import numpy as np

    start = time.monotonic()
    generator = pythia(process, seed)
    ready = time.monotonic()
    gaps = Gaps(ready)
    kinds = np.dtype(list(COLUMNS.items()))
    tables: list[np.ndarray] = []
    given_up = 0
    waits, end = on_signal, math.inf if on_signal else ready + seconds
    while len(tables) < events and (time.monotonic() < end or not tables):
        if waits and len(tables) == min(FIRST, events - 1):
            waits = False
            next(begin.rounds(1))
            gaps, end = Gaps(time.monotonic()), time.monotonic() + seconds
        if not generator.next():
            given_up += 1
            if given_up > 10 + events // 10:
                raise WrongNumber(f"Pythia gave up on {given_up} of {len(tables) + given_up} events")
            continue
        final = [particle for particle in generator.event if particle.isFinal()]
        rows = [(p.id(), round(p.charge()), p.px(), p.py(), p.pz(), p.e()) for p in final]
        tables.append(np.array(rows, dtype=kinds))  # at once: as Python objects they take ten times the memory
        gaps.step(time.monotonic())
    counts = np.array([len(table) for table in tables], dtype="int64")
    columns = {name: np.concatenate([table[name] for table in tables]) for name in COLUMNS}
    return Events(counts, columns, ready - start, gaps.longest)

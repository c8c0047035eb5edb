# SPDX-License-Identifier: Apache-2.0
"""Events to and from a ROOT file: one tree `events`, one entry per collision, one jagged branch per column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from beer_payload import checks
from beer_payload.physics import COLUMNS, Events, Process
from beer_payload.report import SetupError, WrongNumber

TREE = "events"


def libraries() -> tuple[Any, Any, Any]:
    try:
        import awkward
        import numpy
        import uproot
    except ImportError as error:
        raise SetupError(f"cannot write ROOT files here: {error}") from error
    return awkward, numpy, uproot


def write(events: Events, path: Path) -> None:
    awkward, _, uproot = libraries()
    particles = awkward.zip({name: awkward.unflatten(column, events.counts) for name, column in events.columns.items()})
    # Level 1: the file is about a fifth larger than at the default level, and compressing it costs half the time.
    with uproot.recreate(path, compression=uproot.ZLIB(1)) as file:
        tree = file.mktree(TREE, {"particle": particles.type.content})
        tree.extend({"particle": particles})


def verify(path: Path, process: Process, events: Events) -> dict[str, float]:
    """Reads the file and checks it against what was generated and against physics; returns what was found."""
    awkward, numpy, uproot = libraries()
    with uproot.open(path) as file:
        arrays = file[TREE].arrays([f"particle_{name}" for name in COLUMNS])
    checks.event_count(len(arrays), len(events.counts))
    columns = {}
    for name in COLUMNS:
        branch = arrays[f"particle_{name}"]
        if not numpy.array_equal(awkward.to_numpy(awkward.num(branch)), events.counts):
            raise WrongNumber(f"branch particle_{name}: other number of particles than generated")
        columns[name] = awkward.to_numpy(awkward.flatten(branch))
        if not numpy.array_equal(columns[name], events.columns[name]):
            raise WrongNumber(f"branch particle_{name}: read back other values than written")
    return check_physics(events.counts, columns, process)


def check_physics(counts: Any, columns: dict[str, Any], process: Process) -> dict[str, float]:
    """Energy, momentum and charge of each event, and the mean multiplicity of all."""
    import numpy

    expected = process.expectation
    starts = numpy.concatenate(([0], numpy.cumsum(counts)[:-1]))
    if not counts.all():
        raise WrongNumber(f"event {int(numpy.argmin(counts))} is empty")

    def per_event(values: Any) -> Any:
        return numpy.add.reduceat(values.astype("float64"), starts)

    energies, charges = per_event(columns["energy"]), per_event(columns["charge"])
    momenta = numpy.sqrt(sum(per_event(columns[axis]) ** 2 for axis in ("px", "py", "pz")))
    for event in range(len(counts)):
        checks.energy(event, float(energies[event]), expected.energy)
        checks.momentum(event, float(momenta[event]), expected.energy)
        checks.charge(event, int(charges[event]), expected.charge)
    mean = float((columns["charge"] != 0).sum() / len(counts))
    checks.multiplicity(mean, len(counts), expected)
    return {
        "particles": int(counts.sum()),
        "charged_per_event": round(mean, 3),
        "energy_error_gev": round(float(abs(energies - expected.energy).max()), 6),
    }

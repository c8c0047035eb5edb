# SPDX-License-Identifier: Apache-2.0
"""The physics job: generate, write, store, verify in storage, read back, check."""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path
from typing import Any

from beer_payload import physics, rootfile, storage
from beer_payload.report import Stopwatch


def run(
    process: str,
    events: int,
    seed: int,
    output: storage.Url | None,
    keytab: Path | None,
    on_signal: bool = False,
    seconds: float = math.inf,
) -> dict[str, Any]:
    """Does the whole job in a folder of its own below the current one, which is the job's scratch.

    With `on_signal` it waits, after its first events, until the signal comes; `wall_seconds` counts the waiting too.
    """
    # Before numpy is imported: one thread, for one core is what the slot has.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    chosen = physics.PROCESSES[process]
    total, phase = Stopwatch(), Stopwatch()
    phases: dict[str, float] = {}

    def done(name: str) -> None:
        nonlocal phase
        phases[name] = round(phase.wall(), 3)
        phase = Stopwatch()

    with tempfile.TemporaryDirectory(prefix="beer-", dir=Path.cwd()) as name:
        folder = Path(name)
        # Like Pythia's tables: what waits for a signal has read all it needs from the disk when the signal comes.
        rootfile.libraries()
        done("load")
        made = physics.generate(chosen, events, seed, on_signal, seconds)
        done("generate")
        local = folder / "events.root"
        rootfile.write(made, local)
        done("write")
        checksum, size = storage.adler32(local), local.stat().st_size
        if output is not None:
            storage.use_keytab(keytab, folder / "keytab")
            storage.copy(str(local), str(output))
            done("store")
            storage.verify_checksum(output, checksum)
            done("checksum")
            local = folder / "back.root"
            storage.copy(str(output), str(local))
            done("fetch")
        found = rootfile.verify(local, chosen, made)
        done("verify")
    return {
        "process": process,
        "events": len(made.counts),
        "seed": seed,
        **found,
        "bytes": size,
        "checksum": f"adler32:{checksum}",
        "output": str(output) if output else None,
        "init_seconds": round(made.init_seconds, 3),
        "longest_gap_seconds": round(made.longest_gap_seconds, 3),
        "phase_seconds": phases,
        **total.times(),
    }

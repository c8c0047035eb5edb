# SPDX-License-Identifier: Apache-2.0
"""Samples of a storage client as arrays."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..client.samples import ERROR, FORMAT, OK, OUTSTANDING, RECORD, UNAVAILABLE
from ..stats import Floats, quantile

DTYPE = np.dtype(
    [
        ("scheduled", "<i8"),
        ("sent", "<i8"),
        ("done", "<i8"),
        ("size", "<u4"),
        ("target", "<u2"),
        ("outcome", "u1"),
        ("unused", "u1"),
    ]
)


class SampleError(Exception):
    """A sample file that is none."""


@dataclass(frozen=True)
class Requests:
    """Requests in the order they were due. Times are Unix seconds; latencies are seconds from the scheduled send.

    A request that failed has an infinite latency: left out, an outage would make the p99 better.
    """

    header: dict[str, Any]
    due: Floats
    sent: Floats
    done: Floats
    size: Floats
    disk: np.typing.NDArray[np.int64]
    outcome: np.typing.NDArray[np.uint8]

    @classmethod
    def load(cls, path: Path) -> Requests:
        with path.open("rb") as file:
            line = file.readline()
            raw = file.read()
        try:
            header = json.loads(line)
        except ValueError as error:
            raise SampleError(f"{path}: no header line: {error}") from error
        if header.get("format") != FORMAT:
            raise SampleError(f"{path}: format {header.get('format')!r}, expected {FORMAT!r}")
        # A client that was killed may leave half a record.
        raw = raw[: len(raw) - len(raw) % RECORD.size]
        records = np.frombuffer(raw, DTYPE)
        records = records[np.argsort(records["scheduled"], kind="stable")]
        disks = np.asarray(header["disk_of_target"], dtype=np.int64)
        offset = header["epoch_offset_ns"]

        def unix(name: str) -> Floats:
            return np.asarray((records[name] + offset) / 1e9, dtype=float)

        return cls(
            header=header,
            due=unix("scheduled"),
            sent=unix("sent"),
            done=unix("done"),
            size=records["size"].astype(float),
            disk=disks[records["target"]],
            outcome=records["outcome"],
        )

    def __len__(self) -> int:
        return len(self.due)

    def select(self, keep: np.typing.NDArray[np.bool_]) -> Requests:
        return Requests(
            self.header,
            self.due[keep],
            self.sent[keep],
            self.done[keep],
            self.size[keep],
            self.disk[keep],
            self.outcome[keep],
        )

    def due_between(self, start: float, end: float) -> Requests:
        """Requests that were due in the window, whenever they were answered."""
        return self.select((self.due >= start) & (self.due < end))

    def on_disk(self, disk: int) -> Requests:
        return self.select(self.disk == disk)

    @property
    def latency(self) -> Floats:
        failed = np.isin(self.outcome, (ERROR, UNAVAILABLE))
        return np.where(failed, np.inf, self.done - self.due)

    @property
    def lag(self) -> Floats:
        """How late this machine sent: lab noise that is inside the latency."""
        return self.sent - self.due

    def quantile(self, share: float) -> float:
        return quantile(self.latency, share)

    def count(self, *outcomes: int) -> int:
        return int(np.isin(self.outcome, outcomes).sum())

    @property
    def failed(self) -> int:
        return self.count(ERROR, UNAVAILABLE)

    @property
    def unanswered(self) -> int:
        return self.count(OUTSTANDING)

    def delivered(self, start: float, end: float) -> float:
        """Bytes per second that arrived in the window, whenever they were due."""
        arrived = (self.outcome == OK) & (self.done >= start) & (self.done < end)
        return float(self.size[arrived].sum() / (end - start)) if end > start else float("nan")

    def per_second(self, start: float, end: float, share: float) -> tuple[Floats, Floats]:
        """For each second of the window (its middle): the quantile of the requests that were due in it."""
        edges = np.arange(start, end, 1.0)
        values = [self.due_between(edge, edge + 1).quantile(share) for edge in edges]
        return edges + 0.5, np.asarray(values, dtype=float)

    def answered_per_second(self, start: float, end: float) -> Floats:
        """Requests answered in each whole second of the window."""
        edges = start + np.arange(int(end - start) + 1)
        answered = self.done[self.outcome == OK]
        return np.histogram(answered, bins=edges)[0].astype(float)

# SPDX-License-Identifier: Apache-2.0
"""Records: what a benchmark measured, with the facts of the host, kept so that it can be studied again."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FORMAT = "beer-record/1"
FILE = "record.json"


class RecordError(Exception):
    """A record that is none, or of another kind."""


@dataclass
class Record:
    """`data` is what was measured; bulky parts lie in files beside the record, named in `data`."""

    benchmark: str
    parameters: dict[str, Any]
    host: dict[str, Any]
    data: dict[str, Any] = field(default_factory=dict)
    # What this machine lacks for the number to mean what it says; printed with every result.
    missing: list[str] = field(default_factory=list)
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    format: str = FORMAT
    folder: Path = field(default_factory=Path)

    def save(self, folder: Path) -> Path:
        """Writes folder/record.json, by rename: a record is whole or not there."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        content = asdict(self)
        del content["folder"]
        staging = folder / (FILE + ".new")
        staging.write_text(json.dumps(plain(content), indent=1, allow_nan=False) + "\n")
        staging.rename(folder / FILE)
        return folder / FILE

    @classmethod
    def load(cls, path: Path) -> Record:
        """From a record.json or the folder it lies in."""
        path = path / FILE if path.is_dir() else path
        try:
            content = json.loads(path.read_text())
        except ValueError as error:
            raise RecordError(f"{path}: {error}") from error
        if content.get("format") != FORMAT:
            raise RecordError(f"{path}: format {content.get('format')!r}, expected {FORMAT!r}")
        return cls(**content, folder=path.parent)

    def file(self, name: str) -> Path:
        """A file beside the record that `data` names."""
        return self.folder / self.data["files"][name]


def plain(value: Any) -> Any:
    """JSON has no nan and no infinity: they become null and a word."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf"
    return value

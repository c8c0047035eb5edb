# SPDX-License-Identifier: Apache-2.0
"""What a command in a node gave back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    stdout: str
    stderr: str
    status: int

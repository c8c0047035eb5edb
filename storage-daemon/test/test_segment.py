# SPDX-License-Identifier: Apache-2.0
"""The golden file says what its JSON says; damaged ones are refused."""

import json

import pytest
import segment
from server import TOP

FORMATS = TOP.parent / "docs" / "formats"


@pytest.fixture(scope="module")
def golden() -> bytes:
    return segment.from_dump((FORMATS / "latency-segment.golden").read_text())


def test_golden_file_and_its_description_agree(golden: bytes) -> None:
    assert segment.read(golden) == json.loads((FORMATS / "latency-segment.golden.json").read_text())


@pytest.mark.parametrize("at", [0, 8, 12, 16, 36, 40, 44, 48, 52, 56, 64, 72, 80, 88, 96])
def test_a_damaged_header_is_refused(golden: bytes, at: int) -> None:
    damaged = bytearray(golden)
    damaged[at] ^= 1
    with pytest.raises(segment.FormatError):
        segment.read(bytes(damaged))


def test_a_short_file_is_refused(golden: bytes) -> None:
    for size in (0, 100, 4096, len(golden) - 1):
        with pytest.raises(segment.FormatError):
            segment.read(golden[:size])

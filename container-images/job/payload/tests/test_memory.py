# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import resource
from pathlib import Path

from beer_payload import memory


def resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


def test_it_takes_what_it_is_told_to_and_gives_it_back():
    before = resident()
    report = memory.run(4 * memory.STEP, 1.0)
    assert report["bytes"] == 4 * memory.STEP
    assert report["rewritten"] > 0
    assert resident() - before < memory.STEP


def test_every_page_is_written():
    with memory.mmap.mmap(-1, memory.STEP) as block:
        memory.touch(block, 1)
        pages = [block[offset] for offset in range(0, len(block), memory.PAGE)]
    assert pages[:3] == [1, 2, 3]
    assert len(pages) == memory.STEP // memory.PAGE

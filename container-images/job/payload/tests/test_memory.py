# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest
from beer_payload import memory
from beer_payload.report import SetupError


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


def test_several_share_it():
    report = memory.run(5 * memory.STEP - 1, 1.0, processes=2)
    assert report["bytes"] == 5 * memory.STEP, "as one alone: whole blocks"
    assert report["rewritten"] > 0


def test_that_the_kernel_ended_one_of_several_is_told(monkeypatch):
    monkeypatch.setattr(memory, "touch", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(SetupError, match="not allowed"):
        memory.run(4 * memory.STEP, 1.0, processes=2)

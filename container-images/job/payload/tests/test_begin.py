# SPDX-License-Identifier: Apache-2.0
"""Payloads that wait for their signal, as processes of their own: in a container it comes from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from beer_payload import begin

COMMAND = Path(__file__).parent.parent / "beer-payload"
HOG = "hog-disk --size 64KiB --block 8KiB --threads 2"


@pytest.mark.parametrize(("payload", "counted"), [(HOG, "operations"), ("burn", "units")])
def test_it_works_once_for_each_signal(tmp_path: Path, payload: str, counted: str):
    command = [sys.executable, str(COMMAND), *payload.split(), "--seconds", "0.2", "--on-signal", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as job:
        try:
            assert waits(job), "it does not wait"
            first = time.monotonic()
            os.kill(job.pid, begin.SIGNAL)
            assert waits(job, after=first + 0.2), "it did not wait for the second signal"
            os.kill(job.pid, begin.SIGNAL)
            report = json.loads(job.communicate(timeout=30)[0])
        finally:
            job.kill()
    assert job.returncode == 0
    assert report["ok"]
    assert report[counted] > 0
    assert time.monotonic() - first >= 0.4
    if "attacks_started_unix" in report:
        assert report["attacks_started_unix"][1] - report["attacks_started_unix"][0] >= 0.2


def waits(job: subprocess.Popen[str], after: float = 0.0) -> bool:
    """Until the process sleeps in sigwait (proc(5), wchan); False after 30 s, or when it has ended."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and job.poll() is None:
        where = Path(f"/proc/{job.pid}/wchan").read_text()
        if time.monotonic() > after and "sigtimedwait" in where:
            return True
        time.sleep(0.02)
    return False

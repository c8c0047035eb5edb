# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

SCRIPT = """
from beer_payload import forks
print(forks.run(0.5, processes={processes}))
"""


@pytest.mark.parametrize("most", [None, 20])
def test_it_makes_processes_and_leaves_none(most: int | None):
    # In a process of its own with a limit: a bomb without one would take this machine's processes.
    def limited() -> None:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_NPROC, (60, 60))
        os.setgid(65534)
        os.setuid(65534)

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(processes=most)],
        preexec_fn=limited if os.getuid() == 0 else os.setsid,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made = int(done.stdout.split("'processes': ")[1].split(",")[0])
    assert made >= 10
    # None of them ends before all do. Root has no limit.
    assert made <= (most or 60) or os.getuid() != 0
    left = subprocess.run(["pgrep", "-u", "65534", "-f", "forks.run"], capture_output=True, text=True, check=False)
    assert left.stdout == ""

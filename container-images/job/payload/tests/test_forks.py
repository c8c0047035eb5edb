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


# A user each: those of the test before may not be reaped yet, and count.
@pytest.mark.parametrize(("most", "user"), [(None, 65534), (20, 65533)])
def test_it_makes_processes_and_leaves_none(most: int | None, user: int):
    if most and os.getuid() != 0:
        pytest.skip("all that this user runs would count")

    # In a process of its own with a limit: a bomb without one would take this machine's processes.
    def limited() -> None:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_NPROC, (60, 60))
        os.setgid(user)
        os.setuid(user)

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
    # None of them ends before all do.
    assert most is None or made <= most
    left = subprocess.run(["pgrep", "-u", str(user), "-f", "forks.run"], capture_output=True, text=True, check=False)
    assert left.stdout == ""

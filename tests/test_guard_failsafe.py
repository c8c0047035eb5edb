# SPDX-License-Identifier: Apache-2.0
"""The guard dies or hangs while jobs are frozen: it is replaced, takes over what it finds, and nothing stays frozen."""

from __future__ import annotations

import pytest
from beerlab import Machine
from support.condor import Condor
from support.guard import JOBS, Guard
from support.waiting import wait_until

# WatchdogSec=2s of the unit plus RestartSec, start-up and the kill itself, ten times over for emulation.
REPLACED_WITHIN = 60
THAWED_WITHIN = 90


def freeze_by_hand(node: Machine) -> None:
    """The state a guard leaves behind that dies just after a freeze."""
    node.execute(f"echo 1 > {JOBS}/cgroup.freeze")


@pytest.mark.parametrize("signal", ["KILL", "STOP"])
def test_guard_is_replaced_and_thaws(node: Machine, condor: Condor, guard: Guard, signal: str) -> None:
    innocent = condor.submit("burn --seconds 20")
    innocent.wait_for_scope(240)
    before = guard.pid()

    node.execute(f"kill -STOP {before}")  # so that it cannot thaw what is frozen now
    freeze_by_hand(node)
    wait_until(guard.frozen, 30, "the jobs are frozen")
    if signal == "KILL":
        node.execute(f"kill -KILL {before}")

    wait_until(lambda: guard.pid() not in (0, before), REPLACED_WITHIN, "another guard runs", explain=guard.why)
    wait_until(lambda: not guard.frozen(), THAWED_WITHIN, "the jobs are thawed", explain=guard.why)
    adopted = [record for record in guard.journal() if record["cause"] == "adopted"]
    assert adopted, f"the new guard did not say that it took over a freeze:\n{guard.why()}"

    report = innocent.report(timeout=240)
    assert report["ok"] is True
    innocent.assert_one_run()


def test_frozen_jobs_thaw_when_the_guard_never_comes_back(node: Machine, condor: Condor, guard: Guard) -> None:
    """The timer that does not depend on the guard thaws, into caps that do no harm."""
    innocent = condor.submit("burn --seconds 10")
    innocent.wait_for_scope(240)
    node.execute("systemctl mask --runtime --now beer-guard")
    freeze_by_hand(node)

    wait_until(lambda: not guard.frozen(), 120, "the deadman timer thawed the jobs")
    weight = node.execute(f"cat {JOBS}/cpu.weight").stdout.strip()
    assert weight == "1", f"cpu.weight is {weight}, the conservative cap is 1"
    assert node.execute(f"cat {JOBS}/cpu.max").stdout.split()[0] != "max"
    innocent.report(timeout=240)
    innocent.assert_one_run()

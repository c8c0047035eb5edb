# SPDX-License-Identifier: Apache-2.0
"""The guard dies or hangs while jobs are frozen: it is replaced, takes over what it finds, and nothing stays frozen."""

from __future__ import annotations

import pytest
from beerbench.batch import Batch
from beerbench.guard import JOBS, Guard
from beerbench.waiting import wait_until
from beerlab import Machine
from support import assert_one_run, report_of

# WatchdogSec=2s of the unit plus RestartSec, start-up and the kill itself, ten times over for emulation.
REPLACED_WITHIN = 60
THAWED_WITHIN = 90


def freeze_by_hand(node: Machine) -> None:
    """The state a guard leaves behind that dies just after a freeze."""
    frozen = f"grep -q 'frozen 1' {JOBS}/cgroup.events"
    node.execute(f"echo 1 > {JOBS}/cgroup.freeze; for i in $(seq 100); do {frozen} && exit; sleep 0.1; done; exit 1")


@pytest.mark.parametrize("signal", ["KILL", "STOP"])
def test_guard_is_replaced_and_thaws(node: Machine, batch: Batch, guard: Guard, signal: str) -> None:
    innocent = batch.submit("burn --seconds 20")
    batch.wait_for_containers([innocent], timeout=240)
    before = guard.pid()

    node.execute(f"kill -STOP {before}")  # so that it cannot thaw what is frozen now
    freeze_by_hand(node)
    if signal == "KILL":
        node.execute(f"kill -KILL {before}")

    wait_until(lambda: guard.pid() not in (0, before), REPLACED_WITHIN, "another guard runs", explain=guard.why)
    wait_until(lambda: not guard.frozen(), THAWED_WITHIN, "the jobs are thawed", explain=guard.why)
    adopted = [record for record in guard.decisions() if record.cause == "adopted"]
    assert adopted, f"the new guard did not say that it took over a freeze:\n{guard.why()}"

    report = report_of(innocent, timeout=240)
    assert report["ok"] is True
    assert_one_run(innocent)


def test_frozen_jobs_thaw_when_the_guard_never_comes_back(node: Machine, batch: Batch, guard: Guard) -> None:
    """The timer that does not depend on the guard thaws, into caps that do no harm."""
    innocent = batch.submit("burn --seconds 10")
    batch.wait_for_containers([innocent], timeout=240)
    node.execute("systemctl mask --runtime --now beer-guard")
    freeze_by_hand(node)

    wait_until(lambda: not guard.frozen(), 120, "the deadman timer thawed the jobs")
    weight = node.execute(f"cat {JOBS}/cpu.weight").stdout.strip()
    assert weight == "1", f"cpu.weight is {weight}, the conservative cap is 1"
    assert node.execute(f"cat {JOBS}/cpu.max").stdout.split()[0] != "max"
    report_of(innocent, timeout=240)
    assert_one_run(innocent)

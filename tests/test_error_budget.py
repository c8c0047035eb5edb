# SPDX-License-Identifier: Apache-2.0
"""Where storage spends its error budget too fast no new job starts, also after what spent it is over.

Victim: none, storage is by itself. Innocent: the job that waits; it is not lost.
"""

from __future__ import annotations

import time

import pytest
from beerbench.batch import IDLE, Batch
from beerbench.guard import Guard
from beerbench.waiting import wait_until
from beerlab import Machine
from support import StorageUser, figures, let_storage_be_alone
from test_protection_disk import QUIET, RATE

CONFIG = "/etc/beer/guard.toml"
CACHED = 1  # the seed of reads that are then in memory
# A promise that a disk with a head cannot keep, and memory can.
PROMISE = """/^name = .storage-read/,/^budget_window/ {
s/^threshold = .*/threshold = "1ms"/
s/^floor = .*/floor = "1ms"/
}"""


@pytest.mark.full
def test_no_job_starts_while_the_budget_is_spent_too_fast(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser
) -> None:
    guard.wait_for_state("open", timeout=120)
    storage.start(rate=RATE, duration=120, disks=("/data/01",), seed=CACHED)
    let_storage_be_alone(6 * QUIET)
    storage.stop()
    node.execute(f"sed -i '{PROMISE}' {CONFIG} && systemctl restart beer-guard", timeout=120)
    guard.wait_for_state("open", timeout=120)

    began = time.time()
    storage.start(rate=RATE, duration=300, disks=("/data/01",), seed=2)
    burning = "beer_objective_budget_burning"
    wait_until(lambda: guard.metric(burning) > 0, 180, "the budget is spent too fast", interval=2.0, explain=guard.why)
    figures("storage spends its error budget", {"slow": storage.stop().due_between(began, time.time())}, guard)
    # What is in memory is not slow, and it is all the same.
    storage.start(rate=RATE / 6, duration=600, disks=("/data/01",), seed=CACHED)
    what = "that was spent, and not what is slow now, is the reason"
    wait_until(lambda: guard.status()["reason"] == "budget", 300, what, interval=2.0, explain=guard.why)
    waiting = batch.submit("burn --seconds 1")
    looks = [(guard.state(), waiting.status) for _ in range(10)]  # each takes about a second under emulation
    print(guard.why())
    assert set(looks) == {("closed", IDLE)}, f"a job started: {looks}"
    assert [one for one in guard.decisions() if one.cause == "budget"], guard.why()
    waiting.remove()

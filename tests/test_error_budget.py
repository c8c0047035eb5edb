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
from support import StorageUser, figures, let_storage_be_alone, percentile
from test_protection_disk import QUIET, RATE

CONFIG = "/etc/beer/guard.toml"
CACHED = 1  # the seed of reads that are then in memory
# Per cent of the requests come to the client within what storage is promised then; of the disk alone they take less.
WITHIN = 5


def promise(node: Machine, milliseconds: float) -> None:
    """Of reads; and the shortest budget there can be."""
    edits = "; ".join(
        (
            f's/^threshold = .*/threshold = "{milliseconds:.0f}ms"/',
            f's/^floor = .*/floor = "{milliseconds / 2:.0f}ms"/',
            's/^budget_window = .*/budget_window = "1h"/',
        )
    )
    node.execute(f"sed -i '/^name = .storage-read/,/^budget_window/ {{ {edits} }}' {CONFIG}")
    assert node.execute(f"grep -c 'budget_window = .1h' {CONFIG}").stdout.strip() == "1"
    node.execute("systemctl restart beer-guard", timeout=120)


@pytest.mark.full
def test_no_job_starts_while_the_budget_is_spent_too_fast(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser
) -> None:
    guard.wait_for_state("open", timeout=120)
    storage.start(rate=RATE, duration=120, disks=("/data/01",), seed=CACHED)
    let_storage_be_alone(6 * QUIET)
    usual = percentile(storage.stop(), WITHIN) * 1e3
    print(f"{WITHIN} % of the requests take less than {usual:.1f} ms, which is the promise from now on")
    promise(node, max(usual, 2.0))
    guard.wait_for_state("open", timeout=120)

    began = time.time()
    storage.start(rate=RATE, duration=300, disks=("/data/01",), seed=2)
    burning = "beer_objective_budget_burning"
    wait_until(lambda: guard.metric(burning) > 0, 180, "the budget is spent too fast", interval=2.0, explain=guard.why)
    figures("storage spends its error budget", {"slow": storage.stop().due_between(began, time.time())}, guard)
    # What is in memory is not slow, and it is all the same.
    storage.start(rate=RATE / 6, duration=600, disks=("/data/01",), seed=CACHED)
    what = "that was spent, and not what is slow now, is the reason"
    wait_until(lambda: guard.status()["reason"] == "budget", 270, what, interval=2.0, explain=guard.why)
    waiting = batch.submit("burn --seconds 1")
    looks = [(guard.state(), waiting.status) for _ in range(10)]  # each takes about a second under emulation
    print(guard.why())
    assert set(looks) == {("closed", IDLE)}, f"a job started: {looks}"
    assert [one for one in guard.decisions() if one.cause == "budget"], guard.why()
    waiting.remove()

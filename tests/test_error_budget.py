# SPDX-License-Identifier: Apache-2.0
"""An error budget keeps new jobs away for long after what spent it is over; nobody who runs is touched for it.

Victim: the storage client whose budget is spent. Innocent: the job that runs, and the one that waits.
"""

from __future__ import annotations

import time

import pytest
from beerbench.batch import IDLE, RUNNING, Batch
from beerbench.guard import Guard
from beerbench.neighbours import Neighbours
from beerbench.timeline import clock
from beerbench.waiting import wait_until
from beerlab import Machine
from support import StorageUser, assert_one_run, assert_undisturbed, figures, let_storage_be_alone, report_of
from test_protection_disk import AGAIN, QUIET, RATE, wait_until_learned

CONFIG = "/etc/beer/guard.toml"
# Of an hour one rule looks at six minutes. What has just been slow (`slow_burn`) is forgotten before.
WINDOW, RULE = "1h", 360.0
# More than one of a hundred of the 30,000 requests of six minutes are to be over the objective; on a node 463 were by
# then, and more after it.
SLOW = 6.0
JOB = "burn --seconds 5"


@AGAIN
@pytest.mark.full
def test_a_spent_budget_keeps_new_jobs_away(
    node: Machine,
    batch: Batch,
    guard: Guard,
    storage: StorageUser,
    others: StorageUser,
    neighbours: Neighbours,
) -> None:
    shorter = f'0,/^budget_window/s/^budget_window.*/budget_window = "{WINDOW}"/'
    node.execute(f"sed -i '{shorter}' {CONFIG} && systemctl restart beer-guard", timeout=120)
    guard.wait_for_state("open", timeout=180)
    running = batch.submit(f"burn --seconds {RULE + 600:g} --on-signal 1")
    scope = batch.wait_until_ready(running, timeout=240)
    storage.start(rate=RATE, duration=1800, disks=("/data/01",))
    wait_until_learned(guard, neighbours)
    batch.signal(scope)
    quiet_from, time_of = let_storage_be_alone(QUIET), clock.measure(node)
    began = time.time()
    others.start(rate=RATE, duration=300, disks=("/data/01",), seed=2)
    time.sleep(SLOW)
    others.stop()
    over = time.time()

    def reason() -> str:
        status = guard.status()
        return "" if status["admit"] else str(status["reason"])

    wait_until(
        lambda: reason() == "budget", RULE, "the budget is why no new job starts", interval=2.0, explain=guard.why
    )
    alone_for = time.time() - over
    waiting = batch.submit(JOB)

    def is_spent() -> bool:
        status = waiting.status
        if reason() != "budget":
            return True
        assert status == IDLE, guard.why()
        return False

    wait_until(is_spent, RULE + 60, "the budget is not spent too fast any more", interval=5.0, explain=guard.why)
    kept_away_until = time.time()
    assert kept_away_until - over > 60, "not for long"
    assert running.status == RUNNING
    report_of(waiting, timeout=300)
    came = time.time()
    parts = storage.stop()
    figures(
        "an error budget",
        {"alone": parts.due_between(quiet_from, began), "slow": parts.due_between(began, over)},
        guard,
        time_of,
        began + time_of.offset,
        {"running": scope},
    )
    why = guard.why("30m")
    print(f"{why}\nit was the reason from {alone_for:.0f} to {kept_away_until - over:.0f} s after it")
    assert_undisturbed(neighbours, quiet_from, came)
    # It keeps others away and does nothing to who runs: what he lost, he lost for evidence.
    actions = {one.action for one in guard.decisions() if one.cause == "budget"}
    assert actions, f"it was no reason of anything\n{why}"
    assert actions <= {"none", "close"}, f"{actions}\n{why}"
    assert_one_run(running)
    assert_one_run(waiting)
    running.remove()

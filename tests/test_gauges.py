# SPDX-License-Identifier: Apache-2.0
"""Gauges on what the node itself says, and not a stand-in: batch as a whole gets less of what storage is short of.

Victim: the storage client outside the node. Innocent: a job that computes; it is not frozen.
"""

from __future__ import annotations

import time

import pytest
from beerbench.batch import RUNNING, Batch
from beerbench.guard import Guard
from beerbench.neighbours import Neighbours
from beerbench.timeline import clock
from beerbench.waiting import wait_until
from beerlab import Machine
from support import StorageUser, assert_undisturbed, figures, per_second
from test_hostile import INTERFACE
from test_protection_disk import AGAIN, wait_until_learned

CONFIG = "/etc/beer/guard.toml"
# Little of the interface, so that the hog has most of it.
RATE = 20.0
HOG = "hog-network --to 10.0.2.2:9 --seconds 900 --on-signal 1"
INNOCENT = "burn --seconds 900 --on-signal 1"
GAUGE = """
[[gauge]]
name = "network"
source = "network.transmit"
above = 0.6
for = "0s"
dwell = "5s"
grace = "10s"
then = "throttle-network"
"""


def sent_per_second(node: Machine) -> float:
    """Bytes that leave by the interface that storage clients come by."""
    return per_second(node, f"cat /sys/class/net/{INTERFACE}/statistics/tx_bytes")


@AGAIN
@pytest.mark.full
@pytest.mark.layout("scratch-apart")
def test_a_network_hog_gets_less_of_a_network_that_is_full(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser, neighbours: Neighbours
) -> None:
    guard.wait_for_state("open", timeout=120)
    hog, innocent = batch.submit(HOG), batch.submit(INNOCENT)
    scopes = [batch.wait_until_ready(job, timeout=240) for job in (hog, innocent)]
    storage.start(rate=RATE, duration=900, disks=("/data/01",))
    wait_until_learned(guard, neighbours)
    alone = sent_per_second(node)
    for scope in reversed(scopes):
        struck = batch.signal(scope)
    full = sent_per_second(node)
    megabits = max(1, round(full * 8 / 1e6))
    print(f"{alone / 1e6:.2f} MB/s of storage alone, {full / 1e6:.2f} MB/s beside the hog: {megabits} Mbit/s is full")
    assert alone < 0.4 * full, "the hog takes next to nothing of it"
    # An emulated interface does not say how fast it is, and none is as slow as an emulated processor.
    speed = f's/^speed = ""/speed = "{megabits}Mbit"/'
    node.execute(
        f"sed -i '{speed}' {CONFIG} && cat >> {CONFIG} && systemctl restart beer-guard", input=GAUGE, timeout=120
    )
    began, time_of = time.time(), clock.measure(node)
    wait_until(lambda: "network" in guard.status()["squeezed"], 90, "batch gets less of it", explain=guard.why)
    assert guard.state() == "throttled"

    def less() -> bool:
        return sent_per_second(node) < 0.75 * full

    wait_until(less, 120, "less leaves the node", interval=1.0, explain=guard.why)
    over = time.time()
    samples = storage.stop()
    assert_undisturbed(neighbours, began, over)
    parts = {"attack": samples.due_between(began, over)}
    jobs = dict(zip(("hog", "innocent"), scopes, strict=True))
    seen = figures("network hog, a gauge", parts, guard, time_of, struck, jobs)
    print(guard.why())
    assert seen["attack"]["over_objective"] <= 0.01, guard.why()
    assert [one for one in guard.decisions() if (one.cause, one.action) == ("gauge_above", "less_network")], guard.why()
    assert not guard.frozen()
    assert innocent.status == RUNNING

    hog.remove()
    wait_until(lambda: guard.metric("beer_batch_allowed_ratio") == 3, 240, "all of it is back", explain=guard.why)
    wait_until(lambda: "limit rate" not in node.execute("nft list table inet beer").stdout, 60, "the network is free")
    innocent.remove()

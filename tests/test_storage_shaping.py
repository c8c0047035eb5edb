# SPDX-License-Identifier: Apache-2.0
"""A policy decides who gets a real disk; the unit and live tests of storage-daemon have no disk of their own."""

from __future__ import annotations

import time

import pytest
from beerbench import shaping
from beerbench.clients import Stream
from beerlab import Machine
from support import StorageUser

OTHERS = 10
POLICY = """\
beer.policy app:urgent w iotype direct iopriority rt:0
beer.policy app:other w iotype direct iopriority be:0
beer.trust urgent storage
beer.trust other storage
"""
LOOKS_AGAIN = 7.0  # the policy is looked at once a second, the scheduler every 5 s


@pytest.mark.full
def test_an_urgent_stream_keeps_the_disk_from_many_others(node: Machine, storage: StorageUser) -> None:
    node.throttle("beer-data1", 120, 8_000_000)
    device = node.execute("findmnt -nr -o MAJ:MIN -M /data/01").stdout.strip()
    node.execute(f"echo none > /sys/dev/block/{device}/queue/scheduler")
    streams = [Stream("urgent", "w", "/data/01/store/urgent")]
    streams += [Stream("other", "w", f"/data/01/store/other-{number}") for number in range(OTHERS)]
    shares = {}
    for turns in ("off", "auto"):
        shaping.set_policy(node, f"{POLICY}beer.turns {turns}\n")
        time.sleep(LOOKS_AGAIN)
        rates = storage.compete(streams, 10)
        shares[turns] = rates[0] / sum(rates)
        print(f"turns {turns}: the urgent one of {len(streams)} has {shares[turns]:.0%} of {sum(rates):.2f} MB/s")
        assert min(rates[1:]) > 0, f"somebody gets nothing: {rates}"
    assert shares["auto"] > 2 * shares["off"], shares

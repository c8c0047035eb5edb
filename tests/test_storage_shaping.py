# SPDX-License-Identifier: Apache-2.0
"""What a policy decides on a node: who gets its disk, and what its cluster hears of it.

Unit and live tests of storage-daemon have neither a disk of their own nor the `beer` command.
"""

from __future__ import annotations

import json
import re

import pytest
from beerbench import shaping
from beerbench.clients import Stream
from beerbench.guard import Guard
from beerbench.waiting import wait_until
from beerlab import Machine
from support import StorageUser

CONFIG = "/etc/xrootd/xrootd-beer.cfg"
OTHERS = 10
POLICY = """\
beer.policy app:urgent w iotype direct iopriority rt:0
beer.policy app:other w iotype direct iopriority be:0
beer.trust urgent storage
beer.trust other storage
"""


def use_policy(node: Machine, text: str) -> None:
    """It is in force when this returns."""
    shaping.set_policy(node, text)

    def rules() -> list[str]:
        [said] = json.loads(node.execute("beer storage policy --json").stdout)
        return list(said["rules"])

    wait_until(lambda: rules() == text.splitlines(), 60, "the policy is in force")


@pytest.mark.full
def test_an_urgent_stream_keeps_the_disk_from_many_others(node: Machine, storage: StorageUser) -> None:
    node.throttle("beer-data1", 120, 8_000_000)
    device = node.execute("findmnt -nr -o MAJ:MIN -M /data/01").stdout.strip()
    node.execute(f"echo none > /sys/dev/block/{device}/queue/scheduler")
    streams = [Stream("urgent", "w", "/data/01/store/urgent")]
    streams += [Stream("other", "w", f"/data/01/store/other-{number}") for number in range(OTHERS)]
    shares = {}
    for turns in ("off", "on"):
        use_policy(node, f"{POLICY}beer.turns {turns}\n")
        rates = storage.compete(streams, 10)
        shares[turns] = rates[0] / sum(rates)
        print(f"turns {turns}: the urgent one of {len(streams)} has {shares[turns]:.0%} of {sum(rates):.2f} MB/s")
        assert min(rates[1:]) > 0, f"somebody gets nothing: {rates}"
    assert shares["on"] > 2 * shares["off"], shares


@pytest.mark.full
def test_a_storage_daemon_that_does_not_listen_to_the_guard_is_told(node: Machine, guard: Guard) -> None:
    guard.wait_for_state("open", timeout=120)
    assert guard.metric("beer_shaping_failed") == 0
    other = "beer.control /run/beer/control/other"
    node.execute(f"sed -i 's#^beer.control .*#{other}#' {CONFIG} && grep -q '^{other}$' {CONFIG}")
    shaping.restart(node)
    wait_until(lambda: guard.metric("beer_shaping_failed") == 1, 60, "the guard says so", explain=guard.why)
    assert "has not applied it" in node.execute("journalctl -q -o cat -u beer-guard").stdout


MANAGER = """\
all.role manager
all.manager {host}:3121
all.adminpath /run/beer-test-cms
all.pidpath /run/beer-test-cms
all.export /data
xrd.port 3121
cms.delay startup 1 servers 1
cms.sched runq 100 maxload 99
"""
SERVER = """\
all.role server
all.manager {host}:3121
cms.perf int 20 pgm /usr/bin/beer storage load --every 5
cms.sched runq 100 maxload 99
"""


def load_at_the_manager(node: Machine) -> int | None:
    """The run queue that the cluster's manager was told last."""
    said = node.execute("journalctl -q -o cat -u beer-test-manager | grep -o 'do_Load: .*' | tail -1").stdout
    found = re.search(r" xeq=(\d+) ", said)
    return int(found[1]) if found else None


@pytest.mark.full
def test_the_manager_of_a_cluster_hears_that_a_server_takes_no_more_files(
    node: Machine, guard: Guard, storage: StorageUser
) -> None:
    host = node.execute("hostname").stdout.strip()
    node.execute("cat > /etc/xrootd/test-manager.cfg", input=MANAGER.format(host=host))
    node.execute(f"cat >> {CONFIG}", input=SERVER.format(host=host))
    shaping.restart(node)
    unit = "systemd-run -q -p User=xrootd -p Group=xrootd"
    node.execute(
        f"{unit} --unit beer-test-manager -p RuntimeDirectory=beer-test-cms "
        "cmsd -d -c /etc/xrootd/test-manager.cfg -n manager",
        timeout=120,
    )
    node.execute(f"{unit} --unit beer-test-server cmsd -c {CONFIG} -n beer -p 3122", timeout=120)
    said = "journalctl -q -o cat -u beer-test-manager | grep -c 'logged in' || true"
    wait_until(lambda: node.execute(said).stdout.strip() != "0", 180, "the server has joined the cluster")
    assert load_at_the_manager(node) in (None, 0)
    # A change is told at once; without one, cmsd would ask for the load every ten minutes.
    storage.start(rate=5, duration=300, disks=("/data/01",))
    use_policy(node, "beer.overload * readers 5\n")
    wait_until(lambda: load_at_the_manager(node) == 100, 120, "the manager hears that it is full")
    overloaded = r'beer_storage_overloaded\{filesystem="/data/01"\}'
    wait_until(lambda: guard.metric(overloaded) == 1, 30, "so does the guard", explain=guard.why)
    use_policy(node, "beer.overload * readers 1000\n")
    wait_until(lambda: load_at_the_manager(node) in range(1, 50), 120, "the manager hears that it is not")
    storage.stop()

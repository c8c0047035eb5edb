# SPDX-License-Identifier: Apache-2.0
"""A signal of the site's own closes the node, and what prints it can do nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from beerbench.guard import Guard
from beerbench.waiting import wait_until
from beerlab import Machine

READINGS = "/run/beer-exec/site/readings.json"
UNIT = "beer-exec@site"
SCRIPT = r"""#!/bin/sh
read value < /run/site-value
[ "$value" != hang ] || { sleep 6001 & sleep 6001; }
shadow=0; [ ! -r /etc/shadow ] || shadow=1
written=0; ( : > /run/beer/guard/vacate ) 2>/dev/null && written=1
echo "{\"load\": $value, \"uid\": $(id -u)}"
echo "{\"shadow\": $shadow, \"written\": $written}"
"""
CONFIG = """
[[exec]]
name = "site"
command = ["/usr/local/bin/site-signal"]
interval = "10s"
timeout = "10s"
metrics = ["load", "uid", "shadow", "written"]

[[gauge]]
name = "site-load"
source = "exec.site.load"
above = 10
for = "0s"
dwell = "5s"
grace = "30s"
"""


def set_value(node: Machine, value: str) -> None:
    node.execute(f"echo {value} > /run/site-value.new && mv /run/site-value.new /run/site-value")


def values(node: Machine) -> dict[str, float]:
    readings: dict[str, Any] = json.loads(node.execute(f"cat {READINGS}").stdout)
    return {key: printed["value"] for key, printed in readings["values"].items()}


def test_a_signal_of_the_site_s_own(node: Machine, guard: Guard, tmp_path: Path) -> None:
    set_value(node, "1")
    script = tmp_path / "site-signal"
    script.write_text(SCRIPT)
    node.copy_to(script, "/usr/local/bin/site-signal")
    node.execute("chmod 755 /usr/local/bin/site-signal")
    node.execute(f"cat >> /etc/beer/guard.toml <<'END'\n{CONFIG}\nEND")

    live = node.execute("beer-guard check-config --live", check=False)
    assert live.status != 0
    assert UNIT in live.stderr + live.stdout, "it says which service is to be started"
    node.execute(f"systemctl enable --now {UNIT} && systemctl restart beer-guard", timeout=120)
    guard.wait_for_state("open", timeout=180)
    # All signals are heard, and not only this one.
    check = "beer-guard check-config --live --quiet"
    wait_until(lambda: node.execute(check, check=False).status == 0, 60, "the check is good", explain=guard.why)

    found = values(node)
    assert found["uid"] != 0
    assert (found["shadow"], found["written"]) == (0, 0), "it reads and writes nothing of others"

    set_value(node, "20")
    guard.wait_for_state("closed", timeout=60)
    assert guard.status()["reason"] == "gauge_above"
    assert not guard.frozen(), "it closes the node and freezes nobody"
    assert guard.metric(r'beer_watch_value\{gauge="site-load"\}') == 20
    set_value(node, "2")
    guard.wait_for_state("open", timeout=120)

    log = f"journalctl -u {UNIT} -o cat"
    late = "it had not ended after 10 s"
    before = node.execute(log).stdout.count(late)
    set_value(node, "hang")
    wait_until(
        lambda: guard.status()["reason"] == "gauge_stale", 120, "a signal that hangs is stale", explain=guard.why
    )
    assert guard.state() == "closed"
    assert not guard.frozen()
    said = node.execute(log).stdout
    assert said.count(late) == before + 1, f"it is said once: {said}"
    node.execute(f"systemctl stop {UNIT}")
    assert node.execute("pgrep -f 'sleep 6001'", check=False).status != 0, "nothing of it is left"
    assert node.execute("test -e /run/beer-exec/site", check=False).status != 0

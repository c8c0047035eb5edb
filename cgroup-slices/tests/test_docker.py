# SPDX-License-Identifier: Apache-2.0
"""The engine's configuration against the contracts. (dockerd itself reads it on the node, and refuses unknown keys.)"""

from __future__ import annotations

import ipaddress
import json
import re

from conftest import TOP

SETTINGS = json.loads((TOP / "docker/docker.json").read_text())


def test_containers_land_where_the_guard_looks() -> None:
    assert SETTINGS["cgroup-parent"] == "beer-jobs.slice"
    assert SETTINGS["exec-opts"] == ["native.cgroupdriver=systemd"]


def test_everything_lies_on_scratch() -> None:
    assert SETTINGS["data-root"].startswith("/var/lib/beer/scratch/")


def test_the_bridge_lies_in_the_batch_prefix() -> None:
    match = re.search(r"^batch_prefix = (\S+)$", (TOP / "network/network.conf").read_text(), re.MULTILINE)
    assert match is not None
    bridge = ipaddress.ip_interface(SETTINGS["bip"])
    assert bridge.network.subnet_of(ipaddress.ip_network(match[1]))


def test_nothing_is_published_and_containers_do_not_meet() -> None:
    assert SETTINGS["ip"] == "127.0.0.1"
    assert SETTINGS["icc"] is False
    assert SETTINGS["userland-proxy"] is False

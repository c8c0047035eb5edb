# SPDX-License-Identifier: Apache-2.0
import base64
from dataclasses import replace
from pathlib import Path

import pytest
from beerlab import qemu
from beerlab.spec import LAYOUTS, HeadSpec, NodeSpec


def boot_of(spec, **changes):
    labels = ["root", *(disk.label for disk in spec.disks)]
    return replace(
        qemu.Boot(
            name="node2",
            number=2,
            spec=spec,
            accelerator="tcg",
            kernel=Path("/k"),
            initrd=Path("/i"),
            disks={label: Path(f"/disks/{label}.qcow2") for label in labels},
            ports={22: 10022, 1094: 11094},
            monitor=Path("/s/qmp"),
            console=Path("/c"),
            site_network=qemu.site_network(1, 0),
        ),
        **changes,
    )


def values(words, option):
    return [words[place + 1] for place, word in enumerate(words) if word == option]


def test_topology_is_sockets_by_cores_by_threads():
    words = qemu.command(boot_of(NodeSpec(cores=8, sockets=2, threads=2)))
    assert values(words, "-smp") == ["8,sockets=2,cores=2,threads=2"]


def test_only_data_disks_are_throttled():
    drives = values(qemu.command(boot_of(NodeSpec())), "-drive")
    throttled = {drive.split("id=")[1].split(",")[0] for drive in drives if "throttling" in drive}
    assert throttled == {"drive-beer-data1", "drive-beer-data2"}
    assert "throttling.iops-total=120" in drives[1]
    assert "throttling.bps-total=60000000" in drives[1]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_device_has_a_slot_of_its_own(layout):
    devices = values(qemu.command(boot_of(NodeSpec(layout=layout))), "-device")
    slots = [word for device in devices for word in device.split(",") if word.startswith("addr=")]
    assert len(slots) == len(devices)
    assert len(set(slots)) == len(slots)


def test_hosts_ports_lead_in_only_from_this_host():
    (outside, _) = values(qemu.command(boot_of(NodeSpec())), "-netdev")
    assert "hostfwd=tcp:127.0.0.1:10022-:22,hostfwd=tcp:127.0.0.1:11094-:1094" in outside


def test_several_nodes_share_one_group_and_differ_in_address():
    network = qemu.site_network(2, 4711)
    spec = NodeSpec()
    words = [qemu.command(boot_of(spec, number=number, site_network=network)) for number in (1, 2)]
    shared = [values(one, "-netdev")[1] for one in words]
    assert shared[0] == shared[1] == "socket,mcast=230.77.0.1:4711,localaddr=127.0.0.1,id=site"
    macs = {word for one in words for device in values(one, "-device") for word in device.split(",") if "mac=" in word}
    assert len(macs) == 4


def test_a_node_of_several_has_all_that_is_in_the_snapshot_of_one_alone():
    def user_networks(network):
        words = qemu.command(boot_of(NodeSpec(), site_network=network))
        return [one.split("id=")[1] for one in values(words, "-netdev") if one.startswith("user,")], words

    (alone, _), (several, words) = (user_networks(qemu.site_network(nodes, 4711)) for nodes in (1, 2))
    # QEMU numbers them in this order.
    assert (alone, several) == (["outside", "site"], ["outside", "alone"])
    assert not [device for device in values(words, "-device") if "netdev=alone" in device]


def test_credentials_say_name_disks_and_address():
    found = {}
    for value in values(qemu.command(boot_of(NodeSpec())), "-smbios"):
        name, _, coded = value.removeprefix("type=11,value=io.systemd.credential.binary:").partition("=")
        found[name] = base64.b64decode(coded).decode()
    assert found["system.hostname"] == "node2"
    assert found["fstab.extra"] == NodeSpec().fstab()
    assert "Address=10.77.0.2/24" in found["network.network.20-site"]


def test_a_snapshot_is_resumed():
    assert values(qemu.command(boot_of(NodeSpec(), snapshot="ready")), "-loadvm") == ["ready"]
    assert "-loadvm" not in qemu.command(boot_of(NodeSpec()))


def test_a_disk_with_a_head_is_read_through_it_and_not_throttled():
    plain = NodeSpec()
    disks = (replace(plain.disks[0], head=HeadSpec(192, 8_000_000)), *plain.disks[1:])
    boot = boot_of(replace(plain, disks=disks), heads={"beer-data1": Path("/s/head-beer-data1")})
    words = qemu.command(boot)
    node = "driver=nbd,node-name=head-beer-data1,read-only=on,server.type=unix,server.path=/s/head-beer-data1"
    assert values(words, "-blockdev") == [node]
    changed = [
        drive for drive in values(words, "-drive") if drive not in values(qemu.command(boot_of(plain)), "-drive")
    ]
    assert len(changed) == 1
    assert changed[0].startswith("file=/disks/beer-data1.qcow2,")
    assert changed[0].endswith(",backing=head-beer-data1")
    assert "throttling" not in changed[0]
    assert values(words, "-device") == values(qemu.command(boot_of(plain)), "-device"), "the same machine from inside"

# SPDX-License-Identifier: Apache-2.0
"""The QEMU command line of a node. Pure: a description goes in, words come out."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .accel import QEMU
from .spec import DiskSpec, NodeSpec, size

# `root=` by label: the order of the disks does not matter.
KERNEL_LINE = "root=LABEL=beer-root rw console=ttyS0 quiet mitigations=off psi=1 panic=-1"
# An emulated CPU executes `rep movsb` as a loop over single bytes: without erms and fsrm Linux and libc copy by words.
# (Reading 64 MiB of page cache: 173 ms instead of 550, hashing it 1.7 s instead of 2.7, of two cores.)
EMULATED_CPU = "max,-erms,-fsrm"
# What is reached from the host: ssh, XRootD, the guard's metrics, node_exporter, Prometheus.
FORWARDED = (22, 1094, 9090, 9100, 9721)
# Slots of the two network interfaces: they give the names enp0s3 and enp0s4 in the node.
OUTSIDE_SLOT, SITE_SLOT = "0x3", "0x4"
SITE_INTERFACE = "enp0s4"


@dataclass(frozen=True)
class Boot:
    """All that a QEMU process of one node needs to know."""

    name: str
    number: int
    spec: NodeSpec
    accelerator: str
    kernel: Path
    initrd: Path
    disks: Mapping[str, Path]
    ports: Mapping[int, int]
    monitor: Path
    console: Path
    site_network: str
    snapshot: str | None = None
    # Of disks with a head: the socket of their seekdisk.
    heads: Mapping[str, Path] = field(default_factory=dict)


# Of a node without others: nobody to talk to.
ALONE = "user,restrict=on,ipv6=off"


def site_address(number: int) -> str:
    return f"10.77.0.{number}"


def site_network(nodes: int, group_port: int) -> str:
    """QEMU's private network: nobody to talk to for one node, a multicast group of the host for several.

    A hub without a second port would take no packet, and the guest's kernel complain of a queue that stands still.
    """
    if nodes == 1:
        return ALONE
    return f"socket,mcast=230.77.0.1:{group_port},localaddr=127.0.0.1"


def credentials(boot: Boot) -> dict[str, str]:
    """What differs from node to node; systemd reads it from the machine's SMBIOS strings."""
    network = f"[Match]\nName={SITE_INTERFACE}\n[Network]\nAddress={site_address(boot.number)}/24\n"
    network += "LinkLocalAddressing=no\nIPv6AcceptRA=no\nConfigureWithoutCarrier=yes\n"
    return {
        "system.hostname": boot.name,
        "fstab.extra": boot.spec.fstab(),
        "network.network.20-site": network,
    }


def throttle(disk: DiskSpec) -> list[str]:
    """Limits of a drive; each counts reads and writes together, as a spindle does."""
    limits = []
    iops, bytes_per_second = disk.limits
    if iops is not None:
        limits.append(f"throttling.iops-total={iops}")
    if bytes_per_second is not None:
        limits.append(f"throttling.bps-total={bytes_per_second}")
    return limits


def _head(label: str, socket: Path) -> list[str]:
    """The image below the overlay, read through a seekdisk: a node of its own, since `backing.*` would only add to what
    the overlay itself says."""
    server = f"server.type=unix,server.path={socket}"
    return ["-blockdev", f"driver=nbd,node-name=head-{label},read-only=on,{server}"]


def _disk(label: str, path: Path, slot: int, limits: list[str]) -> list[str]:
    # The host's page cache may hold everything and flushes go nowhere: what a guest sees is the throttle.
    drive = [f"file={path}", "format=qcow2", "if=none", f"id=drive-{label}", "cache=unsafe", "aio=threads", *limits]
    device = f"virtio-blk-pci,drive=drive-{label},id={label},serial={label},addr={slot:#x}"
    return ["-drive", ",".join(drive), "-device", device]


def _network(name: str, backend: str, mac: str, slot: str) -> list[str]:
    # No option ROM: nothing boots from the network.
    device = f"virtio-net-pci,netdev={name},mac={mac},addr={slot},romfile="
    return ["-netdev", f"{backend},id={name}", "-device", device]


def command(boot: Boot) -> list[str]:
    spec = boot.spec
    per_socket = spec.cores // spec.sockets // spec.threads
    words = [QEMU, "-name", f"beer-{boot.name}", "-machine", "q35", "-accel", boot.accelerator]
    words += ["-cpu", "max" if boot.accelerator == "kvm" else EMULATED_CPU]
    words += ["-smp", f"{spec.cores},sockets={spec.sockets},cores={per_socket},threads={spec.threads}"]
    words += ["-m", str(size(spec.memory) >> 20), "-nodefaults", "-no-reboot", "-display", "none"]
    words += ["-chardev", f"file,id=console,path={boot.console},append=on", "-serial", "chardev:console"]
    words += ["-qmp", f"unix:{boot.monitor},server=on,wait=off"]
    words += ["-kernel", str(boot.kernel), "-initrd", str(boot.initrd), "-append", KERNEL_LINE]
    for key, value in credentials(boot).items():
        coded = base64.b64encode(value.encode()).decode()
        words += ["-smbios", f"type=11,value=io.systemd.credential.binary:{key}={coded}"]
    forwards = ",".join(f"hostfwd=tcp:127.0.0.1:{boot.ports[port]}-:{port}" for port in sorted(boot.ports))
    words += _network("outside", f"user,{forwards}", f"52:54:00:77:01:{boot.number:02x}", OUTSIDE_SLOT)
    words += _network("site", boot.site_network, f"52:54:00:77:02:{boot.number:02x}", SITE_SLOT)
    if boot.site_network != ALONE:
        # The snapshot of a node alone has a part for its second user network, and QEMU wants somebody to take it.
        words += ["-netdev", f"{ALONE},id=alone"]
    # Pages the guest has freed are given back, which keeps snapshots small.
    words += ["-device", "virtio-balloon-pci,free-page-reporting=on,addr=0x5"]
    words += ["-device", "virtio-rng-pci,addr=0x6"]
    words += _disk("root", boot.disks["root"], 0x8, [])
    for slot, disk in enumerate(spec.disks, 0x9):
        options = throttle(disk)
        if disk.label in boot.heads:
            words += _head(disk.label, boot.heads[disk.label])
            options.append(f"backing=head-{disk.label}")
        words += _disk(disk.label, boot.disks[disk.label], slot, options)
    if boot.snapshot:
        words += ["-loadvm", boot.snapshot]
    return words

# SPDX-License-Identifier: Apache-2.0
"""A site: nodes as data, all on one private network (10.77.0.0/24, names node1 ... in /etc/hosts)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from . import qemu, vm
from .errors import LabError
from .image import Image, image
from .machine import Machine
from .spec import NodeSpec

# Names the image's /etc/hosts knows.
NODES = ("node1", "node2", "node3", "node4")


class Site:
    """Creates the nodes (not started): `Site({"node1": NodeSpec()}).machines["node1"].start()`.

    Templates are disks with a snapshot, each of the node of that name: its address and host name are in the snapshot.
    """

    def __init__(
        self,
        nodes: Mapping[str, NodeSpec],
        *,
        built: Image | None = None,
        templates: Mapping[str, Path] | None = None,
        place: str = "",
    ) -> None:
        unknown = sorted(set(nodes) - set(NODES))
        if unknown:
            raise LabError(f"node name {unknown[0]!r}: allowed are {', '.join(NODES)}")
        # The multicast group's port is what keeps two sites of one host apart.
        # `place` goes before the names of the nodes' folders.
        network = qemu.site_network(len(nodes), vm.free_ports((0,))[0])
        built = built or image()
        templates = templates or {}
        self.machines = {
            name: Machine(
                vm.create(
                    name,
                    NODES.index(name) + 1,
                    spec,
                    built,
                    place=place + name,
                    network=network,
                    template=templates.get(name),
                )
            )
            for name, spec in nodes.items()
        }

    def start(self, *, snapshot: str | None = None) -> None:
        for machine in self.machines.values():
            machine.start(snapshot=snapshot)

    def stop(self) -> None:
        for machine in self.machines.values():
            machine.stop()

    def discard(self) -> None:
        for machine in self.machines.values():
            machine.discard()

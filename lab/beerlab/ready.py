# SPDX-License-Identifier: Apache-2.0
"""A node with everything up, from a snapshot: tests and the demo start in seconds, not after a boot.

The template (disks with the snapshot in them) is a cache entry keyed by the image, the node's spec and QEMU; a node is
a copy of its disks, restored. A `Preparation` makes a template of its own from it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import accel, services, vm
from .disks import clone, images
from .image import Image, image
from .machine import Machine
from .paths import out
from .progress import say, step
from .site import Site
from .spec import Layout, NodeSpec
from .store import entry, instance

SNAPSHOT = "ready"
# What a preparation found, beside its disks.
PREPARED = "prepared.json"
# Raise when what "ready" means changes, or the machine that qemu.py describes.
RECIPE = 2


@dataclass(frozen=True)
class Preparation:
    """What is done once to a ready node, with its disks unlimited, so that many can start from there."""

    name: str
    # All that its outcome depends on, as JSON; the outcome too, which is `Machine.prepared` from then on.
    inputs: Any
    run: Callable[[Machine], Any]


def ready_node(
    layout: Layout = "scratch-apart",
    *,
    spec: NodeSpec | None = None,
    detached: bool = False,
    name: str = "node1",
    preparation: Preparation | None = None,
) -> Machine:
    """A running node: all services up, the job image loaded, START true. It ends with this process unless detached."""
    wanted = spec or NodeSpec(layout=layout)
    built = image()
    # Made without heads, which would only make it slow to boot.
    plain = wanted.without_heads()
    template = _template(plain, built, name)
    if preparation is not None:
        template = _prepared(plain, built, name, template, preparation)

    def restored() -> Machine:
        machine = Site({name: wanted}, built=built, templates={name: template}).machines[name]
        if preparation is not None:
            machine.prepared = json.loads((template / PREPARED).read_text())
        try:
            machine.start(snapshot=SNAPSHOT, detached=detached)
        except BaseException:
            _keep_logs(machine)
            machine.discard()
            raise
        return machine

    return vm.again(f"{name} is restored", restored)


def ready_site(nodes: Mapping[str, NodeSpec]) -> Site:
    """Running nodes of one private network, each as `ready_node` gives it: they end with this process.

    Their clocks go on from when their snapshots were taken, so they may be far apart.
    """
    built = image()
    plain = {name: spec.without_heads() for name, spec in nodes.items()}
    templates = {name: _template(spec, built, name) for name, spec in plain.items()}

    def restored() -> Site:
        site = Site(nodes, built=built, templates=templates)
        try:
            site.start(snapshot=SNAPSHOT)
        except BaseException:
            for machine in site.machines.values():
                _keep_logs(machine)
            site.discard()
            raise
        return site

    return vm.again(f"{', '.join(nodes)} are restored", restored)


def _template(spec: NodeSpec, built: Image, name: str) -> Path:
    inputs = {
        "recipe": RECIPE,
        "services": services.as_data(),
        # The template's disks are overlays: they fit these very files, not others made of the same inputs.
        "image": instance(built.folder),
        "disks": {label: instance(path.parent) for label, path in images(spec).items()},
        "spec": spec.as_dict(),
        "name": name,
        "qemu": accel.qemu_version(),
        "accelerator": accel.accelerator(built.kernel),
    }

    def boot(machine: Machine, _: Path) -> None:
        machine.start()
        # Unpacking the job image at the speed of a data disk takes minutes; a restored node has its limits.
        with machine.unlimited():
            services.wait_until_ready(machine)

    def build(folder: Path) -> None:
        _keep(lambda: Site({name: spec}, built=built, place=f"{spec.layout}-").machines[name], boot, folder)

    return entry("ready", f"{name}-{spec.layout}", inputs, build)


def _prepared(spec: NodeSpec, built: Image, name: str, template: Path, preparation: Preparation) -> Path:
    place = f"{preparation.name}-"
    inputs = {"template": instance(template), "inputs": preparation.inputs}

    def prepare(machine: Machine, folder: Path) -> None:
        machine.start(snapshot=SNAPSHOT)
        with step(f"preparing {name} for {preparation.name}"), machine.unlimited():
            (folder / PREPARED).write_text(json.dumps(preparation.run(machine)) + "\n")
            services.forget_caches(machine)

    def build(folder: Path) -> None:
        _keep(
            lambda: Site({name: spec}, built=built, templates={name: template}, place=place).machines[name],
            prepare,
            folder,
        )

    return entry("ready", f"{name}-{spec.layout}-{preparation.name}", inputs, build)


def _keep(make: Callable[[], Machine], work: Callable[[Machine, Path], None], folder: Path) -> None:
    """A snapshot of a node on which `work` was done; its disks come into the folder."""

    def attempt() -> None:
        machine = make()
        try:
            work(machine, folder)
            machine.snapshot(SNAPSHOT)
            machine.stop()
            with step("keeping the node"):
                for path in machine.folder.glob("*.qcow2"):
                    clone(path, folder / path.name)
        except BaseException as error:
            fault = machine.emulation_fault()
            _keep_logs(machine)
            if fault is not None and isinstance(error, Exception):
                raise fault from error
            raise
        finally:
            machine.discard()

    vm.again("the node is made", attempt)


def _keep_logs(machine: Machine) -> None:
    kept = out() / "logs" / f"ready-{machine.name}"
    machine.save_logs(kept)
    say(f"logs of {machine.name} are in {kept}")

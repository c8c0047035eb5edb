# SPDX-License-Identifier: Apache-2.0
"""A node with everything up, from a snapshot: tests and the demo start in seconds, not after a boot.

The template (disks with the snapshot in them) is a cache entry keyed by the image, the node's spec and QEMU; a node is
a copy of its disks, restored. HTCondor does not survive a long sleep (services.wake): for a series of nodes one that is
awake is kept too, below out/.
"""

from __future__ import annotations

import time
from pathlib import Path

from . import accel, services, vm
from .disks import clone, images
from .image import Image, image
from .machine import Machine
from .paths import out
from .process import remove_tree
from .progress import say, step
from .site import Site
from .spec import Layout, NodeSpec
from .store import entry, instance

SNAPSHOT = "ready"
# What this process kept for a series of nodes.
_kept: set[Path] = set()
# Raise when what "ready" means changes.
RECIPE = 2


def ready_node(
    layout: Layout = "scratch-apart",
    *,
    spec: NodeSpec | None = None,
    detached: bool = False,
    name: str = "node1",
    series: bool = False,
) -> Machine:
    """A running node: all services up, the job image loaded, START true. It ends with this process unless detached.

    `series` = more of the same will be asked for: waking one up takes longer than keeping it (until `forget_series`).
    """
    wanted = spec or NodeSpec(layout=layout)
    built = image()
    template = _template(wanted, built, name)
    awake = out() / "awake" / f"{template.name}-{instance(template)}"
    machine = Site({name: wanted}, built=built, template=awake if _fresh(awake) else template).machines[name]
    try:
        machine.start(snapshot=SNAPSHOT, detached=detached)
        if services.wake(machine) and series:
            machine.snapshot(SNAPSHOT)
            machine.stop()
            _keep(machine, awake)
            machine.start(snapshot=SNAPSHOT, detached=detached)
    except BaseException:
        _keep_logs(machine)
        machine.discard()
        raise
    return machine


def forget_series() -> None:
    """Removes what this process kept for a series of nodes."""
    while _kept:
        remove_tree(_kept.pop())


def _fresh(folder: Path) -> bool:
    return folder.exists() and time.time() - folder.stat().st_mtime < services.CONDOR_PATIENCE


def _keep(machine: Machine, folder: Path) -> None:
    part = folder.with_name(folder.name + ".part")
    for old in (part, folder):
        remove_tree(old)
    part.mkdir(parents=True)
    _copy_disks(machine, part)
    part.rename(folder)
    _kept.add(folder)


def _copy_disks(machine: Machine, folder: Path) -> None:
    with step("keeping the ready node"):
        for path in machine.folder.glob("*.qcow2"):
            clone(path, folder / path.name)


def _keep_logs(machine: Machine) -> None:
    kept = out() / "logs" / f"ready-{machine.name}"
    machine.save_logs(kept)
    say(f"logs of {machine.name} are in {kept}")


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

    def build(folder: Path) -> None:
        vm.again(f"{name} is made ready", lambda: attempt(folder))

    def attempt(folder: Path) -> None:
        machine = Site({name: spec}, built=built, place=f"{spec.layout}-").machines[name]
        try:
            machine.start()
            # Unpacking the job image at the speed of a data disk takes minutes; a restored node has its limits.
            with machine.unlimited():
                services.wait_until_ready(machine)
            machine.snapshot(SNAPSHOT)
            machine.stop()
            _copy_disks(machine, folder)
        except BaseException:
            _keep_logs(machine)
            raise
        finally:
            machine.discard()

    return entry("ready", f"{name}-{spec.layout}", inputs, build)

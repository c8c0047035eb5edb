# SPDX-License-Identifier: Apache-2.0
"""A node with everything up, from a snapshot: tests and the demo start in seconds, not after a boot.

The template (disks with the snapshot in them) is a cache entry keyed by the image, the node's spec and QEMU; a node is
a copy of its disks, restored.
"""

from __future__ import annotations

from pathlib import Path

from . import accel, services
from .disks import clone, images
from .image import Image, image
from .machine import Machine
from .paths import out
from .progress import say, step
from .site import Site
from .spec import Layout, NodeSpec
from .store import entry, instance

SNAPSHOT = "ready"
# Raise when what "ready" means changes.
RECIPE = 1


def ready_node(
    layout: Layout = "scratch-apart", *, spec: NodeSpec | None = None, detached: bool = False, name: str = "node1"
) -> Machine:
    """A running node: all services up, the job image loaded, START true. It ends with this process unless detached."""
    wanted = spec or NodeSpec(layout=layout)
    built = image()
    template = _template(wanted, built, name)
    machine = Site({name: wanted}, built=built, template=template).machines[name]
    try:
        machine.start(snapshot=SNAPSHOT, detached=detached)
        services.wake(machine)
    except BaseException:
        _keep_logs(machine)
        machine.discard()
        raise
    return machine


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
        machine = Site({name: spec}, built=built, place=f"{spec.layout}-").machines[name]
        try:
            machine.start()
            # Unpacking the job image at the speed of a data disk takes minutes; a restored node has its limits.
            for disk in spec.disks:
                machine.throttle(disk.label, None, None)
            services.wait_until_ready(machine)
            machine.snapshot(SNAPSHOT)
            machine.stop()
            with step("keeping the ready node"):
                for path in machine.folder.glob("*.qcow2"):
                    clone(path, folder / path.name)
        except BaseException:
            _keep_logs(machine)
            raise
        finally:
            machine.discard()

    return entry("ready", f"{name}-{spec.layout}", inputs, build)

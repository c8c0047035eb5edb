# SPDX-License-Identifier: Apache-2.0
"""The lab by hand: python3 -m beerlab up, shell, exec, logs, status, down; build, packages, image, in-root."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from . import disks, image, packages, roots, vm
from .errors import LabError
from .machine import Machine
from .paths import TOP, cache, out
from .progress import say
from .ready import ready_node
from .site import Site
from .spec import LAYOUTS, NodeSpec
from .state import all_states
from .store import digest

# Where a checkout appears inside a root.
CHECKOUT = "/src"


def up(options: argparse.Namespace) -> int:
    if options.boot:
        machine = Site({"node1": NodeSpec(layout=options.layout)}).machines["node1"]
        machine.start(detached=True)
    else:
        machine = ready_node(options.layout, detached=True)
    print(f"{machine.name} is up. Log in:  python3 -m beerlab shell   End it:  python3 -m beerlab down")
    for guest, host in sorted(machine.ports.items()):
        print(f"  port {guest:5} of the node is 127.0.0.1:{host}")
    return 0


def down(_: argparse.Namespace) -> int:
    print(f"{vm.down()} node(s) ended")
    return 0


def status(_: argparse.Namespace) -> int:
    states = all_states()
    for state in states:
        life = f"up, pid {state.pid}" if state.running() else "down"
        print(f"{state.place}: {life}, {state.spec['layout']}, {state.accelerator.split(',')[0]}, {state.folder}")
    if not states:
        print("no node")
    return 0


def shell(options: argparse.Namespace) -> int:
    return Machine.attach(options.node).shell()


def execute(options: argparse.Namespace) -> int:
    return Machine.attach(options.node).shell(" ".join(options.command))


def logs(options: argparse.Namespace) -> int:
    folder = options.to or out() / "logs" / options.node
    Machine.attach(options.node).save_logs(folder)
    print(folder)
    return 0


def build(_: argparse.Namespace) -> int:
    built = image.image()
    disks.images(NodeSpec())
    print(f"image {built.disk}")
    return 0


def build_packages(options: argparse.Namespace) -> int:
    parts = options.parts
    folders = [packages.build(part) for part in parts] if parts else [packages.repository()]
    for folder in folders:
        for path in sorted(folder.glob("*.deb")):
            print(path)
    return 0


def in_root(options: argparse.Namespace) -> int:
    root = {"build": roots.build_root, "client": roots.client_root, "node": roots.node_root}[options.root]()
    target = cache() / "cargo-target" / f"checkout-{TOP.name}-{digest(str(TOP))}"
    target.mkdir(parents=True, exist_ok=True)
    words = options.command[1:] if options.command[:1] == ["--"] else options.command
    return root.call(
        words or ["/bin/bash"],
        binds={TOP: CHECKOUT, target: "/var/cache/beer/target"},
        env={"CARGO_TARGET_DIR": "/var/cache/beer/target", "TERM": os.environ.get("TERM", "dumb")},
        cwd=CHECKOUT,
    )


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="beerlab", description=__doc__)
    verbs = top.add_subparsers(required=True, metavar="COMMAND")

    one = verbs.add_parser("up", help="start a node with everything on it; it stays until `down`")
    one.add_argument("--layout", choices=LAYOUTS, default=LAYOUTS[0], help="where scratch and swap are")
    one.add_argument("--boot", action="store_true", help="boot it and wait for ssh only: for a look at what fails")
    one.set_defaults(run=up)

    verbs.add_parser("down", help="end all nodes of this checkout and remove their disks").set_defaults(run=down)
    verbs.add_parser("status", help="which nodes there are").set_defaults(run=status)

    one = verbs.add_parser("shell", help="log in to a node")
    one.add_argument("node", nargs="?", default="node1")
    one.set_defaults(run=shell)

    one = verbs.add_parser("exec", help="run a shell command in a node")
    one.add_argument("--node", default="node1")
    one.add_argument("command", nargs=argparse.REMAINDER)
    one.set_defaults(run=execute)

    one = verbs.add_parser("logs", help="save journal and logs of a node")
    one.add_argument("node", nargs="?", default="node1")
    one.add_argument("--to", type=Path, help="folder (default: out/lab/logs/NODE)")
    one.set_defaults(run=logs)

    verbs.add_parser("build", help="build all that a node needs, and start none").set_defaults(run=build)
    verbs.add_parser("image", help="the same as build").set_defaults(run=build)

    one = verbs.add_parser("packages", help="build our .debs and print their paths")
    one.add_argument("parts", nargs="*", help="only these parts (default: all, in a local apt repository)")
    one.set_defaults(run=build_packages)

    one = verbs.add_parser("in-root", help=f"run a command in a trixie root, with the checkout at {CHECKOUT}")
    one.add_argument("root", choices=("build", "client", "node"))
    one.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    one.set_defaults(run=in_root)
    return top


def main(argv: list[str]) -> int:
    options = parser().parse_args(argv)
    try:
        return int(options.run(options))
    except LabError as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130

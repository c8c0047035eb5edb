# SPDX-License-Identifier: Apache-2.0
"""The QEMU process of a node: its disks, its ports, its life."""

from __future__ import annotations

import contextlib
import ctypes
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from . import accel, qemu
from .disks import clone, copy_on_write, images
from .errors import LabError
from .image import Image
from .paths import PACKAGE
from .process import environment, tail
from .progress import say
from .spec import NodeSpec
from .state import State, all_states, load, run_folder, started_at
from .store import digest, locked

T = TypeVar("T")
PR_SET_PDEATHSIG = 1
# What the console shows when a boot is lost; waiting for the deadline would only cost time.
LOST = ("Kernel panic", "You are in emergency mode", "ALERT!  LABEL=")
# Faults of multi-threaded emulation (QEMU 10.0), by what the console shows.
# At the start of a boot (1 of 26). Linux sets a one-shot timer anew only after it has fired: that processor then sleeps
# for ever. It counts in boots only, and when said twice: a guest that was starved for a moment says it too.
TIMER_LOST = "kthread timer wakeup didn't happen"
# Linux patches its code as it runs (static keys), by way of a breakpoint that other processors may meet: one met it
# after it had been taken away again.
HALF_PATCHED = "Oops: int3"
TRIALS = 3
HEAD_SECONDS = 10.0
FIRST_OF_CLIENTS = 32768  # Linux, net.ipv4.ip_local_port_range


class EmulationFault(LabError):
    """The emulated machine broke through no fault of what runs in it: try again."""


def create(
    name: str, number: int, spec: NodeSpec, image: Image, *, place: str, network: str, template: Path | None = None
) -> State:
    """A node with fresh disks: overlays on the images, or copies of a template's overlays with their snapshots."""
    with locked(f"run-{digest(str(run_folder() / place))}"):
        old = load(place)
        if old is not None:
            if old.running():
                raise LabError(f"{place} is up already (pid {old.pid}): python3 -m beerlab down ends it")
            if old.owned_by_another():
                raise LabError(f"{place} is in use by process {old.owner}")
            old.discard()
        state = State(
            place=place,
            name=name,
            number=number,
            spec=spec.as_dict(),
            image=str(image.folder),
            accelerator=accel.accelerator(image.kernel),
            ports=free_ports(qemu.FORWARDED),
            # Socket paths may have 107 bytes: a checkout's own path can be longer.
            sockets=tempfile.mkdtemp(prefix="beerlab-"),
            site_network=network,
        )
        state.claim()
        state.folder.mkdir(parents=True, exist_ok=True)
        state.save()
    if template is not None:
        for path in template.glob("*.qcow2"):
            clone(path, state.folder / path.name)
    else:
        copy_on_write(image.disk, "raw", state.folder / "root.qcow2")
        for label, path in images(spec).items():
            copy_on_write(path, "raw", state.folder / f"{label}.qcow2")
    return state


def launch(state: State, spec: NodeSpec, image: Image, snapshot: str | None, detached: bool) -> None:
    """Starts QEMU; it dies with its parent unless detached."""
    (state.folder / "console.log").unlink(missing_ok=True)
    Path(state.sockets).mkdir(mode=0o700, exist_ok=True)
    boot = qemu.Boot(
        name=state.name,
        number=state.number,
        spec=spec,
        accelerator=state.accelerator,
        kernel=image.kernel,
        initrd=image.initrd,
        disks=_disk_files(state, spec),
        ports=state.ports,
        monitor=Path(state.sockets) / "qmp",
        console=state.folder / "console.log",
        site_network=state.site_network,
        snapshot=snapshot,
        heads=_start_heads(state, spec, detached),
    )
    process = _spawn(qemu.command(boot), state.folder / "qemu.log", detached)
    # Whether it ended is read from /proc, the same way for a child and for another process's QEMU.
    process.returncode = 0
    state.pid, state.started, state.detached = process.pid, started_at(process.pid), detached
    state.save()


def _spawn(command: Sequence[str], log: Path, detached: bool) -> subprocess.Popen[bytes]:
    libc = ctypes.CDLL(None)
    with log.open("wb") as said:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env=environment(),
            start_new_session=True,
            preexec_fn=None if detached else lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
        )


def _start_heads(state: State, spec: NodeSpec, detached: bool) -> dict[str, Path]:
    """A seekdisk for each disk with a head, over the image that the disk's overlay was made for. It ends with QEMU."""
    heads = {}
    for disk in spec.disks:
        if disk.head is None:
            continue
        socket_path = Path(state.sockets) / f"head-{disk.label}"
        log = state.folder / f"head-{disk.label}.log"
        words = [sys.executable, str(PACKAGE / "seekdisk.py"), "--image", str(images(spec)[disk.label])]
        words += ["--socket", str(socket_path), "--seek-ms", str(disk.head.seek_ms)]
        process = _spawn([*words, "--rate", str(disk.head.bytes_per_second)], log, detached)
        deadline = time.monotonic() + HEAD_SECONDS
        while not socket_path.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise LabError(f"{state.name}: the head of {disk.label} does not start: {tail(log, 5)}")
            time.sleep(0.02)
        process.returncode = 0  # as for QEMU
        heads[disk.label] = socket_path
    return heads


def _disk_files(state: State, spec: NodeSpec) -> Mapping[str, Path]:
    labels = ["root", *(disk.label for disk in spec.disks)]
    return {label: state.folder / f"{label}.qcow2" for label in labels}


def free_ports(guest_ports: tuple[int, ...]) -> dict[int, int]:
    """A free port of 127.0.0.1 for each, and none that the kernel gives to clients: one might take it before the server
    does."""
    found: list[int] = []
    while len(found) < len(guest_ports):
        port = secrets.choice(range(10000, FIRST_OF_CLIENTS))
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found += [port] if port not in found else []
    return dict(zip(guest_ports, found, strict=True))


def fail_when_stuck(state: State, booting: bool = False) -> None:
    """Raises when QEMU has ended or the console shows that the node is lost."""
    console = state.folder / "console.log"
    text = console.read_text(errors="replace") if console.exists() else ""
    fault = emulation_fault(state, booting)
    if fault is not None:
        raise fault
    if not state.running():
        raise LabError(f"{state.name}: QEMU has ended: {last_words(state)}")
    found = next((mark for mark in LOST if mark in text), None)
    if found:
        raise LabError(f"{state.name}: {found!r} on the console:\n{tail(console, 25)}")


def again(what: str, attempt: Callable[[], T], trials: int = TRIALS) -> T:
    """What `attempt` returns; it is called once more whenever emulation broke the machine, which is said of `what`."""
    for _ in range(trials - 1):
        try:
            return attempt()
        except EmulationFault as error:
            say(f"{error}\n{what} again")
    return attempt()


def emulation_fault(state: State, booting: bool = False) -> EmulationFault | None:
    """What the console says that the emulation broke."""
    console = state.folder / "console.log"
    text = console.read_text(errors="replace") if console.exists() else ""
    if state.accelerator == "kvm":
        return None
    if HALF_PATCHED in text:
        mark, what = HALF_PATCHED, "executed code of the kernel that was patched half"
    elif booting and text.count(TIMER_LOST) > 1:
        mark, what = TIMER_LOST, "lost a processor's timer"
    else:
        return None
    shown = "\n".join(text[text.index(mark) :].splitlines()[:8])
    return EmulationFault(f"{state.name}: the emulation {what}:\n{shown}")


def last_words(state: State) -> str:
    """The end of what QEMU and the console said."""
    return "\n".join(filter(None, (tail(state.folder / "qemu.log", 5), tail(state.folder / "console.log", 10))))


def down() -> int:
    """Ends every node of this checkout and removes its disks; returns how many were up."""
    count = 0
    for state in all_states():
        if state.running():
            count += 1
            say(f"ending {state.name} (pid {state.pid})")
        state.discard()
    return count

# SPDX-License-Identifier: Apache-2.0
"""The trixie roots: made by mmdebstrap from the host's mirror, kept by the hash of what goes in."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from . import packagelists
from .aptsources import mirror
from .errors import LabError
from .process import as_root, run, run_logged
from .root import Root
from .store import entry

KEYRINGS = tuple(Path(f"/usr/share/keyrings/debian-archive-keyring.{ending}") for ending in ("gpg", "pgp"))
# Raise when the way a root is made changes, so that cached ones are made anew.
RECIPE = 2
# What the node's initramfs must hold to mount the root disk.
BOOT_MODULES = ("virtio_pci", "virtio_blk", "ext4")


def build_root() -> Root:
    """Compilers and packaging; `make check` of every part runs in it."""
    return _root("build", packagelists.BUILD)


def client_root() -> Root:
    """XRootD clients and python3-xrootd of the node's own version, for storage clients outside the node."""
    return build_root()


def node_root() -> Root:
    """A disk server before our packages come, with the initramfs that a virtual machine needs."""
    return _root("node", packagelists.NODE, BOOT_MODULES)


def _root(name: str, packages: Sequence[str], boot_modules: Sequence[str] = ()) -> Root:
    inputs = {
        "recipe": RECIPE,
        "suite": packagelists.SUITE,
        "packages": sorted(packages),
        "boot modules": boot_modules,
        "uid0": os.geteuid() == 0,
    }

    def build(folder: Path) -> None:
        root = Root(folder / "tree")
        _mmdebstrap(name, packages, root)
        if boot_modules:
            _make_initramfs(root, boot_modules)

    return Root(entry("roots", name, inputs, build) / "tree")


def _mmdebstrap(name: str, packages: Sequence[str], root: Root) -> None:
    keyring = next((path for path in KEYRINGS if path.exists()), None)
    if keyring is None:
        raise LabError("debian-archive-keyring is not installed: run lab/host-setup")
    source = f"deb [signed-by={keyring}] {mirror()} {packagelists.SUITE} main"
    options = ["--variant=apt", '--aptopt=Apt::Install-Recommends "false"', *_proxy_options()]
    options += [f"--include={','.join(packages)}"]
    what = f"building the {name} root with mmdebstrap"
    command = ["mmdebstrap", *options]
    if os.geteuid() == 0:
        run_logged(what, [*command, "--mode=root", packagelists.SUITE, root.path, source], name=f"root-{name}")
        return
    # A user's mmdebstrap maps ids its own way: only as an archive does its result fit our namespaces. Device nodes
    # cannot be made there, and Root.run brings its own /dev.
    root.path.mkdir()
    writing = shlex.join([*command, "--mode=unshare", packagelists.SUITE, "-", source])
    reading = shlex.join([*as_root(), "tar", "-C", str(root.path), "--exclude=./dev/*", "-xpf", "-"])
    # /tmp may be a small tmpfs.
    script = f"set -o pipefail; TMPDIR=/var/tmp {writing} | {reading}"
    run_logged(what, ["bash", "-c", script], name=f"root-{name}")


def _make_initramfs(root: Root, modules: Sequence[str]) -> None:
    """Only what mounts the root disk: a small initramfs is unpacked faster by an emulated CPU."""
    script = f"""
        printf '%s\\n' {shlex.join(modules)} > /etc/initramfs-tools/modules
        echo MODULES=list > /etc/initramfs-tools/conf.d/lab
        update-initramfs -u -k all
    """
    run_logged("making the node's initramfs", root.command(["sh", "-ec", script], writable=True), name="initramfs")


def _proxy_options() -> list[str]:
    """The host's apt proxies: mmdebstrap's apt reads a configuration of its own."""
    shown = run(["apt-config", "dump", "--format", "%f %v%n", "Acquire"]).splitlines()
    pairs = [line.split(" ", 1) for line in shown if " " in line]
    wanted = ("Acquire::http::Proxy", "Acquire::https::Proxy")
    return [f'--aptopt={key} "{value}"' for key, value in pairs if key in wanted and value]

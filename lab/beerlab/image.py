# SPDX-License-Identifier: Apache-2.0
"""The node image: the node root, our packages from the local repository, and what a site would configure."""

from __future__ import annotations

import shlex
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from . import packages
from .paths import PACKAGE
from .process import as_root, run, run_logged
from .root import Root
from .roots import node_root
from .store import entry, folder_digest

OVERLAY = PACKAGE / "overlay"
RECIPE = 4
# Virtual size of the root disk; the file is sparse.
DISK_BYTES = 8 << 30
# A disk server has none of these, and each costs emulated CPU time at boot or later.
MASKED = (
    *("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer"),
    *("e2scrub_reap.service", "getty@tty1.service", "systemd-binfmt.service", "keyboard-setup.service"),
)
USER = "alice"


@dataclass(frozen=True)
class Image:
    """Everything that QEMU needs to boot a node."""

    folder: Path

    @property
    def disk(self) -> Path:
        return self.folder / "disk.img"

    @property
    def kernel(self) -> Path:
        return self.folder / "vmlinuz"

    @property
    def initrd(self) -> Path:
        return self.folder / "initrd.img"

    @property
    def ssh_key(self) -> Path:
        return self.folder / "ssh_key"


def image() -> Image:
    """The image of this checkout: built when there is none for its content."""
    # Neither needs the other, and the first build of each takes a minute or more.
    with ThreadPoolExecutor() as pool:
        root = pool.submit(node_root)
        repo = packages.repository()
        base = root.result().path
    inputs = {
        "recipe": RECIPE,
        "base": base.parent.name,
        "repository": repo.name,
        "overlay": folder_digest(OVERLAY),
        "masked": MASKED,
        "size": DISK_BYTES,
    }
    return Image(entry("images", "node", inputs, lambda folder: _build(folder, base, repo)))


def _build(folder: Path, base: Path, repo: Path) -> None:
    tree = folder / "tree"
    run([*as_root(), "cp", "-a", base, tree])
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "beer-lab", "-f", folder / "ssh_key"])
    site = folder / "site"
    shutil.copytree(OVERLAY, site)
    command = Root(tree).command(
        ["sh", "-ec", _script(packages.names(repo))], binds={folder: "/mnt", repo: "/srv"}, writable=True
    )
    run_logged("installing our packages into the node image", command, name="image-install")
    for name in ("vmlinuz", "initrd.img"):
        run([*as_root(), "cp", "-L", tree / "boot" / (tree / name).readlink().name, folder / name])
        run([*as_root(), "chmod", "0644", folder / name])
    with (folder / "disk.img").open("wb") as handle:
        handle.truncate(DISK_BYTES)
    making = ["mke2fs", "-q", "-t", "ext4", "-L", "beer-root", "-E", "lazy_itable_init=0,lazy_journal_init=0"]
    making += ["-J", "size=32", "-d", tree, folder / "disk.img"]
    run_logged("making the node's root disk", [*as_root(), *making], name="image-disk")
    run([*as_root(), "rm", "-rf", tree, site])


def _script(ours: list[str]) -> str:
    """What is done inside the tree: packages first, then the site's own configuration."""
    apt = "apt-get -o Dir::Etc::sourcelist=/run/beer.list -o Dir::Etc::sourceparts=/dev/null"
    lines = [
        # No service may start in a tree that is not running.
        "printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d; chmod 0755 /usr/sbin/policy-rc.d",
        "echo 'deb [trusted=yes] file:/srv ./' > /run/beer.list",
    ]
    if ours:
        # Nothing comes from the network here: what our packages depend on must be in packagelists.NODE.
        lines += [f"{apt} update", f"{apt} -y --no-install-recommends install {shlex.join(ours)}"]
    lines += [
        "rm -rf /usr/sbin/policy-rc.d /var/lib/apt/lists/* /var/cache/apt/*.bin",
        "cp -r /mnt/site/. /",
        "install -d -m 0700 ~root/.ssh; install -m 0600 /mnt/ssh_key.pub ~root/.ssh/authorized_keys",
        f"id {USER} >/dev/null 2>&1 || useradd --create-home --shell /bin/bash {USER}",
        ": > /etc/machine-id; : > /etc/fstab; rm -f /etc/hostname /etc/resolv.conf",
        "echo 'LABEL=beer-root / ext4 noatime 0 1' > /etc/fstab",
        "systemctl enable systemd-networkd.service ssh.service",
        *(f"systemctl mask {unit}" for unit in MASKED),
        "mkdir -p /data/01 /data/02 /var/lib/beer/scratch",
        # Debian's sshd makes its host keys at install time; a node image needs them before its first boot.
        "ssh-keygen -A",
    ]
    return "\n".join(lines)

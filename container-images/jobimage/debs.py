# SPDX-License-Identifier: Apache-2.0
"""Debian packages into a folder, by apt and dpkg-deb, from the sources that the build root itself uses.

No maintainer script runs and nothing is mounted or chrooted into, so this needs neither root nor a container engine;
what the scripts would have done and a job needs (users, certificates, byte code) is done in rootfs.py.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


class PackageError(Exception):
    """apt or the package list is at fault; the message says which."""


@dataclass(frozen=True)
class PackageList:
    """The packages asked for, and those that their dependencies would add but nothing uses."""

    wanted: tuple[str, ...]
    left_out: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> PackageList:
        words = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        for word in words:
            if len(word.split()) != 1:
                raise PackageError(f"packages.txt: '{word}' is not one package name")
        wanted = tuple(word for word in words if not word.startswith("-"))
        return cls(wanted, frozenset(word[1:] for word in words if word.startswith("-")))


def apt(workdir: Path, *arguments: str) -> None:
    """Runs apt-get with a state of its own, in which no package is installed."""
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (workdir / folder).mkdir(parents=True, exist_ok=True)
    status = workdir / "status"
    status.touch()
    options = {
        "Dir::State": workdir / "state",
        "Dir::State::status": status,
        "Dir::Cache": workdir / "cache",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",
        "Acquire::Retries": "3",
        "Debug::NoLocking": "1",
    }
    command = ["apt-get", "-qq", "-y"]
    for name, value in options.items():
        command += ["-o", f"{name}={value}"]
    result = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise PackageError(f"apt-get {' '.join(arguments)}: {result.stderr.strip()}")


def download(packages: PackageList, workdir: Path) -> list[Path]:
    """Fetches the packages and all they depend on; apt checks the signatures."""
    apt(workdir, "update")
    apt(workdir, "--download-only", "install", *packages.wanted)
    return sorted((workdir / "cache" / "archives").glob("*.deb"))


def name_and_version(deb: Path) -> tuple[str, str]:
    fields = subprocess.run(
        ["dpkg-deb", "--show", "--showformat=${Package} ${Version}", deb], capture_output=True, text=True, check=True
    ).stdout.split()
    return fields[0], fields[1]


def unpack(debs: Iterable[Path], packages: PackageList, root: Path) -> list[tuple[str, str]]:
    """Unpacks all but the left-out packages; returns name and version of each that is in."""
    contents = [(deb, *name_and_version(deb)) for deb in debs]
    unknown = packages.left_out - {name for _, name, _ in contents}
    if unknown:
        raise PackageError(f"packages.txt leaves out what nothing depends on: {', '.join(sorted(unknown))}")
    # base-files first: it brings the symbolic links /bin, /lib, ... that the others' files go through.
    contents.sort(key=lambda item: (item[1] != "base-files", item[1]))
    kept = [item for item in contents if item[1] not in packages.left_out]
    for deb, _, _ in kept:
        subprocess.run(["dpkg-deb", "--extract", deb, root], check=True)
    return [(name, version) for _, name, version in kept]

# SPDX-License-Identifier: Apache-2.0
"""Finds the Debian mirror in the host's own apt sources, so that no host name stands in this tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .errors import LabError

APT = Path("/etc/apt")
OS_RELEASE = Path("/etc/os-release")


@dataclass(frozen=True)
class Source:
    """One repository of the host."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]


def one_line_sources(text: str) -> Iterator[Source]:
    """Entries of a sources.list: deb [options] uri suite component..."""
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[[^\]]*\]\s*)?(\S+)\s+(\S+)\s*([^#]*)", line)
        if match:
            yield Source(match[1], (match[2],), tuple(match[3].split()))


def deb822_sources(text: str) -> Iterator[Source]:
    """Entries of a .sources file: stanzas with URIs, Suites and Components."""
    for stanza in re.split(r"\n\s*\n", re.sub(r"(?m)^#.*\n?", "", text)):
        unfolded = re.sub(r"\n[ \t]+", " ", stanza)
        fields = {
            key.strip().lower(): value.split()
            for key, colon, value in (line.partition(":") for line in unfolded.splitlines())
            if colon
        }
        if "deb" not in fields.get("types", []) or fields.get("enabled", ["yes"])[0].lower() in ("no", "false"):
            continue
        for uri in fields.get("uris", []):
            yield Source(uri, tuple(fields.get("suites", [])), tuple(fields.get("components", [])))


def sources(apt: Path = APT) -> list[Source]:
    """All repositories the host knows, in apt's order of files."""
    found: list[Source] = []
    parts = sorted((apt / "sources.list.d").glob("*")) if (apt / "sources.list.d").is_dir() else []
    for path in [apt / "sources.list", *parts]:
        if path.suffix == ".list" and path.is_file():
            found += one_line_sources(path.read_text())
        elif path.suffix == ".sources" and path.is_file():
            found += deb822_sources(path.read_text())
    return found


def codename(os_release: Path = OS_RELEASE) -> str:
    match = re.search(r'(?m)^VERSION_CODENAME="?([a-z]+)"?$', os_release.read_text())
    if not match:
        raise LabError(f"{os_release}: no VERSION_CODENAME; the lab needs Debian 12 or 13")
    return match[1]


def mirror(apt: Path = APT, os_release: Path = OS_RELEASE) -> str:
    """The URI of the host's main Debian archive: the one that has the host's own suite."""
    suite = codename(os_release)
    for source in sources(apt):
        if suite in source.suites and "main" in source.components:
            return source.uri
    raise LabError(f"{apt}: no source has the suite {suite!r} with component main: cannot tell the Debian mirror")

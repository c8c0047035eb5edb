# SPDX-License-Identifier: Apache-2.0
"""Our own .debs: each part is built in the trixie build root and kept by the hash of its folder."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import packagelists
from .errors import LabError
from .paths import TOP, cache, out
from .process import as_root, run, run_logged
from .progress import say
from .roots import build_root
from .store import entry, files_of, folder_digest, locked

# Parts that may hold a debian/ folder, the slowest first.
PARTS = ("guard", "storage-daemon", "container-images", "cgroup-slices", "condor-config", "monitoring")
RECIPE = 3
# What the names of our packages begin with.
OURS = "beer-"


def parts() -> list[str]:
    """The parts that are packaged; BEER_LAB_WITHOUT leaves some out, for a node while one of them does not build."""
    without = os.environ.get("BEER_LAB_WITHOUT", "").replace(",", " ").split()
    _refuse_unknown(without)
    return [part for part in PARTS if part not in without and (TOP / part / "debian" / "control").is_file()]


def _refuse_unknown(names: Sequence[str]) -> None:
    for name in names:
        if name not in PARTS:
            raise LabError(f"no part {name!r}: {', '.join(PARTS)} are packaged")


def build(part: str) -> Path:
    """The directory with the .debs of one part."""
    _refuse_unknown([part])
    folder = TOP / part
    inputs = {"recipe": RECIPE, "part": part, "content": folder_digest(folder), "root": sorted(packagelists.BUILD)}
    return entry("packages", part, inputs, lambda target: _dpkg_buildpackage(part, target))


def lay_out(folder: Path, source: Path) -> None:
    """A copy of a part's files, as new: cargo would take what another checkout has compiled since for theirs."""
    for relative in files_of(folder):
        path = source / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / relative, path, follow_symlinks=False)


def _dpkg_buildpackage(part: str, target: Path) -> None:
    work = target / "work"
    lay_out(TOP / part, work / part)
    # Compiled crates of others stay from build to build.
    crates = cache() / "cargo-target" / part
    crates.mkdir(parents=True, exist_ok=True)
    # `make check` runs the tests, where a failure says more than a package that is not built.
    env = {"DEB_BUILD_OPTIONS": "nocheck"}
    if (TOP / part / "Cargo.toml").exists():
        env["CARGO_TARGET_DIR"] = "/var/cache/beer/target"
    command = build_root().command(
        ["dpkg-buildpackage", "-b", "-us", "-uc"],
        binds={work: "/build", crates: "/var/cache/beer/target"},
        env=env,
        cwd=f"/build/{part}",
    )
    with locked(f"cargo-target-{part}"):
        run_logged(f"building the packages of {part}", command, name=f"package-{part}")
    found = [path for path in sorted(work.glob("*.deb")) if "-dbgsym_" not in path.name]
    if not found:
        raise LabError(f"{part}: dpkg-buildpackage made no .deb, see {out() / 'logs'}")
    for path in found:
        shutil.copyfile(path, target / path.name)
    run([*as_root(), "rm", "-rf", work])


def repository() -> Path:
    """A local apt repository with the packages of all parts: debs and a Packages file."""
    build_root()
    # The guard takes as long as all others: it begins first, and they go one after the other beside it.
    with ThreadPoolExecutor(2) as pool:
        folders = dict(zip(parts(), pool.map(build, parts()), strict=True))
    inputs = {"recipe": RECIPE, "parts": {part: folder.name for part, folder in folders.items()}}

    def index(target: Path) -> None:
        for folder in folders.values():
            for path in folder.glob("*.deb"):
                shutil.copyfile(path, target / path.name)
        listed = build_root().run(["dpkg-scanpackages", "--multiversion", "."], binds={target: "/mnt"}, cwd="/mnt")
        (target / "Packages").write_text(listed.stdout)

    return entry("repositories", "all", inputs, index)


def names(repo: Path) -> list[str]:
    """Binary packages of a repository whose dependencies on each other can be met; the others are said."""
    needs = our_dependencies((repo / "Packages").read_text())
    wanted = set(needs)
    while broken := {name for name in wanted if not needs[name] <= wanted}:
        wanted -= broken
    for name in sorted(set(needs) - wanted):
        say(f"{name} is left out: it needs {', '.join(sorted(needs[name] - wanted))}, which no part builds")
    return sorted(wanted)


def our_dependencies(index: str) -> dict[str, set[str]]:
    """Package -> those it depends on that are ours, from the text of a Packages file."""
    found: dict[str, set[str]] = {}
    for stanza in re.split(r"\n\s*\n", index):
        name = re.search(r"(?m)^Package: (\S+)$", stanza)
        depends = re.search(r"(?m)^Depends: (.*)$", stanza)
        if name:
            found[name[1]] = set(re.findall(rf"(?:^|[ ,])({OURS}[a-z0-9.+-]*)", depends[1] if depends else ""))
    return found

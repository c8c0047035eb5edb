# SPDX-License-Identifier: Apache-2.0
"""Puts the root filesystem of the job image together, step by step."""

from __future__ import annotations

import compileall
import py_compile
import shutil
import stat
import sys
from pathlib import Path

from jobimage import debs, wheels

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
SITE = f"usr/local/lib/{PYTHON}/dist-packages"
BYTE_CODE = (f"usr/lib/{PYTHON}", "usr/lib/python3/dist-packages", SITE)

# Any uid may run in the container (HTCondor uses that of the job's owner), so two accounts are enough.
ACCOUNTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


class RootError(Exception):
    """A step found something that does not fit its list."""


def build(source: Path, root: Path, workdir: Path) -> None:
    """Makes the root filesystem from the lists in `source` (job/)."""
    root.mkdir(parents=True)
    packages = debs.PackageList.parse((source / "packages.txt").read_text())
    installed = debs.unpack(debs.download(packages, workdir), packages, root)
    require_python(root)
    wheels.install(source / "requirements.txt", root / SITE)
    install_payload(source / "payload", root)
    write_accounts(root)
    write_certificates(root)
    remove(root, (source / "remove.txt").read_text())
    compile_python(root)
    write_inventory(root, installed, (source / "requirements.txt").read_text())


def require_python(root: Path) -> None:
    """Wheels and byte code are made by the Python that runs this: it must be the one in the image."""
    if not (root / BYTE_CODE[0]).is_dir():
        raise RootError(f"the image has no {BYTE_CODE[0]}: build in a root of the release that the image is made from")


def install_payload(source: Path, root: Path) -> None:
    shutil.copytree(source / "beer_payload", root / SITE / "beer_payload", ignore=shutil.ignore_patterns("__pycache__"))
    launcher = root / "usr/bin/beer-payload"
    shutil.copyfile(source / "beer-payload", launcher)
    launcher.chmod(0o755)


def write_accounts(root: Path) -> None:
    for name, text in ACCOUNTS.items():
        (root / name).write_text(text)
    for name, mode in {"tmp": 0o1777, "var/tmp": 0o1777, "proc": 0o555, "sys": 0o555, "dev": 0o755}.items():
        (root / name).mkdir(exist_ok=True)
        (root / name).chmod(mode)


def write_certificates(root: Path) -> None:
    """One bundle, as update-ca-certificates would make it."""
    bundle = root / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    parts = sorted((root / "usr/share/ca-certificates/mozilla").glob("*.crt"))
    bundle.write_text("".join(part.read_text() for part in parts))


def patterns(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def remove(root: Path, text: str) -> None:
    """Takes out what remove.txt lists."""
    found = {pattern: list(root.glob(pattern)) for pattern in patterns(text)}
    stale = [pattern for pattern, paths in found.items() if not paths]
    if stale:
        raise RootError(f"remove.txt: nothing in the image matches {', '.join(stale)}")
    for path in (path for paths in found.values() for path in paths):
        if path.is_symlink() or path.is_file():
            path.unlink(missing_ok=True)
        elif path.is_dir():
            shutil.rmtree(path)


def compile_python(root: Path) -> None:
    """Byte code for everything, valid whatever the file times say: layers are unpacked with one fixed time."""
    for folder in BYTE_CODE:
        # Debian's sitecustomize and some packages' templates are not Python 3 by design; compileall reports, goes on.
        compileall.compile_dir(
            root / folder,
            quiet=2,
            workers=0,
            stripdir=str(root),
            prependdir="/",
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )


def write_inventory(root: Path, installed: list[tuple[str, str]], requirements: str) -> None:
    """What is inside, for people and for vulnerability scanners: there is no dpkg in the image to ask."""
    lines = [f"deb {name} {version}" for name, version in sorted(installed)]
    lines += [f"wheel {line.split()[0].replace('==', ' ')}" for line in patterns(requirements)]
    target = root / "usr/share/beer/inventory"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(lines) + "\n")


def size(root: Path) -> tuple[int, int]:
    """Number of files and bytes of content."""
    files = [status for status in (path.lstat() for path in root.rglob("*")) if stat.S_ISREG(status.st_mode)]
    return len(files), sum(status.st_size for status in files)

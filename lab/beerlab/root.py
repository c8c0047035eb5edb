# SPDX-License-Identifier: Apache-2.0
"""A Debian root to run commands in: a chroot in namespaces of its own, as root or as a normal user."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import hostsettings
from .errors import LabError
from .process import environment

# Fresh and writable in every run; the root itself is read-only unless asked for, since it is a shared cache entry.
VOLATILE = ("/tmp", "/run")  # noqa: S108 (paths inside the root)
VOLATILE_WHEN_SHARED = ("/root",)
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


@dataclass(frozen=True)
class Root:
    """A tree made by `roots`; `run` needs no root rights and leaves no mount behind."""

    path: Path

    def command(
        self,
        argv: Sequence[str | Path],
        *,
        binds: Mapping[Path | str, str] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str = "/",
        user: str | None = None,
        writable: bool = False,
    ) -> list[str]:
        """The host command line that runs argv in the root."""
        words = [str(word) for word in argv]
        # A tree that is being made gets nothing of the host: neither its network settings nor a way to change them.
        settings = {} if writable else hostsettings.files()
        caches = {} if writable else hostsettings.caches()
        variables = hostsettings.variables() | dict(env or {})
        script = _script(self.path, settings, caches | dict(binds or {}), variables, cwd, user, writable, words)
        namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        if os.geteuid() != 0:
            namespaces += ["--map-auto", "--map-root-user"]
        return [*namespaces, "--", "/bin/sh", "-c", script]

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        binds: Mapping[Path | str, str] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str = "/",
        user: str | None = None,
        writable: bool = False,
        check: bool = True,
        timeout: float | None = None,
        input: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs argv in the root and returns what it said.

        binds: host path -> path in the root, read-write. With check, a failure raises LabError with its stderr.
        """
        command = self.command(argv, binds=binds, env=env, cwd=cwd, user=user, writable=writable)
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=timeout, input=input, env=environment(), check=False
            )
        except subprocess.TimeoutExpired as error:
            raise LabError(f"{_shown(argv)}: no end after {timeout:.0f} s in {self.path.name}") from error
        if check and done.returncode != 0:
            raise LabError(f"{_shown(argv)}: exit status {done.returncode}: {done.stderr.strip()[-2000:]}")
        return done

    def call(self, argv: Sequence[str | Path], **options: object) -> int:
        """Runs argv on the caller's terminal and returns its exit status."""
        command = self.command(argv, **options)  # type: ignore[arg-type]
        return subprocess.run(command, env=environment(), check=False).returncode


def _shown(argv: Sequence[str | Path]) -> str:
    return shlex.join(str(word) for word in argv)[:200]


def _script(
    root: Path,
    settings: Mapping[Path | str, str],
    binds: Mapping[Path | str, str],
    env: Mapping[str, str],
    cwd: str,
    user: str | None,
    writable: bool,
    words: Sequence[str],
) -> str:
    """Shell text that mounts what is needed and enters the root; the mount namespace takes it all down again."""
    at = shlex.quote(str(root))
    volatile = VOLATILE if writable else VOLATILE + VOLATILE_WHEN_SHARED
    lines = [
        "set -e",
        # chroot is there, and a normal user's PATH on Debian does not have it.
        "PATH=$PATH:/usr/sbin:/sbin",
        f"mount --bind {at} {at}",
        f"mkdir -p {at}/proc {at}/dev",
        f"mount -t proc proc {at}/proc",
        f"mount -t tmpfs -o mode=0755 tmpfs {at}/dev",
        f"mkdir {at}/dev/pts {at}/dev/shm",  # noqa: S108
        f"mount -t tmpfs -o mode=1777 tmpfs {at}/dev/shm",  # noqa: S108
        f"mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts {at}/dev/pts",
        f"ln -s pts/ptmx {at}/dev/ptmx; ln -s /proc/self/fd {at}/dev/fd",
        f"for n in 0:stdin 1:stdout 2:stderr; do ln -s /proc/self/fd/${{n%%:*}} {at}/dev/${{n#*:}}; done",
        f"for n in {' '.join(DEVICES)}; do : > {at}/dev/$n; mount --bind /dev/$n {at}/dev/$n; done",
        *(f"mount -t tmpfs -o mode=1777 tmpfs {at}{path}" for path in volatile),
    ]
    for source, target in settings.items():
        lines += [*_bind(root, Path(source), target), f"mount -o remount,bind,ro {shlex.quote(f'{root}{target}')}"]
    for source, target in binds.items():
        lines += _bind(root, Path(source), target)
    if not writable:
        lines.append(f"mount -o remount,bind,ro {at}")
    enter = ["chroot", *([f"--userspec={user}"] if user else []), str(root), "/usr/bin/env", "-i"]
    enter += [f"{key}={value}" for key, value in env.items()]
    enter += ["/bin/sh", "-c", 'cd "$0" && exec "$@"', cwd, *words]
    lines.append(f"exec {shlex.join(enter)}")
    return "\n".join(lines)


def _bind(root: Path, source: Path, target: str) -> list[str]:
    inside = shlex.quote(f"{root}{target}")
    if source.is_dir():
        make = f"mkdir -p {inside}"
    else:
        make = f'mkdir -p "$(dirname {inside})"; [ -e {inside} ] || : > {inside}'
    return [make, f"mount --rbind {shlex.quote(str(source))} {inside}"]

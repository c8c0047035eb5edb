# SPDX-License-Identifier: Apache-2.0
"""Programs on the host: logged, with a deadline, and an error that shows the end of what they said."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from .errors import LabError
from .paths import out
from .progress import step

TAIL_LINES = 12


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The caller's environment; mke2fs, debugfs and mkswap live in sbin, which a normal user's PATH lacks on Debian."""
    env = dict(os.environ, **(extra or {}))
    env["PATH"] = env.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
    return env


def as_root() -> list[str]:
    """Prefix under which a command is root: nothing for root, else a user namespace with all subordinate ids."""
    return [] if os.geteuid() == 0 else ["unshare", "--map-auto", "--map-root-user", "--"]


def run(argv: Sequence[str | Path], *, input_text: str | None = None, timeout: float = 600) -> str:
    """A short program; returns its stdout."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words, input=input_text, capture_output=True, text=True, timeout=timeout, env=environment(), check=False
        )
    except FileNotFoundError as error:
        raise LabError(f"{words[0]} is not installed: run lab/host-setup") from error
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{shlex.join(words)[:200]}: no end after {timeout:.0f} s") from error
    if done.returncode != 0:
        raise LabError(f"{shlex.join(words)[:200]}: exit status {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def run_logged(what: str, argv: Sequence[str | Path], *, name: str, timeout: float = 1800) -> None:
    """A long program: its output goes to out/lab/logs/<name>.log, its last line to the progress lines."""
    log = out() / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    words = [str(word) for word in argv]
    with log.open("wb") as sink, step(what, lambda: last_line(log)):
        try:
            status = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                timeout=timeout,
                env=environment(),
                check=False,
            ).returncode
        except FileNotFoundError as error:
            raise LabError(f"{words[0]} is not installed: run lab/host-setup") from error
        except subprocess.TimeoutExpired as error:
            raise LabError(f"{what}: no end after {timeout:.0f} s, see {log}") from error
    if status != 0:
        raise LabError(f"{what} failed (exit status {status}), see {log}; it ends with:\n{tail(log)}")


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""


def last_line(log: Path) -> str:
    return tail(log, 1).strip()[-100:]


def remove_tree(path: Path) -> None:
    """Removes a tree that may hold files of subordinate ids."""
    if path.exists() or path.is_symlink():
        run([*as_root(), "rm", "-rf", "--one-file-system", path])

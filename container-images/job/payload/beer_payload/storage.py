# SPDX-License-Identifier: Apache-2.0
"""Copies to and from XRootD with the tools that every grid job uses: xrdcp and xrdfs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zlib
from dataclasses import dataclass
from pathlib import Path

from beer_payload.report import SetupError, StorageError, WrongNumber

CHUNK = 1 << 20
# The guard may hold a job frozen for two minutes, and the client counts that as silence of the server: be patient with
# an open connection. With a server that is not there try five times (the client's default) for half a minute.
CLIENT_DEFAULTS = {"XRD_REQUESTTIMEOUT": "900", "XRD_STREAMTIMEOUT": "600", "XRD_CONNECTIONWINDOW": "30"}
COMMAND_TIMEOUT = 3600
KEYTAB_VARIABLE = "XrdSecSSSKT"


@dataclass(frozen=True)
class Url:
    """root://server[:port]//absolute/path"""

    server: str
    path: str

    @classmethod
    def parse(cls, text: str) -> Url:
        match = re.fullmatch(r"x?roots?://([^/?#]+)/(/[^?#]+)", text)
        if not match or match[2].endswith("/"):
            raise ValueError(f"'{text}' is not of the form root://server[:port]//path/of/a/file")
        return cls(match[1], match[2])

    def __str__(self) -> str:
        return f"root://{self.server}/{self.path}"


def use_keytab(keytab: Path | None, private: Path) -> None:
    """Makes the sss key usable: XRootD refuses one that others may read, and file transfer may have widened it."""
    name = keytab or os.environ.get(KEYTAB_VARIABLE)
    if not name:
        return  # the server may want no key, or another kind
    try:
        shutil.copyfile(name, private)
    except OSError as error:
        raise SetupError(f"sss keytab: {error}") from error
    private.chmod(0o600)
    os.environ[KEYTAB_VARIABLE] = str(private)


def run(*command: str) -> str:
    """Runs a storage command; its last line of complaint becomes the reason."""
    environment = {**CLIENT_DEFAULTS, **os.environ}
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment, timeout=COMMAND_TIMEOUT
        )
    except FileNotFoundError as error:
        raise SetupError(f"{command[0]}: not in this container") from error
    except subprocess.TimeoutExpired as error:
        raise StorageError(f"{' '.join(command)}: no end after {COMMAND_TIMEOUT} s") from error
    if result.returncode != 0:
        lines = [line for line in (result.stderr + result.stdout).splitlines() if line.strip()]
        reason = lines[-1].strip() if lines else f"exit code {result.returncode}"
        raise StorageError(f"{' '.join(command)}: {reason}")
    return result.stdout


def copy(source: str, target: str) -> None:
    """xrdcp. An earlier attempt of the same job may have left its file: overwrite it."""
    run("xrdcp", "--force", "--nopbar", "--retry", "3", source, target)


def adler32(path: Path) -> str:
    value = 1
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            value = zlib.adler32(chunk, value)
    return f"{value:08x}"


def parse_checksum(text: str) -> str:
    """The digits of `adler32 1a2b3c4d`; the server may leave out leading zeros."""
    words = text.split()
    if len(words) < 2 or words[0] != "adler32" or not re.fullmatch(r"[0-9a-fA-F]{1,8}", words[1]):
        raise StorageError(f"checksum query: expected 'adler32 <hex>', got '{text.strip()}'")
    return words[1].lower().rjust(8, "0")


def verify_checksum(url: Url, expected: str) -> None:
    found = parse_checksum(run("xrdfs", url.server, "query", "checksum", f"{url.path}?cks.type=adler32"))
    if found != expected:
        raise WrongNumber(f"{url}: adler32 {found} in storage, {expected} here")

# SPDX-License-Identifier: Apache-2.0
"""Logs of a node. Saving them must never hide the error that made somebody want them."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

from .ssh import Ssh

# File in the log folder -> command in the node.
COMMANDS = {
    "journal.txt": "journalctl -q --no-pager -b -o short-precise",
    "units.txt": "systemctl --no-pager --failed; systemctl --no-pager list-units --all; systemd-cgls --no-pager",
    "guard.txt": "beer status; beer why; cat /run/beer/guard/state",
    "condor.txt": "condor_status -l; condor_q -all -l; condor_history -l -limit 20",
    "docker.txt": "docker ps -a; docker images; docker info",
}
TREES = ("/var/log/condor", "/var/log/xrootd", "/var/lib/beer/journal", "/run/beer")
TREES += ("/etc/beer", "/etc/condor/config.d")
SECONDS = 60.0


def save(ssh: Ssh, folder: Path) -> None:
    """Everything there is; a node that hangs costs at most the deadline of one command."""
    for name, command in COMMANDS.items():
        try:
            ssh.save(f"{{ {command}; }} 2>&1", folder / name, SECONDS)
        except subprocess.TimeoutExpired:
            return
    # Keys stay in the node.
    trees = " ".join(TREES)
    with contextlib.suppress(subprocess.TimeoutExpired):
        ssh.save(f"tar -cz --exclude='*.keytab' --ignore-failed-read {trees} 2>/dev/null", folder / "logs.tgz", SECONDS)

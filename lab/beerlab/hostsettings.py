# SPDX-License-Identifier: Apache-2.0
"""What a root takes over from the host so that cargo, pip and apt reach the registries the way the host does."""

from __future__ import annotations

import os
import re
from pathlib import Path

from .paths import cache

CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
# Of root in a root.
HOME = "/root"
CARGO_HOME = "/var/cache/beer/cargo"
PASSED = re.compile(r"^((HTTP|HTTPS|FTP|ALL|NO)_PROXY|CARGO_(HTTP|NET|REGISTR|SOURCE|BUILD_JOBS)\w*|PIP_\w+)$", re.I)
# Variables with the names of files or directories: they are bound at the same place.
PATH_VARIABLES = ("PIP_FIND_LINKS", "PIP_CERT", "CARGO_HTTP_CAINFO", "PIP_CONFIG_FILE")


def variables() -> dict[str, str]:
    """Environment of a command in a root: nothing of the host's but what leads to the registries."""
    passed = {key: value for key, value in os.environ.items() if PASSED.match(key)}
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": HOME,
        "LANG": "C.UTF-8",
        "DEBIAN_FRONTEND": "noninteractive",
        "PYTHONDONTWRITEBYTECODE": "1",
        "CARGO_HOME": CARGO_HOME,
        **({"SSL_CERT_FILE": str(CA_BUNDLE), "PIP_CERT": str(CA_BUNDLE)} if CA_BUNDLE.exists() else {}),
        **passed,
    }


def caches() -> dict[Path | str, str]:
    """One cargo home for all builds."""
    cargo = cache() / "cargo"
    cargo.mkdir(parents=True, exist_ok=True)
    return {cargo: CARGO_HOME}


def files() -> dict[Path | str, str]:
    """Host files a root needs, all of them read-only: certificates, name resolution, registry settings."""
    home = Path.home()
    wanted = {
        CA_BUNDLE: str(CA_BUNDLE),
        Path("/etc/resolv.conf"): "/etc/resolv.conf",
        Path("/etc/hosts"): "/etc/hosts",
        Path("/etc/pip.conf"): "/etc/pip.conf",
        **{home / name: f"{HOME}/{name}" for name in (".config/pip/pip.conf", ".cargo/config.toml")},
    }
    for variable in PATH_VARIABLES:
        value = os.environ.get(variable, "")
        if value.startswith("/"):
            wanted[Path(value)] = value
    return {path.resolve(): target for path, target in wanted.items() if path.exists()}

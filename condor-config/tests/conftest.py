# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent
ROLES = {
    "execute": ("common", "execute"),
    "access": ("common", "access"),
    "manager": ("common", "manager"),
    "single": ("common", "execute", "access", "manager", "single"),
}


@dataclass(frozen=True)
class Installed:
    """HTCondor configured with the fragments of a role, below a directory of its own."""

    directory: Path

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"CONDOR_CONFIG": str(self.directory / "condor_config")}

    def run(self, *command: str, check: bool = True, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=check, timeout=timeout
        )

    def value(self, knob: str) -> str:
        """As the daemons see it: all macros expanded."""
        return self.run("condor_config_val", knob).stdout.strip()


def install(directory: Path, role: str, last: str = "") -> Installed:
    """`last` comes after all fragments, where a site's own file would be."""
    fragments = directory / "config.d"
    fragments.mkdir(parents=True)
    # The package's own security setting comes first on Debian, and must not be needed.
    for folder in ROLES[role]:
        for source in (TOP / folder).glob("*.config"):
            (fragments / source.name).write_text(source.read_text())
    (fragments / "99-test.config").write_text(last)
    (directory / "condor_config").write_text(
        f"include : /etc/condor/condor_config\nLOCAL_CONFIG_DIR = {fragments}\nLOCAL_CONFIG_FILE =\n"
    )
    return Installed(directory)


@pytest.fixture(params=ROLES)
def role(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def installed(role: str, tmp_path: Path) -> Installed:
    return install(tmp_path, role)

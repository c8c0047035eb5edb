# SPDX-License-Identifier: Apache-2.0
"""What HTCondor itself understands of the fragments, per role, against golden files. `make golden` rewrites them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from conftest import ROLES, TOP, Installed

GOLDEN = Path(__file__).parent / "golden"
# Knobs of which the expanded value matters: what daemons act on is not what stands in one file.
EXPANDED = ("DAEMON_LIST", "START", "PREEMPT", "WANT_VACATE", "KILL", "MAXJOBRETIREMENTTIME", "ALLOW_ADMINISTRATOR")


def understood(installed: Installed) -> str:
    """condor_config_val's summary of our files, then the expanded knobs."""
    summary = installed.run("condor_config_val", "-summary").stdout
    parts = re.split(r"^#\n# from (.*)\n#\n", summary, flags=re.MULTILINE)
    ours = [
        f"## {Path(name).name}\n{text.strip()}\n"
        for name, text in zip(parts[1::2], parts[2::2], strict=True)
        if str(installed.directory) in name and not name.endswith("/condor_config")
    ]
    expanded = [f"{knob} = {installed.value(knob)}" for knob in EXPANDED if _defined(installed, knob)]
    return "\n".join([*ours, "## expanded", *expanded]) + "\n"


def _defined(installed: Installed, knob: str) -> bool:
    return installed.run("condor_config_val", knob, check=False).returncode == 0


def test_role_is_understood_as_before(installed: Installed, role: str) -> None:
    golden = GOLDEN / f"{role}.txt"
    if os.environ.get("GOLDEN_WRITE"):
        golden.write_text(understood(installed))
    assert understood(installed) == golden.read_text()


def test_condor_check_config_finds_nothing(installed: Installed) -> None:
    result = installed.run("condor_check_config", check=False)
    assert (result.returncode, result.stdout.strip() + result.stderr.strip()) == (0, "")


def test_daemons_of_each_role(installed: Installed, role: str) -> None:
    daemons = {
        "execute": {"MASTER", "STARTD"},
        "access": {"MASTER", "SCHEDD"},
        "manager": {"MASTER", "COLLECTOR", "NEGOTIATOR"},
    }
    daemons["single"] = set().union(*daemons.values())
    assert set(installed.value("DAEMON_LIST").split()) == daemons[role]


FRAGMENTS = sorted(path for folders in ROLES.values() for path in {p for f in folders for p in (TOP / f).glob("*")})


@pytest.mark.parametrize("fragment", sorted(set(FRAGMENTS)), ids=lambda path: path.name)
def test_fragment_keeps_the_house_rules(fragment: Path) -> None:
    assert re.fullmatch(r"(10|15|20|25|30|50|60|90)-beer-[a-z]+\.config", fragment.name)
    lines = fragment.read_text().splitlines()
    assert lines[0] == "# SPDX-License-Identifier: Apache-2.0"
    header = "\n".join(lines[1:8])
    assert all(f"# {word}" in header for word in ("Purpose: ", "Daemons: ", "Knobs: "))
    # HTCondor has no trailing comments: the text would become part of the value.
    assert [line for line in lines if re.search(r"\S\s+#", line) and not line.startswith("#")] == []


def test_every_golden_file_has_its_role() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(ROLES)

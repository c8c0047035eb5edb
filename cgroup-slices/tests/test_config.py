# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from dataclasses import fields

import pytest
from beerslices.config import KEYS, Config, ConfigError, parse
from conftest import TOP

SHIPPED = (TOP / "slices.toml").read_text()


def test_the_shipped_file_is_the_default_policy() -> None:
    assert parse(SHIPPED, "slices.toml") == Config()


def test_the_shipped_file_shows_every_key_with_its_default() -> None:
    section, shown = "", {}
    for line in SHIPPED.splitlines():
        if match := re.fullmatch(r"\[(\w+)\]", line):
            section = match[1]
        elif match := re.fullmatch(r'#(\w+) = "(.*)"', line):
            shown[f"{section}.{match[1]}"] = match[2]
    assert shown.keys() == KEYS.keys()
    defaults = {path: getattr(Config(), field) for path, (field, _) in KEYS.items()}
    # The only key without a default is shown with the seed's value.
    assert shown | {"cpu.allowed": ""} == defaults
    assert {field for field, _ in KEYS.values()} == {field.name for field in fields(Config)}


def test_the_shipped_file_parses_with_everything_switched_on() -> None:
    text = re.sub(r'^#(\w+ = ")', r"\1", SHIPPED, flags=re.MULTILINE)
    with pytest.raises(ConfigError, match=r"cpu\.reserved: cpu\.allowed says the same"):
        parse(text, "x")
    assert parse(text.replace("reserved", "#reserved", 1), "x").cpu_allowed == "2-7,10-15,18-23,26-31"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[cpu]\nreservd = '25%'", r"f\.toml: cpu\.reservd: unknown; known are cpu\.reserved, cpu\.allowed"),
        ("[cpus]\nreserved = '25%'", r"f\.toml: cpus: unknown; sections are control, cpu, memory, offer"),
        ("memory = 3", r"f\.toml: memory: unknown"),
        ("[cpu]\nreserved = 4", r"f\.toml: cpu\.reserved: 4 is not a number of cores or a share with its unit"),
        ("[cpu]\nreserved = '2.5 cores'", r"cpu\.reserved: .* is not a whole number of cores"),
        ("[cpu]\nreserved = '120%'", r"cpu\.reserved: .* share up to 100%"),
        ("[cpu]\nallowed = '7-2'", r"cpu\.allowed: .* is not a list of CPUs like '2-7,10-15'"),
        ("[cpu]\nallowed = ''", r"cpu\.allowed: '' is not a list of CPUs"),
        ("[memory]\nreserved = 16", r"memory\.reserved: 16 is not a size or a share with its unit"),
        ("[memory]\nreserved = '16'", r"memory\.reserved: '16' is not a size or a share with its unit"),
        ("[memory]\nreserved = '16G'", r"memory\.reserved: .* units are %, B, kB"),
        ("[memory]\ncontrol_per_cpu = '3%'", r"memory\.control_per_cpu: '3%' is not a size"),
        ("[offer]\nmemory = '0%'", r"offer\.memory: .* share above 0%"),
        ("[offer]\nmemory = '101%'", r"offer\.memory: .* up to 100%"),
        ("[control]\nread = '100MB'", r"control\.read: .* write it like '100MB/s', or 'unlimited'"),
        ("[control]\nread = '0MB/s'", r"control\.read: .* is not a bandwidth"),
        ("[cpu\n", r"f\.toml: "),
    ],
)
def test_what_is_wrong_is_refused_with_its_path(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(text, "f.toml")

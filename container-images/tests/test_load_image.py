# SPDX-License-Identifier: Apache-2.0
"""node/beer-load-image against a docker command that keeps one image id in a file."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "node/beer-load-image"
WANTED = "sha256:11"
DOCKER = """#!/bin/sh
echo "$1" >> "$STATE/calls"
case $1 in
    image) cat "$STATE/current" 2>/dev/null || { echo "No such image: $5" >&2; exit 1; } ;;
    load) [ "$3" = --input ] && cp "$STATE/loads" "$STATE/current" ;;
esac
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/docker").write_text(DOCKER)
    (tmp_path / "bin/docker").chmod(0o755)
    (tmp_path / "image.tar").touch()
    (tmp_path / "image.id").write_text(WANTED + "\n")
    (tmp_path / "loads").write_text(WANTED + "\n")
    return tmp_path


def load(state: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{state / 'bin'}:{os.environ['PATH']}", "STATE": str(state)}
    return subprocess.run(["sh", SCRIPT, *arguments], capture_output=True, text=True, check=False, env=environment)


def calls(state: Path) -> list[str]:
    return (state / "calls").read_text().split()


def test_a_missing_image_is_loaded(state: Path):
    assert load(state, str(state / "image.tar"), "name:tag").returncode == 0
    assert calls(state) == ["image", "load", "image"]


def test_another_image_under_the_tag_is_replaced(state: Path):
    (state / "current").write_text("sha256:22\n")
    assert load(state, str(state / "image.tar"), "name:tag").returncode == 0
    assert "load" in calls(state)


def test_the_image_that_is_there_is_not_loaded_again(state: Path):
    (state / "current").write_text(WANTED + "\n")
    assert load(state, str(state / "image.tar"), "name:tag").returncode == 0
    assert calls(state) == ["image"]


def test_an_archive_with_another_image_is_an_error(state: Path):
    (state / "loads").write_text("sha256:33\n")
    result = load(state, str(state / "image.tar"), "name:tag")
    assert result.returncode == 1
    assert "expected sha256:11" in result.stderr


def test_a_missing_id_file_is_an_error(state: Path):
    (state / "image.id").unlink()
    assert load(state, str(state / "image.tar"), "name:tag").returncode != 0


def test_a_wrong_call_says_how(state: Path):
    result = load(state, "image.tar")
    assert result.returncode == 2
    assert "usage" in result.stderr

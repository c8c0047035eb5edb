# SPDX-License-Identifier: Apache-2.0
"""The lists in job/ and the steps that read them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from jobimage import debs, rootfs

JOB = Path(__file__).resolve().parent.parent / "job"


def test_package_list_is_parsed():
    packages = debs.PackageList.parse("# a comment\nbash\n\n-tar\npython3\n")
    assert packages == debs.PackageList(("bash", "python3"), frozenset({"tar"}))


def test_two_names_on_a_line_are_refused():
    with pytest.raises(debs.PackageError, match="'bash tar'"):
        debs.PackageList.parse("bash tar\n")


def test_leaving_out_what_nothing_depends_on_is_refused(tmp_path: Path):
    with pytest.raises(debs.PackageError, match="nothing depends on: tar"):
        debs.unpack([], debs.PackageList((), frozenset({"tar"})), tmp_path)


def test_our_package_list_is_sorted_and_has_no_duplicates():
    wanted = debs.PackageList.parse((JOB / "packages.txt").read_text()).wanted
    assert list(wanted) == sorted(set(wanted))


def test_each_wheel_that_we_ask_for_is_pinned_at_that_version():
    wanted = set(rootfs.patterns((JOB / "requirements.in").read_text()))
    pinned = {line.split()[0] for line in rootfs.patterns((JOB / "requirements.txt").read_text())}
    assert wanted <= pinned


def test_each_pinned_wheel_has_a_hash():
    for line in rootfs.patterns((JOB / "requirements.txt").read_text()):
        assert re.fullmatch(r"[a-z0-9.-]+==\S+ --hash=sha256:[0-9a-f]{64}", line)


def test_removal_takes_files_links_and_folders(tmp_path: Path):
    for name in ("a/tests/one", "b/tests/two", "keep/file"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("keep")
    rootfs.remove(tmp_path, "**/tests\nlink\n")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "file", "keep"]


def test_a_pattern_that_matches_nothing_is_refused(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(rootfs.RootError, match="gone"):
        rootfs.remove(tmp_path, "file\ngone\n")
    assert (tmp_path / "file").exists()


def test_another_python_in_the_image_is_refused(tmp_path: Path):
    with pytest.raises(rootfs.RootError, match="no usr/lib/python"):
        rootfs.require_python(tmp_path)


def test_inventory_names_packages_and_wheels(tmp_path: Path):
    rootfs.write_inventory(tmp_path, [("bash", "5.2")], "# pinned\nnumpy==2.5.5 --hash=sha256:00\n")
    assert (tmp_path / "usr/share/beer/inventory").read_text() == "deb bash 5.2\nwheel numpy 2.5.5\n"

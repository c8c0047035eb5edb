# SPDX-License-Identifier: Apache-2.0
import struct

import pytest
from beerlab import loadfiles
from beerlab.errors import LabError
from beerlab.process import run


def leaf(*lengths, magic=loadfiles.EXTENT_MAGIC, depth=0):
    header = struct.pack("<HHHHI", magic, len(lengths), 340, depth, 0)
    extents = b"".join(struct.pack("<IHHI", 0, length, 0, 7) for length in lengths)
    return (header + extents).ljust(loadfiles.BLOCK, b"\0")


def test_only_the_flag_of_unwritten_extents_changes():
    assert loadfiles.mark_written(leaf(32768 + 5, 32768, 32767, 1)) == leaf(5, 32768, 32767, 1)


@pytest.mark.parametrize("wrong", [{"magic": 0}, {"depth": 1}])
def test_no_other_block_is_touched(wrong):
    with pytest.raises(LabError, match="no extent leaf block"):
        loadfiles.mark_written(leaf(1, **wrong))


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "disk.img"
    with path.open("wb") as handle:
        handle.truncate(3 << 30)
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "big").touch()
    run(["mke2fs", "-q", "-t", "ext4", "-O", "^metadata_csum", "-d", tree, path])
    return path


def test_a_load_file_counts_as_written_and_the_file_system_is_whole(image):
    loadfiles.fill(image, ["/big"], 1 << 30)
    loadfiles.verify(image, "/big", 1 << 30)
    run(["e2fsck", "-fn", image])
    assert image.stat().st_blocks * 512 < 200 << 20


def test_unwritten_extents_do_not_pass(image):
    run(["debugfs", "-w", "-R", "fallocate /big 0 262143", image])
    with pytest.raises(LabError, match="Uninit"):
        loadfiles.verify(image, "/big", 1 << 30)


def test_a_full_disk_does_not_pass(image):
    with pytest.raises(LabError, match="/big has"):
        loadfiles.fill(image, ["/big"], 4 << 30)

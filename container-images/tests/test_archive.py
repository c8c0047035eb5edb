# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

import pytest
from jobimage import archive

MTIME = 1_700_000_000
CONFIG = archive.ImageConfig(tag="name:tag", environment={"B": "2", "A": "1"}, working_dir="/w", labels={"l": "v"})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small root with each kind of entry that an image has."""
    top = tmp_path / "root"
    (top / "usr/bin").mkdir(parents=True)
    (top / "usr/bin/tool").write_bytes(b"tool")
    (top / "usr/bin/tool").chmod(0o4755)
    (top / "usr/empty").write_bytes(b"")
    (top / "bin").symlink_to("usr/bin")
    (top / "tmp").mkdir()
    (top / "tmp").chmod(0o1777)
    long = top / "usr" / ("d" * 90) / ("f" * 90)
    long.parent.mkdir()
    long.write_bytes(b"long name")
    return top


def read(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {info.name: tar.extractfile(info).read() for info in tar if info.isreg()}


def layer_of(path: Path) -> tarfile.TarFile:
    files = read(path)
    manifest = json.loads(files["manifest.json"])
    return tarfile.open(fileobj=io.BytesIO(files[manifest[0]["Layers"][0]]))


def test_ids_are_the_hashes_of_what_they_name(root: Path, tmp_path: Path):
    image = archive.write_archive(root, tmp_path / "image.tar", CONFIG, MTIME)
    files = read(tmp_path / "image.tar")
    (entry,) = json.loads(files["manifest.json"])
    config = files[entry["Config"]]
    assert image == f"sha256:{hashlib.sha256(config).hexdigest()}"
    assert entry["Config"] == f"{image.removeprefix('sha256:')}.json"
    assert entry["RepoTags"] == ["name:tag"]
    (layer,) = (files[name] for name in entry["Layers"])
    assert json.loads(config)["rootfs"] == {
        "type": "layers",
        "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"],
    }


def test_configuration_says_how_to_run(root: Path, tmp_path: Path):
    archive.write_archive(root, tmp_path / "image.tar", CONFIG, MTIME)
    files = read(tmp_path / "image.tar")
    config = json.loads(files[json.loads(files["manifest.json"])[0]["Config"]])
    assert config["config"] == {"Env": ["A=1", "B=2"], "Cmd": ["/bin/sh"], "WorkingDir": "/w", "Labels": {"l": "v"}}
    assert (config["architecture"], config["os"], config["created"]) == ("amd64", "linux", "2023-11-14T22:13:20Z")


def test_layer_holds_everything_once(root: Path, tmp_path: Path):
    archive.write_archive(root, tmp_path / "image.tar", CONFIG, MTIME)
    names = layer_of(tmp_path / "image.tar").getnames()
    assert sorted(names) == sorted(path.relative_to(root).as_posix() for path in root.rglob("*"))
    assert len(names) == len(set(names))


def test_folders_come_before_their_content(root: Path, tmp_path: Path):
    archive.write_archive(root, tmp_path / "image.tar", CONFIG, MTIME)
    seen = {"."}
    for info in layer_of(tmp_path / "image.tar"):
        assert str(Path(info.name).parent) in seen
        seen.add(info.name)


def test_owner_is_root_and_set_id_bits_are_gone(root: Path, tmp_path: Path):
    archive.write_archive(root, tmp_path / "image.tar", CONFIG, MTIME)
    members = {info.name: info for info in layer_of(tmp_path / "image.tar")}
    assert {(info.uid, info.gid, info.uname, info.mtime) for info in members.values()} == {(0, 0, "", MTIME)}
    assert members["usr/bin/tool"].mode == 0o755
    assert members["tmp"].mode == 0o1777


def test_a_link_to_a_folder_stays_a_link(root: Path, tmp_path: Path):
    archive.write_archive(root, tmp_path / "image.tar", CONFIG, MTIME)
    link = {info.name: info for info in layer_of(tmp_path / "image.tar")}["bin"]
    assert link.issym()
    assert link.linkname == "usr/bin"


def test_content_survives(root: Path, tmp_path: Path):
    archive.write_archive(root, tmp_path / "image.tar", CONFIG, MTIME)
    layer = layer_of(tmp_path / "image.tar")
    assert layer.extractfile("usr/bin/tool").read() == b"tool"
    assert layer.extractfile(f"usr/{'d' * 90}/{'f' * 90}").read() == b"long name"


def test_same_content_gives_the_same_bytes(root: Path, tmp_path: Path):
    archive.write_archive(root, tmp_path / "one.tar", CONFIG, MTIME)
    for path in root.rglob("*"):
        os.utime(path, (1, 1), follow_symlinks=False)
    archive.write_archive(root, tmp_path / "two.tar", CONFIG, MTIME)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()


def test_one_changed_byte_gives_another_id(root: Path, tmp_path: Path):
    before = archive.write_archive(root, tmp_path / "image.tar", CONFIG, MTIME)
    (root / "usr/empty").write_bytes(b"x")
    assert archive.write_archive(root, tmp_path / "image.tar", CONFIG, MTIME) != before


def test_a_fifo_is_refused_and_nothing_is_left(root: Path, tmp_path: Path):
    os.mkfifo(root / "usr/fifo")
    with pytest.raises(archive.ArchiveError, match="usr/fifo"):
        archive.write_archive(root, tmp_path / "image.tar", CONFIG, MTIME)
    assert not list(tmp_path.glob("image.tar*"))

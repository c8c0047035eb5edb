# SPDX-License-Identifier: Apache-2.0
"""Writes a folder as a docker archive (`docker load`, `podman load`): one layer, one image, one tag.

Format: the layer is a tar file; its sha256 is the `diff_id` in the configuration; the sha256 of the configuration is
the image id; `manifest.json` names both and the tag (moby image/spec/v1.2). The layer is not compressed: unpacking is
then all that `docker load` has to do. The same folder gives the same bytes: sorted names, one fixed time, owner root.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path


class ArchiveError(Exception):
    """Something in the folder cannot be part of an image."""


@dataclass(frozen=True)
class ImageConfig:
    """What `docker inspect` shows under Config."""

    tag: str
    environment: dict[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ("/bin/sh",)
    working_dir: str = "/"
    labels: dict[str, str] = field(default_factory=dict)


class HashingWriter:
    """A file that is hashed while tarfile writes it as a stream."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self._digest.update(data)
        return self._file.write(data)

    def close(self) -> str:
        """Returns the sha256 of all that was written."""
        self._file.close()
        return self._digest.hexdigest()


def entries(root: Path) -> Iterator[Path]:
    """Everything below root, folders before their content, in an order that depends on the names alone."""
    for folder, folders, files in os.walk(root):
        folders.sort()
        links = [name for name in folders if Path(folder, name).is_symlink()]
        for name in sorted([*files, *folders]):
            yield Path(folder, name)
        for name in links:
            folders.remove(name)


def member(root: Path, path: Path, mtime: int) -> tarfile.TarInfo:
    """The tar header of one path. Owner root, no set-id bits: a job container needs neither."""
    status = path.lstat()
    info = tarfile.TarInfo(path.relative_to(root).as_posix())
    info.mtime = mtime
    info.mode = status.st_mode & 0o1777
    if stat.S_ISREG(status.st_mode):
        info.size = status.st_size
    elif stat.S_ISDIR(status.st_mode):
        info.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(status.st_mode):
        info.type = tarfile.SYMTYPE
        info.linkname = str(path.readlink())
        info.mode = 0o777
    else:
        raise ArchiveError(f"{path}: neither file, folder nor symbolic link")
    return info


def write_layer(root: Path, target: Path, mtime: int) -> str:
    """Writes the folder as an uncompressed tar file; returns its sha256, which is the layer's diff_id."""
    out = HashingWriter(target)
    try:
        with tarfile.open(fileobj=out, mode="w|", format=tarfile.GNU_FORMAT) as tar:
            for path in entries(root):
                info = member(root, path, mtime)
                if info.isreg():
                    with path.open("rb") as content:
                        tar.addfile(info, content)
                else:
                    tar.addfile(info)
    finally:
        digest = out.close()
    return digest


def configuration(config: ImageConfig, diff_id: str, mtime: int) -> bytes:
    """The image configuration. Its sha256 is the image id, so it holds nothing that changes from build to build."""
    created = datetime.fromtimestamp(mtime, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    document = {
        "architecture": "amd64",
        "os": "linux",
        "created": created,
        "config": {
            "Env": [f"{name}={value}" for name, value in sorted(config.environment.items())],
            "Cmd": list(config.command),
            "WorkingDir": config.working_dir,
            "Labels": dict(sorted(config.labels.items())),
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{diff_id}"]},
        "history": [{"created": created, "created_by": "beer jobimage"}],
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def write_archive(root: Path, target: Path, config: ImageConfig, mtime: int) -> str:
    """Writes the docker archive; returns the image id (`sha256:...`)."""
    layer = target.with_name(target.name + ".layer")
    try:
        diff_id = write_layer(root, layer, mtime)
        document = configuration(config, diff_id, mtime)
        image = hashlib.sha256(document).hexdigest()
        manifest = [{"Config": f"{image}.json", "RepoTags": [config.tag], "Layers": [f"{diff_id}/layer.tar"]}]
        with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as tar:
            add_bytes(tar, f"{image}.json", document, mtime)
            add_bytes(tar, "manifest.json", json.dumps(manifest).encode(), mtime)
            info = tarfile.TarInfo(f"{diff_id}/layer.tar")
            info.size, info.mtime, info.mode = layer.stat().st_size, mtime, 0o644
            with layer.open("rb") as content:
                tar.addfile(info, content)
    finally:
        layer.unlink(missing_ok=True)
    return f"sha256:{image}"


def add_bytes(tar: tarfile.TarFile, name: str, data: bytes, mtime: int) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = len(data), mtime, 0o644
    tar.addfile(info, io.BytesIO(data))

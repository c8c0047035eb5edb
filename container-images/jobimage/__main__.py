# SPDX-License-Identifier: Apache-2.0
"""python3 -m jobimage build|pin: see ../README.md."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from jobimage import archive, debs, rootfs, wheels

TAG = "beer-job:latest"
SOURCE = Path(__file__).resolve().parent.parent / "job"
# 2025-08-09, the release of Debian 13: any fixed time will do, and dpkg-buildpackage sets a better one.
DEFAULT_EPOCH = 1754697600


def image_config() -> archive.ImageConfig:
    return archive.ImageConfig(
        tag=TAG,
        environment={
            "PATH": "/usr/local/bin:/usr/bin",
            "LANG": "C.UTF-8",
            # A slot has the cores that HTCondor gave it; libraries that start a thread per core of the node hurt both.
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHIA8DATA": f"/{rootfs.SITE}/share/Pythia8/xmldoc",
        },
        working_dir="/tmp",  # noqa: S108 - a path inside the image; HTCondor sets the job's own
        labels={"org.beer.image": "job"},
    )


def build(target: Path, root: Path | None) -> None:
    """Writes TARGET (the docker archive) and TARGET with suffix .id (the image id)."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="jobimage-") as name:
        workdir = Path(name)
        tree = root or workdir / "root"
        if tree.exists():
            shutil.rmtree(tree)
        rootfs.build(SOURCE, tree, workdir / "apt")
        files, content = rootfs.size(tree)
        epoch = int(os.environ.get("SOURCE_DATE_EPOCH", DEFAULT_EPOCH))
        image = archive.write_archive(tree, target, image_config(), epoch)
    target.with_suffix(".id").write_text(image + "\n")
    print(f"{target}: {image}, {files} files, {content / 1e6:.0f} MB unpacked")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="jobimage", description="Builds the job image.")
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("build", help="make the docker archive")
    make.add_argument("target", type=Path, help="the .tar to write")
    make.add_argument("--root", type=Path, help="keep the unpacked root filesystem here (replaced when it exists)")
    commands.add_parser("pin", help="write requirements.txt from requirements.in")
    arguments = parser.parse_args(argv)
    try:
        if arguments.command == "build":
            build(arguments.target, arguments.root)
        else:
            with tempfile.TemporaryDirectory(prefix="jobimage-") as name:
                wheels.pin(SOURCE / "requirements.in", SOURCE / "requirements.txt", Path(name))
    except (archive.ArchiveError, debs.PackageError, rootfs.RootError, wheels.WheelError, OSError) as error:
        print(f"jobimage: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

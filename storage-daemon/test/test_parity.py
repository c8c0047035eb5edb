# SPDX-License-Identifier: Apache-2.0
"""Everything that works without the plug-in works with it, unchanged, and fails in the same way."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from bench import OPEN_HOUSE, WITHOUT
from everything import MANY
from server import TOP, Server

EVERYTHING = Path(__file__).with_name("everything.py")
POLICIES = ("buffered", "direct", "sync", "csync")
# The second disk is one of 1 MiB.
FULL = ("unshare", "--mount", "sh", "-ec", 'mount -t tmpfs -o size=1m,mode=0777 tmpfs "$1"; shift; exec "$@"', "sh")


def outcome(server: Server) -> list[list[object]]:
    """What a client is told by a server that starts now."""
    store = server.data / "01/store"
    # Reading address 0 of a process is an I/O error (proc(5)), as of a broken disk.
    (store / "broken").symlink_to("/proc/self/mem")
    server.prefix = (*FULL, str(server.data / "02"))
    server.start()
    said = server.run(
        sys.executable, EVERYTHING, f"127.0.0.1:{server.port}", server.path("01/store"), server.path("02")
    )
    if server.segment_file.exists():
        segment = server.segment()
        assert segment["header"]["internal_errors"] == 0
        assert [one["open_readers"] + one["open_writers"] for one in segment["filesystems"]] == [0, 0]
        for kind in ("read", "write", "open", "meta", "sync"):
            seen = {one["filesystem"] for one in segment["series"] if one["name"] == f"{kind}.storage"}
            assert 0 in seen, f"no {kind} was measured"
        assert 1 in {one["filesystem"] for one in segment["series"] if one["name"] == "write.storage"}
    server.stop()
    return list(json.loads(said.stdout))


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> list[list[object]]:
    folder = tmp_path_factory.mktemp("bare")
    for parent in (folder, *folder.parents[:2]):
        parent.chmod(0o755)
    server = Server(folder / "server")
    (server.data / "01/store/file").write_bytes(content)
    shutil.chown(server.data / "01/store/file", "xrootd", "xrootd")
    server.write_config(WITHOUT)
    try:
        return outcome(server)
    finally:
        server.stop(9)


def test_the_comparison_sees_success_and_failure(bare: list[list[object]]) -> None:
    found = {what: result for what, result in bare if isinstance(what, str)}
    assert str(found["read of a broken disk"]).startswith("error")
    assert str(found["stat of nothing"]).startswith("error")
    assert "error" in str(found["write without space"]) + str(found["close"])
    assert found["many files"] == [MANY] * 3
    assert found["stat of a file"] == 20_000_000


@pytest.mark.parametrize("policy", POLICIES)
def test_a_client_is_told_the_same(server: Server, bare: list[list[object]], policy: str) -> None:
    server.write_config(append=f"beer.policy space:* rw iotype {policy}\n")
    assert outcome(server) == bare


def test_third_party_copies(server: Server, content: bytes, tmp_path: Path) -> None:
    """The helper of `ofs.tpc` writes past every plug-in; the server it reads from sees it as any client."""
    folder = tmp_path / "second"
    for parent in (tmp_path, *tmp_path.parents[:2]):
        parent.chmod(0o755)
    target = Server(folder)
    server.write_config(OPEN_HOUSE, append="ofs.tpc ttl 60 60 pgm /usr/bin/xrdcp -f\n")
    target.write_config(OPEN_HOUSE, append="ofs.tpc ttl 60 60 pgm /usr/bin/xrdcp -f\n")
    server.start()
    target.start()
    try:
        with server.counting(read_storage_bytes=len(content)):
            server.run("xrdcp", "-s", "--tpc", "only", server.url("01/store/file"), target.url("01/store/copy"))
        assert (target.data / "01/store/copy").read_bytes() == content
    finally:
        target.stop(9)


def test_the_configuration_without_the_plugin_is_bare(tmp_path: Path) -> None:
    text = (TOP / "config" / "xrootd-beer.cfg").read_text()
    assert {line for line in WITHOUT if line in text} == set(WITHOUT), "else the comparison compares with itself"

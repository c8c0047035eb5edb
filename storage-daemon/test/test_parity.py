# SPDX-License-Identifier: Apache-2.0
"""Everything that works without the plug-in works with it, unchanged, and fails in the same way."""

import json
import sys
from pathlib import Path

import pytest
from bench import OPEN_HOUSE, WITHOUT
from conftest import server_with
from everything import MANY
from protocol import CheckpointedFile, ProtocolError
from server import TOP, Server, own_disk

EVERYTHING = Path(__file__).with_name("everything.py")
POLICIES = ("buffered", "direct", "sync", "csync")


def outcome(server: Server) -> list[list[object]]:
    """What a client is told by a server that starts now."""
    store = server.data / "01/store"
    # Reading address 0 of a process is an I/O error (proc(5)), as of a broken disk.
    (store / "broken").symlink_to("/proc/self/mem")
    server.prefix = own_disk(server.data / "02", "1m")
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
def bare(content: bytes) -> list[list[object]]:
    with server_with(content) as server:
        server.write_config(WITHOUT)
        return outcome(server)


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


def checkpoints(server: Server, content: bytes) -> list[object]:
    """What came of one checkpoint that is rolled back, one that is committed, and one that cannot be."""
    name = server.data / "01/store/file"
    found: list[object] = []
    with CheckpointedFile(server.port, str(name)) as file:
        for end in (file.roll_back, file.commit):
            file.begin()
            file.write(4000, b"checkpointed" * 1000)
            file.write_vector([(1_000_000, b"first"), (2_000_000, b"second" * 700)])
            file.truncate(19_000_000)
            found.append(file.most()[1] > 0)
            changed = name.read_bytes()
            assert (len(changed), changed[4000:4012]) == (19_000_000, b"checkpointed")
            end()
            found.append(name.read_bytes() == (content if end == file.roll_back else changed))
        with pytest.raises(ProtocolError) as refused:
            file.roll_back()
        found.append(refused.value.number)
        file.close()
    return found


@pytest.mark.parametrize("policy", POLICIES)
def test_checkpoints(server: Server, content: bytes, policy: str) -> None:
    enabled = "ofs.chkpnt enable\n"  # XRootD has none below /tmp unless it is told to
    name = server.data / "01/store/file"
    outcomes = []
    for replace, append in ((WITHOUT, ""), ({}, f"beer.policy space:* rw iotype {policy} bandwidth 500MB/s\n")):
        name.write_bytes(content)
        server.write_config(OPEN_HOUSE | replace, append=append + enabled)
        server.start()
        outcomes.append(checkpoints(server, content))
        server.stop()
    assert outcomes[0][:-1] == [True] * 4
    assert outcomes[1] == outcomes[0]


def test_third_party_copies(server: Server, other: Server, content: bytes) -> None:
    """The helper of `ofs.tpc` writes past every plug-in; the server it reads from sees it as any client."""
    server.write_config(OPEN_HOUSE, append="ofs.tpc ttl 60 60 pgm /usr/bin/env -u LD_PRELOAD xrdcp -f\n")
    other.write_config(OPEN_HOUSE, append="ofs.tpc ttl 60 60 pgm /usr/bin/env -u LD_PRELOAD xrdcp -f\n")
    server.start()
    other.start()
    with server.counting(read_storage_bytes=len(content)):
        server.run("xrdcp", "-s", "--tpc", "only", server.url("01/store/file"), other.url("01/store/copy"))
    assert (other.data / "01/store/copy").read_bytes() == content


def test_the_configuration_without_the_plugin_is_bare(tmp_path: Path) -> None:
    text = (TOP / "config" / "xrootd-beer.cfg").read_text()
    assert {line for line in WITHOUT if line in text} == set(WITHOUT), "else the comparison compares with itself"

# SPDX-License-Identifier: Apache-2.0
"""How the benchmarks talk to a node."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from beerbench import host
from beerbench.batch import Batch
from beerbench.clients import ClientError, Clients, Load, Storage
from beerbench.errors import BenchmarkError
from beerbench.guard import DROP_IN, JOBS, Guard
from beerbench.session import Session
from beerbench.timeline import clock
from beerbench.waiting import wait_until
from fakes import FakeNode, FakeRoot

LOAD = "/data/01/store/load/file-01 /data/01/store/load/file-02\n"


def test_a_session_knows_the_files_and_hides_the_key(tmp_path: Path) -> None:
    node = FakeNode([(r"ls -d /data/01", LOAD), (r"findmnt", "252:16\n")])
    session = Session(node, FakeRoot(), tmp_path, ["/data/01"])
    assert session.clients.storage.disks == [LOAD.split()]
    assert session.clients.storage.endpoint == "127.0.0.1:41094"
    assert session.device("/data/01") == "252:16"
    key = tmp_path / "storage.keytab"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    session.close()
    assert not key.exists()


def test_a_disk_without_files_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="no files to read in /data/02"):
        Session(FakeNode(), FakeRoot(), tmp_path, ["/data/02"])


def test_a_client_that_ends_at_once_is_not_ready(tmp_path: Path) -> None:
    run = Clients(FakeRoot(), Storage("nowhere:1094", []), tmp_path).start("open_loop", "dead", Load(duration=1))
    with pytest.raises(ClientError, match="ended, or is not ready after 5 s"):
        run.wait_ready(5)


@pytest.mark.skipif(shutil.which("fincore") is None, reason="needs fincore of util-linux")
def test_files_are_forgotten_by_the_page_cache(tmp_path: Path) -> None:
    node = FakeNode([(r"ls -d", LOAD)])
    session = Session(node, FakeRoot(), tmp_path / "out", ["/data/01"])
    files = [tmp_path / "one file", tmp_path / "other"]
    for file in files:
        with file.open("wb") as handle:
            handle.write(bytes(1 << 20))
            os.fsync(handle.fileno())

    def resident(file: Path) -> int:
        said = subprocess.run(["fincore", "-bnro", "RES", file], check=True, capture_output=True, text=True)
        return int(said.stdout)

    if subprocess.run(["stat", "-fc", "%T", tmp_path], check=True, capture_output=True, text=True).stdout == "tmpfs\n":
        pytest.skip("memory is all that a tmpfs has")
    assert all(resident(file) for file in files)
    session.forget([str(file) for file in files])
    subprocess.run(["bash", "-ec", node.commands[-1]], check=True)
    assert [resident(file) for file in files] == [0, 0]


def test_the_nodes_clock_is_found_within_its_error() -> None:
    found = clock.measure(FakeNode())
    assert found.offset == pytest.approx(0.5, abs=found.error + 0.001)
    assert found.error < 0.05


def test_jobs_go_to_the_queue_of_the_storage_nodes() -> None:
    node = FakeNode([(r"condor_submit", "17.0 - 17.0\n")])
    job = Batch(node).submit("burn --seconds 3")
    assert job.cluster == 17
    assert 'BeerQueue = "beer"' in node.inputs[0]
    assert "arguments = burn --seconds 3" in node.inputs[0]


def test_waiting_for_containers_ends_when_they_all_run() -> None:
    node = FakeNode(
        [(r"condor_submit", "17.0 - 17.0\n"), (r"docker ps", "HTCJob17_0_slot1_1_PID9 c0ffee\nother 1\n17 2\n")]
    )
    batch = Batch(node)
    assert batch.wait_for_containers([batch.submit("burn")], 5) == [f"{JOBS}/docker-c0ffee.scope"]


def test_a_held_job_ends_the_wait_with_its_reason() -> None:
    node = FakeNode(
        [
            (r"condor_submit", "17.0 - 17.0\n"),
            (r"docker ps", "17 5\n"),
            (r"HoldReason", "5 image not found\n"),
        ]
    )
    batch = Batch(node)
    with pytest.raises(BenchmarkError, match="image not found"):
        batch.wait_for_containers([batch.submit("burn")], 5)
    assert sum("docker ps" in command for command in node.commands) == 1


def test_a_report_is_the_last_line_of_the_output() -> None:
    node = FakeNode([(r"condor_submit", "17.0\n"), (r"cat /home/alice/bench.17.out", 'noise\n{"events": 5}\n')])
    batch = Batch(node)
    assert batch.submit("physics").report(5) == {"events": 5}


def test_the_guard_is_taken_away_without_a_substitute_and_comes_back() -> None:
    state = (r"cat /run/beer/guard/state", "state=open admit=1 heartbeat=1\n")
    node = FakeNode([state, (r"beer status --json", '{"state": "open"}')])
    guard = Guard(node)
    guard.take_away()
    assert "Restart=no" in node.commands[0]
    assert "ExecStopPost=" in node.commands[0]
    assert "stop beer-deadman.timer" in node.commands[1]
    guard.bring_back()
    assert "start beer-guard beer-deadman.timer" in node.commands[2]
    guard.wait_for_state("open", 1)
    guard.take_away()
    assert sum("daemon-reload" in command for command in node.commands) == 1
    guard.restore()
    assert f"rm {DROP_IN}" in node.commands[-1]
    guard.restore()
    assert sum("daemon-reload" in command for command in node.commands) == 2


def test_the_guard_is_asked() -> None:
    metrics = '# HELP beer_x_total Of x.\nbeer_x_total{kind="a"} 2\nbeer_x_total{kind="b"} 1.5\nbeer_x_total_2 7\n'
    record = {"time_ns": 5_000_000_000, "from": "open", "to": "frozen", "cause": "strong_evidence", "action": "freeze"}
    record |= {"outcome": "done", "duration_ns": 1}
    answers = [(r"metrics", metrics), (r"journal", json.dumps(record)), (r"cgroup.events", "populated 1\nfrozen 1\n")]
    guard = Guard(FakeNode(answers))
    assert guard.metric("beer_x_total") == 3.5
    with pytest.raises(BenchmarkError, match="no metric beer_y"):
        guard.metric("beer_y")
    assert guard.metric("beer_y", absent=0) == 0
    assert guard.metric("beer_x_total", absent=0) == 3.5
    assert [(one.action, one.time) for one in guard.decisions()] == [("freeze", 5.0)]
    assert guard.frozen()


def test_facts_of_a_node_come_with_one_command() -> None:
    node = FakeNode([(r"@@kernel", "@@kernel\n6.12\n@@cpus\n2\n@@packages\nbeer-guard 0.1.0\nbeer-slices 0.1.0\n")])
    facts = host.node_facts(node)
    assert (facts["kernel"], facts["cpus"]) == ("6.12", "2")
    assert facts["packages"] == ["beer-guard 0.1.0", "beer-slices 0.1.0"]
    assert len(node.commands) == 1


def test_a_wait_names_what_did_not_happen() -> None:
    with pytest.raises(BenchmarkError, match="pigs fly\nno wings"):
        wait_until(lambda: False, 0.05, "pigs fly", interval=0.01, explain=lambda: "no wings")

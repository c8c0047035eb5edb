# SPDX-License-Identifier: Apache-2.0
"""The plug-in never keeps the server from serving, except for a mistake in its configuration."""

import subprocess
from pathlib import Path

import pytest
from conftest import FILE_BYTES
from server import PATIENT, Server, own_disk, use_policy
from test_measuring import eventually


def serves(server: Server, content: bytes, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    server.run("xrdcp", server.url("01/store/file"), copy)
    assert copy.read_bytes() == content


def test_a_full_run_leaves_it_serving_without_measuring(server: Server, content: bytes, tmp_path: Path) -> None:
    server.prefix = own_disk(server.segment_file.parent, "64k")
    server.start()
    serves(server, content, tmp_path)
    warnings = [line for line in server.log().splitlines() if "WITHOUT MEASURING" in line]
    assert len(warnings) == 1
    assert "No space left on device" in warnings[0]
    assert not server.segment_file.exists()


def test_without_the_folder_of_the_segment_it_serves(server: Server, content: bytes, tmp_path: Path) -> None:
    server.segment_file.parent.rmdir()
    server.start()
    serves(server, content, tmp_path)
    assert "SERVING WITHOUT MEASURING: no latency segment: create" in server.log()


def test_a_missing_disk_does_not_stop_the_others(server: Server, content: bytes, tmp_path: Path) -> None:
    server.write_config({"beer.fs": f"beer.fs {server.data}/77 {server.data}/01"})
    server.start()
    assert f"not measured: {server.data}/77: No such file" in server.log()
    with server.counting(read_storage_bytes=FILE_BYTES):
        serves(server, content, tmp_path)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            "beer.bach 10.0.0.0/8",
            "beer.bach is unknown; there are beer.ban, beer.batch, beer.control, beer.fs, beer.info",
        ),
        ("beer.batch 10.0.0.1/8", "beer.batch '10.0.0.1/8' has bits set behind its prefix length"),
    ],
)
def test_a_mistake_in_the_configuration_is_refused_with_its_line(server: Server, line: str, reason: str) -> None:
    server.write_config(append=line + "\n")
    process = server.launch()
    assert process.wait(timeout=30) != 0
    number = len(server.config.read_text().splitlines())
    assert f"{server.config}:{number}: {reason}" in server.log()
    assert not server.segment_file.exists()


def test_without_the_sfs_half_it_warns_and_counts_as_storage(server: Server, content: bytes, tmp_path: Path) -> None:
    server.write_config({"xrootd.fslib": "# none"})
    server.start()
    assert "WARNING: no `xrootd.fslib ++ libXrdBeer.so`" in server.log()
    with server.counting(read_storage_bytes=FILE_BYTES, read_internal_bytes=0):
        serves(server, content, tmp_path)


def test_the_sfs_half_alone_is_refused(server: Server) -> None:
    server.write_config({"ofs.osslib": "# none"})
    assert server.launch().wait(timeout=30) != 0
    assert "the SFS half needs the OSS half" in server.log()


def test_xrootd_knows_the_plugin_for_its_own_version(running: Server) -> None:
    lines = [line for line in running.log().splitlines() if "XrdBeer" in line or "Beer" in line]
    assert any("Plugin loaded Beer v5.8" in line for line in lines)
    assert not [line for line in lines if "warning" in line.lower() or "unable" in line.lower()]


def test_the_server_stands_alone(running: Server) -> None:
    assert "cms" not in running.log().lower().replace("cmsd@", "")


def test_many_clients_while_limits_change(running: Server, batch_port: int, content: bytes, tmp_path: Path) -> None:
    """Under `make tsan` this is the load in which data races would show."""
    (tmp_path / "content").write_bytes(content)
    clients = []

    def limit(kilobytes: int) -> None:
        """For each transfer of storage, and ten times as much for batch together; returns when it is in force."""
        before = running.log().count("new policy from")
        running.control.limit(kilobytes * 10_000)
        use_policy(
            running,
            f"beer.policy user:storage rw bandwidth {kilobytes}kB/s\nbeer.share app:* rw iops {kilobytes}0/s\n",
        )
        assert eventually(lambda: running.log().count("new policy from") > before), running.log()

    def begin(user: str, *command: str | Path) -> None:
        words = [str(word) for word in command]
        env = running.client_env(user) | PATIENT
        clients.append(subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True))

    limit(100)  # 20 MB take longer than all that follows
    for number in range(4):
        begin("storage", "xrdcp", "-s", running.url("01/store/file"), tmp_path / f"storage-{number}")
        begin("batch", "xrdcp", "-s", running.url("01/store/file", port=batch_port), tmp_path / f"batch-{number}")
        begin("storage", "xrdcp", "-s", tmp_path / "content", running.url(f"02/store/new-{number}"))
        begin("storage", "xrdfs", f"127.0.0.1:{running.port}", "ls", "-l", running.path("01/store"))
    for kilobytes in (200, 300, 500_000):
        assert any(client.poll() is None for client in clients), "nobody is there to notice"
        limit(kilobytes)
    running.control.lift()
    for client in clients:
        assert client.wait(timeout=60) == 0, client.stderr and client.stderr.read()
    copies = [tmp_path / f"{who}-{number}" for who in ("storage", "batch") for number in range(4)]
    copies += [running.data / f"02/store/new-{number}" for number in range(4)]
    assert all(copy.read_bytes() == content for copy in copies)
    assert running.segment()["header"]["internal_errors"] == 0

    def still_open() -> list[int]:
        return [one["open_readers"] + one["open_writers"] for one in running.segment()["filesystems"]]

    assert eventually(lambda: still_open() == [0, 0]), still_open()

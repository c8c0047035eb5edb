# SPDX-License-Identifier: Apache-2.0
"""What a running server says of itself: on its socket, in XRootD's summary, and whether XrdOssStats says the same."""

import json
import re
import select
import signal
import socket
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

from conftest import FILE_BYTES
from info import ask
from server import Server, use_policy
from session import Session
from test_measuring import eventually
from test_shaping import MB, command


def streams(server: Server) -> list[dict[str, Any]]:
    return list(ask(server.info_socket, "streams")["streams"])


def test_open_files_are_listed_with_who_what_and_how_much(running: Server, batch_port: int, content: bytes) -> None:
    assert streams(running) == []
    url = running.url("01/store/file") + "?eos.app=scan"
    with (
        Session(url, running.client_env()) as one,
        Session(running.url("01/store/file", port=batch_port), running.client_env("batch")) as other,
    ):
        assert one.call("read", 0, MB) == [content[:MB]]
        assert one.call("vector_read", [(0, 1000), (MB, 1000)]) == [content[:1000], content[MB : MB + 1000]]
        assert other.call("read", 0, 4096) == [content[:4096]]
        assert eventually(lambda: len(streams(running)) == 2)
        first, second = streams(running)
        assert (first["user"], first["app"], first["class"], first["host"]) == (
            "storage",
            "scan",
            "storage",
            "127.0.0.1",
        )
        assert first["path"] == running.path("01/store/file")
        assert first["filesystem"] == str(running.data / "01")
        assert first["read"] == {"bytes": MB + 2000, "operations": 2}
        assert first["written"] == {"bytes": 0, "operations": 0}
        assert first["link"].endswith("@localhost") or "127.0.0.1" in first["link"]
        assert (second["user"], second["class"], second["host"]) == ("batch", "batch", "127.0.0.2")
        assert second["read"] == {"bytes": 4096, "operations": 1}
        assert first["waits"] == 0
        assert first["by"] is None
        assert 0 < first["age_ns"] < 60e9
    assert eventually(lambda: streams(running) == [])


def test_a_held_stream_says_by_which_rule_and_for_how_long(running: Server, batch_port: int, tmp_path: Path) -> None:
    url = running.url("01/store/file", port=batch_port)
    running.control.limit(2 * MB)
    with command(running, "xrdcp", "-s", "-f", url, tmp_path / "copy"):
        assert eventually(lambda: any(one["waits"] > 0 for one in streams(running)))
        running.control.limit(0)
        assert eventually(lambda: any((one["waits_for_ns"] or 0) > 2e8 for one in streams(running)))
        (one,) = streams(running)
        assert one["by"] == f"guard on {running.data}/01"
        assert one["requests_waiting"] >= 1
        policy = ask(running.info_socket, "policy")
        assert 0 < policy["guard"]["lease_left_ns"] <= 50e9
        assert [record["guard"]["bytes_per_s"] for record in policy["filesystems"]] == [0, 0]
        said = ask(running.info_socket, "stat")
        assert said["streams"]["requests_waiting"] >= 1
        assert said["connections_that_may_be_held"]["batch"]["used"] == 1
    running.control.lift()
    assert eventually(lambda: streams(running) == [])
    assert ask(running.info_socket, "policy")["guard"]["lease_left_ns"] == 0


def test_a_path_of_a_hostile_client_is_bounded_and_harmless(running: Server) -> None:
    name = "01/store/\x1b[2J\r\n" + "x" * 200
    (running.data / name).write_bytes(b"some")
    (running.data / name).chmod(0o644)
    path = running.path(name)
    doubled = path.replace("/store/", "/" + "./" * 700 + "store/")
    for wanted in (path, doubled):
        with Session(f"root://127.0.0.1:{running.port}/{wanted}", running.client_env()) as file:
            assert file.call("read", 0, 4) == [b"some"]
            (one,) = streams(running)
            assert len(one["path"]) <= 1024
            assert one["path"].startswith(str(running.data / "01"))
        assert eventually(lambda: streams(running) == [])
    with socket.socket(socket.AF_UNIX) as asker:
        asker.connect(str(running.info_socket))
        asker.sendall(b"streams\n")
        assert all(32 <= byte < 127 for byte in asker.makefile("rb").read().removesuffix(b"\n"))


def test_metadata_and_who_is_stalled(server: Server) -> None:
    server.write_config(append="beer.threads user:batch 50\n")
    use_policy(server, "beer.metarate user:storage Stat 1/s\n")
    server.start()
    commands = f"stat {server.path('01/store/file')}\n" * 8
    server.run("sh", "-c", f"printf '{commands}' | xrdfs 127.0.0.1:{server.port}")
    said = ask(server.info_socket, "stat")
    lines = {line["name"]: line for line in said["metadata"]}
    assert lines["Stat"]["total"] >= 8
    assert lines["Stat"]["hour"] == lines["Stat"]["total"]
    assert 0 < lines["Stat"]["mean_ns"] <= lines["Stat"]["max_ns"]
    assert lines["Stall::Stat"]["total"] > 0
    assert said["users"][0]["name"] == "storage"
    assert said["users"][0]["stalls"] == lines["Stall::Stat"]["total"]
    rules = ask(server.info_socket, "policy")
    assert rules["rules"] == ["beer.threads user:batch 50", "beer.metarate user:storage Stat 1/s"]
    assert rules["file"] == str(server.policy_file)
    use_policy(server, "beer.ban mallory\n")
    assert eventually(
        lambda: ask(server.info_socket, "policy")["rules"] == ["beer.threads user:batch 50", "beer.ban mallory"]
    )
    assert ask(server.info_socket, "policy")["version"] > rules["version"]


# The socket


def test_the_socket_is_for_user_and_group_and_survives_a_killed_server(running: Server) -> None:
    mode = running.info_socket.stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o660
    as_nobody = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "python3")
    script = Path(__file__).with_name("info.py")
    # The folder lets everybody in here, and scripts must be readable: so it is the socket that refuses.
    text = script.read_text()
    refused = subprocess.run(
        [*as_nobody, "-c", text, str(running.info_socket), "stat"], capture_output=True, text=True, check=False
    )
    assert "Permission" in refused.stderr, refused.stderr
    in_group = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--groups=xrootd", "python3")
    subprocess.run([*in_group, "-c", text, str(running.info_socket), "stat"], check=True, capture_output=True)
    running.info_socket.chmod(0o666)
    careless = subprocess.run(
        [*as_nobody, "-c", text, str(running.info_socket), "stat"], capture_output=True, check=False
    )
    assert careless.returncode != 0, "whoever changed the mode: nobody is not of the server's group"
    running.stop(signal.SIGKILL)
    running.start()
    assert ask(running.info_socket, "stat")["pid"] != 0
    assert stat.S_IMODE(running.info_socket.stat().st_mode) == 0o660


def test_silent_and_deaf_peers_stop_neither_the_server_nor_others(server: Server, tmp_path: Path) -> None:
    # The answer does not fit into what the kernel keeps for who does not read (net.core.wmem_default).
    rules = [f"beer.policy user:nobody-{number} rw bandwidth 50MB/s" for number in range(20_000)]
    use_policy(server, "\n".join(rules) + "\n")
    server.start()
    peers = [socket.socket(socket.AF_UNIX) for _ in range(40)]
    deaf = peers[0]
    try:
        for number, peer in enumerate(peers):
            peer.settimeout(20)
            peer.connect(str(server.info_socket))
            if peer is deaf:
                peer.sendall(b"policy\n")
            elif number % 2:
                peer.sendall(b"x" * 60)
        began = time.monotonic()
        server.run("xrdcp", "-s", server.url("01/store/file"), tmp_path / "copy")
        assert ask(server.info_socket, "stat")["kind"] == "stat"
        assert time.monotonic() - began < 15
        hung_up = select.poll()
        hung_up.register(deaf, 0)
        assert hung_up.poll(20_000), "who does not read is cut off"
        with deaf.makefile("rb") as answer:
            text = answer.read()
        assert text.startswith(b'{"format":1,"kind":"policy"')
        assert not text.endswith(b"\n"), "it was all there before it was cut off"
        assert ask(server.info_socket, "policy")["rules"] == rules
    finally:
        for peer in peers:
            peer.close()


def test_what_is_in_the_way_is_left_alone(server: Server, tmp_path: Path) -> None:
    server.info_socket.write_text("precious")
    server.start()
    assert server.info_socket.read_text() == "precious"
    assert "WARNING: `beer storage` cannot ask this server" in server.log()
    server.run("xrdcp", "-s", server.url("01/store/file"), tmp_path / "copy")


# XRootD's own statistics


def summary(server: Server) -> dict[str, int]:
    text = server.xrdfs("query", "stats", "p").stdout
    own = re.search(r'<stats id="beer">(.*?)</stats>', text)
    assert own, text
    assert '<stats id="oss"' in text[: own.start()], "what the lower layers say is still there"
    found: dict[str, int] = {}
    for name in ("storage", "batch", "internal"):
        part = re.search(f"<{name}>(.*?)</{name}>", own[1])
        assert part
        found |= {f"{name}.{key}": int(value) for key, value in re.findall(r"<(\w+)>(\d+)</\1>", part[1])}
    rest = re.sub(r"<(storage|batch|internal)>.*?</\1>", "", own[1])
    return found | {key: int(value) for key, value in re.findall(r"<(\w+)>(\d+)</\1>", rest)}


def test_the_summary_counts_by_class(running: Server, batch_port: int, tmp_path: Path) -> None:
    before = summary(running)
    running.run("xrdcp", "-s", running.url("01/store/file"), tmp_path / "copy")
    running.run("xrdcp", "-s", "-f", running.url("01/store/file", port=batch_port), tmp_path / "copy", user="batch")
    running.run("xrdcp", "-s", tmp_path / "copy", running.url("02/store/new"))
    with Session(running.url("01/store/file"), running.client_env()):
        after = summary(running)
    assert after["storage.read_bytes"] - before["storage.read_bytes"] == FILE_BYTES
    assert after["batch.read_bytes"] - before["batch.read_bytes"] == FILE_BYTES
    assert after["storage.write_bytes"] - before["storage.write_bytes"] == FILE_BYTES
    assert after["storage.read"] == running.count("read.storage")
    assert after["open"] == 1
    assert (after["waiting"], after["internal_errors"], after["storage.waits"]) == (0, 0, 0)


def test_xrdossstats_counts_the_same(server: Server, content: bytes, tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as collector:
        collector.bind(("127.0.0.1", 0))
        collector.settimeout(30)
        port = collector.getsockname()[1]
        # The later layer is the outer one: XrdOssStats sees what ours lets through to the disk.
        server.write_config(
            {"ofs.osslib": f"ofs.osslib ++ libXrdOssStats.so\nofs.osslib ++ {server.plugin}"},
            append=f"xrootd.mongstream oss use flush 1s send json dflthdr 127.0.0.1:{port}\n",
        )
        server.start()
        server.run("xrdcp", "-s", server.url("01/store/file"), tmp_path / "copy")
        server.run("xrdcp", "-s", tmp_path / "copy", server.url("02/store/new"))
        with Session(server.url("01/store/file"), server.client_env(), update=True) as file:
            for n in range(7):
                assert file.call("read", n * 4096, 4096) == [content[n * 4096 : (n + 1) * 4096]]
            file.call("vector_read", [(n * MB, 1000) for n in range(16)])
            file.call("write", "hello", 0, 5)
        server.xrdfs("stat", server.path("01/store/file"))
        classes = ("storage", "batch", "internal")
        ours = {name: sum(server.count(f"{name}.{who}") for who in classes) for name in ("read", "write", "open")}
        # XrdOssStats knows neither bytes, nor that making a file is work for the disk: here one is made.
        ours["open"] -= 1
        assert server.count("read.storage", "bytes") == FILE_BYTES + 7 * 4096 + 16 * 1000
        assert server.count("write.storage", "bytes") == FILE_BYTES + 5
        seen: list[dict[str, Any]] = []

        def theirs() -> dict[str, int]:
            for line in collector.recv(65536).decode().rstrip("\0").splitlines():
                record = json.loads(line)
                if record.get("event") == "oss_stats":
                    seen.append(record)
            return seen[-1] if seen else {}

        def same() -> bool:
            last = theirs()
            if not last:
                return False
            reads = last["reads"] + last["pgreads"] + last["readvs"]
            writes = last["writes"] + last["pgwrites"]
            return {"read": reads, "write": writes, "open": last["opens"]} == ours

        assert eventually(same), f"ours {ours}, theirs {seen[-1:]}"
        assert min(ours.values()) > 2

# SPDX-License-Identifier: Apache-2.0
"""The packet rules, tried with packets: this namespace is the server, another its container, a third the world."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import netns
import pytest
from conftest import TOP

SCRIPT = TOP / "network/beer-network"
CONTAINER, HOST, WORLD, BATCH = "10.127.0.2", "10.127.0.1", "192.0.2.9", "198.51.100.17"


def asked(config: Path) -> Path:
    return config.with_name("asked")


def told(config: Path) -> Path:
    return config.with_name("told")


def beer_network(verb: str, config: Path) -> subprocess.CompletedProcess[str]:
    files = {"CONF": config, "RULES": TOP / "network/beer.nft", "ASKED": asked(config), "TOLD": told(config)}
    environment = os.environ | {f"BEER_NETWORK_{name}": str(path) for name, path in files.items()}
    return subprocess.run([SCRIPT, verb], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "network.conf"
    path.write_text((TOP / "network/network.conf").read_text())
    return path


@dataclass(frozen=True)
class Net:
    container: netns.Space
    world: netns.Space


@pytest.fixture
def net() -> Iterator[Net]:
    assert netns.in_own_namespace(), "run by `make check`, which enters a network namespace of its own"
    with netns.space() as container, netns.space() as world:
        netns.sh(f"""
            ip link set lo up
            ip link add docker0 type veth peer name eth0 netns {container.pid}
            ip addr add {HOST}/24 dev docker0; ip -6 addr add fd00::1/64 dev docker0 nodad; ip link set docker0 up
            ip link add uplink type veth peer name eth0 netns {world.pid}
            ip addr add 192.0.2.1/24 dev uplink; ip link set uplink up
            echo 1 > /proc/sys/net/ipv4/ip_forward
        """)
        container.run(f"""
            ip addr add {CONTAINER}/24 dev eth0; ip -6 addr add fd00::2/64 dev eth0 nodad; ip link set eth0 up
            ip addr add 10.1.1.1/32 dev eth0
            ip route add default via {HOST}
        """)
        world.run(f"ip addr add {WORLD}/24 dev eth0; ip link set eth0 up; ip route add default via 192.0.2.1")
        yield Net(container, world)
        netns.sh("nft flush ruleset; ip link del docker0; ip link del uplink")


def test_a_job_reaches_the_storage_port_only(net: Net, config: Path) -> None:
    with netns.listening(1094, 22, 9100, 9618, 9721):
        # Without the rules everything is open: this test can fail.
        assert netns.connect(net.container, HOST, 9721)
        assert netns.connect(net.container, "fd00::1", 9721)
        result = beer_network("load", config)
        assert result.returncode == 0, result.stderr
        assert beer_network("check", config).returncode == 0
        assert netns.connect(net.container, HOST, 1094)
        # The server's other address is still this server.
        assert netns.connect(net.container, "192.0.2.1", 1094)
        for port in (22, 9100, 9618, 9721):
            assert not netns.connect(net.container, HOST, port)
            assert not netns.connect(net.container, "192.0.2.1", port)
            assert not netns.connect(net.container, "fd00::1", port)
        assert not netns.connect(net.container, "fd00::1", 1094)
        assert net.container.run(f"ping -c1 -W1 {HOST}", check=False).returncode != 0
        # Others are none of this table's business.
        assert netns.connect(net.world, "192.0.2.1", 22)


def test_a_job_cannot_pass_for_somebody_else(net: Net, config: Path) -> None:
    net.container.run(f"ip route replace {HOST}/32 dev eth0 src 10.1.1.1")
    netns.sh("ip route add 10.1.1.1/32 dev docker0")
    with netns.listening(1094):
        assert netns.connect(net.container, HOST, 1094)
        assert beer_network("load", config).returncode == 0
        assert not netns.connect(net.container, HOST, 1094)


def source_seen(net: Net) -> str:
    """The address from which the world sees a job's connection."""
    answers: list[str] = []
    program = (
        "import socket; s = socket.create_server(('', 1094)); print('up', flush=True); s.settimeout(5);"
        " print(s.accept()[1][0])"
    )
    command = ["nsenter", "-t", str(net.world.pid), "-n", "python3", "-ISc", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "up\n"
        client = threading.Thread(target=netns.connect, args=(net.container, WORLD, 1094))
        client.start()
        answers.append(server.stdout.readline().strip())
        client.join()
    return answers[0]


def test_what_leaves_the_node_carries_the_batch_address(net: Net, config: Path) -> None:
    # Docker's own rule, which must lose against ours and work without it.
    netns.sh(
        "nft add table ip nat; nft 'add chain ip nat POSTROUTING { type nat hook postrouting priority srcnat; }';"
        "nft add rule ip nat POSTROUTING ip saddr 10.127.0.0/24 oifname != docker0 masquerade"
    )
    assert beer_network("load", config).returncode == 0
    assert source_seen(net) == "192.0.2.1"
    with config.open("a") as file:
        file.write(f"batch_address = {BATCH}\n")
    assert beer_network("load", config).returncode == 0
    assert source_seen(net) == BATCH


SECONDS = 2.0


def received(of: netns.Space, at: netns.Space, address: str) -> int:
    """Bytes that `at` gets of what `of` sends as fast as it can, in the first two seconds."""
    receiver = f"""
import socket, time
listener = socket.create_server(("", 1094)); print("up", flush=True); listener.settimeout(5)
connection = listener.accept()[0]; connection.settimeout(0.1); total, end = 0, time.monotonic() + {SECONDS}
while time.monotonic() < end:
    try:
        total += len(connection.recv(1 << 16))
    except TimeoutError:
        pass
print(total)
"""
    sender = f"""
import socket
connection = socket.create_connection(("{address}", 1094), 5)
try:
    while True: connection.send(bytes(1 << 16))
except OSError:
    pass
"""
    enter = [["nsenter", "-t", str(space.pid), "-n", "python3", "-ISc"] for space in (at, of)]
    with subprocess.Popen([*enter[0], receiver], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "up\n"
        with subprocess.Popen([*enter[1], sender]) as client:
            total = int(server.stdout.readline())
            client.kill()
    return total


def test_all_jobs_together_get_no_more_than_the_limit(net: Net, config: Path) -> None:
    assert beer_network("load", config).returncode == 0
    # The world reaches the container's address by this server, which is its way out.
    ways = [(net.container, net.world, WORLD), (net.world, net.container, CONTAINER)]
    free = [received(*way) for way in ways]
    with config.open("a") as file:
        file.write("batch_limit = 16 Mbit\n")
    result = beer_network("load", config)
    assert result.returncode == 0, result.stderr
    # One second's worth passes at once.
    allowed = 16e6 / 8 * (SECONDS + 1)
    for unlimited, way in zip(free, ways, strict=True):
        # Without the limit it is many times as much: this test can fail.
        assert unlimited > 4 * allowed
        limited = received(*way)
        assert limited < 1.1 * allowed
        # Dropping is no way to stop somebody for good.
        assert limited > allowed / 4
    # What does not leave the server is not limited.
    here = netns.Space(os.getpid())
    assert received(net.container, here, "192.0.2.1") > 4 * allowed


def limits() -> list[str]:
    """Kilobytes per second, as the kernel has them."""
    return re.findall(r"limit rate over (\d+ \w+)/second", netns.sh("nft list chain inet beer limit_batch"))


def test_the_guard_s_limit_comes_and_goes_and_counts_if_it_is_less(net: Net, config: Path) -> None:
    with config.open("a") as file:
        file.write("batch_limit = 160 Mbit\n")
    assert beer_network("load", config).returncode == 0
    site = limits()
    assert len(site) == 2
    asked(config).write_text("16Mbit\n")
    assert beer_network("limit", config).returncode == 0
    less = limits()
    assert (len(less), told(config).read_text()) == (2, "16Mbit\n")
    assert less != site
    assert received(net.container, net.world, WORLD) < 1.1 * 16e6 / 8 * (SECONDS + 1)
    assert beer_network("load", config).returncode == 0
    assert limits() == less, "a reload must not give all of it back"
    asked(config).write_text("1Gbit\n")
    assert beer_network("limit", config).returncode == 0
    assert limits() == site
    asked(config).unlink()
    assert beer_network("limit", config).returncode == 0
    assert (limits(), told(config).read_text()) == (site, "\n")


@pytest.mark.parametrize(
    "text",
    ["16", "16Mbit; flush ruleset", "0Mbit", "-1Mbit", "x" * 100, "16Mbit\n16Mbit\n", r"16Mbit\cfoo", r"x\n16Mbit"],
)
def test_a_limit_that_is_none_is_refused_and_changes_nothing(net: Net, config: Path, text: str) -> None:
    asked(config).write_text("16Mbit\n")
    assert beer_network("load", config).returncode == 0
    before = limits()
    asked(config).write_text(text)
    result = beer_network("limit", config)
    assert result.returncode == 1
    assert str(asked(config)) in result.stderr
    assert limits() == before
    netns.sh("nft flush ruleset")
    result = beer_network("load", config)
    assert result.returncode == 0, "the host is isolated whatever the guard asks for"
    assert str(asked(config)) in result.stderr
    assert limits() == []


def test_a_limit_without_the_table_is_an_error_and_not_told(net: Net, config: Path) -> None:
    asked(config).write_text("16Mbit\n")
    assert beer_network("limit", config).returncode == 1
    assert not told(config).exists()
    asked(config).write_text("")
    assert beer_network("limit", config).returncode == 0, "nobody is limited"
    assert told(config).read_text() == "\n"


@pytest.mark.parametrize("harm", ["flush ruleset", "delete table inet beer", "flush chain inet beer limit_batch"])
def test_rules_that_somebody_took_away_are_back_and_that_is_told(net: Net, config: Path, harm: str) -> None:
    asked(config).write_text("16Mbit\n")
    assert beer_network("load", config).returncode == 0
    assert beer_network("limit", config).returncode == 0
    assert beer_network("limit", config).returncode == 0
    before = netns.sh("nft -s list table inet beer")
    assert told(config).read_text() == "16Mbit\n", "nobody has changed anything"
    netns.sh(f"nft {harm}")
    result = beer_network("limit", config)
    assert result.returncode == 0, result.stderr
    assert netns.sh("nft -s list table inet beer") == before
    assert told(config).read_text() == "16Mbit\nchanged\n"
    assert beer_network("limit", config).returncode == 0
    assert told(config).read_text() == "16Mbit\n", "told once"


def test_what_could_not_be_set_is_not_told_and_tried_again(net: Net, config: Path) -> None:
    asked(config).write_text("16Mbit\n")
    assert beer_network("load", config).returncode == 0
    assert beer_network("limit", config).returncode == 0
    before = netns.sh("nft -s list table inet beer")
    netns.sh("nft flush ruleset")
    good = config.read_text()
    config.write_text(f"{good}storage_port = never\n")
    assert beer_network("limit", config).returncode == 1
    assert told(config).read_text() == ""
    config.write_text(good)
    # Meanwhile the guard wants another one.
    asked(config).write_text("32Mbit\n")
    assert beer_network("limit", config).returncode == 0
    assert told(config).read_text() == "32Mbit\n"
    asked(config).write_text("16Mbit\n")
    assert beer_network("limit", config).returncode == 0
    assert netns.sh("nft -s list table inet beer") == before


def test_instance_metadata_is_out_of_reach(net: Net, config: Path) -> None:
    net.world.run("ip addr add 169.254.169.254/32 dev eth0")
    netns.sh("ip route add 169.254.169.254/32 via 192.0.2.9")
    program = "import socket; s = socket.create_server(('', 80)); print('up', flush=True); s.accept(); s.accept()"
    command = ["nsenter", "-t", str(net.world.pid), "-n", "python3", "-ISc", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "up\n"
        assert netns.connect(net.container, "169.254.169.254", 80)
        assert beer_network("load", config).returncode == 0
        assert not netns.connect(net.container, "169.254.169.254", 80)
        server.kill()


def test_loading_twice_leaves_one_set_of_rules(net: Net, config: Path) -> None:
    assert beer_network("load", config).returncode == 0
    once = netns.sh("nft -s list ruleset")
    assert beer_network("load", config).returncode == 0
    assert netns.sh("nft -s list ruleset") == once


def test_check_fails_when_somebody_flushed_the_rules(net: Net, config: Path) -> None:
    assert beer_network("load", config).returncode == 0
    netns.sh("nft flush ruleset")
    result = beer_network("check", config)
    assert result.returncode == 1
    assert "table inet beer is not loaded" in result.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("batch_adress = 192.0.2.1", "batch_adress: unknown; known are batch_prefix, storage_port, batch_address,"),
        ("batch_address = here", "batch_address: 'here' is not like 192.0.2.17"),
        ("batch_address = 192.0.2.1; flush ruleset", "batch_address: '192.0.2.1;flushruleset' is not like"),
        ("batch_address = 999.0.2.1", "the rules do not load"),
        ("storage_port = 99999", "the rules do not load"),
        ("batch_limit = 500", "batch_limit: '500' is not like 500Mbit"),
        ("batch_limit = 0 Mbit", "batch_limit: '0Mbit' is not like 500Mbit"),
        ("batch_prefix = 10.127.0.0", "batch_prefix: '10.127.0.0' is not like 10.127.0.0/16"),
    ],
)
def test_a_wrong_configuration_is_refused_and_changes_nothing(net: Net, config: Path, line: str, message: str) -> None:
    assert beer_network("load", config).returncode == 0
    before = netns.sh("nft -s list ruleset")
    with config.open("a") as file:
        file.write(f"{line}\n")
    result = beer_network("check-config", config)
    assert result.returncode == 1
    assert message in result.stderr
    assert str(config) in result.stderr
    assert beer_network("load", config).returncode == 1
    assert netns.sh("nft -s list ruleset") == before


def test_an_absent_configuration_is_an_error(tmp_path: Path) -> None:
    result = beer_network("load", tmp_path / "absent.conf")
    assert result.returncode == 1
    assert "cannot be read" in result.stderr

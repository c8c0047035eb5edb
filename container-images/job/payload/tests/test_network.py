# SPDX-License-Identifier: Apache-2.0
"""The network hog on the loopback interface."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest
from beer_payload import cli, network
from beer_payload.report import SetupError


@pytest.fixture
def receiver() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))
        bound.settimeout(10)
        yield bound


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("node2:9", "node2", 9), ("192.0.2.1:65535", "192.0.2.1", 65535), ("[2001:db8::1]:80", "2001:db8::1", 80)],
)
def test_an_address_is_understood_and_printed_alike(text: str, host: str, port: int):
    address = network.Address.parse(text)
    assert (address.host, address.port, str(address)) == (host, port, text)


@pytest.mark.parametrize("text", ["", "node2", ":9", "[]:9", "2001:db8::1", "2001:db8::1:80", "node2:9:9"])
def test_what_is_no_address_is_refused(text: str):
    with pytest.raises(ValueError, match="is not HOST:PORT, such as"):
        network.Address.parse(text)


@pytest.mark.parametrize("text", ["node2:", "node2:0", "node2:65536", "node2:-1", "node2:http", "node2:٣"])
def test_what_is_no_port_is_refused(text: str):
    with pytest.raises(ValueError, match="is not a whole number from 1 to 65535"):
        network.Address.parse(text)


def test_streams_send_whole_datagrams_from_ports_of_their_own(receiver: socket.socket):
    to = network.Address("127.0.0.1", receiver.getsockname()[1])
    report = network.run(to, streams=2, seconds=0.5)
    assert report["bytes"] == report["operations"] * network.BATCH * network.DATAGRAM > 0
    assert (report["to"], report["streams"], report["errors"]) == (str(to), 2, 0)
    arrived = [receiver.recvfrom(1 << 16) for _ in range(20)]
    assert {len(data) for data, _ in arrived} == {network.DATAGRAM}


def test_nobody_need_listen():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    report = network.run(network.Address("127.0.0.1", port), streams=1, seconds=0.3)
    # The kernel answers every other send with what became of the one before.
    assert report["bytes"] > 0
    assert report["errors"] == 0


def test_a_host_that_does_not_exist_is_a_reason():
    with pytest.raises(SetupError, match="cannot send to no such host:9: "):
        network.run(network.Address("no such host", 9), streams=1, seconds=1)


def test_what_can_never_be_sent_is_a_reason(monkeypatch: pytest.MonkeyPatch, receiver: socket.socket):
    # More than fits a datagram: refused each time.
    monkeypatch.setattr(network, "DATAGRAM", 1 << 17)
    with pytest.raises(SetupError, match=r"nothing could be sent to 127\.0\.0\.1:\d+: .*Message too long"):
        network.run(network.Address("127.0.0.1", receiver.getsockname()[1]), streams=1, seconds=0.3)


def test_the_command_prints_one_line_with_the_bytes(receiver: socket.socket, capsys: pytest.CaptureFixture[str]):
    to = f"127.0.0.1:{receiver.getsockname()[1]}"
    assert cli.main(["hog-network", "--to", to, "--seconds", "0.2", "--streams", "2"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["payload"], report["ok"], report["to"]) == ("hog-network", True, to)
    assert report["bytes"] > 0

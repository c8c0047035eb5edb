# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from relay import Relay
from server import Server

FILE_BYTES = 20_000_000


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "on_disk: the server's files are not in memory")


@pytest.fixture(scope="session")
def content() -> bytes:
    return os.urandom(FILE_BYTES)


@contextmanager
def server_with(content: bytes | None = None, place: Path | None = None) -> Iterator[Server]:
    """A server that is not started yet, with this file in its store. Not below pytest's folders, which are root's."""
    with tempfile.TemporaryDirectory(prefix="beer-live.", dir=place) as folder:
        one = Server(Path(folder))
        if content is not None:
            (one.data / "01/store/file").write_bytes(content)
            shutil.chown(one.data / "01/store/file", "xrootd", "xrootd")
        try:
            yield one
        finally:
            one.stop(9)


@pytest.fixture
def server(request: pytest.FixtureRequest, content: bytes) -> Iterator[Server]:
    """One with a file of 20 MB; in memory unless marked `on_disk`."""
    # Where the plug-in was built there is a disk.
    place = Path(os.environ["BEER_PLUGIN"]).parent if request.node.get_closest_marker("on_disk") else None
    with server_with(content, place) as one:
        yield one
        if hasattr(request.node, "failed") and request.node.failed:
            print(one.log())


@pytest.fixture
def other() -> Iterator[Server]:
    """One beside it, which is empty."""
    with server_with() as one:
        yield one


@pytest.fixture
def running(server: Server) -> Server:
    server.start()
    return server


@contextmanager
def batch_port_of(server: Server) -> Iterator[int]:
    """A port through which a client comes from a batch address."""
    with Relay(server.port, "127.0.0.2") as relay:
        yield relay.port


@pytest.fixture
def batch_port(running: Server) -> Iterator[int]:
    with batch_port_of(running) as port:
        yield port


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    if outcome.get_result().failed:
        item.failed = True

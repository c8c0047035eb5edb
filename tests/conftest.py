# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the end-to-end tests: each test gets a node restored from the snapshot of a configured, idle node.

Markers: `layout("scratch-apart", data=4)` asks for other disks than the demo has, `cpus(cores=6, threads=2)` for other
processors, `full` keeps a test out of `make test`, `expects("regex", ...)` names journal lines that this test provokes.
On failure everything there is to know is below out/failed/<test>/<node>. `pytest --sit` keeps the node of a failed test
and prints how to log in.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from beerbench.batch import Batch
from beerbench.guard import Guard
from beerbench.neighbours import Neighbours
from beerlab import Machine, NodeSpec, default_disks, ready_node, ready_site
from support import StorageUser

TOP = Path(__file__).resolve().parent.parent

# What must never appear in the journal of a node, whatever the test does.
DAMAGE = re.compile(
    r"dumped core|segfault|Oops:|BUG:|general protection|AddressSanitizer|panicked at|blocked for more than",
    re.IGNORECASE,
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sit", action="store_true", help="keep the node of a failed test until Enter is pressed")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "layout(name, data=2): scratch-on-data (default) or scratch-apart, and how many data disks"
    )
    config.addinivalue_line("markers", "cpus(cores, threads): hardware threads in all, and by core; default: lab/")
    config.addinivalue_line("markers", "full: runs in `make e2e-full` only")
    config.addinivalue_line("markers", "expects(*regex): journal lines that this test provokes")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()
    setattr(item, f"report_{report.when}", report)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests measured, all of it in one place."""
    for outcome in ("passed", "failed", "rerun"):
        for report in terminalreporter.getreports(outcome):
            lines = report.capstdout.splitlines() if getattr(report, "when", "") == "call" else []
            for line in lines:
                if line.startswith("figures: "):
                    terminalreporter.write_line(line)


@contextmanager
def emulation_told(item: pytest.Item) -> Iterator[None]:
    """A node that the emulation broke fails a test somehow: what is reported is why (pytest.ini lets it run again)."""
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:  # the latter is what a timeout raises
        given = getattr(item, "funcargs", {})
        machines = [given["node"]] if "node" in given else given.get("site", ())
        fault = next(filter(None, (machine.emulation_fault() for machine in machines)), None)
        if fault is not None:
            raise fault from error
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    with emulation_told(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with emulation_told(item):
        return (yield)


@pytest.fixture
def node(request: pytest.FixtureRequest) -> Iterator[Machine]:
    marker = request.node.get_closest_marker("layout")
    layout = marker.args[0] if marker else "scratch-on-data"
    disks = default_disks(layout, **(marker.kwargs if marker else {}))
    cpus = request.node.get_closest_marker("cpus")
    machine = ready_node(spec=NodeSpec(layout=layout, disks=disks, **(cpus.kwargs if cpus else {})))
    with judged([machine], request):
        yield machine


@pytest.fixture
def site(request: pytest.FixtureRequest) -> Iterator[tuple[Machine, Machine]]:
    """Two disk servers of one site, node1 and node2; their clocks may be far apart."""
    spec = NodeSpec(layout="scratch-on-data")
    first, second = ready_site({"node1": spec, "node2": spec}).machines.values()
    with judged([first, second], request):
        yield first, second


@contextmanager
def judged(machines: list[Machine], request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever becomes of the test, its nodes end, and of those that something happened to evidence is kept."""
    try:
        for machine in machines:
            machine.execute(f"logger -t beer-test 'start {request.node.name}'")
        yield
        called = getattr(request.node, "report_call", None)
        for machine in machines:
            if called is not None and called.passed:
                check_journal(machine, request)
            else:
                keep_evidence(machine, request)
    except BaseException:
        for machine in machines:
            keep_evidence(machine, request)
        raise
    finally:
        for machine in machines:
            machine.stop()


def check_journal(machine: Machine, request: pytest.FixtureRequest) -> None:
    """A test that passed while something broke in silence has not passed."""
    machine.check()
    marker = request.node.get_closest_marker("expects")
    allowed = [re.compile(pattern) for pattern in (marker.args if marker else ())]
    bad = [
        line
        for line in machine.journal().splitlines()
        if DAMAGE.search(line) and not any(pattern.search(line) for pattern in allowed)
    ]
    assert not bad, "unexpected lines in the journal of the node:\n" + "\n".join(bad[:20])


def keep_evidence(machine: Machine, request: pytest.FixtureRequest) -> None:
    folder = TOP / "out" / "failed" / request.node.name / machine.name
    try:
        machine.save_logs(folder)
        print(f"\nlogs of the node: {folder.relative_to(TOP)}")
    except Exception as error:  # noqa: BLE001, RUF100 (must not hide the failure of the test itself)
        print(f"\nno logs of the node: {error}")
    if request.config.getoption("--sit") and sys.stdin.isatty():
        input(f"log in with: {machine.shell_command()}\nEnter ends the node. ")


@pytest.fixture
def batch(node: Machine) -> Batch:
    return Batch(node)


@pytest.fixture
def guard(node: Machine) -> Guard:
    return Guard(node)


@pytest.fixture(autouse=True)
def neighbours() -> Iterator[Neighbours]:
    with Neighbours() as sampled:
        start = time.time()
        yield sampled
        end = time.time()
    share, others = sampled.taken(start, end)
    took = f"neighbours of this machine took {share:.0%} of its CPU, and other work on it {others:.0%}"
    print(f"\n{took}, in the {end - start:.0f} s of this test")


@pytest.fixture
def storage(node: Machine, tmp_path: Path) -> Iterator[StorageUser]:
    user = StorageUser(node, tmp_path)
    yield user
    user.kill()


@pytest.fixture
def others(node: Machine, tmp_path: Path) -> Iterator[StorageUser]:
    """Storage users beside the first one."""
    folder = tmp_path / "others"
    folder.mkdir()
    user = StorageUser(node, folder)
    yield user
    user.kill()

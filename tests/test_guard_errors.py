# SPDX-License-Identifier: Apache-2.0
"""What is wrong is said in one line that names file and key; the exit code is not 0 and nothing on the node changes."""

from __future__ import annotations

import re

import pytest
from beerbench.guard import JOBS, Guard
from beerbench.waiting import wait_until
from beerlab import Machine

CONFIG = "/etc/beer/guard.toml"
SEGMENT = "/run/beer/storage/beer.lat"
VERSION_OFFSET = 8  # docs/formats/latency-segment.md
# What `check-config` says of the shipped objective on reads.
STATED = re.compile(
    r"objective storage-read: ([\d.]+) false precautions and ([\d.e-]+) false freezes in 10\^6 healthy requests .*?"
    r"found after (\d+) requests \(99 %: (\d+)\)",
    re.DOTALL,
)


def fingerprint(node: Machine) -> str:
    """What a guard could change on a node."""
    return node.execute(
        f"cat {JOBS}/cgroup.freeze {JOBS}/cpu.max {JOBS}/cpu.weight; ls /run/systemd/system.control 2>/dev/null || true"
    ).stdout


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        ("s/^tick *=.*/tick = 20/", "loop.tick"),
        ("s/^tick *=/tock =/", "tock"),
        ('s/^tick *=.*/tick = "never"/', "loop.tick"),
        ("s/^\\[ladder\\]/[ladder/", "line"),
    ],
)
def test_malformed_configuration(node: Machine, edit: str, named: str) -> None:
    before = fingerprint(node)
    node.execute(f"cp {CONFIG} /run/bad.toml && sed -i -E '{edit}' /run/bad.toml && ! cmp -s {CONFIG} /run/bad.toml")
    for command in ("beer-guard check-config /run/bad.toml", "beer-guard run --config /run/bad.toml"):
        result = node.execute(command, check=False)
        assert result.status != 0, f"{command} accepted it"
        lines = (result.stderr + result.stdout).strip().splitlines()
        assert len(lines) == 1, f"more than one line:\n{result.stderr}{result.stdout}"
        assert "/run/bad.toml" in lines[0]
        assert named in lines[0]
    assert fingerprint(node) == before


def test_good_configuration_states_its_rates(node: Machine) -> None:
    said = node.execute("beer-guard check-config").stdout
    found = STATED.search(said)
    assert found, said
    precautions, freezes, usually, at_most = (float(number) for number in found.groups())
    assert 0 < freezes < precautions < 1000, said
    assert 0 < usually <= at_most < 100, said


def live_check(node: Machine) -> str:
    result = node.execute("beer-guard check-config --live", check=False)
    assert result.status != 0
    lines = (result.stderr or result.stdout).strip().splitlines()
    assert lines
    return lines[-1]


def test_unreadable_latency_segment(node: Machine, guard: Guard) -> None:
    """Somebody puts something else where the segment was: it is refused, the node closes, nothing is frozen."""
    node.execute(f"systemctl stop xrootd@beer; rm -f {SEGMENT}; mkfifo -m 0640 {SEGMENT}; chown xrootd: {SEGMENT}")
    line = live_check(node)
    assert SEGMENT in line
    guard.wait_for_state("closed", timeout=60)
    assert not guard.frozen()
    assert guard.metric(r'beer_guard_signal_success\{signal="latency"\}') == 0
    assert guard.metric(r'beer_guard_signal_success\{signal="disk"\}') == 1


def test_wrong_layout_version(node: Machine, guard: Guard) -> None:
    node.execute("systemctl stop xrootd@beer")
    node.execute(
        f"set -e; cd /run/beer/storage; cp -p {SEGMENT} .new; "
        f"printf '\\x07' | dd of=.new bs=1 seek={VERSION_OFFSET} conv=notrunc status=none; mv .new {SEGMENT}"
    )
    line = live_check(node)
    assert SEGMENT in line
    assert "version 7" in line
    guard.wait_for_state("closed", timeout=60)
    signals = {signal["name"]: signal for signal in guard.status()["signals"]}
    assert "version 7" in signals["latency"]["error"]


def test_a_bad_configuration_is_refused_and_what_was_in_force_stays(node: Machine, guard: Guard) -> None:
    guard.wait_for_state("open", timeout=120)
    pid = node.execute("systemctl show --value -p MainPID beer-guard").stdout
    node.execute(f"cp {CONFIG} /run/good.toml; sed -i 's/^share = .*/share = \"200%\"/' {CONFIG}")
    assert node.execute("systemctl reload beer-guard", check=False).status != 0, "nobody is told"
    node.execute("systemctl kill -s HUP beer-guard")
    taken = "beer_config_last_reload_successful"
    wait_until(lambda: guard.metric(taken) == 0, 30, "it is refused", explain=guard.why)
    assert "REFUSED" in node.execute("beer status").stdout
    assert guard.state() == "open"
    node.execute(f"cp /run/good.toml {CONFIG}; systemctl reload beer-guard")
    wait_until(lambda: guard.metric(taken) == 1, 30, "the good one is taken", explain=guard.why)
    assert node.execute("systemctl show --value -p MainPID beer-guard").stdout == pid


def test_missing_slice(node: Machine, guard: Guard) -> None:
    """Without the slice of the jobs there is nothing to protect with: closed, said once, and well again by itself."""
    node.execute("systemctl stop docker.socket docker; systemctl stop beer-jobs.slice", timeout=180)
    wait_until(lambda: node.execute(f"test -d {JOBS}", check=False).status != 0, 60, "the slice is gone")
    line = live_check(node)
    assert "beer-jobs.slice" in line
    guard.wait_for_state("closed", timeout=60)
    node.execute("systemctl start beer-jobs.slice")
    guard.wait_for_state("open", timeout=120)


@pytest.mark.full
def test_a_full_disk_below_the_journal(node: Machine, guard: Guard) -> None:
    """Decisions go on, and what could not be written is counted; when there is room again it is written."""
    folder = "/var/lib/beer/journal"
    node.execute(
        f"systemctl stop beer-guard && mount -t tmpfs -o size=64k,mode=0755 tmpfs {folder} && "
        f"dd if=/dev/zero of={folder}/others bs=4k count=16 status=none; systemctl start beer-guard",
        timeout=120,
    )
    wait_until(lambda: guard.metric("beer_journal_errors_total", absent=0) > 0, 60, "it is counted")
    guard.wait_for_state("open", timeout=120)
    node.execute("beer freeze --for 1min")
    wait_until(guard.frozen, 30, "decisions go on")
    node.execute("beer resume")
    wait_until(lambda: not guard.frozen(), 60, "and so does their end")
    assert not guard.decisions(), "the disk was not full: nothing was tried"
    node.execute(f"rm {folder}/others")
    node.execute("beer drain --why 'room again'")
    wait_until(lambda: "room again" in guard.why(), 60, "it is written again", explain=guard.why)
    node.execute("beer resume")


@pytest.mark.full
def test_the_kernel_tells_the_guard_in_its_sandbox_of_pressure(node: Machine, guard: Guard) -> None:
    """Three resources each of storage.slice and of the host. A trigger is a pressure file that is open for writing."""
    guard.wait_for_state("open", timeout=120)
    opened = node.execute(
        "cd /proc/$(systemctl show -P MainPID beer-guard); for fd in fd/*; do case $(readlink $fd) in "
        "*pressure*) echo $(readlink $fd) $(sed -n 's/^flags:.*\\([0-9]\\)$/\\1/p' fdinfo/${fd#fd/});; esac; done"
    ).stdout.split("\n")
    writable = {line.split()[0] for line in opened if line.endswith(" 2")}
    assert len(writable) == 6, opened
    assert "sets no trigger" not in node.execute("journalctl -u beer-guard -o cat").stdout

# SPDX-License-Identifier: Apache-2.0
"""A job attacks a disk from which a storage user reads once in five seconds: probes find it within seconds, and the hog
alone stands still. Without them the same attack goes on unseen for longer.

Victim: the user of that disk. Innocent: a CPU job beside the hog. Probes come five times a second here, so that the
guard knows what is usual after two minutes and not after seven.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest
from beerbench.batch import RUNNING, Batch, Job
from beerbench.guard import Guard
from beerbench.neighbours import Neighbours
from beerbench.timeline import clock
from beerbench.timeline.decisions import Decision
from beerbench.waiting import wait_until
from beerlab import Machine
from support import StorageUser, assert_one_run, assert_undisturbed, figures, report_of, stood_still

RATE = 0.2
HOG = "hog-disk --threads 24 --size 64MiB --seconds 40 --on-signal 1"
NOTICED = 8.0
UNSEEN = 20.0
OBJECTIVE = "probe-read"
AGAIN = pytest.mark.flaky(reruns=2, only_rerun=["Disturbed: ", "EmulationFault: "])


@dataclass(frozen=True)
class Jobs:
    """Hog and innocent, and their scopes."""

    hog: Job
    innocent: Job
    scopes: tuple[str, str]


def set_up(node: Machine, batch: Batch, guard: Guard, storage: StorageUser) -> Jobs:
    """Both wait for their signal, the user reads."""
    node.execute(
        "sed -i '/^.signals.probe.$/,/^root/{s/^enabled = .*/enabled = true/; s/^interval = .*/interval = \"200ms\"/}' "
        "/etc/beer/guard.toml && "
        "beer-guard check-config && systemctl restart beer-probe beer-guard",
        timeout=120,
    )
    guard.wait_for_state("open", timeout=180)
    hog, innocent = batch.submit(HOG), batch.submit("burn --seconds 60 --on-signal 1")
    scopes = (batch.wait_until_ready(hog, timeout=240), batch.wait_until_ready(innocent, timeout=240))
    storage.start(rate=RATE, duration=1200, disks=("/data/01",))
    return Jobs(hog, innocent, scopes)


def probes(guard: Guard) -> dict[str, object]:
    return dict(next(one for one in guard.status()["objectives"] if one["name"] == OBJECTIVE))


def freezes(guard: Guard, since: float) -> list[Decision]:
    return [one for one in guard.decisions() if one.action in ("freeze", "narrow") and one.time > since]


@AGAIN
@pytest.mark.full
def test_thin_traffic_with_probes(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser, neighbours: Neighbours
) -> None:
    jobs, quiet_from = set_up(node, batch, guard, storage), time.time()
    scope = jobs.scopes[0].rsplit("/", 1)[1]
    wait_until(
        lambda: bool(probes(guard)["dependence"]) and guard.state() == "open",
        400,
        "the guard has learned what is usual for probes",
        interval=2.0,
        explain=lambda: f"{probes(guard)}\n{guard.why()}",
    )
    assert guard.metric(r'beer_probe_reads_total\{filesystem="/data/01"\}') > 400
    assert guard.metric(r'beer_probe_reads_total\{filesystem="/data/02"\}') == 0, "nobody uses that disk"
    live = node.execute("beer-guard check-config --live", check=False)
    assert live.status == 0, live.stdout + live.stderr
    assert "\npressure: " in live.stdout
    assert "\nio.weight has " in live.stdout

    batch.signal(jobs.scopes[1])
    began = time.time()
    struck = batch.signal(jobs.scopes[0])
    wait_until(lambda: freezes(guard, struck) != [], 60, "somebody is frozen", explain=guard.why)
    first = freezes(guard, struck)[0]
    assert_undisturbed(neighbours, began, time.time())
    print(f"frozen {first.time - struck:.1f} s after the signal to attack\n{guard.why()}")
    assert first.series == "probe read on /data/01", first
    assert first.time - struck <= NOTICED, guard.why()
    wait_until(
        lambda: any(one.jobs == (scope,) for one in freezes(guard, struck)),
        30,
        "the hog alone stands still",
        explain=guard.why,
    )
    assert jobs.innocent.status == RUNNING, "the innocent was over too early to lose anything"
    report_of(jobs.hog, timeout=600)
    client = storage.stop()
    parts = {"alone": client.due_between(quiet_from, began), "attack": client.due_between(began, time.time())}
    names = dict(zip(("hog", "innocent"), jobs.scopes, strict=True))
    figures("thin traffic, probes", parts, guard, clock.measure(node), struck, names)
    assert_one_run(jobs.hog)
    lost = stood_still(report_of(jobs.innocent, timeout=400), neighbours, began)
    assert_one_run(jobs.innocent)
    assert lost < 5, f"the innocent stood still with the hog, for {lost} s"


@AGAIN
@pytest.mark.full
def test_thin_traffic_without_probes(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser, neighbours: Neighbours
) -> None:
    node.execute("systemctl stop beer-probe")
    jobs = set_up(node, batch, guard, storage)
    node.execute("systemctl stop beer-probe && systemctl restart beer-guard", timeout=120)
    guard.wait_for_state("open", timeout=180)
    assert probes(guard)["signal"] == "absent", "a node that nobody probes is no fault"
    struck = batch.signal(jobs.scopes[0])
    began = time.time()
    wait_until(lambda: time.time() > began + UNSEEN, UNSEEN + 30, "the attack has had its time", interval=1.0)
    seen = [one for one in freezes(guard, struck) if one.time < struck + UNSEEN]
    assert not seen, f"it is seen without probes too: the test above shows nothing\n{guard.why()}"
    client = storage.stop().due_between(began, began + UNSEEN)
    assert len(client) > 0, "the user did not read"
    names = dict(zip(("hog", "innocent"), jobs.scopes, strict=True))
    figures("thin traffic, no probes", {"attack": client}, guard, clock.measure(node), struck, names)


ROOT = """
[[gauge]]
name = "storage-root"
source = "probe.root.seconds"
above = 9.0
for = "1s"
dwell = "10s"
grace = "40s"
"""
# The key of the server is good for a client, too.
KEY = "Environment=XrdSecSSSKT=/etc/xrootd/beer.keytab"


@pytest.mark.full
def test_the_probe_reads_as_a_client_does(node: Machine, guard: Guard) -> None:
    """The real xrdcp, in the sandbox of the unit; while XRootD hangs there is no reading."""

    def state() -> str:
        return next(str(one["state"]) for one in guard.status()["gauges"] if one["name"] == "storage-root")

    node.execute(
        f"""set -e
        head -c 65536 /dev/urandom > /data/01/store/probe
        chown xrootd:xrootd /data/01/store/probe
        sed -i 's#^root = .*#root = "root://localhost//data/01/store/probe"#' /etc/beer/guard.toml
        cat >> /etc/beer/guard.toml <<'END'
{ROOT}
END
        mkdir -p /etc/systemd/system/beer-probe.service.d
        printf '[Service]\\n{KEY}\\n' > /etc/systemd/system/beer-probe.service.d/site.conf
        systemctl daemon-reload
        systemctl restart beer-probe beer-guard""",
        timeout=180,
    )
    guard.wait_for_state("open", timeout=180)

    def seconds() -> float:
        return guard.metric(r'beer_watch_value\{gauge="storage-root"\}', absent=0)

    def explain() -> str:
        return node.execute("journalctl -u beer-probe -o cat | tail -20").stdout

    wait_until(lambda: seconds() > 0, 120, "a file was read from end to end", explain=explain)
    print(f"read in {seconds():.2f} s")
    assert state() == "kept"
    node.execute("pkill -STOP -x xrootd")
    try:
        wait_until(lambda: state() == "stale", 120, "there is no reading while XRootD hangs", explain=explain)
        assert "it had not ended after 10 s" in explain()
    finally:
        node.execute("pkill -CONT -x xrootd")
    wait_until(lambda: state() == "kept", 120, "it is read again", explain=explain)

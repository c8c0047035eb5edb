# SPDX-License-Identifier: Apache-2.0
"""Storage with hostile batch against storage alone and with innocent batch: p99, throughput, isolation scores.

Shows: the ratio hybrid / storage-only of the latency that clients get and of how many requests are answered (open loop,
a share of the disk's capacity), and of the throughput of clients that saturate the disk by themselves, with a bound
that holds with 95 %; beside it what batch got of the idle CPU in the same minutes, what the guard did while there was
nothing to do, and the lab's own noise. A third kind of window, in the same order back and forth, has the innocent job
alone, which uses nothing but CPU: what that costs clients is the price of a busy CPU, and what hybrid windows cost
beyond it is the attacker's.
The attacker is the same job in all windows: caught in the first one, he is known to the guard in the next. Hence the
first round is shown apart, too.
Does not show: the absolute speed of a disk (it is throttled) or of the guard (its CPU may be emulated), and attacks
other than the one chosen. With fewer than 5 rounds no bound holds.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np

from .. import stats, text
from ..batch import Job
from ..clients import Load, Run
from ..errors import BenchmarkError
from ..host import cpu_list
from ..labnode import lab_session
from ..record import Record
from ..session import Session
from ..timeline.decisions import Decisions
from ..timeline.node import JOBS, NodeTimeline
from ..timeline.requests import Requests
from ..waiting import Story, wait_until

DISK = "/data/01"
# The jobs begin a moment after a window does, and work longer than it by so many seconds.
MARGIN = 5.0
# The hold of a freeze and the dwell time of an open node, some of them in a row.
QUIET_SECONDS = 400.0
# The dwell time of an objective, some times.
CALM_SECONDS = 10.0
ALONE, INNOCENT, HYBRID = KINDS = "alone", "innocent", "hybrid"
# Ratios: innocent / alone, hybrid / innocent, hybrid / alone.
AGAINST = "of_cpu", "to_innocent", "to_alone"
MEASURES = ("latency", "throughput")
# Where a hog can do harm: direct I/O needs scratch on the data disk.
LAYOUTS: dict[str, Literal["scratch-apart", "scratch-on-data"]] = {
    "disk": "scratch-on-data",
    "mix": "scratch-on-data",
    "xrootd": "scratch-apart",
}
# Beside the disk hog of a mix: no more processes than its memory bears, since HTCondor holds a job that runs out of it,
# and it is to attack in all windows. The host, by the interface that storage clients come by; nobody listens there.
OTHERS = ("fork-bomb --processes 500", "hog-memory --size 256MiB", "burn", "burn", "hog-network --to 10.0.2.2:9")
# What a freeze may take to end the last request of a job; `NodeTimeline` sees it to 50 ms.
LAST_IO_TARGET = 1.0
CGROUPS = "/sys/fs/cgroup/"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pairs", type=int, default=5, help="rounds: a window of each kind (default: 5)")
    parser.add_argument("--seconds", type=float, default=30, help="length of a window (default: 30)")
    parser.add_argument("--hog", choices=sorted(LAYOUTS), default="disk", help="the attack (default: disk)")
    parser.add_argument("--threads", type=int, default=24, help="threads or streams of the hog (default: 24)")
    parser.add_argument("--load", type=float, default=0.7, help="share of the disk's capacity (default: 0.7)")
    parser.add_argument("--connections", type=int, default=24, help="connections of the clients (default: 24)")
    parser.add_argument("--scheduler", default="", help="I/O scheduler of the data disk (default: the node's own)")
    parser.add_argument("--only", choices=MEASURES, help="leave the other half out: latency, or saturating clients")
    parser.add_argument("--unguarded", action="store_true", help="without the guard: what the attack does")


def order(pairs: int) -> list[str]:
    """Back and forth: slow drifts of the machine hit all kinds alike."""
    return [kind for number in range(pairs) for kind in (KINDS if number % 2 == 0 else reversed(KINDS))]


class Isolation:
    def __init__(self, session: Session, options: argparse.Namespace, story: Story) -> None:
        self._session = session
        self._options = options
        self._story = story
        self._rate = 0.0
        # Hostile and innocent: the jobs, their cgroups, and how many payloads each has.
        self._jobs: list[tuple[Job, str, int]] = []
        self._host = session.node.execute("hostname").stdout.strip()

    def record(self) -> Record:
        session, options = self._session, self._options
        facts = session.facts()
        device = session.device(DISK)
        if options.scheduler:
            session.use_scheduler(DISK, options.scheduler)
        measures = [measure for measure in MEASURES if options.only in (None, measure)]
        self._start_jobs(options.pairs * len(measures))
        capacity = session.capacity(10, options.connections)
        rate = self._rate = options.load * capacity["requests_per_s"]
        self._story.say(f"{DISK}: {capacity['requests_per_s']:.0f} requests/s; load {rate:.0f}/s")
        hostile, innocent = (scope for _, scope, _ in self._jobs)
        duration = len(KINDS) * options.pairs * len(measures) * (options.seconds + QUIET_SECONDS)
        session.start_sampler(duration, hostile, [innocent])
        session.drop_caches()
        segments: list[dict[str, Any]] = []
        missing = []
        for measure in measures:
            try:
                segments += self._pairs(measure, rate)
            except BenchmarkError as error:
                # What was measured by then is not lost with it.
                if not segments:
                    raise
                missing.append(f"{measure}: {error}")
        data = {"segments": segments, "capacity": capacity, "rate": rate, "disk": DISK, "device": device}
        data["innocent"] = innocent.removeprefix(CGROUPS)
        data |= session.collect()
        parameters = {key: value for key, value in vars(options).items() if key not in ("call", "out", "name")}
        record = Record("isolation", parameters, facts, data)
        record.missing += missing
        if options.pairs < 5:
            record.missing.append(f"{options.pairs} rounds only: no bound holds with 95 %")
        record.save(session.out)
        return record

    def _start_jobs(self, rounds: int) -> None:
        """Hostile and innocent, each for all its windows: starting containers is no part of what is measured.

        They wait for one signal more than comes, so that neither ends before the node does.
        """
        batch, seconds = self._session.batch, self._options.seconds
        self._session.guard.wait_for_state("open", 120)
        for works, windows in ((self._attack(), rounds), (["burn"], 2 * rounds)):
            payloads = [f"{work} --seconds {seconds + MARGIN:g}" for work in works]
            if len(payloads) > 1:
                job = batch.submit_mix(payloads, "1024MB", windows + 1)
            else:
                job = batch.submit(f"{payloads[0]} --on-signal {windows + 1}")
            self._jobs.append((job, batch.wait_until_ready(job, 400, len(payloads)), len(payloads)))

    def _pairs(self, measure: str, rate: float) -> list[dict[str, Any]]:
        run: Run | None = None
        if measure == "latency":
            load = Load(duration=86400, connections=self._options.connections, rate=rate)
            run = self._session.clients.start("open_loop", "requests", load)
            run.wait_ready(180)
        segments = []
        try:
            if run is not None:
                self._session.guard.wait_until_learned(240)
            for number, kind in enumerate(order(self._options.pairs)):
                segment = self._window(measure, kind, number)
                segments.append({"measure": measure, "kind": kind, "pair": number // len(KINDS), **segment})
        except BaseException:
            if run is not None:
                run.kill()
            raise
        if run is not None:
            run.finish()
            self._session.keep_samples("requests")
        return segments

    def _window(self, measure: str, kind: str, number: int) -> dict[str, Any]:
        session, options = self._session, self._options
        self._quiet(measure)
        hybrid = kind == HYBRID
        if hybrid and options.unguarded:
            session.guard.take_away()
        saturating: Run | None = None
        if measure == "throughput":
            # What one window has read must not be in memory in the next one.
            session.drop_caches()
            load = Load(duration=options.seconds, connections=options.connections, seed=1000 + number)
            saturating = session.clients.start("saturate", "saturate", load)
            saturating.wait_ready(180)
        start = time.time()
        for _, scope, _ in {ALONE: [], INNOCENT: self._jobs[1:], HYBRID: self._jobs}[kind]:
            session.batch.signal(scope)
        extra: dict[str, Any] = {}
        if saturating is None:
            time.sleep(max(0.0, start + options.seconds - time.time()))
        else:
            extra = saturating.wait(options.seconds + 300)
        end = time.time()
        if hybrid and options.unguarded:
            session.guard.bring_back()
        shown = f"{extra['mb_s']:.2f} MB/s" if extra else ""
        self._story.say(f"{measure} {number + 1} of {len(KINDS) * options.pairs}: {kind} {shown}")
        return {"start": start, "end": end, **{key: extra[key] for key in ("mb_s", "requests_per_s") if key in extra}}

    def _quiet(self, measure: str) -> None:
        """No job does anything, and the guard is calm again: an attacker may still be limited, if he goes on.

        After a saturating window it is closed, for longer than anybody can wait: that storage was slow without batch
        has spent its error budget. The jobs run already. It needs requests that are fast again to see that it is over;
        in the latency windows the running client sends them.
        """
        if measure == "latency":
            self._wait_for_quiet("open", "throttled")
            return
        calm = self._session.clients.start("open_loop", "calm", Load(duration=600, connections=8, rate=self._rate / 3))
        try:
            time.sleep(CALM_SECONDS)
            self._wait_for_quiet("open", "throttled", "closed")
        finally:
            calm.finish()

    def _wait_for_quiet(self, *states: str) -> None:
        session = self._session

        def quiet() -> bool:
            for job, _, _ in self._jobs:
                if job.ended():
                    raise BenchmarkError(job.explain())
            rest = (session.batch.sleeps(scope, payloads) for _, scope, payloads in self._jobs)
            return session.guard.state() in states and all(rest)

        def explain() -> str:
            return "\n".join([session.guard.why(), *(job.explain() for job, _, _ in self._jobs)])

        wait_until(quiet, QUIET_SECONDS, "the jobs are idle and nobody is frozen", interval=2.0, explain=explain)

    def _attack(self) -> list[str]:
        threads = self._options.threads
        if self._options.hog == "xrootd":
            file = self._session.clients.storage.disks[0][-1]
            return [f"hog-xrootd --url root://{self._host}/{file} --streams {threads}"]
        disk = f"hog-disk --threads {threads} --size 64MiB"
        return [disk, *OTHERS] if self._options.hog == "mix" else [disk]


def record(options: argparse.Namespace, out: Path) -> Record:
    if options.pairs < 1:
        raise BenchmarkError("--pairs must be at least 1")
    with lab_session(LAYOUTS[options.hog], out, [DISK]) as session:
        return Isolation(session, options, Story()).record()


def study(record: Record) -> dict[str, Any]:
    offset = float(record.data["clock"]["offset"])
    node = NodeTimeline.parse(record.file("node").read_text(), offset)
    decisions = Decisions.parse(record.file("journal").read_text(), offset)
    cpus = cpu_list(str(record.host["node"].get("allowed_cpus", "")))
    segments = record.data["segments"]
    latency = [segment for segment in segments if segment["measure"] == "latency"]
    scores: stats.Floats = np.array([])
    if latency:
        requests = Requests.load(record.file("requests"))
        scores = _per_second(requests, [segment for segment in latency if segment["kind"] == HYBRID])
    for segment in latency:
        found = requests.due_between(segment["start"], segment["end"])
        answered = float(requests.answered_per_second(segment["start"], segment["end"]).mean())
        segment |= {"p50": found.quantile(0.5), "p99": found.quantile(0.99), "failed": found.failed, "rate": answered}
    hybrid = [segment for segment in segments if segment["kind"] == HYBRID]

    def cpu_share(cgroup: str) -> float:
        shares = [node.delivered_share(cpus, segment["start"], segment["end"], cgroup) for segment in hybrid]
        return float(np.mean(shares)) if shares and cgroup in node.cpu else float("nan")

    last_io = np.array(_last_io(node, decisions, str(record.data.get("device", "")), hybrid))
    # In a saturating window storage is slow by itself, and the guard may try what a freeze does.
    peaceful = [segment for segment in latency if segment["kind"] != HYBRID]
    results: dict[str, Any] = {
        "isol_p05": stats.isolation_score(scores, 1.0, 0.05),
        "isol_p01": stats.isolation_score(scores, 1.0, 0.01),
        "seconds_scored": len(scores),
        "idle_cpu_used": cpu_share(JOBS),
        "idle_cpu_innocent": cpu_share(str(record.data.get("innocent", ""))),
        "freezes_hybrid": len(last_io),
        "last_io_p50": stats.quantile(last_io, 0.5),
        "last_io_p99": stats.quantile(last_io, 0.99),
        # A precaution that became a real freeze is both.
        "false_actions": _count(decisions, peaceful, ("freeze", "extend"), precaution=False),
        "precautions_peaceful": _count(decisions, peaceful, ("freeze",), precaution=True),
        "frozen_share_hybrid": _frozen(decisions, hybrid),
    }
    if latency:
        results |= {key: _ratios(latency, key) for key in ("p50", "p99", "rate")}
        results["noise_p99"] = stats.spread([segment["p99"] for segment in latency if segment["kind"] == ALONE])
    throughput = [segment for segment in segments if segment["measure"] == "throughput"]
    if throughput:
        results["throughput"] = _ratios(throughput, "mb_s")
        rates = [segment["mb_s"] for segment in throughput if segment["kind"] == ALONE]
        results["noise_throughput"] = stats.spread(rates)
    return results


def _ratios(segments: list[dict[str, Any]], key: str) -> dict[str, Any]:
    """The median of each kind of window, and of each round one kind against another."""
    values = {kind: [segment[key] for segment in _in_rounds(segments, kind)] for kind in KINDS}

    def against(kind: str, other: str) -> dict[str, Any]:
        # Records of before the third kind have two.
        ratios = [a / b for a, b in zip(values[kind], values[other], strict=False)] or [float("nan")]
        bounds = {"upper": stats.upper_bound(ratios), "lower": stats.lower_bound(ratios)}
        return {"ratios": ratios, "median": stats.median(ratios), **bounds}

    return {
        **{kind: stats.median(values[kind] or [float("nan")]) for kind in KINDS},
        "to_alone": against(HYBRID, ALONE),
        "to_innocent": against(HYBRID, INNOCENT),
        "of_cpu": against(INNOCENT, ALONE),
    }


def _in_rounds(segments: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """The windows of one kind, one of each round."""
    return sorted((one for one in segments if one["kind"] == kind), key=lambda one: int(one["pair"]))


def _per_second(requests: Requests, segments: list[dict[str, Any]]) -> stats.Floats:
    """For each second: requests answered over requests asked for."""
    shares = []
    for segment in segments:
        answered = requests.answered_per_second(segment["start"], segment["end"])
        edges = segment["start"] + np.arange(len(answered) + 1)
        asked = np.histogram(requests.due, bins=edges)[0]
        shares.append(answered / np.maximum(asked, 1))
    return np.concatenate(shares) if shares else np.array([])


def _count(decisions: Decisions, segments: list[dict[str, Any]], actions: tuple[str, ...], *, precaution: bool) -> int:
    found = [item for segment in segments for item in decisions.between(segment["start"], segment["end"]).items]
    return sum(item.action in actions and item.precaution == precaution for item in found)


def _last_io(node: NodeTimeline, decisions: Decisions, device: str, segments: list[dict[str, Any]]) -> list[float]:
    """Of each freeze that the kernel confirmed: seconds from its decision to the last request of the hostile job on the
    disk that clients use."""
    found = []
    for segment in segments:
        for item in decisions.between(segment["start"], segment["end"]).items:
            if item.action != "freeze" or (frozen := node.frozen_at(item.time)) is None:
                continue
            thaw = decisions.first("thaw", item.time)
            if thaw is not None and thaw.time < frozen:
                continue  # a short precaution: that is another freeze's
            thawed = node.thawed_at(frozen) or segment["end"]
            found.append(node.last_batch_io(device, frozen, thawed) - item.time)
    return found


def _frozen(decisions: Decisions, segments: list[dict[str, Any]]) -> float:
    total = sum(segment["end"] - segment["start"] for segment in segments)
    frozen = sum(decisions.frozen_seconds(segment["start"], segment["end"]) for segment in segments)
    return frozen / total if total else float("nan")


def times(ratio: float) -> str:
    return text.NOTHING if math.isnan(ratio) else f"{ratio:.3f}"


def show(record: Record, results: dict[str, Any]) -> str:
    def ratio(name: str, key: str, unit: Any, bound: str, target: str) -> list[str]:
        found = results[key]
        ratios = [times(found[one]["median"]) for one in AGAINST]
        return [name, *(unit(found[kind]) for kind in KINDS), *ratios, f"{found['to_alone'][bound]:.3f}", target]

    ratios = ["innocent/alone", "hybrid/innocent", "hybrid/alone"]
    rows = [["", *KINDS, *ratios, "its 95 % bound", "target"]]
    if "p99" in results:
        rows.append(ratio("client p50", "p50", text.seconds, "upper", ""))
        rows.append(ratio("client p99", "p99", text.seconds, "upper", "<= 1.04"))
        first = [times(results["p99"][one]["ratios"][0]) for one in AGAINST]
        rows.append(["client p99, first round", *[""] * len(KINDS), *first, "", ""])
        rows.append(ratio("answered", "rate", lambda value: f"{value:.1f}/s", "lower", ">= 0.99"))
    if "throughput" in results:
        rows.append(
            ratio("throughput, saturating", "throughput", lambda value: f"{value:.2f} MB/s", "lower", ">= 0.99")
        )
    more = [
        ["isol-p05, isol-p01", f"{results['isol_p05']:.0f}, {results['isol_p01']:.0f}", "target >= 95, >= 90"],
        ["seconds scored", str(results["seconds_scored"]), "target >= 600"],
        ["idle CPU that the innocent job got", text.percent(results["idle_cpu_innocent"]), "target >= 85 %"],
        ["idle CPU that batch got", text.percent(results["idle_cpu_used"]), ""],
        [
            f"decision to last request of the hostile job, {results['freezes_hybrid']} confirmed freezes, p50, p99",
            f"{text.seconds(results['last_io_p50'])}, {text.seconds(results['last_io_p99'])}",
            f"target <= {text.seconds(LAST_IO_TARGET)}",
        ],
        ["time frozen under attack", text.percent(results["frozen_share_hybrid"]), ""],
        ["freezes while nobody attacks", str(results["false_actions"]), "target 0"],
        ["precautions while nobody attacks", str(results["precautions_peaceful"]), ""],
    ]
    if "noise_p99" in results:
        more.append(["lab noise, p99 (largest / smallest alone)", f"{results['noise_p99']:.3f}", ""])
    if "noise_throughput" in results:
        more.append(["lab noise, throughput", f"{results['noise_throughput']:.3f}", ""])
    return "\n".join([text.table(rows), "", text.table(more, header=False)])

# SPDX-License-Identifier: Apache-2.0
"""Drives the demo and records it. Nothing is computed here: a record can be studied again with `beerbench study`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from ..batch import Job
from ..clients import Load
from ..errors import BenchmarkError
from ..record import Record
from ..session import Session
from ..stats import median
from ..transfers import File, Transfers
from ..waiting import Story, wait_until

DISK = "/data/01"
NAME = "requests"
# Seconds (lines of the client) in a row that storage must be as before.
RECOVERED = 3


@dataclass(frozen=True)
class Plan:
    """Seconds, shares and jobs of the demo."""

    alone: float = 18
    unguarded: float = 18
    guarded: float = 28
    after: float = 6
    # Of the capacity that the saturating run found; the copies of xrdcp make it some 0.7 (DESIGN section 7).
    load: float = 0.6
    saturate: float = 6
    connections: int = 24
    hog_threads: int = 24
    # Enough collisions to be busy until the end, on a node as fast as the one that is measured.
    busy_seconds: float = 25
    events_per_host_second: float = 90


class Demo:
    def __init__(self, session: Session, plan: Plan, real_files: list[File], story: Story) -> None:
        self._session = session
        self._plan = plan
        self._files = real_files
        self._story = story
        self._phases: dict[str, list[float]] = {}
        # p99 of the users' last seconds, in milliseconds; None = no answers.
        self._p99: list[float | None] = []
        self._marks: list[dict[str, Any]] = []

    def record(self) -> Record:
        """The whole run, about two and a half minutes."""
        session, plan, story = self._session, self._plan, self._story
        facts = session.facts()
        speed = session.speed()
        device = session.device(DISK)
        story.say(
            f"the node runs {facts['node'].get('xrootd', '?')} and {facts['node'].get('condor', '?')};"
            f" its CPU is {1 / speed:.0f} times slower than this machine's"
            if speed < 0.5
            else "the node is up"
        )
        capacity = session.capacity(plan.saturate, plan.connections)
        rate = plan.load * capacity["requests_per_s"]
        story.say(
            f"{DISK} gives {capacity['requests_per_s']:.0f} requests/s; the storage users will ask for {rate:.0f}/s"
        )
        session.drop_caches()
        session.start_sampler(900)
        load = Load(duration=900, connections=plan.connections, rate=rate)
        users = session.clients.start("open_loop", NAME, load, self._show)
        users.wait_ready(120)
        transfers = Transfers(session.clients, self._files)
        physics: Job | None = None
        try:
            with self._phase("alone", "A  storage alone"):
                self._last(plan.alone)
            calm = median([p99 for p99 in self._p99 if p99 is not None])
            physics, hogs = self._unguarded(speed)
            self._recover(calm)
            hogs += self._guarded()
        except BaseException:
            users.kill()
            raise
        finally:
            copies = transfers.finish()
        end = users.finish()
        story.say("the storage users are done; waiting for the physics job")
        report = physics.report(240)
        story.say(f"physics job: {report.get('events', '?')} collisions, every number checked")
        reports = {str(hog.cluster): self._report_of(hog) for hog in hogs}
        data = {
            "phases": self._phases,
            "marks": self._marks,
            "disk": DISK,
            "device": device,
            "rate": rate,
            "capacity": capacity,
            "speed": speed,
            "client": end,
            "transfers": copies,
            "physics": {"cluster": physics.cluster, "report": report},
            "hogs": reports,
            "why": session.guard.why("10m"),
            **session.collect(),
        }
        session.keep_samples(NAME)
        record = Record("demo", asdict(plan), facts, data)
        record.save(session.out)
        return record

    def _unguarded(self, speed: float) -> tuple[Job, list[Job]]:
        session, plan, story = self._session, self._plan, self._story
        session.guard.wait_for_state("open", 120)
        story.say("a physics job and a hostile job are submitted, and the guard is killed")
        events = max(50, int(plan.busy_seconds * plan.events_per_host_second * speed))
        node = session.node.execute("hostname").stdout.strip()
        output = f"root://{node}//data/02/jobs/demo-{int(time.time())}.root"
        physics = session.batch.submit(f"physics --events {events} --seed 7 --output {output}")
        hog = session.batch.submit(self._attack(plan.unguarded + 10))
        session.batch.wait_for_match([physics, hog], 90)
        self._mark("guard_gone")
        session.guard.take_away()
        session.batch.wait_for_containers([physics, hog], 90)
        story.say("both run in containers below beer-jobs.slice")
        with self._phase("unguarded", "B  with the hostile job, no guard"):
            self._last(plan.unguarded)
        hog.remove()
        return physics, [hog]

    def _recover(self, calm: float) -> None:
        """Lets the guard find storage in health: what it saw before would keep new jobs out for minutes."""
        story, guard = self._story, self._session.guard
        story.say("the hostile job is removed; waiting for the storage users to recover")

        def recovered() -> bool:
            last = self._p99[-RECOVERED:]
            return len(last) == RECOVERED and all(p99 is not None and p99 <= 2 * calm + 10 for p99 in last)

        self._p99.clear()
        wait_until(recovered, 90, "storage recovers from the attack")
        self._mark("guard_back")
        guard.bring_back()
        story.say("the guard is back and learns what is usual")
        guard.wait_until_learned(180)

    def _guarded(self) -> list[Job]:
        session, plan, story = self._session, self._plan, self._story
        hog = session.batch.submit(self._attack(plan.guarded - 8))
        story.say("the same attack again, now with the guard")
        session.batch.wait_for_containers([hog], 90)
        with self._phase("guarded", "C  with the hostile job, guarded"):
            self._last(plan.guarded)
        hog.remove()
        with self._phase("after", "   after the attack"):
            self._last(plan.after)
        return [hog]

    def _attack(self, seconds: float) -> str:
        return f"hog-disk --threads {self._plan.hog_threads} --size 64MiB --seconds {seconds:g}"

    def _report_of(self, hog: Job) -> dict[str, Any]:
        """What a hog says of itself, if it came to its end."""
        try:
            return hog.report(1) if hog.ended() else {}
        except BenchmarkError:
            return {}

    @contextmanager
    def _phase(self, name: str, title: str) -> Iterator[None]:
        self._story.say(title)
        start = time.time()
        yield
        self._phases[name] = [start, time.time()]

    def _last(self, seconds: float) -> None:
        time.sleep(seconds)

    def _mark(self, what: str) -> None:
        self._marks.append({"time": time.time(), "what": what})

    def _show(self, line: dict[str, Any]) -> None:
        p50, p99 = line["p50_ms"], line["p99_ms"]
        self._p99.append(p99)
        shown = "no answers" if p50 is None else f"p50 {p50:6.1f} ms   p99 {p99:7.1f} ms"
        self._story.live(f"{shown}   {line['mb_s']:5.1f} MB/s   waiting {line['outstanding']:4}")

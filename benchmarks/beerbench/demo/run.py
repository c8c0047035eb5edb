# SPDX-License-Identifier: Apache-2.0
"""Drives the demo and records it. Nothing is computed here: a record can be studied again with `beerbench study`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from ..clients import Load
from ..errors import BenchmarkError
from ..host import cpu_speed
from ..neighbours import Neighbours
from ..record import Record
from ..session import Session
from ..transfers import File, Transfers
from ..waiting import Story
from .jobs import Waiting, waiting
from .plan import EMULATED, Plan

DISK = "/data/01"
NAME = "requests"


class Demo:
    """`iops` is what the disk is throttled to."""

    def __init__(self, session: Session, plan: Plan, iops: float, real_files: list[File], story: Story) -> None:
        self._session = session
        self._plan = plan
        self._iops = iops
        self._files = real_files
        self._story = story
        self._phases: dict[str, list[float]] = {}
        self._marks: list[dict[str, Any]] = []
        # Phase -> start of its attack, in the node's time.
        self._attacks: dict[str, float] = {}

    def record(self) -> Record:
        """The whole run."""
        session, plan, story = self._session, self._plan, self._story
        facts = session.facts()
        speed = cpu_speed(session.node)
        device = session.device(DISK)
        story.say(
            f"the node runs {facts['node'].get('xrootd', '?')} and {facts['node'].get('condor', '?')};"
            f" its CPU is {1 / speed:.0f} times slower than this machine's"
            if speed < EMULATED
            else "the node is up"
        )
        hog, physics = (waiting(session.node, name) for name in ("hog", "physics"))
        story.say("a physics job, and one that will turn hostile, wait in containers below beer-jobs.slice")
        rate = plan.load * self._iops
        story.say(f"{DISK} is throttled to {self._iops:.0f} requests/s; the storage users will ask for {rate:.0f}/s")
        session.guard.prepare()
        session.drop_caches()
        session.start_sampler(900, hog.scope)
        load = Load(duration=900, connections=plan.connections, rate=rate)
        users = session.clients.start("open_loop", NAME, load, self._show)
        users.wait_ready(120)
        transfers = Transfers(session.clients, self._files, plan.copy_rate)
        try:
            with Neighbours() as neighbours:
                self._last(plan.settle)
                with self._phase("alone", "A  storage alone"):
                    self._last(plan.alone)
                self._guarded(hog, physics)
                self._unguarded(hog)
        except BaseException:
            users.kill()
            raise
        finally:
            copies = transfers.finish()
        end = users.finish()
        through = not physics.job.ended()
        self._mark("guard_back")
        session.guard.bring_back()
        story.say("the storage users are done; waiting for the physics job")
        report = physics.job.report(240)
        story.say(f"physics job: {report.get('events', '?')} collisions, every number checked")
        data = {
            "phases": self._phases,
            "marks": self._marks,
            "attacks": self._attacks,
            "disk": DISK,
            "device": device,
            "rate": rate,
            "iops": self._iops,
            "speed": speed,
            "client": end,
            "transfers": copies,
            "neighbours": neighbours.samples,
            "physics": {"cluster": physics.job.cluster, "report": report, "through": through},
            "why": session.guard.why(f"{time.time() - self._phases['guarded'][0]:.0f}s"),
            **session.collect(),
        }
        session.keep_samples(NAME)
        record = Record("demo", asdict(plan), facts, data)
        record.save(session.out)
        return record

    def _guarded(self, hog: Waiting, physics: Waiting) -> None:
        session = self._session
        self._story.say("the physics job begins as soon as the guard knows what is usual")
        try:
            session.guard.wait_until_learned(self._plan.learn)
        except BenchmarkError:
            # Neighbours of a virtual machine can take half of it: the table says what storage alone was like.
            self._story.say("storage is not calm by itself: this machine is busy; going on all the same")
        session.batch.signal(physics.scope)
        self._attack("guarded", "B  with the hostile job, guarded", hog)
        with self._phase("after", "   after the attack"):
            self._last(self._plan.after)

    def _unguarded(self, hog: Waiting) -> None:
        """Last: storage, and then the guard, would take a minute to get over it."""
        self._story.say("the guard is killed")
        self._mark("guard_gone")
        self._session.guard.take_away()
        self._attack("unguarded", "C  with the hostile job, no guard", hog)
        self._last(self._plan.drain)

    def _attack(self, name: str, title: str, hog: Waiting) -> None:
        """A phase in which the hog attacks, from a moment inside it on, so that the onset counts."""
        self._session.forget([file.path for file in self._files])
        with self._phase(name, title):
            end = time.monotonic() + self._plan.attacked
            self._last(self._plan.lead)
            self._attacks[name] = self._session.batch.signal(hog.scope)
            self._last(end - time.monotonic())

    @contextmanager
    def _phase(self, name: str, title: str) -> Iterator[None]:
        self._story.say(title)
        start = time.time()
        yield
        self._phases[name] = [start, time.time()]

    def _last(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))

    def _mark(self, what: str) -> None:
        self._marks.append({"time": time.time(), "what": what})

    def _show(self, line: dict[str, Any]) -> None:
        p50, p99 = line["p50_ms"], line["p99_ms"]
        shown = "no answers" if p50 is None else f"p50 {p50:6.1f} ms   p99 {p99:7.1f} ms"
        self._story.live(f"{shown}   {line['mb_s']:5.1f} MB/s   waiting {line['outstanding']:4}")

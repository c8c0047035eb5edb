# SPDX-License-Identifier: Apache-2.0
"""The guard of the node: take it away, bring it back, ask it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from .errors import BenchmarkError
from .lab import Node
from .timeline.decisions import Decision, Decisions
from .waiting import wait_until

DROP_IN = "/run/systemd/system/beer-guard.service.d/bench-unguarded.conf"
JOBS = "/sys/fs/cgroup/beer.slice/beer-jobs.slice"
JOURNAL = "/var/lib/beer/journal"
# One that was killed because its node stood still is there again by then.
HEARD_WITHIN = 30.0


class Guard:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._prepared = False

    def prepare(self) -> None:
        """From here on nothing takes the guard's place when it is killed: neither a restart nor its static caps.

        Once, since systemd's reload takes seconds on an emulated node; the running guard does not notice.
        """
        if not self._prepared:
            self._node.execute(
                f"[ -e {DROP_IN} ] || {{ mkdir -p $(dirname {DROP_IN}) && "
                f"printf '[Service]\\nRestart=no\\nExecStopPost=\\n' > {DROP_IN} && systemctl daemon-reload; }}",
                timeout=300,
            )
            self._prepared = True

    def restore(self) -> None:
        """The unit as it was installed."""
        if self._prepared:
            self._node.execute(f"rm {DROP_IN} && systemctl daemon-reload", timeout=300)
            self._prepared = False

    def take_away(self) -> None:
        """Kills it; thaws what it may just have frozen, lifts limits that it may have set, and gives swap back."""
        self.prepare()
        self._node.execute(
            "systemctl stop beer-deadman.timer && systemctl kill -s KILL beer-guard && "
            f"for knob in {JOBS}/cgroup.freeze {JOBS}/*/cgroup.freeze; do [ ! -e $knob ] || echo 0 > $knob; done; "
            f"lifted=/run/beer/guard/idle-lifted; [ ! -e $lifted ] || {{ echo 1 > {JOBS}/cpu.idle; rm $lifted; }}; "
            "systemctl set-property --runtime beer-jobs.slice IOReadIOPSMax= IOWriteIOPSMax= IOReadBandwidthMax= "
            "IOWriteBandwidthMax= && "
            f"for knob in {JOBS}/io.max {JOBS}/*/io.max; do [ ! -e $knob ] || "
            "sed 's/=[0-9][0-9]*/=max/g' $knob | while read -r line; do echo \"$line\" > $knob; done; done; "
            f"for knob in {JOBS}/*/memory.high; do [ ! -e $knob ] || echo max > $knob; done; "
            "[ ! -e /run/beer/guard/swap-taken ] || "
            "systemctl set-property --runtime beer-jobs.slice MemorySwapMax=infinity",
            timeout=300,
        )

    def bring_back(self) -> None:
        self._node.execute(
            "systemctl reset-failed beer-guard; systemctl start beer-guard beer-deadman.timer", timeout=300
        )

    def state(self) -> str:
        text = self._node.execute("cat /run/beer/guard/state").stdout
        return text.split(" ", 1)[0].removeprefix("state=").strip()

    def wait_for_state(self, state: str, timeout: float) -> None:
        """Until HTCondor and operators are told so; the latter hear up to a second later."""

        def told() -> bool:
            return self.state() == state and self.status()["state"] == state

        wait_until(told, timeout, f"the guard says {state!r}", interval=2.0, explain=self.why)

    def wait_until_learned(self, timeout: float) -> None:
        """Until it lets jobs in and knows what is usual for the reads that run: the first ones of cold connections
        are slow, and without a baseline only the share over the threshold counts."""

        def learned() -> bool:
            status = self.status()
            reads = next(one for one in status["objectives"] if one["name"] == "storage-read")
            return bool(status["admit"] and reads["level"] == "calm" and reads["dependence"])

        what = "the guard has learned what is usual and lets jobs in"
        wait_until(learned, timeout, what, interval=2.0, explain=self.why)

    def heard(self) -> dict[str, Any] | None:
        """What it says of itself, if it lives: just after its whole node stood still it does not seem to."""
        said = self._node.execute("beer status --json", check=False)
        return dict(json.loads(said.stdout)) if said.status == 0 else None

    def status(self) -> dict[str, Any]:
        status = wait_until(self.heard, HEARD_WITHIN, "the guard says how it is", interval=1.0, explain=self.why)
        assert status is not None
        return status

    def why(self, since: str = "10m") -> str:
        return self._node.execute(f"beer why --since {since}", check=False, timeout=120).stdout

    def journal(self) -> str:
        return self._node.execute(f"cat {JOURNAL}/*.jsonl", check=False, timeout=120).stdout

    def decisions(self) -> Sequence[Decision]:
        """All of its journal, oldest first, in the node's time."""
        return Decisions.parse(self.journal()).items

    def frozen(self) -> bool:
        """Whether the kernel says so of any job, or of their slice."""
        return "frozen 1" in self._node.execute(f"cat {JOBS}/cgroup.events {JOBS}/*/cgroup.events", check=False).stdout

    def metric(self, name: str, absent: float | None = None) -> float:
        """Sum of all series of a metric; `absent` if it has none, as a counter of what has not happened yet."""
        text = self._node.execute(
            "curl -sS --max-time 20 --retry 5 --retry-delay 2 --retry-max-time 40 --retry-connrefused http://127.0.0.1:9721/metrics"
        ).stdout
        series = [line.rsplit(" ", 1) for line in text.splitlines() if re.match(rf"{name}[ {{]", line)]
        if not series and absent is not None:
            return absent
        if not series:
            raise BenchmarkError(f"no metric {name} in\n{text}")
        return sum(float(value) for _, value in series)

    def pid(self) -> int:
        return int(self._node.execute("systemctl show -P MainPID beer-guard").stdout)

# SPDX-License-Identifier: Apache-2.0
"""The guard of the node: take it away, bring it back, ask it."""

from __future__ import annotations

import json

from .lab import Node
from .waiting import wait_until

DROP_IN = "/run/systemd/system/beer-guard.service.d/bench-unguarded.conf"
JOBS = "/sys/fs/cgroup/beer.slice/beer-jobs.slice"
JOURNAL = "/var/lib/beer/journal"


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
                f"mkdir -p $(dirname {DROP_IN}) && printf '[Service]\\nRestart=no\\nExecStopPost=\\n' > {DROP_IN} && "
                "systemctl daemon-reload",
                timeout=300,
            )
            self._prepared = True

    def restore(self) -> None:
        """The unit as it was installed."""
        if self._prepared:
            self._node.execute(f"rm {DROP_IN} && systemctl daemon-reload", timeout=300)
            self._prepared = False

    def take_away(self) -> None:
        """Kills it, and thaws what it may just have frozen."""
        self.prepare()
        self._node.execute(
            "systemctl stop beer-deadman.timer && systemctl kill -s KILL beer-guard && "
            f"for knob in {JOBS}/cgroup.freeze {JOBS}/*/cgroup.freeze; do [ ! -e $knob ] || echo 0 > $knob; done",
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
        wait_until(lambda: self.state() == state, timeout, f"the guard says {state!r}", interval=2.0)

    def wait_until_learned(self, timeout: float) -> None:
        """Until it knows what is usual for the load that runs; a guard that was just started knows nothing."""

        def learned() -> bool:
            status = json.loads(self._node.execute("beer status --json").stdout)
            return bool(status["admit"]) and any(one["learned"] for one in status["objectives"])

        wait_until(learned, timeout, "the guard has learned what is usual", interval=2.0)

    def why(self, since: str) -> str:
        return self._node.execute(f"beer why --since {since}", check=False, timeout=120).stdout

    def journal(self) -> str:
        return self._node.execute(f"cat {JOURNAL}/*.jsonl", check=False, timeout=120).stdout

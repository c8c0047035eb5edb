# SPDX-License-Identifier: Apache-2.0
"""What the guard says, and what the kernel says about its work."""

from __future__ import annotations

import json
from typing import Any

from beerlab import Machine

from support.waiting import wait_until

JOBS = "/sys/fs/cgroup/beer.slice/beer-jobs.slice"


class Guard:
    """The guard of one node."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def status(self) -> dict[str, Any]:
        return json.loads(self.machine.execute("beer status --json").stdout)

    def state_line(self) -> dict[str, str]:
        """The line that the control loop itself writes."""
        text = self.machine.execute("cat /run/beer/guard/state").stdout
        return dict(word.split("=", 1) for word in text.split())

    @property
    def state(self) -> str:
        return self.state_line()["state"]

    def wait_for_state(self, *states: str, timeout: float) -> str:
        return wait_until(
            lambda: self.state if self.state in states else "",
            timeout,
            f"guard is {' or '.join(states)}",
            explain=self.why,
        )

    def wait_until_used_to_load(self, timeout: float = 240) -> None:
        """Until a storage load that has just begun is nothing new: the first requests of cold connections are slow, and
        without a baseline the detector sees only the share over the threshold."""

        def used() -> bool:
            status = self.status()
            reads = next(item for item in status["objectives"] if item["name"] == "storage-read")
            return status["admit"] and reads["level"] == "calm" and reads["learned"]

        wait_until(used, timeout, "the guard is used to the load and lets jobs in", interval=2, explain=self.why)

    def why(self) -> str:
        return self.machine.execute("beer why --since 10m", check=False).stdout

    def journal(self) -> list[dict[str, Any]]:
        """All decisions, oldest first."""
        text = self.machine.execute("cat /var/lib/beer/journal/*.jsonl", check=False).stdout
        return [json.loads(line) for line in text.splitlines() if line.strip()]

    def frozen(self) -> bool:
        """What the kernel says of the slice of the jobs."""
        events = self.machine.execute(f"cat {JOBS}/cgroup.events").stdout
        return "frozen 1" in events

    def metric(self, name: str) -> float:
        """Sum of all series of a metric."""
        text = self.machine.execute("curl -sS --max-time 20 http://127.0.0.1:9721/metrics").stdout
        values = [
            float(line.rsplit(" ", 1)[1])
            for line in text.splitlines()
            if not line.startswith("#") and line.split("{", 1)[0].split(" ", 1)[0] == name
        ]
        assert values, f"no metric {name} in\n{text}"
        return sum(values)

    def pid(self) -> int:
        return int(self.machine.execute("systemctl show -P MainPID beer-guard").stdout)

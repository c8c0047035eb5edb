# SPDX-License-Identifier: Apache-2.0
"""Jobs as a user of the node submits them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .errors import BenchmarkError
from .guard import JOBS
from .lab import Node
from .waiting import wait_until

USER = "alice"
KEYTAB = "/etc/beer/keys/batch.keytab"
LOG = f"/home/{USER}/bench.log"
DESCRIPTION = """\
universe = docker
docker_image = beer-job:latest
executable = /usr/bin/beer-payload
transfer_executable = false
arguments = {arguments}
should_transfer_files = yes
when_to_transfer_output = on_exit
transfer_input_files = batch.keytab
environment = XrdSecSSSKT=batch.keytab
output = bench.$(Cluster).out
error = bench.$(Cluster).err
log = bench.log
request_cpus = 1
request_memory = 256MB
request_disk = 100MB
+BeerQueue = "beer"
{more}
queue
"""
# HTCondor manual, "Job ClassAd Attributes"
IDLE, RUNNING, REMOVED, HELD = 1, 2, 3, 5
# Its init process would pass on a second signal: $pids are the payloads themselves.
PAYLOADS = (
    "pids=$(for pid in $(cat {scope}/cgroup.procs); do "
    '[ "$(cat /proc/$pid/comm 2>/dev/null)" != beer-payload ] || echo $pid; done); [ -n "$pids" ]'
)
# Lines of two words each: what to look for -> what is known of it. Both cost an emulated node a second: they are asked
# only when there are enough containers, or the log tells of a job that was removed or held.
KNOWN = (
    "if [ $(ls -d {jobs}/docker-*.scope 2>/dev/null | wc -l) -ge {count} ] || grep -qsE '^(009|012) ' {log}; then "
    "docker ps --no-trunc --format '{{{{.Names}}}} {{{{.ID}}}}'; condor_q -all -af ClusterId JobStatus; fi"
)


@dataclass(frozen=True)
class Job:
    """One submitted job."""

    node: Node
    cluster: int
    arguments: str

    def attributes(self, *names: str) -> list[str]:
        """From the queue, or from the history once the job has left it."""
        asked = f"{self.cluster} -af {' '.join(names)}"
        command = f"condor_q -all {asked} | grep . || condor_history -limit 1 {asked} | grep ."
        return self.node.execute(command, timeout=120).stdout.split()

    @property
    def status(self) -> int:
        return int(self.attributes("JobStatus")[0])

    def ended(self) -> bool:
        """It has come to its end, or was removed or held."""
        return self.node.execute(f"grep -qE '^(005|009|012) \\(0*{self.cluster}\\.' {LOG}", check=False).status == 0

    def report(self, timeout: float) -> dict[str, Any]:
        """Waits for the end; the JSON report that the payload printed."""
        what = f"job {self.cluster} ({self.arguments}) ends"
        wait_until(self.ended, timeout, what, interval=1.0, explain=self.explain)
        text = self.node.execute(f"cat /home/{USER}/bench.{self.cluster}.out", check=False).stdout.strip()
        if not text:
            raise BenchmarkError(self.explain())
        return dict(json.loads(text.splitlines()[-1]))

    def remove(self) -> None:
        self.node.execute(f"condor_rm {self.cluster}", check=False, timeout=120)

    def explain(self) -> str:
        """Why it is where it is."""
        said = self.node.execute(
            f"condor_q -all {self.cluster} -af JobStatus HoldReason; "
            f"condor_q -all -better-analyze {self.cluster} | tail -15; tail -n 5 /home/{USER}/bench.{self.cluster}.*",
            check=False,
            timeout=120,
        ).stdout
        return f"job {self.cluster} ({self.arguments}):\n{said}"


class Batch:
    """The access point on the node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        node.execute(f"install -o {USER} -g {USER} -m 0600 {KEYTAB} /home/{USER}/batch.keytab")

    def submit(self, arguments: str, more: str = "") -> Job:
        """A job of the payload; `more` lines of the description."""
        done = self._node.execute(
            f"cd /home/{USER} && runuser -u {USER} -- condor_submit -terse -",
            input=DESCRIPTION.format(arguments=arguments, more=more),
            timeout=120,
        )
        return Job(self._node, int(done.stdout.split(".")[0]), arguments)

    def submit_mix(self, payloads: Sequence[str], memory: str, signals: int = 1) -> Job:
        """One job that runs several payloads at once, each of which waits for so many signals."""
        script = " & ".join(f"beer-payload {one} --on-signal {signals}" for one in payloads)
        # The last line of that name counts.
        return self.submit(f"\"-c '{script} & wait'\"", f"executable = /bin/sh\nrequest_memory = {memory}")

    def wait_for_containers(self, jobs: list[Job], timeout: float) -> list[str]:
        """Until the containers of all jobs run; their cgroups. Fails at once when one is held or removed."""

        def running() -> list[str]:
            known = self._ask(KNOWN.format(jobs=JOBS, count=len(jobs), log=LOG))
            for job in jobs:
                if known.get(str(job.cluster)) in (str(HELD), str(REMOVED)):
                    raise BenchmarkError(job.explain())
            starts = [f"HTCJob{job.cluster}_0_" for job in jobs]
            found = [known[name] for start in starts for name in known if name.startswith(start)]
            return [f"{JOBS}/docker-{container}.scope" for container in found] if len(found) == len(jobs) else []

        return wait_until(running, timeout, "containers run", explain=lambda: _explain(jobs))

    def wait_until_ready(self, job: Job, timeout: float, payloads: int = 1) -> str:
        """Until a job waits for its signal (`--on-signal`), with all its payloads; its cgroup."""
        [scope] = self.wait_for_containers([job], timeout)
        what = f"{scope} waits for its signal"
        wait_until(lambda: self.sleeps(scope, payloads), timeout, what, interval=2.0, explain=job.explain)
        return scope

    def sleeps(self, scope: str, payloads: int = 1) -> bool:
        """Whether so many payloads in this cgroup are in sigwait: before that a signal would end them, or come too
        early. What is frozen is not."""
        asked = f"{PAYLOADS.format(scope=scope)} && for pid in $pids; do cat /proc/$pid/wchan; echo; done"
        return self._node.execute(asked, check=False).stdout.count("sigtimedwait") >= payloads

    def signal(self, scope: str) -> float:
        """Lets all that waits in this cgroup begin; the node's time of that."""
        said = self._node.execute(f"{PAYLOADS.format(scope=scope)} && date +%s.%N && kill -USR1 $pids")
        return float(said.stdout)

    def _ask(self, command: str) -> dict[str, str]:
        """First word of each line -> second."""
        lines = [line.split() for line in self._node.execute(command, check=False).stdout.splitlines()]
        return {words[0]: words[1] for words in lines if len(words) == 2}

    def log(self) -> str:
        return self._node.execute(f"cat {LOG}", check=False).stdout


def _explain(jobs: list[Job]) -> str:
    return "\n".join(job.explain() for job in jobs)

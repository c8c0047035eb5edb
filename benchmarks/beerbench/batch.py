# SPDX-License-Identifier: Apache-2.0
"""Jobs as a user of the node submits them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .errors import BenchmarkError
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
queue
"""
# HTCondor manual, "Job ClassAd Attributes"
RUNNING, REMOVED, COMPLETED, HELD = 2, 3, 4, 5


@dataclass(frozen=True)
class Job:
    cluster: int
    arguments: str


class Batch:
    """The access point on the node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        node.execute(f"install -o {USER} -g {USER} -m 0600 {KEYTAB} /home/{USER}/batch.keytab")

    def submit(self, arguments: str) -> Job:
        done = self._node.execute(
            f"cd /home/{USER} && runuser -u {USER} -- condor_submit -terse -",
            input=DESCRIPTION.format(arguments=arguments),
            timeout=120,
        )
        return Job(int(done.stdout.split(".")[0]), arguments)

    def wait_for_match(self, jobs: list[Job], timeout: float) -> None:
        """Until HTCondor has given every job a slot; from then on START is no longer asked."""

        def matched() -> bool:
            queue = self._node.execute("condor_q -all -af ClusterId JobStatus").stdout
            status = dict(line.split()[:2] for line in queue.splitlines() if len(line.split()) >= 2)
            return all(status.get(str(job.cluster)) == str(RUNNING) for job in jobs)

        self._explained(jobs, lambda: wait_until(matched, timeout, "jobs get a slot"))

    def wait_for_containers(self, jobs: list[Job], timeout: float) -> None:
        """Until the containers of all jobs run. Fails at once when one is held or gone."""

        def running() -> bool:
            listed = self._node.execute("docker ps --format '{{.Names}}'; echo; condor_q -all -af ClusterId JobStatus")
            names, _, queue = listed.stdout.partition("\n\n")
            status = dict(line.split()[:2] for line in queue.splitlines() if len(line.split()) >= 2)
            for job in jobs:
                if status.get(str(job.cluster)) in (str(HELD), str(REMOVED)):
                    raise BenchmarkError(self.explain(job))
            return all(f"HTCJob{job.cluster}_0_" in names for job in jobs)

        self._explained(jobs, lambda: wait_until(running, timeout, "containers run"))

    def _explained(self, jobs: list[Job], wait: Callable[[], object]) -> None:
        try:
            wait()
        except BenchmarkError as error:
            raise BenchmarkError("\n".join([str(error), *(self.explain(job) for job in jobs)])) from error

    def remove(self, job: Job) -> None:
        self._node.execute(f"condor_rm {job.cluster}", check=False, timeout=120)

    def finished(self, job: Job) -> bool:
        return self._node.execute(f"grep -qE '^(005|009) \\(0*{job.cluster}\\.' {LOG}", check=False).status == 0

    def report(self, job: Job, timeout: float) -> dict[str, Any]:
        """Waits for the end of a job; the JSON report that its payload printed."""
        wait_until(lambda: self.finished(job), timeout, f"job {job.cluster} ({job.arguments}) ends", interval=1.0)
        text = self._node.execute(f"cat /home/{USER}/bench.{job.cluster}.out", check=False).stdout.strip()
        if not text:
            raise BenchmarkError(self.explain(job))
        return dict(json.loads(text.splitlines()[-1]))

    def explain(self, job: Job) -> str:
        """Why a job is where it is."""
        said = self._node.execute(
            f"condor_q -all {job.cluster} -af JobStatus HoldReason; "
            f"condor_q -all -better-analyze {job.cluster} | tail -15; tail -5 /home/{USER}/bench.{job.cluster}.err",
            check=False,
            timeout=120,
        ).stdout
        return f"job {job.cluster} ({job.arguments}):\n{said}"

    def log(self) -> str:
        return self._node.execute(f"cat {LOG}", check=False).stdout

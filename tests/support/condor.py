# SPDX-License-Identifier: Apache-2.0
"""Jobs as a user of the node submits them: `condor_submit`, a container, the queue of the storage nodes."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any

from beerlab import LabError, Machine

from support.waiting import wait_until

USER = "alice"
KEYTAB = "/etc/beer/keys/batch.keytab"
IMAGE = "beer-job:latest"

# JobStatus, HTCondor manual "Job ClassAd Attributes"
IDLE, RUNNING, REMOVED, COMPLETED, HELD = 1, 2, 3, 4, 5

DESCRIPTION = """\
universe = docker
docker_image = {image}
executable = /usr/bin/beer-payload
transfer_executable = false
arguments = {arguments}
should_transfer_files = yes
when_to_transfer_output = on_exit
transfer_input_files = batch.keytab
environment = XrdSecSSSKT=batch.keytab
output = $(Cluster).out
error = $(Cluster).err
log = $(Cluster).log
request_cpus = 1
request_memory = 256MB
request_disk = 100MB
+BeerQueue = "beer"
{extra}
queue
"""


@dataclass
class Job:
    """One submitted job."""

    machine: Machine
    cluster: int

    def attribute(self, name: str) -> str:
        """An attribute from the queue, or from the history once the job has left it; '' when there is none."""
        for tool in ("condor_q", "condor_history -limit 1"):
            result = self.machine.execute(f"{tool} {self.cluster} -af {name}", check=False)
            if result.status == 0 and result.stdout.strip():
                text = result.stdout.strip()
                return "" if text == "undefined" else text
        return ""

    @property
    def status(self) -> int:
        return int(self.attribute("JobStatus") or 0)

    def explain(self) -> str:
        """Why it is where it is, for the message of a failing test."""
        held = self.attribute("HoldReason")
        analysis = self.machine.execute(f"condor_q -better-analyze {self.cluster} | tail -n 25", check=False).stdout
        return f"job {self.cluster}: status {self.status}, {held or 'not held'}\n{analysis}"

    def wait_for(self, status: int, timeout: float) -> None:
        """Until it has that status; a held or removed job ends the wait at once."""

        def reached() -> bool:
            now = self.status
            if now in (HELD, REMOVED) and now != status:
                raise LabError(self.explain())
            return now == status or (status == RUNNING and now == COMPLETED)

        wait_until(reached, timeout, f"job {self.cluster} has status {status}", explain=self.explain)

    def wait_for_scope(self, timeout: float) -> str:
        """Until its container runs; its cgroup, relative to the root of the tree."""
        self.wait_for(RUNNING, timeout)

        def scope() -> str:
            listed = self.machine.execute(
                "docker ps --no-trunc --format '{{.ID}} {{.Names}}' --filter label=org.htcondorproject=True",
                check=False,
            ).stdout
            for line in listed.splitlines():
                container, _, name = line.partition(" ")
                if f"{self.cluster}_0" in name:
                    return f"beer.slice/beer-jobs.slice/docker-{container}.scope"
            return ""

        return wait_until(scope, timeout, f"the container of job {self.cluster} runs", explain=self.explain)

    def text(self, ending: str = "out") -> str:
        return self.machine.execute(f"cat /home/{USER}/{self.cluster}.{ending}", check=False).stdout

    def report(self, timeout: float) -> dict[str, Any]:
        """Waits for its successful end; the JSON report that the payload printed."""
        self.wait_for(COMPLETED, timeout)
        code = self.attribute("ExitCode")
        assert code == "0", f"job {self.cluster} ended with {code}: {self.text('err')}\n{self.text()}"
        return json.loads(self.text().strip().splitlines()[-1])

    def assert_one_run(self) -> None:
        """It was started once, never evicted, held or suspended by HTCondor: freezing is invisible there."""
        for name, expected in (("NumJobStarts", "1"), ("NumShadowStarts", "1")):
            assert self.attribute(name) == expected, f"{name} is {self.attribute(name)}, expected {expected}"
        assert self.attribute("NumHolds") in ("", "0")
        assert self.attribute("TotalSuspensions") in ("", "0")


class Condor:
    """The access point on the node."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        machine.execute(f"install -o {USER} -g {USER} -m 0600 {KEYTAB} /home/{USER}/batch.keytab")

    def submit(self, arguments: str, *, extra: str = "", image: str = IMAGE) -> Job:
        description = DESCRIPTION.format(arguments=arguments, extra=extra, image=image)
        done = self.machine.execute(
            f"cd /home/{USER} && runuser -u {USER} -- condor_submit -terse -", input=description, timeout=120
        )
        return Job(self.machine, int(done.stdout.split(".")[0]))

    def machine_attribute(self, name: str) -> str:
        return self.machine.execute(f"condor_status -af {shlex.quote(name)} | head -n 1").stdout.strip()

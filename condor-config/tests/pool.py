# SPDX-License-Identifier: Apache-2.0
"""A whole HTCondor pool of one machine, with the shipped fragments and two stand-ins."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from conftest import TOP, Installed, install

HERE = TOP / "tests"
# Where the pool lives and how fast it ticks, not what it does.
SITE = """
LOCAL_DIR = {dir}
RUN = {dir}/run
LOG = {dir}/log
LOCK = {dir}/lock
SPOOL = {dir}/spool
EXECUTE = {dir}/execute
CRED_STORE_DIR = {dir}/cred
SEC_PASSWORD_DIRECTORY = {dir}/passwords
SEC_TOKEN_SYSTEM_DIRECTORY = {dir}/tokens
SEC_TOKEN_POOL_SIGNING_KEY_FILE = {dir}/passwords/POOL
DOCKER = {dir}/bin/docker
STARTD_CRON_BEER_EXECUTABLE = {dir}/bin/guard
MOUNT_UNDER_SCRATCH =
NUM_CPUS = 2
MEMORY = 1000
UPDATE_INTERVAL = 1
NEGOTIATOR_INTERVAL = 1
NEGOTIATOR_MIN_INTERVAL = 1
NEGOTIATOR_CYCLE_DELAY = 1
"""
OPEN = {"BeerState": "open", "BeerAdmit": True, "BeerCores": 2, "BeerMemoryMB": 1000, "BeerVacateSlots": ""}
# Somebody who is neither root nor condor, and exists on every Debian.
USER = "games"
IDLE, RUNNING, COMPLETED, HELD = 1, 2, 4, 5


class Late(AssertionError):
    """Something did not happen in time."""


@dataclass
class Pool:
    installed: Installed
    directory: Path

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.installed.run(*command, check=check)

    def guard_says(self, **changes: object) -> None:
        """What the stand-in for the guard publishes from now on."""
        lines = [f"{name} = {json.dumps(value)}\n" for name, value in (OPEN | changes).items()]
        temporary = self.directory / "guard.new"
        temporary.write_text("".join(lines))
        temporary.rename(self.directory / "guard")
        state = (OPEN | changes)["BeerState"]
        self.wait(f"state {state} in the slot", lambda: self.slot("BeerState") == str(state))

    def slot(self, attribute: str) -> str:
        """Of the partitionable slot, as the collector has it."""
        constraint = ("-constraint", "PartitionableSlot")
        return self.run("condor_status", *constraint, "-af", attribute, check=False).stdout.strip()

    def submit(self, seconds: float, **changes: str) -> str:
        """A job that sleeps, as a user would write it; returns its cluster."""
        lines = {
            "universe": "docker",
            "docker_image": "beer-job:latest",
            "executable": "/bin/sleep",
            "transfer_executable": "False",
            "arguments": str(seconds),
            "should_transfer_files": "YES",
            "request_memory": "100MB",
            "request_disk": "1MB",
            "log": "job.log",
            "+BeerQueue": '"beer"',
        } | changes
        file = self.directory / "home/job.sub"
        file.write_text("".join(f"{name} = {value}\n" for name, value in lines.items() if value) + "queue\n")
        drop = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups")
        done = self.run(*drop, "sh", "-ec", f"cd {file.parent}; exec condor_submit -terse {file}", check=False)
        if done.returncode != 0:
            raise ValueError(done.stderr)
        return done.stdout.split(".")[0]

    def job(self, cluster: str, attribute: str) -> str:
        for tool in ("condor_q", "condor_history"):
            answer = self.run(tool, cluster, "-af", attribute).stdout.strip()
            if answer:
                return answer
        return ""

    def status(self, cluster: str) -> int:
        return int(self.job(cluster, "JobStatus") or 0)

    def wait_status(self, cluster: str, wanted: int) -> None:
        def reached() -> bool:
            found = self.status(cluster)
            if found == HELD:
                raise AssertionError(f"job {cluster} is held: {self.job(cluster, 'HoldReason')}")
            return found == wanted

        self.wait(f"status {wanted} of job {cluster}", reached)

    def wait_in_container(self, cluster: str, times: int = 1) -> None:
        """RUNNING only says that a shadow runs. A starter that is told to stop while it creates a container does not
        hear it, and is killed after KILLING_TIMEOUT (23.9.6)."""
        self.wait_status(cluster, RUNNING)
        started = f"start -a HTCJob{cluster}_"
        self.wait(
            f"container of job {cluster}",
            lambda: sum(call.startswith(started) for call in self.engine_calls()) >= times,
        )

    def wait(self, what: str, condition: Callable[[], bool], seconds: float = 120) -> None:
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise Late(f"no {what} after {seconds} s\n{self.logs()}")
            time.sleep(0.2)

    def logs(self) -> str:
        names = ("StartLog", "SchedLog", "NegotiatorLog")
        texts = ((self.directory / "log" / name).read_text().splitlines()[-15:] for name in names)
        return "\n".join(line for text in texts for line in text)

    def negotiations(self) -> int:
        return (self.directory / "log/NegotiatorLog").read_text().count("Finished Negotiation Cycle")

    def engine_calls(self) -> list[str]:
        return (self.directory / "docker/calls").read_text().splitlines()


@contextmanager
def running(directory: Path) -> Iterator[Pool]:
    names = ("run", "log", "lock", "spool", "execute", "cred", "passwords", "tokens", "docker", "bin", "home")
    for name in names:
        (directory / name).mkdir(parents=True, mode=0o755)
    (directory / "passwords").chmod(0o700)
    # HTCondor calls the engine's command as root and as condor.
    (directory / "docker").chmod(0o777)
    (directory / "docker/calls").touch()
    (directory / "docker/calls").chmod(0o666)
    for name, source in (("docker", "fake-docker"), ("guard", "fake-guard")):
        (directory / "bin" / source).write_text((HERE / source).read_text())
        # What HTCondor starts gets none of our environment.
        environment = f"FAKE_DOCKER={directory}/docker FAKE_GUARD={directory}/guard"
        (directory / "bin" / name).write_text(f'#!/bin/sh\n{environment} exec {directory}/bin/{source} "$@"\n')
        (directory / "bin" / name).chmod(0o755)
        (directory / "bin" / source).chmod(0o755)
    # pytest makes its directories for one user only.
    for path in (directory, *directory.parents):
        if path.stat().st_mode & 0o077 == 0:
            path.chmod(0o755)
    pool = Pool(install(directory / "etc", "single", SITE.format(dir=directory)), directory)
    (directory / "guard").write_text('BeerState = "closed"\nBeerAdmit = false\n')
    for path in (directory, *directory.rglob("*")):
        shutil.chown(path, "condor", "condor")
    shutil.chown(directory / "home", USER, USER)
    for root_only in ("passwords", "tokens"):
        shutil.chown(directory / root_only, "root", "root")
    with subprocess.Popen(["condor_master", "-f"], env=pool.installed.environment) as master:
        try:
            pool.wait("slot", lambda: pool.slot("BeerState") == "closed")
            yield pool
        finally:
            # Fast shutdown: jobs are killed, not waited for.
            master.send_signal(signal.SIGQUIT)
            master.wait(60)

# SPDX-License-Identifier: Apache-2.0
"""One virtual node: start and stop, commands, files, waits, snapshots, logs."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import logs, vm
from .errors import LabError, NoEnd
from .image import Image
from .progress import step
from .qmp import Monitor
from .result import Result
from .spec import NodeSpec
from .ssh import NO_CONNECTION, Ssh
from .state import State, load

# 19 s and 2 s on an idle host of two cores, 115 s and 8 s on one with a load of ten.
BOOT_SECONDS = 600.0
RESTORE_SECONDS = 180.0
# At most between two looks.
REST = 3.0
# So many restarts by systemd during one wait are no start any more.
CRASH_LOOP = 4


class Machine:
    """A node of this checkout; commands run in it as root.

    It lives until stop(), or until the process that started it ends unless started with detached=True.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self.name = state.name
        # What a `ready.Preparation` found.
        self.prepared: Any = None
        self.spec = NodeSpec.from_dict(state.spec)
        self.image = Image(Path(state.image))
        self.folder = state.folder
        self._ssh = Ssh(self.name, state.ports[22], self.image.ssh_key, Path(state.sockets) / "ssh")

    @classmethod
    def attach(cls, name: str = "node1") -> Machine:
        """A node that another process started; its name is that of its folder."""
        state = load(name)
        if state is None or not state.running():
            raise LabError(f"{name} is not up: start it with python3 -m beerlab up")
        return cls(state)

    # life

    def start(self, *, snapshot: str | None = None, detached: bool = False) -> None:
        """Boots, or resumes from a snapshot; returns when ssh answers and logins are allowed.

        Unless detached, QEMU ends with the thread that called this.

        A snapshot's clock goes on from when it was taken, and stays behind: HTCondor would restart all of its daemons
        when time skips by more than 20 minutes (MAX_TIME_SKIP in daemon_core.cpp), and the storage does not mind
        clients whose clock is ahead.
        """
        if self.running():
            raise LabError(f"{self.name} is up already (pid {self._state.pid})")
        what = f"restoring {self.name} from {snapshot!r}" if snapshot else f"booting {self.name}"
        with step(what):
            vm.again(f"{self.name} boots", lambda: self._launch(snapshot, detached), 1 if snapshot else vm.TRIALS)

    def _launch(self, snapshot: str | None, detached: bool) -> None:
        vm.launch(self._state, self.spec, self.image, snapshot, detached)
        try:
            self._wait_for_ssh(RESTORE_SECONDS if snapshot else BOOT_SECONDS)
        except vm.EmulationFault:
            self.stop()
            raise

    def stop(self) -> None:
        """Pulls the plug; the disks stay as they are."""
        self._ssh.close()
        self._state.kill()
        if self.folder.exists():
            self._state.save()

    def discard(self) -> None:
        """Stops and removes the node's disks."""
        self._ssh.close()
        self._state.discard()

    def running(self) -> bool:
        return self._state.running()

    def check(self) -> None:
        """Raises when the node has ended or its kernel is lost: vm.EmulationFault if the emulation is to blame."""
        vm.fail_when_stuck(self._state)

    def emulation_fault(self) -> vm.EmulationFault | None:
        """Set when the emulation broke the node, whatever else was seen of that."""
        return vm.emulation_fault(self._state)

    def snapshot(self, name: str) -> None:
        """Keeps memory and all disks under a name, in the node's own disk files; replaces an older one of that name."""
        with step(f"snapshot {name!r} of {self.name}"), Monitor(self.monitor_path) as monitor:
            monitor.human(f"savevm {name}")

    def restore(self, name: str) -> None:
        """Back to a snapshot: a new QEMU with the same ports."""
        detached = self._state.detached
        self.stop()
        self.start(snapshot=name, detached=detached)

    def throttle(self, label: str, iops: int | None, bytes_per_second: int | None) -> None:
        """New limits for a disk, at run time; None lifts one."""
        limits = {"bps": bytes_per_second or 0, "bps_rd": 0, "bps_wr": 0, "iops": iops or 0, "iops_rd": 0, "iops_wr": 0}
        with Monitor(self.monitor_path) as monitor:
            # The PCI device is only a shell: the drive hangs on the virtio device inside.
            device = f"/machine/peripheral/{label}/virtio-backend"
            monitor.call("block_set_io_throttle", id=device, **limits)

    @contextmanager
    def unlimited(self) -> Iterator[None]:
        """All disks as fast as the host gives them while the block runs; then with the limits of the spec again.

        An error leaves them as they are: its cause may be that there is no QEMU any more to be told.
        """
        for disk in self.spec.disks:
            self.throttle(disk.label, None, None)
        yield
        for disk in self.spec.disks:
            self.throttle(disk.label, *disk.limits)

    @property
    def monitor_path(self) -> Path:
        return Path(self._state.sockets) / "qmp"

    @property
    def ports(self) -> dict[int, int]:
        """Port of the node -> port of 127.0.0.1 on the host."""
        return dict(self._state.ports)

    def port(self, guest_port: int) -> int:
        """The port of 127.0.0.1 on the host that leads to a port of the node."""
        try:
            return self._state.ports[guest_port]
        except KeyError:
            known = ", ".join(str(port) for port in self._state.ports)
            raise LabError(f"{self.name}: port {guest_port} is not forwarded; these are: {known}") from None

    # commands and files

    def execute(
        self,
        command: str,
        *,
        timeout: float = 60,
        check: bool = True,
        input: str | None = None,
        user: str = "root",
    ) -> Result:
        """Runs a shell command in the node and returns what it said; a failure raises with its stderr."""
        if user != "root":
            command = f"runuser -l {shlex.quote(user)} -c {shlex.quote(command)}"
        result = self._ssh.run(command, timeout, input)
        if result.status == NO_CONNECTION:
            self.check()
        if check and result.status != 0:
            said = (result.stderr.strip() or result.stdout.strip())[-2000:]
            raise LabError(f"{self.name}: {command[:200]!r} exited with {result.status}: {said}")
        return result

    def shell(self, command: str = "") -> int:
        """An interactive login, or a command on the caller's terminal."""
        words = ["--", command] if command else []
        return subprocess.run(self._ssh.command(*words, terminal=not command), check=False).returncode

    def shell_command(self) -> str:
        """What a user types to log in."""
        return shlex.join(self._ssh.command())

    def copy_to(self, source: Path, target: str) -> None:
        self._ssh.copy(str(source), f":{target}")

    def copy_from(self, source: str, target: Path) -> None:
        self._ssh.copy(f":{source}", str(target))

    # waits

    def wait(self, command: str, *, timeout: float, unit: str | None = None, interval: float = 0.5) -> Result:
        """Repeats a command until it exits with 0.

        Fails at the deadline, and before it when `unit` is dead, failed, or restarted again and again. It rests
        twice as long as each look took: on an emulated node the wait would else be what it has most to do.
        """
        deadline = time.monotonic() + timeout
        restarts = self._restarts(unit) if unit else 0
        while True:
            asked = time.monotonic()
            left = deadline - asked
            result = self.execute(command, check=False, timeout=max(left, 5))
            if result.status == 0:
                return result
            if unit is not None:
                self._fail_when_dead(unit, restarts + CRASH_LOOP)
            now = time.monotonic()
            if now >= deadline:
                said = (result.stderr.strip() or result.stdout.strip())[-500:]
                raise LabError(f"{self.name}: after {timeout:.0f} s still not true: {command[:200]}: {said}")
            time.sleep(max(interval, min(REST, 2 * (now - asked))))

    def wait_for_unit(self, unit: str, timeout: float = 120) -> None:
        """Until the unit is active; at once an error when it failed or nothing is going to start it."""
        self.wait(f"systemctl is-active --quiet {shlex.quote(unit)}", timeout=timeout, unit=unit)

    def until(self, what: str, condition: Callable[[], bool], *, timeout: float, interval: float = 0.25) -> None:
        """Repeats a check of the host's side until it is true."""
        deadline = time.monotonic() + timeout
        while True:
            asked = time.monotonic()
            if condition():
                return
            self.check()
            now = time.monotonic()
            if now >= deadline:
                raise LabError(f"{self.name}: after {timeout:.0f} s still not true: {what}")
            time.sleep(max(interval, min(REST, 2 * (now - asked))))

    def unit_properties(self, unit: str, *names: str) -> dict[str, str]:
        """Properties of a unit as `systemctl show` gives them."""
        shown = self.execute(f"systemctl show -p {','.join(names)} {shlex.quote(unit)}").stdout
        return dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)

    def _restarts(self, unit: str) -> int:
        return int(self.unit_properties(unit, "NRestarts").get("NRestarts") or 0)

    def _fail_when_dead(self, unit: str, most_restarts: int) -> None:
        fields = self.unit_properties(unit, "LoadState", "ActiveState", "Job", "NRestarts")
        queued = fields.get("Job", "0") not in ("", "0")
        active = fields.get("ActiveState")
        if fields.get("LoadState") == "not-found":
            raise LabError(f"{self.name}: there is no unit {unit}")
        looping = int(fields.get("NRestarts") or 0) >= most_restarts
        if active == "failed" or (active == "inactive" and not queued) or looping:
            state = "restarted again and again" if looping else active
            raise LabError(f"{self.name}: {unit} is {state}; its journal ends with:\n{self._last_lines(unit)}")

    def _last_lines(self, unit: str) -> str:
        command = f"journalctl -q --no-pager -n 12 -o cat -u {shlex.quote(unit)}"
        return self.execute(command, check=False).stdout.strip()

    def _wait_for_ssh(self, timeout: float) -> None:
        """Up is what has a boot id to show and lets users in (pam_nologin's file is gone)."""

        def up() -> bool:
            try:
                found = self._ssh.run("test ! -e /run/nologin && cat /proc/sys/kernel/random/boot_id", timeout=30)
            except NoEnd:
                return False
            if "Permission denied" in found.stderr:
                raise LabError(f"{self.name}: the node does not take our ssh key: {found.stderr.strip()}")
            return found.status == 0 and len(found.stdout.strip()) == 36

        def answers() -> bool:
            vm.fail_when_stuck(self._state, booting=True)
            return up()

        self.until("ssh answers", answers, timeout=timeout)

    # what happened

    def journal(self, unit: str | None = None) -> str:
        """The system journal of this boot, or one unit's part."""
        only = f" -u {shlex.quote(unit)}" if unit else ""
        return self.execute(f"journalctl -q --no-pager -b -o short-precise{only}").stdout

    def save_logs(self, folder: Path) -> None:
        """Console, journal and the logs of all services; what cannot be had is left out."""
        folder.mkdir(parents=True, exist_ok=True)
        console = self.folder / "console.log"
        if console.exists():
            shutil.copyfile(console, folder / "console.log")
        if self.running():
            logs.save(self._ssh, folder)

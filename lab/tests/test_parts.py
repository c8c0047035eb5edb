# SPDX-License-Identifier: Apache-2.0
"""The small pieces: packages' dependencies, root scripts, host settings, states, services."""

import os
import subprocess

import pytest
from beerlab import Machine, NodeSpec, accel, disks, hostsettings, packages, services, state, vm
from beerlab.errors import LabError
from beerlab.paths import TOP
from beerlab.result import Result
from beerlab.root import Root
from beerlab.ssh import Ssh
from beerlab.store import files_of

INDEX = """\
Package: beer-a
Version: 0.1.0
Depends: beer-b (= 0.1.0), libc6, xbeer-no

Package: beer-b
Depends: libc6, beer-c

Package: beer-e
"""


def test_dependencies_on_our_own_packages():
    assert packages.our_dependencies(INDEX) == {"beer-a": {"beer-b"}, "beer-b": {"beer-c"}, "beer-e": set()}


def test_what_cannot_be_installed_is_left_out_and_said(tmp_path, capsys):
    (tmp_path / "Packages").write_text(INDEX)
    assert packages.names(tmp_path) == ["beer-e"]
    assert "beer-a is left out: it needs beer-b" in capsys.readouterr().err


def test_what_is_built_is_newer_than_what_another_checkout_compiled(tmp_path):
    compiled = tmp_path / "compiled"
    compiled.touch()
    part = TOP / "monitoring"
    packages.lay_out(part, tmp_path / "copy")
    for relative in files_of(part):
        file, laid = part / relative, tmp_path / "copy" / relative
        assert laid.stat().st_mtime >= compiled.stat().st_mtime > file.stat().st_mtime
        assert (laid.read_bytes(), laid.stat().st_mode) == (file.read_bytes(), file.stat().st_mode)


def test_a_misspelt_part_is_refused(monkeypatch):
    monkeypatch.setenv("BEER_LAB_WITHOUT", "gaurd")
    with pytest.raises(LabError, match="no part 'gaurd'"):
        packages.parts()


def test_a_shared_root_is_read_only_and_host_settings_always_are(tmp_path):
    root = Root(tmp_path)
    script = root.command(["true"], binds={tmp_path: "/mnt"})[-1]
    assert script.splitlines()[-2] == f"mount -o remount,bind,ro {tmp_path}"
    for target in hostsettings.files().values():
        assert f"mount -o remount,bind,ro {tmp_path}{target}" in script.splitlines()


def test_a_root_that_is_being_made_gets_nothing_of_the_host(tmp_path):
    script = Root(tmp_path).command(["true"], writable=True)[-1]
    assert "/etc/hosts" not in script
    assert "/etc/resolv.conf" not in script


def test_only_what_leads_to_registries_is_passed_on(monkeypatch):
    monkeypatch.setenv("https_proxy", "http://p.test:1")
    monkeypatch.setenv("CARGO_HTTP_CAINFO", "/x")
    monkeypatch.setenv("CARGO_TARGET_DIR", "/host/target")
    monkeypatch.setenv("AWS_SECRET", "no")
    found = hostsettings.variables()
    assert found["https_proxy"] == "http://p.test:1"
    assert found["CARGO_HTTP_CAINFO"] == "/x"
    assert "CARGO_TARGET_DIR" not in found
    assert "AWS_SECRET" not in found


def test_a_pid_that_another_process_got_is_not_ours(tmp_path, monkeypatch):
    monkeypatch.setattr(state, "run_folder", lambda: tmp_path)
    one = state.State("node1", "node1", 1, {}, "/i", "tcg", {22: 1}, "/s", "user", pid=os.getpid(), started=1)
    assert not one.running()
    one.started = state.started_at(os.getpid())
    assert one.running()
    one.folder.mkdir()
    one.save()
    assert state.load("node1") == one
    assert state.load("node2") is None


def test_free_ports_differ():
    found = vm.free_ports((22, 1094, 9100))
    assert len(set(found.values())) == 3


def test_old_qemu_is_refused(monkeypatch):
    monkeypatch.setattr(accel, "run", lambda _: "QEMU emulator version 7.2.15 (Debian)\n")
    with pytest.raises(LabError, match="QEMU 9 or newer"):
        accel.qemu_version()


def test_without_kvm_nothing_is_tried(tmp_path, monkeypatch):
    monkeypatch.setattr(accel, "KVM", tmp_path / "kvm")
    assert accel.accelerator(tmp_path / "kernel") == accel.TCG


def test_a_kvm_trial_happens_once(tmp_path, monkeypatch):
    tried = []
    monkeypatch.setattr(accel, "KVM", tmp_path)
    monkeypatch.setattr(accel, "qemu_version", lambda: "QEMU emulator version 10.0")
    monkeypatch.setattr(accel, "_boots_with_kvm", lambda kernel: tried.append(kernel) or True)
    assert accel.accelerator(tmp_path) == accel.accelerator(tmp_path) == "kvm"
    assert len(tried) == 1


def test_real_files_are_the_same_every_time_and_differ():
    assert disks.real_content(1, 1) == disks.real_content(1, 1)
    assert len({file.sha256 for number in (1, 2) for file in disks.real_files(number)}) == 2 * disks.REAL_FILES


def test_instance_units_are_found_by_their_template():
    assert services.template_of("xrootd@beer.service") == "xrootd@.service"
    assert services.template_of("condor.service") == "condor.service"


def test_a_place_is_taken_while_its_owner_lives(tmp_path, monkeypatch):
    monkeypatch.setattr(state, "run_folder", lambda: tmp_path)
    one = state.State("node1", "node1", 1, {}, "/i", "tcg", {22: 1}, "/s", "user")
    one.claim()
    assert not one.owned_by_another()
    one.owner, one.owner_started = os.getppid(), state.started_at(os.getppid())
    assert one.owned_by_another()
    one.owner_started -= 1
    assert not one.owned_by_another()


def test_a_killed_child_leaves_no_zombie(tmp_path, monkeypatch):
    monkeypatch.setattr(state, "run_folder", lambda: tmp_path)
    with subprocess.Popen(["sleep", "60"]) as child:
        child.returncode = 0  # as vm.launch does
        one = state.State("node1", "node1", 1, {}, "/i", "tcg", {22: 1}, "/s", "user", pid=child.pid)
        one.started = state.started_at(child.pid)
        one.kill()
        assert one.pid == 0
        with pytest.raises(ProcessLookupError):
            os.kill(child.pid, 0)


SAID = "[   23.5] rcu: rcu_preempt kthread timer wakeup didn't happen for 5260 jiffies! g-1143 f0x0 ->cpu=0\n"
STALL = SAID + SAID


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A node without QEMU: every launch writes the next of `consoles`; ssh answers."""
    monkeypatch.setattr(state, "run_folder", lambda: tmp_path)
    monkeypatch.setattr(state.State, "running", lambda self: True)
    monkeypatch.setattr(state.State, "kill", lambda self: machine.ended.append(machine.consoles[:]))
    known = state.State("n", "n", 1, NodeSpec().as_dict(), str(tmp_path), "tcg", {22: 1}, str(tmp_path), "")
    known.folder.mkdir()
    machine = Machine(known)
    machine.consoles, machine.ended = [], []

    def launch(*_):
        (known.folder / "console.log").write_text(machine.consoles.pop(0))

    monkeypatch.setattr(vm, "launch", launch)
    monkeypatch.setattr(Machine, "running", lambda self: False)  # start() refuses a node that runs
    monkeypatch.setattr(Ssh, "run", lambda *_, **__: Result("0" * 36, "", 0))
    return machine


def test_a_boot_that_emulation_made_stand_still_is_done_again(machine, capsys):
    machine.consoles = [STALL, ""]
    machine.start()
    assert "n boots again" in capsys.readouterr().err
    assert machine.ended == [[""]], "the first QEMU ends before the second one starts"


def test_a_guest_that_was_starved_for_a_moment_goes_on_and_a_restore_is_not_tried_again(machine):
    machine.consoles = [SAID, STALL]
    machine.start()
    assert not machine.ended
    with pytest.raises(vm.EmulationFault):
        machine.start(snapshot="ready")


def test_a_machine_on_which_no_boot_goes_on_is_an_error(machine):
    machine.consoles = [STALL] * 4
    with pytest.raises(vm.EmulationFault, match="lost a processor's timer"):
        machine.start()
    assert len(machine.consoles) == 1  # three boots, no more


def test_a_kernel_that_met_half_of_a_patch_is_the_emulations_fault(machine):
    machine.consoles = ["[ 82.9] Oops: int3: 0000 [#1]\n[ 82.9] Kernel panic - not syncing: Fatal exception"]
    with pytest.raises(vm.EmulationFault, match="patched half"):
        machine.start(snapshot="ready")


def test_what_a_starved_guest_says_later_is_no_fault_of_the_emulation(machine):
    machine.consoles = [""]
    machine.start()
    (machine.folder / "console.log").write_text(STALL)
    machine.check()
    assert machine.emulation_fault() is None


def test_with_hardware_virtualisation_a_broken_kernel_is_no_fault_of_the_emulation(machine):
    machine._state.accelerator = "kvm"
    machine.consoles = ["Oops: int3: 0000 [#1]\nKernel panic - not syncing: Fatal exception"]
    with pytest.raises(LabError, match="Kernel panic") as caught:
        machine.start()
    assert not isinstance(caught.value, vm.EmulationFault)


def test_a_boot_that_is_lost_by_itself_is_not_tried_again(machine):
    machine.consoles = ["Kernel panic - not syncing: no init", ""]
    with pytest.raises(LabError, match="Kernel panic"):
        machine.start()
    assert len(machine.consoles) == 1

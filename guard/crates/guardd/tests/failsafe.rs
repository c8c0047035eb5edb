// SPDX-License-Identifier: Apache-2.0
//! What happens when the guard is not there.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::path::Path;
use std::time::Duration;

use guardd::actuators::{Held, ShapingActuator};
use intf::state::NodeState;
use support::{monotonic_ns, NodeFolders};

/// A systemctl that writes down what it is told. A link to a file of the checkout, because a script that was written
/// a moment ago may be "busy": a fork of another test can still hold it open for writing.
fn fake_systemctl(folders: &NodeFolders) -> guardd::failsafe::Failsafe {
    let program = folders.path("systemctl");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/systemctl");
    std::os::unix::fs::symlink(script, &program).unwrap();
    std::fs::create_dir_all(folders.slice()).unwrap();
    std::os::unix::fs::symlink(folders.slice(), folders.path("slice")).unwrap();
    std::fs::write(folders.slice().join("cgroup.freeze"), "1\n").unwrap();
    std::fs::write(folders.slice().join("cgroup.events"), "populated 1\nfrozen 1\n").unwrap();
    std::fs::write(folders.slice().join("cpu.max"), "150000 100000\n").unwrap();
    guardd::failsafe::Failsafe {
        slice: folders.slice(),
        run: folders.path("run"),
        shaping: folders.path("storage"),
        control: folders.path("control"),
        systemctl: program,
        cpu_quota: "100%".into(),
        dry_run: false,
    }
}

fn frozen(folders: &NodeFolders) -> bool {
    std::fs::read_to_string(folders.slice().join("cgroup.freeze")).unwrap().starts_with('1')
}

fn systemctl_said(folders: &NodeFolders) -> String {
    std::fs::read_to_string(folders.path("systemctl.said")).unwrap_or_default()
}

const CAPS: &str = "set-property --runtime beer-jobs.slice CPUQuota=100%\n";
const AS_BEFORE: &str = "set-property --runtime beer-jobs.slice CPUQuota=150%\n";

#[test]
fn failsafe_after_a_crash_caps_once_and_thaws_only_on_purpose() {
    let folders = NodeFolders::new();
    let failsafe = fake_systemctl(&folders);
    let done = failsafe.after_exit(false).unwrap();
    assert_eq!((done.capped, done.thawed, frozen(&folders)), (true, false, true));
    let done = failsafe.after_exit(true).unwrap();
    assert_eq!((done.capped, done.thawed, frozen(&folders)), (false, true, false));
    assert_eq!(systemctl_said(&folders), CAPS);
}

#[test]
fn without_a_guard_batch_has_little_of_the_disks_that_it_knew() {
    let folders = NodeFolders::new();
    let failsafe = fake_systemctl(&folders);
    let io_max = || std::fs::read_to_string(folders.slice().join("io.max")).unwrap();
    std::fs::write(folders.slice().join("io.max"), "").unwrap();
    std::fs::write(folders.path("run/disks"), "254:16\n").unwrap();
    assert!(failsafe.after_exit(false).unwrap().capped);
    assert!(io_max().contains("254:16 rbps=524288 wbps=524288 riops=4 wiops=4"), "{}", io_max());
    let said = systemctl_said(&folders);
    assert!(said.contains("-- beer-jobs.slice IOReadIOPSMax=/dev/block/254:16 4"), "{said}");
    assert!(!failsafe.after_exit(false).unwrap().capped, "once");
    assert_eq!(systemctl_said(&folders), said);
    assert!(failsafe.lift().unwrap());
    assert!(!io_max().contains("riops=4"), "{}", io_max());
    assert!(!failsafe.lift().unwrap(), "once");
    // One that died when it had limited them itself.
    std::fs::write(folders.slice().join("io.max"), "254:16 rbps=524288 wbps=524288 riops=4 wiops=4\n").unwrap();
    std::fs::write(folders.path("run/disks-limited"), "beer-jobs.slice 254:16\n").unwrap();
    assert!(failsafe.after_exit(true).unwrap().thawed);
    assert!(io_max().contains("riops=4"), "{}", io_max());
    assert!(failsafe.lift().unwrap() && !io_max().contains("riops=4"), "{}", io_max());
}

/// Of the shaping segment: until when, how many records, and of the first one which device, bytes and requests per second.
fn shaped(folders: &NodeFolders) -> (u64, u32, (u32, u32), u64, u64) {
    let bytes = std::fs::read(folders.path("storage/shaping")).unwrap();
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    (long(24), number(12), (number(64), number(68)), long(72), long(80))
}

#[test]
fn without_a_guard_batch_has_little_of_the_storage_daemons() {
    const SECOND_NS: u64 = 1_000_000_000;
    const LITTLE: (u32, (u32, u32), u64, u64) = (1, (u32::MAX, u32::MAX), 1 << 20, 8);
    let folders = NodeFolders::new();
    let failsafe = fake_systemctl(&folders);
    let mut guard = ShapingActuator::new(&failsafe.shaping);
    guard.keep(Held::Everything, monotonic_ns());
    failsafe.after_exit(false).unwrap();
    assert!(guard.somebody_holds(monotonic_ns()), "the next one is there in a moment");
    for _ in 0..2 {
        let began = monotonic_ns();
        failsafe.dead_man(Duration::from_secs(15), &guardd::clock::SystemClock).unwrap();
        let (until, records, device, bytes, operations) = shaped(&folders);
        assert_eq!((records, device, bytes, operations), LITTLE);
        let lasts = until - began;
        assert!((45 * SECOND_NS..55 * SECOND_NS).contains(&lasts), "{lasts}");
    }
    assert!(!guard.somebody_holds(monotonic_ns()));
    // The next guard's first tick.
    ShapingActuator::new(&failsafe.shaping).keep(Held::Nothing, monotonic_ns());
    assert_eq!(shaped(&folders).0, 0);
}

#[test]
fn a_segment_that_cannot_be_written_is_told_and_keeps_nobody_frozen() {
    let folders = NodeFolders::new();
    let failsafe = guardd::failsafe::Failsafe { shaping: folders.path("missing"), ..fake_systemctl(&folders) };
    let error = failsafe.after_exit(true).unwrap_err();
    assert!(format!("{error:#}").contains("missing/shaping"), "{error:#}");
    assert_eq!((frozen(&folders), systemctl_said(&folders).as_str()), (false, CAPS));
}

#[test]
fn the_network_is_given_back_last_and_its_failure_keeps_nobody_frozen() {
    let folders = NodeFolders::new();
    let failsafe = fake_systemctl(&folders);
    let asked = folders.path("run").join(guardd::actuators::NetworkActuator::ASKED);
    std::fs::write(&asked, "50Mbit\n").unwrap();
    // Without its folder the service cannot say what is in force.
    let error = failsafe.after_exit(true).unwrap_err();
    assert!(format!("{error:#}").contains("network/limit"), "{error:#}");
    assert_eq!((frozen(&folders), asked.exists()), (false, true));
    assert_eq!(systemctl_said(&folders), format!("{CAPS}restart -- beer-network-limit.service\n"));
    std::fs::create_dir(folders.path("network")).unwrap();
    failsafe.after_exit(true).unwrap();
    assert!(!asked.exists());
}

/// Two jobs, of which the first is frozen.
fn one_of_two_frozen(folders: &NodeFolders) {
    for (name, freeze) in [("docker-a.scope", "1\n"), ("docker-b.scope", "0\n")] {
        let folder = folders.slice().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("cgroup.freeze"), freeze).unwrap();
        std::fs::write(folder.join("cgroup.events"), "populated 1\nfrozen 0\n").unwrap();
    }
}

fn asked_of_a(folders: &NodeFolders) -> String {
    std::fs::read_to_string(folders.slice().join("docker-a.scope/cgroup.freeze")).unwrap()
}

#[test]
fn jobs_that_were_frozen_alone_are_thawed_too() {
    for slice in ["0\n", "1\n"] {
        let folders = NodeFolders::new();
        let failsafe = fake_systemctl(&folders);
        std::fs::write(folders.slice().join("cgroup.freeze"), slice).unwrap();
        one_of_two_frozen(&folders);
        assert!(failsafe.after_exit(true).unwrap().thawed);
        assert!(asked_of_a(&folders).starts_with('0') && !frozen(&folders), "{slice}");
        assert!(!failsafe.after_exit(true).unwrap().thawed, "once");
    }
}

#[test]
fn a_job_that_somebody_else_has_suspended_stays_so() {
    let folders = NodeFolders::new();
    let failsafe = fake_systemctl(&folders);
    one_of_two_frozen(&folders);
    // The guard had frozen the slice, and no job.
    std::fs::write(folders.path("run").join(guardd::actuators::SliceFreezer::MEMORY), "").unwrap();
    assert!(failsafe.after_exit(true).unwrap().thawed);
    assert!(!frozen(&folders) && asked_of_a(&folders).starts_with('1'));
}

#[test]
fn the_dead_man_waits_for_a_stale_heartbeat_and_lifts_when_it_is_back() {
    let folders = NodeFolders::new();
    let failsafe = fake_systemctl(&folders);
    let limit = Duration::from_secs(15);
    let clock = guardd::clock::SystemClock;
    folders.write_state(NodeState::Frozen, monotonic_ns());
    assert_eq!(failsafe.dead_man(limit, &clock).unwrap().sentence(), None);
    assert!(frozen(&folders));

    folders.write_state(NodeState::Frozen, monotonic_ns().saturating_sub(16_000_000_000));
    let done = failsafe.dead_man(limit, &clock).unwrap();
    assert_eq!((done.capped, done.thawed, frozen(&folders)), (true, true, false));
    // It goes on being dead, and somebody freezes by hand.
    std::fs::write(folders.slice().join("cgroup.freeze"), "1\n").unwrap();
    let done = failsafe.dead_man(limit, &clock).unwrap();
    assert_eq!((done.capped, done.thawed), (false, true));

    let dropins = folders.path("control/beer-jobs.slice.d");
    std::fs::create_dir_all(&dropins).unwrap();
    for name in ["50-CPUQuota.conf", "50-MemoryHigh.conf"] {
        std::fs::write(dropins.join(name), "").unwrap();
    }
    folders.write_state(NodeState::Open, monotonic_ns());
    assert!(failsafe.dead_man(limit, &clock).unwrap().lifted);
    assert_eq!(failsafe.dead_man(limit, &clock).unwrap().sentence(), None, "once");
    assert_eq!(systemctl_said(&folders), format!("{CAPS}{AS_BEFORE}"), "and no daemon-reload: it takes seconds");
    assert!(dropins.join("50-MemoryHigh.conf").exists() && !dropins.join("50-CPUQuota.conf").exists());
}

#[test]
fn without_a_state_line_the_guard_counts_as_dead() {
    let folders = NodeFolders::new();
    let failsafe = fake_systemctl(&folders);
    std::fs::write(folders.path("run/state"), "state=open").unwrap();
    assert!(failsafe.dead_man(Duration::from_secs(15), &guardd::clock::SystemClock).unwrap().thawed);
}

#[test]
fn a_systemd_that_says_no_does_not_keep_jobs_frozen() {
    let folders = NodeFolders::new();
    let mut failsafe = fake_systemctl(&folders);
    failsafe.systemctl = Path::new("/bin/false").into();
    let error = failsafe.after_exit(true).unwrap_err();
    assert!(format!("{error:#}").contains("systemctl set-property"), "{error:#}");
    assert!(!frozen(&folders));
}

#[test]
fn what_a_guard_had_left_is_not_taken_for_what_was_there_before() {
    let folders = NodeFolders::new();
    let mut failsafe = fake_systemctl(&folders);
    std::fs::write(folders.path("run/squeezed"), "cpu AllowedCPUs=0-3 CPUQuota=150%\n").unwrap();
    std::fs::write(folders.slice().join("cpu.max"), "5000 100000\n").unwrap();
    let systemctl = std::mem::replace(&mut failsafe.systemctl, Path::new("/bin/false").into());
    failsafe.after_exit(false).unwrap_err();
    failsafe.systemctl = systemctl;
    assert!(failsafe.lift().unwrap());
    assert_eq!(systemctl_said(&folders), "daemon-reload\n", "as the unit's own file has it");
}

#[test]
fn what_was_there_before_is_known_whatever_happens_in_between() {
    let folders = NodeFolders::new();
    let failsafe = fake_systemctl(&folders);
    let limit = || std::fs::read_to_string(folders.slice().join("cpu.max")).unwrap();
    let before = limit();
    // systemd does what it is told, but systemctl is gone by then; and then it is capped again.
    std::fs::write(folders.path("slow"), "").unwrap();
    assert!(failsafe.after_exit(false).is_err());
    std::fs::remove_file(folders.path("slow")).unwrap();
    assert!(!failsafe.after_exit(false).unwrap().capped, "the kernel has the caps");
    assert!(failsafe.lift().unwrap());
    assert_eq!(limit(), before);
    assert!(!failsafe.lift().unwrap(), "once");
    // Lifted, but killed before it could say so: the next cap is a cap.
    assert!(failsafe.after_exit(false).unwrap().capped);
    std::fs::write(folders.slice().join("cpu.max"), &before).unwrap();
    assert!(failsafe.after_exit(false).unwrap().capped);
    assert!(failsafe.lift().unwrap());
    assert_eq!(limit(), before);
}

#[test]
fn caps_of_unknown_origin_are_lifted_by_a_reload() {
    let folders = NodeFolders::new();
    let failsafe = fake_systemctl(&folders);
    std::fs::write(folders.slice().join("cpu.max"), "100000 100000\n").unwrap();
    assert!(!failsafe.after_exit(false).unwrap().capped);
    assert!(failsafe.lift().unwrap());
    assert_eq!(systemctl_said(&folders), "daemon-reload\n");
}

#[test]
fn limits_of_single_jobs_are_lifted_when_no_guard_is_to_come_back() {
    let folders = NodeFolders::new();
    let failsafe = fake_systemctl(&folders);
    let job = folders.slice().join("container");
    std::fs::create_dir(&job).unwrap();
    std::fs::write(job.join("io.max"), "8:16 rbps=max wbps=max riops=40 wiops=40\n").unwrap();
    std::fs::write(folders.path("run/limited"), "container 8:16\n").unwrap();
    failsafe.after_exit(false).unwrap();
    assert!(
        std::fs::read_to_string(job.join("io.max")).unwrap().contains("riops=40"),
        "the next one is there in a moment"
    );
    failsafe.after_exit(true).unwrap();
    assert!(std::fs::read_to_string(job.join("io.max")).unwrap().contains("riops=max"));
    assert_eq!(std::fs::read_to_string(folders.path("run/limited")).unwrap(), "");
}

#[test]
fn a_guard_that_touches_nothing_is_missed_by_nobody() {
    let folders = NodeFolders::new();
    let failsafe = guardd::failsafe::Failsafe { dry_run: true, ..fake_systemctl(&folders) };
    assert_eq!(failsafe.after_exit(false).unwrap(), guardd::failsafe::Done::default());
    assert_eq!(systemctl_said(&folders), "", "no caps");
    assert!(!folders.path("storage/shaping").exists());
    assert!(failsafe.after_exit(true).unwrap().thawed && !frozen(&folders));
}

#[test]
fn what_a_guard_took_from_all_of_batch_is_given_back_before_the_caps() {
    let folders = NodeFolders::new();
    let failsafe = fake_systemctl(&folders);
    std::fs::write(folders.slice().join("cpuset.cpus"), "0\n").unwrap();
    std::fs::write(folders.slice().join("cpu.max"), "25000 100000\n").unwrap();
    std::fs::write(folders.path("run/squeezed"), "cpu AllowedCPUs= CPUQuota=150%\n").unwrap();
    let drop_in = folders.path("control/beer-jobs.slice.d/50-AllowedCPUs.conf");
    std::fs::create_dir_all(drop_in.parent().unwrap()).unwrap();
    std::fs::write(&drop_in, "").unwrap();
    assert!(failsafe.after_exit(false).unwrap().capped);
    // It had none of its own: all that there can be, where that is known.
    let cpus = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let back = format!("set-property --runtime -- beer-jobs.slice AllowedCPUs={} CPUQuota=150%\n", cpus.trim_end());
    assert_eq!(systemctl_said(&folders), format!("{back}{CAPS}"));
    assert!(!drop_in.exists() && !folders.path("run/squeezed").exists());
    folders.write_state(NodeState::Closed, monotonic_ns());
    assert!(failsafe.dead_man(Duration::from_secs(15), &guardd::clock::SystemClock).unwrap().lifted);
    assert_eq!(
        systemctl_said(&folders),
        format!("{back}{CAPS}{AS_BEFORE}"),
        "as it was before the guard took anything"
    );
}

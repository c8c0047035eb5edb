// SPDX-License-Identifier: Apache-2.0
//! The freezer on a real cgroup2: the kernel says what was done.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::Duration;

use guardd::actuators::freeze::{Drift, FreezeError};
use guardd::actuators::{FreezeActuator, Freezer, SliceFreezer};
use guardd::jobs::JobTable;
use policy::{Hold, JobSet};
use support::{eventually, monotonic_ns, TestCgroup};

/// Without root or without a cgroup2 mount there is nothing to try this on.
#[test]
fn freezes_sees_it_and_thaws() {
    let Some(mut cgroup) = TestCgroup::of_test("freeze") else { return };
    cgroup.spin(2);
    let mut actuator = FreezeActuator::new(SliceFreezer::new(&cgroup.path));
    assert_eq!(actuator.applied(), Hold::Nobody);
    let decided_ns = monotonic_ns();
    let mut effect = actuator.apply(Hold::All, decided_ns, monotonic_ns);
    eventually("frozen", Duration::from_secs(5), || {
        effect = effect.or_else(|| actuator.read_back(monotonic_ns()));
        effect.is_some()
    });
    let effect = effect.unwrap();
    assert_eq!((effect.hold, effect.seen), (Hold::All, Ok(true)));
    assert!(decided_ns <= effect.written_ns && effect.written_ns <= effect.ended_ns);
    assert!(cgroup.frozen());
    // Another guard that starts now finds it frozen, and ends on purpose.
    let mut second = FreezeActuator::new(SliceFreezer::new(&cgroup.path));
    assert_eq!(second.applied(), Hold::All);
    second.undo(monotonic_ns);
    eventually("thawed", Duration::from_secs(5), || !cgroup.frozen());
    // The first one notices that somebody else wrote.
    assert_eq!(actuator.inspect(), Some(Drift::Changed));
    assert_eq!(actuator.plan(Hold::All), Some(Hold::All));
}

#[test]
fn a_slice_that_is_made_anew_is_frozen_too() {
    let Some(cgroup) = TestCgroup::of_test("anew") else { return };
    let path = cgroup.path.clone();
    let mut freezer = SliceFreezer::new(&path);
    freezer.write(Hold::Nobody).unwrap();
    std::fs::remove_dir(&path).unwrap();
    assert_eq!(freezer.write(Hold::All), Err(FreezeError::Missing));
    assert_eq!((freezer.asked(), freezer.stands(Hold::All)), (None, None));
    std::fs::create_dir(&path).unwrap();
    freezer.write(Hold::All).unwrap();
    assert_eq!((freezer.asked(), freezer.stands(Hold::All)), (Some(Hold::All), Some(true)));
    // The same, but with descriptors of the old one still open.
    std::fs::remove_dir(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(freezer.asked(), Some(Hold::Nobody));
    freezer.write(Hold::All).unwrap();
    assert_eq!(freezer.stands(Hold::All), Some(true));
}

#[test]
fn the_effect_wakes_a_waiting_loop() {
    let Some(mut cgroup) = TestCgroup::of_test("wake") else { return };
    cgroup.spin(1);
    let mut actuator = FreezeActuator::new(SliceFreezer::new(&cgroup.path));
    if actuator.apply(Hold::All, 0, monotonic_ns).is_none() {
        let fd = actuator.awaited().unwrap();
        let mut polled = [rustix::event::PollFd::from_borrowed_fd(fd, rustix::event::PollFlags::PRI)];
        let timeout = rustix::event::Timespec { tv_sec: 5, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut polled, Some(&timeout)).unwrap(), 1);
        eventually("the effect is seen", Duration::from_secs(1), || actuator.read_back(monotonic_ns()).is_some());
    }
    assert!(actuator.awaited().is_none());
}

/// A slice with a guilty and an innocent job in it.
struct Jobs {
    // Dropped before the slice that they are in.
    guilty: TestCgroup,
    innocent: TestCgroup,
    slice: TestCgroup,
    table: JobTable,
}

impl Jobs {
    fn new(name: &str) -> Option<Self> {
        let slice = TestCgroup::of_test(name)?;
        let [mut guilty, mut innocent] = ["guilty.scope", "innocent.scope"].map(|job| slice.child(job));
        guilty.spin(2);
        innocent.spin(1);
        let mut table = JobTable::new(&slice.path);
        table.look(false, &policy::JobSet::default());
        Some(Jobs { slice, guilty, innocent, table })
    }

    fn hold(&self, scope: &str) -> Hold {
        let places = self.table.iter().filter(|(_, job)| job.scope == scope).map(|(place, _)| place);
        Hold::Jobs(places.collect::<JobSet>())
    }

    fn frozen(&self) -> (bool, bool) {
        (self.guilty.frozen(), self.innocent.frozen())
    }

    fn eventually_frozen(&self, guilty: bool, innocent: bool) {
        let what = format!("guilty frozen: {guilty}, innocent frozen: {innocent}");
        eventually(&what, Duration::from_secs(5), || self.frozen() == (guilty, innocent));
    }
}

fn settle(actuator: &mut FreezeActuator<SliceFreezer>, hold: Hold) {
    let mut effect = actuator.apply(hold, monotonic_ns(), monotonic_ns);
    eventually("the effect is seen", Duration::from_secs(5), || {
        effect = effect.or_else(|| actuator.read_back(monotonic_ns()));
        effect.is_some()
    });
    assert_eq!(effect.unwrap().seen, Ok(true));
}

#[test]
fn the_guilty_stand_still_and_the_innocent_run_on() {
    let Some(jobs) = Jobs::new("who") else { return };
    let mut freezer = SliceFreezer::new(&jobs.slice.path);
    freezer.know(&jobs.table);
    let mut actuator = FreezeActuator::new(freezer);
    settle(&mut actuator, Hold::All);
    assert_eq!(jobs.frozen(), (true, true));
    let guilty = jobs.hold("guilty.scope");
    settle(&mut actuator, guilty);
    jobs.eventually_frozen(true, false);
    assert_eq!((actuator.applied(), actuator.inspect()), (guilty, Some(Drift::None)));
    settle(&mut actuator, Hold::All);
    jobs.eventually_frozen(true, true);
    settle(&mut actuator, Hold::Nobody);
    jobs.eventually_frozen(false, false);
    // From nobody to some, and somebody else thaws one.
    settle(&mut actuator, guilty);
    jobs.eventually_frozen(true, false);
    jobs.guilty.write("cgroup.freeze", "0");
    assert_eq!(actuator.inspect(), Some(Drift::Changed));
    assert_eq!(actuator.plan(guilty), Some(guilty));
}

#[test]
fn who_was_suspended_by_somebody_else_stays_so() {
    let Some(jobs) = Jobs::new("else") else { return };
    let mut freezer = SliceFreezer::new(&jobs.slice.path);
    freezer.know(&jobs.table);
    let mut actuator = FreezeActuator::new(freezer);
    jobs.innocent.write("cgroup.freeze", "1");
    assert_eq!(actuator.inspect(), Some(Drift::None));
    settle(&mut actuator, Hold::All);
    settle(&mut actuator, Hold::Nobody);
    jobs.eventually_frozen(false, true);
}

#[test]
fn whom_it_has_frozen_is_known_to_who_comes_after_it() {
    let Some(jobs) = Jobs::new("memory") else { return };
    let run = tempfile::tempdir().unwrap();
    let guilty = jobs.hold("guilty.scope");
    let actuator = || {
        let mut freezer = SliceFreezer::remembering(&jobs.slice.path, run.path());
        freezer.know(&jobs.table);
        FreezeActuator::new(freezer)
    };
    // Nothing is known yet: what is frozen counts as a guard's.
    jobs.innocent.write("cgroup.freeze", "1");
    assert_eq!(actuator().applied(), jobs.hold("innocent.scope"));
    // From now on it is.
    let mut first = actuator();
    assert_eq!(first.applied(), Hold::Nobody, "somebody else has suspended it");
    settle(&mut first, guilty);
    drop(first);
    let mut next = actuator();
    assert_eq!(next.applied(), guilty);
    next.undo(monotonic_ns);
    jobs.eventually_frozen(false, true);
    assert_eq!(actuator().applied(), Hold::Nobody);
}

#[test]
fn a_guard_that_comes_back_thaws_whom_the_one_before_had_frozen() {
    let Some(mut jobs) = Jobs::new("back") else { return };
    jobs.guilty.write("cgroup.freeze", "1");
    let mut freezer = SliceFreezer::new(&jobs.slice.path);
    freezer.know(&jobs.table);
    let mut actuator = FreezeActuator::new(freezer);
    assert_eq!(actuator.applied(), jobs.hold("guilty.scope"));
    // One of them ends: there is nothing left to thaw, and nothing that differs.
    let gone = std::mem::replace(&mut jobs.guilty, jobs.slice.child("later.scope"));
    drop(gone);
    jobs.table.look(true, &policy::JobSet::default());
    actuator.know(&jobs.table);
    assert_eq!((actuator.applied(), actuator.inspect()), (Hold::Nobody, Some(Drift::None)));
    actuator.undo(monotonic_ns);
    assert_eq!(jobs.frozen(), (false, false));
}

/// As podman has it: a monitor beside the container, whose parent it is, and which tells that it has ended.
#[test]
fn a_killed_container_is_reaped_while_all_jobs_stand_still() {
    let Some(slice) = TestCgroup::of_test("reap") else { return };
    let [container, monitor] = ["libpod-a.scope", "libpod-conmon-a.scope"].map(|name| slice.child(name));
    let mut innocent = slice.child("docker-b.scope");
    innocent.spin(1);
    let folder = tempfile::tempdir().unwrap();
    let reaped = folder.path().join("reaped");
    let script = format!(
        "echo $$ > {}/cgroup.procs; (sh -c 'echo $PPID' > {}/cgroup.procs; exec sleep 100000) & wait $!; echo $? > {}",
        monitor.path.display(),
        container.path.display(),
        reaped.display()
    );
    let mut podman = std::process::Command::new("sh").args(["-c", &script]).spawn().unwrap();
    eventually("the container runs", Duration::from_secs(10), || {
        std::fs::read_to_string(container.path.join("cgroup.procs")).is_ok_and(|text| text.lines().count() == 1)
    });
    let mut table = JobTable::new(&slice.path);
    table.look(false, &JobSet::default());
    assert!(table.monitored() && table.count() == 2);
    let mut freezer = SliceFreezer::new(&slice.path);
    freezer.know(&table);
    let mut actuator = FreezeActuator::new(freezer);
    settle(&mut actuator, Hold::All);
    assert!(container.frozen() && monitor.frozen() && innocent.frozen());
    container.write("cgroup.kill", "1");
    std::thread::sleep(Duration::from_millis(300));
    assert!(!reaped.exists(), "nobody runs who could");
    settle(&mut actuator, table.sparing_monitors(Hold::All));
    eventually("it is reaped", Duration::from_secs(10), || {
        std::fs::read_to_string(&reaped).is_ok_and(|status| status == "137\n")
    });
    assert!(innocent.frozen());
    podman.wait().unwrap();
    actuator.undo(monotonic_ns);
}

// SPDX-License-Identifier: Apache-2.0
//! The freezer on a real cgroup2: the kernel says what was done.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::Duration;

use guardd::actuators::freeze::{Drift, FreezeError};
use guardd::actuators::{FreezeActuator, Freezer, SliceFreezer};
use support::{eventually, monotonic_ns, TestCgroup};

/// Without root or without a cgroup2 mount there is nothing to try this on.
fn cgroup(name: &str) -> Option<TestCgroup> {
    match TestCgroup::new(name) {
        Ok(cgroup) => Some(cgroup),
        Err(why) => {
            eprintln!("skipped: {why}");
            None
        }
    }
}

#[test]
fn freezes_sees_it_and_thaws() {
    let Some(mut cgroup) = cgroup("freeze") else { return };
    cgroup.spin(2);
    let mut actuator = FreezeActuator::new(SliceFreezer::new(&cgroup.path));
    assert!(!actuator.applied());
    let decided_ns = monotonic_ns();
    let mut effect = actuator.apply(true, decided_ns, monotonic_ns);
    eventually("frozen", Duration::from_secs(5), || {
        effect = effect.or_else(|| actuator.read_back(monotonic_ns()));
        effect.is_some()
    });
    let effect = effect.unwrap();
    assert_eq!((effect.freeze, effect.seen), (true, Ok(true)));
    assert!(decided_ns <= effect.written_ns && effect.written_ns <= effect.ended_ns);
    assert!(cgroup.frozen());
    // Another guard that starts now finds it frozen, and ends on purpose.
    let mut second = FreezeActuator::new(SliceFreezer::new(&cgroup.path));
    assert!(second.applied());
    second.undo(monotonic_ns);
    eventually("thawed", Duration::from_secs(5), || !cgroup.frozen());
    // The first one notices that somebody else wrote.
    assert_eq!(actuator.inspect(), Some(Drift::Changed));
    assert_eq!(actuator.plan(true), Some(true));
}

#[test]
fn a_slice_that_is_made_anew_is_frozen_too() {
    let Some(cgroup) = cgroup("anew") else { return };
    let path = cgroup.path.clone();
    let mut freezer = SliceFreezer::new(&path);
    freezer.write(false).unwrap();
    std::fs::remove_dir(&path).unwrap();
    assert_eq!(freezer.write(true), Err(FreezeError::Missing));
    assert_eq!((freezer.asked(), freezer.frozen()), (None, None));
    std::fs::create_dir(&path).unwrap();
    freezer.write(true).unwrap();
    assert_eq!((freezer.asked(), freezer.frozen()), (Some(true), Some(true)));
    // The same, but with descriptors of the old one still open.
    std::fs::remove_dir(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(freezer.asked(), Some(false));
    freezer.write(true).unwrap();
    assert_eq!(freezer.frozen(), Some(true));
}

#[test]
fn the_effect_wakes_a_waiting_loop() {
    let Some(mut cgroup) = cgroup("wake") else { return };
    cgroup.spin(1);
    let mut actuator = FreezeActuator::new(SliceFreezer::new(&cgroup.path));
    if actuator.apply(true, 0, monotonic_ns).is_none() {
        let fd = actuator.awaited().unwrap();
        let mut polled = [rustix::event::PollFd::from_borrowed_fd(fd, rustix::event::PollFlags::PRI)];
        let timeout = rustix::event::Timespec { tv_sec: 5, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut polled, Some(&timeout)).unwrap(), 1);
        eventually("the effect is seen", Duration::from_secs(1), || actuator.read_back(monotonic_ns()).is_some());
    }
    assert!(actuator.awaited().is_none());
}

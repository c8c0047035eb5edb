// SPDX-License-Identifier: Apache-2.0
//! The kernel wakes the watch thread when tasks of the storage services wait.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::Duration;

use kernfs::psi::{Asked, Resource, Trigger};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use support::TestCgroup;

/// Does it fire within so long?
fn fires(trigger: &Trigger, within: Duration) -> bool {
    let mut fds = [PollFd::new(trigger, PollFlags::PRI)];
    poll(&mut fds, Some(&Timespec::try_from(within).unwrap())).unwrap() > 0
}

#[test]
fn tasks_that_wait_for_a_cpu_fire_it_and_others_do_not() {
    let Some(cgroup) = TestCgroup::of_test("pressure") else { return };
    let (victim, mut busy) = (cgroup.child("quiet"), cgroup.child("busy"));
    let set = |cgroup: &TestCgroup| match Trigger::of_cgroup(&cgroup.path, Resource::Cpu) {
        Asked::Set(trigger) => Some(trigger),
        Asked::Absent => {
            eprintln!("left out: this kernel has no pressure information");
            None
        }
        Asked::Refused(error) => panic!("{}: {error}", cgroup.path.display()),
    };
    let (Some(quiet), Some(trigger)) = (set(&victim), set(&busy)) else { return };
    assert!(!fires(&trigger, Duration::from_millis(200)), "nobody is there");
    busy.spin(8 * std::thread::available_parallelism().unwrap().get());
    assert!(fires(&trigger, Duration::from_secs(10)));
    assert!(!fires(&quiet, Duration::from_millis(100)), "nobody waits there");
}

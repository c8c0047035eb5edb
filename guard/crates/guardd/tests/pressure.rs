// SPDX-License-Identifier: Apache-2.0
//! The kernel wakes the watch thread when tasks of the storage services, or of the host, wait.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use guardd::clock::SystemClock;
use guardd::shared::Shared;
use guardd::watch::Watch;
use kernfs::psi::{Asked, Resource, Trigger};
use policy::gauge::{source_of, Reading};
use policy::Config;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use support::{NodeFolders, TestCgroup};

/// `None`, and it is said, where the kernel has none.
fn set(asked: Asked) -> Option<Trigger> {
    match asked {
        Asked::Set(trigger) => Some(trigger),
        Asked::Absent => {
            eprintln!("left out: this kernel has no pressure information");
            None
        }
        Asked::Refused(error) => panic!("{error}"),
    }
}

/// Does it fire within so long?
fn fires(trigger: &Trigger, within: Duration) -> bool {
    let mut fds = [PollFd::new(trigger, PollFlags::PRI)];
    poll(&mut fds, Some(&Timespec::try_from(within).unwrap())).unwrap() > 0
}

#[test]
fn tasks_that_wait_for_a_cpu_fire_it_and_others_do_not() {
    let Some(cgroup) = TestCgroup::of_test("pressure") else { return };
    let (victim, mut busy) = (cgroup.child("quiet"), cgroup.child("busy"));
    let of = |cgroup: &TestCgroup| set(Trigger::of_cgroup(&cgroup.path, Resource::Cpu));
    let (Some(quiet), Some(trigger)) = (of(&victim), of(&busy)) else { return };
    assert!(!fires(&trigger, Duration::from_millis(200)), "nobody is there");
    busy.spin(8 * std::thread::available_parallelism().unwrap().get());
    assert!(fires(&trigger, Duration::from_secs(10)));
    assert!(!fires(&quiet, Duration::from_millis(100)), "nobody waits there");
    let Some(host) = set(Trigger::of_host(Path::new("/proc"), Resource::Cpu)) else { return };
    assert!(fires(&host, Duration::from_secs(10)), "they wait on this host");
}

#[test]
fn gauges_on_pressure_are_read_when_it_fires_and_not_only_once_a_second() {
    let Some(root) = TestCgroup::of_test("watched") else { return };
    let mut storage = root.child("storage.slice");
    if set(Trigger::of_cgroup(&storage.path, Resource::Cpu)).is_none() {
        return;
    }
    let folders = NodeFolders::new();
    let text = format!("[paths]\ncgroup = \"{}\"\nrun = \"{}\"\n", root.path.display(), folders.path("run").display());
    let config = Config::parse("test", &text).unwrap();
    let (shared, stop) = (Arc::new(Shared::default()), Arc::new(AtomicBool::new(false)));
    let mut watch = Watch::new(&config, Arc::new(SystemClock), Arc::clone(&shared));
    let thread = {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || watch.run(&stop))
    };
    storage.spin(8 * std::thread::available_parallelism().unwrap().get());
    let place = source_of("storage.pressure.cpu.some").unwrap();
    let (begun, mut last_ns, mut shortest_ns) = (Instant::now(), 0, u64::MAX);
    while shortest_ns >= 900_000_000 && begun.elapsed() < Duration::from_secs(20) {
        if let Reading::Value(_, at_ns) = shared.gauges.read(place, 0) {
            if last_ns != 0 && at_ns != last_ns {
                shortest_ns = shortest_ns.min(at_ns - last_ns);
            }
            last_ns = at_ns;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    assert!(shortest_ns < 900_000_000, "all readings were {shortest_ns} ns apart and more");
}

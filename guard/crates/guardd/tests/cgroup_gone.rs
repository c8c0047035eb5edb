// SPDX-License-Identifier: Apache-2.0
//! Cgroups of the kernel that are removed, and made anew, under readers that have them open: what is read is of the new one, or
//! nothing, and never of the old one or an error.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use guardd::jobs::JobTable;
use kernfs::cgroup::Cgroup;
use kernfs::psi::{PressureFile, Resource};
use policy::JobSet;
use support::{eventually, TestCgroup};

#[test]
fn a_reader_that_has_a_removed_cgroup_open_reads_its_successor() {
    let Some(parent) = TestCgroup::of_test("gone") else { return };
    let mut job = parent.child("docker-a.scope");
    job.sleep();
    let path = job.path.clone();
    let mut reader = Cgroup::new(&path);
    let mut pressure = Resource::ALL.map(|resource| PressureFile::of_cgroup(&path, resource));
    assert!(reader.events().unwrap().unwrap().populated && reader.cpu().unwrap().is_some());
    pressure.iter_mut().for_each(|file| assert!(file.read().is_ok()));
    // The kernel has removed it; descriptors answer ENODEV from now on.
    drop(job);
    assert!(!path.exists());
    assert_eq!(reader.events().unwrap(), None);
    assert_eq!((reader.cpu().unwrap(), reader.memory_bytes().unwrap(), reader.io().unwrap()), (None, None, None));
    pressure.iter_mut().for_each(|file| assert_eq!(file.read().unwrap(), None));
    let mut job = parent.child("docker-a.scope");
    assert!(!reader.events().unwrap().unwrap().populated, "nothing runs in it yet");
    // In between without a look at it: the descriptor is of the one before.
    job.sleep();
    assert!(reader.events().unwrap().unwrap().populated);
    drop(job);
    let _job = parent.child("docker-a.scope");
    assert!(!reader.events().unwrap().unwrap().populated);
    assert!(reader.cpu().unwrap().is_some_and(|cpu| cpu.usage_us < 1000), "it counts anew");
}

/// Containers come and go as fast as they can while they are listed and read.
#[test]
fn cgroups_that_come_and_go_under_the_readers_are_no_errors() {
    let Some(parent) = TestCgroup::of_test("race") else { return };
    let stop = AtomicBool::new(false);
    let looks = std::thread::scope(|scope| {
        for thread in 0..2 {
            let (parent, stop) = (&parent.path, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    for number in 0..20 {
                        std::fs::create_dir(parent.join(format!("docker-{thread}-{number}.scope"))).unwrap();
                    }
                    for number in 0..20 {
                        std::fs::remove_dir(parent.join(format!("docker-{thread}-{number}.scope"))).unwrap();
                    }
                }
            });
        }
        let mut table = JobTable::new(&parent.path);
        let mut readers: Vec<Cgroup> = Vec::new();
        let (mut version, mut looks, mut read) = (0, 0, 0);
        let (start, enough) = (Instant::now(), |read: u32, version: u64| read > 100 && version > 100);
        let within = |seconds| start.elapsed() < Duration::from_secs(seconds);
        // On a machine with little time for this the looks are few.
        while within(2) || (within(120) && !enough(read, version)) {
            table.look(false, &JobSet::default());
            assert!(table.listed() && table.count() <= 40, "{}", table.count());
            if table.version() != version {
                version = table.version();
                readers = table.iter().map(|(_, job)| Cgroup::new(parent.path.join(&job.scope))).collect();
            }
            for reader in &mut readers {
                reader.cpu().unwrap();
                reader.io().unwrap();
                read += u32::from(reader.events().unwrap().is_some());
            }
            looks += 1;
        }
        stop.store(true, Ordering::Relaxed);
        assert!(enough(read, version), "{read} reads, {version} changes");
        looks
    });
    println!("{looks} looks");
    let mut table = JobTable::new(&parent.path);
    eventually("all are gone", Duration::from_secs(5), || {
        table.look(false, &JobSet::default());
        table.count() == 0
    });
}

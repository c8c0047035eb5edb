// SPDX-License-Identifier: Apache-2.0
//! Ten thousand cgroups in the slice of the jobs: far more than a node has, but whoever can make them must not hold up the loop.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::mpsc::sync_channel;
use std::sync::Arc;
use std::time::{Duration, Instant};

use guardd::actuators::{ShapingActuator, SliceFreezer};
use guardd::clock::SystemClock;
use guardd::control::{ControlLoop, Parts, StateFile};
use guardd::shared::{lock, Owner, Shared};
use intf::segment::synthetic::SegmentWriter;
use policy::{Config, JobSet};
use support::{monotonic_ns, NodeFolders, TestCgroup};

const MANY: usize = 10_000;

#[test]
fn a_tick_is_short_among_ten_thousand_cgroups() {
    let Some(slice) = TestCgroup::of_test("many") else { return };
    let names: Vec<_> = (0..MANY).map(|number| slice.path.join(format!("docker-{number:064}.scope"))).collect();
    names.iter().for_each(|name| std::fs::create_dir(name).unwrap());
    let folders = NodeFolders::new();
    let mut writer = SegmentWriter::create(&folders.segment(), 1, &[("/data/01", 8, 0)], 64, 64).unwrap();
    let config = Config::parse("test", &folders.config(&slice.path, "")).unwrap();
    let owner = Owner::new(&config.latency.owner);
    owner.resolve(std::path::Path::new("/etc/passwd"));
    let shared = Arc::new(Shared::default());
    let (outbox, _inbox) = sync_channel(4096);
    let (worker, _wishes) = sync_channel(4);
    let mut control = ControlLoop::new(Parts {
        clock: Arc::new(SystemClock),
        shared: Arc::clone(&shared),
        outbox,
        signals: guardd::signals::all(&config, owner),
        freezer: SliceFreezer::new(&slice.path),
        shaping: ShapingActuator::new(&folders.path("run")),
        worker,
        state_file: StateFile::create(&folders.path("run")).unwrap(),
        config,
    });
    // Once a second is often enough to see all that a second has; of twenty the middle one, because others use this machine too.
    let begun_ns = monotonic_ns();
    let (mut ticks, mut listings) = (Vec::new(), Vec::new());
    for second in 1..=30u64 {
        let now_ns = begun_ns + second * 1_000_000_000;
        writer.heartbeat(now_ns).unwrap();
        let begun = Instant::now();
        control.tick(now_ns);
        let ticked = Instant::now();
        assert_eq!(std::fs::read_dir(&slice.path).unwrap().filter(is_folder).count(), MANY);
        if second > 10 {
            ticks.push(ticked - begun);
            listings.push(ticked.elapsed());
        }
    }
    let (tick, listing) = (median(ticks), median(listings));
    println!("a tick takes {tick:?}, to list them all {listing:?}");
    let jobs = lock(&shared.snapshot).jobs;
    for name in names {
        std::fs::remove_dir(name).unwrap();
    }
    assert!(tick < listing, "{tick:?}, and to list them all takes {listing:?}");
    assert!(jobs == Some(0), "nothing runs in them: {jobs:?}, places: {}", JobSet::PLACES);
}

fn is_folder(entry: &std::io::Result<std::fs::DirEntry>) -> bool {
    entry.as_ref().unwrap().file_type().unwrap().is_dir()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

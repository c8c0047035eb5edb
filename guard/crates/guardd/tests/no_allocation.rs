// SPDX-License-Identifier: Apache-2.0
//! The control loop allocates nothing in steady state: an allocator under memory pressure may wait for the very disk
//! that the guard watches.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::mpsc::sync_channel;
use std::sync::Arc;

use guardd::actuators::{ShapingActuator, SliceFreezer};
use guardd::clock::SystemClock;
use guardd::control::{ControlLoop, Parts, StateFile};
use guardd::shared::{lock, Owner, Shared};
use guardd::watch::{Claim, Holding};
use intf::segment::layout::{Class, Kind, Op};
use intf::segment::synthetic::SegmentWriter;
use intf::segment::SeriesId;
use policy::Config;
use support::{monotonic_ns, NodeFolders};

thread_local!(static ALLOCATIONS: Cell<usize> = const { Cell::new(0) });

struct Counting;

// SAFETY: every call goes on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_tick_allocates_nothing() {
    let folders = NodeFolders::new();
    std::fs::create_dir_all(folders.slice()).unwrap();
    for (file, text) in [
        ("cgroup.freeze", "0\n"),
        ("cgroup.events", "populated 1\nfrozen 0\n"),
        ("io.stat", "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n"),
        ("cpuset.cpus.effective", "0-3\n"),
        ("memory.max", "2147483648\n"),
    ] {
        std::fs::write(folders.slice().join(file), text).unwrap();
    }
    let io = |requests: u64| format!("8:0 rbytes=1 wbytes=2 rios={requests} wios=4 dbytes=0 dios=0\n");
    for job in 0..64 {
        let folder = folders.slice().join(format!("docker-{job:064}.scope"));
        std::fs::create_dir(&folder).unwrap();
        for (file, text) in
            [("cgroup.freeze", "0\n"), ("cgroup.events", "populated 1\nfrozen 0\n"), ("io.stat", &io(3))]
        {
            std::fs::write(folder.join(file), text).unwrap();
        }
    }
    let names: Vec<_> = (0..96).map(|number| format!("/data/{number:02}")).collect();
    let filesystems: Vec<_> = names.iter().map(|name| (name.as_str(), 8, 0)).collect();
    let mut writer = SegmentWriter::create(&folders.segment(), 1, &filesystems, 64, 64).unwrap();
    std::fs::create_dir(folders.path("probe")).unwrap();
    let mut probe = SegmentWriter::create(&folders.path("probe/probe.lat"), 1, &filesystems, 128, 64).unwrap();
    let config = Config::parse("test", &folders.config(&folders.slice(), "")).unwrap();
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
        freezer: SliceFreezer::new(folders.slice()),
        shaping: ShapingActuator::new(&folders.path("run")),
        worker,
        state_file: StateFile::create(&folders.path("run")).unwrap(),
        config,
    });
    // Three of them come to the storage daemon as well.
    let address = |job: u8| std::net::Ipv4Addr::new(10, 127, 0, job).to_ipv6_mapped();
    let number = |job: u8| {
        let folder = folders.slice().join(format!("docker-{job:064}.scope"));
        std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(folder).unwrap())
    };
    let claims: Vec<_> = (0..3).map(|job| Claim { address: address(job), number: number(job) }).collect();
    shared.addresses.put(&claims);
    let of_batch = |op, filesystem| SeriesId { filesystem, kind: Kind::of(op, Class::Batch).unwrap() };
    // The loop is told the time: a minute passes in a moment, with all that it does once a second.
    let begun_ns = monotonic_ns();
    let mut counted = Vec::new();
    for tick in 0..3000u64 {
        let now_ns = begun_ns + tick * 20_000_000;
        writer.heartbeat(now_ns).unwrap();
        for source in policy::gauge::SOURCES {
            shared.gauges.put(source.name, Some(0.0), now_ns);
        }
        // Jobs use the disk, so that it is looked for who does.
        for job in 0..3 {
            let folder = folders.slice().join(format!("docker-{job:064}.scope"));
            std::fs::write(folder.join("io.stat"), io(3 + tick * (job + 1))).unwrap();
        }
        std::fs::write(folders.slice().join("io.stat"), io(3 * 64 + tick * 6)).unwrap();
        for number in 0..6 {
            let filesystem = ((tick * 6 + number) % 96) as u16;
            let series = SeriesId { filesystem, kind: Kind::of(Op::Read, Class::Storage).unwrap() };
            writer.complete(series, 8_000_000 + tick % 7 * 100_000, 65_536).unwrap();
        }
        for job in 0..3u8 {
            let filesystem = ((tick + u64::from(job)) % 96) as u16;
            let client = Some(u32::from(job));
            writer.begin(u32::from(job), of_batch(Op::Read, filesystem), now_ns - 1_000_000, 4096, client).unwrap();
            writer.complete(of_batch(Op::Write, filesystem), 900_000, 65_536).unwrap();
            writer.client(u32::from(job), address(job), tick * 4096, tick * 65_536).unwrap();
        }
        let held: Vec<_> = (0..3)
            .map(|job| Holding { number: number(job), bytes: tick, grown: tick, waited_us: 0, at_ns: now_ns })
            .collect();
        shared.holdings.put(&held);
        probe.heartbeat(now_ns).unwrap();
        let series = SeriesId { filesystem: (tick % 96) as u16, kind: Kind::of(Op::Read, Class::Internal).unwrap() };
        probe.complete(series, 8_000_000 + tick % 7 * 100_000, 4096).unwrap();
        probe.end(((tick + 95) % 96) as u32).unwrap();
        probe.begin((tick % 96) as u32, series, now_ns, 4096, None).unwrap();
        let before = ALLOCATIONS.with(Cell::get);
        control.tick(now_ns);
        let allocated = ALLOCATIONS.with(Cell::get) - before;
        // The first seconds open files, size buffers and change the state; and the first operation of its kind on a filesystem
        // makes room for what is learned of it: once, some kilobytes.
        if tick > 600 && allocated > 0 {
            counted.push((tick, allocated));
        }
    }
    assert!(counted.is_empty(), "(tick, allocations): {counted:?}");
    let view = lock(&shared.snapshot);
    assert_eq!((view.state.name(), view.histograms.0.len(), view.jobs), ("open", 96 * 19, Some(64)));
}

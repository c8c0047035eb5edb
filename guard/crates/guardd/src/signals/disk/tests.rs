// SPDX-License-Identifier: Apache-2.0
//! Disks that the test writes down, and what is made of them.

use intf::segment::{Class, Op};

use super::*;
use crate::signals::Mounted;

fn entry() -> Entry {
    Entry { known: true, ..Entry::new((8, 0), (8, 0)) }
}

fn direct(reads: u64) -> DeviceIo {
    DeviceIo { device: (8, 0), reads, ..DeviceIo::default() }
}

#[test]
fn both_ways_to_a_disk_count_and_a_hang_keeps_the_blame() {
    let second = Duration::from_secs(1);
    let mut entry = entry();
    // 30 requests by jobs, 10 by batch clients and 60 by storage clients of the daemon.
    let traffic = Traffic { batch: (10, 0), all: (70, 0) };
    let through = Work::new(10, 0);
    entry.share(direct(30), through, traffic, None, second, 0.8);
    assert_eq!((entry.batch, entry.all), (40.0, 100.0));
    (entry.direct, entry.through, entry.traffic) = (direct(30), through, traffic);
    // Nothing completes.
    entry.share(direct(30), through, traffic, None, second, 0.8);
    assert_eq!((entry.batch, entry.all), (40.0, 100.0));
    // Only storage works again.
    let traffic = Traffic { batch: (10, 0), all: (170, 0) };
    entry.share(direct(30), through, traffic, None, second, 0.8);
    assert_eq!((entry.batch, entry.all), (32.0, 180.0));
}

#[test]
fn the_share_just_now_outlasts_a_freeze_that_began_a_moment_ago_and_no_more() {
    let mut entry = entry();
    let (second, moment) = (Duration::from_secs(1), Duration::from_millis(100));
    let mut read = |batch, all, elapsed| {
        let traffic = Traffic { batch: (batch, 0), all: (all, 0) };
        entry.share(DeviceIo::default(), Work::new(batch, 0), traffic, None, elapsed, 0.8);
        entry.share_now()
    };
    assert_eq!(read(40, 100, second), 0.4);
    assert_eq!(read(0, 10, moment), 0.4, "frozen in between");
    assert_eq!(read(1, 7, moment), 0.4, "too little to tell");
    assert_eq!(read(1, 10, moment), 0.1);
    assert_eq!(read(8, 10, moment), 0.8);
    read(0, 3, second);
    assert!(read(0, 3, second).is_nan(), "a disk that is idle");
}

#[test]
fn what_others_do_on_the_device_counts_as_all() {
    let (mut entry, second) = (entry(), Duration::from_secs(1));
    let disk = Some(Done { reads: Work::new(400, 0), ..Done::default() });
    entry.share(direct(100), Work::default(), Traffic::default(), disk, second, 0.8);
    assert_eq!(entry.batch / entry.all, 0.25);
    // What the page cache gave to storage clients was no work.
    let traffic = Traffic { batch: (0, 0), all: (100_000, 0) };
    entry.share(direct(100), Work::default(), traffic, disk, second, 0.0);
    assert_eq!(entry.batch / entry.all, 0.25);
    // More was asked for than the device has done by now: never a share above 1.
    entry.share(direct(1000), Work::default(), Traffic::default(), disk, second, 0.0);
    assert_eq!(entry.batch / entry.all, 1.0);
}

/// A disk of which batch did all, in folders that the test writes.
struct Rig {
    folder: tempfile::TempDir,
    signal: Disk,
    board: Board,
}

impl Rig {
    fn new() -> Rig {
        let folder = tempfile::tempdir().unwrap();
        for name in ["proc", "jobs.slice"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let root = folder.path().display();
        let text = format!("[paths]\ncgroup = \"{root}\"\nproc = \"{root}/proc\"\njobs_slice = \"jobs.slice\"\n");
        let config = Config::parse("test", &text).unwrap();
        let mut board = Board::new(&config);
        board.filesystems = vec![intf::segment::Filesystem {
            path: "/data/01".into(),
            major: 8,
            minor: 0,
            open_readers: 0,
            open_writers: 0,
            overloaded: false,
        }];
        (board.batch_share, board.batch_share_now) = (vec![f32::NAN], vec![f32::NAN]);
        board.filesystems_version += 1;
        Rig { signal: Disk::new(&config), board, folder }
    }

    fn stats(&self, text: &str) {
        std::fs::write(self.folder.path().join("proc/diskstats"), text).unwrap();
    }

    fn io(&self, text: &str) {
        std::fs::write(self.folder.path().join("jobs.slice/io.stat"), text).unwrap();
    }

    fn done(&self, disk: u64, batch: u64) {
        self.stats(&format!("   8       0 sda {disk} 0 8 1 0 0 0 0 0 1 1 0 0 0 0 0 0\n"));
        self.io(&format!("8:0 rbytes=0 wbytes=0 rios={batch} wios=0 dbytes=0 dios=0\n"));
    }

    fn read(&mut self, second: u64) -> (Reading, f32) {
        (self.signal.read(second * 1_000_000_000, &mut self.board), self.board.batch_share_now[0])
    }
}

#[test]
fn what_cannot_be_read_accuses_nobody_and_is_not_made_up_for() {
    let mut rig = Rig::new();
    rig.done(100_000, 50_000);
    assert_eq!(rig.read(100).0, Reading::Value);
    rig.done(100_100, 50_100);
    assert_eq!(rig.read(101), (Reading::Value, 1.0));
    for damage in [Rig::io as fn(&Rig, &str), Rig::stats] {
        rig.done(100_100, 50_100);
        damage(&rig, "8:0 damaged\n");
        assert_eq!(rig.read(102), (Reading::Broken, 1.0));
        assert!(
            rig.signal.fault().contains("damaged") || rig.signal.fault().contains("line"),
            "{}",
            rig.signal.fault()
        );
    }
    // It is back: of 1000 requests since the last reading batch did 10, and not the 50110 that it ever did.
    rig.done(101_100, 50_110);
    rig.read(103);
    rig.done(102_100, 50_120);
    assert_eq!(rig.read(104), (Reading::Value, 0.01));
    rig.io("8:0 damaged\n");
    assert_eq!(rig.read(110), (Reading::Broken, 0.01), "for a while it is as it was");
    assert!(rig.read(111).1.is_nan() && rig.board.batch_share[0].is_nan());
    rig.done(900_000, 800_000);
    assert!(rig.read(112).1.is_nan(), "nobody knows when that was");
    rig.done(900_100, 800_050);
    assert_eq!(rig.read(113), (Reading::Value, 0.5));
}

/// Requests of batch through the daemons, as far as they reached the disk of the first filesystem.
fn through(rig: &Rig) -> f64 {
    rig.board.daemons.batch(0).requests
}

#[test]
fn what_is_left_of_the_disk_is_for_those_who_wait_in_the_daemons() {
    let mut rig = Rig::new();
    rig.board.daemons.restart(1);
    std::fs::create_dir(rig.folder.path().join("beer.slice")).unwrap();
    let all_of_batch = |rig: &Rig, reads: u64| {
        let text = format!("8:0 rbytes=0 wbytes=0 rios={reads} wios=0 dbytes=0 dios=0\n");
        std::fs::write(rig.folder.path().join("beer.slice/io.stat"), text).unwrap();
    };
    rig.done(1000, 500);
    all_of_batch(&rig, 600);
    rig.read(100);
    // Of 400 reads 100 were batch's directly, 60 of them the jobs'; three requests of four in the daemons are batch's.
    let wait = |rig: &mut Rig| {
        rig.board.daemons.wait(0, Op::Read, Class::Batch, None, 30);
        rig.board.daemons.wait(0, Op::Read, Class::Storage, None, 10);
    };
    wait(&mut rig);
    rig.done(1400, 560);
    all_of_batch(&rig, 700);
    let (reading, share) = rig.read(101);
    assert_eq!((reading, through(&rig)), (Reading::Value, 225.0));
    assert_eq!(share, (60.0 + 225.0) / 400.0);
    // Where the slice of all of batch says nothing it is the jobs' at least.
    std::fs::write(rig.folder.path().join("beer.slice/io.stat"), "").unwrap();
    rig.done(1500, 560);
    rig.read(102);
    wait(&mut rig);
    rig.done(1900, 660);
    rig.read(103);
    assert_eq!(through(&rig), 225.0 + 225.0);
    // What the disk writes is work as well.
    for (second, writes) in [(104, 300), (105, 600)] {
        rig.stats(&format!("   8       0 sda 1900 0 8 1 {writes} 0 0 0 0 1 1 0 0 0 0 0 0\n"));
        rig.io(&format!("8:0 rbytes=0 wbytes=0 rios=660 wios={} dbytes=0 dios=0\n", writes / 2));
        rig.read(second);
    }
    assert_eq!(rig.read(105).1, 0.5);
}

#[test]
fn what_was_taken_for_done_while_nothing_could_be_read_is_not_done_again() {
    let mut rig = Rig::new();
    rig.board.daemons.restart(1);
    rig.done(1000, 0);
    rig.read(100);
    rig.board.daemons.asked(0, Op::Read, Class::Batch, 10, 0);
    rig.stats("damaged\n");
    assert_eq!((rig.read(101).0, through(&rig)), (Reading::Broken, 10.0));
    rig.board.daemons.wait(0, Op::Read, Class::Batch, None, 10);
    rig.done(1010, 0);
    rig.read(102);
    assert_eq!(through(&rig), 10.0);
    rig.board.daemons.wait(0, Op::Read, Class::Batch, None, 10);
    rig.done(1020, 0);
    rig.read(103);
    assert_eq!(through(&rig), 20.0);
}

#[test]
fn two_filesystems_on_a_disk_share_what_it_does() {
    let mut rig = Rig::new();
    let other = intf::segment::Filesystem { path: "/data/02".into(), ..rig.board.filesystems[0].clone() };
    rig.board.filesystems.push(other);
    rig.board.daemons.restart(2);
    rig.done(1000, 0);
    rig.read(100);
    rig.board.daemons.wait(1, Op::Read, Class::Batch, None, 10);
    rig.board.daemons.wait(0, Op::Read, Class::Storage, None, 10);
    rig.done(1100, 0);
    rig.read(101);
    assert_eq!([0, 1].map(|filesystem| rig.board.daemons.batch(filesystem).requests), [50.0; 2]);
}

#[test]
fn what_led_to_a_freeze_is_settled_at_once() {
    let mut rig = Rig::new();
    rig.done(1000, 0);
    rig.read(100);
    assert!(!rig.signal.urgent(&rig.board));
    rig.board.hold = Hold::All;
    assert!(rig.signal.urgent(&rig.board));
    rig.read(101);
    assert!(!rig.signal.urgent(&rig.board), "once");
    rig.board.hold = Hold::Nobody;
    assert!(rig.signal.urgent(&rig.board), "and when they run again");
}

#[test]
fn how_long_a_read_takes_is_known() {
    let counters = |reads, read_ms| DiskCounters { reads, read_ms, ..DiskCounters::default() };
    let took = |now, then| since(&now, &then).unwrap().read_ns;
    assert_eq!(took(counters(300, 1000), counters(100, 400)), 3e6);
    assert_eq!(took(counters(101, 3), counters(100, u32::MAX - 4)), 8e6, "the kernel's number wraps");
    assert_eq!(took(counters(100, 400), counters(100, 400)), 0.0);
    assert_eq!(since(&counters(99, 0), &counters(100, 0)), None, "another disk");
}

#[test]
fn a_disk_that_vanishes_is_told_and_what_comes_in_its_place_begins_anew() {
    let mut rig = Rig::new();
    rig.done(100_000, 50_000);
    rig.read(100);
    rig.done(100_100, 50_050);
    assert_eq!((rig.read(101), rig.board.gone), ((Reading::Value, 0.5), 0));
    // Pulled out: neither diskstats nor io.stat have it any more.
    rig.stats("   8      16 sdb 7 0 8 1 0 0 0 0 0 1 1 0 0 0 0 0 0\n");
    rig.io("");
    assert_eq!((rig.read(102).0, rig.board.gone), (Reading::Value, 1));
    assert_eq!(rig.board.worst_disk.map(|(worst, at_ns)| (worst.gone, at_ns)), Some((1, 102_000_000_000)));
    let mut samples = Vec::new();
    rig.signal.sample(&mut samples);
    let gone = samples.iter().find(|sample| std::ptr::eq(sample.metric, &names::DISK_GONE));
    assert_eq!(gone.map(|sample| sample.value), Some(1.0));
    // Another one is mounted: of what it did before that nothing is batch's.
    rig.stats("   8      16 sdb 900000 0 8 1 0 0 0 0 0 1 1 0 0 0 0 0 0\n");
    rig.io("8:16 rbytes=0 wbytes=0 rios=800000 wios=0 dbytes=0 dios=0\n");
    rig.board.mounts = [Mounted { path: "/data/01".into(), device: (8, 16), disk: (8, 16) }].into();
    rig.board.mounts_version += 1;
    let version = rig.board.disks_version;
    assert!(rig.read(103).1.is_nan() && rig.board.gone == 0);
    assert_eq!((&rig.board.disks[..], rig.board.disks_version), (&[(8, 16)][..], version + 1));
    rig.stats("   8      16 sdb 900100 0 8 1 0 0 0 0 0 1 1 0 0 0 0 0 0\n");
    rig.io("8:16 rbytes=0 wbytes=0 rios=800025 wios=0 dbytes=0 dios=0\n");
    assert_eq!((rig.read(104).1, rig.board.disks_version), (0.25, version + 1));
    // The storage daemon starts again, and still gives the number that it knew.
    rig.board.filesystems_version += 1;
    rig.read(105);
    assert_eq!(rig.board.disks, [(8, 16)]);
}

/// As `sd.c` numbers them: sixteen disks to a major number.
fn disk_of_many(index: u32) -> (u32, u32) {
    ([8, 65, 66, 67, 68, 69][index as usize / 16], index % 16 * 16)
}

#[test]
fn each_of_96_disks_is_judged_by_what_is_done_there() {
    const GUILTY: u32 = 57;
    let mut rig = Rig::new();
    let filesystem = rig.board.filesystems[0].clone();
    rig.board.filesystems = (0..96)
        .map(|index| {
            let (major, minor) = disk_of_many(index);
            intf::segment::Filesystem { path: format!("/data/{index:02}"), major, minor, ..filesystem.clone() }
        })
        .collect();
    (rig.board.batch_share, rig.board.batch_share_now) = (vec![f32::NAN; 96], vec![f32::NAN; 96]);
    rig.board.daemons.restart(96);
    let write = |rig: &Rig, round: u64, gone: Option<u32>| {
        let there = (0..96).filter(|index| Some(*index) != gone);
        let (mut stats, mut io) = (String::new(), String::new());
        for index in there {
            let (major, minor) = disk_of_many(index);
            let (all, batch) = (100 * round, if index == GUILTY { 30 * round } else { 0 });
            stats += &format!("   {major}       {minor} sd{index} {all} 0 8 1 0 0 0 0 0 1 1 0 0 0 0 0 0\n");
            io += &format!("{major}:{minor} rbytes=0 wbytes=0 rios={batch} wios=0 dbytes=0 dios=0\n");
        }
        rig.stats(&stats);
        rig.io(&io);
    };
    for round in 1..=2 {
        write(&rig, round, None);
        assert_eq!(rig.read(99 + round).0, Reading::Value);
    }
    let expected = |index| if index == GUILTY { 0.3 } else { 0.0 };
    assert_eq!(rig.board.batch_share_now, (0..96).map(expected).collect::<Vec<_>>());
    // The last one is pulled out: the others are as before.
    write(&rig, 3, Some(95));
    assert_eq!((rig.read(102).0, rig.board.gone), (Reading::Value, 1 << 95));
    assert_eq!(rig.board.batch_share_now[..95], (0..95).map(expected).collect::<Vec<_>>());
}

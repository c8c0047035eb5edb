// SPDX-License-Identifier: Apache-2.0
//! The block device under each filesystem of the segment, and batch's share of it. Batch uses a disk in two ways:
//! directly (charged to beer-jobs.slice in `io.stat`) and through the storage daemons (see `daemons`), for which is settled here what
//! the disk did beyond what was asked of it directly.

use std::path::{Path, PathBuf};
use std::time::Duration;

use intf::segment::Filesystem;
use kernfs::block::{DiskCounters, DiskStats, DiskUse};
use kernfs::cgroup::{DeviceIo, IoStat};
use kernfs::mountinfo::{mount_of, MountInfo};
use policy::{Config, Hold};

use super::daemons::{Done, Work};
use super::{work, Board, Label, Reading, Sample, Signal, Traffic};
use super::{BYTES_PER_REQUEST, HURRIED_NS, STALE_SECONDS, WORK_MIN};
use crate::metrics::names;

/// A share is of what was done in about this time: long enough to be steady, short enough that a job which has
/// ended is not blamed for long.
const MEMORY_SECONDS: f64 = 5.0;

/// One filesystem of the segment.
#[derive(Debug)]
struct Entry {
    /// As in `/proc/diskstats`: the partition or the whole disk.
    device: (u32, u32),
    /// As in `io.stat`: always the whole disk.
    disk: (u32, u32),
    counters: Option<DiskCounters>,
    usage: Option<DiskUse>,
    /// Of the whole disk.
    whole: Option<DiskCounters>,
    /// What jobs asked of it directly, and all of batch did: HTCondor and the container engine, too.
    direct: DeviceIo,
    charged: DeviceIo,
    /// What went through the daemons, for batch and in all.
    through: Work,
    traffic: Traffic,
    /// There was a reading before: differences can be taken.
    known: bool,
    /// Work of batch and of all, forgetting.
    batch: f64,
    all: f64,
    /// Batch's share between the last two readings, and between the two before.
    recent: [f32; 2],
}

impl Entry {
    /// Batch's share just now: the larger of two, because a freeze that began a moment ago hides what led to it.
    fn share_now(&self) -> f32 {
        self.recent[0].max(self.recent[1])
    }
}

/// The signal.
pub struct Disk {
    period_ns: u64,
    proc: PathBuf,
    sys: PathBuf,
    stats: DiskStats,
    jobs: IoStat,
    batch: IoStat,
    entries: Vec<Entry>,
    version: u64,
    read_ns: u64,
    /// At the last reading all stood still.
    still: bool,
    /// It could not be read, and what the daemons' clients asked for was taken for what the disks did since.
    settled: bool,
    fault: Option<String>,
}

impl Disk {
    /// Knows the filesystems only when there is a segment.
    pub fn new(config: &Config) -> Self {
        Disk {
            period_ns: config.disk.interval_ns,
            proc: config.paths.proc.clone(),
            sys: config.paths.sys.clone(),
            stats: DiskStats::new(&config.paths.proc),
            jobs: IoStat::new(&config.paths.cgroup.join(&config.paths.jobs_slice)),
            batch: IoStat::new(&config.paths.cgroup.join(&config.paths.batch_slice)),
            entries: Vec::new(),
            version: 0,
            read_ns: 0,
            still: false,
            settled: false,
            fault: None,
        }
    }

    /// It cannot be read: after a while what was known says nothing about now, and an unknown share accuses nobody. What clients of
    /// the daemons asked for stands for what they got.
    fn forget(&mut self, now_ns: u64, board: &mut Board) {
        (0..self.entries.len()).for_each(|index| board.daemons.settle(index, None, self.period_ns as f64 / 1e9));
        self.settled = true;
        let grace_ns = self.period_ns + (MEMORY_SECONDS * 1e9) as u64;
        if now_ns.saturating_sub(self.read_ns) > grace_ns {
            board.batch_share.fill(f32::NAN);
            board.batch_share_now.fill(f32::NAN);
            self.entries.iter_mut().for_each(|entry| (entry.known, entry.recent) = (false, [f32::NAN; 2]));
        }
    }

    fn find_devices(&mut self, board: &mut Board) {
        self.version = board.filesystems_version;
        let entry = |filesystem| {
            let device = device_of(&self.proc, &self.sys, filesystem).unwrap_or_default();
            Entry::new(device, whole_disk(&self.sys, device))
        };
        self.entries = board.filesystems.iter().map(entry).collect();
        board.disks = self.entries.iter().map(|entry| entry.disk).collect();
        board.disks_version += 1;
        board.daemons.on_disks(&board.disks);
    }
}

impl Signal for Disk {
    fn name(&self) -> &'static str {
        "disk"
    }

    fn period_ns(&self) -> u64 {
        self.period_ns
    }

    fn hurried_ns(&self) -> u64 {
        self.period_ns.min(HURRIED_NS)
    }

    fn urgent(&self, board: &Board) -> bool {
        // What was done until a freeze is settled with what was read until then.
        (board.hold == Hold::All) != self.still || board.others_suspected()
    }

    fn read(&mut self, now_ns: u64, board: &mut Board) -> Reading {
        if self.version != board.filesystems_version {
            self.find_devices(board);
        }
        self.fault = None;
        self.still = board.hold == Hold::All;
        // What batch did is read with what the disk did or not at all: a count that is not there would come back as one of all times.
        let (disks, direct, charged) = match (self.stats.read(), self.jobs.read(), self.batch.read()) {
            (Ok(Some(disks)), Ok(direct), Ok(charged)) => {
                (disks, direct.unwrap_or_default(), charged.unwrap_or_default())
            }
            (Ok(None), ..) => {
                self.forget(now_ns, board);
                return Reading::Absent;
            }
            (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => {
                self.fault = Some(error.to_string());
                self.forget(now_ns, board);
                return Reading::Broken;
            }
        };
        let elapsed = Duration::from_nanos(now_ns.saturating_sub(self.read_ns));
        self.read_ns = now_ns;
        let keep = (-elapsed.as_secs_f64() / MEMORY_SECONDS).exp();
        for (index, entry) in self.entries.iter_mut().enumerate() {
            let of = |device| disks.iter().find(|disk| disk.device == device).copied();
            let counters = of(entry.device);
            entry.usage = counters.zip(entry.counters).and_then(|(now, then)| now.since(&then, elapsed));
            entry.counters = counters;
            let whole = if entry.disk == entry.device { counters } else { of(entry.disk) };
            let charged_to =
                |list: &[DeviceIo]| list.iter().find(|io| io.device == entry.disk).copied().unwrap_or_default();
            let direct = charged_to(direct);
            let charged = larger(charged_to(charged), direct);
            let traffic = board.operations.get(index).copied().unwrap_or_default();
            let disk = whole.zip(entry.whole).and_then(|(now, then)| since(&now, &then));
            let for_daemons = disk.filter(|_| !self.settled).map(|done| beyond(done, &charged, &entry.charged));
            board.daemons.settle(index, for_daemons, elapsed.as_secs_f64());
            let through = board.daemons.batch(index);
            // The device may be unknown to diskstats (a network filesystem); what the daemon does is known all the same.
            if entry.known {
                entry.share(direct, through, traffic, disk, elapsed, keep);
            }
            (entry.direct, entry.charged, entry.through, entry.traffic) = (direct, charged, through, traffic);
            (entry.whole, entry.known) = (whole, true);
            if let Some(share) = board.batch_share_now.get_mut(index) {
                *share = entry.share_now();
            }
            if let Some(share) = board.batch_share.get_mut(index) {
                *share = if entry.all > 0.0 { (entry.batch / entry.all) as f32 } else { f32::NAN };
            }
        }
        self.settled = false;
        Reading::Value
    }

    fn fault(&self) -> String {
        self.fault.clone().unwrap_or_else(|| format!("{}: not there", self.proc.join("diskstats").display()))
    }

    fn sample(&self, samples: &mut Vec<Sample>) {
        for (index, entry) in self.entries.iter().enumerate() {
            let label = Label::Filesystem(index as u16);
            let mut push = |metric, value| samples.push(Sample { metric, label, value });
            if entry.all > 0.0 {
                push(&names::BATCH_SHARE, entry.batch / entry.all);
            }
            if let Some(usage) = entry.usage {
                push(&names::DISK_UTILISATION, usage.utilisation);
                push(&names::DISK_QUEUE, usage.queue);
                push(&names::DISK_AWAIT, usage.await_ms.unwrap_or(0.0) / 1e3);
            }
        }
    }
}

impl Entry {
    fn new(device: (u32, u32), disk: (u32, u32)) -> Self {
        Entry {
            device,
            disk,
            counters: None,
            usage: None,
            whole: None,
            direct: DeviceIo::default(),
            charged: DeviceIo::default(),
            through: Work::default(),
            traffic: Traffic::default(),
            known: false,
            batch: 0.0,
            all: 0.0,
            recent: [f32::NAN; 2],
        }
    }

    /// While the disk completes nothing (it hangs, or is idle) the share stays what it was: a stuck disk must keep
    /// the blame that was known before. `disk` = what it did; `None` = not known.
    fn share(
        &mut self,
        direct: DeviceIo,
        through: Work,
        traffic: Traffic,
        disk: Option<Done>,
        elapsed: Duration,
        keep: f64,
    ) {
        let direct_work = directly(&direct, &self.direct);
        let through = through.less(self.through);
        let batch = in_all(direct_work.reads) + in_all(direct_work.writes) + in_all(through);
        let seconds = elapsed.as_secs_f64();
        // What was asked of a disk directly may be done a moment later: the share stays within 0 and 1.
        let all = match disk {
            Some(done) => in_all(done.reads) + in_all(done.writes),
            None => {
                let (now, then) = (traffic.all, self.traffic.all);
                batch - in_all(through) + work(now.0.saturating_sub(then.0), now.1.saturating_sub(then.1))
            }
        };
        let all = all.max(batch);
        if all >= WORK_MIN || seconds >= STALE_SECONDS {
            let share = if all >= WORK_MIN { (batch / all) as f32 } else { f32::NAN };
            self.recent = [share, self.recent[0]];
        }
        if all > 0.0 {
            self.batch = self.batch * keep + batch;
            self.all = self.all * keep + all;
        }
    }
}

/// In one number: of how many requests.
fn in_all(work: Work) -> f64 {
    work.requests + work.bytes / BYTES_PER_REQUEST
}

/// What a disk did between two readings; `None` when they are not of the same device's one life.
fn since(now: &DiskCounters, then: &DiskCounters) -> Option<Done> {
    let work = |requests: (u64, u64), sectors: (u64, u64)| {
        let bytes = sectors.0.checked_sub(sectors.1)?.saturating_mul(512);
        Some(Work::new(requests.0.checked_sub(requests.1)?, bytes))
    };
    let reads = work((now.reads, then.reads), (now.read_sectors, then.read_sectors))?;
    let waited_ns = f64::from(now.read_ms.wrapping_sub(then.read_ms)) * 1e6;
    Some(Done {
        read_ns: if reads.requests > 0.0 { waited_ns / reads.requests } else { 0.0 },
        reads,
        writes: work((now.writes, then.writes), (now.write_sectors, then.write_sectors))?,
    })
}

/// What a cgroup asked of a disk between two readings.
fn directly(now: &DeviceIo, then: &DeviceIo) -> Done {
    let work = |requests: (u64, u64), bytes: (u64, u64)| {
        Work::new(requests.0.saturating_sub(requests.1), bytes.0.saturating_sub(bytes.1))
    };
    Done {
        read_ns: 0.0,
        reads: work((now.reads, then.reads), (now.read_bytes, then.read_bytes)),
        writes: work((now.writes, then.writes), (now.write_bytes, then.write_bytes)),
    }
}

/// What the jobs did is part of what batch did, wherever their slice is.
fn larger(all: DeviceIo, jobs: DeviceIo) -> DeviceIo {
    DeviceIo {
        device: all.device,
        read_bytes: all.read_bytes.max(jobs.read_bytes),
        write_bytes: all.write_bytes.max(jobs.write_bytes),
        reads: all.reads.max(jobs.reads),
        writes: all.writes.max(jobs.writes),
    }
}

/// What is left of it for the daemons.
fn beyond(done: Done, now: &DeviceIo, then: &DeviceIo) -> Done {
    let direct = directly(now, then);
    Done { reads: done.reads.less(direct.reads), writes: done.writes.less(direct.writes), read_ns: done.read_ns }
}

/// What a filesystem lies on.
fn device_of(proc: &Path, sys: &Path, filesystem: &Filesystem) -> Option<(u32, u32)> {
    match (filesystem.major, filesystem.minor) {
        // No block device of its own (btrfs and others): ask the mount table what is under the path.
        (0, _) => mounted_device(proc, sys, Path::new(&filesystem.path)),
        number => Some(number),
    }
}

/// The whole disk of that.
pub fn disk_of(proc: &Path, sys: &Path, filesystem: &Filesystem) -> Option<(u32, u32)> {
    device_of(proc, sys, filesystem).map(|device| whole_disk(sys, device))
}

/// `io.stat` counts by whole disk: the parent of a partition.
fn whole_disk(sys: &Path, device: (u32, u32)) -> (u32, u32) {
    let folder = sys.join(format!("dev/block/{}:{}", device.0, device.1));
    if !folder.join("partition").exists() {
        return device;
    }
    let parent = std::fs::read_to_string(folder.join("../dev")).ok();
    parent.as_deref().and_then(parse_device).unwrap_or(device)
}

fn parse_device(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn mounted_device(proc: &Path, sys: &Path, path: &Path) -> Option<(u32, u32)> {
    let mounts = MountInfo::new(proc).read().ok()??;
    let mount = mount_of(&mounts, path)?;
    if mount.device.0 != 0 {
        return Some(mount.device);
    }
    // By sysfs and not by /dev, which the sandbox of the service empties.
    let name = Path::new(&mount.source).strip_prefix("/dev").ok()?.to_str()?.replace('/', "!");
    let number = std::fs::read_to_string(sys.join("class/block").join(name).join("dev")).ok()?;
    parse_device(&number)
}

#[cfg(test)]
mod tests {
    use intf::segment::{Class, Op};

    use super::*;

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
    fn a_partition_is_counted_with_its_disk() {
        let sys = tempfile::tempdir().unwrap();
        let disk = sys.path().join("devices/vdb");
        std::fs::create_dir_all(disk.join("vdb1")).unwrap();
        std::fs::create_dir_all(sys.path().join("dev/block")).unwrap();
        std::fs::write(disk.join("dev"), "254:16\n").unwrap();
        std::fs::write(disk.join("vdb1/partition"), "1\n").unwrap();
        std::os::unix::fs::symlink(disk.join("vdb1"), sys.path().join("dev/block/254:17")).unwrap();
        assert_eq!(whole_disk(sys.path(), (254, 17)), (254, 16));
        assert_eq!(whole_disk(sys.path(), (254, 32)), (254, 32));
    }
}

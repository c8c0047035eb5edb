// SPDX-License-Identifier: Apache-2.0
//! The block device under each filesystem of the segment, and batch's share of it. Batch uses a disk in two ways:
//! directly (charged to beer-jobs.slice in `io.stat`) and through the storage daemons (see `daemons`), for which is settled here what
//! the disk did beyond what was asked of it directly.

use std::path::PathBuf;
use std::time::Duration;

use intf::segment::Filesystem;
use kernfs::block::{DiskCounters, DiskStats};
use kernfs::cgroup::{DeviceIo, IoStat};
use policy::bits::bit;
use policy::{Config, Hold};

use super::condition::{Condition, Worst};
use super::daemons::{Done, Work};
use super::device::{rotational, whole_disk};
use super::{work, Board, Label, Reading, Sample, Signal, Traffic};
use super::{BYTES_PER_REQUEST, HURRIED_NS, STALE_SECONDS, WORK_MIN};
use crate::metrics::names;

#[cfg(test)]
mod tests;

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
    condition: Condition,
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
    /// And of all per second.
    rate: f64,
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
    mounts: u64,
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
            mounts: 0,
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
            board.disk_work.fill(f32::NAN);
            self.entries
                .iter_mut()
                .for_each(|entry| (entry.known, entry.rate, entry.recent) = (false, f64::NAN, [f32::NAN; 2]));
        }
    }

    fn find_devices(&mut self, board: &mut Board) {
        self.version = board.filesystems_version;
        let entry = |filesystem: &Filesystem| {
            // As the storage daemon says; of what has no number of its own, and of what is mounted anew, the watch thread does.
            let device = (filesystem.major, filesystem.minor);
            Entry::new(device, whole_disk(&self.sys, device))
        };
        self.entries = board.filesystems.iter().map(entry).collect();
        self.follow_mounts(board);
        self.tell_disks(board);
    }

    /// A disk was mounted in the place of another one: none of its counters have anything to do with those before. Has any changed?
    fn follow_mounts(&mut self, board: &Board) -> bool {
        self.mounts = board.mounts_version;
        let mut changed = false;
        for (entry, filesystem) in self.entries.iter_mut().zip(&board.filesystems) {
            let Some(mounted) = board.mounts.iter().find(|mounted| mounted.path == filesystem.path) else { continue };
            if (entry.device, entry.disk) != (mounted.device, mounted.disk) {
                *entry = Entry::new(mounted.device, mounted.disk);
                changed = true;
            }
        }
        changed
    }

    fn tell_disks(&self, board: &mut Board) {
        board.disks.clear();
        board.disks.extend(self.entries.iter().map(|entry| entry.disk));
        let turn = self.entries.iter().enumerate().filter(|(_, entry)| rotational(&self.sys, entry.disk));
        board.rotational = turn.fold(0, |all, (index, _)| all | bit(index));
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
        } else if self.mounts != board.mounts_version && self.follow_mounts(board) {
            self.tell_disks(board);
        }
        self.fault = None;
        self.still = board.hold == Hold::All;
        // What batch did is read with what the disk did or not at all: a count that is not there would come back as one of all times.
        let (disks, direct, charged) = match (self.stats.read(), self.jobs.read(), self.batch.read()) {
            (Ok(Some(disks)), Ok(direct), Ok(charged)) => {
                (disks, direct.unwrap_or_default(), charged.unwrap_or_default())
            }
            (Ok(None), ..) => {
                board.worst_disk = None;
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
            entry.condition.follow(counters.as_ref(), self.period_ns, now_ns);
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
        board.disk_work.clear();
        board.disk_work.extend(self.entries.iter().map(|entry| entry.rate as f32));
        let conditions = || self.entries.iter().map(|entry| &entry.condition);
        let gone = conditions().enumerate().filter(|(_, condition)| condition.gone());
        board.gone = gone.fold(0, |gone, (index, _)| gone | 1u128.checked_shl(index as u32).unwrap_or(0));
        board.worst_disk = Some((Worst::of(conditions()), now_ns));
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
            let condition = &entry.condition;
            if condition.usage().is_some() || condition.gone() {
                push(&names::DISK_GONE, f64::from(u8::from(condition.gone())));
            }
            if let (Some(usage), Some(await_s)) = (condition.usage(), condition.await_s()) {
                push(&names::DISK_UTILISATION, usage.utilisation);
                push(&names::DISK_QUEUE, usage.queue);
                push(&names::DISK_AWAIT, await_s);
            }
        }
    }
}

impl Entry {
    fn new(device: (u32, u32), disk: (u32, u32)) -> Self {
        Entry {
            device,
            disk,
            condition: Condition::default(),
            whole: None,
            direct: DeviceIo::default(),
            charged: DeviceIo::default(),
            through: Work::default(),
            traffic: Traffic::default(),
            known: false,
            batch: 0.0,
            all: 0.0,
            rate: f64::NAN,
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
        if seconds > 0.0 {
            let now = all / seconds;
            self.rate = if self.rate.is_finite() { now + keep * (self.rate - now) } else { now };
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

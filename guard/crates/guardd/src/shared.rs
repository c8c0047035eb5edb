// SPDX-License-Identifier: Apache-2.0
//! What the threads know of each other. The control loop never waits for a lock here: it tries, and leaves it for
//! the next second; the others hold a lock only while they copy.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use intf::journal::{Job, Outcome, Record};
use intf::state::NodeState;
use policy::ladder::Counters;
use policy::{Cause, Config, FilesystemLoad, GaugeVerdict, Hold, Shares, Throttles, Verdict};

use crate::actuators::io_max::Limit;
use crate::control::LoopTimes;
use crate::reload::Reloaded;
use crate::signals::{Histograms, Mounted, Reading, Sample};
use crate::watch::{Claim, Gauges, Holding};

/// What operators have asked for.
#[derive(Default)]
pub struct Orders {
    /// No job may start.
    pub drained: AtomicBool,
    /// All jobs stand still until then (CLOCK_MONOTONIC).
    pub freeze_until_ns: AtomicU64,
    /// The node is given back to batch; the control loop takes it down.
    pub resumed: AtomicBool,
}

/// Counters and the last view of the node.
#[derive(Default)]
pub struct Shared {
    /// The control loop's view, replaced once a second and on a change of state.
    pub snapshot: Mutex<Snapshot>,
    /// Ticks of the control loop: the sign of life behind the watchdog.
    pub ticks: AtomicU64,
    /// What operators have asked for.
    pub orders: Orders,
    /// Messages that found the channel full.
    pub dropped: AtomicU64,
    /// When that was decided which the actuator thread has done last, well or not.
    pub granted_ns: AtomicU64,
    /// Times somebody else had changed a limit of a job.
    pub limit_drifts: AtomicU64,
    /// How fast the interface is that storage clients come by, in bytes per second; 0 = not known.
    pub wire_speed: AtomicU64,
    /// Journal records written, and lost.
    pub journal_records: AtomicU64,
    /// See `journal_records`.
    pub journal_errors: AtomicU64,
    /// Decisions by deed and outcome, counted when the record is complete.
    pub actions: Mutex<Vec<(String, Outcome, u64)>>,
    /// The latest records, oldest first.
    pub recent: Mutex<Vec<Record>>,
    /// Faults of the signals, by name.
    pub faults: Mutex<Vec<(&'static str, String)>>,
    /// What the watch thread has read.
    pub gauges: Gauges,
    /// Under which address each job comes to the storage daemons.
    pub addresses: Told<Claim>,
    /// What each job holds of memory.
    pub holdings: Told<Holding>,
    /// Threads of the storage services that are stuck, some of them where there are many.
    pub stuck: Mutex<Vec<u32>>,
    /// What is mounted where the storage daemon has filesystems; replaced when it is another.
    pub mounts: Mutex<Arc<[Mounted]>>,
    /// Where the kernel swaps to disks that storage serves from; `None` = that is not known yet.
    pub swap_on_data: Mutex<Option<Arc<[String]>>>,
    /// Whether jobs have their images and their scratch on a disk that storage serves from; `None` = that is not known yet.
    pub scratch_on_data: Mutex<Option<bool>>,
    /// What the control loop is to take over: a new configuration.
    pub configuration: Mutex<Option<Box<Config>>>,
    /// What came of the last wish for one.
    pub reloaded: Mutex<Reloaded>,
    /// Whose the jobs are, by place.
    pub jobs: Mutex<Vec<(usize, Job)>>,
    /// Names of the filesystems and objectives.
    pub names: Mutex<Arc<policy::Names>>,
}

/// A list that another thread has for the control loop, which never waits for it.
pub struct Told<T> {
    /// Goes up with every other list.
    version: AtomicU64,
    list: Mutex<Vec<T>>,
}

impl<T> Default for Told<T> {
    fn default() -> Self {
        Told { version: AtomicU64::new(0), list: Mutex::new(Vec::new()) }
    }
}

impl<T: Copy + PartialEq> Told<T> {
    /// This is what there is now.
    pub fn put(&self, new: &[T]) {
        let mut list = lock(&self.list);
        if *list != new {
            list.clear();
            list.extend_from_slice(new);
            self.version.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes it over if it is another one than that of the version `seen`. Somebody who is just putting one there is not waited for.
    pub fn take(&self, seen: &mut u64, into: &mut Vec<T>) -> bool {
        if self.version.load(Ordering::Relaxed) == *seen {
            return false;
        }
        let Ok(list) = self.list.try_lock() else { return false };
        *seen = self.version.load(Ordering::Relaxed);
        into.clear();
        into.extend_from_slice(&list);
        true
    }
}

/// A lock that a panicking thread left behind still holds usable data: all of them are plain values.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// One more of these.
    pub fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// How a signal was doing at the last reading.
#[derive(Clone, Copy, Debug)]
pub struct SignalHealth {
    /// Its name.
    pub name: &'static str,
    /// What the last reading gave.
    pub reading: Reading,
    /// When it last gave a value; 0 = never.
    pub value_ns: u64,
    /// How long the last reading took.
    pub took_ns: u64,
}

/// The control loop's view of the node.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// CLOCK_MONOTONIC of this view; 0 = there is none yet.
    pub at_ns: u64,
    /// State of the node.
    pub state: NodeState,
    /// Frozen as a precaution.
    pub precaution: bool,
    /// May new jobs start?
    pub admit: bool,
    /// Why.
    pub reason: Cause,
    /// Filesystems in quarantine, bit by index.
    pub quarantined: u128,
    /// Filesystems whose clients fill their disk, bit by index.
    pub filled: u128,
    /// Their disks, as major and minor numbers; 0 = not known.
    pub disks: Vec<(u32, u32)>,
    /// Filesystems whose disk was there and is not, bit by index.
    pub gone: u128,
    /// Cores and memory offered.
    pub cores: u32,
    /// See `cores`.
    pub memory_mb: u64,
    /// Jobs on the node, where known.
    pub jobs: Option<u32>,
    /// Those of them that stand still in a freeze, and those that rest where clients fill a disk.
    pub held_jobs: u32,
    /// See `held_jobs`.
    pub resting_jobs: u32,
    /// Those of which it is known from where they come to the storage daemons.
    pub located_jobs: u32,
    /// Which.
    pub hold: Hold,
    /// Who is to leave the node.
    pub leave: Hold,
    /// What single jobs may do to which disks.
    pub limits: Arc<[Limit]>,
    /// What all of them together may.
    pub together: Arc<[Limit]>,
    /// Who is limited.
    pub throttles: Throttles,
    /// What batch as a whole may have.
    pub shares: Shares,
    /// The slice of the jobs is there.
    pub slice: bool,
    /// Time in precautionary, and in other freezes, since the guard started.
    pub precaution_ns: u64,
    /// See `precaution_ns`.
    pub frozen_ns: u64,
    /// Time in which somebody rested.
    pub rest_ns: u64,
    /// Somebody else wrote cgroup.freeze.
    pub drifts: u64,
    /// Is batch held in the storage daemons?
    pub held: bool,
    /// The last write of the shaping segment failed.
    pub shaping_failed: bool,
    /// Judgements of the objectives.
    pub verdicts: Vec<Verdict>,
    /// Judgements of those on gauges.
    pub gauges: Vec<GaugeVerdict>,
    /// What is in flight by filesystem.
    pub loads: Vec<FilesystemLoad>,
    /// Batch's share by filesystem.
    pub batch_share: Vec<f32>,
    /// Values of the signals.
    pub samples: Vec<Sample>,
    /// Health of the signals.
    pub signals: Vec<SignalHealth>,
    /// Latencies by series; they go on while this view stays.
    pub histograms: Histograms,
    /// Of the ladder.
    pub counters: Counters,
    /// Of the loop.
    pub times: LoopTimes,
}

/// The user who must own the latency segment. Unknown until that user exists on the node.
#[derive(Clone, Debug)]
pub struct Owner {
    name: Arc<str>,
    id: Arc<AtomicU32>,
}

impl Owner {
    /// Nobody yet.
    pub fn new(name: &str) -> Self {
        Owner { name: name.into(), id: Arc::new(AtomicU32::new(u32::MAX)) }
    }

    /// Name, as configured.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The user id, once known.
    pub fn get(&self) -> Option<u32> {
        Some(self.id.load(Ordering::Relaxed)).filter(|id| *id != u32::MAX)
    }

    /// Looks the user up: a number is taken as it is. Not for the control loop.
    pub fn resolve(&self, passwd: &std::path::Path) -> Option<u32> {
        let id = self.name.parse().ok().or_else(|| {
            let users = std::fs::read_to_string(passwd).ok()?;
            let user = users.lines().find(|line| line.split(':').next() == Some(&self.name))?;
            user.split(':').nth(2)?.parse().ok()
        })?;
        self.id.store(id, Ordering::Relaxed);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_taken_once_and_nobody_is_waited_for() {
        let told = Told::default();
        let (mut seen, mut list) = (0, Vec::with_capacity(8));
        assert!(!told.take(&mut seen, &mut list));
        told.put(&[1, 2]);
        {
            let _busy = lock(&told.list);
            assert!(!told.take(&mut seen, &mut list));
        }
        assert!(told.take(&mut seen, &mut list) && !told.take(&mut seen, &mut list));
        told.put(&[1, 2]);
        assert!(!told.take(&mut seen, &mut list), "nothing new");
        told.put(&[]);
        assert!(told.take(&mut seen, &mut list) && list.is_empty());
    }
}

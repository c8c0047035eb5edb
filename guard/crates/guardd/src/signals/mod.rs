// SPDX-License-Identifier: Apache-2.0
//! What the control loop can see. One file per source; [`all`] is the table of them. A source has a value, is not
//! available here, or is broken; whichever it is, the tick goes on with the others.

mod condition;
mod daemons;
mod device;
mod disk;
mod jobs;
mod latency;
mod probe;
mod psi;

use std::sync::Arc;

use intf::segment::Filesystem;
use policy::{Config, Evaluator, Hold, JobSet, Throttles};

use crate::jobs::JobTable;
use crate::metrics::Metric;
use crate::shared::Owner;

pub use condition::Worst;
pub use daemons::{Daemons, Work};
pub use device::disk_of;
pub(crate) use device::{device_below, device_named, disks_below, parse_device, whole_disk};
pub use latency::{Histograms, BOUNDS};

/// How often a disk is looked at when somebody waits for the answer.
const HURRIED_NS: u64 = 100_000_000;

/// Less work than this says nothing about who did it.
const WORK_MIN: f64 = 8.0;

/// What a disk that does so little was doing this long ago says nothing about now.
const STALE_SECONDS: f64 = 0.5;

/// One request costs a disk about as much as moving this many bytes.
const BYTES_PER_REQUEST: f64 = 65536.0;

/// Requests and bytes in one number: of how many requests.
fn work(requests: u64, bytes: u64) -> f64 {
    requests as f64 + bytes as f64 / BYTES_PER_REQUEST
}

/// Result of one reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// There is a new value.
    Value,
    /// The node or the kernel does not have it; not a fault.
    Absent,
    /// It is there and cannot be read.
    Broken,
}

/// One source of signals.
pub trait Signal: Send {
    /// Its name, as in the configuration and in metrics.
    fn name(&self) -> &'static str;
    /// How often it wants to be read; 0 = at every tick.
    fn period_ns(&self) -> u64;
    /// The same while there is evidence of a breach.
    fn hurried_ns(&self) -> u64 {
        self.period_ns()
    }
    /// Now, whatever its period is?
    fn urgent(&self, _board: &Board) -> bool {
        false
    }
    /// Reads it. Must not wait and, in steady state, not allocate.
    fn read(&mut self, now_ns: u64, board: &mut Board) -> Reading;
    /// Why the last reading was not a value, in one line that names the file. Asked for only when that changed.
    fn fault(&self) -> String;
    /// Does the fault differ from the one before? Kinds of failure that alternate are told apart by this.
    fn fault_changed(&self) -> bool {
        false
    }
    /// Adds its current values to the metrics; called about once a second.
    fn sample(&self, samples: &mut Vec<Sample>);
}

/// Where signals put what the policy needs. One for the whole loop.
pub struct Board {
    /// Detectors; the latency signal feeds them.
    pub evaluator: Evaluator,
    /// Is the storage daemon alive, as the evaluator wants to know it?
    pub storage: policy::Signal,
    /// Number of the shaping segment that the storage daemon has applied, while it says so.
    pub shaping_applied: Option<u64>,
    /// Filesystems that take no new files for want of speed (`beer.overload`), while the daemon says so.
    pub overloaded: Option<usize>,
    /// Filesystems where a probe does not come back, while beer-probe says so.
    pub probes_stuck: Option<usize>,
    /// Batch's share of the device of each filesystem; NaN = unknown.
    pub batch_share: Vec<f32>,
    /// The same for the last second.
    pub batch_share_now: Vec<f32>,
    /// The whole disk below each filesystem, as in `io.stat`, and what goes up when they are others.
    pub disks: Vec<(u32, u32)>,
    /// Of which of them the kernel says that they turn, by filesystem, bit by index.
    pub rotational: u128,
    /// See `disks`.
    pub disks_version: u64,
    /// What is mounted where there are filesystems of the storage daemon, as the watch thread found it, and what goes up with it.
    pub mounts: Arc<[Mounted]>,
    /// See `mounts`.
    pub mounts_version: u64,
    /// The worst of the disks, and when they were read; `None` = there is nothing to read.
    pub worst_disk: Option<(Worst, u64)>,
    /// Filesystems whose disk was there and is not, bit by index.
    pub gone: u128,
    /// What batch does through the storage daemons.
    pub daemons: Daemons,
    /// The jobs of this node.
    pub jobs: JobTable,
    /// Who stands still.
    pub hold: Hold,
    /// Who is limited where.
    pub throttles: Throttles,
    /// Does anybody of batch who does not stand still use the disk of each filesystem so much that it may be his fault?
    pub others_use: Vec<bool>,
    /// Is what those had written who stand still on its way to the disk?
    pub held_work: Vec<bool>,
    /// Who did nearly all of batch's work on the disk of each filesystem just now, where that is known.
    pub workers: Vec<Option<JobSet>>,
    /// Those of them without whom batch would do too little there for it to be to blame.
    pub guilty: Vec<Option<JobSet>>,
    /// How fast those, and batch in the storage daemons, went there just now.
    pub pace: Vec<Pace>,
    /// Some objective had evidence of a breach at the last tick.
    pub uneasy: bool,
    /// Filesystems of the segment; replaced when the storage daemon restarts.
    pub filesystems: Vec<Filesystem>,
    /// Operations of storage and batch clients by filesystem, counted since the guard started.
    pub operations: Vec<Traffic>,
    /// What the disk of each filesystem does, in work per second; NaN or a shorter list = not known.
    pub disk_work: Vec<f32>,
    /// Goes up when `filesystems` was replaced.
    pub filesystems_version: u64,
    /// Latencies by series, for the metrics.
    pub histograms: Histograms,
}

impl Board {
    /// Evidence while only some jobs stand still: whether it is the others who do it is asked at every tick, because there is no
    /// precaution meanwhile.
    fn others_suspected(&self) -> bool {
        self.uneasy && matches!(self.hold, Hold::Jobs(_))
    }

    /// Nothing seen yet.
    pub fn new(config: &Config) -> Self {
        Board {
            evaluator: Evaluator::new(&config.objectives),
            storage: policy::Signal::Missing,
            shaping_applied: None,
            overloaded: None,
            probes_stuck: None,
            batch_share: Vec::new(),
            batch_share_now: Vec::new(),
            disk_work: Vec::new(),
            disks: Vec::new(),
            rotational: 0,
            disks_version: 0,
            mounts: Arc::default(),
            mounts_version: 0,
            worst_disk: None,
            gone: 0,
            daemons: Daemons::default(),
            jobs: JobTable::new(config.paths.cgroup.join(&config.paths.jobs_slice)),
            hold: Hold::Nobody,
            throttles: Throttles::default(),
            others_use: Vec::new(),
            held_work: Vec::new(),
            workers: Vec::new(),
            guilty: Vec::new(),
            pace: Vec::new(),
            uneasy: false,
            filesystems: Vec::new(),
            operations: Vec::new(),
            filesystems_version: 0,
            histograms: Histograms::default(),
        }
    }
}

/// What lies below a filesystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// Its path.
    pub path: String,
    /// As in `/proc/diskstats`: the partition or the whole disk.
    pub device: (u32, u32),
    /// As in `io.stat`: always the whole disk.
    pub disk: (u32, u32),
}

/// Work per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Requests per second.
    pub requests: f32,
    /// Bytes per second.
    pub bytes: f32,
    /// Share of the requests that are reads, where it is known; else 0.
    pub reads: f32,
}

impl Rate {
    /// In one number: of how many requests per second.
    pub fn work(&self) -> f32 {
        self.requests + self.bytes / BYTES_PER_REQUEST as f32
    }
}

/// How fast batch goes on the disk of one filesystem.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pace {
    /// Those who do nearly all of it, and those who are limited.
    pub jobs: Vec<(JobNumber, Pair)>,
    /// Through the storage daemons.
    pub daemon: Pair,
    /// All that the jobs did in the last spell, but through those.
    pub whole: Rate,
}

/// Which job: [`crate::jobs::Job::number`].
pub type JobNumber = u64;

/// Of the last spell between two readings, and of the faster one of the last two.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pair {
    /// Who has just stopped is 0 here.
    pub last: Rate,
    /// Who began in the middle of a spell is seen as fast as he is.
    pub most: Rate,
}

/// Work of the storage daemon on one filesystem.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// For batch clients: operations and bytes.
    pub batch: (u64, u64),
    /// For all clients.
    pub all: (u64, u64),
}

/// One value for the metrics.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Which metric.
    pub metric: &'static Metric,
    /// Its label.
    pub label: Label,
    /// The value.
    pub value: f64,
}

/// Label of a sample, without text of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// No label.
    None,
    /// `filesystem="<path of this index>"`.
    Filesystem(u16),
    /// `resource="..."`.
    Resource(&'static str),
}

/// All sources that the configuration enables. A new one: its file, and one line here.
pub fn all(config: &Config, owner: Owner) -> Vec<Box<dyn Signal>> {
    let mut signals: Vec<Box<dyn Signal>> =
        vec![Box::new(latency::Latency::new(config, owner.clone())), Box::new(probe::Probe::new(config, owner))];
    if config.disk.enabled {
        signals.push(Box::new(disk::Disk::new(config)));
    }
    signals.push(Box::new(jobs::Jobs::new(config)));
    if config.psi.enabled {
        signals.push(Box::new(psi::Psi::new(config)));
    }
    signals
}

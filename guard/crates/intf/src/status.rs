// SPDX-License-Identifier: Apache-2.0
//! `/run/beer/guard/status.json`: what `beer status` shows; written by the slow thread, replaced by rename.

use crate::journal::{Evidence, Job, Record};
use crate::state::NodeState;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The guard's view of the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the guard.
    pub version: String,
    /// Name of the node.
    pub node: String,
    /// Process id of the guard.
    pub pid: u32,
    /// When it was written, CLOCK_REALTIME nanoseconds.
    pub time_ns: u64,
    /// When the guard started, CLOCK_REALTIME nanoseconds.
    pub started_ns: u64,
    /// State of the node.
    pub state: NodeState,
    /// The frozen state is a precautionary one.
    pub precaution: bool,
    /// How long it has been in that state.
    pub state_ns: u64,
    /// May new jobs start?
    pub admit: bool,
    /// Why.
    pub reason: String,
    /// Cores offered.
    pub cores: u32,
    /// Memory offered.
    pub memory_mb: u64,
    /// Jobs on the node.
    pub jobs: u32,
    /// What batch as a whole has less of: its share, above 0 and below 1.
    #[serde(default)]
    pub squeezed: BTreeMap<String, f64>,
    /// What all jobs together may do to which disks, beside what each of them may.
    #[serde(default)]
    pub together: Vec<LimitStatus>,
    /// Each of them that can be told apart, and what it is allowed now.
    #[serde(default)]
    pub each_job: Vec<JobStatus>,
    /// Nothing of it is done.
    #[serde(default)]
    pub dry_run: bool,
    /// Why the last configuration was refused; empty = it is in force.
    #[serde(default)]
    pub configuration_error: String,
    /// The objectives.
    pub objectives: Vec<ObjectiveStatus>,
    /// The objectives on gauges.
    #[serde(default)]
    pub gauges: Vec<GaugeStatus>,
    /// The sources of signals.
    pub signals: Vec<SignalStatus>,
    /// Filesystems of the storage daemon.
    pub filesystems: Vec<FilesystemStatus>,
    /// Threads of the storage services that wait in D state and did not run between two looks; 16 at most.
    #[serde(default)]
    pub stuck_threads: Vec<u32>,
    /// Counters and shares of precautionary freezes.
    pub precautions: PrecautionStatus,
    /// The control loop's own cost.
    pub control_loop: LoopStatus,
    /// The last decision.
    pub last: Option<Record>,
}

/// One job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobStatus {
    /// Who.
    #[serde(flatten)]
    pub job: Job,
    /// It stands still.
    pub held: bool,
    /// It is to leave the node.
    #[serde(default)]
    pub leaves: bool,
    /// What it may do to which disks.
    #[serde(default)]
    pub limits: Vec<LimitStatus>,
}

/// What a job may do to a disk: of reads, and as much of writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitStatus {
    /// Device, `major:minor`.
    pub device: String,
    /// Requests per second.
    pub requests: u64,
    /// Bytes per second.
    pub bytes: u64,
}

/// One objective.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObjectiveStatus {
    /// Its name.
    pub name: String,
    /// `calm`, `weak`, `strong`.
    pub level: String,
    /// `fresh`, `stale`, `missing`.
    pub signal: String,
    /// 1 = nothing to see, 0 = at the limit, negative = breached.
    pub slack: f64,
    /// What is left of the error budget: 1 = all, 0 = nothing, negative = overspent. Null where there is none.
    #[serde(default)]
    pub budget_left: Option<f64>,
    /// It is spent too fast, which lets no new jobs start: how many times as fast as it may.
    #[serde(default)]
    pub burn_rate: Option<f64>,
    /// Requests per second that it judges.
    pub rate: f64,
    /// How many requests share one fate: their evidence is divided by this, by 8 at most. Null until there is a baseline to
    /// judge the whole latency against; until then only the share over the threshold counts.
    #[serde(default)]
    pub dependence: Option<f64>,
    /// The worst series.
    pub worst: Option<Evidence>,
}

/// One objective on a gauge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GaugeStatus {
    /// Its name.
    pub name: String,
    /// `kept`, `broken`, `stale`, `absent`.
    pub state: String,
    /// The last value.
    pub value: f64,
    /// The limit.
    pub limit: f64,
    /// For how long it is as it is.
    pub state_ns: u64,
    /// Age of its last value; `None` = there has been none.
    pub age_ns: Option<u64>,
    /// Of a stale one, why, in one line; empty = its reader is late, or hangs.
    #[serde(default)]
    pub error: String,
}

/// One source of signals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SignalStatus {
    /// Its name: `latency`, `disk`, `psi`; of what gauges may watch that of a source that is broken.
    pub name: String,
    /// Does it give a signal?
    pub ok: bool,
    /// If not, why, in one line.
    pub error: String,
    /// Age of its last value.
    pub age_ns: u64,
}

/// One filesystem of the storage daemon.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FilesystemStatus {
    /// Mount point.
    pub path: String,
    /// The whole disk, `major:minor`; empty = not known.
    pub device: String,
    /// Stuck without a batch share: batch goes on, somebody must look at the disk.
    pub quarantined: bool,
    /// Its clients fill the disk: batch makes way.
    #[serde(default)]
    pub filled: bool,
    /// The kernel does not have its disk any more.
    #[serde(default)]
    pub disk_gone: bool,
    /// Age of the oldest storage request in flight.
    pub oldest_ns: u64,
    /// Storage requests in flight.
    pub storage_in_flight: u32,
    /// Batch requests in flight.
    pub batch_in_flight: u32,
    /// Batch's share of the device, where known.
    pub batch_share: Option<f64>,
    /// Files open for reading.
    pub open_readers: u32,
    /// Files open for writing.
    pub open_writers: u32,
}

/// Precautionary freezes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PrecautionStatus {
    /// How many since the guard started.
    pub count: u64,
    /// How many of them no real freeze followed.
    pub needless: u64,
    /// Share of wall time that needless ones took in the last hour.
    pub needless_share: f64,
    /// The weak level is suspended because that share is over its budget.
    pub suspended: bool,
}

/// The control loop's own cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoopStatus {
    /// Ticks since the start.
    pub ticks: u64,
    /// Ticks that came later than twice their period.
    pub late: u64,
    /// Mean duration of a tick's work, nanoseconds.
    pub mean_ns: u64,
    /// The longest of the last minute, nanoseconds.
    pub max_ns: u64,
    /// Resident memory of the guard.
    pub rss_bytes: u64,
}

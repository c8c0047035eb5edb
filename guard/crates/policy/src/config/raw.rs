// SPDX-License-Identifier: Apache-2.0
//! The configuration as written: names of the keys and their defaults. Nothing is checked here but the form.

use super::values::{Cores, Listen, Memory};
use crate::gauge::Then;
use crate::squeeze::Resource;
use intf::segment::{Class, Op};
use intf::units::{Bytes, Duration, Share};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

/// A section: every key may be left out, none may be unknown.
macro_rules! section {
    ($(#[$doc:meta])* $name:ident { $($key:ident: $type:ty = $default:expr),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Deserialize, Serialize)]
        #[serde(default, deny_unknown_fields)]
        pub(super) struct $name {
            $(pub $key: $type,)*
        }
        impl Default for $name {
            fn default() -> Self {
                $name { $($key: $default,)* }
            }
        }
    };
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawConfig {
    pub node: RawNode,
    pub paths: RawPaths,
    #[serde(rename = "loop")]
    pub control_loop: RawLoop,
    pub signals: RawSignals,
    /// `None` = the default objectives.
    pub objective: Option<Vec<RawObjective>>,
    /// `None` = the default ones.
    pub gauge: Option<Vec<RawGauge>>,
    pub exec: Vec<RawExec>,
    pub ladder: RawLadder,
    pub capacity: RawCapacity,
    pub metrics: RawMetrics,
    pub journal: RawJournal,
}

section!(RawNode {
    name: String = String::new(),
    dry_run: bool = false,
    swap_on_data_disks: bool = false,
    job_memory_high: Share = Share(0.95),
});

section!(RawPaths {
    cgroup: PathBuf = "/sys/fs/cgroup".into(),
    batch_slice: PathBuf = "beer.slice".into(),
    jobs_slice: PathBuf = "beer.slice/beer-jobs.slice".into(),
    storage_slice: PathBuf = "storage.slice".into(),
    proc: PathBuf = "/proc".into(),
    sys: PathBuf = "/sys".into(),
    run: PathBuf = "/run/beer/guard".into(),
    control: PathBuf = "/run/beer/control".into(),
    memory: PathBuf = "/var/lib/beer/guard".into(),
    exec: PathBuf = "/run/beer-exec".into(),
    probe: PathBuf = "/run/beer-probe".into(),
    scratch: PathBuf = "/var/lib/beer/scratch".into(),
});

section!(RawLoop {
    tick: Duration = Duration(super::TICK_NS),
    slow: Duration = Duration(S),
    action_deadline: Duration = Duration(5 * S),
});

section!(RawSignals {
    latency: RawLatency = RawLatency::default(),
    disk: RawPeriodic = RawPeriodic::default(),
    psi: RawPeriodic = RawPeriodic::default(),
    network: RawNetwork = RawNetwork::default(),
    probe: RawProbe = RawProbe::default(),
});

section!(RawProbe { enabled: bool = true, interval: Duration = Duration(S), root: String = String::new() });

section!(RawNetwork { interface: String = String::new(), speed: String = String::new() });

section!(RawLatency { segment: PathBuf = "/run/beer/storage/beer.lat".into(), owner: String = "xrootd".into() });

section!(RawPeriodic { enabled: bool = true, interval: Duration = Duration(S) });

section!(RawLadder {
    hold: Duration = Duration(10 * S),
    hold_max: Duration = Duration(60 * S),
    flap: Duration = Duration(10 * S),
    precaution: Duration = Duration(S),
    precaution_budget: Share = Share(0.001),
    effect_timeout: Duration = Duration(10 * S),
    innocent_backoff: Duration = Duration(60 * S),
    freeze_max: Duration = Duration(120 * S),
    vacate_deadline: Duration = Duration(60 * S),
    emergency_quiet: Duration = Duration(600 * S),
    batch_share_min: Share = Share(0.02),
    batch_share_guilty: Share = Share(0.2),
    guilty_first: bool = true,
    guilty_timeout: Duration = Duration(S),
    throttle: bool = true,
    throttle_step: Share = Share(0.05),
    filled_share: Share = Share(0.005),
    stale_floor: Duration = Duration(30 * S),
});

section!(RawCapacity {
    cores: Cores = Cores(None),
    memory: Memory = Memory(None),
    memory_reserve: Bytes = Bytes(512 << 20),
});

section!(RawMetrics { listen: Listen = Listen(Some(([127, 0, 0, 1], 9721).into())) });

section!(RawJournal {
    folder: PathBuf = "/var/lib/beer/journal".into(),
    file_size: Bytes = Bytes(8 << 20),
    total_size: Bytes = Bytes(256 << 20),
});

/// An objective; name, operation and threshold must be given.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawObjective {
    pub name: String,
    pub op: RawOp,
    #[serde(default = "storage")]
    pub class: RawClass,
    #[serde(default = "any")]
    pub filesystem: String,
    pub threshold: Duration,
    #[serde(default = "one_percent")]
    pub share: Share,
    pub floor: Option<Duration>,
    #[serde(default = "weak")]
    pub weak: f64,
    #[serde(default = "strong")]
    pub strong: f64,
    #[serde(default = "two_seconds")]
    pub dwell: Duration,
    #[serde(default = "stuck_after")]
    pub stuck_after: Duration,
    #[serde(default = "two_seconds")]
    pub grace: Duration,
    #[serde(default = "six_hours")]
    pub budget_window: Duration,
}

/// An objective on a gauge; name, source and limit must be given.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawGauge {
    pub name: String,
    pub source: String,
    pub above: f64,
    #[serde(rename = "for", default = "ten_seconds")]
    pub lasting: Duration,
    #[serde(default = "ten_seconds")]
    pub dwell: Duration,
    #[serde(default = "ten_seconds")]
    pub grace: Duration,
    #[serde(default)]
    pub then: RawThen,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RawThen {
    #[default]
    Close,
    Vacate,
    Emergency,
    ThrottleCpu,
    ThrottleMemory,
    ThrottleNetwork,
}

impl From<RawThen> for Then {
    fn from(then: RawThen) -> Then {
        match then {
            RawThen::Close => Then::Close,
            RawThen::Vacate => Then::Vacate,
            RawThen::Emergency => Then::Emergency,
            RawThen::ThrottleCpu => Then::Throttle(Resource::Cpu),
            RawThen::ThrottleMemory => Then::Throttle(Resource::Memory),
            RawThen::ThrottleNetwork => Then::Throttle(Resource::Network),
        }
    }
}

fn ten_seconds() -> Duration {
    Duration(10 * S)
}

/// A command that prints readings; name, command and metrics must be given.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawExec {
    pub name: String,
    pub command: Vec<String>,
    #[serde(default = "ten_seconds")]
    pub interval: Duration,
    #[serde(default = "five_seconds")]
    pub timeout: Duration,
    pub metrics: Vec<String>,
}

fn five_seconds() -> Duration {
    Duration(5 * S)
}

/// The objectives on gauges of a configuration that names none.
pub(super) fn default_gauges() -> Vec<RawGauge> {
    let gauge = |name: &str, source: &str, above, then| RawGauge {
        name: name.into(),
        source: source.into(),
        above,
        lasting: ten_seconds(),
        dwell: ten_seconds(),
        grace: ten_seconds(),
        then,
    };
    vec![
        gauge("storage-memory", "storage.pressure.memory.full", 0.1, RawThen::Vacate),
        gauge("storage-stuck", "storage.threads.stuck", 0.0, RawThen::Close),
    ]
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawOp {
    Read,
    Write,
    Sync,
    Open,
    Meta,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawClass {
    Storage,
    Batch,
    Internal,
    Probe,
}

impl From<RawOp> for Op {
    fn from(op: RawOp) -> Op {
        match op {
            RawOp::Read => Op::Read,
            RawOp::Write => Op::Write,
            RawOp::Sync => Op::Sync,
            RawOp::Open => Op::Open,
            RawOp::Meta => Op::Meta,
        }
    }
}

impl From<RawClass> for Class {
    fn from(class: RawClass) -> Class {
        match class {
            RawClass::Storage => Class::Storage,
            RawClass::Batch => Class::Batch,
            RawClass::Internal => Class::Internal,
            RawClass::Probe => Class::Probe,
        }
    }
}

fn storage() -> RawClass {
    RawClass::Storage
}
fn any() -> String {
    "*".into()
}
fn one_percent() -> Share {
    Share(0.01)
}
fn weak() -> f64 {
    10.0
}
fn strong() -> f64 {
    24.0
}
fn two_seconds() -> Duration {
    Duration(2 * S)
}
fn six_hours() -> Duration {
    Duration(6 * 3600 * S)
}
fn stuck_after() -> Duration {
    Duration(800 * MS)
}

/// The objectives of a configuration that names none.
pub(super) fn default_objectives() -> Vec<RawObjective> {
    let objective = |name: &str, op, threshold, stuck_after| RawObjective {
        name: name.into(),
        op,
        class: storage(),
        filesystem: any(),
        threshold: Duration(threshold * MS),
        share: one_percent(),
        floor: None,
        weak: weak(),
        strong: strong(),
        dwell: two_seconds(),
        stuck_after: Duration(stuck_after * MS),
        grace: two_seconds(),
        budget_window: six_hours(),
    };
    vec![
        objective("storage-read", RawOp::Read, 100, 800),
        objective("storage-write", RawOp::Write, 200, 2000),
        objective("storage-open", RawOp::Open, 200, 2000),
        RawObjective {
            class: RawClass::Probe,
            // A precaution that was not needed costs as much, and evidence grows no faster.
            weak: 12.0,
            grace: ten_seconds(),
            // Nobody waits for a probe.
            budget_window: Duration(0),
            ..objective("probe-read", RawOp::Read, 100, 800)
        },
    ]
}

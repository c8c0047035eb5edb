// SPDX-License-Identifier: Apache-2.0
//! An objective: what latency storage clients are promised, and how sure the guard must be that it is broken.

use crate::event::Measure;
use intf::segment::{Class, Op, SeriesId};

/// A promise, and how it is judged. Times in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    /// Its name, unique.
    pub name: String,
    /// The operation judged.
    pub op: Op,
    /// The traffic class judged.
    pub class: Class,
    /// Mount points judged; `*` stands for any characters.
    pub filesystem: String,
    /// At most `share` of the requests may take longer than this.
    pub threshold_ns: u64,
    /// See `threshold_ns`; 0..1.
    pub share: f64,
    /// Latencies below this are no evidence, however slow for this disk.
    pub floor_ns: u64,
    /// Evidence (nats) for a precautionary freeze.
    pub weak: f64,
    /// Evidence (nats) for a freeze.
    pub strong: f64,
    /// How long it must have been calm before batch gets more.
    pub dwell_ns: u64,
    /// A request in flight for longer than this means that its filesystem is stuck.
    pub stuck_after_ns: u64,
    /// A heartbeat older than this is no signal.
    pub grace_ns: u64,
    /// The window in which `share` is its error budget; `None` = it has none.
    pub budget_window_ns: Option<u64>,
}

/// How sure the guard is that an objective is broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// No evidence.
    #[default]
    Calm,
    /// Enough for a precaution.
    Weak,
    /// Enough for action.
    Strong,
}

/// What the signal of an objective is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SignalState {
    /// It is current.
    Fresh,
    /// The heartbeat is older than the grace time.
    Stale,
    /// There is no segment, or no filesystem in it that matches.
    #[default]
    Missing,
    /// Nobody probes this node, nor has since the guard began: not a fault, and no evidence.
    Absent,
}

/// The judgement of one objective at one tick.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Index of the objective in the configuration.
    pub objective: u16,
    /// How sure we are that it is broken now.
    pub level: Level,
    /// What the signal is worth; `level` is Calm unless it is Fresh.
    pub signal: SignalState,
    /// Some filesystem of it has a request in flight for longer than `stuck_after`.
    pub stuck: bool,
    /// Slow measure of the promise, over about a minute: 1 = nothing over the threshold, 0 = at the allowed share,
    /// negative = broken.
    pub slack: f64,
    /// What is left of its error budget: 1 = all, 0 = nothing, negative = overspent. `None` = it has none.
    pub budget_left: Option<f64>,
    /// The error budget is spent too fast: how many times as fast as it may, and the limit of the rule that says so.
    pub burning: Option<Measure>,
    /// Filesystems with evidence of their own, bit by index.
    pub slow: u128,
    /// The worst of those that are not judged because batch is known to be innocent there, if it has evidence.
    pub excused: Option<(SeriesId, Measure)>,
    /// The series with the most evidence.
    pub worst: Option<SeriesId>,
    /// Its evidence, and the limit that it was held against.
    pub measure: Measure,
    /// Requests per second judged, over about ten seconds.
    pub rate: f64,
    /// How many requests share one fate: their evidence is divided by this, by 8 at most. The largest of all series. `None` =
    /// no series has a baseline yet, and only the share over the threshold counts.
    pub dependence: Option<f64>,
    /// The objective's dwell time.
    pub dwell_ns: u64,
}

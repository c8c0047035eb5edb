// SPDX-License-Identifier: Apache-2.0
//! What the ladder says about its decisions, in plain data; turned into journal records outside the loop.

use crate::jobs::Hold;
use crate::squeeze::Resource;
use crate::taker::Taker;
use intf::journal;
use intf::segment::{Filesystem, Kind, SeriesId};
use intf::state::NodeState;

/// Why something was decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// The guard has just started.
    #[default]
    Start,
    /// The guard found batch frozen when it started.
    Adopted,
    /// All objectives had slack for their dwell time.
    Slack,
    /// Evidence at the weak level.
    WeakEvidence,
    /// Evidence at the strong level.
    StrongEvidence,
    /// Evidence at the weak level, again, as soon as batch ran again after a precaution.
    EvidenceReturned,
    /// Weak evidence, and batch uses the disk that is slow.
    BatchUsesDisk,
    /// A request is stuck on a filesystem that batch uses.
    Stuck,
    /// A request is stuck on a filesystem that batch does not use.
    StuckWithoutBatch,
    /// No request is stuck there any more.
    Unstuck,
    /// The precaution's lease ran out without strong evidence.
    PrecautionOver,
    /// Calm for the dwell time after the hold time.
    Calm,
    /// Freezing did not make it better.
    BatchInnocent,
    /// It is known which jobs made it slow.
    Guilty,
    /// The jobs that seemed guilty stand still, and it has not become better.
    GuiltyNotEnough,
    /// Those who are limited do less, and it has not become better.
    ThrottleNotEnough,
    /// Clients have more slow requests than usual beside those who are limited.
    ClientsNotice,
    /// They fill a disk: whatever batch does there is taken from them.
    ClientsFillDisk,
    /// They use a disk on which batch is left a small part.
    ClientsUseDisk,
    /// What they had taken of it is made good, or it has room again, or no client uses it, or they have rested for long enough.
    Rested,
    /// Nobody is limited any more.
    ThrottleOver,
    /// Frozen for as long as is allowed.
    FreezeMax,
    /// These have stood still again and again, for as long as is allowed in all.
    StoodTooLong,
    /// Who was to leave has left.
    Left,
    /// Who was to leave has not left in time.
    VacateOverdue,
    /// The emergency is over: storage has been well for long.
    Quiet,
    /// An operator gave the node back to batch.
    Resumed,
    /// An objective is being broken slowly: its slack of the last minute is gone.
    SlowBurn,
    /// The error budget of an objective is spent too fast.
    Budget,
    /// An objective is broken while batch is known to be innocent or absent.
    BreachWithoutBatch,
    /// The signal of an objective is stale beyond its grace time.
    SignalStale,
    /// The signal of an objective is missing.
    SignalMissing,
    /// A gauge is above its limit.
    GaugeAbove,
    /// A gauge of memory is, and the memory of one job grew by more than that of all others.
    MemoryGrowth,
    /// A gauge of memory is, hardly any job grew, and one waited for memory for longer than all others.
    MemoryWait,
    /// A gauge has not been read for too long.
    GaugeStale,
    /// The guard's own checks fail.
    SelfCheck,
    /// An operator took batch off the node.
    Drained,
    /// An operator asked for a freeze.
    Ordered,
    /// The time for which he did is over.
    OrderOver,
    /// It was slow each time that batch ran, and not for what batch does on a disk.
    SlowBesideBatch,
    /// Batch got less of something, and storage was as short of it as before.
    SqueezeInVain,
    /// Storage has enough of what batch got less of.
    SqueezeOver,
    /// Needless precautions cost too much; weak evidence is not acted upon until they cost less.
    WeakSuspended,
    /// Weak evidence is acted upon again.
    WeakResumed,
}

impl Cause {
    /// All of them.
    pub const ALL: [Cause; 45] = [
        Cause::Start,
        Cause::Adopted,
        Cause::Slack,
        Cause::WeakEvidence,
        Cause::StrongEvidence,
        Cause::EvidenceReturned,
        Cause::BatchUsesDisk,
        Cause::Stuck,
        Cause::StuckWithoutBatch,
        Cause::Unstuck,
        Cause::PrecautionOver,
        Cause::Calm,
        Cause::BatchInnocent,
        Cause::Guilty,
        Cause::GuiltyNotEnough,
        Cause::ThrottleNotEnough,
        Cause::ClientsNotice,
        Cause::ClientsFillDisk,
        Cause::ClientsUseDisk,
        Cause::Rested,
        Cause::ThrottleOver,
        Cause::FreezeMax,
        Cause::StoodTooLong,
        Cause::Left,
        Cause::VacateOverdue,
        Cause::Quiet,
        Cause::Resumed,
        Cause::SlowBurn,
        Cause::Budget,
        Cause::BreachWithoutBatch,
        Cause::SignalStale,
        Cause::SignalMissing,
        Cause::GaugeAbove,
        Cause::MemoryGrowth,
        Cause::MemoryWait,
        Cause::GaugeStale,
        Cause::SelfCheck,
        Cause::Drained,
        Cause::Ordered,
        Cause::OrderOver,
        Cause::SlowBesideBatch,
        Cause::SqueezeInVain,
        Cause::SqueezeOver,
        Cause::WeakSuspended,
        Cause::WeakResumed,
    ];

    /// Its name, as in the journal and in the state line.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Start => "start",
            Cause::Adopted => "adopted",
            Cause::Slack => "slack",
            Cause::WeakEvidence => "weak_evidence",
            Cause::StrongEvidence => "strong_evidence",
            Cause::EvidenceReturned => "evidence_returned",
            Cause::BatchUsesDisk => "batch_uses_disk",
            Cause::Stuck => "stuck",
            Cause::StuckWithoutBatch => "stuck_without_batch",
            Cause::Unstuck => "unstuck",
            Cause::PrecautionOver => "precaution_over",
            Cause::Calm => "calm",
            Cause::BatchInnocent => "batch_innocent",
            Cause::Guilty => "guilty",
            Cause::GuiltyNotEnough => "guilty_not_enough",
            Cause::ThrottleNotEnough => "throttle_not_enough",
            Cause::ClientsNotice => "clients_notice",
            Cause::ClientsFillDisk => "clients_fill_disk",
            Cause::ClientsUseDisk => "clients_use_disk",
            Cause::Rested => "rested",
            Cause::ThrottleOver => "throttle_over",
            Cause::FreezeMax => "freeze_max",
            Cause::StoodTooLong => "stood_too_long",
            Cause::Left => "left",
            Cause::VacateOverdue => "vacate_overdue",
            Cause::Quiet => "quiet",
            Cause::Resumed => "resumed",
            Cause::SlowBurn => "slow_burn",
            Cause::Budget => "budget",
            Cause::BreachWithoutBatch => "breach_without_batch",
            Cause::SignalStale => "signal_stale",
            Cause::SignalMissing => "signal_missing",
            Cause::GaugeAbove => "gauge_above",
            Cause::MemoryGrowth => "memory_growth",
            Cause::MemoryWait => "memory_wait",
            Cause::GaugeStale => "gauge_stale",
            Cause::SelfCheck => "self_check",
            Cause::Drained => "drained",
            Cause::Ordered => "ordered",
            Cause::OrderOver => "order_over",
            Cause::SlowBesideBatch => "slow_beside_batch",
            Cause::SqueezeInVain => "squeeze_in_vain",
            Cause::SqueezeOver => "squeeze_over",
            Cause::WeakSuspended => "weak_suspended",
            Cause::WeakResumed => "weak_resumed",
        }
    }
}

/// What was decided to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Only the state changes, or only something is said.
    None,
    /// Let new jobs start.
    Open,
    /// Let none start.
    Close,
    /// Freeze batch.
    Freeze,
    /// Make a precautionary freeze a real one.
    Extend,
    /// Thaw the jobs that have no part in it.
    Narrow,
    /// Freeze all of them again.
    Widen,
    /// Halve what those get who are limited.
    Tighten,
    /// Leave them next to nothing, for as long as it is so.
    GiveWay,
    /// Who still takes too much of it stands still for a while.
    Rest,
    /// They run again.
    GoOn,
    /// Limit nobody any more.
    Lift,
    /// Batch as a whole gets less of this.
    Squeeze(Resource),
    /// It gets all of it again.
    Restore(Resource),
    /// Thaw batch.
    Thaw,
    /// Of those who stood still the next ones run again.
    Stage,
    /// Some jobs leave.
    Vacate,
    /// All of them do.
    Evacuate,
    /// Ignore a stuck filesystem, and alert.
    Quarantine,
    /// End that.
    Release,
}

impl Deed {
    /// All of them.
    pub const ALL: [Deed; 24] = [
        Deed::None,
        Deed::Open,
        Deed::Close,
        Deed::Freeze,
        Deed::Extend,
        Deed::Narrow,
        Deed::Widen,
        Deed::Tighten,
        Deed::GiveWay,
        Deed::Rest,
        Deed::GoOn,
        Deed::Lift,
        Deed::Squeeze(Resource::Cpu),
        Deed::Squeeze(Resource::Memory),
        Deed::Squeeze(Resource::Network),
        Deed::Restore(Resource::Cpu),
        Deed::Restore(Resource::Memory),
        Deed::Restore(Resource::Network),
        Deed::Thaw,
        Deed::Stage,
        Deed::Vacate,
        Deed::Evacuate,
        Deed::Quarantine,
        Deed::Release,
    ];

    /// Its name, as in the journal.
    pub const fn name(self) -> &'static str {
        match self {
            Deed::None => "none",
            Deed::Open => "open",
            Deed::Close => "close",
            Deed::Freeze => "freeze",
            Deed::Extend => "extend",
            Deed::Narrow => "narrow",
            Deed::Widen => "widen",
            Deed::Tighten => "tighten",
            Deed::GiveWay => "give_way",
            Deed::Rest => "rest",
            Deed::GoOn => "go_on",
            Deed::Lift => "lift",
            Deed::Squeeze(Resource::Cpu) => "less_cpu",
            Deed::Squeeze(Resource::Memory) => "less_memory",
            Deed::Squeeze(Resource::Network) => "less_network",
            Deed::Restore(Resource::Cpu) => "all_cpu",
            Deed::Restore(Resource::Memory) => "all_memory",
            Deed::Restore(Resource::Network) => "all_network",
            Deed::Thaw => "thaw",
            Deed::Stage => "stage",
            Deed::Vacate => "vacate",
            Deed::Evacuate => "evacuate",
            Deed::Quarantine => "quarantine",
            Deed::Release => "release",
        }
    }
}

/// What is measured, against what.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measure {
    /// The value.
    pub value: f64,
    /// The limit.
    pub limit: f64,
    /// The unit of both.
    pub unit: Unit,
}

/// Unit of a measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Log-likelihood ratio.
    #[default]
    Nats,
    /// Seconds.
    Seconds,
    /// Share, 0..1.
    Share,
    /// A number of something.
    Count,
}

impl Unit {
    /// Its name, as in the journal.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Nats => "nats",
            Unit::Seconds => "seconds",
            Unit::Share => "share",
            Unit::Count => "count",
        }
    }
}

/// One decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// When (CLOCK_MONOTONIC).
    pub at_ns: u64,
    /// State before.
    pub from: NodeState,
    /// State after.
    pub to: NodeState,
    /// Why.
    pub cause: Cause,
    /// What to do.
    pub deed: Deed,
    /// It begins or ends a precautionary freeze.
    pub precaution: bool,
    /// Who is touched: stands still after it, or did until a thaw.
    pub hold: Hold,
    /// Objective, by index.
    pub objective: Option<u16>,
    /// Objective on a gauge, by index.
    pub gauge: Option<u16>,
    /// Series.
    pub series: Option<SeriesId>,
    /// Filesystem, by index, where the decision is about one.
    pub filesystem: Option<u16>,
    /// The evidence.
    pub measure: Option<Measure>,
    /// What the memory of the one job that is touched has to do with it.
    pub taker: Option<Taker>,
    /// How long the state that this ends had lasted.
    pub lasted_ns: Option<u64>,
}

/// Names behind the indices in an [`Event`]; cloned for the slow thread whenever the segment was restarted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Names of the objectives.
    pub objectives: Vec<String>,
    /// Names of the objectives on gauges.
    pub gauges: Vec<String>,
    /// Mount points.
    pub filesystems: Vec<String>,
}

impl Names {
    /// The names of a configuration and of a segment.
    pub fn new(objectives: &[crate::Objective], filesystems: &[Filesystem]) -> Names {
        Names {
            objectives: objectives.iter().map(|o| o.name.clone()).collect(),
            gauges: Vec::new(),
            filesystems: filesystems.iter().map(|f| f.path.clone()).collect(),
        }
    }

    /// For example `storage read on /data/01`.
    pub fn series(&self, series: SeriesId) -> String {
        self.on(Some(series.kind), series.filesystem)
    }

    fn on(&self, kind: Option<Kind>, filesystem: u16) -> String {
        let path = self.filesystems.get(usize::from(filesystem)).map_or("an unknown filesystem", String::as_str);
        kind.map_or_else(|| path.to_string(), |kind| format!("{kind} on {path}"))
    }
}

impl Event {
    /// The journal record of this decision; `outcome`, `jobs` and `duration_ns` are for the caller to fill in.
    /// `time_ns` is CLOCK_REALTIME at `at_ns`.
    pub fn record(&self, names: &Names, time_ns: u64) -> journal::Record {
        let gauge = self.gauge.and_then(|g| names.gauges.get(usize::from(g)));
        let objective = self.objective.and_then(|o| names.objectives.get(usize::from(o)));
        let objective = objective.or(gauge).cloned().unwrap_or_default();
        let series = match (self.series, self.filesystem) {
            (Some(series), _) => names.series(series),
            (None, Some(filesystem)) => names.on(None, filesystem),
            (None, None) => String::new(),
        };
        let measure = self.measure.unwrap_or_default();
        let evidence = journal::Evidence {
            objective,
            series,
            value: measure.value,
            limit: measure.limit,
            unit: measure.unit.name().into(),
        };
        let based = self.measure.is_some() || self.filesystem.is_some() || self.objective.is_some();
        journal::Record {
            time_ns,
            monotonic_ns: self.at_ns,
            from: self.from,
            to: self.to,
            cause: self.cause.name().into(),
            action: self.deed.name().into(),
            precaution: self.precaution,
            evidence: based.then_some(evidence),
            jobs: Vec::new(),
            jobs_of: 0,
            by: String::new(),
            outcome: journal::Outcome::Pending,
            detail: String::new(),
            duration_ns: 0,
            lasted_ns: self.lasted_ns,
            memory: self.taker.map(|taker| taker.sign),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::taker::Sign;
    use intf::segment::{Class, Op};

    fn event(cause: Cause, deed: Deed) -> Event {
        Event {
            at_ns: 5,
            from: NodeState::Open,
            to: NodeState::Frozen,
            cause,
            deed,
            precaution: false,
            hold: Hold::All,
            objective: Some(0),
            gauge: None,
            series: Some(SeriesId { filesystem: 0, kind: Kind::of(Op::Read, Class::Storage).unwrap() }),
            filesystem: Some(0),
            measure: Some(Measure { value: 13.0, limit: 12.0, unit: Unit::Nats }),
            taker: Some(Taker { place: 3, sign: Sign::Wait { us: 5, of: 6 } }),
            lasted_ns: Some(7),
        }
    }

    fn names() -> Names {
        Names {
            objectives: vec!["storage-read".into()],
            gauges: vec!["memory".into()],
            filesystems: vec!["/data/01".into()],
        }
    }

    #[test]
    fn every_cause_and_deed_has_its_sentence() {
        for cause in Cause::ALL {
            let sentence = event(cause, Deed::None).record(&names(), 1).sentence();
            let raw = cause.name().replace('_', " ");
            assert!(
                !sentence.to_lowercase().ends_with(&format!("{raw}.")) || cause == Cause::Calm,
                "{cause:?}: {sentence}"
            );
        }
        for deed in Deed::ALL {
            let sentence = event(Cause::Calm, deed).record(&names(), 1).sentence();
            assert!(!sentence.contains('`'), "{deed:?}: {sentence}");
        }
    }

    #[test]
    fn a_record_has_names_for_indices() {
        let record = event(Cause::WeakEvidence, Deed::Freeze).record(&names(), 99);
        let evidence = record.evidence.unwrap();
        assert_eq!(
            (evidence.objective.as_str(), evidence.series.as_str()),
            ("storage-read", "storage read on /data/01")
        );
        assert_eq!((record.time_ns, record.monotonic_ns, record.lasted_ns), (99, 5, Some(7)));
        assert_eq!(record.memory, Some(Sign::Wait { us: 5, of: 6 }));
        let stranger = event(Cause::Stuck, Deed::Freeze).record(&Names::default(), 99).evidence.unwrap();
        assert_eq!(stranger.series, "storage read on an unknown filesystem");
    }
}

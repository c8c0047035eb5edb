// SPDX-License-Identifier: Apache-2.0
//! Objectives on what can be read off like a gauge: pressure, stuck threads, load. One that is above its limit for long enough
//! lets no new jobs start, and may ask for jobs to leave. It freezes nobody else: what these say is slow, and not whose doing it is.

use crate::event::{Measure, Unit};
use crate::squeeze::Resource;

/// What there is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name, as in the configuration and in metrics.
    pub name: &'static str,
    /// What it is.
    pub help: &'static str,
    /// Of its values.
    pub unit: Unit,
}

impl Source {
    /// Does it say that memory is short?
    pub fn is_of_memory(&self) -> bool {
        self.name.split('.').any(|part| part == "memory")
    }
}

const fn source(name: &'static str, unit: Unit, help: &'static str) -> Source {
    Source { name, help, unit }
}

/// Of beer-probe, and how often it opens and reads the file, or gives up.
pub const PROBE_ROOT: &str = "probe.root.seconds";
/// See [`PROBE_ROOT`].
pub const PROBE_ROOT_NS: u64 = 10_000_000_000;

/// All that the guard reads; the index is the gauge's place everywhere.
pub const SOURCES: [Source; 32] = [
    source("storage.pressure.cpu.some", Unit::Share, "time in which some storage task waited for CPU, over 5 s"),
    source("storage.pressure.cpu.full", Unit::Share, "time in which all storage tasks waited for CPU, over 5 s"),
    source("storage.pressure.io.some", Unit::Share, "time in which some storage task waited for I/O, over 5 s"),
    source("storage.pressure.io.full", Unit::Share, "time in which all storage tasks waited for I/O, over 5 s"),
    source("storage.pressure.memory.some", Unit::Share, "time in which some storage task waited for memory, over 5 s"),
    source("storage.pressure.memory.full", Unit::Share, "time in which all storage tasks waited for memory, over 5 s"),
    source("storage.memory.ooms", Unit::Count, "storage tasks killed for want of memory since the last look"),
    source("storage.memory.low", Unit::Count, "times that memory below MemoryLow was reclaimed since the last look"),
    source(
        "storage.memory.reclaimed",
        Unit::Count,
        "bytes that the kernel took from the storage services since the last look, page cache for the most part",
    ),
    source(
        "storage.memory.refaulted",
        Unit::Count,
        "bytes of those that the storage services had to read again since the last look",
    ),
    source("storage.memory.swap", Unit::Count, "bytes of the storage services in swap"),
    source(
        "storage.memory.protected",
        Unit::Share,
        "memory of the storage services, against MemoryLow: what is above 1 is not kept",
    ),
    source(
        "storage.disk.await",
        Unit::Seconds,
        "mean time of a request of the slowest data disk, or how long it hangs",
    ),
    source("storage.disk.queue", Unit::Count, "mean number of requests at the data disk with most of them"),
    source("storage.disk.utilisation", Unit::Share, "time in which the busiest data disk had a request"),
    source("storage.disk.gone", Unit::Count, "data disks that the kernel does not have any more"),
    source("storage.overloaded", Unit::Count, "filesystems that take no new files (beer.overload)"),
    source("batch.memory", Unit::Share, "memory of batch, against its hard limit"),
    source(
        "storage.threads.stuck",
        Unit::Count,
        "threads of storage services that did not run between two looks, in D state",
    ),
    source("host.pressure.cpu.some", Unit::Share, "time in which some task waited for CPU, over 5 s"),
    source("host.pressure.io.some", Unit::Share, "time in which some task waited for I/O, over 5 s"),
    source("host.pressure.io.full", Unit::Share, "time in which all tasks waited for I/O, over 5 s"),
    source("host.pressure.memory.some", Unit::Share, "time in which some task waited for memory, over 5 s"),
    source("host.pressure.memory.full", Unit::Share, "time in which all tasks waited for memory, over 5 s"),
    source("host.load", Unit::Count, "load average over a minute, per CPU"),
    source("host.load.total", Unit::Count, "load average over a minute, as that of uptime"),
    source("network.receive", Unit::Share, "received by the storage interface, against its speed"),
    source("network.transmit", Unit::Share, "sent by the storage interface, against its speed"),
    source("network.batch.receive", Unit::Share, "received by jobs, against the speed of the storage interface"),
    source("network.batch.transmit", Unit::Share, "sent by jobs, against the speed of the storage interface"),
    source("probe.stuck", Unit::Count, "filesystems where a probe has not returned for a second"),
    source(PROBE_ROOT, Unit::Seconds, "time to open and read signals.probe.root"),
];

/// Place of a source.
pub fn source_of(name: &str) -> Option<usize> {
    SOURCES.iter().position(|source| source.name == name)
}

/// Pressure is over 5 s or a bit more, and what jobs have begun goes on for a while.
const SETTLE_NS: u64 = 10_000_000_000;

/// Was this read so long after a change (somebody has left, or has less) that it shows what that did?
pub fn settled(read_ns: u64, changed_ns: u64) -> bool {
    read_ns.saturating_sub(changed_ns) >= SETTLE_NS
}

/// What a gauge above its limit leads to, beside that no new jobs start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Then {
    /// Nothing else.
    #[default]
    Close,
    /// A job leaves, and then the next one, for as long as it is above.
    Vacate,
    /// All jobs leave.
    Emergency,
    /// Batch as a whole gets less of this.
    Throttle(Resource),
}

/// An objective on one of them. Times in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct GaugeObjective {
    /// Its name, unique.
    pub name: String,
    /// Of what, by its place in [`SOURCES`], or behind them among the values of `[[exec]]`.
    pub source: usize,
    /// Above this it is broken.
    pub above: f64,
    /// When it has been for so long.
    pub for_ns: u64,
    /// It must have been below for so long before it is kept again.
    pub dwell_ns: u64,
    /// A value older than this is none: nobody knows.
    pub grace_ns: u64,
    /// What follows.
    pub then: Then,
}

/// The last reading of a source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// Nothing yet, or not any more; since when (CLOCK_MONOTONIC).
    Missing(u64),
    /// This node or its kernel does not have it, which is no fault. Once there was a value that is missing, and not absent.
    Absent,
    /// A value, and when it was read.
    Value(f64, u64),
}

/// How an objective is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GaugeState {
    /// Well.
    #[default]
    Kept,
    /// It is broken.
    Broken,
    /// The reading is older than its grace time.
    Stale,
    /// There is nothing to read on this node.
    Absent,
}

/// The judgement of one objective.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GaugeVerdict {
    /// Of what: see [`GaugeObjective::source`].
    pub source: usize,
    /// How it is kept.
    pub state: GaugeState,
    /// The value, against the limit.
    pub measure: Measure,
    /// Since when it is as it is.
    pub since_ns: u64,
    /// When the value was read; 0 = never.
    pub read_ns: u64,
    /// What follows when it is broken.
    pub then: Then,
    /// It is about memory.
    pub of_memory: bool,
}

impl GaugeVerdict {
    /// It is so now. One that was above for long is broken until it was below for long: of now only the value tells.
    pub fn is_above(&self) -> bool {
        self.measure.value > self.measure.limit
    }
}

/// Judges one objective; remembers for how long it has been above.
#[derive(Clone, Debug)]
pub struct GaugeJudge {
    objective: GaugeObjective,
    broken: bool,
    /// Since when it has been otherwise than `broken` says.
    otherwise_ns: Option<u64>,
    /// There was a value once; since when there is nothing to read where it was.
    seen: bool,
    gone_ns: Option<u64>,
    verdict: GaugeVerdict,
}

impl GaugeJudge {
    /// For this objective; nothing seen yet.
    pub fn new(objective: &GaugeObjective) -> Self {
        let of_memory = SOURCES.get(objective.source).is_some_and(Source::is_of_memory);
        let verdict = GaugeVerdict { source: objective.source, of_memory, ..GaugeVerdict::default() };
        let objective = objective.clone();
        GaugeJudge { objective, broken: false, otherwise_ns: None, seen: false, gone_ns: None, verdict }
    }

    /// What it judges.
    pub fn objective(&self) -> &GaugeObjective {
        &self.objective
    }

    /// At every tick.
    pub fn judge(&mut self, reading: Reading, now_ns: u64) -> GaugeVerdict {
        let reading = self.missed(reading, now_ns);
        if let Reading::Value(_, at_ns) = reading {
            self.verdict.read_ns = at_ns;
        }
        let (objective, then) = (&self.objective, self.objective.then);
        let unit = SOURCES.get(objective.source).map_or(Unit::Count, |source| source.unit);
        let mut measure = Measure { value: self.verdict.measure.value, limit: objective.above, unit };
        if !matches!(reading, Reading::Value(_, at_ns) if now_ns.saturating_sub(at_ns) <= objective.grace_ns) {
            // What is not seen does not last.
            self.otherwise_ns = None;
        }
        let state = match reading {
            Reading::Absent => GaugeState::Absent,
            Reading::Missing(since_ns) if now_ns.saturating_sub(since_ns) > objective.grace_ns => GaugeState::Stale,
            Reading::Value(_, at_ns) if now_ns.saturating_sub(at_ns) > objective.grace_ns => GaugeState::Stale,
            Reading::Missing(_) => self.verdict.state,
            Reading::Value(value, _) => {
                measure.value = value;
                self.follow(value > self.objective.above, now_ns)
            }
        };
        if state != self.verdict.state || self.verdict.since_ns == 0 {
            self.verdict.since_ns = now_ns;
        }
        (self.verdict.state, self.verdict.measure, self.verdict.then) = (state, measure, then);
        self.verdict
    }

    /// What was there and is there no more is missed: its slice is gone, or its file.
    fn missed(&mut self, reading: Reading, now_ns: u64) -> Reading {
        self.seen |= matches!(reading, Reading::Value(..));
        match reading {
            Reading::Absent if self.seen => Reading::Missing(*self.gone_ns.get_or_insert(now_ns)),
            other => {
                self.gone_ns = None;
                other
            }
        }
    }

    fn follow(&mut self, above: bool, now_ns: u64) -> GaugeState {
        if above == self.broken {
            self.otherwise_ns = None;
        } else {
            let lasted_ns = now_ns.saturating_sub(*self.otherwise_ns.get_or_insert(now_ns));
            let needed_ns = if above { self.objective.for_ns } else { self.objective.dwell_ns };
            if lasted_ns >= needed_ns {
                (self.broken, self.otherwise_ns) = (above, None);
            }
        }
        if self.broken {
            GaugeState::Broken
        } else {
            GaugeState::Kept
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn judge() -> GaugeJudge {
        GaugeJudge::new(&GaugeObjective {
            name: "memory".into(),
            source: 4,
            above: 0.1,
            for_ns: 5 * S,
            dwell_ns: 10 * S,
            grace_ns: 3 * S,
            then: Then::Vacate,
        })
    }

    /// A value each second; the states.
    fn states(judge: &mut GaugeJudge, values: impl IntoIterator<Item = f64>, from_s: u64) -> Vec<GaugeState> {
        (from_s..)
            .zip(values)
            .map(|(second, value)| judge.judge(Reading::Value(value, second * S), second * S).state)
            .collect()
    }

    #[test]
    fn above_for_long_enough_is_broken_until_it_was_below_for_long_enough() {
        let mut judge = judge();
        let found = states(&mut judge, [0.2; 7], 100);
        assert_eq!(found[4..], [GaugeState::Kept, GaugeState::Broken, GaugeState::Broken]);
        let found = states(&mut judge, [0.1; 12], 107);
        assert_eq!((found[9], found[10]), (GaugeState::Broken, GaugeState::Kept));
        assert_eq!(judge.verdict.measure, Measure { value: 0.1, limit: 0.1, unit: Unit::Share });
        assert_eq!((judge.verdict.since_ns, judge.verdict.then), (117 * S, Then::Vacate));
        judge.judge(Reading::Missing(118 * S), 125 * S);
        assert_eq!(judge.verdict.read_ns, 118 * S);
    }

    #[test]
    fn a_moment_is_no_breach_and_a_moment_of_peace_is_none() {
        let mut judge = judge();
        assert!(states(&mut judge, [0.2, 0.2, 0.2, 0.2, 0.0].repeat(9), 100).iter().all(|s| *s == GaugeState::Kept));
        states(&mut judge, [0.2; 6], 200);
        assert!(states(&mut judge, [0.0, 0.0, 0.2].repeat(9), 206).iter().all(|s| *s == GaugeState::Broken));
        assert_eq!(states(&mut judge, [f64::NAN; 12], 300)[11], GaugeState::Kept, "no number is above nothing");
    }

    #[test]
    fn what_is_not_heard_is_stale_and_what_is_not_there_is_not() {
        let mut judge = judge();
        assert_eq!(judge.judge(Reading::Missing(100 * S), 103 * S).state, GaugeState::Kept);
        assert_eq!(judge.judge(Reading::Missing(100 * S), 104 * S).state, GaugeState::Stale);
        assert_eq!(judge.judge(Reading::Value(0.0, 104 * S), 104 * S).state, GaugeState::Kept);
        assert_eq!(judge.judge(Reading::Value(0.0, 104 * S), 108 * S).state, GaugeState::Stale);
    }

    #[test]
    fn what_was_never_there_is_no_fault_and_what_has_gone_is_missed() {
        let mut judge = judge();
        assert_eq!(judge.judge(Reading::Missing(100 * S), 101 * S).state, GaugeState::Kept);
        assert_eq!(judge.judge(Reading::Absent, 102 * S).state, GaugeState::Absent);
        assert_eq!(judge.judge(Reading::Absent, 900 * S).state, GaugeState::Absent);
        states(&mut judge, [0.2; 6], 901);
        assert_eq!(judge.verdict.state, GaugeState::Broken);
        assert_eq!(
            judge.judge(Reading::Absent, 907 * S).state,
            GaugeState::Broken,
            "for its grace time it is as it was"
        );
        assert_eq!(judge.judge(Reading::Absent, 910 * S).state, GaugeState::Broken);
        assert_eq!(judge.judge(Reading::Absent, 911 * S).state, GaugeState::Stale);
        assert_eq!(
            judge.judge(Reading::Value(0.0, 912 * S), 912 * S).state,
            GaugeState::Broken,
            "until it was low for long"
        );
        assert_eq!(judge.judge(Reading::Absent, 913 * S).state, GaugeState::Broken, "each time anew");
    }

    #[test]
    fn names_are_unique_and_found() {
        for (place, source) in SOURCES.iter().enumerate() {
            assert_eq!(source_of(source.name), Some(place));
        }
        let of_memory = SOURCES.iter().filter(|source| source.is_of_memory()).count();
        assert_eq!((of_memory, judge().verdict.of_memory), (11, true));
        assert_eq!(source_of("storage"), None);
    }
}

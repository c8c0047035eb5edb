// SPDX-License-Identifier: Apache-2.0
//! A ladder with short holds, its inputs, and a clock that the test moves.

use intf::segment::{Filesystem, Kind, SeriesId};
use intf::state::NodeState;
use policy::event::{Measure, Unit};
use policy::{
    Actions, Cause, Config, Deed, Event, FilesystemLoad, GaugeVerdict, Inputs, JobSet, Ladder, LadderConfig, Level,
    SignalState, Taken, Taker, Use, Verdict,
};

pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000 * MS;
pub const TICK: u64 = policy::config::TICK_NS;

/// Those in these places.
pub fn jobs(places: &[usize]) -> JobSet {
    places.iter().copied().collect()
}

/// A filesystem of storage.
pub fn disk(index: u32) -> Filesystem {
    let path = format!("/data/{index:02}");
    Filesystem { path, major: 8, minor: index, open_readers: 0, open_writers: 0, overloaded: false }
}

/// Two objectives, two filesystems.
pub struct Steps {
    pub ladder: Ladder,
    pub now: u64,
    pub verdicts: [Verdict; 2],
    pub gauges: Vec<GaugeVerdict>,
    /// When they were read; `None` = just now.
    pub gauges_read: Option<u64>,
    /// One of them that was read then.
    pub seldom: Option<(usize, u64)>,
    pub filesystems: [FilesystemLoad; 2],
    pub batch_share: [f32; 2],
    pub batch_share_now: [f32; 2],
    pub guilty: [Option<JobSet>; 2],
    /// `None` = they are the guilty.
    pub workers: Option<[Option<JobSet>; 2]>,
    pub others_use: [bool; 2],
    pub held_work: [bool; 2],
    pub rotational: u128,
    pub used: [Use; 2],
    pub taken: Vec<Taken>,
    pub jobs: Option<u32>,
    pub living: JobSet,
    pub taker: Option<Taker>,
    pub self_check: bool,
    pub drained: bool,
    pub ordered: bool,
    pub resumed: bool,
    pub less_awaited: bool,
    pub events: Vec<Event>,
    pub last: Option<Actions>,
}

pub fn config() -> LadderConfig {
    // Shorter holds than the default: a test walks through many of them.
    LadderConfig { hold_ns: S, hold_max_ns: 30 * S, ..Config::default().ladder }
}

/// As the evaluator gives it when batch is known to be innocent on some filesystems.
fn evaluated(verdict: Verdict, excused: u128) -> Verdict {
    // Without a series it is all of them together.
    let of = verdict.worst.map_or(u128::MAX, |series| 1 << series.filesystem);
    if verdict.level == Level::Calm {
        verdict
    } else if of & !excused == 0 {
        let series = verdict.worst.unwrap_or(SeriesId { filesystem: 0, kind: Kind::STORAGE_READ });
        Verdict { level: Level::Calm, excused: Some((series, verdict.measure)), ..verdict }
    } else {
        Verdict { slow: verdict.worst.map_or(0, |_| of), ..verdict }
    }
}

impl Steps {
    /// As after the start of the guard: closed, everything calm.
    pub fn new() -> Steps {
        Steps::with(Ladder::new(config(), 1000 * S))
    }

    pub fn with(ladder: Ladder) -> Steps {
        let verdict = |objective| Verdict {
            objective,
            signal: SignalState::Fresh,
            slack: 1.0,
            dwell_ns: 2 * S,
            ..Verdict::default()
        };
        Steps {
            ladder,
            now: 1000 * S,
            verdicts: [verdict(0), verdict(1)],
            // For when a test says that it is broken.
            gauges: vec![GaugeVerdict {
                measure: Measure { value: 0.5, limit: 0.1, unit: Unit::Share },
                ..GaugeVerdict::default()
            }],
            gauges_read: None,
            seldom: None,
            filesystems: [FilesystemLoad { stuck_after_ns: 800 * MS, ..FilesystemLoad::default() }; 2],
            batch_share: [0.5; 2],
            batch_share_now: [0.0; 2],
            guilty: [None; 2],
            workers: None,
            others_use: [false; 2],
            held_work: [false; 2],
            rotational: 0b11,
            used: [Use::Full; 2],
            taken: Vec::new(),
            jobs: Some(3),
            living: [0, 1, 2].into_iter().collect(),
            taker: None,
            self_check: true,
            drained: false,
            ordered: false,
            resumed: false,
            less_awaited: false,
            events: Vec::new(),
            last: None,
        }
    }

    /// Open, with a calm past.
    pub fn open() -> Steps {
        let mut steps = Steps::new();
        steps.run(3 * S);
        assert_eq!(steps.state(), NodeState::Open);
        steps.events.clear();
        steps
    }

    pub fn step(&mut self) -> &Actions {
        self.now += TICK;
        let verdicts =
            self.verdicts.map(|verdict| evaluated(verdict, self.ladder.excused(verdict.objective, self.now)));
        for gauge in &mut self.gauges {
            gauge.read_ns = self.gauges_read.unwrap_or(self.now);
        }
        if let Some((place, read_ns)) = self.seldom {
            self.gauges[place].read_ns = read_ns;
        }
        let inputs = Inputs {
            verdicts: &verdicts,
            gauges: &self.gauges,
            filesystems: &self.filesystems,
            batch_share: &self.batch_share,
            batch_share_now: &self.batch_share_now,
            workers: self.workers.as_ref().unwrap_or(&self.guilty),
            guilty: &self.guilty,
            others_use: &self.others_use,
            rotational: self.rotational,
            held_work: &self.held_work,
            used: &self.used,
            taken: &self.taken,
            jobs: self.jobs,
            living: self.living,
            oldest_first: &self.living.iter().collect::<Vec<_>>(),
            taker: self.taker,
            self_check: self.self_check,
            drained: self.drained,
            ordered: self.ordered,
            resumed: self.resumed,
            less_awaited: self.less_awaited,
        };
        let actions = self.ladder.step(&inputs, self.now);
        let emptied = actions.state == NodeState::Emergency && self.jobs == Some(0);
        assert_eq!(actions.hold.any(), (actions.state >= NodeState::Frozen && !emptied) || actions.thawing);
        assert_eq!(actions.leave.any(), actions.state >= NodeState::Vacating);
        assert!(!actions.admit || actions.state < NodeState::Vacating);
        assert_eq!(actions.events.dropped, 0);
        self.events.extend(actions.events.iter());
        self.last.insert(actions)
    }

    /// Steps for so long.
    pub fn run(&mut self, time: u64) {
        for _ in 0..time / TICK {
            self.step();
        }
    }

    /// Steps until the state is another one; how long that took. Fails after `limit`.
    pub fn until_left(&mut self, limit: u64) -> u64 {
        let (from, start) = (self.state(), self.now);
        while self.state() == from {
            assert!(self.now - start <= limit, "still {from} after {limit} ns");
            self.step();
        }
        self.now - start
    }

    pub fn level(&mut self, level: Level) {
        self.verdicts[0].level = level;
    }

    pub fn state(&self) -> NodeState {
        self.ladder.state()
    }

    pub fn actions(&self) -> &Actions {
        self.last.as_ref().unwrap()
    }

    /// Causes and deeds of the events so far.
    pub fn said(&self) -> Vec<(Cause, Deed)> {
        self.events.iter().map(|e| (e.cause, e.deed)).collect()
    }
}

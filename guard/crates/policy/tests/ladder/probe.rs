// SPDX-License-Identifier: Apache-2.0
//! Traffic that is too thin to judge: a client reads from each of two disks every few seconds, and only the probes of those disks
//! can show in time that a job makes one of them slow.

use intf::segment::layout::{Kind, SeriesId};
use intf::segment::{InFlight, Visitor};
use intf::state::NodeState;
use policy::detector::trial::{objective, probe_objective, Completed, Random};
use policy::{Cause, Evaluator, Event, Hold, Inputs, JobSet, Ladder, Signal};

use crate::steps::{config, disk, MS, S, TICK};

const HOG: usize = 1;
/// A client's request every so often, on each disk.
const THIN: u64 = 5 * S;

struct Request {
    series: SeriesId,
    start: u64,
    end: u64,
}

/// Two disks of 8 ms, three jobs. Job 1 reads from the first disk, if it runs and is a hog.
struct Disks {
    evaluator: Evaluator,
    ladder: Ladder,
    now: u64,
    random: Random,
    requests: Vec<Request>,
    due: [[u64; 2]; 2],
    probed: bool,
    hog: f64,
    /// When it last did something.
    worked: u64,
    hold: Hold,
    events: Vec<Event>,
}

impl Disks {
    fn new(seed: u64, probed: bool) -> Disks {
        let objectives = [
            objective(12.0, 24.0, 10 * MS),
            policy::Objective { name: "probe-read".into(), ..probe_objective(12.0, 24.0, 10 * MS) },
        ];
        let mut evaluator = Evaluator::new(&objectives);
        evaluator.restart(&[disk(1), disk(2)]);
        let mut disks = Disks {
            evaluator,
            ladder: Ladder::new(config(), S),
            now: S,
            random: Random::new(seed),
            requests: Vec::new(),
            due: [[S; 2]; 2],
            probed,
            hog: 1.0,
            worked: 0,
            hold: Hold::Nobody,
            events: Vec::new(),
        };
        disks.run(600 * S);
        assert_eq!((disks.ladder.state(), disks.events.len()), (NodeState::Open, 1), "{:?}", disks.events);
        disks.events.clear();
        disks
    }

    fn hog_stands(&self) -> bool {
        match self.hold {
            Hold::Nobody => false,
            Hold::Jobs(jobs) => jobs.contains(HOG),
            Hold::All => true,
        }
    }

    fn run(&mut self, time: u64) {
        (0..time / TICK).for_each(|_| self.tick());
    }

    /// Runs until this is so; how long that took.
    fn until(&mut self, limit: u64, so: impl Fn(&Disks) -> bool) -> u64 {
        let start = self.now;
        while !so(self) {
            self.tick();
            assert!(self.now - start < limit, "{:?}", self.events);
        }
        self.now - start
    }

    /// Requests that come by now: of the client, and of the probe once a second.
    fn arrive(&mut self) {
        let slower = !self.hog_stands();
        for filesystem in 0..2u16 {
            for (kind, every) in [(Kind::STORAGE_READ, THIN), (Kind::PROBE_READ, S)] {
                let probe = kind == Kind::PROBE_READ;
                let due = &mut self.due[usize::from(filesystem)][usize::from(probe)];
                if *due > self.now || (probe && !self.probed) {
                    continue;
                }
                *due += (every as f64 * (0.75 + 0.5 * self.random.uniform())) as u64;
                let factor = if slower && filesystem == 0 { self.hog } else { 1.0 };
                let latency = 8.0 * MS as f64 * (0.324 * self.random.normal()).exp() * factor;
                let series = SeriesId { filesystem, kind };
                self.requests.push(Request { series, start: self.now, end: self.now + latency as u64 });
            }
        }
    }

    fn tick(&mut self) {
        self.now += TICK;
        self.arrive();
        let now = self.now;
        self.evaluator.begin(now);
        for request in &self.requests {
            let series = request.series;
            if request.end > now {
                let age_ns = now - request.start;
                self.evaluator.in_flight(&InFlight { series, age_ns, tid: 1, bytes: 4096, client: None });
                continue;
            }
            let mut completed = Completed::NOTHING;
            completed.add(request.end - request.start);
            completed.delta(series).iter().for_each(|delta| self.evaluator.series(delta));
        }
        self.requests.retain(|request| request.end > now);
        let heard = Signal::Heard { heartbeat_age_ns: 0 };
        self.evaluator.probed(if self.probed { heard } else { Signal::Missing });
        self.evaluator.finish(now, heard, self.ladder.acting());
        if self.hog > 1.0 && !self.hog_stands() {
            self.worked = now;
        }
        // Of the last second.
        let share = if self.worked > 0 && now - self.worked < S { 0.9 } else { 0.0 };
        let guilty = (self.hog > 1.0).then(|| [HOG].into_iter().collect::<JobSet>());
        let inputs = Inputs {
            verdicts: self.evaluator.verdicts(),
            filesystems: self.evaluator.filesystems(),
            batch_share: &[share, 0.0],
            batch_share_now: &[share, 0.0],
            workers: &[guilty, None],
            guilty: &[guilty, None],
            others_use: &[false, true],
            jobs: Some(3),
            living: [0, 1, 2].into_iter().collect(),
            oldest_first: &[0, 1, 2],
            self_check: true,
            ..Inputs::default()
        };
        let actions = self.ladder.step(&inputs, now);
        self.hold = actions.hold;
        self.events.extend(actions.events.iter());
    }

    fn said(&self, cause: Cause) -> bool {
        self.events.iter().any(|event| event.cause == cause)
    }
}

#[test]
fn a_hog_beside_thin_traffic_is_found_by_probes_within_seconds_and_alone() {
    for seed in 0..10 {
        let mut disks = Disks::new(seed, true);
        disks.hog = 8.0;
        let delay = disks.until(6 * S, Disks::hog_stands);
        // It is a precaution of all, or a freeze; who did it is known to the ladder at the next tick.
        disks.until(S, |disks| disks.hold == Hold::Jobs([HOG].into_iter().collect()));
        let event = disks.events.iter().find(|event| event.hold.any()).unwrap();
        assert_eq!((event.objective, event.filesystem), (Some(1), Some(0)), "seed {seed}: by its probe, {event:?}");
        assert_eq!(disks.evaluator.verdicts()[1].slow, 1, "seed {seed}: the other disk is not slow");
        // The probes say too when it is over.
        disks.hog = 1.0;
        disks.until(30 * S, |disks| disks.hold == Hold::Nobody);
        assert!(!disks.said(Cause::BatchInnocent), "seed {seed}: {:?}", disks.events);
        eprintln!("seed {seed}: {} ms", delay / MS);
    }
}

#[test]
fn without_probes_thin_traffic_shows_nothing_for_long() {
    for seed in 0..10 {
        let mut disks = Disks::new(seed, false);
        disks.hog = 8.0;
        disks.run(60 * S);
        assert!(!disks.events.iter().any(|event| event.hold.any()), "seed {seed}: {:?}", disks.events);
    }
}

#[test]
fn an_hour_of_probes_of_healthy_disks_freezes_nobody() {
    let mut disks = Disks::new(3, true);
    disks.run(3600 * S);
    assert!(disks.events.is_empty(), "{:?}", disks.events);
}

#[test]
fn a_probe_that_has_gone_closes_the_node_and_one_that_never_was_does_not() {
    let mut disks = Disks::new(4, false);
    disks.run(60 * S);
    assert_eq!(disks.evaluator.verdicts()[1].signal, policy::SignalState::Absent);
    assert_eq!(disks.ladder.state(), NodeState::Open);
    let mut disks = Disks::new(4, true);
    disks.probed = false;
    disks.run(20 * S);
    assert_eq!((disks.ladder.state(), disks.hold), (NodeState::Closed, Hold::Nobody));
    assert!(disks.said(Cause::SignalMissing), "{:?}", disks.events);
    disks.probed = true;
    disks.run(10 * S);
    assert_eq!(disks.ladder.state(), NodeState::Open, "{:?}", disks.events);
}

#[test]
fn a_probe_that_is_stuck_is_a_stuck_disk() {
    let mut disks = Disks::new(5, true);
    let series = SeriesId { filesystem: 0, kind: Kind::PROBE_READ };
    disks.hog = 1.001;
    disks.requests.push(Request { series, start: disks.now, end: disks.now + 20 * S });
    disks.due[0][1] = disks.now + 21 * S;
    let delay = disks.until(2 * S, Disks::hog_stands);
    let event = disks.events.iter().find(|event| event.hold.any()).unwrap();
    assert_eq!((event.cause, event.objective, event.filesystem), (Cause::Stuck, Some(1), Some(0)), "{event:?}");
    assert!(delay >= 800 * MS, "{} ms", delay / MS);
}

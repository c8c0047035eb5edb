// SPDX-License-Identifier: Apache-2.0
//! A disk, storage clients, a batch hog, and the whole policy between them: evaluator and ladder as they run on the node.

use intf::segment::layout::{Class, Kind, Op, SeriesId};
use intf::segment::{InFlight, Visitor};
use intf::state::NodeState;
use policy::detector::trial::{objective, Completed, Random};
use policy::{Actions, Cause, Evaluator, Event, Inputs, Ladder, LadderConfig, Resource, Signal};

use crate::steps::{config, disk, MS, S, TICK};

/// One disk with storage reads of 8 ms; a hog that runs makes them slower.
pub struct Model {
    pub evaluator: Evaluator,
    pub ladder: Ladder,
    pub now: u64,
    random: Random,
    next: u64,
    requests: Vec<(u64, u64)>,
    /// Storage requests per second.
    pub rate: f64,
    /// By how much storage is slower while batch runs.
    pub hog: f64,
    /// It does so by what it does with its CPU.
    pub by_cpu: bool,
    /// What it has of that.
    pub cpu: f32,
    /// By how much it is slower whatever batch does.
    pub own: f64,
    /// Nothing completes before then.
    pub dead_until: u64,
    /// The storage daemon gives a signal.
    pub signal: bool,
    /// What the freezer does.
    pub frozen: bool,
    /// Batch's share of the disk when it runs.
    pub share: f32,
    pub events: Vec<Event>,
    pub frozen_ns: u64,
}

/// Reads of storage.
pub fn read() -> SeriesId {
    SeriesId { filesystem: 0, kind: Kind::of(Op::Read, Class::Storage).unwrap() }
}

impl Model {
    pub fn new(seed: u64) -> Model {
        let mut evaluator = Evaluator::new(&[objective(12.0, 24.0, 10 * MS)]);
        evaluator.restart(&[disk(1)]);
        Model {
            evaluator,
            ladder: Ladder::new(config(), S),
            now: S,
            random: Random::new(seed),
            next: S,
            requests: Vec::new(),
            rate: 300.0,
            hog: 1.0,
            by_cpu: false,
            cpu: 1.0,
            own: 1.0,
            dead_until: 0,
            signal: true,
            frozen: false,
            share: 0.0,
            events: Vec::new(),
            frozen_ns: 0,
        }
    }

    /// Calm for a minute: learned, and open.
    pub fn learned(seed: u64) -> Model {
        let mut model = Model::new(seed);
        model.run(60 * S);
        assert_eq!(model.ladder.state(), NodeState::Open, "{:?}", model.events);
        assert!(model.evaluator.verdicts()[0].dependence.is_some());
        model.events.clear();
        model.frozen_ns = 0;
        model
    }

    pub fn run(&mut self, time: u64) {
        for _ in 0..time / TICK {
            self.tick();
        }
    }

    /// Runs until batch is (not) frozen; how long that took. Fails after `limit`.
    pub fn until_frozen(&mut self, frozen: bool, precaution: bool, limit: u64) -> u64 {
        let start = self.now;
        loop {
            let actions = self.tick();
            if actions.hold.any() == frozen && (precaution || !actions.precaution) {
                return self.now - start;
            }
            assert!(self.now - start < limit, "{:?}", self.events);
        }
    }

    pub fn tick(&mut self) -> Actions {
        self.now += TICK;
        let part = if self.by_cpu { f64::from(self.cpu) } else { 1.0 };
        let factor = self.own * if self.frozen { 1.0 } else { 1.0 + (self.hog - 1.0) * part };
        while self.next <= self.now {
            let latency = 8.0 * MS as f64 * (0.324 * self.random.normal()).exp() * factor;
            self.requests.push((self.next, self.next + latency as u64));
            self.next += (self.random.exponential(1.0 / self.rate) * S as f64) as u64 + 1;
        }
        let (now, dead_until) = (self.now, self.dead_until);
        self.requests.iter_mut().filter(|r| r.1 <= dead_until).for_each(|r| r.1 = dead_until + r.1 % (8 * MS));
        self.evaluator.begin(now);
        if self.signal {
            self.report();
        }
        self.requests.retain(|r| r.1 > now);
        let signal = if self.signal { Signal::Heard { heartbeat_age_ns: 0 } } else { Signal::Missing };
        self.evaluator.excuse(0, self.ladder.excused(0, now));
        self.evaluator.finish(now, signal, self.ladder.acting());
        let share = [if self.frozen { 0.0 } else { self.share }];
        let inputs = Inputs {
            verdicts: self.evaluator.verdicts(),
            filesystems: self.evaluator.filesystems(),
            batch_share: &share,
            batch_share_now: &share,
            jobs: Some(4),
            self_check: true,
            ..Inputs::default()
        };
        let actions = self.ladder.step(&inputs, now);
        self.frozen = actions.hold.any();
        self.cpu = actions.shares.of(Resource::Cpu);
        self.frozen_ns += u64::from(self.frozen) * TICK;
        self.events.extend(actions.events.iter());
        actions
    }

    fn report(&mut self) {
        let mut completed = Completed::NOTHING;
        self.requests.iter().filter(|r| r.1 <= self.now).for_each(|(start, end)| completed.add(end - start));
        if let Some(delta) = completed.delta(read()) {
            self.evaluator.series(&delta);
        }
        for (start, _) in self.requests.iter().filter(|r| r.1 > self.now) {
            let age_ns = self.now - start;
            self.evaluator.in_flight(&InFlight { series: read(), age_ns, tid: 1, bytes: 0, client: None });
        }
    }

    pub fn said(&self, cause: Cause) -> usize {
        self.events.iter().filter(|e| e.cause == cause).count()
    }
}

#[test]
fn a_hog_is_frozen_in_time_and_thawed_when_it_is_gone() {
    for seed in 0..20 {
        let mut model = Model::learned(seed);
        (model.hog, model.share) = (5.0, 0.8);
        let delay = model.until_frozen(true, true, S);
        assert!(delay <= 120 * MS, "seed {seed}: precaution after {} ms", delay / MS);
        let delay = delay + model.until_frozen(true, false, S);
        assert!(delay <= 300 * MS, "seed {seed}: freeze after {} ms", delay / MS);
        model.hog = 1.0;
        let delay = model.until_frozen(false, false, 20 * S);
        assert!((S..=4 * S).contains(&delay), "seed {seed}: thaw after {} ms", delay / MS);
        model.run(20 * S);
        assert_eq!(model.ladder.state(), NodeState::Open, "{:?}", model.events);
    }
}

#[test]
fn a_hog_that_goes_on_is_held_for_longer_and_longer() {
    let mut model = Model::learned(1);
    (model.hog, model.share) = (5.0, 0.8);
    model.run(300 * S);
    let share = model.frozen_ns as f64 / (300 * S) as f64;
    assert!(share > 0.9, "frozen for {share}");
    assert_eq!(model.ladder.counters().hold_ns, 30 * S);
    // Storage saw it for the time between thaw and freeze only, some ten times.
    assert!(model.ladder.counters().freezes < 20, "{:?}", model.ladder.counters());
}

/// How much of five minutes batch stands still that harms by its CPU, and in how many freezes.
fn harms_by_its_cpu(seed: u64, throttle: bool) -> (f64, u64) {
    let mut model = Model::learned(seed);
    model.ladder.reconfigure(LadderConfig { throttle, ..config() }, false);
    (model.hog, model.by_cpu) = (5.0, true);
    model.run(300 * S);
    (model.frozen_ns as f64 / (300 * S) as f64, model.ladder.counters().freezes)
}

#[test]
fn one_that_harms_by_its_cpu_runs_with_less_of_it_instead_of_standing_still() {
    for seed in 0..5 {
        let ((frozen, freezes), (without, freezes_without)) =
            (harms_by_its_cpu(seed, true), harms_by_its_cpu(seed, false));
        assert!(without > 0.7, "seed {seed}: {without}");
        assert!(frozen < 0.3 * without, "seed {seed}: {frozen} and {without}");
        // Nor do clients pay for that.
        assert!(2 * freezes <= freezes_without, "seed {seed}: {freezes} and {freezes_without}");
    }
}

#[test]
fn what_storage_does_to_itself_is_not_blamed_on_batch_for_long() {
    let mut model = Model::learned(2);
    model.own = 4.0;
    model.run(20 * S);
    assert_eq!(model.said(Cause::BatchInnocent), 1);
    model.run(580 * S);
    let share = model.frozen_ns as f64 / (600 * S) as f64;
    assert!(share < 0.08, "frozen for {share} of ten minutes");
}

#[test]
fn an_hour_of_health_costs_next_to_nothing() {
    let mut model = Model::learned(3);
    model.share = 0.5;
    model.run(3600 * S);
    assert!(model.frozen_ns <= 36 * 100 * MS, "0.1 %: {} ms", model.frozen_ns / MS);
    assert_eq!(model.ladder.counters().freezes, 0);
}

#[test]
fn a_dead_disk_without_batch_costs_batch_one_precaution_at_most() {
    let mut model = Model::learned(4);
    model.dead_until = model.now + 30 * S;
    model.run(29 * S);
    assert_eq!(model.said(Cause::StuckWithoutBatch), 1);
    assert_eq!(model.ladder.counters().freezes, 0, "{:?}", model.events);
    assert!(model.frozen_ns <= config().precaution_ns, "{} ms", model.frozen_ns / MS);
    // All that waited completes at once: bad luck, not evidence.
    model.run(10 * S);
    assert_eq!(model.said(Cause::Unstuck), 1);
    assert_eq!(model.ladder.counters().freezes, 0, "{:?}", model.events);
    // The promise of the last minute is broken, though: nothing new starts until that is over.
    assert_eq!(model.said(Cause::BreachWithoutBatch), 1);
}

#[test]
fn a_disk_that_hangs_under_batch_freezes_it_and_thaws_when_it_moves() {
    let mut model = Model::learned(5);
    model.share = 0.5;
    model.dead_until = model.now + 5 * S;
    let delay = model.until_frozen(true, false, 2 * S);
    assert!(delay <= 900 * MS, "{}", delay / MS);
    model.run(10 * S);
    assert!(!model.frozen && model.said(Cause::BatchInnocent) == 0, "{:?}", model.events);
}

#[test]
fn a_storage_daemon_that_is_gone_closes_the_node_and_freezes_nothing() {
    let mut model = Model::learned(6);
    model.signal = false;
    model.run(S);
    assert_eq!(model.ladder.state(), NodeState::Open, "a restart takes a moment");
    model.run(20 * S);
    assert_eq!((model.ladder.state(), model.frozen_ns), (NodeState::Closed, 0));
    model.run(40 * S);
    assert_eq!((model.ladder.state(), model.frozen_ns), (NodeState::Throttled, 0));
    model.signal = true;
    model.requests.clear();
    model.run(120 * S);
    assert_eq!((model.ladder.state(), model.frozen_ns), (NodeState::Open, 0));
}

#[test]
fn what_was_learned_for_a_promise_that_stays_is_kept() {
    let mut model = Model::learned(7);
    let (same, other) =
        (objective(12.0, 24.0, 10 * MS), policy::Objective { threshold_ns: 50 * MS, ..objective(12.0, 24.0, 10 * MS) });
    model.evaluator.reconfigure(&[other.clone(), same], &[disk(1)]);
    model.ladder.reconfigure(config(), true);
    model.run(2 * TICK);
    let learned: Vec<bool> = model.evaluator.verdicts().iter().map(|verdict| verdict.dependence.is_some()).collect();
    assert_eq!(learned, [false, true]);
    assert_eq!(model.evaluator.verdicts()[1].objective, 1);
    model.run(60 * S);
    assert!(model.evaluator.verdicts()[0].dependence.is_some());
    assert_eq!(model.ladder.state(), NodeState::Open, "{:?}", model.events);
    model.evaluator.reconfigure(&[other], &[disk(1)]);
    model.run(2 * TICK);
    assert_eq!(model.evaluator.verdicts().len(), 1);
    assert!(model.evaluator.verdicts()[0].dependence.is_some());
}

// SPDX-License-Identifier: Apache-2.0
//! The detector of one series for one objective: the test of the whole latency, and the test of the share over the
//! threshold.

use super::accumulator::{Accumulator, Limits};
use super::baseline::Baseline;
use super::depth::Arrivals;
use super::evidence::{first_above, Evidence, REQUEST_MAX};
use super::kinship::{Kinship, MOST};
use super::slow_end::SlowEnd;
use crate::objective::{Level, Objective};
use intf::segment::layout::{bucket_lower, bucket_middle};
use intf::segment::{Class, SeriesDelta, BUCKETS};

/// Without any request for so long there is no evidence left: nobody is being hurt.
const IDLE_NS: u64 = 2_000_000_000;

/// How many slow requests come together, while that is not known.
const KINSHIP_ASSUMED: f64 = 3.0;

/// What the share test adds for a request over the threshold, and for one that is not: the allowed share against 3 and
/// 10 times as much, in equal parts.
#[derive(Clone, Copy, Debug)]
struct ShareEvidence {
    over: f64,
    within: f64,
}

impl ShareEvidence {
    fn new(share: f64) -> ShareEvidence {
        let slow = ((3.0 * share).min(0.5) + (10.0 * share).min(0.5)) / 2.0;
        ShareEvidence { over: (slow / share).ln().min(REQUEST_MAX), within: ((1.0 - slow) / (1.0 - share)).ln() }
    }
}

/// What may be learned from a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lesson {
    /// It is calm: what is usual.
    Calm,
    /// There is evidence of a breach: nothing about what is usual.
    Uneasy,
    /// There has been evidence for long and no action: that is what is usual now.
    Changed,
    /// Batch is held back: nothing, except by who knows nothing yet.
    Acting,
    /// There is no signal: nothing.
    Deaf,
}

impl Lesson {
    /// What storage is like without batch is better than no idea of what is usual: a guard that starts into trouble would
    /// never get one, since it freezes again before it could.
    fn of(self, known: bool, level: Level) -> Lesson {
        match self {
            Lesson::Acting if !known && level == Level::Calm => Lesson::Calm,
            other => other,
        }
    }
}

/// Evidence of one tick.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tick {
    pub requests: u64,
    pub over: u64,
    /// In flight for longer than the threshold; of those on a disk that is stuck the ones that were so before.
    pub late: u64,
    /// Whole latency; nothing while there is no baseline.
    pub shape: f64,
    pub share: f64,
    pub in_flight: u32,
    pub shape_in_flight: f64,
    pub share_in_flight: f64,
    pub slow_end: SlowEnd,
}

impl Tick {
    /// Adds that of another series, for the node-wide test.
    pub fn add(&mut self, other: &Tick) {
        self.requests += other.requests;
        self.over += other.over;
        self.late += other.late;
        self.shape += other.shape;
        self.share += other.share;
        self.in_flight += other.in_flight;
        self.shape_in_flight += other.shape_in_flight;
        self.share_in_flight += other.share_in_flight;
    }
}

/// The two sums.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tests {
    shape: Accumulator,
    share: Accumulator,
    shape_kinship: Kinship,
    share_kinship: Kinship,
    /// When there last was a request, completed or in flight.
    active_ns: u64,
}

impl Tests {
    pub fn update(&mut self, tick: &Tick, now_ns: u64, tick_s: f64, limits: &Limits) -> Level {
        if tick.requests > 0 || tick.in_flight > 0 {
            self.active_ns = now_ns;
        } else if now_ns.saturating_sub(self.active_ns) > IDLE_NS {
            self.reset();
        }
        let completed = |evidence| (tick.requests > 0).then_some(evidence);
        // Until it is known how much requests have in common the whole latency is no evidence, and slow requests are taken to
        // come in runs.
        let weight = self.shape_kinship.divisor().map_or(0.0, |divisor| 1.0 / divisor);
        let (sum, in_flight) = (weight * tick.shape, weight * tick.shape_in_flight);
        let shape = self.shape.update(completed(sum), in_flight, tick_s, limits);
        let weight = 1.0 / self.share_kinship.divisor().unwrap_or(KINSHIP_ASSUMED);
        let (sum, in_flight) = (weight * tick.share, weight * tick.share_in_flight);
        let share = self.share.update(completed(sum), in_flight, tick_s, limits);
        shape.max(share)
    }

    /// Learns how much requests have in common: also from evidence that nobody had to act upon, or else it would never
    /// learn why that is so frequent.
    pub fn learn(&mut self, tick: &Tick, now_ns: u64, tick_s: f64, lesson: Lesson) {
        let lesson = lesson.of(self.dependence().is_some(), self.level());
        match !matches!(lesson, Lesson::Acting | Lesson::Deaf) {
            true => {
                // Silence says nothing about how much requests have in common.
                let tick_s = if now_ns.saturating_sub(self.active_ns) > IDLE_NS { 0.0 } else { tick_s };
                self.shape_kinship.collect(tick.shape, tick.shape_in_flight, tick_s);
                self.share_kinship.collect(tick.share, tick.share_in_flight, tick_s);
            }
            false => {
                self.shape_kinship.spoil();
                self.share_kinship.spoil();
            }
        }
    }

    /// Forgets the evidence.
    pub fn reset(&mut self) {
        self.shape.reset();
        self.share.reset();
    }

    /// How much requests have in common, once that is known.
    pub fn dependence(&self) -> Option<f64> {
        Some(self.shape_kinship.ratio()?.max(self.share_kinship.ratio()?))
    }

    pub fn level(&self) -> Level {
        self.shape.level().max(self.share.level())
    }

    /// The larger evidence.
    pub fn value(&self) -> f64 {
        self.shape.value().max(self.share.value())
    }
}

/// What is usual, and what a latency is worth as evidence then.
#[derive(Clone, Debug)]
struct Learned {
    baseline: Baseline,
    evidence: Evidence,
}

/// The detector.
#[derive(Clone, Debug)]
pub struct SeriesDetector {
    threshold_ns: u64,
    floor_ns: u64,
    stuck_after_ns: u64,
    allowed: f64,
    share: ShareEvidence,
    first_over: usize,
    probes: bool,
    /// `None` = there never was a request: so it stays for many series, and the tables take six kilobytes.
    learned: Option<Box<Learned>>,
    tests: Tests,
    tick: Tick,
    /// `late` of the tick before, and whether a request is stuck in this one.
    late_before: u64,
    stuck: bool,
}

impl Learned {
    fn new(probes: bool) -> Self {
        let baseline = if probes { Baseline::of_probes() } else { Baseline::default() };
        Learned { baseline, evidence: Evidence::default() }
    }
}

impl SeriesDetector {
    /// A detector that knows nothing yet.
    pub fn new(objective: &Objective) -> SeriesDetector {
        SeriesDetector {
            threshold_ns: objective.threshold_ns,
            floor_ns: objective.floor_ns,
            stuck_after_ns: objective.stuck_after_ns,
            allowed: objective.share,
            share: ShareEvidence::new(objective.share),
            // A bucket is over the threshold when most of it is.
            first_over: (0..BUCKETS).find(|&b| bucket_middle(b) > objective.threshold_ns).unwrap_or(BUCKETS),
            probes: objective.class == Class::Probe,
            learned: None,
            tests: Tests::default(),
            tick: Tick::default(),
            late_before: 0,
            stuck: false,
        }
    }

    /// Starts a tick.
    pub fn begin(&mut self) {
        (self.late_before, self.stuck) = (self.tick.late, false);
        self.tick = Tick::default();
    }

    /// Requests that completed.
    pub fn completed(&mut self, delta: &SeriesDelta<'_>, arrivals: Arrivals<'_>) {
        self.add(0, delta.under, arrivals);
        for &(bucket, requests) in delta.buckets {
            self.add(bucket, requests, arrivals);
        }
        self.add(BUCKETS - 1, delta.over, arrivals);
    }

    fn add(&mut self, bucket: usize, requests: u32, arrivals: Arrivals<'_>) {
        if requests == 0 {
            return;
        }
        let probes = self.probes;
        let Learned { baseline, evidence } = &mut **self.learned.get_or_insert_with(|| Box::new(Learned::new(probes)));
        let class = arrivals.class(bucket);
        let over = bucket >= self.first_over;
        let count = f64::from(requests);
        self.tick.requests += u64::from(requests);
        self.tick.share += count * if over { self.share.over } else { self.share.within };
        if over {
            self.tick.over += u64::from(requests);
            baseline.collect_over(u64::from(requests));
        }
        if baseline.ready() {
            self.tick.shape += count * f64::from(evidence.completed(bucket, class));
        }
        let mut slow_end = baseline.slow_end(bucket, requests);
        if over {
            // Also before it is known what is usual.
            slow_end.slow = slow_end.requests;
        }
        self.tick.slow_end.add(slow_end);
        baseline.collect(bucket, class, requests);
    }

    /// A request in flight, and the depth class that it found. One that is stuck is judged as that and not here: a dead disk
    /// would look like evidence for ever.
    pub fn in_flight(&mut self, age_ns: u64, class: usize) {
        self.tick.in_flight += 1;
        // As it will be judged when it ends.
        if age_ns >= bucket_lower(self.first_over) {
            self.tick.late += 1;
        }
        if age_ns > self.stuck_after_ns {
            self.stuck = true;
            return;
        }
        if let Some(learned) = self.learned.as_ref().filter(|learned| learned.baseline.ready()) {
            self.tick.shape_in_flight += learned.evidence.in_flight(age_ns, class);
        }
        if age_ns > self.threshold_ns {
            self.tick.share_in_flight += self.share.over;
        }
    }

    /// Ends a tick: the level.
    pub fn finish(&mut self, now_ns: u64, tick_s: f64, limits: &Limits) -> Level {
        if self.stuck {
            // Requests that join those that are stuck count when they end: a dead disk must not close a node for ever.
            self.tick.late = self.tick.late.min(self.late_before);
        }
        self.tests.update(&self.tick, now_ns, tick_s, limits)
    }

    /// Learns, or throws away what could have been learned. `may_rebuild` = there is time to make new tables in this tick;
    /// returns whether it did.
    pub(crate) fn learn(&mut self, now_ns: u64, tick_s: f64, lesson: Lesson, may_rebuild: bool) -> bool {
        if self.ready() {
            self.tests.learn(&self.tick, now_ns, tick_s, lesson);
        }
        let lesson = lesson.of(self.ready(), self.level());
        let Some(Learned { baseline, evidence }) = self.learned.as_deref_mut() else { return false };
        if matches!(lesson, Lesson::Acting | Lesson::Uneasy | Lesson::Deaf) {
            baseline.spoil(now_ns);
            return false;
        }
        let rebuilt = may_rebuild && baseline.ripe(now_ns);
        if rebuilt && baseline.merge(now_ns, self.allowed, lesson == Lesson::Changed) {
            evidence.learn(baseline.shares(), baseline.usual(), self.floor_ns, self.threshold_ns);
            baseline.find_slow_end(first_above(self.floor_ns));
        }
        rebuilt
    }

    /// Has there been a request?
    pub(crate) fn begun(&self) -> bool {
        self.learned.is_some()
    }

    /// Does it know what is usual?
    pub fn ready(&self) -> bool {
        self.learned.as_ref().is_some_and(|learned| learned.baseline.ready())
    }

    /// Forgets the evidence, not the baseline.
    pub fn reset(&mut self) {
        self.tests.reset();
        self.tick = Tick::default();
    }

    /// How much requests share their fate. `None` = it does not judge the whole latency yet, only the share over the threshold.
    pub fn dependence(&self) -> Option<f64> {
        self.tests.dependence().filter(|_| self.ready())
    }

    /// Evidence (nats).
    pub fn value(&self) -> f64 {
        self.tests.value()
    }

    /// Level reached.
    pub fn level(&self) -> Level {
        self.tests.level()
    }

    /// Of the requests of this tick those in their slow end, and those usually there: as many as if they did not share their fate.
    pub(crate) fn slow_end(&self) -> SlowEnd {
        let alike = self.dependence().map_or(KINSHIP_ASSUMED, |known| known.min(MOST)) as f32;
        let SlowEnd { found, usual, .. } = self.tick.slow_end;
        SlowEnd { found: found / alike, usual: usual / alike, ..self.tick.slow_end }
    }

    pub(crate) fn tick(&self) -> &Tick {
        &self.tick
    }
}

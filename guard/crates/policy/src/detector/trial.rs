// SPDX-License-Identifier: Apache-2.0
//! Trials of the detector on made-up requests: open loop, random arrivals, latencies of a known distribution. The numbers
//! in [`super::stated()`] and the table of the example `detector_table` come from here. Deterministic: same seed, same run.

use crate::config::TICK_NS;
use crate::evaluator::{Evaluator, Signal};
use crate::objective::{Level, Objective};
use intf::segment::layout::{bucket_of, Class, Kind, Op, SeriesId};
use intf::segment::{Filesystem, InFlight, SeriesDelta, Visitor};

/// Nanoseconds of a second.
pub const SECOND: u64 = 1_000_000_000;
const MS: f64 = 1e6;

/// SplitMix64: small, good enough for this, and the same everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A sequence.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In 0 < x < 1.
    pub fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Exponentially distributed.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.uniform().ln()
    }

    /// Standard normal.
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// How healthy requests behave.
#[derive(Clone, Copy, Debug)]
pub struct Health {
    /// Median latency.
    pub median_ms: f64,
    /// Width: standard deviation of the logarithm.
    pub sigma: f64,
    /// Share of requests that are several times slower (a factor with this mean of its logarithm above zero).
    pub tail_share: f64,
    /// See `tail_share`.
    pub tail_log: f64,
    /// Seconds between stalls in which everything waits; infinite = none.
    pub stall_every_s: f64,
    /// Mean length of a stall.
    pub stall_ms: f64,
    /// Requests are served one after the other, in `median_ms` each: latencies come in runs.
    pub queue: bool,
}

impl Health {
    /// Median 8 ms, 99th percentile 17 ms, as in the design.
    pub const LOG_NORMAL: Health = Health {
        median_ms: 8.0,
        sigma: 0.324,
        tail_share: 0.0,
        tail_log: 0.0,
        stall_every_s: f64::INFINITY,
        stall_ms: 0.0,
        queue: false,
    };
    /// Wider, and one request in fifty slower by a factor of 2.7 in the mean of the logarithm: no distribution that the
    /// slowdowns are looked for in.
    pub const HEAVY_TAIL: Health = Health { sigma: 0.5, tail_share: 0.02, tail_log: 1.0, ..Health::LOG_NORMAL };
    /// The first, and every 20 seconds a stall of 20 ms in the mean that all requests of its time share.
    pub const STALLS: Health = Health { stall_every_s: 20.0, stall_ms: 20.0, ..Health::LOG_NORMAL };
    /// One disk that serves one request after the other, busy for seven tenths of the time at 84 requests/s.
    pub const QUEUE: Health = Health { queue: true, median_ms: 8.0, sigma: 0.25, ..Health::LOG_NORMAL };
}

#[derive(Clone, Copy, Debug)]
struct Request {
    start_ns: u64,
    end_ns: u64,
    filesystem: u16,
}

/// What completed in one series in a tick.
#[derive(Clone, Debug)]
pub struct Completed {
    operations: u64,
    under: u32,
    over: u32,
    buckets: Vec<(usize, u32)>,
}

impl Completed {
    /// Nothing did.
    pub const NOTHING: Completed = Completed { operations: 0, under: 0, over: 0, buckets: Vec::new() };

    /// A request of this latency.
    pub fn add(&mut self, latency_ns: u64) {
        self.operations += 1;
        match bucket_of(latency_ns) {
            Some(bucket) => match self.buckets.binary_search_by_key(&bucket, |(known, _)| *known) {
                Ok(place) => self.buckets[place].1 += 1,
                Err(place) => self.buckets.insert(place, (bucket, 1)),
            },
            None if latency_ns < 512 => self.under += 1,
            None => self.over += 1,
        }
    }

    /// As the reader of the segment reports it; `None` = there was none.
    pub fn delta(&self, series: SeriesId) -> Option<SeriesDelta<'_>> {
        let Completed { operations, under, over, buckets } = self;
        let (operations, under, over) = (*operations, *under, *over);
        let delta = SeriesDelta { series, operations, bytes: 0, sum_ns: 0, errors: 0, max_ns: 0, under, over, buckets };
        (operations > 0).then_some(delta)
    }
}

/// Storage under load, and the evaluator that watches it.
#[derive(Clone)]
pub struct Trial {
    health: Health,
    rate: f64,
    tick_ns: u64,
    random: Random,
    now_ns: u64,
    next_arrival_ns: u64,
    next_stall_ns: u64,
    /// When the disk is free again, if it serves one request after the other.
    free_ns: u64,
    requests: Vec<Request>,
    completed: u64,
    slowdown: f64,
    /// What watches.
    pub evaluator: Evaluator,
    /// By filesystem.
    counts: Vec<Completed>,
    spread: bool,
    kind: Kind,
}

/// The objective of the trials: the default one for reads, with these levels and this floor.
pub fn objective(weak: f64, strong: f64, floor_ns: u64) -> Objective {
    Objective {
        name: "trial".into(),
        op: Op::Read,
        class: Class::Storage,
        filesystem: "*".into(),
        threshold_ns: 100_000_000,
        share: 0.01,
        floor_ns,
        weak,
        strong,
        dwell_ns: 2 * SECOND,
        stuck_after_ns: 800_000_000,
        grace_ns: 2 * SECOND,
        budget_window_ns: Some(6 * 3600 * SECOND),
    }
}

/// The same for probes.
pub fn probe_objective(weak: f64, strong: f64, floor_ns: u64) -> Objective {
    Objective { class: Class::Probe, ..objective(weak, strong, floor_ns) }
}

impl Trial {
    /// `rate` requests per second, all of them for one of `filesystems` that are watched as the shipped configuration says.
    pub fn new(health: Health, rate: f64, objective: &Objective, filesystems: usize, seed: u64) -> Trial {
        let mut evaluator = Evaluator::new(std::slice::from_ref(objective));
        let filesystem = |i| Filesystem {
            path: format!("/data/{i:02}"),
            major: 8,
            minor: i as u32,
            open_readers: 0,
            open_writers: 0,
            overloaded: false,
        };
        evaluator.restart(&(0..filesystems).map(filesystem).collect::<Vec<_>>());
        let mut trial = Trial {
            health,
            rate,
            tick_ns: TICK_NS,
            random: Random::new(seed),
            now_ns: SECOND,
            next_arrival_ns: SECOND,
            next_stall_ns: 0,
            free_ns: 0,
            requests: Vec::new(),
            completed: 0,
            slowdown: 1.0,
            evaluator,
            counts: vec![Completed::NOTHING; filesystems],
            spread: false,
            kind: Kind::of(objective.op, objective.class).unwrap_or(Kind::STORAGE_READ),
        };
        trial.next_stall_ns = trial.after(health.stall_every_s);
        trial
    }

    /// They are watched with this period.
    pub fn every(self, tick_ns: u64) -> Trial {
        Trial { tick_ns, ..self }
    }

    /// The requests are for all filesystems alike.
    pub fn spread(self) -> Trial {
        Trial { spread: true, ..self }
    }

    fn after(&mut self, mean_s: f64) -> u64 {
        self.now_ns.saturating_add((self.random.exponential(mean_s) * 1e9) as u64)
    }

    /// To the next request. Probes come by the clock, nearly.
    fn gap_ns(&mut self) -> u64 {
        let seconds = match self.kind {
            Kind::PROBE_READ => (0.75 + 0.5 * self.random.uniform()) / self.rate,
            _ => self.random.exponential(1.0 / self.rate),
        };
        (seconds * 1e9) as u64 + 1
    }

    fn latency_ns(&mut self) -> u64 {
        let h = self.health;
        let mut log = h.sigma * self.random.normal();
        if h.tail_share > 0.0 && self.random.uniform() < h.tail_share {
            log += self.random.exponential(h.tail_log);
        }
        (h.median_ms * MS * log.exp() * self.slowdown) as u64
    }

    /// Requests completed so far.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Time of the last tick.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Another sequence of random numbers from here on.
    pub fn reseed(&mut self, seed: u64) {
        self.random = Random::new(seed);
    }

    /// Requests that start from now on take so many times as long. Returns the start of the first of them.
    pub fn slow_down(&mut self, factor: f64) -> u64 {
        self.slowdown = factor;
        self.next_arrival_ns
    }

    /// A random part of a tick passes without one, so that ticks and steps have no fixed distance.
    pub fn shift_phase(&mut self) {
        self.now_ns += (self.random.uniform() * self.tick_ns as f64) as u64;
    }

    /// One tick; the level after it.
    pub fn tick(&mut self) -> Level {
        self.now_ns += self.evaluator.next_tick_ns(self.tick_ns);
        while self.next_arrival_ns <= self.now_ns {
            let start_ns = self.next_arrival_ns;
            let from_ns = if self.health.queue { self.free_ns.max(start_ns) } else { start_ns };
            let end_ns = from_ns + self.latency_ns();
            self.free_ns = end_ns;
            let filesystem = if self.spread { (self.random.uniform() * self.counts.len() as f64) as u16 } else { 0 };
            self.requests.push(Request { start_ns, end_ns, filesystem });
            self.next_arrival_ns += self.gap_ns();
        }
        if self.next_stall_ns <= self.now_ns {
            // Everything that is in flight waits for the end of the stall.
            let length = (self.random.exponential(self.health.stall_ms) * MS) as u64;
            self.requests.iter_mut().for_each(|r| r.end_ns += length);
            self.next_stall_ns = self.after(self.health.stall_every_s);
        }
        self.evaluator.begin(self.now_ns);
        self.evaluator.probed(Signal::Heard { heartbeat_age_ns: 0 });
        self.report();
        self.evaluator.finish(self.now_ns, Signal::Heard { heartbeat_age_ns: 0 }, false);
        self.evaluator.verdicts().first().map_or(Level::Calm, |v| v.level)
    }

    fn report(&mut self) {
        let (now_ns, kind) = (self.now_ns, self.kind);
        let counts = &mut self.counts;
        self.requests.retain(|r| {
            if r.end_ns > now_ns {
                return true;
            }
            counts[usize::from(r.filesystem)].add(r.end_ns - r.start_ns);
            false
        });
        for (filesystem, found) in (0..).zip(&mut self.counts) {
            let Some(delta) = found.delta(SeriesId { filesystem, kind }) else { continue };
            self.completed += delta.operations;
            self.evaluator.series(&delta);
            *found = Completed::NOTHING;
        }
        for request in self.requests.iter().filter(|r| r.start_ns <= now_ns) {
            let age_ns = now_ns - request.start_ns;
            let series = SeriesId { filesystem: request.filesystem, kind };
            self.evaluator.in_flight(&InFlight { series, age_ns, tid: 1, bytes: 0, client: None });
        }
    }

    /// Ticks until so many requests have completed. Returns how often the weak and the strong level were reached.
    pub fn run(&mut self, requests: u64) -> (u64, u64) {
        let end = self.completed + requests;
        let (mut weak, mut strong) = (0, 0);
        let mut before = Level::Calm;
        // An excursion counts once, at the highest level that it reaches.
        let mut highest = Level::Calm;
        while self.completed < end {
            let level = self.tick();
            if before == Level::Calm && level > Level::Calm {
                weak += 1;
            }
            if level == Level::Strong && highest < Level::Strong {
                strong += 1;
            }
            highest = if level == Level::Calm { Level::Calm } else { highest.max(level) };
            before = level;
        }
        (weak, strong)
    }

    /// Milliseconds from the first slow request to the level, in each of `runs` runs that start from here, sorted. A run
    /// that takes longer than 20 s counts as 20 s; one that is alarmed before the step is repeated.
    pub fn delays(&self, factor: f64, level: Level, runs: u64) -> Vec<f64> {
        let mut delays = Vec::new();
        let mut seed = 0;
        while (delays.len() as u64) < runs {
            seed += 1;
            let mut trial = self.clone();
            trial.reseed(0x5eed_0000 + seed);
            trial.shift_phase();
            let healthy = 10 + seed % 40;
            if (0..healthy).any(|_| trial.tick() > Level::Calm) {
                continue;
            }
            let step_ns = trial.slow_down(factor);
            while trial.tick() < level && trial.now_ns < step_ns + 20 * SECOND {}
            delays.push(trial.now_ns.saturating_sub(step_ns) as f64 / MS);
        }
        delays.sort_by(f64::total_cmp);
        delays
    }
}

/// The value below which a share of the sorted values lies.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get(((last as f64 * share).round() as usize).min(last)).copied().unwrap_or(f64::NAN)
}

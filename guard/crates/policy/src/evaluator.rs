// SPDX-License-Identifier: Apache-2.0
//! Combines the detectors of all series into one verdict per objective.

mod pool;
mod slack;

use crate::detector::{Depths, SlowEnd};
use crate::event::{Measure, Names};
use crate::objective::{Level, Objective, SignalState, Verdict};
use intf::segment::{Class, Filesystem, InFlight, SeriesDelta, Visitor};
use pool::Pool;

pub(crate) use slack::Slack;

/// Did the storage daemon give a sign of life?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The segment could be read; this is the age of its heartbeat.
    Heard {
        /// Age in nanoseconds.
        heartbeat_age_ns: u64,
    },
    /// No segment.
    Missing,
}

/// What is in flight on a filesystem.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FilesystemLoad {
    /// Age of the oldest request that an objective judges.
    pub oldest_ns: u64,
    /// The age of some request exceeds `stuck_after` of its objective.
    pub stuck: bool,
    /// The objective of the oldest request, or of the stuck one.
    pub objective: u16,
    /// Its limit.
    pub stuck_after_ns: u64,
    /// Storage requests in flight.
    pub storage_in_flight: u32,
    /// Batch requests in flight.
    pub batch_in_flight: u32,
    /// Storage requests that completed in this tick, those of them in their slow end, and those usually there.
    pub slow_end: SlowEnd,
}

/// Detectors of all objectives and series. A [`Visitor`] of the latency segment.
#[derive(Clone)]
pub struct Evaluator {
    objectives: Vec<Objective>,
    names: Names,
    pools: Vec<Pool>,
    verdicts: Vec<Verdict>,
    filesystems: Vec<FilesystemLoad>,
    depths: Depths,
    /// Does beer-probe give a sign of life? Probes are judged by this, and by nothing that the storage daemon says.
    probe: Signal,
    now_ns: u64,
    tick_s: f64,
    /// Some storage request ended in this tick, or is in flight.
    users: bool,
    /// For how long there has been none.
    silent_s: f64,
    /// Detectors get the time for new tables in turn.
    turn: usize,
}

/// Shares of the evidence for the next level: from the first on ticks come sooner, from the second on as soon as they can. Beside 40 ms,
/// and 10 at once from half of the evidence on, these are an eighth fewer ticks of healthy storage; in trials of the detector a step of
/// three times is found 2 ms later in the median and no later at the 99th percentile (benchmarks/runs/2026-11-29-2-core).
const SUSPENSE: (f64, f64) = (0.15, 0.65);
/// From one tick to the next then. Half of that would find no step much sooner, and more that is none.
const HURRIED_NS: u64 = 10_000_000;
/// Tables that are made anew in one tick at most (some 10 us each).
const REBUILDS: usize = 4;
/// Without any storage request for so long the users have left. One slow request at a time breaks a promise as long as
/// they come every 24 s (60 s * ln(3/2), see the pool's measure): those are users.
const LEFT_S: f64 = 25.0;

impl Evaluator {
    /// An evaluator that has not seen a segment yet.
    pub fn new(objectives: &[Objective]) -> Evaluator {
        let pools: Vec<Pool> = (0..).zip(objectives).map(|(i, o)| Pool::new(i, o)).collect();
        Evaluator {
            objectives: objectives.to_vec(),
            names: Names::new(objectives, &[]),
            verdicts: pools.iter().map(Pool::unheard).collect(),
            pools,
            filesystems: Vec::new(),
            depths: Depths::new(0),
            probe: Signal::Missing,
            now_ns: 0,
            tick_s: 0.0,
            users: false,
            silent_s: 0.0,
            turn: 0,
        }
    }

    /// Starts a tick; before the segment is polled.
    pub fn begin(&mut self, now_ns: u64) {
        self.tick_s = match self.now_ns {
            0 => 0.0,
            before => now_ns.saturating_sub(before) as f64 / 1e9,
        };
        self.now_ns = now_ns;
        self.users = false;
        self.filesystems.fill(FilesystemLoad::default());
        self.pools.iter_mut().for_each(Pool::begin);
    }

    /// Does beer-probe live? Said again at every tick that it is looked at.
    pub fn probed(&mut self, signal: Signal) {
        self.probe = signal;
    }

    /// Ends a tick; `acting` = batch is held back at present (who knows what is usual learns nothing then). The verdicts
    /// are ready after it.
    pub fn finish(&mut self, now_ns: u64, signal: Signal, acting: bool) {
        self.depths.end(now_ns, self.filesystems.iter().map(|load| load.storage_in_flight));
        let mut rebuilds = REBUILDS;
        let first = self.turn;
        let count = self.pools.len().max(1);
        self.turn = (first + 1) % count;
        for i in 0..self.pools.len() {
            let pool = (first + i) % count;
            let signal = if self.pools[pool].of_probes() { self.probe } else { signal };
            self.verdicts[pool] = self.pools[pool].finish(now_ns, self.tick_s, signal, acting, &mut rebuilds);
        }
        for pool in self.pools.iter().filter(|pool| pool.of_storage()) {
            pool.slow_ends(&mut self.filesystems);
        }
        self.forgive_when_silent(signal);
        let pools = &self.pools;
        for (index, load) in self.filesystems.iter().enumerate().filter(|(_, load)| load.stuck) {
            for (pool, verdict) in pools.iter().zip(&mut self.verdicts) {
                verdict.stuck |= pool.judges_filesystem(index) && load.objective == verdict.objective;
            }
        }
    }

    /// Who does not hear does not know that the users have left.
    fn forgive_when_silent(&mut self, signal: Signal) {
        let heard = matches!(signal, Signal::Heard { .. });
        let fresh = |verdict: &Verdict| matches!(verdict.signal, SignalState::Fresh | SignalState::Absent);
        let heard = heard && self.verdicts.iter().all(fresh);
        self.silent_s = if heard && !self.users { self.silent_s + self.tick_s } else { 0.0 };
        if self.silent_s >= LEFT_S {
            self.pools.iter_mut().for_each(Pool::forgive);
        }
    }

    /// On these filesystems (bit by index) batch is known to be innocent of what breaks this objective: they are judged apart, so
    /// that they do not hide what happens on others.
    pub fn excuse(&mut self, objective: u16, filesystems: u128) {
        if let Some(pool) = self.pools.get_mut(usize::from(objective)) {
            pool.excuse(filesystems);
        }
    }

    /// Other objectives. What was learned for one that stays the same is kept. Allocates: for a change of the configuration.
    pub fn reconfigure(&mut self, objectives: &[Objective], filesystems: &[Filesystem]) {
        let mut old: Vec<Option<Pool>> = std::mem::take(&mut self.pools).into_iter().map(Some).collect();
        for (index, objective) in (0..).zip(objectives) {
            let same = self.objectives.iter().position(|known| known == objective);
            let pool = match same.and_then(|same| old.get_mut(same)?.take()) {
                Some(pool) => pool.renumbered(index),
                None => {
                    let mut pool = Pool::new(index, objective);
                    pool.restart(filesystems, &[]);
                    pool
                }
            };
            self.pools.push(pool);
        }
        self.put_in_order();
        self.verdicts = self.pools.iter().map(Pool::unheard).collect();
        self.objectives = objectives.to_vec();
        self.names = Names::new(objectives, filesystems);
        // In-flight loads name objectives by index.
        self.filesystems.fill(FilesystemLoad::default());
        self.turn = 0;
    }

    fn put_in_order(&mut self) {
        for place in 0..self.pools.len() {
            let (before, after) = self.pools.split_at_mut(place);
            if let Some(pool) = after.first_mut() {
                pool.after(before);
            }
        }
    }

    /// One verdict per objective, in the order of the configuration.
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    /// When the next tick is due, if they are to come every `tick_ns`: the sooner the nearer a decision may be.
    pub fn next_tick_ns(&self, tick_ns: u64) -> u64 {
        let near = |verdict: &Verdict| {
            let Measure { value, limit, .. } = verdict.measure;
            if verdict.level < Level::Strong && value > 0.0 {
                value / limit
            } else {
                0.0
            }
        };
        let nearest = self.verdicts.iter().map(near).fold(0.0, f64::max);
        let patience = ((SUSPENSE.1 - nearest) / (SUSPENSE.1 - SUSPENSE.0)).clamp(0.0, 1.0);
        let least = tick_ns.min(HURRIED_NS);
        least + ((tick_ns - least) as f64 * patience) as u64
    }

    /// One entry per filesystem of the segment.
    pub fn filesystems(&self) -> &[FilesystemLoad] {
        &self.filesystems
    }

    /// Names behind the indices; changes when the segment restarts.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The objectives.
    pub fn objectives(&self) -> &[Objective] {
        &self.objectives
    }
}

impl Visitor for Evaluator {
    fn restart(&mut self, filesystems: &[Filesystem]) {
        for pool in &mut self.pools {
            pool.restart(filesystems, &self.names.filesystems);
        }
        self.put_in_order();
        self.names = Names::new(&self.objectives, filesystems);
        self.filesystems = vec![FilesystemLoad::default(); filesystems.len()];
        self.depths = Depths::new(filesystems.len());
    }

    fn series(&mut self, delta: &SeriesDelta<'_>) {
        self.users |= delta.series.kind.class() == Class::Storage;
        let Some(arrivals) = self.depths.of(usize::from(delta.series.filesystem)) else { return };
        for pool in &mut self.pools {
            if let Some(detector) = pool.detector(delta.series) {
                detector.completed(delta, arrivals);
            }
        }
    }

    fn in_flight(&mut self, request: &InFlight) {
        let filesystem = usize::from(request.series.filesystem);
        let Some(load) = self.filesystems.get_mut(filesystem) else { return };
        let class = self.depths.at_arrival(filesystem, self.now_ns, request.age_ns);
        match request.series.kind.class() {
            Class::Storage => {
                load.storage_in_flight += 1;
                self.users = true;
            }
            Class::Batch => load.batch_in_flight += 1,
            // Nobody waits for these.
            Class::Internal | Class::Probe => {}
        }
        for (pool, objective) in (0..).zip(&mut self.pools).map(|(i, p)| (p, i)) {
            let stuck_after_ns = pool.stuck_after_ns();
            let Some(detector) = pool.detector(request.series) else { continue };
            detector.in_flight(request.age_ns, class);
            let stuck = request.age_ns > stuck_after_ns;
            // The oldest stuck request, or if none is stuck the oldest.
            if (stuck, request.age_ns) > (load.stuck, load.oldest_ns) {
                *load = FilesystemLoad { oldest_ns: request.age_ns, stuck, objective, stuck_after_ns, ..*load };
            }
        }
    }
}

#[cfg(test)]
mod tests;

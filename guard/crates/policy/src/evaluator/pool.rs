// SPDX-License-Identifier: Apache-2.0
//! The detectors of one objective: one per series that it judges, and one for all of them together (a node whose every
//! disk becomes a little slower shows it there first).

use super::{FilesystemLoad, Signal, Slack};
use crate::bits::each;
use crate::detector::{Lesson, Limits, SeriesDetector, Tests, Tick};
use crate::error_budget::{Ended, ErrorBudget};
use crate::event::{Measure, Unit};
use crate::objective::{Level, Objective, SignalState, Verdict};
use intf::segment::{Class, Filesystem, Kind, SeriesId};

/// Evidence for so long without action means that what is usual has changed.
const CHANGED_NS: u64 = 60_000_000_000;
/// Time constant of the rate.
const RATE_S: f64 = 10.0;
/// Detectors that had nothing to judge learn that at every so manieth tick, in turn: each lies apart in memory, and to look at
/// all of 96 disks costs more than all else of a tick.
const TURNS: usize = 16;

#[derive(Clone)]
pub(super) struct Pool {
    index: u16,
    objective: Objective,
    kind: Option<Kind>,
    /// By filesystem.
    detectors: Vec<Option<SeriesDetector>>,
    /// How many there are, and which; and which of them have had a request: to look at the others is for nothing.
    judged: usize,
    all: u128,
    begun: u128,
    /// Filesystems with something to judge in this tick, bit by index; and those whose detector still has evidence of an
    /// earlier one. Of 96 disks most are neither: they are not judged.
    touched: u128,
    awake: u128,
    /// Filesystems that are judged apart.
    excused: u128,
    /// Filesystems whose slow end another pool tells: promises may overlap.
    told: u128,
    together: Tests,
    /// Most of the last requests were for filesystems that know what is usual: before that the evidence of all of them
    /// says nothing about how much requests have in common.
    informed: bool,
    limits: Limits,
    /// When there last was a signal; `None` = never.
    heard_ns: Option<u64>,
    slack: Slack,
    /// Begins with the first tick.
    budget: Option<ErrorBudget>,
    rate: f64,
    /// Since when there has been evidence without action.
    uneasy_since_ns: Option<u64>,
    /// Whose turn it is to learn that there was nothing.
    turn: usize,
    /// When each detector learned last, and then knew how much requests share their fate (NaN = it does not).
    learned_ns: Vec<u64>,
    dependences: Vec<f64>,
    /// The last tick: when it was, and what could be learned from it.
    last: (u64, Lesson),
}

impl Pool {
    pub fn new(index: u16, objective: &Objective) -> Pool {
        Pool {
            index,
            objective: objective.clone(),
            kind: Kind::of(objective.op, objective.class),
            detectors: Vec::new(),
            judged: 0,
            all: 0,
            begun: 0,
            touched: 0,
            awake: 0,
            excused: 0,
            told: 0,
            together: Tests::default(),
            informed: false,
            limits: Limits::of_many(objective.weak, objective.strong, 1),
            heard_ns: None,
            slack: Slack::default(),
            budget: None,
            rate: 0.0,
            uneasy_since_ns: None,
            turn: 0,
            learned_ns: Vec::new(),
            dependences: Vec::new(),
            last: (0, Lesson::Deaf),
        }
    }

    /// The same at another place in the configuration.
    pub fn renumbered(self, index: u16) -> Pool {
        Pool { index, ..self }
    }

    /// The verdict before there was anything to judge.
    pub fn unheard(&self) -> Verdict {
        Verdict { objective: self.index, slack: 1.0, dwell_ns: self.objective.dwell_ns, ..Verdict::default() }
    }

    /// Another segment. What was learned about a filesystem stays with its path.
    pub fn restart(&mut self, filesystems: &[Filesystem], before: &[String]) {
        let mut old = std::mem::take(&mut self.detectors);
        for filesystem in filesystems {
            let known = before.iter().position(|path| *path == filesystem.path);
            let detector = known.and_then(|i| old.get_mut(i)).and_then(Option::take);
            let judged = self.kind.is_some() && matches(&self.objective.filesystem, &filesystem.path);
            let detector = judged.then(|| detector.unwrap_or_else(|| SeriesDetector::new(&self.objective)));
            self.detectors.push(detector);
        }
        self.judged = self.detectors.iter().flatten().count();
        self.learned_ns = vec![self.last.0; filesystems.len()];
        let dependence = |detector: &Option<SeriesDetector>| detector.as_ref()?.dependence();
        self.dependences = self.detectors.iter().map(|d| dependence(d).unwrap_or(f64::NAN)).collect();
        let judged = self.detectors.iter().enumerate().filter(|(_, detector)| detector.is_some());
        self.all = judged.fold(0, |all, (index, _)| all | (1 << index));
        let begun = |detector: &Option<SeriesDetector>| detector.as_ref().is_some_and(SeriesDetector::begun);
        let begun = self.detectors.iter().enumerate().filter(|(_, detector)| begun(detector));
        self.begun = begun.fold(0, |all, (index, _)| all | (1 << index));
        // False alarms are stated per request, and a request is judged with its filesystem and with all of them, however
        // many there are.
        let tests = if self.judged > 1 { 2 } else { 1 };
        self.limits = Limits::of_many(self.objective.weak, self.objective.strong, tests);
        if let Some(budget) = &mut self.budget {
            budget.restart();
        }
        // Which of them have evidence is known by where they were.
        self.detectors.iter_mut().flatten().for_each(SeriesDetector::reset);
        self.reset();
    }

    /// Forgets all evidence. The others have none: of 96 disks they are nearly all, at every tick in which nothing is heard.
    fn reset(&mut self) {
        for index in each(self.touched | self.awake) {
            if let Some(Some(detector)) = self.detectors.get_mut(index) {
                detector.reset();
            }
        }
        (self.touched, self.awake, self.informed) = (0, 0, false);
        self.together.reset();
    }

    pub fn judges_filesystem(&self, index: usize) -> bool {
        self.detectors.get(index).is_some_and(Option::is_some)
    }

    pub fn of_probes(&self) -> bool {
        self.objective.class == Class::Probe
    }

    pub fn of_storage(&self) -> bool {
        self.objective.class == Class::Storage
    }

    /// These pools come before it.
    pub fn after(&mut self, others: &[Pool]) {
        let same = others.iter().filter(|other| other.kind == self.kind);
        self.told = same.fold(0, |told, other| told | other.all);
    }

    /// Adds what this tick says of the slow end, by filesystem.
    pub fn slow_ends(&self, loads: &mut [FilesystemLoad]) {
        for index in each(self.touched & !self.told) {
            if let (Some(Some(detector)), Some(load)) = (self.detectors.get(index), loads.get_mut(index)) {
                load.slow_end.add(detector.slow_end());
            }
        }
    }

    pub fn stuck_after_ns(&self) -> u64 {
        self.objective.stuck_after_ns
    }

    pub fn detector(&mut self, series: SeriesId) -> Option<&mut SeriesDetector> {
        if self.kind != Some(series.kind) {
            return None;
        }
        let detector = self.detectors.get_mut(usize::from(series.filesystem))?.as_mut()?;
        self.touched |= 1 << series.filesystem;
        Some(detector)
    }

    pub fn excuse(&mut self, filesystems: u128) {
        if self.excused != filesystems {
            self.excused = filesystems;
            // What is known of all of them together is of others.
            self.together.reset();
        }
    }

    pub fn begin(&mut self) {
        for index in each(std::mem::take(&mut self.touched)) {
            if let Some(Some(detector)) = self.detectors.get_mut(index) {
                detector.begin();
            }
        }
    }

    pub fn finish(&mut self, now_ns: u64, tick_s: f64, signal: Signal, acting: bool, rebuilds: &mut usize) -> Verdict {
        let heard = matches!(signal, Signal::Heard { .. });
        let signal = self.signal(now_ns, signal);
        let (mut sum, mut judged) = (Tick::default(), Tick::default());
        let mut excused: Option<(usize, f64, Level)> = None;
        let mut slow = 0;
        let mut worst = self.detectors.iter().position(Option::is_some);
        let mut level = Level::Calm;
        let mut value = 0.0;
        let mut known = 0;
        for index in each(self.touched | self.awake) {
            let Some(Some(detector)) = self.detectors.get_mut(index) else { continue };
            let own = detector.finish(now_ns, tick_s, &self.limits);
            sum.add(detector.tick());
            if detector.ready() {
                known += detector.tick().requests;
            }
            if self.excused & (1 << index) == 0 {
                level = level.max(own);
                judged.add(detector.tick());
                slow |= u128::from(own > Level::Calm) << index;
                if detector.value() > value {
                    (worst, value) = (Some(index), detector.value());
                }
            } else if own > Level::Calm && excused.is_none_or(|(_, most, _)| detector.value() > most) {
                excused = Some((index, detector.value(), own));
            }
            if detector.value() > 0.0 {
                self.awake |= 1 << index;
            } else {
                self.awake &= !(1 << index);
            }
        }
        if sum.requests > 0 {
            self.informed = 2 * known > sum.requests;
        }
        if self.judged > 1 {
            let none_left = self.all & !self.excused == 0;
            let own = self.together.update(if none_left { &sum } else { &judged }, now_ns, tick_s, &self.limits);
            let of_all = self.together.value();
            match (none_left, excused, worst) {
                (true, None, Some(index)) if own > Level::Calm => excused = Some((index, of_all, own)),
                (true, ..) => {}
                (false, ..) => (level, value) = (level.max(own), value.max(of_all)),
            }
        }
        self.measure(&sum, tick_s);
        if heard {
            self.spend(&sum, now_ns);
        }
        if signal != SignalState::Fresh {
            self.reset();
            (level, value, slow, excused) = (Level::Calm, 0.0, 0, None);
        }
        let lesson = match signal {
            SignalState::Fresh => self.lesson(now_ns, excused.map_or(level, |(_, _, own)| level.max(own)), acting),
            _ => Lesson::Deaf,
        };
        self.learn(now_ns, tick_s, &sum, lesson, rebuilds);
        let dependence = self.dependences.iter().copied().filter(|known| !known.is_nan()).reduce(f64::max);
        let limit = |level| if level == Level::Strong { self.limits.strong } else { self.limits.weak };
        let measure = |value, level| Measure { value, limit: limit(level), unit: Unit::Nats };
        let series = |index| Some(SeriesId { filesystem: index as u16, kind: self.kind? });
        Verdict {
            level,
            signal,
            stuck: false,
            slack: self.slack.left(self.objective.share),
            budget_left: self.budget.as_ref().map(ErrorBudget::left),
            burning: self.budget.as_ref().and_then(ErrorBudget::burning),
            slow,
            excused: excused.and_then(|(index, value, own)| Some((series(index)?, measure(value, own)))),
            worst: worst.and_then(series),
            measure: measure(value, level),
            rate: self.rate,
            dependence,
            ..self.unheard()
        }
    }

    fn signal(&mut self, now_ns: u64, signal: Signal) -> SignalState {
        let grace_ns = self.objective.grace_ns;
        let judged = self.judged > 0;
        match signal {
            Signal::Heard { heartbeat_age_ns } if !judged || heartbeat_age_ns > grace_ns => match judged {
                true => SignalState::Stale,
                false => SignalState::Missing,
            },
            Signal::Heard { .. } => {
                self.heard_ns = Some(now_ns);
                SignalState::Fresh
            }
            // A writer that is restarted is away for a moment.
            Signal::Missing => match self.heard_ns {
                Some(heard_ns) if now_ns.saturating_sub(heard_ns) <= grace_ns => SignalState::Fresh,
                None if self.of_probes() => SignalState::Absent,
                _ => SignalState::Missing,
            },
        }
    }

    /// The users have left, and with them the promise they were given.
    pub fn forgive(&mut self) {
        self.slack = Slack::default();
        if let Some(budget) = &mut self.budget {
            budget.rest();
        }
    }

    /// Whatever batch does at the time, and whoever is to blame: users suffer it.
    fn spend(&mut self, sum: &Tick, now_ns: u64) {
        if self.budget.is_none() {
            self.budget = ErrorBudget::new(&self.objective, now_ns);
        }
        if let Some(budget) = &mut self.budget {
            budget.follow(Ended { requests: sum.requests, over: sum.over, late: sum.late }, now_ns);
        }
    }

    /// Keeps the slow measures.
    fn measure(&mut self, sum: &Tick, tick_s: f64) {
        self.slack.add(sum.requests, sum.over, tick_s);
        if tick_s > 0.0 {
            let keep = (-tick_s / RATE_S).exp();
            self.rate = self.rate * keep + (1.0 - keep) * sum.requests as f64 / tick_s;
        }
    }

    /// What may be learned from this tick. Evidence that has been there for long without any action is not batch's doing
    /// (none was there, or it was found innocent): then what is usual has changed, unless the promise itself is broken.
    fn lesson(&mut self, now_ns: u64, level: Level, acting: bool) -> Lesson {
        if acting || level == Level::Calm {
            self.uneasy_since_ns = None;
            return if acting { Lesson::Acting } else { Lesson::Calm };
        }
        let since_ns = *self.uneasy_since_ns.get_or_insert(now_ns);
        let kept = self.slack.kept(self.objective.share);
        match kept && now_ns.saturating_sub(since_ns) >= CHANGED_NS {
            true => Lesson::Changed,
            false => Lesson::Uneasy,
        }
    }

    fn learn(&mut self, now_ns: u64, tick_s: f64, sum: &Tick, lesson: Lesson, rebuilds: &mut usize) {
        if self.informed {
            self.together.learn(sum, now_ns, tick_s, lesson);
        }
        let active = self.touched | self.awake;
        self.begun |= active;
        let (before_ns, before) = std::mem::replace(&mut self.last, (now_ns, lesson));
        if before != lesson {
            // Until now there was another lesson, for those too who have not heard of it yet.
            each(self.begun & !active).for_each(|index| self.learn_one(index, before_ns, before, &mut 0));
        }
        self.turn = (self.turn + 1) % TURNS;
        let turn = (0..128).step_by(TURNS).fold(0, |set, index| set | (1 << (index + self.turn)));
        each(self.begun & (active | turn)).for_each(|index| self.learn_one(index, now_ns, lesson, rebuilds));
    }

    /// What happened since it learned last; `rebuilds` = how many may still make new tables in this tick.
    fn learn_one(&mut self, index: usize, now_ns: u64, lesson: Lesson, rebuilds: &mut usize) {
        let Some(Some(detector)) = self.detectors.get_mut(index) else { return };
        let passed_ns = now_ns.saturating_sub(std::mem::replace(&mut self.learned_ns[index], now_ns));
        if detector.learn(now_ns, passed_ns as f64 / 1e9, lesson, *rebuilds > 0) {
            *rebuilds -= 1;
        }
        self.dependences[index] = detector.dependence().unwrap_or(f64::NAN);
    }
}

/// Does the pattern fit? `*` stands for any characters, also none and also `/`.
fn matches(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == path,
        Some((start, rest)) => match path.strip_prefix(start) {
            None => false,
            Some(_) if rest.is_empty() => true,
            Some(tail) => (0..=tail.len()).filter(|&i| tail.is_char_boundary(i)).any(|i| matches(rest, &tail[i..])),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        for (pattern, path, fits) in [
            ("*", "/data/01", true),
            ("/data/*", "/data/01", true),
            ("/data/*", "/scratch", false),
            ("/data/01", "/data/01", true),
            ("/data/01", "/data/011", false),
            ("*/0*1", "/data/011", true),
            ("*/0*2", "/data/011", false),
            ("/data/**", "/data/", true),
        ] {
            assert_eq!(matches(pattern, path), fits, "{pattern} {path}");
        }
    }
}

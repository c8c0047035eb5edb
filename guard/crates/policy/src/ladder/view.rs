// SPDX-License-Identifier: Apache-2.0
//! What a step sees: the inputs, sorted by what they mean for the ladder.

use std::ops::BitOr;

use super::alone::{Got, Part};
use super::memory::Memory;
use super::{Events, Inputs};
use crate::bits::each;
use crate::evaluator::FilesystemLoad;
use crate::event::{Cause, Deed, Event, Measure, Unit};
use crate::filled::TAKEN;
use crate::gauge::{GaugeState, GaugeVerdict, Then};
use crate::jobs::{Hold, JobSet};
use crate::objective::{Level, SignalState, Verdict};
use crate::squeeze::Resource;
use crate::taker::Taker;
use intf::segment::layout::MAX_FILESYSTEMS;
use intf::segment::SeriesId;

/// Slack that there must be before new jobs are let in again: none left is the limit for closing.
const SLACK_TO_OPEN: f64 = 0.2;

/// A day: evidence that comes by itself more often must be stronger before batch stands still for long.
const DAY_S: f64 = 86_400.0;

/// What batch had in flight when it was frozen is gone after this.
const DRAIN_NS: u64 = 1_000_000_000;

/// What a decision is about.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct About {
    objective: Option<u16>,
    gauge: Option<u16>,
    series: Option<SeriesId>,
    filesystem: Option<u16>,
    measure: Option<Measure>,
    /// Batch uses the device so much that there is little doubt who makes it slow.
    used: bool,
    /// The evidence is so strong that it comes by itself once a day at most, and batch does more there than usually.
    telling: bool,
    /// Who made it so, where that is known.
    pub guilty: Option<JobSet>,
    /// Who takes the memory that is short, if that is why he was chosen.
    taker: Option<Taker>,
}

impl About {
    /// Who has less than `batch_share_guilty` of the device is not to blame for it, unless he is limited there, because little of him
    /// was too much before.
    fn verdict(verdict: &Verdict, memory: &Memory, inputs: &Inputs<'_>) -> About {
        let unusual = verdict.worst.is_some_and(|series| {
            let filesystem = usize::from(series.filesystem);
            inputs.batch_share_now.get(filesystem).is_some_and(|share| memory.habit.is_unusual(filesystem, *share))
        });
        let about = About {
            objective: Some(verdict.objective),
            gauge: None,
            series: verdict.worst,
            filesystem: verdict.worst.map(|s| s.filesystem),
            measure: Some(verdict.measure),
            used: false,
            // Wald's bound (`stated_false_alarms_per_million`): by itself this comes at most once in exp(value) requests.
            telling: unusual && verdict.measure.value >= (verdict.rate * DAY_S).ln(),
            guilty: None,
            taker: None,
        };
        let used = about.if_guilty(inputs, memory.config.batch_share_guilty).is_some();
        let guilty = about.filesystem.and_then(|filesystem| {
            let guilty = (*inputs.guilty.get(usize::from(filesystem))?)?;
            let limited = memory.limits.throttles.of(filesystem).is_some_and(|throttle| throttle.may_be(&guilty));
            Some(guilty).filter(|_| used || limited)
        });
        About { used, guilty, ..about }
    }

    /// Nothing more than that is known.
    pub fn of(objective: u16) -> About {
        About { objective: Some(objective), ..About::default() }
    }

    fn stuck(index: usize, inputs: &Inputs<'_>) -> About {
        let load = &inputs.filesystems[index];
        let seconds = |ns: u64| ns as f64 / 1e9;
        let measure =
            Measure { value: seconds(load.oldest_ns), limit: seconds(load.stuck_after_ns), unit: Unit::Seconds };
        let (objective, filesystem) = (Some(load.objective), Some(index as u16));
        About { objective, filesystem, measure: Some(measure), ..About::default() }
    }

    /// The same with batch's share of the device, if that is so large that there is little doubt who makes it slow.
    fn if_guilty(self, inputs: &Inputs<'_>, limit: f64) -> Option<About> {
        let share = f64::from(*inputs.batch_share_now.get(usize::from(self.filesystem?))?);
        // A comparison with NaN is false: an unknown share accuses nobody.
        let measure = Measure { value: share, limit, unit: Unit::Share };
        (share >= limit).then_some(About { measure: Some(measure), ..self })
    }

    fn gauge(index: usize, verdict: &GaugeVerdict) -> About {
        About { gauge: u16::try_from(index).ok(), measure: Some(verdict.measure), ..About::default() }
    }

    /// How many times as many requests as usual are slow on a filesystem, and how many are too many.
    pub fn slow(filesystem: u16, (times, limit): (f32, f32)) -> About {
        let measure = Measure { value: f64::from(times), limit: f64::from(limit), unit: Unit::Count };
        About { filesystem: Some(filesystem), measure: Some(measure), ..About::default() }
    }

    /// So many requests are slow on a disk that clients fill.
    pub fn filled(filesystem: u16, (slow, limit): (f32, f32)) -> About {
        let measure = Measure { value: f64::from(slow), limit: f64::from(limit), unit: Unit::Share };
        About { filesystem: Some(filesystem), measure: Some(measure), ..About::default() }
    }

    /// It touches this one for his memory.
    pub fn because_of(self, taker: Option<Taker>) -> About {
        About { taker, ..self }
    }

    /// What was measured.
    pub fn value(&self) -> f64 {
        self.measure.map_or(0.0, |measure| measure.value)
    }

    pub fn filesystem(&self) -> Option<u16> {
        self.filesystem
    }

    pub fn describe(&self, event: &mut Event) {
        event.objective = self.objective;
        event.gauge = self.gauge;
        event.series = self.series;
        event.filesystem = self.filesystem;
        event.measure = self.measure;
        event.taker = self.taker;
    }
}

/// Is storage short of something?
#[derive(Clone, Copy, Debug)]
pub(super) enum Short {
    /// It is, by this gauge; and when that was read.
    Now(About, u64),
    /// It was a moment ago, or nobody knows.
    Perhaps,
    /// It is not, by a gauge that was read then.
    Not(u64),
}

/// The inputs, sorted.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub now_ns: u64,
    /// Evidence that calls for a freeze, if batch is there to be frozen.
    pub strong: Option<(Cause, About)>,
    /// Evidence that calls for a precaution.
    pub weak: Option<About>,
    /// Weak evidence on a device that batch uses a lot just now: it says who, and what share of it that is.
    pub guilty: Option<About>,
    /// What speaks against new jobs.
    pub against: Option<(Cause, About)>,
    /// How long there has been no evidence that batch could be guilty of.
    pub calm_for_ns: Option<u64>,
    /// How long nothing has spoken against the open state.
    pub healthy_for_ns: Option<u64>,
    /// The longest dwell time of the objectives.
    pub dwell_ns: u64,
    /// Some objective has no signal; for the reason of a thaw.
    pub deaf: Option<Cause>,
    /// The same for so long that batch is left its least.
    pub blind: Option<(Cause, About)>,
    /// Objectives with evidence, bit by index.
    pub accused: u64,
    /// Filesystems with evidence, bit by index. None while there is some: of all of them together.
    pub slow: u128,
    /// What batch has to do with those.
    pub part: Part,
    /// There is no job on the node.
    pub no_jobs: bool,
    /// Nor does batch of other nodes use it.
    pub nothing_to_hold: bool,
    /// How many jobs there are, where that is known.
    jobs: Option<u32>,
    /// Those that can be told apart.
    pub living: JobSet,
    /// An operator asks for a freeze.
    pub ordered: bool,
    /// Batch is to have less CPU, and it is not yet so.
    pub less_awaited: bool,
    /// An operator gives the node back.
    pub resumed: bool,
    /// A gauge says that jobs must go, one by one: its last value does, and when that was read.
    pub crowded: Option<(About, u64)>,
    /// Who takes the memory that is short, where that gauge is of memory and it is clear.
    pub taker: Option<Taker>,
    /// What storage is short of while batch may have less of it, by place in [`Resource::ALL`]; `None` = nothing is known.
    pub short: [Option<Short>; Resource::ALL.len()],
    /// A gauge says that all of them must.
    pub danger: Option<(Cause, About)>,
    /// The job that began last.
    pub youngest: Option<usize>,
    /// While some jobs stand still: as far as is known those that run use the disk, too.
    pub others_use_it: bool,
    /// A disk that clients fill, and of which batch takes a part; and which jobs do that, if not through the storage
    /// daemons; and that part.
    pub taken: Option<(u16, JobSet, f32)>,
    /// And what those had written who stand still is still on its way there.
    pub held_work: bool,
}

impl View {
    /// Looks at the inputs; brings suspects, innocence and clocks in memory up to date.
    pub fn new(memory: &mut Memory, inputs: &Inputs<'_>, now_ns: u64, events: &mut Events) -> View {
        note_stuck(memory, inputs, now_ns, events);
        let mut view = View {
            now_ns,
            strong: None,
            weak: None,
            guilty: None,
            against: None,
            calm_for_ns: None,
            healthy_for_ns: None,
            dwell_ns: 0,
            deaf: None,
            blind: None,
            accused: 0,
            slow: 0,
            part: Part::default(),
            no_jobs: inputs.jobs == Some(0),
            nothing_to_hold: inputs.jobs == Some(0) && !from_elsewhere(memory, inputs),
            jobs: inputs.jobs,
            living: inputs.living,
            ordered: inputs.ordered,
            less_awaited: inputs.less_awaited,
            resumed: inputs.resumed,
            crowded: None,
            taker: None,
            short: Default::default(),
            danger: None,
            youngest: inputs.oldest_first.last().copied(),
            others_use_it: false,
            taken: taken(memory, inputs, now_ns),
            held_work: false,
        };
        if let Some(filesystem) = memory.freeze.and_then(|freeze| freeze.filesystem) {
            // What is not known counts as use.
            view.others_use_it = inputs.others_use.get(usize::from(filesystem)).is_none_or(|used| *used);
            view.held_work = inputs.held_work.get(usize::from(filesystem)).is_some_and(|work| *work);
        }
        if inputs.drained {
            view.against = Some((Cause::Drained, About::default()));
        } else if !inputs.self_check {
            view.against = Some((Cause::SelfCheck, About::default()));
        }
        let mut slack = true;
        for verdict in inputs.verdicts {
            view.dwell_ns = view.dwell_ns.max(verdict.dwell_ns);
            slack &= verdict.slack >= SLACK_TO_OPEN;
            view.judge(verdict, memory, inputs);
        }
        let floor_ns = memory.config.stale_floor_ns;
        let deaf_for_ns = lasting(&mut memory.deaf_since_ns, view.deaf.is_some(), now_ns);
        view.blind = view.blind.filter(|_| floor_ns > 0 && deaf_for_ns.is_some_and(|ns| ns >= floor_ns));
        for (index, verdict) in inputs.gauges.iter().enumerate() {
            view.note_short(index, verdict);
            let cause = match verdict.state {
                GaugeState::Broken => Cause::GaugeAbove,
                GaugeState::Stale => Cause::GaugeStale,
                GaugeState::Kept | GaugeState::Absent => continue,
            };
            let about = Some((cause, About::gauge(index, verdict)));
            view.against = view.against.or(about);
            match verdict.then {
                // That nothing is heard is no reason to throw anybody out.
                _ if cause == Cause::GaugeStale => {}
                Then::Close | Then::Throttle(_) => {}
                Then::Vacate
                    if verdict.is_above() && !view.crowded.is_some_and(|(_, read_ns)| memory.settled(read_ns)) =>
                {
                    view.crowded = Some((About::gauge(index, verdict), verdict.read_ns));
                    let there = |taker: &Taker| verdict.of_memory && inputs.living.contains(taker.place);
                    view.taker = inputs.taker.filter(there);
                }
                Then::Vacate => {}
                // Who resumes after one has seen what was read until then.
                Then::Emergency
                    if verdict.is_above() && memory.left_ns.is_none_or(|left_ns| verdict.read_ns > left_ns) =>
                {
                    view.danger = view.danger.or(about);
                }
                Then::Emergency => {}
            }
        }
        if memory.suspects != 0 {
            let index = memory.suspects.trailing_zeros() as usize;
            let about = About::stuck(index, inputs);
            view.accuse(about);
            view.slow |= memory.suspects;
            view.strong = Some((Cause::Stuck, about));
        }
        if view.nothing_to_hold {
            // Nothing to freeze: it is still a reason to start nothing.
            let harmless = view.strong.map(|(_, about)| (Cause::BreachWithoutBatch, about));
            view.against = view.against.or(harmless);
        }
        view.part = part(view.slow, inputs);
        let calm = view.accused == 0 && view.strong.is_none() && view.weak.is_none();
        let well = calm && memory.freeze.is_none() && view.deaf.is_none();
        let innocent = |verdict: &Verdict| memory.innocence.of(verdict.objective, now_ns);
        let excused = inputs.verdicts.iter().map(innocent).fold(memory.quarantined, BitOr::bitor);
        memory.habit.note(inputs.filesystems, inputs.batch_share_now, well, excused, now_ns);
        view.calm_for_ns = lasting(&mut memory.calm_since_ns, calm, now_ns);
        if memory.freeze.is_none() && view.calm_for_ns.is_some_and(|calm_ns| calm_ns >= view.dwell_ns) {
            memory.limits.forget_before();
        }
        let healthy = calm && slack && view.against.is_none() && !inputs.verdicts.is_empty();
        view.healthy_for_ns = lasting(&mut memory.healthy_since_ns, healthy, now_ns);
        memory.armed |= calm;
        if let Some(freeze) = &mut memory.freeze {
            freeze.calm_ns = if calm { now_ns } else { freeze.calm_ns };
            freeze.worked_ns = if view.held_work { now_ns } else { freeze.worked_ns };
        }
        view
    }

    fn note_short(&mut self, index: usize, verdict: &GaugeVerdict) {
        let Then::Throttle(resource) = verdict.then else { return };
        let Some(short) = self.short.get_mut(resource as usize) else { return };
        match verdict.state {
            GaugeState::Broken if verdict.is_above() => {
                *short = Some(Short::Now(About::gauge(index, verdict), verdict.read_ns));
            }
            _ if matches!(short, Some(Short::Now(..))) => {}
            GaugeState::Broken | GaugeState::Stale => *short = Some(Short::Perhaps),
            // It has been above for a moment only.
            GaugeState::Kept if verdict.is_above() => *short = Some(Short::Perhaps),
            GaugeState::Kept => match short {
                None => *short = Some(Short::Not(verdict.read_ns)),
                Some(Short::Not(read_ns)) => *read_ns = verdict.read_ns.min(*read_ns),
                Some(_) => {}
            },
            GaugeState::Absent => {}
        }
    }

    /// Some of the jobs, not all, who made it slow, and those who did `before`; a request that is stuck is too severe to look for them.
    pub fn guilty_few(&self, before: &JobSet) -> Option<(About, JobSet)> {
        let strong = match self.strong {
            Some((Cause::Stuck, _)) => return None,
            other => other.map(|(_, about)| about),
        };
        let about = strong.or(self.guilty).or(self.weak)?;
        let jobs = about.guilty?.or(before).and(&self.living);
        let few = !jobs.is_empty() && (jobs.len() as u64) < u64::from(self.jobs?);
        few.then_some((about, jobs))
    }

    /// The filesystem that batch made slow, and those of the jobs who did, where that is known.
    pub fn made_slow(&self) -> Option<(u16, JobSet)> {
        let strong = self.strong.filter(|(cause, _)| *cause != Cause::Stuck).map(|(_, about)| about);
        let about = strong.or(self.guilty).or(self.weak).filter(|about| about.used)?;
        Some((about.filesystem?, about.guilty.unwrap_or_default().and(&self.living)))
    }

    /// Is one of those who made a disk slow none of these who stand still? Not known while it does what those had asked for before.
    pub fn blames_another(&self, guilty: &JobSet) -> bool {
        !self.held_work && self.made_slow().is_some_and(|(_, jobs)| jobs.and(guilty) != jobs)
    }

    /// Evidence that calls for a real freeze.
    pub fn serious(&self) -> Option<(Cause, About)> {
        self.strong.or(self.telling().map(|about| (Cause::BatchUsesDisk, about)))
    }

    /// Weak evidence on a device that batch uses a lot just now, and more than usually, and not of the weakest: where there are many requests
    /// that comes by itself some twenty times a day, and batch that works on a disk need not stand still for it for longer than a precaution.
    pub fn telling(&self) -> Option<About> {
        self.guilty.filter(|about| about.telling)
    }

    fn judge(&mut self, verdict: &Verdict, memory: &mut Memory, inputs: &Inputs<'_>) {
        let deaf = match verdict.signal {
            SignalState::Fresh | SignalState::Absent => None,
            SignalState::Stale => Some(Cause::SignalStale),
            SignalState::Missing => Some(Cause::SignalMissing),
        };
        if let Some(cause) = deaf {
            // No signal is no evidence, and no health either.
            let unheard = Some((cause, About::of(verdict.objective)));
            self.deaf = self.deaf.or(Some(cause));
            self.blind = self.blind.or(unheard);
            self.against = self.against.or(unheard);
            return;
        }
        let about = About::verdict(verdict, memory, inputs);
        let (flap_ns, backoff_ns) = (memory.config.flap_ns, memory.config.innocent_backoff_ns);
        memory.innocence.note_calm(verdict.objective, verdict.excused.is_none(), flap_ns, backoff_ns, self.now_ns);
        if let Some((series, measure)) = verdict.excused {
            let filesystem = Some(series.filesystem);
            let about =
                About { series: Some(series), filesystem, measure: Some(measure), ..About::of(verdict.objective) };
            self.against = self.against.or(Some((Cause::BreachWithoutBatch, about)));
        }
        self.slow |= verdict.slow;
        match verdict.level {
            Level::Calm => {}
            Level::Weak => {
                self.accuse(about);
                self.weak = self.weak.or(Some(about));
                self.guilty = self.guilty.or_else(|| about.if_guilty(inputs, memory.config.batch_share_guilty));
            }
            Level::Strong => {
                self.accuse(about);
                self.strong = self.strong.or(Some((Cause::StrongEvidence, about)));
            }
        }
        if verdict.slack < 0.0 {
            let limit = Measure { value: 1.0 - verdict.slack, limit: 1.0, unit: Unit::Share };
            let burning = About { measure: Some(limit), ..About::of(verdict.objective) };
            self.against = self.against.or(Some((Cause::SlowBurn, burning)));
        }
        if let Some(measure) = verdict.burning {
            let burning = About { measure: Some(measure), ..About::of(verdict.objective) };
            self.against = self.against.or(Some((Cause::Budget, burning)));
        }
    }

    fn accuse(&mut self, about: About) {
        self.accused |= about.objective.map_or(0, |o| 1u64.checked_shl(u32::from(o)).unwrap_or(0));
    }
}

/// Batch's on these, bit by index.
fn part(filesystems: u128, inputs: &Inputs<'_>) -> Part {
    let mut all = Part::Unknown;
    for index in each(filesystems) {
        let (share, load) = (inputs.batch_share_now.get(index), inputs.filesystems.get(index));
        let (Some(share), Some(load)) = (share.filter(|share| share.is_finite()), load) else { return Part::Unknown };
        if *share >= TAKEN || load.batch_in_flight > 0 {
            return Part::Some;
        }
        let mut got = if let Part::None(got) = all { got } else { Got::default() };
        got.add(index, load.slow_end.requests, load.slow_end.slow, load.storage_in_flight > 0);
        all = Part::None(got);
    }
    all
}

/// Of the disks that clients fill one of which batch takes a part, beside those who are limited there.
fn taken(memory: &Memory, inputs: &Inputs<'_>, now_ns: u64) -> Option<(u16, JobSet, f32)> {
    let filled = if memory.config.throttle { memory.limits.filled() } else { 0 };
    each(filled).find_map(|index| {
        let part = *inputs.batch_share_now.get(index)?;
        let filesystem = u16::try_from(index).ok()?;
        let jobs = inputs.workers.get(index).copied().flatten().unwrap_or_default().and(&inputs.living);
        let limited = memory.limits.throttles.of(filesystem).is_some_and(|throttle| throttle.may_be(&jobs));
        // A comparison with NaN is false: an unknown part is none.
        let takes = part >= TAKEN && !limited && memory.limits.may_ask(filesystem, now_ns);
        takes.then_some((filesystem, jobs, part))
    })
}

/// Does batch of other nodes use the disks, through the storage daemons? It can be held there.
fn from_elsewhere(memory: &Memory, inputs: &Inputs<'_>) -> bool {
    let much = |share: &f32| f64::from(*share) >= memory.config.batch_share_guilty;
    inputs.filesystems.iter().any(|load| load.batch_in_flight > 0) || inputs.batch_share_now.iter().any(much)
}

/// Runs a stopwatch while `on`; its reading.
fn lasting(since_ns: &mut Option<u64>, on: bool, now_ns: u64) -> Option<u64> {
    match on {
        true => Some(now_ns.saturating_sub(*since_ns.get_or_insert(now_ns))),
        false => {
            *since_ns = None;
            None
        }
    }
}

/// Sorts stuck filesystems: those that batch used when they got stuck are suspects, the others go into quarantine until
/// they move again. Batch requests that arrive later at a disk that was dead before cannot have killed it.
fn note_stuck(memory: &mut Memory, inputs: &Inputs<'_>, now_ns: u64, events: &mut Events) {
    for (index, load) in inputs.filesystems.iter().enumerate().take(MAX_FILESYSTEMS) {
        let bit = 1u128 << index;
        let quarantined = memory.quarantined & bit != 0;
        note_use(memory, inputs, index);
        let used = memory.used & bit != 0 && began_under_batch(memory, load, now_ns);
        if !load.stuck {
            memory.suspects &= !bit;
            // Room is kept for the transition of this step; what waits is seen again at the next one.
            if quarantined && events.room() > 2 {
                memory.quarantined &= !bit;
                // What comes back now hung there, or waited behind that.
                memory.innocence.excuse(bit, memory.config.hold_ns, now_ns);
                memory.say(Cause::Unstuck, Deed::Release, memory.state, now_ns, events, |e| {
                    About::stuck(index, inputs).describe(e);
                });
            }
        } else if !quarantined && memory.suspects & bit == 0 {
            if used {
                memory.suspects |= bit;
            } else if events.room() > 2 {
                memory.quarantined |= bit;
                memory.say(Cause::StuckWithoutBatch, Deed::Quarantine, memory.state, now_ns, events, |e| {
                    About::stuck(index, inputs).describe(e);
                });
            }
        }
    }
    // Filesystems of a segment that is gone are neither suspect nor in quarantine.
    let known = if inputs.filesystems.len() >= 128 { u128::MAX } else { (1u128 << inputs.filesystems.len()) - 1 };
    memory.used &= known;
    memory.suspects &= known;
    memory.quarantined &= known;
}

/// Keeps in mind whether batch uses this filesystem. While batch stands still nothing is learned about that, or a precaution
/// would make it look innocent.
fn note_use(memory: &mut Memory, inputs: &Inputs<'_>, index: usize) {
    let share = inputs.batch_share.get(index).copied().unwrap_or(f32::NAN);
    // A comparison with NaN is false: an unknown share counts as none.
    let used = inputs.filesystems[index].batch_in_flight > 0 || share >= memory.config.batch_share_min as f32;
    let bit = 1u128 << index;
    if used {
        memory.used |= bit;
    } else if memory.freeze.is_none() {
        memory.used &= !bit;
    }
}

/// Did the oldest request in flight begin while batch ran, or so shortly after that what batch had sent was still there? While
/// only some jobs stand still batch runs.
fn began_under_batch(memory: &Memory, load: &FilesystemLoad, now_ns: u64) -> bool {
    let since_ns = match memory.freeze {
        Some(freeze) if freeze.hold == Hold::All && freeze.widened => freeze.hold_since_ns,
        Some(freeze) if freeze.hold == Hold::All => freeze.since_ns,
        _ => return true,
    };
    load.oldest_ns.saturating_add(DRAIN_NS) >= now_ns.saturating_sub(since_ns)
}

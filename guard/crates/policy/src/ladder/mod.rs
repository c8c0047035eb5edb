// SPDX-License-Identifier: Apache-2.0
//! The ladder: (state, verdicts, clock) -> (state, actions). One file per rung in `rungs/`.
//!
//! A step sorts the inputs (`view`), asks the rung of the present state what to do, and makes it so in `memory`.

mod alone;
mod budget;
mod events;
mod freeze;
mod habit;
mod innocence;
mod leave;
mod limits;
mod memory;
mod rest;
mod rungs;
mod stages;
mod view;

pub use events::Events;
pub use rest::Taken;

use memory::Memory;
use view::{About, Short, View};

use crate::evaluator::FilesystemLoad;
use crate::event::{Cause, Deed, Measure, Unit};
use crate::gauge::GaugeVerdict;
use crate::jobs::{Hold, JobSet};
use crate::objective::Verdict;
use crate::squeeze::{Change, Resource, Shares, Squeeze};
use crate::taker::Taker;
use crate::throttle::{Throttles, Use};
use intf::state::NodeState;

/// Times of the ladder in nanoseconds, and its budget.
#[derive(Clone, Debug, PartialEq)]
pub struct LadderConfig {
    /// What it says is not done: what comes after a freeze says nothing about the freeze.
    pub dry_run: bool,
    /// Shortest real freeze.
    pub hold_ns: u64,
    /// Longest hold that flapping leads to.
    pub hold_max_ns: u64,
    /// A refreeze this soon after a thaw doubles the hold.
    pub flap_ns: u64,
    /// Longest precautionary freeze.
    pub precaution_ns: u64,
    /// Share of wall time of the last hour that needless precautionary freezes may cost.
    pub precaution_budget: f64,
    /// A freeze without improvement for this long: batch is innocent.
    pub effect_timeout_ns: u64,
    /// How long the same evidence leads to no freeze after batch was found innocent.
    pub innocent_backoff_ns: u64,
    /// Longest freeze; whoever has stood still for so long in all leaves.
    pub freeze_max_ns: u64,
    /// HTCondor's time for ending a job that is to leave.
    pub vacate_deadline_ns: u64,
    /// An emergency ends by itself when storage has been well for so long.
    pub emergency_quiet_ns: u64,
    /// A filesystem with less than this share of batch is not used by batch.
    pub batch_share_min: f64,
    /// With this share of the device that is slow weak evidence is enough for a real freeze.
    pub batch_share_guilty: f64,
    /// Nothing is heard of an objective for so long, beyond its grace time: batch is left its least. 0 = never.
    pub stale_floor_ns: u64,
    /// Thaw the jobs that have no part in it as soon as it is known who has.
    pub guilty_first: bool,
    /// That has not helped for this long while others use the device too: all are frozen again.
    pub guilty_timeout_ns: u64,
    /// Give the guilty their device back bit by bit after a freeze.
    pub throttle: bool,
    /// Each further bit until they have all of it, as a share of what they did there (0..1); the first one is a quarter of that, and is
    /// doubled until it is as much.
    pub throttle_step: f32,
    /// Where clients fill a disk jobs may do this part of its work in the long run (0..1): who takes more rests meanwhile.
    pub filled_share: f64,
}

/// What the ladder looks at. Everything is as of `now`. By default nothing is known, and the guard's own checks fail.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inputs<'a> {
    /// One per objective, from the evaluator.
    pub verdicts: &'a [Verdict],
    /// One per objective on a gauge.
    pub gauges: &'a [GaugeVerdict],
    /// One per filesystem, from the evaluator.
    pub filesystems: &'a [FilesystemLoad],
    /// Batch's share of the device of each filesystem (0..1); NaN or a shorter slice = unknown, counts as none.
    pub batch_share: &'a [f32],
    /// The same for the last second.
    pub batch_share_now: &'a [f32],
    /// Who did nearly all of batch's work on the device of each filesystem just now; `None` or a shorter slice = unknown.
    pub workers: &'a [Option<JobSet>],
    /// Those of them without whom batch would do too little there for it to be to blame; the same.
    pub guilty: &'a [Option<JobSet>],
    /// The filesystems on disks that turn, bit by index.
    pub rotational: u128,
    /// Does anybody of batch who does not stand still use the device of each filesystem so much that it may be his fault? A shorter slice =
    /// unknown, counts as use.
    pub others_use: &'a [bool],
    /// What those who are limited on each filesystem do with what they are left. A shorter slice = unknown.
    pub used: &'a [Use],
    /// What those take by themselves for whom there is no lower limit on a disk.
    pub taken: &'a [Taken],
    /// Is what those who stand still had written before still on its way to the device of each filesystem? A shorter slice = not known,
    /// counts as no.
    pub held_work: &'a [bool],
    /// Jobs in beer-jobs.slice; `None` = unknown, counts as some.
    pub jobs: Option<u32>,
    /// Those of them that can be told apart.
    pub living: JobSet,
    /// Their places, who began first before all others.
    pub oldest_first: &'a [usize],
    /// The one of them who takes the memory that is short, if it is; `None` = that is not clear.
    pub taker: Option<Taker>,
    /// The guard's own checks are good (cgroup tree, freezer, ...).
    pub self_check: bool,
    /// An operator took batch off the node: nothing new starts.
    pub drained: bool,
    /// An operator asks for a freeze of all jobs.
    pub ordered: bool,
    /// An operator gives the node back to batch, just now.
    pub resumed: bool,
    /// Batch is to have less CPU, and it is not yet so.
    pub less_awaited: bool,
}

/// What is to be done; the caller makes the node so.
#[derive(Clone, Debug)]
pub struct Actions {
    /// State of the node, for the state line and the metrics.
    pub state: NodeState,
    /// May new jobs start?
    pub admit: bool,
    /// Who shall stand still (cgroup.freeze). Write it when it is not so.
    pub hold: Hold,
    /// With [`Hold::Jobs`]: the filesystem that they made slow. What batch does there through the storage daemons shall stand
    /// still too; with [`Hold::All`] what it does anywhere.
    pub filesystem: Option<u16>,
    /// It is over, and those wait for their turn to run again.
    pub thawing: bool,
    /// Who rests, and is to stand still as well: they have had their part of a disk.
    pub resting: JobSet,
    /// How much of which device whom is left. Also while they stand still: it must be so before they run again.
    pub throttles: Throttles,
    /// What batch as a whole may have.
    pub shares: Shares,
    /// Nothing is heard: what batch does through the storage daemons is left its least.
    pub least: bool,
    /// Who shall leave the node, through HTCondor.
    pub leave: Hold,
    /// Those of them whom HTCondor has not ended in time: by force.
    pub overdue: Hold,
    /// The freeze is a precaution.
    pub precaution: bool,
    /// Filesystems whose clients fill their disk, bit by index.
    pub filled: u128,
    /// Filesystems in quarantine, bit by index.
    pub quarantined: u128,
    /// Why the state is what it is.
    pub reason: Cause,
    /// Decisions of this step, for the journal.
    pub events: Events,
}

/// Numbers for metrics and status.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Precautionary freezes.
    pub precautions: u64,
    /// Those that no real freeze followed.
    pub needless: u64,
    /// Share of wall time that they took in the last hour.
    pub needless_share: f64,
    /// Weak evidence is not acted upon at present.
    pub weak_suspended: bool,
    /// Time spent in those.
    pub needless_ns: u64,
    /// Real freezes.
    pub freezes: u64,
    /// Time spent in those that have ended.
    pub frozen_ns: u64,
    /// The hold time of the last freeze.
    pub hold_ns: u64,
    /// Since when the state is what it is.
    pub since_ns: u64,
}

/// The ladder and its memory.
#[derive(Clone, Debug)]
pub struct Ladder {
    memory: Memory,
    /// Batch was found frozen; to be journalled at the first step.
    adopted: bool,
    acting: bool,
    /// It was said that an error budget keeps the node closed.
    budget_said: bool,
}

impl Ladder {
    /// At the start of the guard: closed until the objectives have had slack for their dwell time.
    pub fn new(config: LadderConfig, now_ns: u64) -> Ladder {
        Ladder { memory: Memory::new(config, now_ns), adopted: false, acting: false, budget_said: false }
    }

    /// At a start that found these already frozen: frozen since now, with the normal way to thaw.
    pub fn adopt(config: LadderConfig, hold: Hold, now_ns: u64) -> Ladder {
        let mut ladder = Ladder { adopted: true, acting: true, ..Ladder::new(config, now_ns) };
        ladder.memory.adopt(hold, now_ns);
        ladder
    }

    /// At a start after a guard that left the node in an emergency: it goes on, with those who stand still by now.
    pub fn adopt_emergency(config: LadderConfig, hold: Hold, now_ns: u64) -> Ladder {
        let mut ladder = Ladder { adopted: true, ..Ladder::new(config, now_ns) };
        ladder.memory.adopt_emergency(hold, now_ns);
        ladder
    }

    /// Other times and limits; state, freeze and limits of jobs stay. `objectives` = they are others now: nobody is known to be
    /// innocent of them.
    pub fn reconfigure(&mut self, config: LadderConfig, objectives: bool) {
        self.memory.reconfigure(config, objectives);
    }

    /// The filesystems are others now: what was known by their indices is not known any more.
    pub fn other_filesystems(&mut self) {
        self.memory.other_filesystems();
    }

    /// On which filesystems, bit by index, batch is known to be innocent of what breaks this objective; those in quarantine are among
    /// them: all that hung there comes back at once.
    pub fn excused(&self, objective: u16, now_ns: u64) -> u128 {
        self.memory.quarantined | self.memory.innocence.of(objective, now_ns)
    }

    /// One tick.
    pub fn step(&mut self, inputs: &Inputs<'_>, now_ns: u64) -> Actions {
        let mut events = Events::default();
        let memory = &mut self.memory;
        if std::mem::take(&mut self.adopted) {
            memory.say(Cause::Adopted, Deed::None, memory.state, now_ns, &mut events, |_| {});
        }
        memory.settle_precaution(now_ns);
        memory.limits.note(inputs, &memory.rest, memory.config.throttle_step, now_ns);
        memory.note_stood(&inputs.living, now_ns);
        let view = View::new(memory, inputs, now_ns, &mut events);
        if view.deaf.is_some() {
            memory.limits.throttles.unheard(now_ns);
        }
        memory.note_evidence(&view);
        memory.note_alone(&view);
        if let Some(transition) = rungs::next(memory, &view) {
            let still = memory.standing(&view.living);
            memory.apply(transition, now_ns, &mut events);
            // It may have begun just now.
            memory.note_evidence(&view);
            if memory.comes_back(&transition) {
                memory.stages.begin(still, now_ns);
                // Of the first ones the transition has told.
                memory.stages.next(inputs.oldest_first, now_ns);
            }
        }
        memory.stage(inputs.oldest_first, now_ns, &mut events);
        memory.rest(inputs.taken, now_ns, &mut events);
        self.squeeze(&view, &mut events);
        self.watch_budget(now_ns, &mut events);
        self.note_error_budget(&view, now_ns, &mut events);
        let memory = &self.memory;
        let lately = |ns: Option<u64>| ns.is_some_and(|ns| now_ns.saturating_sub(ns) < memory.config.flap_ns);
        let recently = lately(memory.thawed_ns) || lately(memory.left_ns);
        // A precaution too: what it cut short looks like requests that share their fate, and a detector that learned
        // from it would see the next breach later, and the one after that not at all. Where precautions are needless and
        // frequent their budget suspends them, and then that is learned.
        // Nor while somebody uses a limited share: what storage is like then is not what it is like.
        let squeezed = memory.squeezes.iter().any(Squeeze::on);
        let less = memory.limits.throttles.in_use(now_ns) || !memory.rest.jobs().is_empty() || squeezed;
        self.acting = memory.freeze.is_some() || recently || less;
        self.actions(&view, events)
    }

    /// An error budget may keep it closed for long after what closed it is over: the journal is to know.
    fn note_error_budget(&mut self, view: &View, now_ns: u64, events: &mut Events) {
        let memory = &mut self.memory;
        if !matches!(memory.state, NodeState::Closed | NodeState::Throttled) {
            self.budget_said = false;
        } else if let Some((Cause::Budget, about)) = view.against.filter(|_| !self.budget_said) {
            self.budget_said = true;
            if memory.reason != Cause::Budget {
                memory.say(Cause::Budget, Deed::None, memory.state, now_ns, events, |event| about.describe(event));
            }
        }
    }

    /// Batch as a whole gets less of what storage is short of, in any state; while jobs run that is one of its own, throttled. While all
    /// stand still nothing is learned from it.
    fn squeeze(&mut self, view: &View, events: &mut Events) {
        let memory = &mut self.memory;
        let still = memory.freeze.is_some_and(|freeze| freeze.hold == Hold::All);
        let (backoff_ns, now_ns) = (memory.config.innocent_backoff_ns, view.now_ns);
        let harmed = memory.harmed.take();
        for (resource, short) in Resource::ALL.into_iter().zip(view.short) {
            let mut squeeze: Squeeze = memory.squeezes[resource as usize];
            let (change, about) = match short {
                _ if view.no_jobs => (squeeze.end(), About::default()),
                // Whatever it is that batch does: with less CPU it does less of it.
                _ if resource == Resource::Cpu && harmed.is_some() => {
                    (squeeze.harm(backoff_ns, now_ns), harmed.unwrap_or_default())
                }
                _ if still => continue,
                // A silent storage service may be short of anything. What slows down all that batch does, and costs storage
                // nothing itself, is less CPU: to take memory away makes work for disks.
                _ if resource == Resource::Cpu && view.blind.is_some() => {
                    (squeeze.floor(now_ns), view.blind.map(|(_, about)| about).unwrap_or_default())
                }
                Some(Short::Now(about, read_ns)) => (squeeze.short(about.value(), read_ns, backoff_ns, now_ns), about),
                Some(Short::Perhaps) => continue,
                // It made storage slow: only while that is well is there a reason to give it more.
                _ if squeeze.harmed() && (view.deaf.is_some() || view.calm_for_ns.is_none()) => continue,
                // No gauge asks for it, or not any more.
                Some(Short::Not(read_ns)) => (squeeze.enough(read_ns, backoff_ns, now_ns), About::default()),
                None => (squeeze.enough(now_ns, backoff_ns, now_ns), About::default()),
            };
            memory.squeezes[resource as usize] = squeeze;
            let blind = view.blind.map(|(cause, _)| cause);
            let of_cpu = harmed.map(|_| Cause::SlowBesideBatch).or(blind).filter(|_| resource == Resource::Cpu);
            let cause = of_cpu.unwrap_or(Cause::GaugeAbove);
            let (cause, deed) = match change {
                Some(Change::Less) => (cause, Deed::Squeeze(resource)),
                Some(Change::InVain) if cause == Cause::SlowBesideBatch => {
                    (Cause::ThrottleNotEnough, Deed::Restore(resource))
                }
                Some(Change::InVain) => (Cause::SqueezeInVain, Deed::Restore(resource)),
                Some(Change::Over) => (Cause::SqueezeOver, Deed::Restore(resource)),
                None => continue,
            };
            memory.squeezed(cause, deed, &about, now_ns, events);
        }
    }

    /// Suspends the weak level while needless precautions cost more than they may.
    fn watch_budget(&mut self, now_ns: u64, events: &mut Events) {
        let memory = &mut self.memory;
        let share = memory.budget.share(now_ns);
        memory.counters.needless_share = share;
        let over = share > memory.config.precaution_budget;
        if over == memory.counters.weak_suspended {
            return;
        }
        memory.counters.weak_suspended = over;
        let cause = if over { Cause::WeakSuspended } else { Cause::WeakResumed };
        let measure = Measure { value: share, limit: memory.config.precaution_budget, unit: Unit::Share };
        memory.say(cause, Deed::None, memory.state, now_ns, events, |e| e.measure = Some(measure));
    }

    fn actions(&self, view: &View, events: Events) -> Actions {
        let memory = &self.memory;
        let freeze = memory.freeze.as_ref();
        let precaution = freeze.is_some_and(|f| f.precaution);
        let admit = match freeze {
            // A second at most is no reason to tell HTCondor that the node is closed.
            Some(freeze) => precaution && (freeze.before == NodeState::Open || memory.admitting),
            // Nobody new comes before those who wait for their turn.
            None if memory.stages.hold().any() => false,
            None if memory.state == NodeState::Throttled => memory.admitting,
            None => memory.state == NodeState::Open,
        };
        let reason = match memory.state {
            NodeState::Closed | NodeState::Throttled => view.against.map_or(memory.reason, |(cause, _)| cause),
            _ => memory.reason,
        };
        Actions {
            state: memory.state,
            admit: admit && view.against.is_none(),
            hold: freeze.map_or(memory.stages.hold(), |f| f.hold),
            resting: memory.rest.jobs(),
            thawing: freeze.is_none() && memory.stages.hold().any(),
            filesystem: freeze.and_then(|f| f.filesystem),
            throttles: memory.limits.throttles,
            shares: Shares::new(memory.squeezes.map(|squeeze| squeeze.share())),
            least: view.blind.is_some(),
            leave: memory.leave.who,
            overdue: memory.leave.overdue,
            precaution,
            filled: memory.limits.filled(),
            quarantined: memory.quarantined,
            reason,
            events,
        }
    }

    /// Is batch held back, or was it until a moment ago? Detectors that know what is usual learn nothing then.
    pub fn acting(&self) -> bool {
        self.acting
    }

    /// State of the node.
    pub fn state(&self) -> NodeState {
        self.memory.state
    }

    /// Numbers for metrics and status.
    pub fn counters(&self) -> &Counters {
        &self.memory.counters
    }
}

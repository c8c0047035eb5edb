// SPDX-License-Identifier: Apache-2.0
//! What the ladder remembers from one step to the next.

use super::budget::Budget;
use super::freeze::{Ended, Freeze};
use super::habit::Habit;
use super::innocence::Innocence;
use super::leave::{Leave, Room, Stood};
use super::limits::Limits;
use super::rest::{Rest, Taken};
use super::stages::Stages;
use super::view::About;
use super::{Counters, Events, LadderConfig};
use crate::bits::contains;
use crate::event::{Cause, Deed, Event};
use crate::gauge::settled;
use crate::jobs::{Hold, JobSet};
use crate::squeeze::{Resource, Squeeze};
use intf::state::NodeState;

/// Most objectives; the configuration allows no more.
pub(super) const OBJECTIVES: usize = 64;

/// From where to where, why, and what is to be done for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transition {
    pub to: NodeState,
    pub cause: Cause,
    pub deed: Deed,
    /// Begin or end of a precaution.
    pub precaution: bool,
    pub about: About,
    /// Who stands still after it.
    pub hold: Hold,
}

#[derive(Clone, Debug)]
pub(super) struct Memory {
    pub config: LadderConfig,
    pub state: NodeState,
    pub reason: Cause,
    pub since_ns: u64,
    pub freeze: Option<Freeze>,
    /// Who waits to run again after one.
    pub stages: Stages,
    /// End of the last real freeze; and the same if it helped.
    pub thawed_ns: Option<u64>,
    pub helped_ns: Option<u64>,
    /// Since when there is no evidence that batch could be guilty of.
    pub calm_since_ns: Option<u64>,
    /// Since when some objective has no signal.
    pub deaf_since_ns: Option<u64>,
    /// Since when nothing speaks against the open state.
    pub healthy_since_ns: Option<u64>,
    /// One precaution for one excursion: set by calm, cleared by a precaution.
    pub armed: bool,
    /// Filesystems that batch used when it last ran, bit by index.
    pub used: u128,
    /// Filesystems that got stuck while batch used them, bit by index.
    pub suspects: u128,
    /// Filesystems that got stuck while batch did not use them.
    pub quarantined: u128,
    pub budget: Budget,
    pub counters: Counters,
    /// Nobody is let go while others stay frozen before that: the last time it did not help.
    pub all_until_ns: u64,
    /// Who is limited on which disk.
    pub limits: Limits,
    /// Who rests, because clients use a disk of which he has had his part.
    pub rest: Rest,
    /// Batch made storage slow, again, and not by what it does on a disk: until it gets less for that.
    pub harmed: Option<About>,
    /// What batch as a whole may have.
    pub squeezes: [Squeeze; Resource::ALL.len()],
    /// Who is to leave.
    pub leave: Leave,
    /// Who left for a gauge.
    pub room: Room,
    /// When somebody last had, or should have.
    pub left_ns: Option<u64>,
    /// Who has stood still for how long.
    pub stood: Stood,
    /// New jobs are let in while others are limited. Not after a freeze before there was slack.
    pub admitting: bool,
    /// How often those who were blamed were not to blame, since they last were.
    pub misjudged: u32,
    /// The last precaution, until it is known whether it was needless.
    pub on_trial: Option<Ended>,
    pub innocence: Innocence,
    /// What batch usually does.
    pub habit: Habit,
}

impl Memory {
    pub fn new(config: LadderConfig, now_ns: u64) -> Memory {
        let counters = Counters { hold_ns: config.hold_ns, since_ns: now_ns, ..Counters::default() };
        Memory {
            config,
            state: NodeState::Closed,
            reason: Cause::Start,
            since_ns: now_ns,
            freeze: None,
            stages: Stages::default(),
            thawed_ns: None,
            helped_ns: None,
            calm_since_ns: None,
            deaf_since_ns: None,
            healthy_since_ns: None,
            armed: false,
            used: 0,
            suspects: 0,
            quarantined: 0,
            budget: Budget::new(now_ns),
            counters,
            all_until_ns: 0,
            limits: Limits::new(now_ns),
            rest: Rest::new(now_ns),
            harmed: None,
            squeezes: Default::default(),
            leave: Leave::default(),
            room: Room::default(),
            left_ns: None,
            stood: Stood::new(now_ns),
            admitting: false,
            misjudged: 0,
            on_trial: None,
            innocence: Innocence::new(),
            habit: Habit::new(now_ns),
        }
    }

    pub fn reconfigure(&mut self, config: LadderConfig, objectives: bool) {
        if !config.throttle {
            self.limits.end_all();
        }
        if objectives {
            self.limits.throttles.forget_strain();
            self.innocence = Innocence::new();
            if let Some(freeze) = &mut self.freeze {
                (freeze.accused, freeze.slow) = (0, 0);
            }
        }
        self.counters.hold_ns = self.counters.hold_ns.clamp(config.hold_ns, config.hold_max_ns);
        self.config = config;
    }

    /// The filesystems are others now.
    pub fn other_filesystems(&mut self) {
        self.limits.other_filesystems();
        self.rest.forget();
        self.innocence = Innocence::new();
        self.habit.forget();
        if let Some(freeze) = &mut self.freeze {
            (freeze.filesystem, freeze.slow) = (None, 0);
        }
    }

    /// Batch stood still and it did not get better: evidence of these objectives on these filesystems (none = it cannot be said which:
    /// all) leads to no freeze for a while. What happens on others is judged as ever.
    pub fn acquit(&mut self, objectives: u64, filesystems: u128, now_ns: u64) {
        let filesystems = if filesystems == 0 { u128::MAX } else { filesystems };
        self.innocence.add(objectives, filesystems, self.config.innocent_backoff_ns, now_ns);
        let suspects = std::mem::take(&mut self.suspects);
        self.quarantined |= suspects;
        let acquitted = filesystems | suspects;
        // What it was accused for was no reason to give it less than before.
        self.limits.give_back(acquitted);
        self.limits.forget_before();
        if self.freeze.is_some_and(|freeze| freeze.blamed_on & !acquitted == 0) {
            self.stood.forget();
        }
    }

    /// Clients fill the disk, and these do this part of its work.
    pub fn make_way(&mut self, filesystem: u16, jobs: JobSet, part: f32, now_ns: u64) {
        self.limits.make_way(filesystem, jobs, part, self.config.throttle_step, now_ns);
        self.admitting |= self.state == NodeState::Open;
    }

    /// The time since the last step.
    pub fn note_stood(&mut self, living: &JobSet, now_ns: u64) {
        let blamed = self.freeze.filter(|freeze| !freeze.ordered && !freeze.precaution).map(|freeze| freeze.blamed);
        self.stood.note(&blamed.unwrap_or_default(), living, now_ns);
    }

    /// Makes a transition happen and says so.
    pub fn apply(&mut self, mut t: Transition, now_ns: u64, events: &mut Events) {
        t.to = match (t.deed, t.to, self.limited()) {
            (Deed::Thaw, NodeState::Closed, true) => NodeState::Throttled,
            (Deed::Thaw, NodeState::Throttled, false) => self.unlimited(),
            (_, to, _) => to,
        };
        let lasted_ns = match (t.deed, self.freeze) {
            (Deed::Thaw | Deed::Extend, Some(freeze)) => now_ns.saturating_sub(freeze.since_ns),
            _ => now_ns.saturating_sub(self.since_ns),
        };
        self.say(t.cause, t.deed, t.to, now_ns, events, |e| {
            e.precaution = t.precaution;
            e.lasted_ns = Some(lasted_ns);
            // Whoever it touches: of a thaw those who stood still until then.
            e.hold = if t.deed == Deed::Thaw { self.freeze.map_or(Hold::Nobody, |f| f.hold) } else { t.hold };
            t.about.describe(e);
        });
        match t.deed {
            Deed::Freeze => self.begin_freeze(t.precaution, t.about.filesystem(), now_ns),
            Deed::Extend => self.extend(now_ns),
            Deed::Narrow | Deed::Widen => self.change_hold(&t, now_ns),
            Deed::Thaw => self.end_freeze(t.precaution, t.cause, now_ns),
            Deed::Vacate | Deed::Evacuate => self.begin_leaving(&t, now_ns),
            _ => {}
        }
        if self.leave.who.any() && !matches!(t.to, NodeState::Vacating | NodeState::Emergency) {
            let Leave { who, .. } = std::mem::take(&mut self.leave);
            self.left_ns = Some(now_ns);
            self.without(who);
        }
        if let Some(freeze) = &mut self.freeze {
            freeze.ordered |= t.cause == Cause::Ordered;
        }
        // An emergency is one for the same reason after all have left.
        let same = t.to == NodeState::Emergency && t.cause == Cause::Left;
        if t.deed == Deed::Extend {
            self.since_ns = now_ns;
            self.counters.since_ns = now_ns;
        }
        self.enter(t.to, if same { self.reason } else { t.cause }, now_ns);
    }

    /// Was this read so late that it is of the time since the last job has left?
    pub fn settled(&self, read_ns: u64) -> bool {
        self.left_ns.is_none_or(|left_ns| settled(read_ns, left_ns))
    }

    fn enter(&mut self, to: NodeState, reason: Cause, now_ns: u64) {
        if to != self.state {
            self.since_ns = now_ns;
            self.counters.since_ns = now_ns;
        }
        self.admitting &= !matches!(to, NodeState::Open | NodeState::Closed);
        (self.state, self.reason) = (to, reason);
    }

    /// Is somebody limited on a disk, or batch as a whole in what it may have?
    pub fn limited(&self) -> bool {
        !self.limits.throttles.is_empty() || self.squeezes.iter().any(Squeeze::on)
    }

    /// Where to when nobody is limited any more.
    pub fn unlimited(&self) -> NodeState {
        if self.admitting {
            NodeState::Open
        } else {
            NodeState::Closed
        }
    }

    /// Batch as a whole has got less or all of something; says so. While jobs run that is a state of its own.
    pub fn squeezed(&mut self, cause: Cause, deed: Deed, about: &About, now_ns: u64, events: &mut Events) {
        let to = match (self.state, self.limited()) {
            (NodeState::Open | NodeState::Closed, true) => NodeState::Throttled,
            (NodeState::Throttled, false) => self.unlimited(),
            (state, _) => state,
        };
        self.say(cause, deed, to, now_ns, events, |event| about.describe(event));
        if to != self.state {
            self.admitting |= self.state == NodeState::Open;
            self.enter(to, cause, now_ns);
        }
    }

    /// Does it let those run again who stood still for what they did, or may have done? Others do not wait.
    pub fn comes_back(&self, t: &Transition) -> bool {
        let calm = matches!(t.cause, Cause::Calm | Cause::SignalStale | Cause::SignalMissing);
        t.deed == Deed::Thaw && !t.precaution && calm && !self.config.dry_run && self.freeze.is_none()
    }

    /// The next ones run again. Nobody waits for that in another freeze.
    pub fn stage(&mut self, oldest_first: &[usize], now_ns: u64, events: &mut Events) {
        if self.freeze.is_some() {
            self.stages.end();
        } else if let Some(turn) = self.stages.next(oldest_first, now_ns) {
            self.say(Cause::Calm, Deed::Stage, self.state, now_ns, events, |event| event.hold = Hold::Jobs(turn));
        }
    }

    /// Whose turn it is to rest, or to run again. In a freeze nobody begins to rest: that comes first.
    pub fn rest(&mut self, taken: &[Taken], now_ns: u64, events: &mut Events) {
        let still = self.freeze.map_or(Hold::Nobody, |freeze| freeze.hold);
        self.rest.follow(&self.limits.throttles, taken, self.config.filled_share, still, now_ns);
        let Some(turn) = self.rest.turn(self.freeze.is_none(), now_ns) else { return };
        let fill = turn.filesystem.filter(|filesystem| contains(self.limits.filled(), usize::from(*filesystem)));
        let (cause, deed) = match (turn.rests, fill) {
            (false, _) => (Cause::Rested, Deed::GoOn),
            (true, Some(_)) => (Cause::ClientsFillDisk, Deed::Rest),
            (true, None) => (Cause::ClientsUseDisk, Deed::Rest),
        };
        self.say(cause, deed, self.state, now_ns, events, |event| {
            if let Some(filesystem) = fill {
                self.limits.about(filesystem).describe(event);
            }
            (event.filesystem, event.hold) = (turn.filesystem, Hold::Jobs(turn.jobs));
        });
    }

    /// Adds an event about the node as it is now.
    pub fn say(
        &self,
        cause: Cause,
        deed: Deed,
        to: NodeState,
        now_ns: u64,
        events: &mut Events,
        fill: impl FnOnce(&mut Event),
    ) {
        let mut event = Event {
            at_ns: now_ns,
            from: self.state,
            to,
            cause,
            deed,
            precaution: false,
            hold: Hold::Nobody,
            objective: None,
            gauge: None,
            series: None,
            filesystem: None,
            measure: None,
            taker: None,
            lasted_ns: None,
        };
        fill(&mut event);
        events.push(event);
    }
}

// SPDX-License-Identifier: Apache-2.0
//! A freeze from its first moment to its last: who stands still, for what, for how long at least, and what its end says of batch.

use super::alone::Alone;
use super::leave::Leave;
use super::memory::{Memory, Transition};
use super::view::{About, View};
use crate::bits::{bit, contains};
use crate::event::{Cause, Deed};
use crate::jobs::{Hold, JobSet};
use crate::squeeze::Resource;
use intf::state::NodeState;

/// Weak evidence this soon after a precaution ended, with calm in between, is as good as strong evidence: two false alarms
/// of which each comes once in hours are rarely seconds apart. A job that attacks again needs a second or two to hurt.
const RETURN_NS: u64 = 5_000_000_000;
/// How often the time doubles at most in which nobody is let go while others stay frozen.
const DOUBLINGS: u32 = 4;

/// A freeze that is going on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Freeze {
    /// Since when batch stands still, as a precaution or not.
    pub since_ns: u64,
    /// Who does.
    pub hold: Hold,
    /// Since when it is those.
    pub hold_since_ns: u64,
    /// The guilty alone were not enough: it is all of them until the end.
    pub widened: bool,
    /// Who was found guilty during it, and stands still until its end.
    pub guilty: JobSet,
    /// What the guilty made slow.
    pub filesystem: Option<u16>,
    /// An operator asked for it: it lasts for as long as he does.
    pub ordered: bool,
    /// Not (yet) a real one.
    pub precaution: bool,
    /// A real freeze lasts at least so long.
    pub hold_ns: u64,
    /// Last moment without evidence.
    pub calm_ns: u64,
    /// When what the guilty had asked for before was last on its way to the disk.
    pub worked_ns: u64,
    /// Who made storage slow, also where all of them stand still.
    pub blamed: JobSet,
    /// On which filesystems, bit by index, and on which of them somebody is limited for it.
    pub blamed_on: u128,
    limited: u128,
    /// It began so soon after the last one that it is the same again.
    again: bool,
    /// A request hung on a disk that batch uses.
    stuck: bool,
    /// Objectives that had evidence during it, and filesystems of those, bit by index.
    pub accused: u64,
    pub slow: u128,
    /// What storage is like meanwhile.
    pub alone: Alone,
    /// What it says of batch's CPU is decided, and it is about to end.
    eased: bool,
    /// Where a precaution returns to, and whether jobs were let in there.
    pub before: NodeState,
}

/// A precaution that ended because it was calm: whether it was needless is known when evidence had the time to return.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    at_ns: u64,
    lasted_ns: u64,
}

impl Memory {
    /// Has a precaution ended so recently that evidence which returns now says that it helped? On whichever disk: a job that
    /// attacks several in turn must not get away with precautions.
    pub fn precaution_on_trial(&self) -> bool {
        self.on_trial.is_some()
    }

    /// Books the last precaution as needless once its time for being proved right is over.
    pub fn settle_precaution(&mut self, now_ns: u64) {
        if let Some(ended) = self.on_trial.take_if(|ended| now_ns.saturating_sub(ended.at_ns) >= RETURN_NS) {
            self.book_needless(ended.lasted_ns, now_ns);
        }
    }

    fn book_needless(&mut self, lasted_ns: u64, now_ns: u64) {
        self.counters.needless += 1;
        self.counters.needless_ns += lasted_ns;
        self.budget.spend(now_ns, lasted_ns);
    }

    /// May anybody be limited there?
    fn may_limit(&self, filesystem: u16, now_ns: u64) -> bool {
        self.config.throttle && self.limits.may_limit(filesystem, now_ns)
    }

    /// Who made it slow, as long as that can be known: later they stand still, and what is slow then, and who works there, is
    /// another matter.
    fn culprits(&self, view: &View) -> Option<(u16, JobSet)> {
        let freeze = self.freeze.as_ref().filter(|freeze| !freeze.widened && freeze.hold == Hold::All)?;
        let late = view.now_ns.saturating_sub(freeze.hold_since_ns) >= self.config.guilty_timeout_ns;
        view.made_slow().filter(|_| !late)
    }

    /// In a real freeze: for how long they stand still is counted.
    pub fn blame(&mut self, view: &View) {
        let culprits = self.culprits(view);
        if let (Some(freeze), Some((filesystem, jobs))) = (&mut self.freeze, culprits) {
            freeze.blamed = freeze.blamed.or(&jobs);
            freeze.blamed_on |= bit(filesystem.into());
        }
    }

    /// In a real freeze, as soon as it is known who made it slow: they get their disk back bit by bit when it is over.
    pub fn limit(&mut self, view: &View) {
        let (step, now_ns) = (self.config.throttle_step, view.now_ns);
        let culprits = self.culprits(view).filter(|(filesystem, _)| self.may_limit(*filesystem, now_ns));
        let (Some(freeze), Some((filesystem, jobs))) = (&mut self.freeze, culprits) else { return };
        let again = contains(freeze.limited, filesystem.into());
        freeze.limited |= bit(filesystem.into());
        self.limits.begin(filesystem, jobs, again, step, now_ns);
    }

    /// What storage is like while all stand still; once in each tick.
    pub fn note_alone(&mut self, view: &View) {
        if let Some(freeze) = self.freeze.as_mut().filter(|freeze| freeze.hold == Hold::All) {
            freeze.alone.note(view.part, self.config.guilty_timeout_ns, view.now_ns);
        }
    }

    /// It has harmed storage by other ways than a disk, or may have: whether a freeze helps takes its time then.
    pub fn harms_otherwise(&self, freeze: &Freeze) -> bool {
        freeze.again || self.squeezes[Resource::Cpu as usize].harmed()
    }

    /// Batch gets less CPU, if that is what the freeze says, before anybody runs again: who runs for a moment with what made storage slow
    /// makes it slow again, as if less had been of no use. To tell systemd takes some CPU itself, for which nobody is to blame: calm counts
    /// from then on.
    pub fn eases(&mut self, view: &View) -> bool {
        let Some(freeze) = &mut self.freeze else { return false };
        if freeze.eased {
            if view.less_awaited {
                (freeze.calm_ns, self.calm_since_ns) = (view.now_ns, None);
            }
            return view.less_awaited;
        }
        let calm = view.calm_for_ns.is_some_and(|calm_for_ns| calm_for_ns >= view.dwell_ns);
        freeze.eased = calm && view.deaf.is_none();
        let as_it_is = *freeze;
        self.harmed = self.unexplained(&as_it_is).filter(|_| as_it_is.eased);
        if let (Some(freeze), true) = (&mut self.freeze, self.harmed.is_some()) {
            // Also where systemd is done before the next tick.
            (freeze.calm_ns, self.calm_since_ns) = (view.now_ns, None);
        }
        self.harmed.is_some()
    }

    /// What there is evidence of during a freeze.
    pub fn note_evidence(&mut self, view: &View) {
        if let Some(freeze) = &mut self.freeze {
            freeze.accused |= view.accused;
            freeze.slow |= view.slow;
            freeze.stuck |= matches!(view.strong, Some((Cause::Stuck, _)));
        }
    }

    /// Is what begins now the same again?
    fn lately(&self, thawed_ns: Option<u64>, now_ns: u64) -> bool {
        thawed_ns.is_some_and(|thawed_ns| now_ns.saturating_sub(thawed_ns) <= self.config.flap_ns)
    }

    /// The hold time of a freeze that begins at `now_ns`: doubled if it comes soon after a thaw (not while batch comes back with less
    /// CPU each time, which is not the same again), halved for each `flap` time that has passed since then.
    fn hold(&self, now_ns: u64) -> u64 {
        let Some(thawed_ns) = self.thawed_ns else { return self.config.hold_ns };
        let gap = now_ns.saturating_sub(thawed_ns);
        let hold = match self.lately(self.thawed_ns, now_ns) {
            true if self.squeezes[Resource::Cpu as usize].searching() => self.counters.hold_ns,
            true => self.counters.hold_ns.saturating_mul(2),
            false => self.counters.hold_ns >> (gap / self.config.flap_ns).min(63),
        };
        hold.clamp(self.config.hold_ns, self.config.hold_max_ns)
    }

    pub fn begin_freeze(&mut self, precaution: bool, filesystem: Option<u16>, now_ns: u64) {
        self.limits.before_less();
        // Whoever comes back with half of what he had need not stand still for long: it is not the same again.
        let less =
            filesystem.is_some_and(|filesystem| self.limits.throttles.can_cut(filesystem, self.config.throttle_step));
        let hold_ns = if less { self.config.precaution_ns.min(self.config.hold_ns) } else { self.hold(now_ns) };
        let before = self.state;
        self.freeze = Some(Freeze {
            since_ns: now_ns,
            hold: Hold::All,
            hold_since_ns: now_ns,
            widened: false,
            guilty: JobSet::default(),
            filesystem: None,
            ordered: false,
            precaution,
            hold_ns,
            calm_ns: now_ns,
            worked_ns: now_ns,
            blamed: JobSet::default(),
            blamed_on: 0,
            limited: 0,
            again: self.lately(self.helped_ns, now_ns),
            stuck: false,
            accused: 0,
            slow: 0,
            alone: Alone::new(now_ns),
            eased: false,
            before,
        });
        if precaution {
            self.armed = false;
            self.counters.precautions += 1;
        } else {
            self.admitting = false;
            self.on_trial = None;
            self.counters.freezes += 1;
            if !less {
                self.counters.hold_ns = hold_ns;
            }
        }
    }

    pub fn extend(&mut self, now_ns: u64) {
        if let Some(freeze) = &mut self.freeze {
            freeze.hold_since_ns = now_ns;
            freeze.precaution = false;
            self.admitting = false;
            self.counters.freezes += 1;
            self.counters.hold_ns = freeze.hold_ns.max(self.config.hold_ns);
        }
    }

    pub fn change_hold(&mut self, t: &Transition, now_ns: u64) {
        if let Some(freeze) = &mut self.freeze {
            (freeze.hold, freeze.hold_since_ns) = (t.hold, now_ns);
            if let Hold::Jobs(guilty) = t.hold {
                freeze.guilty = guilty;
            }
            freeze.filesystem = t.about.filesystem().filter(|_| t.deed == Deed::Narrow);
            if t.deed == Deed::Widen {
                // Whoever attacks while others stand still is looked for like them.
                freeze.widened = t.cause == Cause::GuiltyNotEnough;
                // Only now it can show whether batch is guilty at all.
                (freeze.calm_ns, freeze.alone) = (now_ns, Alone::new(now_ns));
            }
        }
        if t.cause == Cause::GuiltyNotEnough {
            let backoff_ns = self.config.innocent_backoff_ns << self.misjudged.min(DOUBLINGS);
            self.all_until_ns = now_ns.saturating_add(backoff_ns);
            self.misjudged += 1;
            // Nor is anybody limited for what he may not have done, or counted.
            if let Some(freeze) = &mut self.freeze {
                freeze.blamed = JobSet::default();
            }
            self.limits.give_back(self.freeze.map_or(0, |freeze| freeze.limited));
        }
    }

    /// Until they are gone they stand still; so does everybody in an emergency.
    pub fn begin_leaving(&mut self, t: &Transition, now_ns: u64) {
        let running = self.freeze.is_none();
        if running {
            self.begin_freeze(false, None, now_ns);
        } else if self.freeze.is_some_and(|freeze| freeze.precaution) {
            self.extend(now_ns);
        }
        if let Some(freeze) = &mut self.freeze {
            if running || t.deed == Deed::Evacuate {
                (freeze.hold, freeze.hold_since_ns) = (t.hold, now_ns);
            }
            freeze.hold = freeze.hold.or(t.hold);
        }
        let overdue = if t.cause == Cause::VacateOverdue { self.leave.who } else { Hold::Nobody };
        self.leave = Leave { who: t.hold, since_ns: now_ns, overdue };
    }

    /// They have left. Their places may be those of others soon, who do not stand still for what they did.
    pub fn without(&mut self, who: Hold) {
        let Some(Freeze { hold: Hold::Jobs(held), .. }) = &mut self.freeze else { return };
        let others: JobSet = held.iter().filter(|place| !who.touches(*place)).collect();
        if !others.is_empty() {
            *held = others;
        }
    }

    pub fn end_freeze(&mut self, precaution: bool, cause: Cause, now_ns: u64) {
        let Some(freeze) = self.freeze.take() else { return };
        let lasted_ns = now_ns.saturating_sub(freeze.since_ns);
        if !precaution {
            let helped = cause == Cause::Calm;
            self.helped_ns = Some(now_ns).filter(|_| helped);
        }
        if cause == Cause::Calm && matches!(freeze.hold, Hold::Jobs(_)) {
            self.misjudged = 0;
        }
        if precaution || cause == Cause::Calm {
            // It helped: who is limited for it is so rightly. A precaution limits nobody.
            self.limits.forget_before();
        }
        if !precaution {
            self.counters.frozen_ns += lasted_ns;
            // Those who come back soon after a thaw are held for longer; who has left does not come back, and others are not them.
            self.thawed_ns = Some(now_ns).filter(|_| cause != Cause::Left);
            self.limits.throttles.run(now_ns);
        } else if cause == Cause::Calm {
            self.on_trial = Some(Ended { at_ns: now_ns, lasted_ns });
        } else {
            // It did not help.
            self.book_needless(lasted_ns, now_ns);
        }
    }

    /// It helped, as it did a moment before, and nobody is to blame for a disk that was slow: what was it about then?
    fn unexplained(&self, freeze: &Freeze) -> Option<About> {
        let again = freeze.again || self.squeezes[Resource::Cpu as usize].harmed();
        let slow = if freeze.slow == 0 { u128::MAX } else { freeze.slow };
        // Also if who did it has left, or may not be limited there.
        let by_disk = (freeze.blamed_on | freeze.limited | self.limits.throttles.filesystems()) & slow != 0;
        let explained = freeze.ordered || freeze.stuck || by_disk;
        let wanted = self.config.throttle && !self.config.dry_run;
        let accused = u16::try_from(freeze.accused.trailing_zeros()).ok()?;
        (wanted && again && !explained && freeze.accused != 0).then(|| About::of(accused))
    }

    /// At the start of the guard: batch is frozen already.
    pub fn adopt(&mut self, hold: Hold, now_ns: u64) {
        self.begin_freeze(false, None, now_ns);
        if let Some(freeze) = &mut self.freeze {
            freeze.hold = hold;
            if let Hold::Jobs(guilty) = hold {
                freeze.guilty = guilty;
            }
        }
        self.state = NodeState::Frozen;
        self.reason = Cause::Adopted;
    }

    /// At the start of the guard: the node is in an emergency.
    pub fn adopt_emergency(&mut self, hold: Hold, now_ns: u64) {
        if hold.any() {
            self.adopt(Hold::All, now_ns);
        }
        self.leave = Leave { who: Hold::All, since_ns: now_ns, overdue: Hold::Nobody };
        self.state = NodeState::Emergency;
        self.reason = Cause::Adopted;
    }

    /// Who stands still in a real freeze.
    pub fn standing(&self, living: &JobSet) -> JobSet {
        match self.freeze.filter(|freeze| !freeze.precaution).map(|freeze| freeze.hold) {
            Some(Hold::All) => *living,
            Some(Hold::Jobs(jobs)) => jobs.and(living),
            Some(Hold::Nobody) | None => JobSet::default(),
        }
    }
}

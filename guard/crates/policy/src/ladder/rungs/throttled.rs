// SPDX-License-Identifier: Apache-2.0
//! Throttled: after a freeze those who made storage slow get their disk back bit by bit, and others run as they like; or batch as a
//! whole has less of what storage is short of ([`crate::squeeze`]). New jobs are let in while storage has slack. Left when nobody is
//! limited any more, or for a freeze.

use super::{escalate, freeze, make_room, make_way, Rung};
use crate::event::{Cause, Deed};
use crate::jobs::{Hold, JobSet};
use crate::ladder::memory::{Memory, Transition};
use crate::ladder::view::{About, View};
use crate::throttle::{Cut, Eased, Throttle};
use intf::state::NodeState;

/// A limit that did not help so often does harm: what the limited write back may hold up the journal of a filesystem that
/// others use too. They are then frozen and thawed as a whole.
const IN_VAIN: u32 = 2;

pub(super) struct Throttled;

impl Rung for Throttled {
    fn state(&self) -> NodeState {
        NodeState::Throttled
    }

    fn next(&self, memory: &mut Memory, view: &View) -> Option<Transition> {
        let healthy = view.healthy_for_ns.is_some_and(|healthy_ns| healthy_ns >= view.dwell_ns);
        let all_run = !memory.stages.hold().any();
        memory.admitting = view.against.is_none() && (memory.admitting || (healthy && all_run));
        if let Some(transition) = in_vain(memory, view) {
            return Some(transition);
        }
        match of_the_limited(view, memory) {
            Some((about, filesystem)) => make_room(memory, view)
                .or_else(|| cut(about, filesystem, memory, view))
                .or_else(|| make_way(memory, view)),
            None => escalate(memory, view).or_else(|| make_way(memory, view)).or_else(|| ease(memory, view)),
        }
    }
}

/// Clients have nothing of it that batch made way on a disk. Said where nobody else is limited.
fn in_vain(memory: &mut Memory, view: &View) -> Option<Transition> {
    let filesystem = memory.limits.end_in_vain(view.now_ns)?;
    let about = memory.limits.about(filesystem);
    (!memory.limited()).then(|| lift(Cause::BatchInnocent, about, memory))
}

fn lift(cause: Cause, about: About, memory: &Memory) -> Transition {
    Transition { to: memory.unlimited(), deed: Deed::Lift, hold: Hold::Nobody, ..freeze(cause, about) }
}

/// Evidence that does not call for a freeze at once: weak, on a disk that batch uses, and on which it is limited.
fn of_the_limited(view: &View, memory: &Memory) -> Option<(About, u16)> {
    let about = view.guilty.filter(|_| !view.ordered && !view.nothing_to_hold && view.strong.is_none())?;
    let filesystem = about.filesystem()?;
    // Who is not limited is not stopped by less for those who are.
    let theirs = |throttle: &&Throttle| throttle.may_be(&about.guilty.unwrap_or_default());
    memory.limits.throttles.of(filesystem).filter(theirs).map(|_| (about, filesystem))
}

fn cut(about: About, filesystem: u16, memory: &mut Memory, view: &View) -> Option<Transition> {
    let (step, patience_ns) = (memory.config.throttle_step, memory.config.guilty_timeout_ns);
    let jobs = memory.limits.throttles.of(filesystem).map(|throttle| throttle.jobs).unwrap_or_default();
    memory.limits.before_less();
    match memory.limits.throttles.cut(filesystem, step, patience_ns, view.now_ns) {
        Cut::Lately => None,
        Cut::Now => Some(tighten(Cause::BatchUsesDisk, about, jobs)),
        Cut::InVain => {
            if memory.limits.throttles.in_vain(filesystem) >= IN_VAIN {
                let until_ns = view.now_ns.saturating_add(memory.config.innocent_backoff_ns);
                memory.limits.give_up(filesystem, until_ns);
            }
            Some(freeze(Cause::ThrottleNotEnough, about))
        }
    }
}

fn tighten(cause: Cause, about: About, jobs: JobSet) -> Transition {
    Transition { to: NodeState::Throttled, deed: Deed::Tighten, hold: Hold::of(jobs), ..freeze(cause, about) }
}

fn ease(memory: &mut Memory, view: &View) -> Option<Transition> {
    let (config, now_ns) = (&memory.config, view.now_ns);
    match view.calm_for_ns {
        // That nothing is heard is not calm.
        _ if view.deaf.is_some() => {}
        Some(calm_ns) => {
            let eased = memory.limits.throttles.ease(calm_ns, config.throttle_step, view.dwell_ns, now_ns);
            if let Some(Eased { filesystem, jobs, slow }) = eased {
                return Some(tighten(Cause::ClientsNotice, About::slow(filesystem, slow), jobs));
            }
        }
        None => memory.limits.throttles.give_up(config.innocent_backoff_ns, now_ns),
    }
    (!memory.limited()).then(|| lift(Cause::ThrottleOver, About::default(), memory))
}

// SPDX-License-Identifier: Apache-2.0
//! Frozen: batch stands still, for a short lease as a precaution or until it has been calm. Always ends.
//!
//! A freeze begins with all jobs. When it is known who made storage slow the others run on; if it has not become better in
//! time then, all of them stand still again.

use super::{make_room, vacate, Rung};
use crate::event::{Cause, Deed};
use crate::jobs::Hold;
use crate::ladder::freeze::Freeze;
use crate::ladder::memory::{Memory, Transition};
use crate::ladder::view::{About, View};
use intf::state::NodeState;

/// Where only the guilty use the disk evidence is given so many times as long to fade.
const PATIENCE: u64 = 4;

pub(super) struct Frozen;

impl Rung for Frozen {
    fn state(&self) -> NodeState {
        NodeState::Frozen
    }

    fn next(&self, memory: &mut Memory, view: &View) -> Option<Transition> {
        // Frozen without a freeze cannot be; if it is, the way out is to thaw.
        let Some(freeze) = memory.freeze else { return Some(thaw(Cause::Calm)) };
        if let Some(transition) = make_room(memory, view) {
            return Some(transition);
        }
        if view.ordered || freeze.ordered {
            return ordered(&freeze, view);
        }
        match freeze.precaution {
            true => precaution(&freeze, memory, view),
            false => real(&freeze, memory, view),
        }
    }
}

pub(super) fn thaw(cause: Cause) -> Transition {
    // Not straight to open: new jobs wait until there has been slack. `Memory::apply` knows who stays limited.
    let about = About::default();
    Transition { to: NodeState::Closed, cause, deed: Deed::Thaw, precaution: false, about, hold: Hold::Nobody }
}

/// Whatever else there is: all of them, until the operator has had his time. What he leaves behind is judged afresh.
fn ordered(freeze: &Freeze, view: &View) -> Option<Transition> {
    let all = |deed| Some(still(Cause::Ordered, deed, Hold::All));
    match (view.ordered, freeze.hold) {
        (false, _) => Some(thaw(Cause::OrderOver)),
        (true, _) if freeze.precaution => all(Deed::Extend),
        (true, Hold::All) if freeze.ordered => None,
        (true, _) => all(Deed::Widen),
    }
}

/// It may last for longer than a request: the queue that batch left behind has to drain before a freeze can show that it
/// helped, and a disk that serves one request in 8 ms takes long for what a single hog has in flight.
fn precaution(freeze: &Freeze, memory: &Memory, view: &View) -> Option<Transition> {
    if let Some((cause, about)) = view.serious() {
        return Some(Transition { about, ..still(cause, Deed::Extend, freeze.hold) });
    }
    let end = |cause| Transition { to: freeze.before, precaution: true, ..thaw(cause) };
    if view.calm_for_ns.is_some() {
        return Some(end(view.deaf.unwrap_or(Cause::Calm)));
    }
    let lasted_ns = view.now_ns.saturating_sub(freeze.since_ns);
    (lasted_ns >= memory.config.precaution_ns).then(|| end(Cause::PrecautionOver))
}

/// It stays frozen.
fn still(cause: Cause, deed: Deed, hold: Hold) -> Transition {
    Transition { to: NodeState::Frozen, deed, hold, ..thaw(cause) }
}

fn real(freeze: &Freeze, memory: &mut Memory, view: &View) -> Option<Transition> {
    if memory.config.dry_run {
        return dry(freeze, memory, view);
    }
    memory.blame(view);
    memory.limit(view);
    // Whoever cannot run here without harm may as well run elsewhere.
    let hopeless = memory.stood.for_at_least(memory.config.freeze_max_ns).and(&view.living);
    if !hopeless.is_empty() {
        return Some(vacate(Cause::StoodTooLong, About::default(), Hold::Jobs(hopeless)));
    }
    if let Some(transition) = who(freeze, memory, view) {
        return Some(transition);
    }
    let all = freeze.hold == Hold::All;
    let evidence = view.strong.is_some_and(|(cause, _)| cause == Cause::StrongEvidence);
    let soon = all && evidence && !memory.harms_otherwise(freeze);
    if soon && freeze.alone.shown(memory.config.effect_timeout_ns, view.now_ns) {
        memory.limits.fill(view.slow & freeze.alone.waited());
        memory.acquit(view.accused, view.slow, view.now_ns);
        return Some(with_evidence(Cause::BatchInnocent, view));
    }
    let lasted_ns = view.now_ns.saturating_sub(freeze.since_ns);
    if lasted_ns >= memory.config.freeze_max_ns {
        let theirs = freeze.blamed.and(&view.living);
        if view.held_work && !theirs.is_empty() {
            return Some(vacate(Cause::StoodTooLong, About::default(), Hold::Jobs(theirs)));
        }
        // Without the backoff the same evidence would freeze again at the next tick, and so for ever.
        memory.acquit(freeze.accused, freeze.slow, view.now_ns);
        return Some(with_evidence(Cause::FreezeMax, view));
    }
    if lasted_ns < freeze.hold_ns {
        return None;
    }
    if memory.eases(view) {
        return None;
    }
    if let Some(calm_for_ns) = view.calm_for_ns {
        return (calm_for_ns >= view.dwell_ns).then(|| thaw(view.deaf.unwrap_or(Cause::Calm)));
    }
    if all && view.now_ns.saturating_sub(freeze.calm_ns) >= memory.config.effect_timeout_ns {
        // What is slow now, without batch; what was slow before may well have been its doing.
        memory.acquit(view.accused, view.slow, view.now_ns);
        return Some(with_evidence(Cause::BatchInnocent, view));
    }
    None
}

/// Nobody stands still: who would have is known, and the end is when it is calm. That it does not become calm proves nothing.
fn dry(freeze: &Freeze, memory: &mut Memory, view: &View) -> Option<Transition> {
    let lasted_ns = view.now_ns.saturating_sub(freeze.since_ns);
    if lasted_ns >= memory.config.freeze_max_ns {
        memory.acquit(freeze.accused, freeze.slow, view.now_ns);
        return Some(with_evidence(Cause::FreezeMax, view));
    }
    let calm = view.calm_for_ns.is_some_and(|calm_ns| calm_ns >= view.dwell_ns);
    let over = (calm && lasted_ns >= freeze.hold_ns).then(|| thaw(view.deaf.unwrap_or(Cause::Calm)));
    over.or_else(|| who(freeze, memory, view).filter(|transition| transition.deed == Deed::Narrow))
}

fn with_evidence(cause: Cause, view: &View) -> Transition {
    let about = view.strong.map(|(_, about)| about).or(view.weak).unwrap_or_default();
    Transition { about, ..thaw(cause) }
}

/// Who is to stand still, if not those who do.
pub(super) fn who(freeze: &Freeze, memory: &Memory, view: &View) -> Option<Transition> {
    let timeout_ns = memory.config.guilty_timeout_ns;
    let held_ns = view.now_ns.saturating_sub(freeze.hold_since_ns);
    match freeze.hold {
        Hold::Jobs(_) => {
            // What they had in flight takes its time, so does what clients had to wait for meanwhile, and evidence too: that it
            // is still there says little unless others use the disk as well. Requests that hang are given no time.
            let stuck = matches!(view.strong, Some((Cause::Stuck, _)));
            let elsewhere = view.strong.is_some_and(|(_, about)| about.filesystem() != freeze.filesystem);
            let others = view.others_use_it || elsewhere;
            let no_better = view.strong.is_some() && others && held_ns >= timeout_ns;
            // Evidence that comes after it was calm is somebody else's, if somebody else is there: as from any state in which jobs run.
            // So is what stays, where it is known who of those that run does it: then those who stand still are no less guilty for it.
            let calm_since = freeze.calm_ns > freeze.hold_since_ns;
            if (calm_since && others) || (no_better && !stuck && view.blames_another(&freeze.guilty)) {
                if let Some((cause, about)) = view.serious() {
                    return Some(Transition { about, ..still(cause, Deed::Widen, Hold::All) });
                }
            }
            let slow_ns = view.now_ns.saturating_sub(freeze.hold_since_ns.max(freeze.calm_ns).max(freeze.worked_ns));
            let slow = view.strong.is_some() || (view.calm_for_ns.is_none() && !calm_since);
            // What they had written before is theirs: the kernel may be busy with it for long, and only after it does it say anything
            // that it is still slow.
            let not_good = slow && slow_ns >= PATIENCE * timeout_ns;
            let about = with_evidence(Cause::GuiltyNotEnough, view).about;
            let widen = Transition { about, ..still(Cause::GuiltyNotEnough, Deed::Widen, Hold::All) };
            (stuck || no_better || not_good).then_some(widen)
        }
        Hold::All if memory.config.guilty_first && !freeze.widened && held_ns < timeout_ns => {
            let (about, jobs) = view.guilty_few(&freeze.guilty).filter(|_| view.now_ns >= memory.all_until_ns)?;
            Some(Transition { about, ..still(Cause::Guilty, Deed::Narrow, Hold::Jobs(jobs)) })
        }
        _ => None,
    }
}

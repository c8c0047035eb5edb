// SPDX-License-Identifier: Apache-2.0
//! One file per rung: when to leave it, and for where. To add one: its file here, and its line in `RUNGS`.

mod closed;
mod emergency;
mod frozen;
mod open;
mod throttled;
mod vacating;

use super::memory::{Memory, Transition};
use super::view::{About, View};
use crate::event::{Cause, Deed};
use crate::jobs::Hold;
use crate::taker::Sign;
use intf::state::NodeState;

/// A state of the ladder that can be entered.
pub(super) trait Rung: Sync {
    /// Its state.
    fn state(&self) -> NodeState;
    /// What happens at this tick, if anything.
    fn next(&self, memory: &mut Memory, view: &View) -> Option<Transition>;
}

/// All rungs.
static RUNGS: [&dyn Rung; 6] =
    [&open::Open, &closed::Closed, &throttled::Throttled, &frozen::Frozen, &vacating::Vacating, &emergency::Emergency];

/// What the rung of the present state says.
pub(super) fn next(memory: &mut Memory, view: &View) -> Option<Transition> {
    RUNGS.iter().find(|rung| rung.state() == memory.state).and_then(|rung| rung.next(memory, view))
}

fn freeze(cause: Cause, about: About) -> Transition {
    Transition { to: NodeState::Frozen, cause, deed: Deed::Freeze, precaution: false, about, hold: Hold::All }
}

/// All jobs leave.
fn evacuate(cause: Cause, about: About) -> Transition {
    Transition { to: NodeState::Emergency, deed: Deed::Evacuate, ..freeze(cause, about) }
}

/// These leave.
fn vacate(cause: Cause, about: About, who: Hold) -> Transition {
    Transition { to: NodeState::Vacating, deed: Deed::Vacate, hold: who, ..freeze(cause, about) }
}

/// From any state in which nobody leaves: a gauge says that jobs have to go. All of them, or one at a time: whoever took most of the
/// memory that is short or waits most for it, else the youngest, who has the least to lose. Not if those who left before did not help.
fn make_room(memory: &mut Memory, view: &View) -> Option<Transition> {
    if view.no_jobs || memory.config.dry_run {
        return None;
    }
    if let Some((cause, about)) = view.danger {
        return Some(evacuate(cause, about));
    }
    let Some((about, read_ns)) = view.crowded else {
        memory.room.kept(memory.config.innocent_backoff_ns, view.now_ns);
        return None;
    };
    let (cause, about) = match view.taker.map(|taker| taker.sign) {
        Some(Sign::Growth { .. }) => (Cause::MemoryGrowth, about.because_of(view.taker)),
        Some(Sign::Wait { .. }) => (Cause::MemoryWait, about.because_of(view.taker)),
        None => (Cause::GaugeAbove, about),
    };
    let chosen = view.taker.map(|taker| taker.place).or(view.youngest);
    let chosen = chosen.map_or(Hold::All, |place| Hold::Jobs([place].into_iter().collect()));
    let backoff_ns = memory.config.innocent_backoff_ns;
    let settled = memory.settled(read_ns);
    let helps = memory.room.ask(about.value(), settled, backoff_ns, view.now_ns);
    helps.then(|| vacate(cause, about, chosen))
}

/// From any state in which jobs run: clients fill a disk, and batch takes a part of it. It is no matter of guilt.
fn make_way(memory: &mut Memory, view: &View) -> Option<Transition> {
    if let Some((filesystem, jobs, part)) = view.taken.filter(|_| !memory.config.dry_run) {
        memory.make_way(filesystem, jobs, part, view.now_ns);
    }
    // Those who do it may have been limited before.
    let (filesystem, jobs) = memory.limits.throttles.given_way()?;
    let about = memory.limits.about(filesystem);
    let hold = Hold::of(jobs);
    Some(Transition { to: NodeState::Throttled, deed: Deed::GiveWay, hold, ..freeze(Cause::ClientsFillDisk, about) })
}

/// From any state in which jobs run: evidence that calls for a freeze. Of all jobs at first: that is one write, and who of
/// them is to blame is known a moment later.
fn escalate(memory: &mut Memory, view: &View) -> Option<Transition> {
    if let Some(transition) = make_room(memory, view) {
        return Some(transition);
    }
    if view.ordered {
        return Some(freeze(Cause::Ordered, About::default()));
    }
    if view.nothing_to_hold {
        return None;
    }
    if let Some((cause, about)) = view.strong {
        return Some(freeze(cause, about));
    }
    let about = view.weak.filter(|_| memory.armed)?;
    if let Some(about) = view.telling() {
        return Some(freeze(Cause::BatchUsesDisk, about));
    }
    // A precaution that helps hides the evidence that would have extended it. What comes back at once was batch's doing.
    if memory.precaution_on_trial() {
        return Some(freeze(Cause::EvidenceReturned, about));
    }
    let allowed = !memory.counters.weak_suspended;
    allowed.then_some(Transition { precaution: true, ..freeze(Cause::WeakEvidence, about) })
}

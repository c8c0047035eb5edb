// SPDX-License-Identifier: Apache-2.0
//! One file per rung: when to leave it, and for where. To add one: its file here, and its line in `RUNGS`.

mod closed;
mod frozen;
mod open;
mod throttled;

use super::memory::{Memory, Transition};
use super::view::{About, View};
use crate::event::{Cause, Deed};
use crate::jobs::Hold;
use intf::state::NodeState;

/// A state of the ladder that can be entered.
pub(super) trait Rung: Sync {
    /// Its state.
    fn state(&self) -> NodeState;
    /// What happens at this tick, if anything.
    fn next(&self, memory: &mut Memory, view: &View) -> Option<Transition>;
}

/// All rungs.
static RUNGS: [&dyn Rung; 4] = [&open::Open, &closed::Closed, &throttled::Throttled, &frozen::Frozen];

/// The rung of a state; a state without one is left for the state that lets nothing start.
pub(super) fn next(memory: &mut Memory, view: &View) -> Option<Transition> {
    match RUNGS.iter().find(|r| r.state() == memory.state) {
        Some(rung) => rung.next(memory, view),
        None => closed::Closed.next(memory, view),
    }
}

fn freeze(cause: Cause, about: About) -> Transition {
    Transition { to: NodeState::Frozen, cause, deed: Deed::Freeze, precaution: false, about, hold: Hold::All }
}

/// From any state in which jobs run: evidence that calls for a freeze. Of all jobs at first: that is one write, and who of
/// them is to blame is known a moment later.
fn escalate(memory: &Memory, view: &View) -> Option<Transition> {
    if view.ordered {
        return Some(freeze(Cause::Ordered, About::default()));
    }
    if view.no_jobs {
        return None;
    }
    if let Some((cause, about)) = view.strong {
        return Some(freeze(cause, about));
    }
    let about = view.weak.filter(|_| memory.armed)?;
    if let Some(about) = view.guilty {
        return Some(freeze(Cause::BatchUsesDisk, about));
    }
    // A precaution that helps hides the evidence that would have extended it. What comes back at once was batch's doing.
    if memory.precaution_on_trial() {
        return Some(freeze(Cause::EvidenceReturned, about));
    }
    let allowed = !memory.counters.weak_suspended;
    allowed.then_some(Transition { precaution: true, ..freeze(Cause::WeakEvidence, about) })
}

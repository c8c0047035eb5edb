// SPDX-License-Identifier: Apache-2.0
//! Vacating: some jobs leave through HTCondor, which queues them again; until they are gone they stand still. Left when they are,
//! or for an emergency when that takes too long.

use super::frozen::{thaw, who};
use super::{evacuate, Rung};
use crate::event::{Cause, Deed};
use crate::jobs::Hold;
use crate::ladder::freeze::Freeze;
use crate::ladder::memory::{Memory, Transition};
use crate::ladder::view::{About, View};
use intf::state::NodeState;

pub(super) struct Vacating;

fn calm(freeze: &Freeze, view: &View) -> bool {
    let held_ns = view.now_ns.saturating_sub(freeze.since_ns);
    held_ns >= freeze.hold_ns && view.calm_for_ns.is_some_and(|calm_ns| calm_ns >= view.dwell_ns)
}

/// Somebody else stands still for what he did, and not for long enough yet.
fn others_wait(freeze: &Freeze, view: &View) -> bool {
    freeze.hold.of_living(&view.living).any() && !calm(freeze, view)
}

impl Rung for Vacating {
    fn state(&self) -> NodeState {
        NodeState::Vacating
    }

    fn next(&self, memory: &mut Memory, view: &View) -> Option<Transition> {
        // Vacating without a freeze cannot be; if it is, the way out is to thaw.
        let Some(freeze) = memory.freeze else { return Some(thaw(Cause::Left)) };
        let gone = view.no_jobs || memory.leave.who.of_living(&view.living) == Hold::Nobody;
        if gone && !view.no_jobs && (view.ordered || others_wait(&freeze, view)) {
            // Nobody moves for a moment in between.
            return Some(Transition {
                to: NodeState::Frozen,
                deed: Deed::None,
                hold: freeze.hold,
                ..thaw(Cause::Left)
            });
        }
        if gone {
            return Some(thaw(Cause::Left));
        }
        if let Some((cause, about)) = view.danger {
            return Some(evacuate(cause, about));
        }
        if view.now_ns.saturating_sub(memory.leave.since_ns) >= memory.config.vacate_deadline_ns {
            return Some(evacuate(Cause::VacateOverdue, About::default()));
        }
        let widen = match (view.ordered, freeze.hold) {
            (true, Hold::Jobs(_)) => Some(Transition { deed: Deed::Widen, hold: Hold::All, ..thaw(Cause::Ordered) }),
            // The others need not wait for them.
            (false, Hold::All) if memory.leave.who != Hold::All && calm(&freeze, view) => {
                Some(Transition { deed: Deed::Narrow, hold: memory.leave.who, ..thaw(Cause::Calm) })
            }
            _ => who(&freeze, memory, view).filter(|transition| transition.deed == Deed::Widen),
        };
        widen.map(|transition| Transition { to: NodeState::Vacating, ..transition })
    }
}

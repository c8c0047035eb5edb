// SPDX-License-Identifier: Apache-2.0
//! Emergency: every job leaves, and none comes back until an operator says so or storage has been well for long. What HTCondor
//! does not end in time is ended by force.

use super::frozen::thaw;
use super::{evacuate, Rung};
use crate::event::Cause;
use crate::jobs::Hold;
use crate::ladder::memory::{Memory, Transition};
use crate::ladder::view::{About, View};
use intf::state::NodeState;

pub(super) struct Emergency;

impl Rung for Emergency {
    fn state(&self) -> NodeState {
        NodeState::Emergency
    }

    fn next(&self, memory: &mut Memory, view: &View) -> Option<Transition> {
        if view.resumed {
            return Some(thaw(Cause::Resumed));
        }
        if view.now_ns.saturating_sub(memory.leave.since_ns) >= memory.config.vacate_deadline_ns {
            memory.leave.overdue = Hold::All;
        }
        if view.no_jobs && memory.freeze.is_some() {
            // Nobody is left who would have to stand still.
            return Some(Transition { to: NodeState::Emergency, ..thaw(Cause::Left) });
        }
        if !view.no_jobs && memory.freeze.is_none() {
            return Some(evacuate(memory.reason, About::default()));
        }
        let quiet = view.healthy_for_ns.is_some_and(|healthy_ns| healthy_ns >= memory.config.emergency_quiet_ns);
        (quiet && view.no_jobs).then(|| thaw(Cause::Quiet))
    }
}

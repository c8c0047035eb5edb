// SPDX-License-Identifier: Apache-2.0
//! Closed: running jobs are untouched, none start. Left upwards on evidence, downwards when nothing has spoken against
//! new jobs for the dwell time.

use super::{escalate, make_way, Rung};
use crate::event::{Cause, Deed};
use crate::jobs::Hold;
use crate::ladder::memory::{Memory, Transition};
use crate::ladder::view::{About, View};
use intf::state::NodeState;

pub(super) struct Closed;

impl Rung for Closed {
    fn state(&self) -> NodeState {
        NodeState::Closed
    }

    fn next(&self, memory: &mut Memory, view: &View) -> Option<Transition> {
        escalate(memory, view).or_else(|| make_way(memory, view)).or_else(|| {
            // Who waits for his turn to run again comes before who is new.
            let all_run = !memory.stages.hold().any();
            (view.healthy_for_ns? >= view.dwell_ns && all_run).then_some(Transition {
                to: NodeState::Open,
                cause: Cause::Slack,
                deed: Deed::Open,
                precaution: false,
                about: About::default(),
                hold: Hold::Nobody,
            })
        })
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Open: batch has its full share. Left at once for whatever speaks against it.

use super::{escalate, make_way, Rung};
use crate::event::Deed;
use crate::jobs::Hold;
use crate::ladder::memory::{Memory, Transition};
use crate::ladder::view::View;
use intf::state::NodeState;

pub(super) struct Open;

impl Rung for Open {
    fn state(&self) -> NodeState {
        NodeState::Open
    }

    fn next(&self, memory: &mut Memory, view: &View) -> Option<Transition> {
        escalate(memory, view).or_else(|| make_way(memory, view)).or_else(|| {
            let (cause, about) = view.against?;
            Some(Transition {
                to: NodeState::Closed,
                cause,
                deed: Deed::Close,
                precaution: false,
                about,
                hold: Hold::Nobody,
            })
        })
    }
}

// SPDX-License-Identifier: Apache-2.0
//! The decisions of one step.

use crate::event::Event;

/// A short list that needs no allocation. What does not fit is counted.
#[derive(Clone, Debug, Default)]
pub struct Events {
    items: [Option<Event>; 8],
    /// Events that did not fit.
    pub dropped: u32,
}

impl Events {
    /// Adds one.
    pub fn push(&mut self, event: Event) {
        match self.items.iter_mut().find(|i| i.is_none()) {
            Some(free) => *free = Some(event),
            None => self.dropped += 1,
        }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Event> {
        self.items.iter().flatten()
    }

    /// No decision?
    pub fn is_empty(&self) -> bool {
        self.items[0].is_none()
    }

    /// How many more fit.
    pub(super) fn room(&self) -> usize {
        self.items.iter().filter(|i| i.is_none()).count()
    }
}

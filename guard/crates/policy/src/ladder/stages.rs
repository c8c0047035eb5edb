// SPDX-License-Identifier: Apache-2.0
//! Who stood still does not come back all at once: the oldest jobs first, they have the most to lose.

use crate::jobs::{Hold, JobSet};

/// They all run after so many stages,
const STAGES: usize = 5;
/// so far apart.
const APART_NS: u64 = 1_000_000_000;

/// Jobs that still wait for their turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stages {
    left: JobSet,
    each: usize,
    next_ns: u64,
}

impl Stages {
    /// These have stood still until now.
    pub fn begin(&mut self, who: JobSet, now_ns: u64) {
        *self = Stages { left: who, each: who.len().div_ceil(STAGES), next_ns: now_ns };
    }

    /// Who waits is held by another freeze, or leaves.
    pub fn end(&mut self) {
        *self = Stages::default();
    }

    /// Whose turn it is now, if it is anybody's.
    pub fn next(&mut self, oldest_first: &[usize], now_ns: u64) -> Option<JobSet> {
        if self.left.is_empty() || now_ns < self.next_ns {
            return None;
        }
        self.next_ns = now_ns.saturating_add(APART_NS);
        let turn: JobSet =
            oldest_first.iter().copied().filter(|place| self.left.contains(*place)).take(self.each.max(1)).collect();
        if turn.is_empty() {
            // They have ended, or nobody knows them.
            self.end();
            return None;
        }
        turn.iter().for_each(|place| self.left.remove(place));
        Some(turn)
    }

    /// Who waits.
    pub fn hold(&self) -> Hold {
        Hold::of(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_first_and_all_of_them_after_five_stages() {
        let order: Vec<usize> = (0..12).rev().collect();
        let mut stages = Stages::default();
        assert_eq!(stages.next(&order, 5), None);
        stages.begin((0..12).collect(), 10);
        assert_eq!(stages.next(&order, 10), Some((9..12).collect()));
        assert_eq!((stages.next(&order, 10 + APART_NS - 1), stages.hold()), (None, Hold::Jobs((0..9).collect())));
        for stage in 1..4 {
            assert!(stages.next(&order, 10 + stage * APART_NS).is_some_and(|turn| turn.len() == 3));
        }
        assert_eq!(stages.hold(), Hold::Nobody);
    }

    #[test]
    fn who_has_ended_is_not_waited_for() {
        let mut stages = Stages::default();
        stages.begin([1, 2].into_iter().collect(), 10);
        assert_eq!(stages.next(&[1], 10), Some([1].into_iter().collect()));
        assert_eq!((stages.next(&[1], 10 + APART_NS), stages.hold()), (None, Hold::Nobody));
    }
}

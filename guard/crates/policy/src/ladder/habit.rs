// SPDX-License-Identifier: Apache-2.0
//! What batch's part in the work of each disk is while clients use it and all is well: all the time, or again and again. Evidence that
//! comes while batch does no more than that says little of it: requests of clients that wait for each other are slow together now and
//! then, whatever batch does.

use intf::segment::layout::MAX_FILESYSTEMS;

use crate::evaluator::FilesystemLoad;

/// What it does for so long is usual: long beside the moment until an attack is noticed.
const LEARNED_NS: f64 = 10e9;
/// And stays so for so long after the last time.
const FORGOTTEN_NS: f64 = 600e9;
/// Half as much again as usual is not usual; of a disk that batch uses most of, half of what is left to others.
const UNUSUAL: f32 = 0.5;

/// Batch's share of each disk, as it usually is.
#[derive(Clone, Debug)]
pub(super) struct Habit {
    shares: [f32; MAX_FILESYSTEMS],
    noted_ns: u64,
}

impl Habit {
    /// Nothing is usual yet: whatever batch does is new.
    pub fn new(now_ns: u64) -> Habit {
        Habit { shares: [0.0; MAX_FILESYSTEMS], noted_ns: now_ns }
    }

    /// The filesystems are others now.
    pub fn forget(&mut self) {
        self.shares = [0.0; MAX_FILESYSTEMS];
    }

    /// At every tick; `well` = all is calm, and nobody stands still. Where no client is there nobody could be harmed.
    pub fn note(&mut self, loads: &[FilesystemLoad], shares: &[f32], well: bool, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(std::mem::replace(&mut self.noted_ns, now_ns));
        if !well {
            return;
        }
        let [more, less] = [LEARNED_NS, FORGOTTEN_NS].map(|over_ns| (passed_ns as f64 / over_ns).min(1.0) as f32);
        for ((usual, share), load) in self.shares.iter_mut().zip(shares).zip(loads) {
            if share.is_finite() && (load.slow_end.requests > 0.0 || load.storage_in_flight > 0) {
                *usual += if share > usual { more } else { less } * (share - *usual);
            }
        }
    }

    /// Does batch do more there than it usually does?
    pub fn is_unusual(&self, filesystem: usize, share: f32) -> bool {
        self.shares.get(filesystem).is_none_or(|usual| share >= usual + UNUSUAL * usual.min(1.0 - usual))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// Somebody else's requests are on their way.
    fn used() -> FilesystemLoad {
        FilesystemLoad { storage_in_flight: 1, ..FilesystemLoad::default() }
    }

    #[test]
    fn who_does_most_of_the_work_can_do_unusually_much_too() {
        let mut habit = Habit::new(0);
        (1..=600).for_each(|second| habit.note(&[used()], &[0.8], true, second * S));
        assert!(!habit.is_unusual(0, 0.85) && habit.is_unusual(0, 0.91));
        (601..=1200).for_each(|second| habit.note(&[used()], &[1.0], true, second * S));
        assert!(!habit.is_unusual(0, 0.99));
    }

    #[test]
    fn what_it_does_again_and_again_is_usual_and_what_it_did_an_hour_ago_is_not() {
        let mut habit = Habit::new(0);
        for second in 1..=600 {
            habit.note(&[used()], &[if second / 60 % 2 == 0 { 0.66 } else { 0.0 }], true, second * S);
        }
        assert!(!habit.is_unusual(0, 0.7) && habit.is_unusual(0, 0.9));
        (601..=4200).for_each(|second| habit.note(&[used()], &[0.05], true, second * S));
        assert!(habit.is_unusual(0, 0.3));
    }

    #[test]
    fn what_batch_does_for_minutes_beside_clients_is_usual() {
        let mut habit = Habit::new(0);
        let used = used();
        let loads = [used, FilesystemLoad::default(), used, used];
        assert!(habit.is_unusual(0, 0.2) && habit.is_unusual(MAX_FILESYSTEMS, 0.2));
        for second in 1..=180 {
            habit.note(&loads, &[0.33, 0.33, f32::NAN, 0.0], true, second * S);
        }
        assert!(!habit.is_unusual(0, 0.33) && habit.is_unusual(0, 0.5));
        for untold in 1..4 {
            assert!(habit.is_unusual(untold, 0.2), "no client, not known, next to nothing: {untold}");
        }
        // An attack does not become usual, neither before it is found nor while it is dealt with.
        habit.note(&loads, &[1.0; 4], true, 182 * S);
        (183..600).for_each(|second| habit.note(&loads, &[1.0; 4], false, second * S));
        assert!(habit.is_unusual(0, 0.7) && habit.is_unusual(3, 0.3));
        habit.forget();
        assert!(habit.is_unusual(0, 0.2));
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What batch's part in the work of each disk is while clients use it and all is well: all the time, or again and again. Evidence that
//! comes while batch does no more than that says little of it: requests of clients that wait for each other are slow together now and
//! then, whatever batch does.

use intf::segment::layout::MAX_FILESYSTEMS;

use crate::bits::bit;
use crate::evaluator::FilesystemLoad;

/// What it does for so long is usual: long beside the moment until an attack is noticed.
const LEARNED_NS: f64 = 10e9;
/// And stays so for so long after the last time.
const FORGOTTEN_NS: f64 = 600e9;
/// So long after it there must have been no evidence: the beginnings of attacks are not to become usual.
const CONFIRMED_NS: u64 = 5_000_000_000;
/// Half as much again as usual is not usual; of a disk that batch uses most of, half of what is left to others.
const UNUSUAL: f32 = 0.5;
/// And not less than can be told apart.
const LEAST: f32 = 0.05;

type Shares = [f32; MAX_FILESYSTEMS];

/// Batch's share of each disk, as it usually is.
#[derive(Clone, Debug)]
pub(super) struct Habit {
    usual: Shares,
    /// What becomes usual when the calm has lasted, and what after that.
    waiting: Shares,
    learned: Shares,
    /// Since when it has lasted, or since the last time that something became usual.
    since_ns: u64,
    noted_ns: u64,
}

impl Habit {
    /// Nothing is usual yet: whatever batch does is new.
    pub fn new(now_ns: u64) -> Habit {
        let nothing = [0.0; MAX_FILESYSTEMS];
        Habit { usual: nothing, waiting: nothing, learned: nothing, since_ns: now_ns, noted_ns: now_ns }
    }

    /// The filesystems are others now.
    pub fn forget(&mut self) {
        *self = Habit::new(self.noted_ns);
    }

    /// At every tick; `well` = all is calm, and nobody stands still, but on the filesystems of `excused` nobody knows. Where no client is
    /// there nobody could be harmed.
    pub fn note(&mut self, loads: &[FilesystemLoad], shares: &[f32], well: bool, excused: u128, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(std::mem::replace(&mut self.noted_ns, now_ns));
        if !well {
            (self.waiting, self.learned, self.since_ns) = (self.usual, self.usual, now_ns);
            return;
        }
        if now_ns.saturating_sub(self.since_ns) >= CONFIRMED_NS {
            (self.usual, self.waiting, self.since_ns) = (self.waiting, self.learned, now_ns);
        }
        let [more, less] = [LEARNED_NS, FORGOTTEN_NS].map(|over_ns| (passed_ns as f64 / over_ns).min(1.0) as f32);
        for (filesystem, ((learned, share), load)) in self.learned.iter_mut().zip(shares).zip(loads).enumerate() {
            let used = load.slow_end.requests > 0.0 || load.storage_in_flight > 0;
            if share.is_finite() && used && excused & bit(filesystem) == 0 {
                *learned += if share > learned { more } else { less } * (share - *learned);
            }
        }
    }

    /// Does batch do more there than it usually does?
    pub fn is_unusual(&self, filesystem: usize, share: f32) -> bool {
        let much = |usual: &f32| (UNUSUAL * usual.min(1.0 - usual)).max(LEAST);
        self.usual.get(filesystem).is_none_or(|usual| share >= usual + much(usual))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const CALM: u128 = 0;

    /// Somebody else's requests are on their way.
    fn used() -> FilesystemLoad {
        FilesystemLoad { storage_in_flight: 1, ..FilesystemLoad::default() }
    }

    /// Batch has this share of a disk that clients use, in each of these seconds.
    fn does(habit: &mut Habit, seconds: std::ops::RangeInclusive<u64>, share: impl Fn(u64) -> f32) {
        seconds.for_each(|second| habit.note(&[used()], &[share(second)], true, CALM, second * S));
    }

    #[test]
    fn who_does_most_of_the_work_can_do_unusually_much_too() {
        let mut habit = Habit::new(0);
        does(&mut habit, 1..=600, |_| 0.8);
        assert!(!habit.is_unusual(0, 0.85) && habit.is_unusual(0, 0.91));
        does(&mut habit, 601..=1200, |_| 1.0);
        assert!(!habit.is_unusual(0, 1.0));
    }

    #[test]
    fn what_it_does_again_and_again_is_usual_and_what_it_did_an_hour_ago_is_not() {
        let mut habit = Habit::new(0);
        does(&mut habit, 1..=600, |second| if second / 60 % 2 == 0 { 0.66 } else { 0.0 });
        assert!(!habit.is_unusual(0, 0.7) && habit.is_unusual(0, 0.9));
        does(&mut habit, 601..=4200, |_| 0.05);
        assert!(habit.is_unusual(0, 0.3));
    }

    #[test]
    fn the_beginnings_of_attacks_do_not_become_usual() {
        let mut habit = Habit::new(0);
        for second in 1..=600 {
            // Two seconds of each twenty are calm still while it attacks, and one is not any more.
            let (share, well) = (if second % 20 < 3 { 1.0 } else { 0.1 }, second % 20 != 2);
            habit.note(&[used()], &[share], well, CALM, second * S);
        }
        assert!(habit.is_unusual(0, 0.2));
    }

    #[test]
    fn what_batch_does_for_minutes_beside_clients_is_usual() {
        let mut habit = Habit::new(0);
        let loads = [used(), FilesystemLoad::default(), used(), used(), used()];
        assert!(habit.is_unusual(0, 0.2) && habit.is_unusual(MAX_FILESYSTEMS, 0.2));
        for second in 1..=180 {
            habit.note(&loads, &[0.33, 0.33, f32::NAN, 0.0, 0.33], true, bit(4), second * S);
        }
        assert!(!habit.is_unusual(0, 0.33) && habit.is_unusual(0, 0.5));
        for untold in 1..5 {
            assert!(habit.is_unusual(untold, 0.2), "no client, not known, next to nothing, known to be slow: {untold}");
        }
        // An attack does not become usual while it is dealt with either.
        (181..600).for_each(|second| habit.note(&loads, &[1.0; 5], false, CALM, second * S));
        assert!(habit.is_unusual(0, 0.6) && habit.is_unusual(3, 0.2));
        habit.forget();
        assert!(habit.is_unusual(0, 0.2));
    }
}

// SPDX-License-Identifier: Apache-2.0
//! How many requests there were in the last while, and how many of them were slow: a ring of counts that never grows.

/// A window is forgotten bit by bit, in so many steps.
const STEPS: usize = 15;

/// Requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// All of them.
    pub requests: u64,
    /// Those over the threshold.
    pub over: u64,
}

/// The last `length_ns`, and up to a fifteenth of it more.
#[derive(Clone, Debug)]
pub(super) struct Window {
    length_ns: u64,
    /// One for what is being counted now, and those of the steps before it.
    slots: [Count; STEPS + 1],
    at: usize,
    sum: Count,
    /// When the next slot begins (CLOCK_MONOTONIC).
    turn_ns: u64,
    began_ns: u64,
}

impl Window {
    /// Empty since `now_ns`.
    pub fn new(length_ns: u64, now_ns: u64) -> Window {
        let slots = [Count::default(); STEPS + 1];
        let mut window = Window { length_ns, slots, at: 0, sum: Count::default(), turn_ns: 0, began_ns: now_ns };
        window.turn_ns = now_ns.saturating_add(window.step_ns());
        window
    }

    fn step_ns(&self) -> u64 {
        (self.length_ns / STEPS as u64).max(1)
    }

    /// Forgets what is too old, and adds these.
    pub fn add(&mut self, count: Count, now_ns: u64) {
        for _ in 0..self.slots.len() {
            if now_ns < self.turn_ns {
                break;
            }
            self.turn_ns = self.turn_ns.saturating_add(self.step_ns());
            self.at = (self.at + 1) % self.slots.len();
            let old = std::mem::take(&mut self.slots[self.at]);
            self.sum.requests -= old.requests;
            self.sum.over -= old.over;
        }
        // After a longer gap nothing is left of what was before.
        if now_ns >= self.turn_ns {
            self.turn_ns = now_ns.saturating_add(self.step_ns());
        }
        for sum in [&mut self.slots[self.at], &mut self.sum] {
            sum.requests += count.requests;
            sum.over += count.over;
        }
    }

    /// How many were slow.
    pub fn over(&self) -> f64 {
        self.sum.over as f64
    }

    /// How many there would have been at this rate in the whole window: what was before the guard looked is taken to have been as
    /// busy, and well.
    pub fn requests(&self, now_ns: u64) -> f64 {
        let seen_ns = now_ns.saturating_sub(self.began_ns).clamp(1, self.length_ns.max(1));
        self.sum.requests as f64 * (self.length_ns as f64 / seen_ns as f64).max(1.0)
    }
}

#[cfg(test)]
impl Window {
    pub fn sum(&self) -> Count {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Count = Count { requests: 2, over: 1 };

    #[test]
    fn it_holds_its_length_and_at_most_a_step_more() {
        let mut window = Window::new(150, 1000);
        window.add(ONE, 1000);
        for now in 1001..=1150 {
            window.add(Count::default(), now);
            assert_eq!(window.over(), 1.0, "{now}");
        }
        window.add(Count::default(), 1160);
        assert_eq!(window.sum, Count::default());
        for now in 1160..2000 {
            window.add(ONE, now);
        }
        assert!((150..=160).contains(&window.sum.over) && window.sum.requests == 2 * window.sum.over, "{window:?}");
        let slots = window.slots.iter().map(|slot| slot.over).sum::<u64>();
        assert_eq!(slots, window.sum.over);
    }

    #[test]
    fn after_a_gap_nothing_is_left() {
        let mut window = Window::new(150, 1000);
        window.add(ONE, 1000);
        window.add(ONE, 9_000_000);
        assert_eq!((window.sum, window.turn_ns), (ONE, 9_000_010));
        // A clock that goes backwards is no reason to forget, nor to panic.
        window.add(ONE, 7);
        assert_eq!(window.sum.over, 2);
    }

    #[test]
    fn what_was_before_it_looked_was_as_busy_and_well() {
        let mut window = Window::new(1500, 1000);
        window.add(ONE, 1150);
        assert_eq!((window.requests(1150), window.over()), (20.0, 1.0));
        assert_eq!((window.requests(2500), window.requests(9000)), (2.0, 2.0));
        assert_eq!(window.requests(0), 3000.0, "nothing divided by nothing is not asked for");
    }
}

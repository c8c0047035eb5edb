// SPDX-License-Identifier: Apache-2.0
//! A sum of evidence with two levels (CUSUM).

use crate::objective::Level;

/// While alarmed, evidence for health also makes the sum fall by itself, with this time constant: what was a breach a
/// moment ago must not look like one for long when requests are rare.
const FORGET_S: f64 = 0.5;
/// The sum goes no higher than this multiple of the strong level.
const CEILING: f64 = 1.25;

/// How many times as many false alarms the ticks find that come sooner near a level (trials: 1.1 to 1.6).
const LOOKS: f64 = 1.6;

/// Evidence (nats) for the two levels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// For a precaution.
    pub weak: f64,
    /// For action.
    pub strong: f64,
}

impl Limits {
    /// The limits of each of `tests` tests that judge the same requests, so that all of them together raise no more false
    /// alarms than one would: the rate per request falls as exp(-h). Nor more because ticks come sooner near a level.
    pub fn of_many(weak: f64, strong: f64, tests: usize) -> Limits {
        let more = (LOOKS * tests.max(1) as f64).ln();
        Limits { weak: weak + more, strong: strong + more }
    }

    /// The most that one tick may add.
    fn tick_max(&self) -> f64 {
        self.strong / 3.0
    }

    /// The most that requests in flight may add: enough for a precaution, not enough for action.
    fn in_flight_max(&self) -> f64 {
        (0.75 * self.strong).max(self.weak).min(self.strong - 1.0)
    }
}

/// The sum and the level that it has reached.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Accumulator {
    sum: f64,
    provisional: f64,
    level: Level,
}

impl Accumulator {
    /// One tick. `completed` = evidence of the requests that completed in it, if any did; `in_flight` = evidence of those
    /// that have not, which holds only for this tick. Returns the level.
    pub fn update(&mut self, completed: Option<f64>, in_flight: f64, tick_s: f64, limits: &Limits) -> Level {
        if let Some(evidence) = completed {
            let sum = self.sum + evidence.min(limits.tick_max());
            self.sum = sum.clamp(0.0, CEILING * limits.strong);
            if self.level > Level::Calm && evidence < 0.0 {
                self.sum *= (1.0 - tick_s / FORGET_S).max(0.0);
            }
        }
        self.provisional = in_flight.min(limits.in_flight_max());
        let value = self.value();
        // Down only well below a level, so that a sum that hovers there is one alarm and not many.
        self.level = if value >= limits.strong || (self.level == Level::Strong && value >= limits.strong / 2.0) {
            Level::Strong
        } else if value >= limits.weak || (self.level > Level::Calm && value >= limits.weak / 2.0) {
            Level::Weak
        } else {
            Level::Calm
        };
        self.level
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        *self = Accumulator::default();
    }

    /// The evidence now.
    pub fn value(&self) -> f64 {
        self.sum + self.provisional
    }

    /// The level reached.
    pub fn level(&self) -> Level {
        self.level
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { weak: 12.0, strong: 24.0 };

    #[test]
    fn one_tick_never_decides() {
        let mut a = Accumulator::default();
        assert_eq!(a.update(Some(1000.0), 0.0, 0.02, &LIMITS), Level::Calm);
        assert_eq!(a.update(Some(1000.0), 0.0, 0.02, &LIMITS), Level::Weak);
        assert_eq!(a.update(Some(1000.0), 0.0, 0.02, &LIMITS), Level::Strong);
    }

    #[test]
    fn requests_in_flight_alone_are_never_strong_and_leave_no_trace() {
        let mut a = Accumulator::default();
        for _ in 0..100 {
            assert_eq!(a.update(None, 1000.0, 0.02, &LIMITS), Level::Weak);
        }
        assert_eq!(a.update(None, 0.0, 0.02, &LIMITS), Level::Calm);
        assert_eq!(a.value(), 0.0);
    }

    #[test]
    fn a_level_is_left_at_half_of_it() {
        let mut a = Accumulator::default();
        for _ in 0..4 {
            a.update(Some(1000.0), 0.0, 0.02, &LIMITS);
        }
        let mut levels = vec![a.level()];
        while a.level() != Level::Calm {
            let level = a.update(Some(-0.5), 0.0, 0.02, &LIMITS);
            if levels.last() != Some(&level) {
                levels.push(level);
            }
        }
        assert_eq!(levels, [Level::Strong, Level::Weak, Level::Calm]);
        assert!(a.value() < 6.0);
    }

    #[test]
    fn the_levels_of_many_tests_are_higher() {
        let one = Limits::of_many(12.0, 24.0, 1);
        let many = Limits::of_many(12.0, 24.0, 96);
        assert!((one.weak - 12.47).abs() < 0.01 && (one.strong - 24.47).abs() < 0.01);
        assert!((many.weak - 17.03).abs() < 0.01 && (many.strong - 29.03).abs() < 0.01);
    }
}

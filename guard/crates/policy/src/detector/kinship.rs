// SPDX-License-Identifier: Apache-2.0
//! How much requests share their fate. Were they independent, the chance that the sum of their evidence climbs above some
//! height while all is well would fall as exp(-height). Requests that wait in the same queue are late together, and then it
//! falls as exp(-height / k). This k is measured here, from the peaks of the sum in calm times; evidence divided by it is
//! worth what independent evidence is. It is divided by [`MOST`] at most, though: beyond that false alarms are more frequent
//! than stated.

/// Peaks below this are not exponential yet.
const LOW: f64 = 2.0;
/// The sum goes no higher in this measurement.
const CEILING: f64 = 300.0;
/// The most that requests in flight add to a peak.
const IN_FLIGHT_MAX: f64 = 12.0;
/// Peaks of independent requests that are taken to have been seen in the beginning.
const PRIOR: f64 = 5.0;
/// Peaks that are remembered.
const REMEMBERED: f64 = 3000.0;
/// The largest divisor. Where stalls that everybody shares are long and frequent more would be needed to keep false alarms
/// as rare as stated; but a freeze that comes a second late keeps no promise, and one that was not needed only costs batch.
pub const MOST: f64 = 8.0;
/// Time that a first measurement takes.
const SETTLE_S: f64 = 20.0;

/// The measurement.
#[derive(Clone, Copy, Debug)]
pub struct Kinship {
    sum: f64,
    peak: f64,
    /// By how much peaks exceeded [`LOW`], and the squares of that: decaying sums.
    excess: f64,
    squares: f64,
    passed_s: f64,
}

impl Default for Kinship {
    fn default() -> Self {
        Kinship { sum: 0.0, peak: 0.0, excess: PRIOR, squares: 2.0 * PRIOR, passed_s: 0.0 }
    }
}

impl Kinship {
    /// The evidence of one tick: of requests that completed, and of those in flight.
    pub fn collect(&mut self, evidence: f64, in_flight: f64, tick_s: f64) {
        self.passed_s += tick_s;
        self.sum = (self.sum + evidence).clamp(0.0, CEILING);
        self.peak = self.peak.max(self.sum + in_flight.min(IN_FLIGHT_MAX));
        if self.sum > 0.0 || in_flight > LOW {
            return;
        }
        if self.peak > LOW {
            let keep = 1.0 - 1.0 / REMEMBERED;
            let excess = self.peak - LOW;
            self.excess = self.excess * keep + excess;
            self.squares = self.squares * keep + excess * excess;
        }
        self.peak = 0.0;
    }

    /// Throws the present peak away: something is going on.
    pub fn spoil(&mut self) {
        (self.sum, self.peak) = (0.0, 0.0);
    }

    /// The ratio k, at least 1: the scale of the exponential law of the peaks. The mean of the excess would be that too, but
    /// where rare runs hide among many lone peaks it would not show them; the ratio of its moments does.
    /// `None` while it is not known.
    pub fn ratio(&self) -> Option<f64> {
        (self.passed_s >= SETTLE_S).then(|| (self.squares / (2.0 * self.excess)).max(1.0))
    }

    /// What evidence is divided by.
    pub fn divisor(&self) -> Option<f64> {
        self.ratio().map(|ratio| ratio.min(MOST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detector::trial::Random;

    /// Log-likelihood ratios of a normal against one that lies higher by 1, each `run` of them alike.
    fn ratio(run: u64) -> f64 {
        let mut random = Random::new(7);
        let mut kinship = Kinship::default();
        let mut value = 0.0;
        for i in 0..200_000 {
            if i % run == 0 {
                value = random.normal() - 0.5;
            }
            kinship.collect(value, 0.0, 0.01);
        }
        kinship.ratio().unwrap()
    }

    #[test]
    fn independent_requests_have_none_and_runs_have_their_length() {
        assert!(ratio(1) < 1.15, "{}", ratio(1));
        assert!(ratio(10) > 5.0 && ratio(10) < 12.0, "{}", ratio(10));
    }

    #[test]
    fn it_is_not_known_at_once() {
        let mut kinship = Kinship::default();
        for _ in 0..19 {
            kinship.collect(-1.0, 0.0, 1.0);
        }
        assert_eq!((kinship.ratio(), kinship.divisor()), (None, None));
        kinship.collect(-1.0, 0.0, 1.0);
        assert_eq!((kinship.ratio(), kinship.divisor()), (Some(1.0), Some(1.0)));
    }
}

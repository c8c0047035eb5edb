// SPDX-License-Identifier: Apache-2.0
//! What a latency is worth as evidence: tables by bucket, made from a baseline.

use super::depth::{Usual, CLASSES};
use intf::segment::layout::{bucket_lower, bucket_middle, bucket_of};
use intf::segment::BUCKETS;

/// The most that one request adds to a sum, and takes from it.
pub const REQUEST_MAX: f64 = 4.0;
/// The slowdowns that are looked for, in equal parts.
const SHIFTS: [f64; 3] = [2.0, 3.0, 10.0];
/// Share of the requests of a healthy series that may be slower than the baseline shows: what was learned from a few
/// hundred requests says little about the tail.
const CONTAMINATION: f64 = 0.01;
/// How much slower those are: an exponential distribution of the logarithm, with this mean (a factor of 3).
const CONTAMINATION_LOG: f64 = 1.0986;
/// A share that is none: the ratio of two of these says nothing.
const NOTHING: f64 = 1e-9;
/// Width of a bucket in the logarithm of the latency, on average.
const BUCKET_LOG: f64 = std::f64::consts::LN_2 / 8.0;

/// Evidence by bucket, in nats. Latencies are first divided by what is usual for the depth that the request found
/// ([`super::depth`]); what is below the floor is one bin, before that division.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// Of a request that completed with such a latency.
    completed: [f32; BUCKETS],
    /// Of a request that is in flight at such an age.
    in_flight: [f32; BUCKETS],
    /// Of a request that completed below the floor, by depth class.
    below: [f32; CLASSES],
    /// The first bucket above the floor.
    first: usize,
    usual: Usual,
}

impl Default for Evidence {
    fn default() -> Self {
        Evidence {
            completed: [0.0; BUCKETS],
            in_flight: [0.0; BUCKETS],
            below: [0.0; CLASSES],
            first: 0,
            usual: Usual::default(),
        }
    }
}

impl Evidence {
    /// The tables for a baseline (shares by bucket, sum 1).
    pub fn learn(&mut self, baseline: &[f32; BUCKETS], usual: &Usual, floor_ns: u64, threshold_ns: u64) {
        let healthy = cumulated(&contaminated(baseline));
        let slow = slowed(&healthy, threshold_ns);
        self.usual = usual.clone();
        self.first = first_above(floor_ns);
        let max = REQUEST_MAX;
        let ratio = |slow: f64, healthy: f64| (slow.max(1e-12) / healthy.max(1e-12)).ln();
        for class in 0..CLASSES {
            let first = self.first.saturating_sub(usual.shift(class));
            self.below[class] = match healthy[first] > NOTHING {
                true => ratio(slow[first], healthy[first]).clamp(-max, 0.0) as f32,
                // Where there is nothing in the baseline, on its fast side, a latency speaks for health.
                false => -max as f32,
            };
        }
        // More latency is never less evidence: beyond what either distribution reaches the ratio of two next to nothings
        // would say so. Hence the running maxima.
        let mut most = -max;
        let mut most_in_flight: f64 = 0.0;
        for b in 0..BUCKETS {
            let (slow_here, healthy_here) = (slow[b + 1] - slow[b], healthy[b + 1] - healthy[b]);
            if slow_here.max(healthy_here) > NOTHING {
                most = most.max(ratio(slow_here, healthy_here).clamp(-max, max));
            }
            self.completed[b] = most as f32;
            most_in_flight = most_in_flight.max(ratio(1.0 - slow[b], 1.0 - healthy[b]).clamp(0.0, max));
            self.in_flight[b] = most_in_flight as f32;
        }
    }

    /// Evidence of a completed request.
    pub fn completed(&self, bucket: usize, class: usize) -> f32 {
        match bucket < self.first {
            true => self.below[class],
            // Above the floor a request may be fast for its depth, but speaks no more for health than one below it.
            false => self.completed[bucket.saturating_sub(self.usual.shift(class))].max(self.below[class]),
        }
    }

    /// Evidence of a request in flight.
    pub fn in_flight(&self, age_ns: u64, class: usize) -> f64 {
        let bucket = match bucket_of(age_ns) {
            Some(bucket) => bucket,
            None if age_ns < 512 => 0,
            None => BUCKETS - 1,
        };
        match bucket < self.first {
            true => 0.0,
            false => f64::from(self.in_flight[bucket.saturating_sub(self.usual.shift(class))]),
        }
    }
}

/// The first bucket that lies wholly at or above a latency.
pub(super) fn first_above(ns: u64) -> usize {
    (0..BUCKETS).find(|&b| bucket_lower(b) >= ns).unwrap_or(BUCKETS)
}

/// The baseline, smoothed over neighbouring buckets, with a share of slower requests mixed in.
fn contaminated(baseline: &[f32; BUCKETS]) -> [f64; BUCKETS] {
    let mut smooth = [0.0; BUCKETS];
    for (b, &mass) in baseline.iter().enumerate() {
        for (distance, weight) in [(-2i32, 1.0), (-1, 2.0), (0, 3.0), (1, 2.0), (2, 1.0)] {
            let to = (b as i32 + distance).clamp(0, BUCKETS as i32 - 1) as usize;
            smooth[to] += f64::from(mass) * weight / 9.0;
        }
    }
    let decay = (-BUCKET_LOG / CONTAMINATION_LOG).exp();
    let mut slower = 0.0;
    let mut mixed = [0.0; BUCKETS];
    for b in 0..BUCKETS {
        slower = decay * slower + (1.0 - decay) * smooth[b];
        mixed[b] = (1.0 - CONTAMINATION) * smooth[b] + CONTAMINATION * slower;
    }
    // What the tail lost beyond the last bucket.
    let sum: f64 = mixed.iter().sum();
    if sum > 0.0 {
        mixed.iter_mut().for_each(|m| *m /= sum);
    }
    mixed
}

/// Shares below the lower bound of each bucket; the last is everything.
fn cumulated(shares: &[f64; BUCKETS]) -> [f64; BUCKETS + 1] {
    let mut sums = [0.0; BUCKETS + 1];
    for b in 0..BUCKETS {
        sums[b + 1] = sums[b] + shares[b];
    }
    sums
}

/// The same if everything were slower: the mean over the slowdowns that are looked for. Where even the largest of them
/// would keep the objective (the median below its threshold), one that breaks it is added.
fn slowed(healthy: &[f64; BUCKETS + 1], threshold_ns: u64) -> [f64; BUCKETS + 1] {
    let median = (0..BUCKETS).find(|&b| healthy[b + 1] >= 0.5).map_or(1.0, |b| bucket_middle(b) as f64);
    let breaking = 2.0 * threshold_ns as f64 / median;
    let breaking = (breaking > 20.0).then_some(breaking);
    let shifts = || SHIFTS.into_iter().chain(breaking);
    let weight = 1.0 / shifts().count() as f64;
    let mut slow = [0.0; BUCKETS + 1];
    for shift in shifts() {
        for (b, share) in slow.iter_mut().enumerate() {
            *share += weight * below(healthy, bucket_lower(b) as f64 / shift);
        }
    }
    // Whatever is slowed beyond the last bucket is in it.
    slow[BUCKETS] = 1.0;
    slow
}

/// Share below a latency, linear within a bucket.
fn below(healthy: &[f64; BUCKETS + 1], ns: f64) -> f64 {
    let Some(bucket) = bucket_of(ns as u64) else { return 0.0 };
    let (low, high) = (bucket_lower(bucket) as f64, bucket_lower(bucket + 1) as f64);
    healthy[bucket] + (healthy[bucket + 1] - healthy[bucket]) * (ns - low) / (high - low)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: f64) -> usize {
        bucket_of((ms * 1e6) as u64).unwrap()
    }

    /// All requests between 6 and 12 ms, whatever the depth.
    fn evidence(floor_ms: u64) -> Evidence {
        let mut baseline = [0.0; BUCKETS];
        let range = at(6.0)..at(12.0);
        let share = 1.0 / range.len() as f32;
        baseline[range].fill(share);
        let mut evidence = Evidence::default();
        evidence.learn(&baseline, &Usual::default(), floor_ms * 1_000_000, 50_000_000);
        evidence
    }

    #[test]
    fn evidence_grows_with_latency_and_is_bounded() {
        for floor in [0, 5, 10, 25, 50] {
            let e = evidence(floor);
            for b in 1..BUCKETS {
                assert!(e.completed(b, 0) >= e.completed(b - 1, 0), "floor {floor} bucket {b}");
                assert!(e.in_flight[b] >= e.in_flight[b - 1], "floor {floor} bucket {b}");
            }
            assert!(e.completed.iter().all(|v| v.abs() <= REQUEST_MAX as f32));
            assert!(e.completed(at(8.0), 0) < -0.3, "floor {floor}: what is usual speaks for health");
            assert!(e.completed(at(60.0), 0) > 2.0, "floor {floor}: {}", e.completed(at(60.0), 0));
            assert!(e.in_flight(0, 0) == 0.0 && e.in_flight(u64::MAX, 0) > 3.0);
        }
    }

    #[test]
    fn below_the_floor_everything_is_alike() {
        let e = evidence(25);
        assert!(e.completed(at(20.0), 0) == e.completed(at(8.0), 0));
        assert_eq!(e.in_flight(20_000_000, 0), 0.0);
        assert!(e.in_flight(40_000_000, 0) > 2.0);
    }

    #[test]
    fn what_the_depth_explains_is_no_evidence() {
        let mut usual = Usual::default();
        let mut block = [(0, 0); CLASSES];
        block[0] = (100, 100 * 100);
        block[4] = (100, 100 * 116);
        usual.merge(&block, 1.0);
        let mut baseline = [0.0; BUCKETS];
        baseline[at(8.0)] = 1.0;
        let mut e = Evidence::default();
        e.learn(&baseline, &usual, 0, 50_000_000);
        assert!(e.completed(at(32.0), 0) > 2.0 && e.completed(at(32.0), 4) < 0.0);
        assert!(e.in_flight(40_000_000, 0) > 2.0 && e.in_flight(30_000_000, 4) < 0.5);
    }

    #[test]
    fn a_series_far_below_its_threshold_is_judged_by_what_would_break_it() {
        let mut baseline = [0.0; BUCKETS];
        baseline[at(0.3)] = 1.0;
        let mut e = Evidence::default();
        e.learn(&baseline, &Usual::default(), 25_000_000, 50_000_000);
        assert!(e.completed(at(60.0), 0) > 2.0, "{}", e.completed(at(60.0), 0));
        assert!(e.completed(at(0.3), 0) < -0.2, "{}", e.completed(at(0.3), 0));
    }
}

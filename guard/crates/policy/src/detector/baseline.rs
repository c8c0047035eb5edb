// SPDX-License-Identifier: Apache-2.0
//! What is usual for a series: learned slowly, only while it is calm, and never from a state that breaks the objective.

use super::depth::{Usual, CLASSES};
use super::slow_end::{Latencies, SlowEnd};
use intf::segment::BUCKETS;

/// Requests that a block needs before it counts; also what the first baseline is made of.
pub const BLOCK_REQUESTS: u64 = 500;
/// The same for probes, of which there is one a second. What so few do not show of the tail is what evidence allows for (1 %).
pub const BLOCK_PROBES: u64 = 200;
/// Time that a block needs once the baseline is settled.
const BLOCK_NS: u64 = 60_000_000_000;
/// The first blocks are shorter, so that the baseline of the first minutes is not that of the first seconds.
const BLOCK_GROWTH_NS: u64 = 5_000_000_000;
/// Time constant of forgetting: a slowdown over minutes must not be learned away.
const FORGET_NS: u64 = 3_600_000_000_000;

/// Shares by bucket, and the block that is being collected for it.
#[derive(Clone, Debug)]
pub struct Baseline {
    shares: [f32; BUCKETS],
    blocks: u32,
    /// Requests that a block needs.
    needed: u64,
    usual: Usual,
    /// The same without regard to depth.
    latencies: Latencies,
    /// Requests of the block and the sum of their buckets, by depth class.
    depths: [(u32, u64); CLASSES],
    block: [u32; BUCKETS],
    block_requests: u64,
    block_over: u64,
    block_since_ns: u64,
}

impl Default for Baseline {
    fn default() -> Self {
        Baseline {
            shares: [0.0; BUCKETS],
            blocks: 0,
            needed: BLOCK_REQUESTS,
            usual: Usual::default(),
            latencies: Latencies::default(),
            depths: [(0, 0); CLASSES],
            block: [0; BUCKETS],
            block_requests: 0,
            block_over: 0,
            block_since_ns: 0,
        }
    }
}

impl Baseline {
    /// One that is learned from probes.
    pub fn of_probes() -> Baseline {
        Baseline { needed: BLOCK_PROBES, ..Baseline::default() }
    }

    /// Is there one?
    pub fn ready(&self) -> bool {
        self.blocks > 1
    }

    /// Shares by bucket; sum 1 once it is ready.
    pub fn shares(&self) -> &[f32; BUCKETS] {
        &self.shares
    }

    /// What is usual for each depth.
    pub fn usual(&self) -> &Usual {
        &self.usual
    }

    /// Adds completed requests of one bucket that found such a depth.
    pub fn collect(&mut self, bucket: usize, class: usize, requests: u32) {
        self.depths[class].0 += requests;
        self.depths[class].1 += u64::from(requests) * bucket as u64;
        self.block[bucket.saturating_sub(self.usual.shift(class))] += requests;
        self.block_requests += u64::from(requests);
        self.latencies.collect(bucket, requests);
    }

    /// Completed requests of one bucket: are they in the slow end?
    pub fn slow_end(&self, bucket: usize, requests: u32) -> SlowEnd {
        self.latencies.judge(bucket, requests)
    }

    /// What is usual has changed: where the slow end begins, above the bucket `floor`.
    pub fn find_slow_end(&mut self, floor: usize) {
        self.latencies.find_slow_end(floor);
    }

    /// Of those collected, so many were over the threshold.
    pub fn collect_over(&mut self, requests: u64) {
        self.block_over += requests;
    }

    /// Throws the block away: something is going on.
    pub fn spoil(&mut self, now_ns: u64) {
        self.block_since_ns = now_ns;
        if self.block_requests > 0 {
            self.block.fill(0);
            self.latencies.spoil();
            self.depths.fill((0, 0));
            self.block_requests = 0;
            self.block_over = 0;
        }
    }

    /// Has the block enough of time and requests to become part of the baseline?
    pub fn ripe(&self, now_ns: u64) -> bool {
        let needed = BLOCK_NS.min(u64::from(self.blocks) * BLOCK_GROWTH_NS);
        self.block_requests >= self.needed && now_ns.saturating_sub(self.block_since_ns) >= needed
    }

    /// Takes the block into the baseline, unless it breaks the objective (`share` over the threshold at most). Returns
    /// whether the baseline changed.
    ///
    /// `relearn` = what is usual has changed for good: take over an eighth of it at least.
    pub fn merge(&mut self, now_ns: u64, share: f64, relearn: bool) -> bool {
        let healthy = self.block_over as f64 <= share * self.block_requests as f64;
        if healthy && self.block_requests > 0 {
            let duration = now_ns.saturating_sub(self.block_since_ns);
            let least = if relearn { 0.125 } else { 1.0 / (self.blocks + 1) as f32 };
            let weight = (duration as f32 / FORGET_NS as f32).max(least).min(1.0);
            self.usual.merge(&self.depths, f64::from(weight));
            // The first block only shows what depth does; the baseline starts with those that are divided by it.
            let weight = if self.blocks == 1 { 1.0 } else { weight };
            let scale = weight / self.block_requests as f32;
            for (mean, &count) in self.shares.iter_mut().zip(&self.block) {
                *mean += scale * count as f32 - weight * *mean;
            }
            self.latencies.merge(self.block_requests, weight);
            self.blocks = self.blocks.saturating_add(1);
        }
        self.spoil(now_ns);
        healthy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn the_first_block_is_the_baseline_and_later_ones_move_it_slowly() {
        let mut b = Baseline::default();
        b.collect(100, 0, 499);
        assert!(!b.ripe(S) && !b.ready());
        b.collect(100, 0, 1);
        assert!(b.ripe(S) && b.merge(S, 0.01, false) && !b.ready(), "it only shows what depth does");
        b.collect(100, 0, 500);
        assert!(!b.ripe(S) && b.ripe(6 * S) && b.merge(6 * S, 0.01, false) && b.ready());
        assert_eq!(b.shares()[100], 1.0);
        let mut now = 6 * S;
        for _ in 0..100 {
            b.collect(100, 0, 600);
            now += 60 * S;
            assert!(b.ripe(now) && b.merge(now, 0.01, false));
        }
        b.collect(120, 0, 600);
        b.merge(now + 60 * S, 0.01, false);
        assert!((b.shares()[120] - 1.0 / 60.0).abs() < 1e-3, "a minute of an hour: {}", b.shares()[120]);
        assert!((b.shares().iter().sum::<f32>() - 1.0).abs() < 1e-4);
    }

    #[test]
    fn what_breaks_the_objective_is_not_learned() {
        let mut b = Baseline::default();
        b.collect(100, 0, 600);
        b.collect_over(7);
        assert!(!b.merge(S, 0.01, false) && !b.ready());
        b.collect(100, 0, 600);
        b.collect_over(6);
        assert!(b.merge(S, 0.01, false));
    }

    #[test]
    fn a_spoilt_block_is_gone_with_its_time() {
        let mut b = Baseline::default();
        b.collect(1, 0, 500);
        b.merge(S, 0.01, false);
        b.collect(200, 3, 400);
        b.spoil(20 * S);
        b.collect(1, 0, 500);
        assert!(!b.ripe(24 * S) && b.ripe(25 * S));
        b.merge(25 * S, 0.01, false);
        assert_eq!(b.shares()[1], 1.0);
    }
}

// SPDX-License-Identifier: Apache-2.0
//! The slow end of what clients get: how many requests are as slow as usually only the slowest fiftieth. Unlike evidence it is not
//! divided by the clients' own queue (`super::depth`): who takes a part of a disk makes that longer, and each request in
//! it waits no more than is usual for its place. So it says nothing about whose doing it is, but how little of the disk is left.

use intf::segment::BUCKETS;

/// The slow end is what usually so many requests are in at most.
const SLOW_END: f32 = 0.02;
/// Usually there are so many at least, however few there were: no promise is broken by fewer.
const SHARE_MIN: f32 = 0.002;

/// Requests of one or more series, and those of them in the slow end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SlowEnd {
    /// All of them.
    pub requests: f32,
    /// Those in the slow end, or slower than was promised.
    pub slow: f32,
    /// Those in the slow end, as many as if they did not share their fate.
    pub found: f32,
    /// How many of those would usually be.
    pub usual: f32,
}

impl SlowEnd {
    /// And those of another series.
    pub fn add(&mut self, other: SlowEnd) {
        self.requests += other.requests;
        self.slow += other.slow;
        self.found += other.found;
        self.usual += other.usual;
    }
}

/// Latencies as they are: shares by bucket, the block that is being collected, and where the slow end begins.
#[derive(Clone, Debug)]
pub struct Latencies {
    shares: [f32; BUCKETS],
    block: [u32; BUCKETS],
    from: usize,
    usual: f32,
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies { shares: [0.0; BUCKETS], block: [0; BUCKETS], from: BUCKETS, usual: 0.0 }
    }
}

impl Latencies {
    /// Adds requests of one bucket to the block.
    pub fn collect(&mut self, bucket: usize, requests: u32) {
        self.block[bucket] += requests;
    }

    /// Throws the block away.
    pub fn spoil(&mut self) {
        self.block.fill(0);
    }

    /// The block, of so many requests, becomes this part of what is usual.
    pub fn merge(&mut self, requests: u64, weight: f32) {
        let scale = weight / requests.max(1) as f32;
        for (mean, &count) in self.shares.iter_mut().zip(&self.block) {
            *mean += scale * count as f32 - weight * *mean;
        }
    }

    /// Where the slow end begins; below `floor` (a bucket) nothing is slow.
    pub fn find_slow_end(&mut self, floor: usize) {
        (self.from, self.usual) = (BUCKETS, 0.0);
        while self.from > floor && self.usual + self.shares[self.from - 1] <= SLOW_END {
            self.from -= 1;
            self.usual += self.shares[self.from];
        }
        self.usual = self.usual.max(SHARE_MIN);
    }

    /// What requests of one bucket are; nothing before anything is known.
    pub fn judge(&self, bucket: usize, requests: u32) -> SlowEnd {
        let requests = requests as f32;
        let slow = if bucket >= self.from { requests } else { 0.0 };
        SlowEnd { requests, slow, found: slow, usual: self.usual * requests }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(counts: &[(usize, u32)], floor: usize) -> Latencies {
        let mut latencies = Latencies::default();
        counts.iter().for_each(|&(bucket, requests)| latencies.collect(bucket, requests));
        latencies.merge(counts.iter().map(|&(_, requests)| u64::from(requests)).sum(), 1.0);
        latencies.spoil();
        latencies.find_slow_end(floor);
        latencies
    }

    fn slow_end(requests: f32, found: f32, usual: f32) -> SlowEnd {
        SlowEnd { requests, slow: found, found, usual }
    }

    #[test]
    fn a_fiftieth_at_most_is_slow() {
        let latencies = known(&[(40, 900), (60, 85), (80, 10), (90, 5)], 0);
        assert_eq!(latencies.judge(60, 100), slow_end(100.0, 0.0, 1.5));
        assert_eq!(latencies.judge(61, 100), slow_end(100.0, 100.0, 1.5));
        let mut sum = latencies.judge(60, 98);
        sum.add(latencies.judge(90, 2));
        assert_eq!(sum, slow_end(100.0, 2.0, 1.5));
    }

    #[test]
    fn nothing_is_slow_below_the_floor_and_nothing_before_it_is_known() {
        let latencies = known(&[(40, 990), (60, 10)], 70);
        assert_eq!(latencies.judge(69, 1000), slow_end(1000.0, 0.0, 2.0));
        assert_eq!(latencies.judge(70, 1000), slow_end(1000.0, 1000.0, 2.0));
        assert_eq!(Latencies::default().judge(BUCKETS - 1, 1000), slow_end(1000.0, 0.0, 0.0));
    }

    #[test]
    fn what_is_usual_moves_by_the_weight_of_a_block() {
        let mut latencies = known(&[(40, 1000)], 0);
        latencies.collect(50, 1000);
        latencies.merge(1000, 0.01);
        latencies.find_slow_end(0);
        assert_eq!(latencies.judge(50, 1000).found, 1000.0);
        assert!((latencies.judge(50, 1000).usual - 10.0).abs() < 1e-3);
    }
}

// SPDX-License-Identifier: Apache-2.0
//! How much of a latency is explained by the storage clients' own load. A request that finds others in flight waits for
//! them; that is no slowdown. So latencies are divided by what is usual for the number of requests that were in flight when
//! they arrived, which is learned. Without this a burst of clients looks like a disk that became slow, because all requests
//! of the burst are late together.

use intf::segment::layout::bucket_upper;

/// Ticks that are looked back: older requests count as that old.
const TICKS: usize = 64;
/// Classes of depth.
pub const CLASSES: usize = 10;
/// The smallest depth of each class.
const CLASS_FROM: [u16; CLASSES] = [0, 1, 2, 3, 4, 6, 8, 12, 16, 32];
/// Requests that a class needs before it tells anything.
const ENOUGH: f64 = 50.0;

/// The class of a depth.
fn class_of(depth: u16) -> u8 {
    CLASS_FROM.iter().rposition(|&from| depth >= from).unwrap_or(0) as u8
}

/// Depth classes of the last ticks, by filesystem.
#[derive(Clone, Debug)]
pub struct Depths {
    times: [u64; TICKS],
    /// The last tick that ended.
    head: usize,
    /// Of each tick those of all filesystems: a tick that ends has them lie together in memory.
    classes: Vec<u8>,
    filesystems: usize,
}

impl Depths {
    /// Of filesystems of which nothing is known.
    pub fn new(filesystems: usize) -> Depths {
        Depths { times: [0; TICKS], head: 0, classes: vec![0; TICKS * filesystems], filesystems }
    }

    /// Ends a tick: the numbers in flight.
    pub fn end(&mut self, now_ns: u64, in_flight: impl Iterator<Item = u32>) {
        self.head = (self.head + 1) % TICKS;
        self.times[self.head] = now_ns;
        let row = &mut self.classes[self.head * self.filesystems..][..self.filesystems];
        for (class, count) in row.iter_mut().zip(in_flight) {
            *class = class_of(count.min(u32::from(u16::MAX)) as u16);
        }
    }

    /// What a detector of this filesystem needs.
    pub fn of(&self, filesystem: usize) -> Option<Arrivals<'_>> {
        (filesystem < self.filesystems).then_some(Arrivals { depths: self, filesystem })
    }

    /// The class that a request in flight found when it arrived.
    pub fn at_arrival(&self, filesystem: usize, now_ns: u64, age_ns: u64) -> usize {
        self.of(filesystem).map_or(0, |arrivals| arrivals.at(now_ns.saturating_sub(age_ns)))
    }
}

/// The depth classes that the requests of one filesystem found when they arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrivals<'a> {
    depths: &'a Depths,
    filesystem: usize,
}

impl Arrivals<'_> {
    /// Of a request that completed in this tick with such a latency: when the tick before ended it had certainly not yet been
    /// there for so long.
    pub fn class(&self, bucket: usize) -> usize {
        self.at(self.depths.times[self.depths.head].saturating_sub(bucket_upper(bucket)))
    }

    /// At the last tick at or before a time, or at the oldest known.
    fn at(&self, ns: u64) -> usize {
        let Depths { times, head, .. } = self.depths;
        let oldest = (head + 1) % TICKS;
        let mut tick = *head;
        while tick != oldest && times[tick] > ns {
            tick = (tick + TICKS - 1) % TICKS;
        }
        usize::from(self.depths.classes[tick * self.depths.filesystems + self.filesystem])
    }
}

/// What is usual for each class: by how many buckets its requests are slower than those that find nobody.
#[derive(Clone, Debug, Default)]
pub struct Usual {
    /// Decaying count and sum of buckets, by class.
    counts: [f64; CLASSES],
    sums: [f64; CLASSES],
    shifts: [usize; CLASSES],
}

impl Usual {
    /// Buckets to take off.
    pub fn shift(&self, class: usize) -> usize {
        self.shifts[class.min(CLASSES - 1)]
    }

    /// Adds a block of requests (count and sum of their buckets, by class) and forgets a share of what was before.
    pub fn merge(&mut self, block: &[(u32, u64); CLASSES], weight: f64) {
        for (class, &(count, sum)) in block.iter().enumerate() {
            self.counts[class] = (1.0 - weight) * self.counts[class] + f64::from(count);
            self.sums[class] = (1.0 - weight) * self.sums[class] + sum as f64;
        }
        // Never less for more depth; a class with few requests is like the one below it.
        let mut first = None;
        let mut most = 0.0_f64;
        for class in 0..CLASSES {
            if self.counts[class] >= ENOUGH {
                let mean = self.sums[class] / self.counts[class];
                most = most.max(mean - *first.get_or_insert(mean));
            }
            self.shifts[class] = most.round() as usize;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use intf::segment::layout::bucket_of;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_request_belongs_to_the_depth_before_it_arrived() {
        let mut depths = Depths::new(1);
        for tick in 1..=10u64 {
            depths.end(tick * 20 * MS, std::iter::once(if tick <= 5 { 0 } else { 9 }));
        }
        let arrivals = depths.of(0).unwrap();
        // Completed between 200 and 220 ms: one of 10 ms may have arrived at 190 ms, so the tick at 180 ms counts.
        assert_eq!(arrivals.class(bucket_of(10 * MS).unwrap()), 6);
        assert_eq!(arrivals.class(bucket_of(90 * MS).unwrap()), 0);
        assert_eq!(arrivals.class(bucket_of(5000 * MS).unwrap()), 0);
        assert_eq!(depths.at_arrival(0, 200 * MS, 70 * MS), 6);
        assert_eq!(depths.at_arrival(0, 200 * MS, 90 * MS), 0);
        assert!(depths.of(1).is_none());
    }

    #[test]
    fn what_is_usual_never_falls_with_depth() {
        let mut usual = Usual::default();
        let mut block = [(0, 0); CLASSES];
        block[0] = (100, 100 * 50);
        block[1] = (100, 100 * 58);
        block[2] = (100, 100 * 55);
        block[3] = (10, 10 * 200);
        block[5] = (100, 100 * 66);
        usual.merge(&block, 0.1);
        assert_eq!(usual.shifts, [0, 8, 8, 8, 8, 16, 16, 16, 16, 16]);
    }
}

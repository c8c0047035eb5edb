// SPDX-License-Identifier: Apache-2.0
//! How each disk is doing, and the worst of them: for metrics and gauges. Over a whole period, however often it is looked.

use std::time::Duration;

use kernfs::block::{DiskCounters, DiskUse};

/// One disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Condition {
    /// Where the present period began.
    base: Option<(DiskCounters, u64)>,
    /// Of the last one.
    usage: Option<DiskUse>,
    /// The kernel had it once, and has it no more.
    known: bool,
    gone: bool,
    /// Requests that have come back by now, and since when there was none although one was waited for.
    done: (u64, u64),
    moved_ns: u64,
    stalled_ns: u64,
}

impl Condition {
    /// What the kernel counts; `None` = it has no such disk.
    pub fn follow(&mut self, counters: Option<&DiskCounters>, period_ns: u64, now_ns: u64) {
        self.known |= counters.is_some();
        self.gone = self.known && counters.is_none();
        let Some(now) = counters else {
            // What comes back under its number is another one.
            *self = Condition { known: self.known, gone: self.gone, ..Condition::default() };
            return;
        };
        let done = (now.reads, now.writes);
        if now.in_flight == 0 || done != self.done || self.base.is_none() {
            (self.done, self.moved_ns) = (done, now_ns);
        }
        self.stalled_ns = now_ns.saturating_sub(self.moved_ns);
        let (then, then_ns) = *self.base.get_or_insert((*now, now_ns));
        let passed_ns = now_ns.saturating_sub(then_ns);
        if passed_ns >= period_ns && passed_ns > 0 {
            self.usage = now.since(&then, Duration::from_nanos(passed_ns));
            self.base = Some((*now, now_ns));
        }
    }

    /// Another disk from now on.
    pub fn forget(&mut self) {
        *self = Condition::default();
    }

    /// It was there, and is not.
    pub fn gone(&self) -> bool {
        self.gone
    }

    /// Of the last period.
    pub fn usage(&self) -> Option<DiskUse> {
        self.usage
    }

    /// Mean time of a request, in seconds. Of a disk that has completed none for longer: for how long that is.
    pub fn await_s(&self) -> Option<f64> {
        let mean = self.usage?.await_ms.unwrap_or_default() / 1e3;
        Some(mean.max(self.stalled_ns as f64 / 1e9))
    }
}

/// The worst of all disks below the filesystems of the storage daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Worst {
    /// Mean time of a request, in seconds.
    pub await_s: f64,
    /// Mean number of requests queued or served.
    pub queue: f64,
    /// Share of the time with a request, 0 to 1.
    pub utilisation: f64,
    /// Disks that were there and are not.
    pub gone: u32,
}

impl Worst {
    /// Of these.
    pub fn of<'a>(conditions: impl Iterator<Item = &'a Condition>) -> Worst {
        conditions.fold(Worst::default(), |worst, condition| {
            let usage = condition.usage.unwrap_or_default();
            Worst {
                await_s: worst.await_s.max(condition.await_s().unwrap_or_default()),
                queue: worst.queue.max(usage.queue),
                utilisation: worst.utilisation.max(usage.utilisation),
                gone: worst.gone + u32::from(condition.gone),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const S: u64 = 1000 * MS;

    /// Counters after so many reads of 10 ms each.
    fn counters(reads: u64, in_flight: u32) -> DiskCounters {
        let ms = reads as u32 * 10;
        DiskCounters { reads, in_flight, read_ms: ms, busy_ms: ms, queue_ms: ms, ..DiskCounters::default() }
    }

    fn condition(readings: &[(u64, DiskCounters)]) -> Condition {
        let mut condition = Condition::default();
        readings.iter().for_each(|(at_ns, counters)| condition.follow(Some(counters), S, *at_ns));
        condition
    }

    #[test]
    fn it_is_of_a_whole_period_however_often_it_is_looked() {
        let mut condition = condition(&[(S, counters(100, 1)), (1100 * MS, counters(101, 1))]);
        assert_eq!((condition.usage(), condition.await_s()), (None, None));
        condition.follow(Some(&counters(150, 1)), S, 2 * S);
        let usage = condition.usage().unwrap();
        assert_eq!((usage.requests_per_second, usage.utilisation, condition.await_s()), (50.0, 0.5, Some(0.01)));
        condition.follow(Some(&counters(160, 1)), S, 2100 * MS);
        assert_eq!(condition.usage(), Some(usage));
    }

    #[test]
    fn a_disk_that_hangs_is_as_slow_as_it_hangs_long() {
        let mut condition = condition(&[(S, counters(100, 3)), (2 * S, counters(150, 3))]);
        for second in 3..9 {
            condition.follow(Some(&counters(150, 3)), S, second * S);
            assert_eq!(condition.await_s(), Some((second - 2) as f64));
        }
        condition.follow(Some(&counters(151, 2)), S, 9 * S);
        assert_eq!(condition.await_s(), Some(0.01), "it moves again");
        for second in 10..20 {
            condition.follow(Some(&counters(151, 0)), S, second * S);
        }
        assert_eq!(condition.await_s(), Some(0.0), "nobody waits");
    }

    #[test]
    fn one_that_vanishes_is_gone_until_there_is_one_again_which_is_another() {
        let mut condition = Condition::default();
        condition.follow(None, S, S);
        assert!(!condition.gone(), "a network filesystem never had one");
        condition.follow(Some(&counters(1000, 1)), S, 2 * S);
        condition.follow(None, S, 3 * S);
        assert!(condition.gone() && condition.usage().is_none() && condition.await_s().is_none());
        condition.follow(Some(&counters(2, 1)), S, 4 * S);
        assert!(!condition.gone() && condition.usage().is_none());
        condition.follow(Some(&counters(52, 1)), S, 5 * S);
        assert_eq!(condition.usage().map(|usage| usage.requests_per_second), Some(50.0));
    }

    #[test]
    fn the_worst_of_all() {
        let slow = condition(&[(S, counters(0, 1)), (2 * S, DiskCounters { read_ms: 900, ..counters(1, 1) })]);
        let busy = condition(&[(S, counters(0, 9)), (2 * S, DiskCounters { queue_ms: 9000, ..counters(90, 9) })]);
        let mut gone = busy;
        gone.follow(None, S, 3 * S);
        let all = [slow, busy, gone, Condition::default()];
        assert_eq!(Worst::of(all.iter()), Worst { await_s: 0.9, queue: 9.0, utilisation: 0.9, gone: 1 });
        assert_eq!(Worst::of([].iter()), Worst::default());
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Series records, request slots and client records: decoding, and the difference of two records.

use super::header::{u32_at, u64_at};
use super::layout::{SeriesId, BUCKETS, BUCKETS_OFFSET};
use super::visit::{Client, InFlight, SeriesDelta};
use std::net::Ipv6Addr;

/// Offsets in a series record.
pub(super) mod series {
    pub const OPERATIONS: usize = 0;
    pub const BYTES: usize = 8;
    pub const SUM_NS: usize = 16;
    pub const ERRORS: usize = 24;
    pub const MAX_NS: usize = 32;
    pub const UNDER: usize = 40;
    pub const OVER: usize = 44;
}

/// Offsets in a request slot.
pub(super) mod slot {
    pub const START_NS: usize = 0;
    pub const SERIES: usize = 8;
    pub const TID: usize = 12;
    pub const BYTES: usize = 16;
    pub const CLIENT: usize = 24;
}

/// Offsets in a client record.
pub(super) mod client {
    pub const ADDRESS: usize = 0;
    pub const BYTES_READ: usize = 16;
    pub const BYTES_WRITTEN: usize = 24;
    pub const OPERATIONS: usize = 32;
    pub const LAST_NS: usize = 40;
    pub const USED: usize = 48;
}

/// A start this little in the future is a request that began after the reader took its time; more is damage.
const START_TOLERANCE_NS: u64 = 1_000_000_000;

/// A series record as read.
#[derive(Clone, PartialEq)]
pub(super) struct Record {
    operations: u64,
    bytes: u64,
    sum_ns: u64,
    errors: u64,
    max_ns: u64,
    under: u32,
    over: u32,
    buckets: [u32; BUCKETS],
}

impl Record {
    pub const ZERO: Record =
        Record { operations: 0, bytes: 0, sum_ns: 0, errors: 0, max_ns: 0, under: 0, over: 0, buckets: [0; BUCKETS] };

    /// Decodes `raw`, [`super::layout::SERIES_STRIDE`] bytes.
    pub fn decode(&mut self, raw: &[u8]) {
        self.operations = u64_at(raw, series::OPERATIONS);
        self.bytes = u64_at(raw, series::BYTES);
        self.sum_ns = u64_at(raw, series::SUM_NS);
        self.errors = u64_at(raw, series::ERRORS);
        self.max_ns = u64_at(raw, series::MAX_NS);
        self.under = u32_at(raw, series::UNDER);
        self.over = u32_at(raw, series::OVER);
        for (bucket, bytes) in self.buckets.iter_mut().zip(raw[BUCKETS_OFFSET..].chunks_exact(4)) {
            *bucket = u32_at(bytes, 0);
        }
    }

    /// What happened between `before` and `self`, its buckets in `buckets`. `None` when that cannot be: a counter that
    /// ran backwards, or more latencies than operations (`slack` threads may be between the two counters).
    pub fn since<'a>(
        &self,
        before: &Record,
        series: SeriesId,
        slack: u64,
        buckets: &'a mut [u32; BUCKETS],
    ) -> Option<SeriesDelta<'a>> {
        for ((difference, new), old) in buckets.iter_mut().zip(&self.buckets).zip(&before.buckets) {
            *difference = new.wrapping_sub(*old);
        }
        let under = self.under.wrapping_sub(before.under);
        let over = self.over.wrapping_sub(before.over);
        let latencies = buckets.iter().map(|&b| u64::from(b)).sum::<u64>() + u64::from(under) + u64::from(over);
        let operations = self.operations.checked_sub(before.operations)?;
        if latencies > operations.saturating_add(slack) {
            return None;
        }
        Some(SeriesDelta {
            series,
            operations,
            bytes: self.bytes.checked_sub(before.bytes)?,
            // A sum of nanoseconds may wrap in theory, and tells nothing when it does.
            sum_ns: self.sum_ns.wrapping_sub(before.sum_ns),
            errors: self.errors.checked_sub(before.errors)?,
            max_ns: self.max_ns,
            under,
            over,
            buckets,
        })
    }
}

/// What a request slot holds.
pub(super) enum Slot {
    Free,
    Busy(InFlight),
    Damaged,
}

impl Slot {
    pub fn decode(raw: &[u8], now_ns: u64, series_count: usize, clients: u32) -> Slot {
        let start_ns = u64_at(raw, slot::START_NS);
        if start_ns == 0 {
            return Slot::Free;
        }
        let index = u32_at(raw, slot::SERIES);
        let client = u32_at(raw, slot::CLIENT);
        let series = SeriesId::from_index(index).filter(|_| (index as usize) < series_count);
        match series {
            Some(series) if start_ns <= now_ns.saturating_add(START_TOLERANCE_NS) => Slot::Busy(InFlight {
                series,
                age_ns: now_ns.saturating_sub(start_ns),
                tid: u32_at(raw, slot::TID),
                bytes: u64_at(raw, slot::BYTES),
                client: client.checked_sub(1).filter(|&c| c < clients),
            }),
            _ => Slot::Damaged,
        }
    }
}

/// A client record, if it is in use.
pub(super) fn decode_client(index: u32, raw: &[u8]) -> Option<Client> {
    let mut address = [0; 16];
    address.copy_from_slice(&raw[client::ADDRESS..client::ADDRESS + 16]);
    (u32_at(raw, client::USED) == 1).then(|| Client {
        index,
        address: Ipv6Addr::from(address),
        bytes_read: u64_at(raw, client::BYTES_READ),
        bytes_written: u64_at(raw, client::BYTES_WRITTEN),
        operations: u64_at(raw, client::OPERATIONS),
        last_ns: u64_at(raw, client::LAST_NS),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::layout::{Class, Kind, Op};

    fn series() -> SeriesId {
        SeriesId { filesystem: 0, kind: Kind::of(Op::Read, Class::Storage).unwrap() }
    }

    #[test]
    fn buckets_wrap_and_operations_do_not() {
        let mut before = Record::ZERO;
        before.operations = 10;
        before.buckets[7] = u32::MAX - 1;
        let mut after = before.clone();
        after.operations = 15;
        after.buckets[7] = 3;
        let mut buckets = [0; BUCKETS];
        let delta = after.since(&before, series(), 0, &mut buckets).unwrap();
        assert_eq!((delta.operations, delta.buckets[7]), (5, 5));
        assert!(before.since(&after, series(), 0, &mut buckets).is_none(), "backwards");
        after.buckets[8] = 1;
        assert!(after.since(&before, series(), 0, &mut buckets).is_none(), "more latencies than operations");
        assert!(after.since(&before, series(), 1, &mut buckets).is_some(), "one thread between the two counters");
    }
}

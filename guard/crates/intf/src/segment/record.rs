// SPDX-License-Identifier: Apache-2.0
//! Series records, request slots and client records: decoding, and the difference of two records.

use super::layout::{SeriesId, BUCKETS_OFFSET, SERIES_STRIDE};
use super::visit::{Client, InFlight, SeriesDelta};
use crate::bytes::{u32_at, u64_at};
use std::net::Ipv6Addr;
use std::ops::Range;

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

/// Most of a record, and of the change counters, is as it was at the poll before: so many bytes are compared at once.
const LINE: usize = 64;

const _: () = assert!(SERIES_STRIDE % LINE == 0 && BUCKETS_OFFSET % LINE == 0);

/// The lines of so many bytes. The last one may be shorter.
pub(super) fn lines(bytes: usize) -> impl Iterator<Item = Range<usize>> {
    (0..bytes).step_by(LINE).map(move |first| first..bytes.min(first + LINE))
}

/// Of a whole line the compiler knows the length, and calls nobody to compare it.
pub(super) fn same(new: &[u8], old: &[u8]) -> bool {
    match (<&[u8; LINE]>::try_from(new), <&[u8; LINE]>::try_from(old)) {
        (Ok(new), Ok(old)) => new == old,
        _ => new == old,
    }
}

/// A start this little in the future is a request that began after the reader took its time; more is damage.
const START_TOLERANCE_NS: u64 = 1_000_000_000;

/// A series record as read.
#[derive(Clone, PartialEq)]
pub(super) struct Record([u8; SERIES_STRIDE]);

impl Record {
    pub const ZERO: Record = Record([0; SERIES_STRIDE]);

    /// To be read into.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// What happened between `before` and `self`, its buckets in `buckets`. `None` when that cannot be: a counter that
    /// ran backwards, or more latencies than operations (`slack` threads may be between the two counters).
    pub fn since<'a>(
        &self,
        before: &Record,
        series: SeriesId,
        slack: u64,
        buckets: &'a mut Vec<(usize, u32)>,
    ) -> Option<SeriesDelta<'a>> {
        let count_since = |offset| u32_at(&self.0, offset).wrapping_sub(u32_at(&before.0, offset));
        let total_since = |offset| u64_at(&self.0, offset).checked_sub(u64_at(&before.0, offset));
        buckets.clear();
        let (new, old) = (&self.0[BUCKETS_OFFSET..], &before.0[BUCKETS_OFFSET..]);
        for line in lines(new.len()).filter(|line| !same(&new[line.clone()], &old[line.clone()])) {
            let counts = line.step_by(4).map(|offset| (offset / 4, count_since(BUCKETS_OFFSET + offset)));
            buckets.extend(counts.filter(|(_, count)| *count != 0));
        }
        let (under, over) = (count_since(series::UNDER), count_since(series::OVER));
        let latencies =
            buckets.iter().map(|(_, count)| u64::from(*count)).sum::<u64>() + u64::from(under) + u64::from(over);
        let operations = total_since(series::OPERATIONS)?;
        if latencies > operations.saturating_add(slack) {
            return None;
        }
        Some(SeriesDelta {
            series,
            operations,
            bytes: total_since(series::BYTES)?,
            // A sum of nanoseconds may wrap in theory, and tells nothing when it does.
            sum_ns: u64_at(&self.0, series::SUM_NS).wrapping_sub(u64_at(&before.0, series::SUM_NS)),
            errors: total_since(series::ERRORS)?,
            max_ns: u64_at(&self.0, series::MAX_NS),
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
    use crate::segment::layout::{Class, Kind, Op, BUCKETS};

    fn read() -> SeriesId {
        SeriesId { filesystem: 0, kind: Kind::of(Op::Read, Class::Storage).unwrap() }
    }

    fn put(record: &mut Record, offset: usize, value: u64, bytes: usize) {
        record.bytes()[offset..offset + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
    }

    #[test]
    fn buckets_wrap_and_operations_do_not() {
        let bucket = |bucket: usize| BUCKETS_OFFSET + 4 * bucket;
        let mut before = Record::ZERO;
        put(&mut before, series::OPERATIONS, 10, 8);
        put(&mut before, bucket(7), u64::from(u32::MAX) - 1, 4);
        let mut after = before.clone();
        put(&mut after, series::OPERATIONS, 15, 8);
        put(&mut after, bucket(7), 3, 4);
        let mut buckets = Vec::new();
        let delta = after.since(&before, read(), 0, &mut buckets).unwrap();
        assert_eq!((delta.operations, delta.buckets), (5, &[(7, 5)][..]));
        assert!(before.since(&after, read(), 0, &mut buckets).is_none(), "backwards");
        put(&mut after, bucket(8), 1, 4);
        assert!(after.since(&before, read(), 0, &mut buckets).is_none(), "more latencies than operations");
        assert!(after.since(&before, read(), 1, &mut buckets).is_some(), "one thread between the two counters");
    }

    #[test]
    fn every_bucket_with_anything_is_found_once() {
        let some = [(0, 3), (15, 1), (16, 2), (100, 7), (BUCKETS - 1, 5)];
        let mut after = Record::ZERO;
        put(&mut after, series::OPERATIONS, 18, 8);
        some.iter().for_each(|&(bucket, count)| put(&mut after, BUCKETS_OFFSET + 4 * bucket, u64::from(count), 4));
        let mut buckets = Vec::new();
        let delta = after.since(&Record::ZERO, read(), 0, &mut buckets).unwrap();
        assert_eq!((delta.operations, delta.buckets), (18, &some[..]));
    }

    #[test]
    fn every_byte_is_in_one_line_and_lines_that_differ_are_found() {
        let old = [0; 3 * LINE + 8];
        for byte in 0..old.len() {
            let mut new = old;
            new[byte] = 1;
            let changed: Vec<_> =
                lines(old.len()).filter(|line| !same(&new[line.clone()], &old[line.clone()])).collect();
            assert_eq!(changed.len(), 1);
            assert!(changed[0].contains(&byte));
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Layout constants of the latency segment, version 1, and the arithmetic of its buckets.

use std::fmt;

/// The first eight bytes.
pub const MAGIC: [u8; 8] = *b"BEERLAT\0";
/// The layout version that this reader understands.
pub const VERSION: u32 = 1;
/// Bytes of the header section.
pub const HEADER_BYTES: usize = 4096;
/// Largest file the reader accepts.
pub const MAX_BYTES: u64 = 2 << 20;
/// Most filesystems in one segment.
pub const MAX_FILESYSTEMS: usize = 96;
/// Bytes of a filesystem record.
pub const FILESYSTEM_STRIDE: usize = 256;
/// Series of one filesystem.
pub const KINDS: usize = 19;
/// Bytes of a series record.
pub const SERIES_STRIDE: usize = 960;
/// Histogram buckets of a series.
pub const BUCKETS: usize = 224;
/// Where the histogram starts in a series record.
pub const BUCKETS_OFFSET: usize = 64;
/// Bytes of a request slot.
pub const SLOT_STRIDE: usize = 32;
/// Bounds of the number of request slots; always a multiple of 64.
pub const SLOTS: std::ops::RangeInclusive<u32> = 64..=4096;
/// Bytes of a client record.
pub const CLIENT_STRIDE: usize = 64;
/// Bounds of the number of client records; always a multiple of 64.
pub const CLIENTS: std::ops::RangeInclusive<u32> = 64..=512;

/// Offsets of the header fields.
pub mod header {
    /// `magic`
    pub const MAGIC: usize = 0;
    /// `version`
    pub const VERSION: usize = 8;
    /// `header_bytes`
    pub const HEADER_BYTES: usize = 12;
    /// `total_bytes`
    pub const TOTAL_BYTES: usize = 16;
    /// `generation`
    pub const GENERATION: usize = 24;
    /// `pid`
    pub const PID: usize = 32;
    /// `filesystems`
    pub const FILESYSTEMS: usize = 36;
    /// `series_per_filesystem`
    pub const SERIES_PER_FILESYSTEM: usize = 40;
    /// `buckets`
    pub const BUCKETS: usize = 44;
    /// `series_stride`
    pub const SERIES_STRIDE: usize = 48;
    /// `slots`
    pub const SLOTS: usize = 52;
    /// `clients`
    pub const CLIENTS: usize = 56;
    /// zero
    pub const ZERO: usize = 60;
    /// `filesystems_offset`
    pub const FILESYSTEMS_OFFSET: usize = 64;
    /// `changes_offset`
    pub const CHANGES_OFFSET: usize = 72;
    /// `series_offset`
    pub const SERIES_OFFSET: usize = 80;
    /// `slots_offset`
    pub const SLOTS_OFFSET: usize = 88;
    /// `clients_offset`
    pub const CLIENTS_OFFSET: usize = 96;
    /// `heartbeat_ns`
    pub const HEARTBEAT_NS: usize = 128;
    /// `slots_high`
    pub const SLOTS_HIGH: usize = 136;
    /// `clients_high`
    pub const CLIENTS_HIGH: usize = 140;
    /// `slots_overflow`
    pub const SLOTS_OVERFLOW: usize = 144;
    /// `clients_overflow`
    pub const CLIENTS_OVERFLOW: usize = 152;
    /// `internal_errors`
    pub const INTERNAL_ERRORS: usize = 160;
    /// `shaping_sequence`
    pub const SHAPING_SEQUENCE: usize = 168;
    /// `instance`, 64 bytes
    pub const INSTANCE: usize = 192;
    /// End of the fields in use.
    pub const END: usize = 256;
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    /// read, readv, pgread
    Read,
    /// write, writev, pgwrite
    Write,
    /// fsync, and close of a file open for writing
    Sync,
    /// open, create
    Open,
    /// stat, unlink, rename, mkdir, readdir, truncate, chmod, close of a file open for reading
    Meta,
    /// Delay that the plug-in itself added.
    Pacing,
    /// Seconds that a client was told to wait.
    Stall,
}

/// Whose request it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Everything that is not batch.
    Storage,
    /// From an address in a batch prefix.
    Batch,
    /// Work of the server itself (checksums, clean-up).
    Internal,
    /// A read by beer-probe. No segment has this class: in its own one they are internal, and the guard tells them apart.
    Probe,
}

/// One of the 19 kinds of series that each filesystem has in a segment, or a probe: an operation of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind(u8);

impl Kind {
    /// Reads of storage clients: what most objectives are about.
    pub const STORAGE_READ: Kind = Kind(0);

    /// Reads of beer-probe, as the guard judges them; not in any segment.
    pub const PROBE_READ: Kind = Kind(KINDS as u8);

    /// The kind with this index in a segment, if there is one.
    pub const fn new(index: u32) -> Option<Kind> {
        if index < KINDS as u32 {
            Some(Kind(index as u8))
        } else {
            None
        }
    }

    /// The kind of an operation and a class; `None` for internal pacing and stall and for probes that do not read, which do not
    /// exist.
    pub const fn of(op: Op, class: Class) -> Option<Kind> {
        let class = match class {
            Class::Probe => return if matches!(op, Op::Read) { Some(Kind::PROBE_READ) } else { None },
            _ => class as u8,
        };
        match op {
            Op::Read | Op::Write | Op::Sync | Op::Open | Op::Meta => Some(Kind(op as u8 * 3 + class)),
            Op::Pacing if class < 2 => Some(Kind(15 + class)),
            Op::Stall if class < 2 => Some(Kind(17 + class)),
            Op::Pacing | Op::Stall => None,
        }
    }

    /// Index 0..19; of probes 19.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The operation.
    pub const fn op(self) -> Op {
        match self.0 {
            0..=2 => Op::Read,
            _ if self.0 == Kind::PROBE_READ.0 => Op::Read,
            3..=5 => Op::Write,
            6..=8 => Op::Sync,
            9..=11 => Op::Open,
            12..=14 => Op::Meta,
            15 | 16 => Op::Pacing,
            _ => Op::Stall,
        }
    }

    /// The traffic class.
    pub const fn class(self) -> Class {
        if self.0 == Kind::PROBE_READ.0 {
            return Class::Probe;
        }
        let class = if self.0 < 15 { self.0 % 3 } else { (self.0 - 15) % 2 };
        match class {
            0 => Class::Storage,
            1 => Class::Batch,
            _ => Class::Internal,
        }
    }
}

/// A series: a kind on a filesystem (its index in the segment).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeriesId {
    /// Index of the filesystem record.
    pub filesystem: u16,
    /// What and whose.
    pub kind: Kind,
}

impl SeriesId {
    /// From the index that the segment uses, `filesystem * 19 + kind`.
    pub const fn from_index(index: u32) -> Option<SeriesId> {
        let filesystem = index / KINDS as u32;
        if filesystem >= MAX_FILESYSTEMS as u32 {
            return None;
        }
        match Kind::new(index % KINDS as u32) {
            Some(kind) => Some(SeriesId { filesystem: filesystem as u16, kind }),
            None => None,
        }
    }

    /// The index that the segment uses; a probe has none there.
    pub const fn index(self) -> usize {
        self.filesystem as usize * KINDS + self.kind.index()
    }
}

/// The bucket of a latency: `None` below 512 ns (`under`) and from 2^37 ns on (`over`).
pub const fn bucket_of(ns: u64) -> Option<usize> {
    if ns < 1 << 9 || ns >= 1 << 37 {
        return None;
    }
    let e = (63 - ns.leading_zeros()) as u64 - 9;
    Some((8 * e + ((ns >> (e + 6)) & 7)) as usize)
}

/// The smallest latency of a bucket; of bucket 224 the first that is `over`.
pub const fn bucket_lower(bucket: usize) -> u64 {
    let (e, s) = (bucket as u64 / 8, bucket as u64 % 8);
    (8 + s) << (e + 6)
}

/// The first latency above a bucket.
pub const fn bucket_upper(bucket: usize) -> u64 {
    bucket_lower(bucket + 1)
}

/// The middle of a bucket: within 6.25 % of every latency in it.
pub const fn bucket_middle(bucket: usize) -> u64 {
    (bucket_lower(bucket) + bucket_upper(bucket)) / 2
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Sync => "sync",
            Op::Open => "open",
            Op::Meta => "meta",
            Op::Pacing => "pacing",
            Op::Stall => "stall",
        })
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Storage => "storage",
            Class::Batch => "batch",
            Class::Internal => "internal",
            Class::Probe => "probe",
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.class(), self.op())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_indices_are_inverse() {
        for i in 0..KINDS as u32 {
            let kind = Kind::new(i).unwrap();
            assert_eq!(Kind::of(kind.op(), kind.class()), Some(kind));
            assert_eq!(kind.index(), i as usize);
        }
        assert_eq!(Kind::of(Op::Read, Class::Storage), Some(Kind::STORAGE_READ));
        assert_eq!(Kind::new(19), None);
        assert_eq!(Kind::of(Op::Stall, Class::Internal), None);
        assert_eq!(Kind::of(Op::Read, Class::Probe), Some(Kind::PROBE_READ));
        assert_eq!((Kind::PROBE_READ.op(), Kind::PROBE_READ.class()), (Op::Read, Class::Probe));
        assert_eq!(Kind::of(Op::Write, Class::Probe), None);
        assert_eq!(SeriesId::from_index(19 * 96), None);
        assert_eq!(SeriesId::from_index(19 * 95 + 18).map(SeriesId::index), Some(19 * 95 + 18));
    }

    #[test]
    fn buckets_tile_the_range() {
        assert_eq!(bucket_of(511), None);
        assert_eq!(bucket_of(1 << 37), None);
        assert_eq!(bucket_lower(0), 512);
        assert_eq!(bucket_upper(BUCKETS - 1), 1 << 37);
        for b in 0..BUCKETS {
            assert_eq!(bucket_of(bucket_lower(b)), Some(b));
            assert_eq!(bucket_of(bucket_upper(b) - 1), Some(b));
            let (low, high, mid) = (bucket_lower(b) as f64, bucket_upper(b) as f64, bucket_middle(b) as f64);
            assert!((mid - low) / low <= 0.0626 && (high - mid) / high <= 0.0626, "bucket {b}");
        }
    }
}

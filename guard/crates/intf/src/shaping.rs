// SPDX-License-Identifier: Apache-2.0
//! The shaping segment: how fast batch may go through the storage daemons now. `docs/formats/shaping-segment.md` is
//! the contract; libXrdBeer reads it.

use crate::bytes::{u32_at, u64_at};

/// Size of the file.
pub const SHAPING_BYTES: usize = 4096;

const MAGIC: &[u8; 8] = b"BEERSHP\0";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 64;
const RECORD_BYTES: usize = 32;
const CHECKSUM_AT: usize = 56;
/// What fits: 96 filesystems and all others.
pub const MOST_RECORDS: usize = 97;

/// How fast all batch streams of a filesystem together may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Device number; [`Allowance::EVERY`] twice = every filesystem without a record of its own.
    pub device: (u32, u32),
    /// Bytes per second; 0 = nothing moves, `u64::MAX` = no limit.
    pub bytes: u64,
    /// Requests per second.
    pub operations: u64,
}

impl Allowance {
    /// As major and minor: every filesystem.
    pub const EVERY: u32 = u32::MAX;
    /// Nothing moves anywhere.
    pub const HELD: Allowance = Allowance { device: (Self::EVERY, Self::EVERY), bytes: 0, operations: 0 };
}

/// What the file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shaping<'a> {
    /// Grows with every write.
    pub sequence: u64,
    /// From then on (CLOCK_MONOTONIC) it says nothing.
    pub lease_until_ns: u64,
    /// Of the writer.
    pub pid: u32,
    /// At most [`MOST_RECORDS`]; what is more is left out.
    pub allowances: &'a [Allowance],
}

/// Does the file say now that something may not move? `false` where it is damaged: nobody listens to it then.
pub fn holds(file: &[u8], now_ns: u64) -> bool {
    if file.len() < HEADER_BYTES || !file.starts_with(MAGIC) || u32_at(file, 8) != VERSION {
        return false;
    }
    let count = u32_at(file, 12) as usize;
    let Some(used) = file.get(..HEADER_BYTES + count.min(MOST_RECORDS + 1) * RECORD_BYTES) else { return false };
    let good = count <= MOST_RECORDS && u64_at(used, CHECKSUM_AT) == checksum(used) && now_ns < u64_at(used, 24);
    let held = |record: &[u8]| u64_at(record, 8) == 0 || u64_at(record, 16) == 0;
    good && used[HEADER_BYTES..].chunks_exact(RECORD_BYTES).any(held)
}

impl Shaping<'_> {
    /// Writes the bytes of the file; the rest of the buffer stays as it is. Returns the used part.
    pub fn encode<'b>(&self, buffer: &'b mut [u8; SHAPING_BYTES]) -> &'b [u8] {
        let count = self.allowances.len().min(MOST_RECORDS);
        let used = HEADER_BYTES + count * RECORD_BYTES;
        buffer[..used].fill(0);
        buffer[..8].copy_from_slice(MAGIC);
        put32(buffer, 8, VERSION);
        put32(buffer, 12, count as u32);
        put64(buffer, 16, self.sequence);
        put64(buffer, 24, self.lease_until_ns);
        put32(buffer, 32, self.pid);
        for (i, allowance) in self.allowances.iter().take(count).enumerate() {
            let at = HEADER_BYTES + i * RECORD_BYTES;
            put32(buffer, at, allowance.device.0);
            put32(buffer, at + 4, allowance.device.1);
            put64(buffer, at + 8, allowance.bytes);
            put64(buffer, at + 16, allowance.operations);
        }
        let checksum = checksum(&buffer[..used]);
        put64(buffer, CHECKSUM_AT, checksum);
        &buffer[..used]
    }
}

fn put32(buffer: &mut [u8], at: usize, value: u32) {
    buffer[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put64(buffer: &mut [u8], at: usize, value: u64) {
    buffer[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Of a header, the place of the checksum left out, and its records.
fn checksum(used: &[u8]) -> u64 {
    fnv1a(&used[HEADER_BYTES..], fnv1a(&used[..CHECKSUM_AT], 0xcbf2_9ce4_8422_2325))
}

/// FNV-1a, 64 bit, going on from `hash`.
fn fnv1a(bytes: &[u8], hash: u64) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

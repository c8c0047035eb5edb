// SPDX-License-Identifier: Apache-2.0
//! The header: every count and offset is checked against the size of the file before one is used.

use super::error::Reason;
use super::layout::{self, header as field, FILESYSTEM_STRIDE, HEADER_BYTES, KINDS, SERIES_STRIDE, SLOT_STRIDE};
use super::visit::Filesystem;
use crate::bytes::{u32_at, u64_at};

/// The leading bytes that do not change while a writer lives.
pub(super) const FIXED_BYTES: usize = 128;

/// Where the sections are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sections {
    pub filesystems: u32,
    pub slots: u32,
    pub clients: u32,
    pub filesystems_offset: u64,
    pub changes_offset: u64,
    pub series_offset: u64,
    pub slots_offset: u64,
    pub clients_offset: u64,
    pub total_bytes: u64,
}

impl Sections {
    /// The one layout that these counts have.
    pub fn new(filesystems: u32, slots: u32, clients: u32) -> Sections {
        let series = u64::from(filesystems) * KINDS as u64;
        let filesystems_offset = HEADER_BYTES as u64;
        let changes_offset = filesystems_offset + u64::from(filesystems) * FILESYSTEM_STRIDE as u64;
        let series_offset = changes_offset + (4 * series).next_multiple_of(64);
        let slots_offset = series_offset + series * SERIES_STRIDE as u64;
        let clients_offset = slots_offset + u64::from(slots) * SLOT_STRIDE as u64;
        let total_bytes = clients_offset + u64::from(clients) * layout::CLIENT_STRIDE as u64;
        Sections {
            filesystems,
            slots,
            clients,
            filesystems_offset,
            changes_offset,
            series_offset,
            slots_offset,
            clients_offset,
            total_bytes,
        }
    }

    pub fn series(&self) -> usize {
        self.filesystems as usize * KINDS
    }
}

/// The fixed part of the header, checked.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub generation: u64,
    pub pid: u32,
    pub sections: Sections,
    pub instance: String,
}

impl Header {
    /// Checks a header (its first [`field::END`] bytes) of a file of `size` bytes.
    pub fn parse(bytes: &[u8; field::END], size: u64) -> Result<Header, Reason> {
        if bytes[..8] != layout::MAGIC {
            return Err(Reason::WrongMagic);
        }
        let version = u32_at(bytes, field::VERSION);
        if version != layout::VERSION {
            return Err(Reason::WrongVersion(version));
        }
        let exactly = |name, found: u64, required: u64| match found == required {
            true => Ok(()),
            false => Err(Reason::Field { field: name, found, required }),
        };
        let small = |offset| u64::from(u32_at(bytes, offset));
        exactly("header_bytes", small(field::HEADER_BYTES), HEADER_BYTES as u64)?;
        exactly("series_per_filesystem", small(field::SERIES_PER_FILESYSTEM), KINDS as u64)?;
        exactly("buckets", small(field::BUCKETS), layout::BUCKETS as u64)?;
        exactly("series_stride", small(field::SERIES_STRIDE), SERIES_STRIDE as u64)?;
        exactly("unused_60", small(field::ZERO), 0)?;

        let count = |name, offset, range: std::ops::RangeInclusive<u32>, multiple: u32| {
            let found = u32_at(bytes, offset);
            let bound = found.clamp(*range.start(), *range.end());
            let required = bound - bound % multiple;
            exactly(name, u64::from(found), u64::from(required)).map(|()| found)
        };
        let filesystems = count("filesystems", field::FILESYSTEMS, 1..=layout::MAX_FILESYSTEMS as u32, 1)?;
        let slots = count("slots", field::SLOTS, layout::SLOTS, 64)?;
        let clients = count("clients", field::CLIENTS, layout::CLIENTS, 64)?;
        let sections = Sections::new(filesystems, slots, clients);
        exactly("filesystems_offset", u64_at(bytes, field::FILESYSTEMS_OFFSET), sections.filesystems_offset)?;
        exactly("changes_offset", u64_at(bytes, field::CHANGES_OFFSET), sections.changes_offset)?;
        exactly("series_offset", u64_at(bytes, field::SERIES_OFFSET), sections.series_offset)?;
        exactly("slots_offset", u64_at(bytes, field::SLOTS_OFFSET), sections.slots_offset)?;
        exactly("clients_offset", u64_at(bytes, field::CLIENTS_OFFSET), sections.clients_offset)?;
        exactly("total_bytes", u64_at(bytes, field::TOTAL_BYTES), sections.total_bytes)?;
        if size < sections.total_bytes {
            return Err(Reason::Truncated { found: size, required: sections.total_bytes });
        }
        exactly("size of the file", size, sections.total_bytes)?;

        let generation = u64_at(bytes, field::GENERATION);
        if generation == 0 {
            return Err(Reason::Field { field: "generation", found: 0, required: 1 });
        }
        let instance = text(&bytes[field::INSTANCE..field::END]).ok_or(Reason::Instance)?;
        Ok(Header { generation, pid: u32_at(bytes, field::PID), sections, instance: instance.into() })
    }
}

/// A zero-terminated text without control characters: it ends up in logs, metrics and the journal.
fn text(bytes: &[u8]) -> Option<&str> {
    let end = bytes.iter().position(|&b| b == 0)?;
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    (!text.chars().any(char::is_control)).then_some(text)
}

/// Offsets in a filesystem record.
pub(super) mod filesystem {
    pub const MAJOR: usize = 0;
    pub const MINOR: usize = 4;
    pub const OPEN_READERS: usize = 8;
    pub const OPEN_WRITERS: usize = 12;
    pub const FLAGS: usize = 16;
    pub const PATH: usize = 64;
    pub const FLAG_OVERLOADED: u32 = 1;
}

impl Filesystem {
    pub(super) fn parse(index: u32, record: &[u8]) -> Result<Filesystem, Reason> {
        let path = text(&record[filesystem::PATH..FILESYSTEM_STRIDE]);
        let path = path.filter(|p| p.starts_with('/')).ok_or(Reason::FilesystemPath(index))?;
        let mut parsed =
            Filesystem { path: path.into(), major: 0, minor: 0, open_readers: 0, open_writers: 0, overloaded: false };
        parsed.update(record);
        Ok(parsed)
    }

    /// Takes over everything but the path, which does not change while a writer lives.
    pub(super) fn update(&mut self, record: &[u8]) {
        self.major = u32_at(record, filesystem::MAJOR);
        self.minor = u32_at(record, filesystem::MINOR);
        self.open_readers = u32_at(record, filesystem::OPEN_READERS);
        self.open_writers = u32_at(record, filesystem::OPEN_WRITERS);
        self.overloaded = u32_at(record, filesystem::FLAGS) & filesystem::FLAG_OVERLOADED != 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_segment_has_the_size_of_the_format_page() {
        assert_eq!(Sections::new(96, 4096, 512).total_bytes, 1_950_848);
        assert!(Sections::new(96, 4096, 512).total_bytes <= layout::MAX_BYTES);
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Writes a segment as libXrdBeer does: for beer-probe, which has few requests and need not be fast, and for tests, benchmarks and
//! demonstrations. Not part of the guard's own process.

use super::header::{filesystem, Sections};
use super::layout::{self, bucket_of, header as field, SeriesId, BUCKETS_OFFSET, SERIES_STRIDE, SLOT_STRIDE};
use super::record::{client, series, slot};
use std::fs::{File, OpenOptions};
use std::io;
use std::net::Ipv6Addr;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A segment: its image in memory, and the file that follows it.
pub struct SegmentWriter {
    file: File,
    path: PathBuf,
    sections: Sections,
    image: Vec<u8>,
}

impl SegmentWriter {
    /// Makes the file (temporary name, then rename). A filesystem is (path, major, minor); paths are cut at 191 bytes.
    ///
    /// # Errors
    /// The file cannot be written, or the counts are not those of a valid segment.
    pub fn create(
        path: &Path,
        generation: u64,
        filesystems: &[(&str, u32, u32)],
        slots: u32,
        clients: u32,
    ) -> io::Result<SegmentWriter> {
        let counts_valid = (1..=layout::MAX_FILESYSTEMS).contains(&filesystems.len())
            && layout::SLOTS.contains(&slots)
            && layout::CLIENTS.contains(&clients)
            && slots % 64 == 0
            && clients % 64 == 0;
        if !counts_valid {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "counts outside the format"));
        }
        let sections = Sections::new(filesystems.len() as u32, slots, clients);
        let temporary = path.with_extension(format!("lat.{}.{generation}", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o640).open(&temporary)?;
        let image = vec![0; sections.total_bytes as usize];
        let mut writer = SegmentWriter { file, path: path.into(), sections, image };
        writer.header(generation);
        for (i, (path, major, minor)) in filesystems.iter().enumerate() {
            let at = writer.sections.filesystems_offset as usize + i * layout::FILESYSTEM_STRIDE;
            writer.set_u32(at + filesystem::MAJOR, *major);
            writer.set_u32(at + filesystem::MINOR, *minor);
            writer.set_text(at + filesystem::PATH, layout::FILESYSTEM_STRIDE - filesystem::PATH, path);
        }
        writer.file.write_all_at(&writer.image, 0)?;
        std::fs::rename(&temporary, path)?;
        Ok(writer)
    }

    fn header(&mut self, generation: u64) {
        let s = self.sections;
        self.image[..8].copy_from_slice(&layout::MAGIC);
        for (offset, value) in [
            (field::VERSION, layout::VERSION),
            (field::HEADER_BYTES, layout::HEADER_BYTES as u32),
            (field::PID, std::process::id()),
            (field::FILESYSTEMS, s.filesystems),
            (field::SERIES_PER_FILESYSTEM, layout::KINDS as u32),
            (field::BUCKETS, layout::BUCKETS as u32),
            (field::SERIES_STRIDE, SERIES_STRIDE as u32),
            (field::SLOTS, s.slots),
            (field::CLIENTS, s.clients),
        ] {
            self.set_u32(offset, value);
        }
        for (offset, value) in [
            (field::TOTAL_BYTES, s.total_bytes),
            (field::GENERATION, generation),
            (field::FILESYSTEMS_OFFSET, s.filesystems_offset),
            (field::CHANGES_OFFSET, s.changes_offset),
            (field::SERIES_OFFSET, s.series_offset),
            (field::SLOTS_OFFSET, s.slots_offset),
            (field::CLIENTS_OFFSET, s.clients_offset),
        ] {
            self.set_u64(offset, value);
        }
        self.set_text(field::INSTANCE, 64, "synthetic");
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sign of life.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn heartbeat(&mut self, now_ns: u64) -> io::Result<()> {
        self.set_u64(field::HEARTBEAT_NS, now_ns);
        self.flush(field::HEARTBEAT_NS, 8)
    }

    /// One completed operation.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn complete(&mut self, id: SeriesId, latency_ns: u64, bytes: u64) -> io::Result<()> {
        let at = self.sections.series_offset as usize + id.index() * SERIES_STRIDE;
        self.add_u64(at + series::OPERATIONS, 1);
        self.add_u64(at + series::BYTES, bytes);
        self.add_u64(at + series::SUM_NS, latency_ns);
        let max = self.u64(at + series::MAX_NS).max(latency_ns);
        self.set_u64(at + series::MAX_NS, max);
        let counter = match bucket_of(latency_ns) {
            Some(bucket) => BUCKETS_OFFSET + 4 * bucket,
            None if latency_ns < 512 => series::UNDER,
            None => series::OVER,
        };
        self.add_u32(at + counter);
        self.flush(at, SERIES_STRIDE)?;
        let change = self.sections.changes_offset as usize + 4 * id.index();
        self.add_u32(change);
        self.flush(change, 4)
    }

    /// The operation that [`Self::complete`] tells of next has failed.
    pub fn failed(&mut self, id: SeriesId) {
        let at = self.sections.series_offset as usize + id.index() * SERIES_STRIDE;
        self.add_u64(at + series::ERRORS, 1);
    }

    /// A request enters the storage layer, in slot `index`; `client` is the index of a client record.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin(
        &mut self,
        index: u32,
        id: SeriesId,
        start_ns: u64,
        bytes: u64,
        client: Option<u32>,
    ) -> io::Result<()> {
        let at = self.sections.slots_offset as usize + index as usize * SLOT_STRIDE;
        self.set_u32(at + slot::SERIES, id.index() as u32);
        self.set_u32(at + slot::TID, std::process::id() + index);
        self.set_u64(at + slot::BYTES, bytes);
        self.set_u32(at + slot::CLIENT, client.map_or(0, |c| c + 1));
        self.set_u64(at + slot::START_NS, start_ns);
        self.flush(at, SLOT_STRIDE)?;
        if index >= self.u32(field::SLOTS_HIGH) {
            self.set_u32(field::SLOTS_HIGH, index + 1);
            self.flush(field::SLOTS_HIGH, 4)?;
        }
        Ok(())
    }

    /// The request in slot `index` leaves it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end(&mut self, index: u32) -> io::Result<()> {
        let at = self.sections.slots_offset as usize + index as usize * SLOT_STRIDE;
        self.set_u64(at + slot::START_NS, 0);
        self.flush(at, 8)
    }

    /// Sets a client record.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn client(&mut self, index: u32, address: Ipv6Addr, read: u64, written: u64) -> io::Result<()> {
        let at = self.sections.clients_offset as usize + index as usize * layout::CLIENT_STRIDE;
        self.image[at + client::ADDRESS..at + client::ADDRESS + 16].copy_from_slice(&address.octets());
        self.set_u64(at + client::BYTES_READ, read);
        self.set_u64(at + client::BYTES_WRITTEN, written);
        self.add_u64(at + client::OPERATIONS, 1);
        self.set_u64(at + client::LAST_NS, 1);
        self.set_u32(at + client::USED, 1);
        self.flush(at, layout::CLIENT_STRIDE)?;
        let high = self.u32(field::CLIENTS_HIGH).max(index + 1);
        self.set_u32(field::CLIENTS_HIGH, high);
        self.flush(field::CLIENTS_HIGH, 4)
    }

    /// Sets open readers, open writers and the overload flag of a filesystem.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn filesystem(&mut self, index: u32, readers: u32, writers: u32, overloaded: bool) -> io::Result<()> {
        let at = self.sections.filesystems_offset as usize + index as usize * layout::FILESYSTEM_STRIDE;
        self.set_u32(at + filesystem::OPEN_READERS, readers);
        self.set_u32(at + filesystem::OPEN_WRITERS, writers);
        self.set_u32(at + filesystem::FLAGS, u32::from(overloaded));
        self.flush(at, 64)
    }

    fn flush(&self, at: usize, bytes: usize) -> io::Result<()> {
        self.file.write_all_at(&self.image[at..at + bytes], at as u64)
    }

    fn set_text(&mut self, at: usize, room: usize, text: &str) {
        let bytes = &text.as_bytes()[..text.len().min(room - 1)];
        self.image[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn u32(&self, at: usize) -> u32 {
        crate::bytes::u32_at(&self.image, at)
    }

    fn u64(&self, at: usize) -> u64 {
        crate::bytes::u64_at(&self.image, at)
    }

    fn set_u32(&mut self, at: usize, value: u32) {
        self.image[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn set_u64(&mut self, at: usize, value: u64) {
        self.image[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    fn add_u32(&mut self, at: usize) {
        self.set_u32(at, self.u32(at).wrapping_add(1));
    }

    fn add_u64(&mut self, at: usize, value: u64) {
        self.set_u64(at, self.u64(at).wrapping_add(value));
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Reads the segment: safely (hostile content), cheaply (only what changed), without allocating in steady state (the first operation
//! of its kind on a filesystem does).

use super::error::{Reason, SegmentError};
use super::header::{Header, FIXED_BYTES};
use super::layout::{self, header as field, SeriesId, BUCKETS, SERIES_STRIDE, SLOT_STRIDE};
use super::open::{self, Identity, Opened};
use super::record::{decode_client, lines, same, Record, Slot};
use super::visit::{Filesystem, Visitor};
use crate::bytes::{u32_at, u64_at};
use std::path::Path;
use std::sync::Arc;

/// How often to try a file that could not be used, and to look for another file at the path.
const LOOK_AGAIN_NS: u64 = 1_000_000_000;
/// The writer beats every 100 ms: later than this, look for another file at once.
const STALE_NS: u64 = 500_000_000;
/// A heartbeat may be this far ahead of a clock that was read before the file.
const HEARTBEAT_TOLERANCE_NS: u64 = 1_000_000_000;

/// What one poll says about the segment as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Poll {
    /// Start time of the writer; identifies it.
    pub generation: u64,
    /// Process id of the writer.
    pub pid: u32,
    /// This poll found a new writer (or is the first): everything was taken as the new base, no series was reported.
    pub restarted: bool,
    /// Age of the heartbeat. `u64::MAX` if it lies in the future by more than a second: no signal.
    pub heartbeat_age_ns: u64,
    /// Requests in flight.
    pub in_flight: u32,
    /// Series that changed.
    pub changed: u32,
    /// Requests that found no free slot, since the writer started.
    pub slots_overflow: u64,
    /// Operations of clients that found no free record, since the writer started.
    pub clients_overflow: u64,
    /// Exceptions caught in the plug-in, since the writer started.
    pub internal_errors: u64,
    /// Of the shaping segment that the writer applied last.
    pub shaping_sequence: u64,
    /// Values in this poll that cannot be (counters backwards, starts in the future, unknown series); they were not used.
    pub damaged: u32,
}

/// Reader of one segment. Opens it when it can, and again when the writer was restarted.
pub struct SegmentReader {
    path: Arc<Path>,
    owner: u32,
    segment: Option<Segment>,
    error: SegmentError,
    look_again_ns: u64,
}

impl SegmentReader {
    /// A reader of `path`, whose owner must be `owner`. Does not touch the file: the storage daemon may start later.
    pub fn new(path: &Path, owner: u32) -> SegmentReader {
        let path: Arc<Path> = path.into();
        let error = SegmentError { path: path.clone(), reason: Reason::NotFound };
        SegmentReader { path, owner, segment: None, error, look_again_ns: 0 }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads what changed. `now_ns` is CLOCK_MONOTONIC, taken before the call. Looks for a new file once a second, and
    /// whenever the heartbeat is stale.
    ///
    /// # Errors
    /// The segment gives no signal; the error stays the same until the next attempt to open it.
    pub fn poll(&mut self, now_ns: u64, visitor: &mut dyn Visitor) -> Result<Poll, &SegmentError> {
        match self.try_poll(now_ns, visitor) {
            Ok(poll) => Ok(poll),
            Err(Some(reason)) => {
                self.error.reason = reason;
                self.segment = None;
                self.look_again_ns = now_ns.saturating_add(LOOK_AGAIN_NS);
                Err(&self.error)
            }
            Err(None) => Err(&self.error),
        }
    }

    /// `Err(None)` = still the error of before.
    fn try_poll(&mut self, now_ns: u64, visitor: &mut dyn Visitor) -> Result<Poll, Option<Reason>> {
        if now_ns >= self.look_again_ns {
            self.look_again_ns = now_ns.saturating_add(LOOK_AGAIN_NS);
            if let Some(segment) = &self.segment {
                if Identity::at(&self.path)? != segment.identity {
                    return self.restart(now_ns, visitor);
                }
            }
        } else if self.segment.is_none() {
            return Err(None);
        }
        let Some(segment) = &mut self.segment else { return self.restart(now_ns, visitor) };
        if !segment.read_header()? {
            return self.restart(now_ns, visitor);
        }
        let mut poll = segment.poll(now_ns);
        if poll.heartbeat_age_ns > STALE_NS {
            self.look_again_ns = now_ns;
        }
        segment.visit_series(&mut poll, visitor)?;
        segment.visit_slots(now_ns, &mut poll, visitor)?;
        Ok(poll)
    }

    /// Opens what is at the path now and takes it as the new base.
    fn restart(&mut self, now_ns: u64, visitor: &mut dyn Visitor) -> Result<Poll, Option<Reason>> {
        self.segment = None;
        let mut segment = Segment::open(&self.path, self.owner)?;
        let mut poll = segment.poll(now_ns);
        poll.restarted = true;
        visitor.restart(&segment.filesystems);
        segment.visit_slots(now_ns, &mut poll, visitor)?;
        self.segment = Some(segment);
        Ok(poll)
    }

    /// Reads what need not be read at every tick: filesystem records (then in [`Self::filesystems`]) and clients.
    ///
    /// # Errors
    /// As [`Self::poll`].
    pub fn refresh(&mut self, visitor: &mut dyn Visitor) -> Result<(), &SegmentError> {
        let Some(segment) = &mut self.segment else { return Err(&self.error) };
        match segment.refresh(visitor) {
            Ok(()) => Ok(()),
            Err(reason) => {
                self.error.reason = reason;
                self.segment = None;
                Err(&self.error)
            }
        }
    }

    /// The filesystems as of the last restart or refresh; empty while there is no segment.
    pub fn filesystems(&self) -> &[Filesystem] {
        self.segment.as_ref().map_or(&[], |s| &s.filesystems)
    }

    /// Name of the XRootD instance; empty while there is no segment.
    pub fn instance(&self) -> &str {
        self.segment.as_ref().map_or("", |s| &s.header.instance)
    }
}

/// An open, validated segment, with every buffer that reading it needs.
struct Segment {
    file: std::os::fd::OwnedFd,
    identity: Identity,
    header: Header,
    raw_header: [u8; field::END],
    fixed: [u8; FIXED_BYTES],
    filesystems: Vec<Filesystem>,
    /// `None` = nothing was done of that kind there: so it stays for most kinds on most filesystems, and each takes a kilobyte.
    before: Vec<Option<Box<Record>>>,
    /// The change counters, as read.
    changes: Vec<u8>,
    record: Box<Record>,
    buckets: Vec<(usize, u32)>,
    /// As large as the largest section that is read at once: changes, slots, filesystems or clients.
    buffer: Vec<u8>,
}

impl Segment {
    fn open(path: &Path, owner: u32) -> Result<Segment, Reason> {
        let Opened { fd, identity, size } = open::open(path, owner)?;
        if size < layout::HEADER_BYTES as u64 {
            return Err(Reason::Truncated { found: size, required: layout::HEADER_BYTES as u64 });
        }
        let mut raw_header = [0; field::END];
        open::read_exact(&fd, &mut raw_header, 0)?;
        let header = Header::parse(&raw_header, size)?;
        let mut fixed = [0; FIXED_BYTES];
        fixed.copy_from_slice(&raw_header[..FIXED_BYTES]);
        let sections = header.sections;
        let largest = [
            sections.series() * 4,
            sections.slots as usize * SLOT_STRIDE,
            sections.filesystems as usize * layout::FILESYSTEM_STRIDE,
            sections.clients as usize * layout::CLIENT_STRIDE,
            SERIES_STRIDE,
        ];
        let mut segment = Segment {
            file: fd,
            identity,
            raw_header,
            fixed,
            filesystems: Vec::with_capacity(sections.filesystems as usize),
            before: vec![None; sections.series()],
            changes: vec![0; 4 * sections.series()],
            record: Box::new(Record::ZERO),
            buckets: Vec::with_capacity(BUCKETS),
            buffer: vec![0; largest.into_iter().max().unwrap_or(0)],
            header,
        };
        segment.read_base()?;
        Ok(segment)
    }

    /// Filesystem records, change counters and all series as they are now.
    fn read_base(&mut self) -> Result<(), Reason> {
        let sections = self.header.sections;
        let bytes = sections.filesystems as usize * layout::FILESYSTEM_STRIDE;
        open::read_exact(&self.file, &mut self.buffer[..bytes], sections.filesystems_offset)?;
        for (index, record) in (0..).zip(self.buffer[..bytes].chunks_exact(layout::FILESYSTEM_STRIDE)) {
            self.filesystems.push(Filesystem::parse(index, record)?);
        }
        self.read_changes()?;
        self.changes.copy_from_slice(&self.buffer[..4 * sections.series()]);
        for index in 0..sections.series() {
            self.read_record(index)?;
            if *self.record != Record::ZERO {
                self.before[index] = Some(self.record.clone());
            }
        }
        Ok(())
    }

    /// The change counters, into the buffer.
    fn read_changes(&mut self) -> Result<(), Reason> {
        let sections = &self.header.sections;
        open::read_exact(&self.file, &mut self.buffer[..4 * sections.series()], sections.changes_offset)
    }

    /// Reads the header; `false` when it is no longer the one that was validated.
    fn read_header(&mut self) -> Result<bool, Reason> {
        open::read_exact(&self.file, &mut self.raw_header, 0)?;
        Ok(self.raw_header[..FIXED_BYTES] == self.fixed)
    }

    /// What the header says.
    fn poll(&self, now_ns: u64) -> Poll {
        let heartbeat = u64_at(&self.raw_header, field::HEARTBEAT_NS);
        let future = heartbeat > now_ns.saturating_add(HEARTBEAT_TOLERANCE_NS);
        Poll {
            generation: self.header.generation,
            pid: self.header.pid,
            heartbeat_age_ns: if future { u64::MAX } else { now_ns.saturating_sub(heartbeat) },
            slots_overflow: u64_at(&self.raw_header, field::SLOTS_OVERFLOW),
            clients_overflow: u64_at(&self.raw_header, field::CLIENTS_OVERFLOW),
            internal_errors: u64_at(&self.raw_header, field::INTERNAL_ERRORS),
            shaping_sequence: u64_at(&self.raw_header, field::SHAPING_SEQUENCE),
            ..Poll::default()
        }
    }

    /// A series record, into `record`.
    fn read_record(&mut self, index: usize) -> Result<(), Reason> {
        let offset = self.header.sections.series_offset + (index * SERIES_STRIDE) as u64;
        open::read_exact(&self.file, self.record.bytes(), offset)
    }

    /// Reports the series whose change counter moved.
    fn visit_series(&mut self, poll: &mut Poll, visitor: &mut dyn Visitor) -> Result<(), Reason> {
        self.read_changes()?;
        for line in lines(self.changes.len()) {
            if same(&self.buffer[line.clone()], &self.changes[line.clone()]) {
                continue;
            }
            for offset in line.clone().step_by(4) {
                let counter = offset..offset + 4;
                if self.buffer[counter.clone()] != self.changes[counter] {
                    self.visit_one(offset / 4, poll, visitor)?;
                }
            }
            // Counters were read before the records: what a record gains in between shows at the next poll.
            self.changes[line.clone()].copy_from_slice(&self.buffer[line]);
        }
        Ok(())
    }

    fn visit_one(&mut self, index: usize, poll: &mut Poll, visitor: &mut dyn Visitor) -> Result<(), Reason> {
        self.read_record(index)?;
        let Some(series) = SeriesId::from_index(index as u32) else { return Ok(()) };
        // One thread per slot can be between two of the counters, at this poll and at the one before.
        let slack = 2 * u64::from(self.header.sections.slots);
        let before = self.before[index].get_or_insert_with(|| Box::new(Record::ZERO));
        match self.record.since(before, series, slack, &mut self.buckets) {
            Some(delta) => {
                poll.changed += 1;
                visitor.series(&delta);
            }
            None => poll.damaged += 1,
        }
        std::mem::swap(&mut self.record, before);
        Ok(())
    }

    /// Reports the requests in flight.
    fn visit_slots(&mut self, now_ns: u64, poll: &mut Poll, visitor: &mut dyn Visitor) -> Result<(), Reason> {
        let sections = self.header.sections;
        let high = self.high(field::SLOTS_HIGH, sections.slots, poll);
        let bytes = high as usize * SLOT_STRIDE;
        open::read_exact(&self.file, &mut self.buffer[..bytes], sections.slots_offset)?;
        for raw in self.buffer[..bytes].chunks_exact(SLOT_STRIDE) {
            match Slot::decode(raw, now_ns, sections.series(), sections.clients) {
                Slot::Free => {}
                Slot::Damaged => poll.damaged += 1,
                Slot::Busy(request) => {
                    poll.in_flight += 1;
                    visitor.in_flight(&request);
                }
            }
        }
        Ok(())
    }

    /// A high-water mark of the header; more than there can be is damage, and then all are looked at.
    fn high(&self, offset: usize, count: u32, poll: &mut Poll) -> u32 {
        let high = u32_at(&self.raw_header, offset);
        if high > count {
            poll.damaged += 1;
        }
        high.min(count)
    }

    fn refresh(&mut self, visitor: &mut dyn Visitor) -> Result<(), Reason> {
        let sections = self.header.sections;
        let bytes = sections.filesystems as usize * layout::FILESYSTEM_STRIDE;
        open::read_exact(&self.file, &mut self.buffer[..bytes], sections.filesystems_offset)?;
        let records = self.buffer[..bytes].chunks_exact(layout::FILESYSTEM_STRIDE);
        self.filesystems.iter_mut().zip(records).for_each(|(filesystem, record)| filesystem.update(record));

        let high = self.high(field::CLIENTS_HIGH, sections.clients, &mut Poll::default());
        let bytes = high as usize * layout::CLIENT_STRIDE;
        open::read_exact(&self.file, &mut self.buffer[..bytes], sections.clients_offset)?;
        for (index, raw) in (0..).zip(self.buffer[..bytes].chunks_exact(layout::CLIENT_STRIDE)) {
            if let Some(client) = decode_client(index, raw) {
                visitor.client(&client);
            }
        }
        Ok(())
    }
}

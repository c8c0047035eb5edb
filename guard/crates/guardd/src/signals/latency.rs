// SPDX-License-Identifier: Apache-2.0
//! The latency segment of the storage daemon: read at every tick, fed to the detectors, and summed up for the
//! metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use intf::segment::layout::{bucket_lower, KINDS};
use intf::segment::{Both, Class, Client, Filesystem, InFlight, Op, Poll, Reason, SegmentReader, SeriesDelta, Visitor};
use policy::Config;

use super::{Board, Daemons, Label, Reading, Sample, Signal, Traffic, HURRIED_NS};
use crate::metrics::names;
use crate::shared::Owner;

/// Upper bounds of the histogram buckets of `/metrics`, as powers of two in nanoseconds: 0.5 ms to 17 s. They are
/// bounds of the segment's own buckets too, so that nothing is interpolated.
pub const BOUNDS: [u32; 14] = [19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 32, 34];

/// Filesystem and client records, and the search for a new file, are looked at this often.
const REFRESH_NS: u64 = 1_000_000_000;

/// A storage daemon that has not beaten its heart for so long says nothing of what it has applied.
const SILENT_NS: u64 = 1_000_000_000;

/// Completed operations of one series since the guard started. The control loop adds to it while others read: those of 96
/// filesystems would be 280 kB to copy.
#[derive(Debug, Default)]
pub struct Histogram {
    /// Not cumulative; the last one is everything above the last bound.
    pub buckets: [AtomicU64; BOUNDS.len() + 1],
    /// Sum of the latencies.
    pub sum_ns: AtomicU64,
    /// Operations.
    pub operations: AtomicU64,
    /// Bytes.
    pub bytes: AtomicU64,
    /// Operations that failed.
    pub errors: AtomicU64,
}

/// All series, in the order of the segment. A clone has the same counters, and not a copy of them.
#[derive(Clone, Debug, Default)]
pub struct Histograms(pub Arc<[Histogram]>);

impl Histograms {
    /// Nothing yet.
    pub fn new(series: usize) -> Self {
        Histograms((0..series).map(|_| Histogram::default()).collect())
    }

    fn add(&self, delta: &SeriesDelta<'_>) {
        let Some(histogram) = self.0.get(delta.series.index()) else { return };
        let add = |counter: &AtomicU64, more: u64| {
            if more > 0 {
                counter.fetch_add(more, Ordering::Relaxed);
            }
        };
        add(&histogram.sum_ns, delta.sum_ns);
        add(&histogram.operations, delta.operations);
        add(&histogram.bytes, delta.bytes);
        add(&histogram.errors, delta.errors);
        if let Some(first) = histogram.buckets.first() {
            add(first, u64::from(delta.under));
        }
        for &(bucket, count) in delta.buckets {
            let coarse = BOUNDS.partition_point(|power| bucket_lower(bucket) >= 1 << power);
            if let Some(sum) = histogram.buckets.get(coarse) {
                add(sum, u64::from(count));
            }
        }
        if let Some(last) = histogram.buckets.last() {
            add(last, u64::from(delta.over));
        }
    }
}

/// Everything but the detectors that listens to the segment.
struct Collector<'a> {
    filesystems: &'a mut Vec<Filesystem>,
    version: &'a mut u64,
    histograms: &'a mut Histograms,
    operations: &'a mut Vec<Traffic>,
    batch_share: &'a mut Vec<f32>,
    batch_share_now: &'a mut Vec<f32>,
    daemons: &'a mut Daemons,
}

impl Visitor for Collector<'_> {
    fn restart(&mut self, filesystems: &[Filesystem]) {
        let same = self.filesystems.iter().map(|f| &f.path).eq(filesystems.iter().map(|f| &f.path));
        *self.filesystems = filesystems.to_vec();
        *self.version += 1;
        self.daemons.restart(filesystems.len());
        if !same {
            // Other disks at these indices: what was counted belongs to none of them.
            *self.histograms = Histograms::new(filesystems.len() * KINDS);
            *self.operations = vec![Traffic::default(); filesystems.len()];
            *self.batch_share = vec![f32::NAN; filesystems.len()];
            *self.batch_share_now = vec![f32::NAN; filesystems.len()];
        }
    }

    fn series(&mut self, delta: &SeriesDelta<'_>) {
        self.histograms.add(delta);
        self.daemons.series(delta);
        let kind = delta.series.kind;
        if matches!(kind.op(), Op::Pacing | Op::Stall) {
            return;
        }
        if let Some(traffic) = self.operations.get_mut(usize::from(delta.series.filesystem)) {
            traffic.all.0 = traffic.all.0.wrapping_add(delta.operations);
            traffic.all.1 = traffic.all.1.wrapping_add(delta.bytes);
            if kind.class() == Class::Batch {
                traffic.batch.0 = traffic.batch.0.wrapping_add(delta.operations);
                traffic.batch.1 = traffic.batch.1.wrapping_add(delta.bytes);
            }
        }
    }

    fn in_flight(&mut self, request: &InFlight) {
        self.daemons.in_flight(request);
    }
}

/// Looks at the client records.
struct Clients<'a>(&'a mut Daemons);

impl Visitor for Clients<'_> {
    fn client(&mut self, client: &Client) {
        self.0.client(client);
    }
}

/// The signal.
pub struct Latency {
    path: std::path::PathBuf,
    owner: Owner,
    reader: Option<SegmentReader>,
    refreshed_ns: u64,
    poll: Option<Poll>,
    reason: Option<Reason>,
    changed: bool,
    restarts: u64,
    damaged: u64,
}

impl Latency {
    /// Opens nothing yet: the storage daemon may start later.
    pub fn new(config: &Config, owner: Owner) -> Self {
        Latency {
            path: config.latency.segment.clone(),
            owner,
            reader: None,
            refreshed_ns: 0,
            poll: None,
            reason: None,
            changed: false,
            restarts: 0,
            damaged: 0,
        }
    }
}

impl Signal for Latency {
    fn name(&self) -> &'static str {
        "latency"
    }

    fn period_ns(&self) -> u64 {
        0
    }

    fn read(&mut self, now_ns: u64, board: &mut Board) -> Reading {
        self.changed = false;
        let reader = match (&mut self.reader, self.owner.get()) {
            (Some(reader), _) => reader,
            (none, Some(owner)) => none.insert(SegmentReader::new(&self.path, owner)),
            (None, None) => {
                board.storage = policy::Signal::Missing;
                return Reading::Absent;
            }
        };
        let Board {
            evaluator,
            filesystems,
            filesystems_version,
            histograms,
            operations,
            batch_share,
            batch_share_now,
            daemons,
            jobs,
            ..
        } = board;
        let version = filesystems_version;
        daemons.follow(jobs);
        daemons.tick(now_ns);
        let mut collector =
            Collector { filesystems, version, histograms, operations, batch_share, batch_share_now, daemons };
        let reason = match reader.poll(now_ns, &mut Both(evaluator, &mut collector)) {
            Ok(poll) => {
                board.storage = policy::Signal::Heard { heartbeat_age_ns: poll.heartbeat_age_ns };
                board.shaping_applied = (poll.heartbeat_age_ns <= SILENT_NS).then_some(poll.shaping_sequence);
                self.restarts += u64::from(poll.restarted);
                self.damaged += u64::from(poll.damaged);
                self.poll = Some(poll);
                None
            }
            Err(error) => Some(error.reason),
        };
        let age_ns = now_ns.saturating_sub(self.refreshed_ns);
        let hurry = age_ns >= HURRIED_NS && (board.uneasy || board.daemons.strangers());
        if reason.is_none() && (age_ns >= REFRESH_NS || hurry) {
            self.refreshed_ns = now_ns;
            // A failure here is one of the next poll too, and told there.
            let _ = reader.refresh(&mut Clients(&mut board.daemons));
            board.daemons.clients_seen();
            board.overloaded = Some(reader.filesystems().iter().filter(|filesystem| filesystem.overloaded).count());
        }
        self.changed = reason != self.reason;
        self.reason = reason;
        match reason {
            None => return Reading::Value,
            Some(_) => {
                self.poll = None;
                board.storage = policy::Signal::Missing;
                (board.overloaded, board.shaping_applied) = (None, None);
            }
        }
        if reason == Some(Reason::NotFound) {
            Reading::Absent
        } else {
            Reading::Broken
        }
    }

    fn fault(&self) -> String {
        match (&self.reason, self.owner.get()) {
            (Some(reason), _) => format!("{}: {reason}", self.path.display()),
            (None, None) => format!("{}: there is no user `{}` to own it", self.path.display(), self.owner.name()),
            (None, Some(_)) => String::new(),
        }
    }

    fn fault_changed(&self) -> bool {
        self.changed
    }

    fn sample(&self, samples: &mut Vec<Sample>) {
        let mut push = |metric, label, value| samples.push(Sample { metric, label, value });
        push(&names::SEGMENT_RESTARTS, Label::None, self.restarts as f64);
        push(&names::SEGMENT_DAMAGED, Label::None, self.damaged as f64);
        let Some(poll) = &self.poll else { return };
        push(&names::SEGMENT_HEARTBEAT_AGE, Label::None, poll.heartbeat_age_ns as f64 / 1e9);
        push(&names::SEGMENT_SLOTS_OVERFLOW, Label::None, poll.slots_overflow as f64);
        push(&names::SEGMENT_CLIENTS_OVERFLOW, Label::None, poll.clients_overflow as f64);
        push(&names::SEGMENT_SHAPING, Label::None, poll.shaping_sequence as f64);
        push(&names::SEGMENT_INTERNAL_ERRORS, Label::None, poll.internal_errors as f64);
        for (index, filesystem) in self.reader.iter().flat_map(|reader| reader.filesystems()).enumerate() {
            let label = Label::Filesystem(index as u16);
            push(&names::OPEN_READERS, label, f64::from(filesystem.open_readers));
            push(&names::OPEN_WRITERS, label, f64::from(filesystem.open_writers));
            push(&names::OVERLOADED, label, f64::from(u8::from(filesystem.overloaded)));
        }
    }
}

#[cfg(test)]
mod tests {
    use intf::segment::synthetic::SegmentWriter;
    use intf::segment::{Kind, SeriesId};

    use super::*;
    use crate::watch::Claim;

    const MS: u64 = 1_000_000;

    #[test]
    fn clients_are_looked_at_once_a_second_and_at_once_when_a_new_one_waits() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().display();
        let text = format!(
            "[paths]\ncgroup = \"{root}\"\njobs_slice = \"jobs\"\n[signals.latency]\nsegment = \"{root}/beer.lat\"\n"
        );
        let config = Config::parse("test", &text).unwrap();
        std::fs::create_dir_all(folder.path().join("jobs/a.scope")).unwrap();
        let mut board = Board::new(&config);
        board.jobs.look(false, &policy::JobSet::default());
        let (place, number) = board.jobs.iter().map(|(place, job)| (place, job.number)).next().unwrap();
        let address = std::net::Ipv4Addr::new(10, 127, 0, 2).to_ipv6_mapped();
        board.daemons.claims = vec![Claim { address, number }];
        let owner = Owner::new(&rustix::process::getuid().as_raw().to_string());
        owner.resolve(std::path::Path::new("/etc/passwd"));
        let mut signal = Latency::new(&config, owner);
        let mut writer =
            SegmentWriter::create(&folder.path().join("beer.lat"), 1, &[("/data/01", 8, 0)], 64, 64).unwrap();
        let series = |op| SeriesId { filesystem: 0, kind: Kind::of(op, Class::Batch).unwrap() };
        let mut read = |at: u64, board: &mut Board, writer: &mut SegmentWriter| {
            writer.heartbeat(at * MS).unwrap();
            assert_eq!(signal.read(at * MS, board), Reading::Value);
        };
        read(5000, &mut board, &mut writer);
        writer.client(0, address, 0, 0).unwrap();
        writer.begin(0, series(Op::Read), 5000 * MS, 4096, Some(0)).unwrap();
        for at in [5020, 5100, 5120] {
            read(at, &mut board, &mut writer);
        }
        // From the tick on in which its record was seen, a tenth of a second after the last look.
        board.daemons.asked(0, Op::Read, Class::Batch, 120, 0);
        board.daemons.settle(0, None, 0.1);
        let done = |board: &Board| board.daemons.of(place, number, 0).requests.round();
        assert_eq!((board.daemons.batch(0).requests, done(&board)), (120.0, 20.0));
        writer.end(0).unwrap();
        // What it writes is known with the next look.
        writer.client(0, address, 0, 65_536).unwrap();
        writer.complete(series(Op::Write), MS, 65_536).unwrap();
        read(5500, &mut board, &mut writer);
        board.daemons.settle(0, None, 0.1);
        assert_eq!(done(&board), 20.0);
        read(6120, &mut board, &mut writer);
        board.daemons.asked(0, Op::Write, Class::Batch, 7, 65_536);
        board.daemons.settle(0, None, 0.1);
        assert_eq!(done(&board), 27.0);
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What a poll of the segment reports, and to whom.

use super::layout::SeriesId;
use std::net::Ipv6Addr;

/// A filesystem record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filesystem {
    /// Mount point.
    pub path: String,
    /// Major number of its device.
    pub major: u32,
    /// Minor number of its device.
    pub minor: u32,
    /// Files open for reading.
    pub open_readers: u32,
    /// Files open for writing.
    pub open_writers: u32,
    /// The plug-in calls it overloaded.
    pub overloaded: bool,
}

/// What happened in one series since the poll before. Only series whose change counter moved are reported.
#[derive(Clone, Copy, Debug)]
pub struct SeriesDelta<'a> {
    /// Which series.
    pub series: SeriesId,
    /// Operations completed.
    pub operations: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Sum of their latencies.
    pub sum_ns: u64,
    /// Operations that failed (also in `operations`).
    pub errors: u64,
    /// The largest latency since the writer started (a value, not a difference).
    pub max_ns: u64,
    /// Latencies below 512 ns.
    pub under: u32,
    /// Latencies of 2^37 ns and more.
    pub over: u32,
    /// Latencies by bucket: those in which there is anything, in their order.
    pub buckets: &'a [(usize, u32)],
}

/// A request that is inside the storage layer now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Its series.
    pub series: SeriesId,
    /// How long it has been there.
    pub age_ns: u64,
    /// Thread of the storage daemon that serves it.
    pub tid: u32,
    /// Bytes asked for.
    pub bytes: u64,
    /// Index of the client record (batch class).
    pub client: Option<u32>,
}

/// A client of the batch class; totals since the writer started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// Index of the record.
    pub index: u32,
    /// Its address; IPv4 as mapped address.
    pub address: Ipv6Addr,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Operations.
    pub operations: u64,
    /// End of its last operation (CLOCK_MONOTONIC).
    pub last_ns: u64,
}

/// Receives what a poll finds. All methods default to ignoring it.
pub trait Visitor {
    /// First poll, or another writer: what follows starts from a new base. May allocate; nothing else should.
    fn restart(&mut self, _filesystems: &[Filesystem]) {}
    /// One changed series.
    fn series(&mut self, _delta: &SeriesDelta<'_>) {}
    /// One request in flight.
    fn in_flight(&mut self, _request: &InFlight) {}
    /// One client record (only from [`super::SegmentReader::refresh`]).
    fn client(&mut self, _client: &Client) {}
}

/// Ignores everything.
impl Visitor for () {}

/// Reports to two visitors, for example the evaluator and the metrics.
pub struct Both<'a, A: Visitor, B: Visitor>(pub &'a mut A, pub &'a mut B);

impl<A: Visitor, B: Visitor> Visitor for Both<'_, A, B> {
    fn restart(&mut self, filesystems: &[Filesystem]) {
        self.0.restart(filesystems);
        self.1.restart(filesystems);
    }
    fn series(&mut self, delta: &SeriesDelta<'_>) {
        self.0.series(delta);
        self.1.series(delta);
    }
    fn in_flight(&mut self, request: &InFlight) {
        self.0.in_flight(request);
        self.1.in_flight(request);
    }
    fn client(&mut self, client: &Client) {
        self.0.client(client);
        self.1.client(client);
    }
}

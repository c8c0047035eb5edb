// SPDX-License-Identifier: Apache-2.0
//! A visitor that keeps what it is told, and the way to the test's own files.

use intf::segment::{Client, Filesystem, InFlight, SeriesDelta, SeriesId, Visitor};

/// What a poll reported of one series.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub series: SeriesId,
    pub operations: u64,
    pub bytes: u64,
    pub sum_ns: u64,
    pub errors: u64,
    pub max_ns: u64,
    pub under: u32,
    pub over: u32,
    pub buckets: Vec<(usize, u32)>,
}

#[derive(Default)]
pub struct Recorder {
    pub restarts: u32,
    pub filesystems: Vec<Filesystem>,
    pub series: Vec<Seen>,
    pub in_flight: Vec<InFlight>,
    pub clients: Vec<Client>,
}

impl Visitor for Recorder {
    fn restart(&mut self, filesystems: &[Filesystem]) {
        self.restarts += 1;
        self.filesystems = filesystems.to_vec();
    }
    fn series(&mut self, d: &SeriesDelta<'_>) {
        self.series.push(Seen {
            series: d.series,
            operations: d.operations,
            bytes: d.bytes,
            sum_ns: d.sum_ns,
            errors: d.errors,
            max_ns: d.max_ns,
            under: d.under,
            over: d.over,
            buckets: d.buckets.to_vec(),
        });
    }
    fn in_flight(&mut self, request: &InFlight) {
        self.in_flight.push(*request);
    }
    fn client(&mut self, client: &Client) {
        self.clients.push(*client);
    }
}

/// Whoever runs the tests owns the files they make.
pub fn owner() -> u32 {
    rustix::process::geteuid().as_raw()
}

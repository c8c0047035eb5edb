// SPDX-License-Identifier: Apache-2.0
//! The reader over time: differences, requests in flight, restarts of the writer.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by failing loudly")]

mod common;

use common::{owner, Recorder};
use intf::segment::layout::{bucket_of, Class, Kind, Op, SeriesId};
use intf::segment::synthetic::SegmentWriter;
use intf::segment::{Reason, SegmentReader};
use std::path::Path;

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

fn series(filesystem: u16, op: Op, class: Class) -> SeriesId {
    SeriesId { filesystem, kind: Kind::of(op, class).unwrap() }
}

fn writer(path: &Path, generation: u64) -> SegmentWriter {
    SegmentWriter::create(path, generation, &[("/data/01", 8, 16), ("/data/02", 8, 32)], 64, 64).unwrap()
}

#[test]
fn a_poll_reports_the_difference_to_the_poll_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("beer.lat");
    let mut writer = writer(&path, 1);
    let read = series(1, Op::Read, Class::Storage);
    writer.complete(read, 8 * MS, 4096).unwrap();
    writer.heartbeat(S).unwrap();

    let mut reader = SegmentReader::new(&path, owner());
    let mut seen = Recorder::default();
    let first = reader.poll(S + 5 * MS, &mut seen).unwrap();
    assert!(first.restarted && first.heartbeat_age_ns == 5 * MS && first.generation == 1);
    assert_eq!((seen.restarts, seen.series.len(), seen.filesystems.len()), (1, 0, 2));

    assert_eq!(reader.poll(S + 20 * MS, &mut seen).unwrap().changed, 0);
    writer.complete(read, 8 * MS, 4096).unwrap();
    writer.complete(read, 100, 1).unwrap();
    writer.complete(read, 200 * S, 1).unwrap();
    assert_eq!(reader.poll(S + 40 * MS, &mut seen).unwrap().changed, 1);
    let delta = &seen.series[0];
    assert_eq!((delta.series, delta.operations, delta.bytes), (read, 3, 4098));
    assert_eq!((delta.under, delta.over, delta.max_ns), (1, 1, 200 * S));
    assert_eq!(delta.buckets, [(bucket_of(8 * MS).unwrap(), 1)]);
}

#[test]
fn requests_in_flight_and_clients_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("beer.lat");
    let mut writer = writer(&path, 1);
    writer.client(0, std::net::Ipv4Addr::new(10, 127, 0, 2).to_ipv6_mapped(), 10, 20).unwrap();
    writer.filesystem(1, 3, 4, true).unwrap();
    let mut reader = SegmentReader::new(&path, owner());
    reader.poll(S, &mut ()).unwrap();
    writer.begin(5, series(0, Op::Write, Class::Batch), S, 4096, Some(0)).unwrap();
    writer.begin(6, series(0, Op::Read, Class::Storage), S, 4096, None).unwrap();
    writer.end(6).unwrap();
    let mut seen = Recorder::default();
    let poll = reader.poll(3 * S, &mut seen).unwrap();
    assert_eq!((poll.in_flight, seen.in_flight.len(), poll.damaged), (1, 1, 0));
    let request = seen.in_flight[0];
    assert_eq!((request.age_ns, request.bytes, request.client), (2 * S, 4096, Some(0)));
    assert_eq!(request.series.kind.class(), Class::Batch);
    // A start in the future is no request, and no reason to panic.
    writer.begin(7, series(0, Op::Read, Class::Storage), u64::MAX, 0, None).unwrap();
    let poll = reader.poll(3 * S, &mut ()).unwrap();
    assert_eq!((poll.in_flight, poll.damaged), (1, 1));

    reader.refresh(&mut seen).unwrap();
    assert_eq!(seen.clients[0].bytes_written, 20);
    let filesystem = &reader.filesystems()[1];
    assert_eq!((filesystem.open_readers, filesystem.open_writers, filesystem.overloaded), (3, 4, true));
}

#[test]
fn a_restarted_writer_is_a_new_base_and_no_breach() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("beer.lat");
    let read = series(0, Op::Read, Class::Storage);
    let mut old = writer(&path, 1);
    for _ in 0..100 {
        old.complete(read, 8 * MS, 1).unwrap();
    }
    old.heartbeat(S).unwrap();
    let mut reader = SegmentReader::new(&path, owner());
    reader.poll(S, &mut ()).unwrap();

    let mut new = writer(&path, 2);
    new.complete(read, 9 * MS, 1).unwrap();
    new.heartbeat(S + 600 * MS).unwrap();
    let mut seen = Recorder::default();
    // The old file is still open and its heartbeat not yet stale: nothing to see for the moment.
    assert!(!reader.poll(S + 100 * MS, &mut seen).unwrap().restarted);
    // Stale: this poll schedules the look, the next one finds the new file well before a second is over.
    reader.poll(S + 600 * MS, &mut seen).unwrap();
    let poll = reader.poll(S + 620 * MS, &mut seen).unwrap();
    assert!(poll.restarted && poll.generation == 2, "{poll:?}");
    new.complete(read, 9 * MS, 1).unwrap();
    reader.poll(S + 640 * MS, &mut seen).unwrap();
    assert_eq!(seen.series.len(), 1);
    assert_eq!(seen.series[0].operations, 1);
}

#[test]
fn a_segment_that_goes_away_is_an_error_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("beer.lat");
    let mut reader = SegmentReader::new(&path, owner());
    assert_eq!(reader.poll(S, &mut ()).unwrap_err().reason, Reason::NotFound);
    let mut first = writer(&path, 1);
    first.heartbeat(S).unwrap();
    // Not looked at again before a second is over.
    assert!(reader.poll(S + 999 * MS, &mut ()).is_err());
    assert!(reader.poll(2 * S, &mut ()).unwrap().restarted);
    std::fs::remove_file(&path).unwrap();
    let error = reader.poll(4 * S, &mut ()).unwrap_err().to_string();
    assert_eq!(error, format!("{}: not found; is the storage daemon running with libXrdBeer?", path.display()));
    assert!(reader.filesystems().is_empty());
    writer(&path, 3);
    assert_eq!(reader.poll(5 * S, &mut ()).unwrap().generation, 3);
}

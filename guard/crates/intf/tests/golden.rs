// SPDX-License-Identifier: Apache-2.0
//! The reader against the golden file that the C++ writer produces byte for byte.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by failing loudly")]

mod common;

use common::Recorder;
use intf::segment::{SegmentReader, BUCKETS};
use serde_json::Value;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

fn formats() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../docs/formats")
}

/// `offset: hex bytes`; `*` stands for lines equal to the one before it.
fn from_hexdump(text: &str) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut line: Vec<u8> = Vec::new();
    let mut repeat = false;
    for row in text.lines() {
        if row == "*" {
            repeat = true;
            continue;
        }
        let (offset, hex) = row.split_once(':').unwrap_or((row, ""));
        let offset = usize::from_str_radix(offset.trim(), 16).unwrap();
        while repeat && bytes.len() < offset {
            bytes.extend_from_slice(&line);
        }
        assert_eq!(bytes.len(), offset, "gap in the hexdump");
        repeat = false;
        line = hex.split_ascii_whitespace().map(|b| u8::from_str_radix(b, 16).unwrap()).collect();
        bytes.extend_from_slice(&line);
    }
    bytes
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key} in {value}"))
}

#[test]
fn the_reader_reads_exactly_what_the_golden_file_holds() {
    let image = from_hexdump(&std::fs::read_to_string(formats().join("latency-segment.golden")).unwrap());
    let text = std::fs::read_to_string(formats().join("latency-segment.golden.json")).unwrap();
    let golden: Value = serde_json::from_str(&text).unwrap();
    let header = &golden["header"];
    let mut image = image;
    // Zero lines at the end may be elided without a last offset.
    image.resize(number(header, "total_bytes") as usize, 0);

    // The reader reports differences, so the base is the same segment before any operation.
    let mut base = image.clone();
    base[number(header, "changes_offset") as usize..number(header, "slots_offset") as usize].fill(0);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("beer.lat");
    std::fs::write(&path, &base).unwrap();
    let now = number(header, "heartbeat_ns") + 30_000_000;
    let mut reader = SegmentReader::new(&path, common::owner());
    assert!(reader.poll(now, &mut ()).unwrap().restarted);
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&image, 0).unwrap();

    let mut seen = Recorder::default();
    let poll = reader.poll(now, &mut seen).unwrap();
    assert_eq!(poll.generation, number(header, "generation"));
    assert_eq!(u64::from(poll.pid), number(header, "pid"));
    assert_eq!(poll.heartbeat_age_ns, 30_000_000);
    assert_eq!(poll.slots_overflow, number(header, "slots_overflow"));
    assert_eq!(poll.clients_overflow, number(header, "clients_overflow"));
    assert_eq!(poll.internal_errors, number(header, "internal_errors"));
    assert_eq!(poll.shaping_sequence, number(header, "shaping_sequence"));
    assert_eq!(poll.damaged, 0);
    assert_eq!(reader.instance(), header["instance"]);

    let expected = golden["series"].as_array().unwrap();
    assert_eq!(seen.series.len(), expected.len());
    for (seen, expected) in seen.series.iter().zip(expected) {
        assert_eq!(seen.series.index() as u64, number(expected, "index"));
        let name = format!("{}.{}", seen.series.kind.op(), seen.series.kind.class());
        assert_eq!(name, expected["name"]);
        assert_eq!(u64::from(seen.series.filesystem), number(expected, "filesystem"));
        assert_eq!(seen.operations, number(expected, "operations"));
        assert_eq!(seen.bytes, number(expected, "bytes"));
        assert_eq!(seen.sum_ns, number(expected, "sum_ns"));
        assert_eq!(seen.errors, number(expected, "errors"));
        assert_eq!(seen.max_ns, number(expected, "max_ns"));
        assert_eq!(u64::from(seen.under), number(expected, "under"));
        assert_eq!(u64::from(seen.over), number(expected, "over"));
        for bucket in 0..BUCKETS {
            let count = expected["buckets"].get(bucket.to_string()).map_or(0, |c| c.as_u64().unwrap());
            let found =
                seen.buckets.iter().find(|(known, _)| *known == bucket).map_or(0, |(_, count)| u64::from(*count));
            assert_eq!(found, count, "{name} bucket {bucket}");
        }
    }

    let busy: Vec<_> =
        golden["slots"].as_array().unwrap().iter().filter(|s| number(s, "start_ns") != 0).cloned().collect();
    assert_eq!(seen.in_flight.len(), busy.len());
    assert_eq!(poll.in_flight as usize, busy.len());
    for (seen, expected) in seen.in_flight.iter().zip(&busy) {
        assert_eq!(seen.series.index() as u64, number(expected, "series"));
        assert_eq!(seen.age_ns, now - number(expected, "start_ns"));
        assert_eq!(u64::from(seen.tid), number(expected, "tid"));
        assert_eq!(seen.bytes, number(expected, "bytes"));
        assert_eq!(seen.client.map_or(0, |c| u64::from(c) + 1), number(expected, "client"));
    }

    reader.refresh(&mut seen).unwrap();
    let expected = golden["clients"].as_array().unwrap();
    assert_eq!(seen.clients.len(), expected.len());
    for (seen, expected) in seen.clients.iter().zip(expected) {
        assert_eq!(u64::from(seen.index), number(expected, "index"));
        assert_eq!(seen.address.to_ipv4_mapped().unwrap().to_string(), expected["address"]);
        assert_eq!(seen.bytes_read, number(expected, "bytes_read"));
        assert_eq!(seen.bytes_written, number(expected, "bytes_written"));
        assert_eq!(seen.operations, number(expected, "operations"));
        assert_eq!(seen.last_ns, number(expected, "last_ns"));
    }
    let expected = golden["filesystems"].as_array().unwrap();
    assert_eq!(reader.filesystems().len(), expected.len());
    for (seen, expected) in reader.filesystems().iter().zip(expected) {
        assert_eq!(seen.path, expected["path"]);
        assert_eq!(u64::from(seen.major), number(expected, "major"));
        assert_eq!(u64::from(seen.minor), number(expected, "minor"));
        assert_eq!(u64::from(seen.open_readers), number(expected, "open_readers"));
        assert_eq!(u64::from(seen.open_writers), number(expected, "open_writers"));
        assert_eq!(u64::from(seen.overloaded), number(expected, "flags") & 1);
    }
}

// SPDX-License-Identifier: Apache-2.0
//! The reader against files that a hostile or broken writer could make: an error with a reason, never a panic, never a hang.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by failing loudly")]

mod common;

use common::{owner, Recorder};
use intf::segment::layout::{header, Class, Kind, Op, SeriesId};
use intf::segment::synthetic::SegmentWriter;
use intf::segment::{Reason, SegmentReader};
use proptest::prelude::*;
use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

const S: u64 = 1_000_000_000;

fn series() -> SeriesId {
    SeriesId { filesystem: 0, kind: Kind::of(Op::Read, Class::Storage).unwrap() }
}

struct Segment {
    folder: tempfile::TempDir,
    path: PathBuf,
    image: Vec<u8>,
}

/// A good segment with something in it.
fn good() -> Segment {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("beer.lat");
    let mut writer = SegmentWriter::create(&path, 1, &[("/data/01", 8, 16)], 64, 64).unwrap();
    writer.heartbeat(S).unwrap();
    writer.complete(series(), 8_000_000, 4096).unwrap();
    writer.begin(3, series(), S, 4096, None).unwrap();
    writer.client(0, std::net::Ipv6Addr::LOCALHOST, 1, 2).unwrap();
    let image = fs::read(&path).unwrap();
    Segment { folder, path, image }
}

fn reason(path: &Path) -> Reason {
    SegmentReader::new(path, owner()).poll(S, &mut ()).unwrap_err().reason
}

/// Uses everything there is to use of a file, over some polls.
fn use_it(reader: &mut SegmentReader, from_ns: u64) {
    let mut seen = Recorder::default();
    for tick in 0..4 {
        let _ = reader.poll(from_ns + tick * 600_000_000, &mut seen);
        let _ = reader.refresh(&mut seen);
        assert!(seen.in_flight.iter().all(|r| usize::from(r.series.filesystem) < reader.filesystems().len().max(1)));
    }
}

#[test]
fn every_damaged_header_field_is_refused_by_name() {
    let segment = good();
    let fields = [
        (header::HEADER_BYTES, 4, "header_bytes"),
        (header::TOTAL_BYTES, 8, "total_bytes"),
        (header::FILESYSTEMS, 4, "filesystems"),
        (header::SERIES_PER_FILESYSTEM, 4, "series_per_filesystem"),
        (header::BUCKETS, 4, "buckets"),
        (header::SERIES_STRIDE, 4, "series_stride"),
        (header::SLOTS, 4, "slots"),
        (header::CLIENTS, 4, "clients"),
        (header::ZERO, 4, "unused_60"),
        (header::FILESYSTEMS_OFFSET, 8, "filesystems_offset"),
        (header::CHANGES_OFFSET, 8, "changes_offset"),
        (header::SERIES_OFFSET, 8, "series_offset"),
        (header::SLOTS_OFFSET, 8, "slots_offset"),
        (header::CLIENTS_OFFSET, 8, "clients_offset"),
    ];
    for (offset, bytes, name) in fields {
        let good = u64::from_le_bytes(segment.image[offset..offset + 8].try_into().unwrap());
        for value in [good ^ 1, good + 64, 0, 1, u64::MAX, 1 << 31, (1 << 32) - 64] {
            let mut image = segment.image.clone();
            image[offset..offset + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
            if image == segment.image {
                continue;
            }
            fs::write(&segment.path, &image).unwrap();
            match reason(&segment.path) {
                // A count that is possible moves every section behind it.
                Reason::Field { field, .. } => {
                    let count = ["filesystems", "slots", "clients"].contains(&name);
                    assert!(
                        field == name || count && (field.ends_with("_offset") || field == "total_bytes"),
                        "{name} {field}"
                    );
                }
                other => panic!("{name} = {value}: {other}"),
            }
        }
    }
    for (offset, expected) in [
        (header::MAGIC, Reason::WrongMagic),
        (header::VERSION, Reason::WrongVersion(0x101)),
        (header::INSTANCE, Reason::Instance),
    ] {
        let mut image = segment.image.clone();
        image[offset + 1] = 1;
        fs::write(&segment.path, &image).unwrap();
        assert_eq!(reason(&segment.path), expected);
    }
    let mut image = segment.image.clone();
    image[header::GENERATION..header::GENERATION + 8].fill(0);
    fs::write(&segment.path, &image).unwrap();
    assert!(matches!(reason(&segment.path), Reason::Field { field: "generation", .. }));
    let mut image = segment.image.clone();
    image[4096 + 64] = b'x';
    fs::write(&segment.path, &image).unwrap();
    assert_eq!(reason(&segment.path), Reason::FilesystemPath(0));
    assert_eq!(reason(&segment.path).to_string(), "filesystem record 0 has no valid path");
}

#[test]
fn the_values_that_change_may_be_anything() {
    let segment = good();
    for offset in [header::HEARTBEAT_NS, header::SLOTS_HIGH, header::SLOTS_OVERFLOW, header::PID] {
        let mut image = segment.image.clone();
        image[offset..offset + 8].fill(0xff);
        if offset == header::PID {
            image[offset + 4..offset + 8].copy_from_slice(&segment.image[offset + 4..offset + 8]);
        }
        fs::write(&segment.path, &image).unwrap();
        let mut reader = SegmentReader::new(&segment.path, owner());
        let poll = reader.poll(S, &mut ()).unwrap();
        match offset {
            header::HEARTBEAT_NS => assert_eq!(poll.heartbeat_age_ns, u64::MAX),
            header::SLOTS_HIGH => assert_eq!((poll.damaged, poll.in_flight), (1, 1)),
            _ => {}
        }
        use_it(&mut reader, S);
    }
}

#[test]
fn a_file_truncated_anywhere_is_refused() {
    let segment = good();
    for length in (0..segment.image.len()).step_by(64) {
        fs::write(&segment.path, &segment.image[..length]).unwrap();
        assert!(matches!(reason(&segment.path), Reason::Truncated { .. }), "{length}");
    }
    let mut longer = segment.image.clone();
    longer.push(0);
    fs::write(&segment.path, &longer).unwrap();
    assert!(matches!(reason(&segment.path), Reason::Field { field: "size of the file", .. }));
}

#[test]
fn a_file_that_shrinks_or_grows_under_the_reader_is_an_error_and_no_signal() {
    let segment = good();
    for length in (0..segment.image.len()).step_by(960) {
        fs::write(&segment.path, &segment.image).unwrap();
        let mut reader = SegmentReader::new(&segment.path, owner());
        reader.poll(S, &mut ()).unwrap();
        let file = OpenOptions::new().write(true).open(&segment.path).unwrap();
        file.set_len(length as u64).unwrap();
        if let Err(error) = reader.poll(S + 20_000_000, &mut ()) {
            assert!(matches!(error.reason, Reason::Truncated { .. }), "{error}");
        } else {
            // Only sections that nothing pointed to were lost; nothing may be made up for them.
            assert!(length > 4096, "{length}");
        }
        file.set_len(4 << 20).unwrap();
        use_it(&mut reader, S + 40_000_000);
    }
}

#[test]
fn counters_that_run_backwards_are_not_used() {
    let segment = good();
    let mut reader = SegmentReader::new(&segment.path, owner());
    reader.poll(S, &mut ()).unwrap();
    // Series records start behind the change counters (128 bytes for one filesystem).
    let changes = 4096 + 256;
    let record = changes + 128;
    let file = OpenOptions::new().write(true).open(&segment.path).unwrap();
    file.write_all_at(&0u64.to_le_bytes(), record as u64).unwrap();
    file.write_all_at(&7u32.to_le_bytes(), changes as u64).unwrap();
    let mut seen = Recorder::default();
    let poll = reader.poll(S + 20_000_000, &mut seen).unwrap();
    assert_eq!((poll.damaged, poll.changed, seen.series.len()), (1, 0, 0));
}

#[test]
fn what_is_no_plain_file_of_its_owner_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let fifo = at("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert_eq!(reason(&fifo), Reason::NotRegular("FIFO"));
    assert_eq!(reason(folder.path()), Reason::NotRegular("directory"));
    assert_eq!(reason(Path::new("/dev/zero")), Reason::NotRegular("device"));
    let _listener = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    assert_eq!(reason(&at("socket")), Reason::NotRegular("socket or device"));
    assert_eq!(reason(&at("nothing")), Reason::NotFound);
    assert_eq!(reason(&at("fifo").join("below")), Reason::NotFound);

    let segment = good();
    std::os::unix::fs::symlink(&segment.path, at("link")).unwrap();
    assert_eq!(reason(&at("link")), Reason::SymbolicLink);
    fs::set_permissions(&segment.path, Permissions::from_mode(0o660)).unwrap();
    assert_eq!(reason(&segment.path), Reason::Writable(0o660));
    fs::set_permissions(&segment.path, Permissions::from_mode(0o640)).unwrap();
    let mut reader = SegmentReader::new(&segment.path, owner() + 1);
    let error = reader.poll(S, &mut ()).unwrap_err();
    let required = format!("{}: is owned by uid {}, uid {} is required", segment.path.display(), owner(), owner() + 1);
    assert_eq!(error.to_string(), required);
    OpenOptions::new().write(true).open(&segment.path).unwrap().set_len((2 << 20) + 1).unwrap();
    assert_eq!(reason(&segment.path), Reason::TooLarge((2 << 20) + 1));
    drop(segment.folder);
}

#[test]
fn a_newer_layout_says_so() {
    let segment = good();
    let mut image = segment.image.clone();
    image[header::VERSION] = 7;
    fs::write(&segment.path, &image).unwrap();
    let mut reader = SegmentReader::new(&segment.path, owner());
    let error = reader.poll(S, &mut ()).unwrap_err().to_string();
    assert!(error.ends_with("beer.lat: layout version 7, this guard reads 1"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..6000)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, &bytes).unwrap();
        use_it(&mut SegmentReader::new(&path, owner()), S);
    }

    #[test]
    fn random_damage_behind_the_header_never_panics(
        damage in prop::collection::vec((128usize..20_000, any::<u64>()), 1..60),
        now in any::<u64>(),
    ) {
        let segment = good();
        let mut reader = SegmentReader::new(&segment.path, owner());
        reader.poll(S, &mut ()).unwrap();
        let file = OpenOptions::new().write(true).open(&segment.path).unwrap();
        for (at, value) in damage {
            let at = at.min(segment.image.len() - 8);
            file.write_all_at(&value.to_le_bytes(), at as u64).unwrap();
        }
        use_it(&mut reader, S + 20_000_000);
        use_it(&mut reader, now);
        use_it(&mut SegmentReader::new(&segment.path, owner()), now);
    }
}

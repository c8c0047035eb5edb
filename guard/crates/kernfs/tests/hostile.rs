// SPDX-License-Identifier: Apache-2.0
//! The readers against files that are no such files: a value or an error, never a panic. Words of the real files in wrong places and
//! numbers at their edges find more than bytes at random do.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by failing loudly")]

use std::path::Path;
use std::time::Duration;

use kernfs::block::{DiskCounters, DiskStats};
use kernfs::cgroup::{Cgroup, IoStat};
use kernfs::io_max::IoMax;
use kernfs::mountinfo::{mount_of, MountInfo};
use kernfs::process::ProcessMemory;
use kernfs::psi::{PressureFile, Resource};
use kernfs::{cpus, Result};
use proptest::prelude::*;

const WORDS: &[&str] = &[
    "populated",
    "frozen",
    "usage_usec",
    "throttled_usec",
    "rbytes=",
    "wbytes=1",
    "rios=3",
    "wios=",
    "dios=0",
    "8:16",
    "8:",
    ":",
    "254:0",
    "max",
    "some",
    "full",
    "avg10=1.5",
    "avg10=",
    "total=7",
    "total=",
    "sda",
    "nvme0n1p1",
    "/",
    "/data/01",
    "-",
    "ext4",
    "rw",
    "rbps=max",
    "wbps=5",
    "riops=",
    "wiops=max",
    "\\040",
    "\\",
    "\\1",
    ",",
    "0-3",
    "3-0",
    "",
];

fn number() -> impl Strategy<Value = String> {
    let edges =
        ["0", "1", "-1", "4294967295", "4294967296", "18446744073709551615", "18446744073709551616", "1e999", "NaN"];
    prop_oneof![prop::sample::select(edges.to_vec()).prop_map(str::to_owned), any::<u64>().prop_map(|n| n.to_string())]
}

fn word() -> impl Strategy<Value = String> {
    let known = || prop::sample::select(WORDS);
    let joined = (known(), number()).prop_map(|(word, number)| format!("{word}{number}"));
    let odd = prop::collection::vec(any::<char>(), 0..8).prop_map(String::from_iter);
    prop_oneof![4 => known().prop_map(str::to_owned), 4 => number(), 2 => joined, 1 => odd]
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    let separator = prop::sample::select(vec![" ", " ", " ", "\n", "\n", "\t", " - ", "=", ""]);
    let words = prop::collection::vec((word(), separator), 0..60);
    let lines = words.prop_map(|words| words.iter().flat_map(|(word, end)| [word.as_str(), end]).collect::<String>());
    prop_oneof![8 => lines.prop_map(String::into_bytes), 1 => prop::collection::vec(any::<u8>(), 0..400)]
}

/// Lines of the form that diskstats has.
fn disks() -> impl Strategy<Value = String> {
    let edges = vec!["0", "0", "1", "4294967295", "18446744073709551615", "18446744073709551615"];
    let numbers = prop::collection::vec(prop::sample::select(edges), 11);
    let line = numbers.prop_map(|numbers| format!("8 0 sda {}\n", numbers.join(" ")));
    prop::collection::vec(line, 1..4).prop_map(|lines| lines.concat())
}

/// An error names the file.
fn named<T>(outcome: Result<T>) -> Option<T> {
    outcome.map_err(|error| assert!(error.path().is_absolute() && !error.to_string().is_empty())).ok()
}

/// All readers of files of a folder.
fn read(folder: &Path) {
    let mut cgroup = Cgroup::new(folder);
    named(cgroup.events());
    named(cgroup.cpu());
    named(cgroup.memory_bytes());
    named(cgroup.memory_max_bytes());
    named(cgroup.cpu_count());
    named(IoStat::new(folder).read().map(|devices| devices.map(<[_]>::len)));
    if let Some(Some(limits)) = named(IoMax::read(folder, (8, 16))) {
        assert!(limits.device == (8, 16) && limits.line().starts_with("8:16 "));
    }
    for resource in Resource::ALL {
        for mut file in [PressureFile::of_cgroup(folder, resource), PressureFile::of_host(folder, resource)] {
            named(file.read());
        }
    }
    named(ProcessMemory::of_self(folder).resident_bytes());
    if let Some(Some(mounts)) = named(MountInfo::new(folder).read()) {
        mount_of(&mounts, Path::new("/data/01/x"));
    }
    if let Some(Some(disks)) = named(DiskStats::new(folder).read().map(|disks| disks.map(<[_]>::to_vec))) {
        disks.iter().zip(disks.iter().skip(1)).for_each(|(one, other)| since(*one, *other));
    }
}

/// What two readings say of the time between them is numbers.
fn since(earlier: DiskCounters, later: DiskCounters) {
    let Some(usage) = later.since(&earlier, Duration::from_millis(100)) else { return };
    for value in [usage.requests_per_second, usage.bytes_per_second, usage.queue, usage.await_ms.unwrap_or_default()] {
        assert!(value.is_finite() && value >= 0.0, "{usage:?}");
    }
    assert!((0.0..=1.0).contains(&usage.utilisation));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_in_the_files(bytes in text(), disks in disks()) {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
        ["self", "pressure"].iter().for_each(|name| std::fs::create_dir(folder.path().join(name)).unwrap());
        for name in [
            "cgroup.events", "cgroup.freeze", "cpu.stat", "io.stat", "io.max", "memory.current", "memory.max",
            "cpuset.cpus.effective", "cpu.pressure", "io.pressure", "memory.pressure", "pressure/cpu", "pressure/io",
            "pressure/memory", "self/statm", "self/mountinfo", "diskstats",
        ] {
            write(name, &bytes);
        }
        read(folder.path());
        write("diskstats", disks.as_bytes());
        read(folder.path());
    }

    #[test]
    fn lists_of_cpus(text in prop::collection::vec(prop::sample::select(vec!["0", "7", "65535", "65536", "-", ",", " "]), 0..12)) {
        if let Some(cpus) = cpus::parse(&text.concat()) {
            prop_assert!(cpus.iter().all(|cpu| *cpu <= 65_535));
            prop_assert_eq!(cpus::parse(&cpus::format(&cpus)), Some(cpus));
        }
    }
}

/// A file of the greatest size that is read, which names the same range again and again.
#[test]
fn a_list_of_cpus_is_not_longer_than_there_can_be_cpus() {
    assert_eq!(cpus::parse(&vec!["0-65535"; 100_000].join(",")), None);
}

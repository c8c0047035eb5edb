// SPDX-License-Identifier: Apache-2.0
//! The storage daemon's answers, as docs/formats/storage-info.golden has them, are read as they were meant.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by failing loudly")]

use std::collections::BTreeMap;

use intf::storage::{Budget, Delays, Head, Moved, Policy, Rates, Stat, StreamCounts, Streams, FORMAT};

fn answers() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/formats/storage-info.golden");
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)));
    text.lines().map(str::to_owned).collect()
}

#[test]
fn heads() {
    for (answer, kind) in answers().iter().zip(["stat", "streams", "policy", "error"]) {
        let head: Head = serde_json::from_str(answer).unwrap();
        assert_eq!((head.format, head.kind.as_str(), head.pid), (FORMAT, kind, 4242));
        assert_eq!((head.instance.as_str(), head.now_ns), ("beer", 1_000_000_000_000));
        assert_eq!(head.error.is_some(), kind == "error");
    }
}

#[test]
fn stat() {
    let stat: Stat = serde_json::from_str(&answers()[0]).unwrap();
    assert!(stat.measures);
    assert_eq!(stat.started_realtime_ns, Some(1_767_225_600_000_000_000));
    assert_eq!(stat.internal_errors, 1);
    assert_eq!(stat.streams, StreamCounts { open: 2, requests_waiting: 0 });
    let budgets = [("batch", Budget { used: 0, most: 256 }), ("storage", Budget { used: 0, most: 128 })];
    assert_eq!(stat.connections_that_may_be_held, BTreeMap::from(budgets.map(|(name, one)| (name.to_owned(), one))));
    let filesystem = &stat.filesystems[0];
    assert_eq!((filesystem.path.as_str(), filesystem.open_readers, filesystem.open_writers), ("/data/01", 1, 0));
    assert!(!filesystem.overloaded);
    let read = filesystem.operations["storage"]["read"];
    assert_eq!((read.operations, read.bytes, read.errors, read.sum_ns, read.max_ns), (1, 65536, 0, 8000, 8000));
    assert_eq!(filesystem.operations["batch"]["write"].errors, 1);
    assert_eq!(filesystem.operations.len(), 3);
    assert_eq!(filesystem.pacing["batch"], Delays { operations: 1, sum_ns: 250_000_000, max_ns: 250_000_000 });
    assert_eq!(filesystem.stalls["storage"].sum_ns, 7_000_000_000);
    let line = stat.metadata.iter().find(|line| line.name == "Stat").unwrap();
    assert_eq!((line.total, line.seconds5, line.minute, line.minutes5, line.hour), (1, 1, 1, 1, 1));
    assert_eq!((line.mean_ns, line.sigma_ns, line.p99_ns, line.max_ns), (3000.0, 0.0, 3000.0, 3000.0));
    assert_eq!(stat.metadata.iter().find(|line| line.name == "Stall::threads::bob").unwrap().total, 1);
    let user = &stat.users[0];
    assert_eq!((user.name.as_str(), user.in_flight, user.stalls, user.stalled_ago_ns), ("bob", 0, 1, Some(0)));
    assert_eq!(stat.users_left_out, 0);
}

#[test]
fn streams() {
    let answer: Streams = serde_json::from_str(&answers()[1]).unwrap();
    assert_eq!((answer.open, answer.left_out, answer.streams.len()), (2, 0, 2));
    let held = &answer.streams[0];
    assert_eq!((held.id, held.user.as_str(), held.app.as_str()), (2, "alice", "scan"));
    assert_eq!((held.host.as_deref(), held.link.as_str()), (Some("192.0.2.7"), "alice.1:22@desk"));
    assert_eq!((held.class.as_str(), held.filesystem.as_deref()), ("storage", Some("/data/01")));
    assert_eq!((held.path.as_str(), held.writer, held.age_ns), ("/data/01/\u{1b}[2J\u{fffd}", false, 60_000_000_000));
    assert_eq!(held.read, Moved { bytes: 65536, operations: 1 });
    assert_eq!((held.waits, held.waited_ns, held.requests_waiting), (1, 250_000_000, 1));
    assert_eq!((held.waits_for_ns, held.by.as_deref()), (Some(2_000_000_000), Some("user r")));
    let other = &answer.streams[1];
    assert_eq!((other.host.as_deref(), other.filesystem.as_deref(), other.by.as_deref()), (None, None, None));
    assert_eq!((other.class.as_str(), other.writer, other.waits_for_ns), ("internal", true, None));
}

#[test]
fn policy() {
    let policy: Policy = serde_json::from_str(&answers()[2]).unwrap();
    assert_eq!((policy.version, policy.file.as_deref()), (1, Some("/etc/xrootd/beer-policy.cfg")));
    assert_eq!(policy.rules[0], "beer.policy user:alice r bandwidth 50MB/s");
    assert_eq!(policy.rules.len(), 3);
    assert_eq!((policy.guard.sequence, policy.guard.lease_left_ns), (0, 0));
    assert_eq!(policy.guard.elsewhere, Rates::default());
    let filesystem = &policy.filesystems[0];
    assert_eq!((filesystem.path.as_str(), filesystem.device.as_str()), ("/data/01", "8:16"));
    assert_eq!(filesystem.scheduler.as_deref(), Some("bfq"));
    assert_eq!(filesystem.priorities, "I/O priorities have full effect");
    assert_eq!((filesystem.most_readers, filesystem.most_writers, filesystem.overloaded), (200, 0, false));
    assert_eq!(filesystem.guard, Rates::default());
}

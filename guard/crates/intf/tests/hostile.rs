// SPDX-License-Identifier: Apache-2.0
//! What others write for the guard and its command, damaged: an error or a value that can be used, never a panic. Good texts in which
//! something is cut out, put in or said twice get further into a parser than text at random.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by failing loudly")]

use intf::exec::{Readings, BYTES_MOST};
use intf::journal::Record;
use intf::order::{Order, FREEZE_SECONDS_MAX, WHY_MAX};
use intf::state::{NodeState, StateLine, STATE_LINE_BYTES};
use intf::status::Status;
use intf::storage::{Head, Policy, Stat, Streams};
use intf::units::{Bytes, Duration, Rate, Share};
use proptest::prelude::*;

/// Of each kind one that is good.
fn good() -> Vec<String> {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/formats/storage-info.golden");
    let mut texts: Vec<String> = std::fs::read_to_string(golden).unwrap().lines().map(str::to_owned).collect();
    let mut line = [0; STATE_LINE_BYTES];
    let (state, reason) = (NodeState::Frozen, "stuck");
    StateLine { state, admit: true, heartbeat: 7, monotonic_ns: 9, reason, cores: 3, memory_mb: 5 }.format(&mut line);
    texts.push(String::from_utf8(line.to_vec()).unwrap());
    texts.push(r#"{"values":{"slow_ops":{"value":1.5,"at_ns":100},"b":{"value":-3,"at_ns":1}}}"#.into());
    texts.push(r#"{"do":"freeze","seconds":300,"why":"new disks"}"#.into());
    texts.push(
        r#"{"time_ns":1795173354000000000,"monotonic_ns":7,"from":"open","to":"frozen","cause":"strong_evidence",
        "action":"freeze","precaution":false,"evidence":{"objective":"storage-read","series":"storage read on /data/01",
        "value":31.5,"limit":24.0,"unit":"nats"},"jobs":[{"scope":"docker-0a.scope","id":"12.0","slot":"slot1_2",
        "owner":"alice"}],"jobs_of":2,"outcome":"done","detail":"","by":"","duration_ns":5,"lasted_ns":7,
        "memory":{"wait":{"us":1,"of":2}}}"#
            .replace('\n', " "),
    );
    texts.push(serde_json::to_string(&Status::default()).unwrap());
    texts.extend(["1.5s", "20ms", "8GiB", "0.1%", "250/s"].map(str::to_owned));
    texts
}

const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "null",
    "true",
    "-1",
    "0",
    "1e999",
    "18446744073709551616",
    "NaN",
    "\\u0000",
    "\\ud800",
    "\u{202e}",
    "é",
    "=",
    " ",
    "\n",
    "9",
    ".",
    "%",
    "[[[[[[[[",
];

/// Something is cut out at a place, given in thousandths of the text, and something else put in.
fn damage() -> impl Strategy<Value = Vec<(usize, usize, &'static str)>> {
    prop::collection::vec((0usize..1000, 0usize..12, prop::sample::select(PIECES)), 0..5)
}

fn damaged(text: &str, damage: &[(usize, usize, &str)]) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for (at, length, piece) in damage {
        let from = bytes.len() * at / 1000;
        let to = (from + length).min(bytes.len());
        bytes.splice(from..to, piece.bytes());
    }
    bytes
}

/// Everything that reads such bytes; what it makes of them is used.
fn read(bytes: &[u8]) {
    if let Ok(readings) = Readings::parse(bytes, 1000) {
        assert!(bytes.len() <= BYTES_MOST);
        assert!(readings
            .values
            .values()
            .all(|printed| printed.value.is_finite() && (1..=1000).contains(&printed.at_ns)));
    }
    if let Ok(line) = StateLine::parse(bytes) {
        let mut again = [0; STATE_LINE_BYTES];
        let StateLine { state, admit, heartbeat, monotonic_ns, cores, memory_mb, .. } = line;
        StateLine { state, admit, heartbeat, monotonic_ns, reason: line.reason.as_str(), cores, memory_mb }
            .format(&mut again);
        assert_eq!(StateLine::parse(&again).map(|line| line.state), Ok(state));
    }
    if let Ok(record) = serde_json::from_slice::<Record>(bytes) {
        assert!(record.sentence().ends_with('.'));
        record.jobs.iter().for_each(|job| assert!(job.name().len() <= bytes.len() + 100));
    }
    let _ = serde_json::from_slice::<Status>(bytes);
    let _ = serde_json::from_slice::<Head>(bytes);
    let _ = serde_json::from_slice::<Stat>(bytes);
    let _ = serde_json::from_slice::<Streams>(bytes);
    let _ = serde_json::from_slice::<Policy>(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(order) = Order::parse(text) {
        let why = order.why();
        assert!(why.chars().count() <= WHY_MAX && !why.contains(char::is_control));
        assert!(!matches!(order, Order::Freeze { seconds, .. } if !(1..=FREEZE_SECONDS_MAX).contains(&seconds)));
    }
    // What is read can be written, and is the same then.
    if let Ok(time) = text.parse::<Duration>() {
        assert_eq!(
            time.to_string().parse::<Duration>().map(|again| again.0.abs_diff(time.0) <= 1 + time.0 / 1000),
            Ok(true)
        );
    }
    if let Ok(size) = text.parse::<Bytes>() {
        assert!(size.to_string().parse::<Bytes>().is_ok());
    }
    if let Ok(share) = text.parse::<Share>() {
        assert!((0.0..=1.0).contains(&share.0));
    }
    let _ = text.parse::<Rate>();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_damaged(damage in damage(), bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        good().iter().for_each(|text| read(&damaged(text, &damage)));
        read(&bytes);
    }
}

/// Each text is read by somebody, or this tests nothing.
#[test]
fn what_is_not_damaged_is_good() {
    let texts = good();
    let text = |number: usize| texts[texts.len() - number].as_str();
    assert!(texts[..3].iter().all(|answer| serde_json::from_str::<Head>(answer).is_ok()));
    assert!(StateLine::parse(text(10).as_bytes()).is_ok() && Readings::parse(text(9).as_bytes(), 1000).is_ok());
    assert!(Order::parse(text(8)).is_ok() && serde_json::from_str::<Record>(text(7)).is_ok());
    assert!(serde_json::from_str::<Status>(text(6)).is_ok() && text(5).parse::<Duration>().is_ok());
    texts.iter().for_each(|text| read(text.as_bytes()));
}

// SPDX-License-Identifier: Apache-2.0
//! The writer against the golden file that the C++ reader is tested with.
#![allow(clippy::unwrap_used, reason = "a test says what it expects by failing loudly")]

use std::fmt::Write;

use intf::shaping::{holds, Allowance, Shaping, MOST_RECORDS, SHAPING_BYTES};

const ALLOWANCES: [Allowance; 3] = [
    Allowance { device: (8, 16), bytes: 50_000_000, operations: 100 },
    Allowance { device: (259, 3), bytes: u64::MAX, operations: 0 },
    Allowance::HELD,
];

/// `beer-guard` writes this: sequence 42, lease until 1010 s after boot.
fn golden() -> Vec<u8> {
    let shaping = Shaping { sequence: 42, lease_until_ns: 1_010_000_000_000, pid: 4242, allowances: &ALLOWANCES };
    shaping.encode(&mut [0xff; SHAPING_BYTES]).to_vec()
}

fn hexdump(bytes: &[u8]) -> String {
    bytes.chunks(16).enumerate().fold(String::new(), |mut text, (row, chunk)| {
        write!(text, "{:08x}:", row * 16).unwrap();
        chunk.iter().for_each(|byte| write!(text, " {byte:02x}").unwrap());
        text + "\n"
    })
}

#[test]
fn the_writer_writes_exactly_the_golden_file() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/formats/shaping-segment.golden");
    if std::env::var_os("BEER_WRITE_GOLDEN").is_some() {
        std::fs::write(path, hexdump(&golden())).unwrap();
    }
    assert_eq!(hexdump(&golden()), std::fs::read_to_string(path).unwrap());
}

#[test]
fn what_is_held_is_so_until_the_lease_is_over() {
    const LEASE_NS: u64 = 1_010_000_000_000;
    let good = golden();
    assert!(holds(&good, LEASE_NS - 1));
    assert!(!holds(&good, LEASE_NS));
    let slow = [Allowance { device: (8, 16), bytes: 1, operations: 1 }];
    let slow = Shaping { sequence: 1, lease_until_ns: LEASE_NS, pid: 3, allowances: &slow };
    assert!(!holds(slow.encode(&mut [0; SHAPING_BYTES]), 0), "slow is not held");
    let none = Shaping { sequence: 1, lease_until_ns: LEASE_NS, pid: 3, allowances: &[] };
    assert!(!holds(none.encode(&mut [0; SHAPING_BYTES]), 0));
    for length in 0..good.len() {
        assert!(!holds(&good[..length], 0), "{length} bytes");
    }
    for at in 0..good.len() {
        let mut damaged = good.clone();
        damaged[at] ^= 0x40;
        assert!(!holds(&damaged, 0), "byte {at}");
    }
}

#[test]
fn what_does_not_fit_is_left_out() {
    let many = [Allowance::HELD; MOST_RECORDS + 5];
    let shaping = Shaping { sequence: 1, lease_until_ns: 2, pid: 3, allowances: &many };
    assert!(shaping.encode(&mut [0; SHAPING_BYTES]).len() <= SHAPING_BYTES);
}

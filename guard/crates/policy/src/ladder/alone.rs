// SPDX-License-Identifier: Apache-2.0
//! All stand still, batch has next to no part in what the disk does that is slow, and clients still wait: that is known sooner than
//! whether a freeze helps, which takes ten seconds because of what batch may have left in queues. It does not say that batch had no part
//! in it by other ways: those are given the whole time where they have shown before ([`Alone::shown`] is not asked then).
//!
//! It also shows who fills the disk.

use crate::bits::bit;

/// Fewer requests say nothing.
const ENOUGH: f32 = 40.0;
/// As usual one of fifty is slow. That many are so is no rest of what was before.
const SLOW: f32 = 0.5;
/// The part of the time until a freeze must show that it helps.
const SOONER: u64 = 4;

/// What clients got on the disks that are slow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Got {
    pub requests: f32,
    /// Those of them that are as slow as usually only the slowest fiftieth, or slower than they were promised.
    pub slow: f32,
    /// On which filesystems, bit by index, somebody waits now.
    pub waits: u128,
}

impl Got {
    pub fn add(&mut self, index: usize, requests: f32, slow: f32, waits: bool) {
        self.requests += requests;
        self.slow += slow;
        self.waits |= if waits { bit(index) } else { 0 };
    }
}

/// What batch has to do with them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Part {
    /// It works there, or did a moment ago.
    Some,
    /// That is not known, or not where it is slow.
    #[default]
    Unknown,
    /// Next to nothing, and clients got this meanwhile.
    None(Got),
}

/// Storage by itself, while all of batch stands still.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alone {
    since_ns: u64,
    got: Got,
    /// Batch worked there: it takes the whole time.
    worked: bool,
}

impl Alone {
    /// All stand still from now on.
    pub fn new(now_ns: u64) -> Alone {
        Alone { since_ns: now_ns, got: Got { waits: u128::MAX, ..Got::default() }, worked: false }
    }

    /// In the first `settle_ns` clients still wait for what was before.
    pub fn note(&mut self, part: Part, settle_ns: u64, now_ns: u64) {
        match part {
            Part::Some => self.worked = true,
            Part::Unknown => *self = Alone { worked: self.worked, ..Alone::new(now_ns) },
            Part::None(got) if now_ns.saturating_sub(self.since_ns) >= settle_ns => {
                self.got.requests += got.requests;
                self.got.slow += got.slow;
                self.got.waits &= got.waits;
            }
            Part::None(_) => {}
        }
    }

    /// Is it storage's own doing? `timeout_ns` = after so long without improvement it would be, whatever batch did.
    pub fn shown(&self, timeout_ns: u64, now_ns: u64) -> bool {
        let long = now_ns.saturating_sub(self.since_ns) >= timeout_ns / SOONER;
        let Got { requests, slow, .. } = self.got;
        long && !self.worked && requests >= ENOUGH && slow >= SLOW * requests
    }

    /// Where somebody waited all the time: bit by index, where that was asked.
    pub fn waited(&self) -> u128 {
        self.got.waits
    }
}

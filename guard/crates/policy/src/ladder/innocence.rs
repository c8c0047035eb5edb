// SPDX-License-Identifier: Apache-2.0
//! Of what batch was found innocent: evidence of the same, on the same filesystems, leads to no freeze for a while.

use super::memory::OBJECTIVES;

/// How often the time for that doubles at most.
const DOUBLINGS: u32 = 4;

/// Of the breach of one objective, on some filesystems.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    until_ns: u64,
    times: u32,
    /// On these, bit by index.
    filesystems: u128,
    /// Since when it is calm there.
    calm_since_ns: Option<u64>,
}

impl Known {
    /// Also of these, and for so long from now at least.
    fn extend(&mut self, filesystems: u128, for_ns: u64, now_ns: u64) {
        let before = if self.until_ns > now_ns { self.filesystems } else { 0 };
        self.until_ns = self.until_ns.max(now_ns.saturating_add(for_ns));
        self.filesystems = before | filesystems;
        // It is not calm there now.
        self.calm_since_ns = None;
    }
}

/// By objective.
#[derive(Clone, Debug)]
pub(super) struct Innocence([Known; OBJECTIVES]);

impl Innocence {
    /// Of nothing.
    pub fn new() -> Innocence {
        Innocence([Known::default(); OBJECTIVES])
    }

    /// On which filesystems is the evidence of this objective known to have nothing to do with batch?
    pub fn of(&self, objective: u16, now_ns: u64) -> u128 {
        let known = self.0.get(usize::from(objective)).filter(|known| known.until_ns > now_ns);
        known.map_or(0, |known| known.filesystems)
    }

    /// Of whatever is slow on these filesystems, for so long.
    pub fn excuse(&mut self, filesystems: u128, for_ns: u64, now_ns: u64) {
        self.0.iter_mut().for_each(|known| known.extend(filesystems, for_ns, now_ns));
    }

    /// Calm for `flap_ns` ends it, new evidence is then judged afresh; calm for `backoff_ns`, and the next time is the first one.
    pub fn note_calm(&mut self, objective: u16, calm: bool, flap_ns: u64, backoff_ns: u64, now_ns: u64) {
        let Some(known) = self.0.get_mut(usize::from(objective)) else { return };
        if !calm {
            known.calm_since_ns = None;
            return;
        }
        let calm_for = now_ns.saturating_sub(*known.calm_since_ns.get_or_insert(now_ns));
        if calm_for >= flap_ns {
            known.until_ns = 0;
        }
        if calm_for >= backoff_ns {
            known.times = 0;
        }
    }

    /// Of these objectives, bit by index, on these filesystems; for `backoff_ns` the first time.
    pub fn add(&mut self, objectives: u64, filesystems: u128, backoff_ns: u64, now_ns: u64) {
        for (index, known) in self.0.iter_mut().enumerate() {
            if (objectives >> index) & 1 == 1 {
                known.extend(filesystems, backoff_ns << known.times.min(DOUBLINGS), now_ns);
                known.times += 1;
            }
        }
    }
}

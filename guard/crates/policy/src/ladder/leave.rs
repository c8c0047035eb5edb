// SPDX-License-Identifier: Apache-2.0
//! Who is to leave the node, and for how long each job has stood still for what it did.

use crate::jobs::{Hold, JobSet};

/// While a job runs again, what it has stood still is forgotten so many times slower than it grew: a job that is frozen for a
/// fifth of its time leaves in the end, one that is frozen once in a while does not.
const FORGET: u64 = 4;

/// Who is to leave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Leave {
    /// They are.
    pub who: Hold,
    /// Since when.
    pub since_ns: u64,
    /// Those of them for whom HTCondor has taken too long.
    pub overdue: Hold,
}

/// How long each job has stood still for what it did.
#[derive(Clone, Debug)]
pub(super) struct Stood {
    ns: [u64; JobSet::PLACES],
    at_ns: u64,
    /// Anybody at all?
    any: bool,
}

impl Stood {
    pub fn new(now_ns: u64) -> Stood {
        Stood { ns: [0; JobSet::PLACES], at_ns: now_ns, any: false }
    }

    /// These have stood still since the last time; others ran, or have ended.
    pub fn note(&mut self, still: &JobSet, living: &JobSet, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(std::mem::replace(&mut self.at_ns, now_ns));
        if !self.any && still.is_empty() {
            return;
        }
        self.any = false;
        for (place, ns) in self.ns.iter_mut().enumerate() {
            *ns = match (living.contains(place), still.contains(place)) {
                (false, _) => 0,
                (true, true) => ns.saturating_add(passed_ns),
                (true, false) => ns.saturating_sub(passed_ns / FORGET),
            };
            self.any |= *ns > 0;
        }
    }

    /// Who has for at least so long.
    pub fn for_at_least(&self, limit_ns: u64) -> JobSet {
        if !self.any {
            return JobSet::default();
        }
        self.ns.iter().enumerate().filter(|(_, ns)| **ns >= limit_ns).map(|(place, _)| place).collect()
    }

    /// It was not their doing.
    pub fn forget(&mut self) {
        *self = Stood::new(self.at_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(places: &[usize]) -> JobSet {
        places.iter().copied().collect()
    }

    #[test]
    fn it_grows_while_they_stand_still_and_is_forgotten_slowly() {
        let mut stood = Stood::new(0);
        let living = jobs(&[1, 2]);
        stood.note(&jobs(&[1]), &living, 100);
        assert_eq!((stood.for_at_least(100), stood.for_at_least(101)), (jobs(&[1]), JobSet::default()));
        stood.note(&JobSet::default(), &living, 180);
        assert_eq!((stood.for_at_least(80), stood.for_at_least(81)), (jobs(&[1]), JobSet::default()));
        stood.note(&jobs(&[1, 2]), &living, 200);
        assert_eq!((stood.for_at_least(20), stood.for_at_least(100)), (living, jobs(&[1])));
        stood.note(&JobSet::default(), &jobs(&[2]), 210);
        assert_eq!(stood.for_at_least(1), jobs(&[2]), "who has ended is forgotten");
        stood.note(&JobSet::default(), &living, 10_000);
        assert!(!stood.any);
        stood.note(&jobs(&[1]), &living, 10_010);
        stood.forget();
        assert_eq!(stood.for_at_least(0), JobSet::default());
    }
}

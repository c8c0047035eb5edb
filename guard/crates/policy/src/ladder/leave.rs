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

/// Two departures that did not bring a gauge down: it is not batch that takes the memory.
const IN_VAIN: u32 = 2;
/// Less than this share of what it was is down.
const DOWN: f64 = 0.9;

/// A pause is doubled so many times at most.
const DOUBLINGS: u32 = 6;

/// Jobs that left because a gauge was above its limit, one at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Room {
    /// What it was when the last one was sent away.
    value: f64,
    in_vain: u32,
    /// Nobody is sent away before that.
    until_ns: u64,
    /// How many pauses there were.
    pauses: u32,
    /// Since when it has been below its limit.
    kept_ns: Option<u64>,
}

impl Room {
    /// It is still (or again) at this value, which is `settled` when it shows what the last departure did: may one more be sent away?
    /// After two who left in vain nobody is, for `backoff_ns`, and after two more for twice as long.
    pub fn ask(&mut self, value: f64, settled: bool, backoff_ns: u64, now_ns: u64) -> bool {
        self.kept_ns = None;
        if !settled || now_ns < self.until_ns {
            return false;
        }
        self.in_vain = if self.value > 0.0 && value > DOWN * self.value { self.in_vain + 1 } else { 0 };
        self.value = value;
        if self.in_vain >= IN_VAIN {
            let pause_ns = backoff_ns << self.pauses.min(DOUBLINGS);
            *self = Room { until_ns: now_ns.saturating_add(pause_ns), pauses: self.pauses + 1, ..Room::default() };
        }
        now_ns >= self.until_ns
    }

    /// It is not above its limit. Only for so long is it because of who has left: pressure that comes and goes by itself is not.
    pub fn kept(&mut self, backoff_ns: u64, now_ns: u64) {
        if *self == Room::default() {
            return;
        }
        let since_ns = *self.kept_ns.get_or_insert(now_ns);
        if now_ns.saturating_sub(since_ns) >= backoff_ns << self.pauses.min(DOUBLINGS) {
            *self = Room::default();
        }
    }
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
    fn nobody_is_sent_away_for_a_gauge_that_does_not_come_down() {
        let mut room = Room::default();
        assert!(room.ask(0.5, true, 60, 10) && room.ask(0.5, true, 60, 20));
        assert!(!room.ask(0.49, true, 60, 30) && !room.ask(0.5, true, 60, 89), "two have left in vain");
        assert!(
            room.ask(0.5, true, 60, 90)
                && room.ask(0.3, true, 60, 100)
                && room.ask(0.2, true, 60, 110)
                && room.ask(0.1, true, 60, 120)
        );
        assert!(room.ask(0.1, true, 60, 130) && !room.ask(0.1, true, 60, 140), "two more");
        assert!(!room.ask(0.1, true, 60, 259) && room.ask(0.1, true, 60, 260), "twice as long");
    }

    #[test]
    fn what_comes_and_goes_by_itself_is_not_brought_down_by_who_left() {
        let mut room = Room::default();
        assert!(room.ask(0.5, true, 60, 10));
        (11..40).for_each(|second| room.kept(60, second));
        assert!(room.ask(0.5, true, 60, 40));
        (41..70).for_each(|second| room.kept(60, second));
        assert!(!room.ask(0.5, true, 60, 70), "for the third time");
        (71..=190).for_each(|second| room.kept(60, second));
        assert!(!room.ask(0.5, true, 60, 129));
        (131..=251).for_each(|second| room.kept(60, second));
        assert_eq!(room, Room::default(), "after that it is another story");
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

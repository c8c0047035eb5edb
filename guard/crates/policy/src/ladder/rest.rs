// SPDX-License-Identifier: Apache-2.0
//! Where clients fill a disk nothing that batch does there is small: the kernel leaves a limited job two reads and two writes per
//! second (`io.max` takes no less), and of a disk with one arm that is a thirtieth. So those who make way have an account of the disk's
//! time. It is credited with [`LadderConfig::filled_share`](super::LadderConfig) of the time that passes; who has overdrawn it
//! rests until that is made good. A token bucket, as for network traffic (RFC 2697), in debt instead of in tokens.
//!
//! It is no freeze: nobody is to blame, nobody leaves for it, and the node's state stays what it is.

use crate::jobs::{Hold, JobSet};
use crate::throttle::{Throttle, Throttles, DISKS};

/// So many seconds of the disk may be overdrawn: half a dozen requests. Who stops at the first one stops for each single one.
const OVERDRAFT_S: f64 = 0.05;
/// More debt than is made good in this time is forgiven: what they did before they were named is not theirs to pay.
const REST_MAX_S: f64 = 60.0;
/// Ticks that lie further apart have something in between that was not seen.
const TICK_MAX_NS: u64 = 1_000_000_000;

/// Of those who make way on one disk.
#[derive(Clone, Copy, Debug)]
struct Account {
    filesystem: u16,
    /// In seconds of the disk.
    debt_s: f64,
    jobs: JobSet,
    rests: bool,
}

/// Somebody begins to rest, or has rested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Turn {
    pub filesystem: u16,
    pub jobs: JobSet,
    pub rests: bool,
}

/// All accounts.
#[derive(Clone, Debug)]
pub(super) struct Rest {
    accounts: [Option<Account>; DISKS],
    at_ns: u64,
}

impl Account {
    fn of(throttle: &Throttle) -> Account {
        Account { filesystem: throttle.filesystem, debt_s: 0.0, jobs: throttle.jobs, rests: false }
    }

    fn pass(&mut self, part: f64, share: f64, passed_s: f64) {
        self.debt_s = (self.debt_s + (part - share) * passed_s).clamp(0.0, share * REST_MAX_S);
    }

    /// Is it their turn to rest, or to run?
    fn turn(&mut self, share: f64) -> Option<Turn> {
        // With a small share it is as much as may ever be owed.
        let overdrawn = self.debt_s >= OVERDRAFT_S.min(share * REST_MAX_S);
        let rests = if self.rests { self.debt_s > 0.0 } else { overdrawn };
        let changed = std::mem::replace(&mut self.rests, rests) != rests;
        changed.then_some(Turn { filesystem: self.filesystem, jobs: self.jobs, rests })
    }
}

impl Rest {
    pub fn new(now_ns: u64) -> Rest {
        Rest { accounts: [None; DISKS], at_ns: now_ns }
    }

    /// `taken` = the part of each filesystem's disk that those do who are limited there; a shorter slice = nothing. Calls `told` for
    /// each disk whose jobs begin to rest, or run again.
    pub fn follow(
        &mut self,
        throttles: &Throttles,
        taken: &[f32],
        share: f64,
        now_ns: u64,
        mut told: impl FnMut(Turn),
    ) {
        let passed_ns = now_ns.saturating_sub(std::mem::replace(&mut self.at_ns, now_ns)).min(TICK_MAX_NS);
        for place in &mut self.accounts {
            // It has room again, or nobody of them is left.
            let over = |account: &mut Account| !throttles.of(account.filesystem).is_some_and(makes_way);
            if let Some(Account { filesystem, jobs, rests: true, .. }) = place.take_if(over) {
                told(Turn { filesystem, jobs, rests: false });
            }
        }
        for throttle in throttles.iter().filter(|throttle| makes_way(throttle)) {
            let known =
                |place: &&mut Option<Account>| place.is_none_or(|account| account.filesystem == throttle.filesystem);
            let known = self.accounts.iter_mut().filter(known).max_by_key(|place| place.is_some());
            let Some(account) = known.map(|place| place.get_or_insert_with(|| Account::of(throttle))) else { continue };
            account.jobs = throttle.jobs;
            let part = taken.get(usize::from(account.filesystem)).copied().filter(|part| part.is_finite());
            account.pass(f64::from(part.unwrap_or_default()), share, passed_ns as f64 / 1e9);
            if let Some(turn) = account.turn(share) {
                told(turn);
            }
        }
    }

    /// Who rests.
    pub fn jobs(&self) -> JobSet {
        let resting = self.accounts.iter().flatten().filter(|account| account.rests);
        resting.fold(JobSet::default(), |jobs, account| jobs.or(&account.jobs))
    }

    /// The same as who stands still for it.
    pub fn hold(&self) -> Hold {
        let jobs = self.jobs();
        if jobs.is_empty() {
            Hold::Nobody
        } else {
            Hold::Jobs(jobs)
        }
    }
}

/// Named jobs do. What goes through the storage daemons has a limit of theirs, which may be as small as need be.
fn makes_way(throttle: &Throttle) -> bool {
    throttle.given() == 0.0 && !throttle.jobs.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const SHARE: f64 = 0.005;

    struct Rig {
        rest: Rest,
        throttles: Throttles,
        now_ns: u64,
        turns: Vec<Turn>,
    }

    impl Rig {
        /// Job 1 makes way on filesystem 3.
        fn new() -> Rig {
            let mut throttles = Throttles::default();
            throttles.make_way(3, [1].into_iter().collect(), 0);
            throttles.give_way(1 << 3, 0.25, 0);
            Rig { rest: Rest::new(0), throttles, now_ns: 0, turns: Vec::new() }
        }

        /// They do this part of the disk's work for so long.
        fn run(&mut self, part: f32, seconds: f64) -> &[Turn] {
            self.turns.clear();
            let until_ns = self.now_ns + (seconds * 1e9) as u64;
            while self.now_ns < until_ns {
                self.now_ns += S / 20;
                let turns = &mut self.turns;
                self.rest.follow(&self.throttles, &[9.0, f32::NAN, 9.0, part], SHARE, self.now_ns, |t| turns.push(t));
            }
            &self.turns
        }

        fn rests(&self) -> bool {
            self.rest.hold() == Hold::Jobs([1].into_iter().collect())
        }
    }

    #[test]
    fn who_takes_little_never_rests() {
        let mut rig = Rig::new();
        assert!(rig.run(0.005, 600.0).is_empty() && rig.run(f32::NAN, 60.0).is_empty());
        assert!(rig.run(0.03, 1.5).is_empty(), "a few requests are none too many");
        assert_eq!(rig.rest.hold(), Hold::Nobody);
    }

    #[test]
    fn who_has_taken_more_rests_until_it_is_made_good() {
        let mut rig = Rig::new();
        let turn = |rests| Turn { filesystem: 3, jobs: [1].into_iter().collect(), rests };
        assert_eq!(rig.run(0.035, 2.0), [turn(true)]);
        // What they had asked for is done first, and is theirs.
        assert!(rig.run(0.035, 5.0).is_empty() && rig.rests());
        let owed = 7.0 * (0.035 - SHARE);
        assert!(rig.run(0.0, owed / SHARE - 2.0).is_empty() && rig.rests());
        assert_eq!(rig.run(0.0, 3.0), [turn(false)]);
        assert_eq!(rig.rest.hold(), Hold::Nobody);
    }

    #[test]
    fn nobody_rests_for_ever_for_what_was_before() {
        let mut rig = Rig::new();
        rig.run(1.0, 60.0);
        assert!(rig.rests());
        assert!(rig.run(0.0, REST_MAX_S - 2.0).is_empty() && rig.run(0.0, 3.0).len() == 1);
    }

    #[test]
    fn in_the_long_run_it_is_the_share_whatever_they_do() {
        let mut rig = Rig::new();
        // As often as they may they ask for 24 requests at once, of which the kernel does four per second, of 118.
        let (mut queue, mut done) = (0.0_f32, 0.0);
        for _ in 0..600 {
            if !rig.rests() {
                queue = 24.0;
            }
            let now = queue.min(4.0);
            (queue, done) = (queue - now, done + now / 118.0);
            rig.run(now / 118.0, 1.0);
        }
        assert!((0.8..1.6).contains(&(f64::from(done) / (600.0 * SHARE))), "{done} s of 600 s");
    }

    #[test]
    fn the_end_is_also_when_the_disk_has_room_or_they_have_gone() {
        let turn = Turn { filesystem: 3, jobs: [1].into_iter().collect(), rests: false };
        let mut rig = Rig::new();
        rig.run(0.5, 1.0);
        rig.throttles.give_way(0, 0.25, rig.now_ns);
        assert_eq!(rig.run(0.5, 1.0), [turn]);
        let mut rig = Rig::new();
        rig.run(0.5, 1.0);
        rig.throttles.of_living(&JobSet::default(), 9);
        assert_eq!(rig.run(0.5, 1.0), [turn]);
        // What batch does through the storage daemons alone lets nobody rest.
        let mut rig = Rig::new();
        rig.throttles = Throttles::default();
        rig.throttles.make_way(3, JobSet::default(), 0);
        rig.throttles.give_way(1 << 3, 0.25, 0);
        assert!(rig.run(0.5, 10.0).is_empty());
    }
}

// SPDX-License-Identifier: Apache-2.0
//! The kernel leaves a limited job two reads and two writes per second (`io.max` takes no less), and of a disk with one arm that is a
//! thirtieth: clients who fill it lose that, and of those who use 70 % of it the slowest requests are a tenth slower (M/D/1 queue;
//! a quarter with eight per second). So each of those whose limit is the least that there is has an account of what the disk does. Those
//! who have taken something in the last minute are credited with their parts of what all of them may have
//! ([`Throttle::account`](crate::throttle::Throttle::account)); who has overdrawn his account rests until that is made good. A token bucket,
//! as for network traffic (RFC 2697), in debt instead of in tokens. Nobody rests for longer than a minute, so that many hogs take more
//! than that in all: each what it asks for at once when it runs again. The limit stays: two dozen requests at once would be felt more than
//! eight per second all the time.
//!
//! It is no freeze: nobody is to blame, nobody leaves for it, and the node's state stays what it is.

use crate::jobs::{Hold, JobSet};
use crate::throttle::{Throttles, TICK_MAX_NS};

/// So many seconds of the disk's work may be overdrawn: half a dozen requests. Who stops at the first one stops for each single one.
const OVERDRAFT_S: f64 = 0.05;
/// Nobody rests for longer: what he wrote before may take far longer to reach the disk than that.
const REST_MAX_NS: u64 = 60_000_000_000;
/// What he did before he had a limit is not his to pay: until the kernel has it, and it shows in what he does.
const GRACE_NS: u64 = 2_000_000_000;
/// Whoever takes less takes nothing.
const SOME: f32 = 0.0005;

/// What a job takes of a disk on which there is no lower limit for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Taken {
    /// The filesystem on it, by index.
    pub filesystem: u16,
    /// The job, by place.
    pub place: usize,
    /// Part of the disk's work (0..1).
    pub part: f32,
}

/// Of one who is limited on one disk.
#[derive(Clone, Copy, Debug)]
struct Account {
    filesystem: u16,
    place: usize,
    /// He pays for what he does from so long after that on.
    since_ns: u64,
    /// What he takes now, and when that was last anything worth mentioning; `None` = less can be left to him, or nothing is known.
    part: Option<f32>,
    took_ns: u64,
    /// In seconds of the disk's work.
    debt_s: f64,
    rests_ns: Option<u64>,
}

/// These begin to rest, or have rested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Turn {
    /// `None` = filesystems are others now.
    pub filesystem: Option<u16>,
    pub jobs: JobSet,
    pub rests: bool,
}

/// All accounts, by filesystem and place.
#[derive(Clone, Debug)]
pub(super) struct Rest {
    accounts: Vec<Account>,
    at_ns: u64,
}

impl Account {
    fn new(filesystem: u16, place: usize, now_ns: u64) -> Account {
        Account { filesystem, place, since_ns: now_ns, part: None, took_ns: now_ns, debt_s: 0.0, rests_ns: None }
    }

    fn key(&self) -> (u16, usize) {
        (self.filesystem, self.place)
    }

    fn took(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.took_ns) < REST_MAX_NS
    }

    fn pass(&mut self, share: f64, passed_s: f64, now_ns: u64) {
        match self.part {
            None => (self.debt_s, self.since_ns) = (0.0, now_ns),
            Some(_) if now_ns.saturating_sub(self.since_ns) < GRACE_NS => {}
            Some(part) => self.debt_s = (self.debt_s + (f64::from(part) - share) * passed_s).max(0.0),
        }
        if self.rests_ns.is_some_and(|since_ns| now_ns.saturating_sub(since_ns) >= REST_MAX_NS) {
            self.debt_s = 0.0;
        }
    }

    /// Does he begin to rest, or to run?
    fn turns(&self) -> Option<bool> {
        match self.rests_ns {
            None => (self.debt_s >= OVERDRAFT_S).then_some(true),
            Some(_) => (self.debt_s <= 0.0).then_some(false),
        }
    }
}

impl Rest {
    pub fn new(now_ns: u64) -> Rest {
        Rest { accounts: Vec::new(), at_ns: now_ns }
    }

    /// Brings the accounts up to date. `filled_share` = what all who make way on a disk that clients fill may take of it together; of
    /// those who stand `still` in a freeze nothing new is known: they pay for nothing meanwhile, nor when they have just come back.
    pub fn follow(&mut self, throttles: &Throttles, taken: &[Taken], filled_share: f64, still: Hold, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(std::mem::replace(&mut self.at_ns, now_ns)).min(TICK_MAX_NS);
        if self.accounts.is_empty() && taken.is_empty() {
            return;
        }
        let account_of = |filesystem| {
            let throttle = throttles.of(filesystem)?;
            Some((throttle.jobs, throttle.account(filled_share, now_ns)?))
        };
        self.accounts.retain_mut(|account| {
            account.part = None;
            match account_of(account.filesystem) {
                // His place may be another one's soon.
                Some((jobs, _)) => jobs.contains(account.place),
                // The disk has room for him again.
                None => {
                    account.debt_s = 0.0;
                    account.rests_ns.is_some()
                }
            }
        });
        let owes = |one: &&Taken| account_of(one.filesystem).is_some_and(|(jobs, _)| jobs.contains(one.place));
        for &Taken { filesystem, place, part } in taken.iter().filter(owes) {
            let found = self.accounts.binary_search_by_key(&(filesystem, place), Account::key);
            let at = found.unwrap_or_else(|at| {
                self.accounts.insert(at, Account::new(filesystem, place, now_ns));
                at
            });
            if let Some(account) = self.accounts.get_mut(at).filter(|_| part.is_finite()) {
                account.part = Some(part);
            }
        }
        for account in &mut self.accounts {
            if still.touches(account.place) {
                (account.part, account.since_ns) = (Some(0.0), now_ns);
            }
            if account.part.is_some_and(|part| part >= SOME) {
                account.took_ns = now_ns;
            }
        }
        for one_disk in self.accounts.chunk_by_mut(|a, b| a.filesystem == b.filesystem) {
            let of = one_disk.iter().filter(|account| account.took(now_ns)).count().max(1);
            let share = one_disk.first().and_then(|one| account_of(one.filesystem)).map_or(1.0, |(_, share)| share);
            one_disk.iter_mut().for_each(|account| account.pass(share / of as f64, passed_ns as f64 / 1e9, now_ns));
        }
    }

    /// The filesystems are others now: nobody rests for one of them.
    pub fn forget(&mut self) {
        self.accounts.retain(|account| account.rests_ns.is_some());
        for account in &mut self.accounts {
            (account.filesystem, account.debt_s) = (u16::MAX, 0.0);
        }
        self.accounts.sort_unstable_by_key(Account::key);
        self.accounts.dedup_by_key(|account| account.key());
    }

    /// Those of one disk whose turn it is now to rest, if anybody `may_begin`, or to run; the others at the next tick. Who rests for another
    /// disk as well neither begins nor runs.
    pub fn turn(&mut self, may_begin: bool, now_ns: u64) -> Option<Turn> {
        let turns = |one: &Account| one.turns().filter(|rests| may_begin || !rests);
        let (filesystem, rests) = self.accounts.iter().find_map(|one| Some((one.filesystem, turns(one)?)))?;
        let before = self.jobs();
        for index in 0..self.accounts.len() {
            let one = *self.accounts.get(index)?;
            if one.filesystem == filesystem && one.turns() == Some(rests) {
                // A minute is the longest rest, for however many disks.
                let since_ns =
                    self.resting().filter(|other| other.place == one.place).filter_map(|other| other.rests_ns).min();
                let rests_ns = rests.then_some(since_ns.unwrap_or(now_ns));
                self.accounts.get_mut(index)?.rests_ns = rests_ns;
            }
        }
        let now = self.jobs();
        let jobs = if rests { now.without(&before) } else { before.without(&now) };
        let filesystem = (filesystem != u16::MAX).then_some(filesystem);
        (!jobs.is_empty()).then_some(Turn { filesystem, jobs, rests })
    }

    fn resting(&self) -> impl Iterator<Item = &Account> {
        self.accounts.iter().filter(|account| account.rests_ns.is_some())
    }

    /// Who rests on one filesystem.
    pub fn jobs_on(&self, filesystem: u16) -> JobSet {
        self.resting().filter(|account| account.filesystem == filesystem).map(|account| account.place).collect()
    }

    /// Who rests.
    pub fn jobs(&self) -> JobSet {
        self.resting().map(|account| account.place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluator::FilesystemLoad;

    const S: u64 = 1_000_000_000;
    const SHARE: f64 = 0.005;

    struct Rig {
        rest: Rest,
        throttles: Throttles,
        now_ns: u64,
        still: Hold,
    }

    fn jobs(places: &[usize]) -> JobSet {
        places.iter().copied().collect()
    }

    fn turn(places: &[usize], rests: bool) -> Turn {
        Turn { filesystem: Some(3), jobs: jobs(places), rests }
    }

    impl Rig {
        /// These make way on filesystem 3, for longer than nobody pays for.
        fn of(places: &[usize]) -> Rig {
            let mut throttles = Throttles::default();
            throttles.make_way(3, jobs(places), 0);
            throttles.give_way(1 << 3, 0.25, 0);
            let mut rig = Rig { rest: Rest::new(0), throttles, now_ns: 0, still: Hold::Nobody };
            let nothing: Vec<_> = places.iter().map(|place| (*place, 0.0)).collect();
            assert!(rig.run(&nothing, 2.0).is_empty());
            rig
        }

        /// They take these parts for so long.
        fn run(&mut self, parts: &[(usize, f32)], seconds: f64) -> Vec<Turn> {
            let taken: Vec<_> =
                parts.iter().map(|(place, part)| Taken { filesystem: 3, place: *place, part: *part }).collect();
            let mut turns = Vec::new();
            let until_ns = self.now_ns + (seconds * 1e9).round() as u64;
            while self.now_ns < until_ns {
                self.now_ns += S / 20;
                self.rest.follow(&self.throttles, &taken, SHARE, self.still, self.now_ns);
                turns.extend(self.rest.turn(true, self.now_ns));
            }
            turns
        }
    }

    #[test]
    fn who_takes_little_never_rests() {
        let mut rig = Rig::of(&[1]);
        assert!(rig.run(&[(1, 0.005)], 600.0).is_empty() && rig.run(&[(1, f32::NAN)], 60.0).is_empty());
        assert!(rig.run(&[(1, 0.03)], 1.5).is_empty(), "a few requests are none too many");
        assert!(rig.rest.jobs().is_empty());
    }

    #[test]
    fn who_has_taken_more_rests_until_it_is_made_good() {
        let mut rig = Rig::of(&[1]);
        assert_eq!(rig.run(&[(1, 0.035)], 2.0), [turn(&[1], true)]);
        // What he had asked for is done first, and is his.
        assert!(rig.run(&[(1, 0.035)], 5.0).is_empty());
        let owed = 7.0 * (0.035 - SHARE);
        assert!(rig.run(&[(1, 0.0)], owed / SHARE - 2.0).is_empty());
        assert_eq!(rig.rest.jobs(), jobs(&[1]));
        assert_eq!(rig.run(&[(1, 0.0)], 3.0), [turn(&[1], false)]);
        assert!(rig.rest.jobs().is_empty());
    }

    /// Limited on filesystem 3 for what he did, to an eightieth; somebody has just asked for something.
    fn guilty(now_ns: u64) -> Throttles {
        let mut throttles = Throttles::default();
        throttles.begin(3, jobs(&[1]), 0.05, now_ns);
        throttles.note_strain(&[FilesystemLoad { storage_in_flight: 1, ..FilesystemLoad::default() }; 4], now_ns);
        throttles
    }

    #[test]
    fn who_made_it_slow_pays_for_what_is_more_than_his_share_while_clients_are_there() {
        let mut rig = Rig::of(&[1]);
        rig.throttles = guilty(rig.now_ns);
        assert!(rig.run(&[], 0.1).is_empty(), "he could be left less");
        assert!(rig.run(&[(1, 0.2)], 1.9).is_empty(), "he did that before he could not");
        assert_eq!(rig.run(&[(1, 0.2)], 1.0), [turn(&[1], true)]);
        assert!(rig.run(&[(1, 0.0)], 6.5).is_empty());
        // Ten seconds after the last request of a client there is nobody for whom he should rest.
        assert_eq!(rig.run(&[(1, 0.0)], 1.0), [turn(&[1], false)]);
        assert!(rig.run(&[(1, 0.9)], 60.0).is_empty());
        // Less could be left to him, or it is not known what he does: nobody rests for that.
        let mut rig = Rig::of(&[1]);
        assert_eq!(rig.run(&[(1, 0.4)], 1.0), [turn(&[1], true)]);
        assert_eq!(rig.run(&[], 0.1), [turn(&[1], false)]);
    }

    #[test]
    fn who_rests_for_two_disks_runs_when_both_are_made_good() {
        let mut rig = Rig::of(&[1]);
        rig.run(&[(1, 0.4)], 1.0);
        rig.throttles.make_way(4, jobs(&[1]), rig.now_ns);
        rig.throttles.give_way((1 << 3) | (1 << 4), 0.25, rig.now_ns);
        let on = |filesystem, part| Taken { filesystem, place: 1, part };
        let mut pass = |taken: &[Taken], ticks: u64| {
            let mut turns = Vec::new();
            for _ in 0..ticks {
                rig.now_ns += S / 20;
                rig.rest.follow(&rig.throttles, taken, SHARE, Hold::Nobody, rig.now_ns);
                turns.extend(rig.rest.turn(true, rig.now_ns));
            }
            (turns, rig.rest.jobs_on(3), rig.rest.jobs_on(4))
        };
        assert_eq!(pass(&[on(3, 0.0), on(4, 0.4)], 60), (vec![], jobs(&[1]), jobs(&[1])), "he stands still already");
        assert_eq!(pass(&[on(4, 0.0)], 1), (vec![], jobs(&[]), jobs(&[1])));
        let on_the_other = Turn { filesystem: Some(4), ..turn(&[1], false) };
        assert_eq!(pass(&[], 1), (vec![on_the_other], jobs(&[]), jobs(&[])));
    }

    #[test]
    fn who_rests_for_two_disks_rests_for_a_minute_at_most() {
        let mut rig = Rig::of(&[1]);
        rig.throttles.make_way(4, jobs(&[1]), rig.now_ns);
        rig.throttles.give_way((1 << 3) | (1 << 4), 0.25, rig.now_ns);
        let (mut still, mut longest) = (0.0_f64, 0.0_f64);
        for tick in 0..12_000 {
            let part = |filesystem, from| Taken { filesystem, place: 1, part: if tick < from { 0.0 } else { 0.1 } };
            rig.now_ns += S / 20;
            rig.rest.follow(&rig.throttles, &[part(3, 0), part(4, 600)], SHARE, Hold::Nobody, rig.now_ns);
            rig.rest.turn(true, rig.now_ns);
            still = if rig.rest.jobs().is_empty() { 0.0 } else { still + 0.05 };
            longest = longest.max(still);
        }
        assert!((59.0..61.0).contains(&longest), "{longest} s");
    }

    #[test]
    fn in_a_freeze_nobody_begins_to_rest_but_who_has_paid_runs() {
        let mut rig = Rig::of(&[1]);
        rig.run(&[(1, 0.4)], 1.0);
        rig.rest.follow(&rig.throttles, &[], SHARE, Hold::Nobody, rig.now_ns + 1);
        assert_eq!(rig.rest.turn(false, rig.now_ns), Some(turn(&[1], false)));
        let mut rig = Rig::of(&[1]);
        rig.rest.accounts[0].debt_s = 1.0;
        assert_eq!(rig.rest.turn(false, rig.now_ns), None);
        assert_eq!(rig.rest.turn(true, rig.now_ns), Some(turn(&[1], true)));
    }

    #[test]
    fn nobody_rests_for_another_one() {
        let mut rig = Rig::of(&[1, 2]);
        assert_eq!(rig.run(&[(1, 0.034), (2, 0.001)], 600.0).first(), Some(&turn(&[1], true)));
        assert!(!rig.rest.jobs().contains(2));
        // Of what they may take each has his part: half of it, as long as both take some.
        assert!(rig.run(&[(1, 0.004), (2, 0.004)], 60.0).contains(&turn(&[2], true)));
        let mut rig = Rig::of(&[1, 2]);
        rig.run(&[(2, 0.001)], 60.0);
        assert!(rig.run(&[(2, 0.005)], 600.0).is_empty(), "the other one takes nothing");
        // One who has only just been named has nothing to pay.
        rig.throttles.make_way(3, jobs(&[5]), rig.now_ns);
        rig.run(&[(5, 0.4)], 1.9);
        assert!(!rig.rest.jobs().contains(5));
    }

    #[test]
    fn in_a_freeze_and_just_after_it_nothing_is_known_of_those_who_stood_still() {
        let mut rig = Rig::of(&[1, 2]);
        rig.still = Hold::Jobs(jobs(&[1]));
        assert_eq!(rig.run(&[(1, 0.4), (2, 0.4)], 10.0), [turn(&[2], true)]);
        rig.still = Hold::Nobody;
        assert!(rig.run(&[(1, 0.4), (2, 0.0)], 1.9).is_empty(), "the reading is from before it");
        rig.still = Hold::All;
        rig.run(&[(1, 0.4)], 60.0);
        assert!(!rig.rest.jobs().contains(1));
    }

    #[test]
    fn when_filesystems_are_others_nobody_rests_and_it_is_said() {
        let mut rig = Rig::of(&[1, 2]);
        rig.run(&[(1, 0.4), (2, 0.4)], 1.0);
        rig.rest.forget();
        rig.throttles = Throttles::default();
        let both = Turn { filesystem: None, jobs: jobs(&[1, 2]), rests: false };
        assert_eq!(rig.run(&[], 0.5), [both]);
        assert!(rig.rest.accounts.is_empty());
    }

    #[test]
    fn nobody_rests_for_long_for_what_still_goes_to_the_disk() {
        let mut rig = Rig::of(&[1]);
        let turns = rig.run(&[(1, 0.1)], 600.0);
        assert!((18..=20).contains(&turns.len()), "{} turns in 600 s", turns.len());
    }

    #[test]
    fn in_the_long_run_it_is_the_share_for_a_hog_of_many_threads() {
        let mut rig = Rig::of(&[1]);
        // As often as they may they ask for 24 requests at once, of which the kernel does four per second, of 118.
        let (mut queue, mut done) = (0.0_f32, 0.0);
        for _ in 0..600 {
            if rig.rest.jobs().is_empty() {
                queue = 24.0;
            }
            let now = queue.min(4.0);
            (queue, done) = (queue - now, done + now / 118.0);
            rig.run(&[(1, now / 118.0)], 1.0);
        }
        assert!((0.8..1.6).contains(&(f64::from(done) / (600.0 * SHARE))), "{done} s of 600 s");
    }

    #[test]
    fn the_end_is_also_when_the_disk_has_room_or_they_have_gone() {
        let mut rig = Rig::of(&[1]);
        rig.run(&[(1, 0.5)], 1.0);
        rig.throttles.give_way(0, 0.25, rig.now_ns);
        assert_eq!(rig.run(&[], 1.0), [turn(&[1], false)]);
        let mut rig = Rig::of(&[1, 2]);
        rig.run(&[(1, 0.5), (2, 0.5)], 1.0);
        assert_eq!(rig.rest.jobs(), jobs(&[1, 2]));
        rig.throttles.of_living(&jobs(&[2]), 9);
        assert!(rig.run(&[(2, 0.0)], 0.05).is_empty());
        assert_eq!(rig.rest.jobs(), jobs(&[2]), "there may be another one in his place");
        // Of whom nothing is known, and who does not make way.
        let mut rig = Rig::of(&[1]);
        assert!(rig.run(&[(7, 0.5)], 10.0).is_empty() && rig.rest.accounts.len() == 1);
    }
}

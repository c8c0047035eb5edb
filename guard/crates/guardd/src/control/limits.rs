// SPDX-License-Identifier: Apache-2.0
//! From shares to limits: the ladder says what share those get who made a disk slow; here is kept what they did there then.

use std::sync::Arc;

use intf::shaping::Allowance;
use policy::throttle::DISKS;
use policy::{Throttle, Throttles, Use};

use crate::actuators::io_max::{Limit, LITTLE};
use crate::signals::{Board, Rate};

/// Nobody gets less than this.
const LEAST: Rate = Rate { requests: LITTLE.0 as f32, bytes: LITTLE.1 as f32, reads: 0.0 };

/// Percent of a limit that is left for the direction in which little or nothing was done when it began.
const OTHER_WAY: f32 = 25.0;

/// Who does more than this part of what he is left, of reads or of writes, would do more; with few requests per second a spell may
/// have one less.
const USED: f32 = 0.6;

/// The same for all of batch in the storage daemons, on each filesystem.
pub const LEAST_EVERYWHERE: Allowance =
    Allowance { device: (Allowance::EVERY, Allowance::EVERY), bytes: LITTLE.1, operations: LITTLE.0 };

/// What one job, or batch in the storage daemons, did to one disk when it became slow.
#[derive(Clone, Copy, Debug)]
struct Base {
    filesystem: u16,
    /// Of the job's cgroup; `None` = through the storage daemons.
    job: Option<u64>,
    /// `None` = nothing worth a limit.
    rate: Option<Rate>,
}

/// Who is limited to what.
#[derive(Debug, Default)]
pub struct Limits {
    throttles: Throttles,
    bases: Vec<Base>,
    jobs: Arc<[Limit]>,
    daemons: [Option<Allowance>; DISKS],
    /// Those of them that are less than before, until somebody asks.
    slowed: [Option<Allowance>; DISKS],
    /// Of the board, when they were last followed.
    disks_version: u64,
    /// What is done with what is left, by filesystem. Empty where nobody is limited.
    used: Vec<Use>,
}

impl Limits {
    /// Takes over what the ladder wants. `Some(less)` when that changes limits of jobs: somebody gets less than before, or is limited no
    /// more.
    pub fn follow(&mut self, throttles: &Throttles, board: &Board) -> Option<bool> {
        let same_disks = std::mem::replace(&mut self.disks_version, board.disks_version) == board.disks_version;
        if throttles.give_the_same(&self.throttles) && (same_disks || throttles.is_empty()) {
            return None;
        }
        self.throttles = *throttles;
        let lives = |number| board.jobs.iter().any(|(_, job)| job.number == number);
        self.bases.retain(|base| throttles.of(base.filesystem).is_some() && base.job.is_none_or(lives));
        let before = std::mem::take(&mut self.jobs);
        let mut jobs = Vec::new();
        let daemons = std::mem::take(&mut self.daemons);
        for (throttle, daemon) in throttles.iter().zip(&mut self.daemons) {
            *daemon = of_daemons(&mut self.bases, throttle, board);
            of_jobs(&mut self.bases, throttle, board, &mut jobs);
        }
        self.slowed = self.daemons.map(|new| new.filter(|new| less_than_in(new, &daemons)));
        let jobs = strictest(jobs);
        if *before == *jobs {
            self.jobs = before;
            return None;
        }
        self.jobs = jobs.into();
        let same = |a: &Limit, b: &Limit| a.scope == b.scope && a.device == b.device;
        let given = |limits: &[Limit], limit: &Limit| limits.iter().find(|l| same(l, limit)).map(|l| l.requests);
        let less = self.jobs.iter().any(|limit| given(&before, limit).is_none_or(|before| limit.requests < before));
        let freed = before.iter().any(|limit| given(&self.jobs, limit).is_none());
        Some(less || freed)
    }

    /// Looks what those who are limited do with what they are left: who works earns nothing for who rests.
    pub fn look(&mut self, board: &Board) {
        self.used.clear();
        if self.throttles.is_empty() {
            return;
        }
        self.used.resize(board.filesystems.len(), Use::Full);
        for throttle in self.throttles.iter() {
            if let Some(used) = self.used.get_mut(usize::from(throttle.filesystem)) {
                *used = uses(&self.bases, throttle, board);
            }
        }
    }

    /// As was seen then, by filesystem; shorter = nobody is limited there.
    pub fn used(&self) -> &[Use] {
        &self.used
    }

    /// The filesystems are others now: what is known of their indices says nothing.
    pub fn forget(&mut self) {
        self.bases.clear();
    }

    /// Of single jobs.
    pub fn jobs(&self) -> Arc<[Limit]> {
        Arc::clone(&self.jobs)
    }

    /// Of what somebody has just been given less; once.
    pub fn slowed(&mut self) -> impl Iterator<Item = Allowance> {
        std::mem::take(&mut self.slowed).into_iter().flatten()
    }

    /// Of batch in the storage daemons.
    pub fn daemons(&self) -> impl Iterator<Item = &Allowance> {
        self.daemons.iter().flatten()
    }
}

/// Two filesystems may lie on one disk: of two limits of a job there the smaller one holds.
fn strictest(limits: Vec<Limit>) -> Vec<Limit> {
    let mut kept: Vec<Limit> = Vec::with_capacity(limits.len());
    for limit in limits {
        match kept.iter_mut().find(|known| known.scope == limit.scope && known.device == limit.device) {
            Some(known) => {
                known.requests = known.requests.min(limit.requests);
                known.bytes = known.bytes.min(limit.bytes);
            }
            None => kept.push(limit),
        }
    }
    kept
}

fn less_than_in(new: &Allowance, before: &[Option<Allowance>]) -> bool {
    let before = before.iter().flatten().find(|old| old.device == new.device);
    before.is_none_or(|old| new.operations < old.operations)
}

fn of_jobs(bases: &mut Vec<Base>, throttle: &Throttle, board: &Board, limits: &mut Vec<Limit>) {
    // Without a block device of its own there is nothing to limit.
    let known = board.disks.get(usize::from(throttle.filesystem)).filter(|device| device.0 != 0);
    let Some(&device) = known else { return };
    let pace = board.pace.get(usize::from(throttle.filesystem));
    for (_, job) in board.jobs.iter().filter(|(place, _)| throttle.jobs.contains(*place)) {
        let now = || {
            let rate = pace?.jobs.iter().find(|(number, _)| *number == job.number)?.1.most;
            // Who went through the storage daemons is limited there.
            (rate.requests >= LEAST.requests || rate.bytes >= LEAST.bytes).then_some(rate)
        };
        let Some(rate) = base(bases, throttle, job.number, now) else { continue };
        let (requests, bytes) = part(rate, throttle.given(), throttle.jobs.len());
        let reads = reads_of(rate);
        limits.push(Limit { scope: job.scope.as_str().into(), device, requests, bytes, reads });
    }
}

fn of_daemons(bases: &mut Vec<Base>, throttle: &Throttle, board: &Board) -> Option<Allowance> {
    let index = usize::from(throttle.filesystem);
    let filesystem = board.filesystems.get(index)?;
    let known = bases.iter().find(|base| base.filesystem == throttle.filesystem && base.job.is_none());
    let rate = match known {
        Some(base) => base.rate?,
        // Nothing worth a limit went through them when others made it slow; it may do so the next time.
        None => {
            let pace = board.pace.get(index).filter(|_| throttle.was_cut())?;
            let rate = Some(pace.daemon.most).filter(|rate| rate.requests >= LEAST.requests)?;
            bases.push(Base { filesystem: throttle.filesystem, job: None, rate: Some(rate) });
            rate
        }
    };
    let (operations, bytes) = part(rate, throttle.given(), 1);
    Some(Allowance { device: (filesystem.major, filesystem.minor), bytes, operations })
}

/// What a job did then: it is kept for as long as the disk is throttled. Of whom nothing was worth a limit it may be the next time.
fn base(bases: &mut Vec<Base>, throttle: &Throttle, job: u64, now: impl FnOnce() -> Option<Rate>) -> Option<Rate> {
    let (filesystem, job) = (throttle.filesystem, Some(job));
    match bases.iter_mut().find(|base| base.filesystem == filesystem && base.job == job) {
        Some(Base { rate: Some(rate), .. }) => Some(*rate),
        Some(base) => {
            base.rate = if throttle.was_cut() { now() } else { None };
            base.rate
        }
        None => {
            let rate = now();
            bases.push(Base { filesystem, job, rate });
            rate
        }
    }
}

/// What those who are limited there do with what they are left. Where no limit was found for anybody none keeps them from anything.
fn uses(bases: &[Base], throttle: &Throttle, board: &Board) -> Use {
    let Some(pace) = board.pace.get(usize::from(throttle.filesystem)) else { return Use::Little };
    let (mut left, mut done, mut somebody) = ([0.0; 4], [0.0; 4], false);
    for base in bases.iter().filter(|base| base.filesystem == throttle.filesystem) {
        let Some(rate) = base.rate else { continue };
        let (own_left, own_done) = match base.job {
            // The daemons' limit is one for both directions.
            None => (parts(part(rate, throttle.given(), 1), 1.0), parts(whole(pace.daemon.last), 1.0)),
            Some(job) => {
                let now =
                    pace.jobs.iter().find(|(number, _)| *number == job).map_or(Rate::default(), |(_, now)| now.last);
                let reads = reads_of(rate) as f32 / 100.0;
                (parts(part(rate, throttle.given(), throttle.jobs.len()), reads), parts(whole(now), now.reads))
            }
        };
        somebody |= most(&own_done, &own_left);
        for (sum, own) in left.iter_mut().zip(own_left) {
            *sum += own;
        }
        for (sum, (done, left)) in done.iter_mut().zip(own_done.iter().zip(own_left)) {
            *sum += done.min(left);
        }
    }
    match (most(&done, &left), somebody) {
        (true, _) => Use::Full,
        (false, true) => Use::Part,
        (false, false) => Use::Little,
    }
}

/// Is most of it done, of one kind?
fn most(done: &[f32; 4], left: &[f32; 4]) -> bool {
    done.iter().zip(left).any(|(done, left)| *left > 0.0 && *done > USED * left)
}

/// Requests and bytes that are read, and those that are written.
fn parts((requests, bytes): (u64, u64), reads: f32) -> [f32; 4] {
    let (requests, bytes) = (requests as f32, bytes as f32);
    [requests * reads, bytes * reads, requests * (1.0 - reads), bytes * (1.0 - reads)]
}

fn whole(rate: Rate) -> (u64, u64) {
    (rate.requests as u64, rate.bytes as u64)
}

/// Percent of a limit that are for reads.
fn reads_of(rate: Rate) -> u64 {
    (rate.reads * 100.0).clamp(OTHER_WAY, 100.0 - OTHER_WAY) as u64
}

/// Requests and bytes per second of one of `of` who are limited together. Many who each get the least would be too much, but
/// a request of any size must be through in a moment. Without a share it is as little as there can be: what the disk does belongs to
/// its clients.
fn part(rate: Rate, share: f32, of: usize) -> (u64, u64) {
    let least = if share > 0.0 { (LEAST.requests / of.max(1) as f32).max(1.0) } else { 1.0 };
    ((rate.requests * share).max(least) as u64, (rate.bytes * share).max(LEAST.bytes) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signals::{Pace, Pair};
    use policy::{Config, JobSet};

    const DISK: (u32, u32) = (254, 16);
    const STEP: f32 = 0.1;

    fn steady(rate: Rate) -> Pair {
        Pair { last: rate, most: rate }
    }

    /// A disk, and a job a.scope that has done 4000 requests/s of 64 KiB there.
    struct Rig {
        folder: tempfile::TempDir,
        board: Board,
        throttles: Throttles,
        limits: Limits,
    }

    impl Rig {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            ["a.scope", "b.scope"]
                .iter()
                .for_each(|job| std::fs::create_dir_all(folder.path().join("j").join(job)).unwrap());
            let text = format!("[paths]\ncgroup = \"{}\"\njobs_slice = \"j\"\n", folder.path().display());
            let mut board = Board::new(&Config::parse("test", &text).unwrap());
            board.jobs.look(false, &JobSet::default());
            board.disks = vec![DISK];
            board.filesystems = vec![intf::segment::Filesystem {
                path: "/data/01".into(),
                major: 254,
                minor: 17,
                open_readers: 0,
                open_writers: 0,
                overloaded: false,
            }];
            board.pace = vec![Pace::default()];
            let mut rig = Rig { folder, board, throttles: Throttles::default(), limits: Limits::default() };
            rig.goes("a.scope", 4000.0);
            rig
        }

        fn place(&self, job: &str) -> usize {
            self.board.jobs.iter().find(|(_, known)| known.scope == job).unwrap().0
        }

        fn number(&self, job: &str) -> u64 {
            self.board.jobs.iter().find(|(_, known)| known.scope == job).unwrap().1.number
        }

        fn goes(&mut self, job: &str, requests: f32) {
            let rate = Rate { requests, bytes: requests * 65536.0, reads: 1.0 };
            self.board.pace[0].jobs = vec![(self.number(job), steady(rate))];
        }

        fn begin(&mut self, jobs: &[&str]) {
            let jobs: JobSet = jobs.iter().map(|job| self.place(job)).collect();
            self.throttles.begin(0, jobs, STEP, 1);
        }

        fn follow(&mut self) -> Option<bool> {
            self.limits.follow(&self.throttles, &self.board)
        }

        fn used(&mut self) -> Option<Use> {
            self.limits.look(&self.board);
            self.limits.used().first().copied()
        }

        fn of_jobs(&self) -> Vec<(String, u64, u64)> {
            self.limits.jobs().iter().map(|l| (l.scope.to_string(), l.requests, l.bytes)).collect()
        }
    }

    #[test]
    fn a_share_is_of_what_was_done_when_it_became_slow() {
        let mut rig = Rig::new();
        assert_eq!(rig.follow(), None);
        rig.begin(&["a.scope"]);
        assert_eq!(rig.follow(), Some(true), "somebody gets less");
        assert_eq!(rig.of_jobs(), [("a.scope".into(), 400, 26_214_400)]);
        assert_eq!(rig.limits.jobs()[0].device, DISK, "the whole disk, not the partition");
        assert_eq!(rig.limits.jobs()[0].reads, 75, "it only read; the rest is for its writes");
        // What it does under the limit changes nothing.
        rig.goes("a.scope", 400.0);
        rig.throttles.ease(10, STEP, 1, 10);
        assert_eq!(rig.follow(), Some(false), "more is nothing to talk about");
        assert_eq!(rig.of_jobs(), [("a.scope".into(), 800, 52_428_800)]);
        rig.throttles.cut(0, STEP, 1, 20);
        assert_eq!((rig.follow(), rig.follow()), (Some(true), None));
        rig.throttles.end(0);
        assert_eq!((rig.follow(), rig.of_jobs()), (Some(true), vec![]));
        // The next time is another time.
        rig.begin(&["a.scope"]);
        rig.follow();
        assert_eq!(rig.of_jobs(), [("a.scope".into(), 40, 2_621_440)]);
    }

    #[test]
    fn who_did_nothing_has_no_limit_and_nobody_gets_next_to_nothing() {
        let mut rig = Rig::new();
        rig.goes("a.scope", 20.0);
        rig.begin(&["a.scope", "b.scope"]);
        rig.follow();
        assert_eq!(rig.of_jobs(), [("a.scope".into(), 4, 1_048_576)], "two share the least");
        rig.goes("b.scope", 5000.0);
        rig.throttles.ease(10, STEP, 1, 10);
        rig.follow();
        assert_eq!(rig.of_jobs().len(), 1, "what it does later is another matter");
        drop(rig.folder);
    }

    #[test]
    fn what_goes_through_the_daemons_is_limited_there() {
        let mut rig = Rig::new();
        rig.board.pace[0].daemon = steady(Rate { requests: 2000.0, bytes: 2e8, reads: 0.0 });
        rig.begin(&[]);
        assert_eq!(rig.follow(), None, "no job has a limit");
        let allowance = Allowance { device: (254, 17), bytes: 20_000_000, operations: 200 };
        assert_eq!(rig.limits.daemons().collect::<Vec<_>>(), [&allowance]);
        assert_eq!((rig.limits.slowed().collect::<Vec<_>>(), rig.limits.slowed().count()), (vec![allowance], 0));
        rig.throttles.ease(10, STEP, 1, 10);
        rig.follow();
        assert_eq!(
            (rig.limits.daemons().count(), rig.limits.slowed().count()),
            (1, 0),
            "more is nothing to talk about"
        );
        let mut rig = Rig::new();
        rig.board.pace[0].daemon = steady(Rate { requests: 3.0, bytes: 2e5, reads: 0.0 });
        rig.begin(&["a.scope"]);
        rig.follow();
        assert_eq!(rig.limits.daemons().count(), 0, "next to nothing");
        rig.board.pace[0].daemon = steady(Rate { requests: 900.0, bytes: 9e7, reads: 0.0 });
        rig.throttles.ease(10, STEP, 1, 10);
        rig.follow();
        assert_eq!(rig.limits.daemons().count(), 0, "nobody is slow because of it");
        rig.throttles.cut(0, STEP, 1, 20);
        rig.follow();
        assert_eq!(rig.limits.daemons().map(|limit| limit.operations).collect::<Vec<_>>(), [90], "now it made it slow");
    }

    #[test]
    fn who_went_through_the_daemons_has_no_limit_of_his_own() {
        let mut rig = Rig::new();
        rig.goes("a.scope", 3.0);
        rig.board.pace[0].daemon = steady(Rate { requests: 2000.0, bytes: 2e8, reads: 0.0 });
        rig.begin(&["a.scope"]);
        rig.follow();
        assert_eq!((rig.of_jobs(), rig.limits.daemons().count()), (vec![], 1));
        // Little in requests may be much in bytes.
        let mut rig = Rig::new();
        rig.board.pace[0].jobs = vec![(rig.number("a.scope"), steady(Rate { requests: 3.0, bytes: 3e8, reads: 0.0 }))];
        rig.begin(&["a.scope"]);
        rig.follow();
        assert_eq!(rig.of_jobs(), [("a.scope".into(), 8, 30_000_000)]);
    }

    #[test]
    fn who_is_limited_uses_it_or_does_not() {
        let mut rig = Rig::new();
        assert_eq!(rig.used(), None, "nobody is limited");
        rig.begin(&["a.scope"]);
        rig.follow();
        // 400 per second, three quarters of it reads.
        for (requests, expected) in [(4000.0, Use::Full), (200.0, Use::Full), (170.0, Use::Little), (0.0, Use::Little)]
        {
            rig.goes("a.scope", requests);
            assert_eq!(rig.used(), Some(expected), "{requests} reads");
        }
        let writes = Rate { requests: 70.0, bytes: 0.0, reads: 0.0 };
        rig.board.pace[0].jobs = vec![(rig.number("a.scope"), steady(writes))];
        assert_eq!(rig.used(), Some(Use::Full), "of writes it has a quarter");
        // It has just stopped; somebody else works there.
        let rate = Rate { requests: 400.0, bytes: 2e7, reads: 1.0 };
        rig.board.pace[0].jobs = vec![(rig.number("a.scope"), Pair { last: Rate::default(), most: rate })];
        assert_eq!(rig.used(), Some(Use::Little));
        rig.goes("b.scope", 400.0);
        assert_eq!(rig.used(), Some(Use::Little));
        // Little in requests may be much in bytes.
        rig.board.pace[0].jobs = vec![(rig.number("a.scope"), steady(Rate { requests: 3.0, bytes: 2e7, reads: 1.0 }))];
        assert_eq!(rig.used(), Some(Use::Full));
    }

    #[test]
    fn who_works_keeps_the_limit_for_who_rests_and_earns_him_nothing() {
        let mut rig = Rig::new();
        // Through the storage daemons.
        rig.board.pace[0].daemon = steady(Rate { requests: 2000.0, bytes: 2e8, reads: 0.0 });
        rig.begin(&[]);
        rig.follow();
        assert_eq!(rig.used(), Some(Use::Full));
        rig.board.pace[0].daemon = Pair::default();
        assert_eq!(rig.used(), Some(Use::Little));
        // Beside a job.
        let mut rig = Rig::new();
        rig.board.pace[0].daemon = steady(Rate { requests: 50.0, bytes: 2e5, reads: 0.0 });
        rig.begin(&["a.scope"]);
        rig.follow();
        assert_eq!((rig.used(), rig.limits.daemons().count()), (Some(Use::Full), 1));
        rig.goes("a.scope", 0.0);
        assert_eq!(rig.used(), Some(Use::Part));
        // What no limit keeps from anything.
        let mut rig = Rig::new();
        rig.goes("a.scope", 3.0);
        rig.begin(&["a.scope"]);
        rig.follow();
        assert_eq!(rig.used(), Some(Use::Little));
    }

    #[test]
    fn who_was_worth_no_limit_may_be_the_next_time_and_another_disk_has_it_too() {
        let mut rig = Rig::new();
        rig.goes("a.scope", 3.0);
        rig.begin(&["a.scope"]);
        rig.follow();
        rig.goes("a.scope", 4000.0);
        rig.throttles.run(2);
        rig.follow();
        assert_eq!(rig.of_jobs(), [], "nobody says that it is slow");
        rig.throttles.cut(0, STEP, 1, 20);
        rig.follow();
        assert_eq!(rig.of_jobs(), [("a.scope".into(), 200, 13_107_200)]);
        rig.board.disks = vec![(8, 32)];
        assert_eq!(rig.follow(), None);
        rig.board.disks_version += 1;
        assert_eq!((rig.follow(), rig.limits.jobs()[0].device), (Some(true), (8, 32)));
    }

    #[test]
    fn where_clients_fill_the_disk_next_to_nothing_is_left() {
        let mut rig = Rig::new();
        rig.board.pace[0].daemon = steady(Rate { requests: 2000.0, bytes: 2e8, reads: 0.0 });
        rig.begin(&["a.scope"]);
        rig.throttles.give_way(1, STEP, 1);
        assert_eq!(rig.follow(), Some(true));
        assert_eq!(rig.of_jobs(), [("a.scope".into(), 1, 1 << 20)]);
        assert_eq!(rig.limits.daemons().map(|limit| limit.operations).collect::<Vec<_>>(), [1]);
        // Who does what he may would do more.
        rig.goes("a.scope", 1.0);
        assert_eq!(rig.used(), Some(Use::Full));
        rig.throttles.give_way(0, STEP, 2);
        assert_eq!(rig.follow(), Some(false));
        assert_eq!(rig.of_jobs(), [("a.scope".into(), 200, 13_107_200)], "half of what was too much");
    }

    #[test]
    fn two_filesystems_on_one_disk_give_one_limit() {
        let limit = |device, requests, bytes| Limit { scope: "a.scope".into(), device, requests, bytes, reads: 50 };
        let found = strictest(vec![limit((8, 16), 40, 9), limit((8, 0), 1, 1), limit((8, 16), 50, 5)]);
        assert_eq!(found, [limit((8, 16), 40, 5), limit((8, 0), 1, 1)]);
    }
}

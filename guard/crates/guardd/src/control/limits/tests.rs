// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::signals::{Pace, Pair};
use policy::{Config, JobSet};

const DISK: (u32, u32) = (254, 16);
/// They begin with a tenth.
const STEP: f32 = 0.4;

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
        let mut rig = Rig::of(["a.scope", "b.scope"].map(String::from));
        rig.goes("a.scope", 4000.0);
        rig
    }

    fn of(jobs: impl IntoIterator<Item = String>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        jobs.into_iter().for_each(|job| std::fs::create_dir_all(folder.path().join("j").join(job)).unwrap());
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
        Rig { folder, board, throttles: Throttles::default(), limits: Limits::default() }
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

    /// Each of them.
    fn all_go(&mut self, requests: f32) {
        let rate = Rate { requests, bytes: requests * 65536.0, reads: 1.0 };
        self.board.pace[0].jobs = self.board.jobs.iter().map(|(_, job)| (job.number, steady(rate))).collect();
    }

    fn begin_all(&mut self) {
        let jobs = self.board.jobs.iter().map(|(place, _)| place).collect();
        self.throttles.begin(0, jobs, STEP, 1);
    }

    fn together(&self) -> Vec<(String, u64)> {
        self.limits.together().iter().map(|limit| (limit.scope.to_string(), limit.requests)).collect()
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
    assert_eq!((rig.limits.daemons().count(), rig.limits.slowed().count()), (1, 0), "more is nothing to talk about");
    // The least is worth a record like any other.
    let mut rig = Rig::new();
    rig.board.pace[0].daemon = steady(Rate { requests: 70.0, bytes: 2e6, reads: 0.0 });
    rig.begin(&[]);
    rig.follow();
    assert_eq!(rig.limits.slowed().map(|limit| (limit.operations, limit.bytes)).collect::<Vec<_>>(), [LITTLE]);
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
    for (requests, expected) in [(4000.0, Use::Full), (200.0, Use::Full), (170.0, Use::Little), (0.0, Use::Little)] {
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
fn where_clients_fill_the_disk_who_has_only_just_begun_makes_way_too() {
    let mut rig = Rig::new();
    let number = rig.number("b.scope");
    rig.board.pace[0].jobs.push((number, steady(Rate { requests: 1.0, bytes: 4096.0, reads: 1.0 })));
    rig.throttles.make_way(0, [rig.place("a.scope"), rig.place("b.scope")].into_iter().collect(), 1);
    rig.throttles.give_way(1, STEP, 1);
    assert_eq!(rig.follow(), Some(true));
    let limits = [("a.scope".into(), 1, 1 << 20), ("b.scope".into(), 1, 1 << 20)];
    let mut found = rig.of_jobs();
    found.sort();
    assert_eq!(found, limits);
    // So does what may come through the storage daemons, of which there is nothing to tell.
    let daemons: Vec<_> = rig.limits.daemons().map(|limit| (limit.operations, limit.bytes)).collect();
    assert_eq!((daemons, rig.limits.slowed().count()), (vec![LITTLE], 0));
    // When there is room it is no matter what he would have done.
    rig.throttles.give_way(0, STEP, 2);
    rig.follow();
    assert_eq!(rig.of_jobs().len(), 1);
    assert_eq!(rig.limits.daemons().count(), 0);
}

#[test]
fn what_those_take_who_make_way_is_known_of_each() {
    let mut rig = Rig::new();
    let numbers = [rig.number("a.scope"), rig.number("b.scope")];
    let read = |requests| Rate { requests, bytes: requests * 65536.0, reads: 1.0 };
    rig.board.pace[0].jobs = vec![(numbers[0], steady(read(1.5))), (numbers[1], steady(read(0.5)))];
    rig.board.disk_work = vec![100.0];
    let taken = |rig: &mut Rig| {
        rig.follow();
        rig.limits.look(&rig.board);
        rig.limits.taken().to_vec()
    };
    assert_eq!(taken(&mut rig), [], "nobody is limited");
    rig.throttles.make_way(0, [rig.place("a.scope")].into_iter().collect(), 1);
    rig.throttles.give_way(1, STEP, 1);
    let his = Taken { filesystem: 0, place: rig.place("a.scope"), part: 0.03 };
    assert_eq!(taken(&mut rig), [his], "clients fill the disk");
    rig.board.disk_work = vec![f32::NAN];
    assert_eq!(taken(&mut rig), [], "of an unknown disk");
    rig.board.disk_work = vec![100.0];
    rig.board.pace[0].jobs.remove(0);
    assert_eq!(taken(&mut rig), [], "another one's");
}

#[test]
fn what_those_take_who_made_it_slow_is_known_where_nothing_less_can_be_left() {
    // What he did and does, what the disk does, and his part.
    let taken = |did: Rate, does: Rate, all: f32| {
        let mut rig = Rig::new();
        rig.board.pace[0].jobs = vec![(rig.number("a.scope"), steady(did))];
        rig.begin(&["a.scope"]);
        rig.follow();
        rig.board.pace[0].jobs = vec![(rig.number("a.scope"), steady(does))];
        rig.board.disk_work = vec![all];
        rig.limits.look(&rig.board);
        rig.limits.taken().first().map(|taken| taken.part)
    };
    let rate = |requests, bytes| Rate { requests, bytes, reads: 1.0 };
    let read = |requests| rate(requests, requests * 65536.0);
    assert_eq!(taken(read(80.0), read(1.5), 300.0), Some(0.01), "a tenth of 80 is eight");
    assert_eq!(taken(read(80.0), read(1.6), 4.0), Some(0.02), "he did 80 of them: clients ask for little now");
    assert_eq!(taken(read(400.0), read(40.0), 300.0), None, "he could be left less than 40");
    assert_eq!(taken(rate(80.0, 8e7), rate(8.0, 8e6), 300.0), None, "of bytes, too");
    assert_eq!(taken(read(3.0), read(3.0), 300.0), None, "that was worth no limit");
    // The kernel leaves each of three more than their part of the least; whoever could be left less has his by his limit, and what goes
    // through the storage daemons is no matter of theirs.
    let mut rig = Rig::of(["a", "b", "c", "d"].map(|name| format!("{name}.scope")));
    rig.all_go(35.0);
    rig.board.pace[0].jobs[3].1 = steady(read(295.0));
    rig.board.pace[0].daemon = steady(read(5000.0));
    rig.begin_all();
    rig.follow();
    rig.all_go(2.1);
    rig.board.disk_work = vec![100.0];
    rig.limits.look(&rig.board);
    let parts: Vec<f32> = rig.limits.taken().iter().map(|taken| taken.part).collect();
    assert_eq!(parts.len(), 3);
    assert!(parts.iter().all(|part| (part - 2.1 / 105.0).abs() < 1e-4), "{parts:?}");
}

#[test]
fn many_who_each_do_little_are_limited_together() {
    let mut rig = Rig::of((0..32).map(|number| format!("{number}.scope")));
    // 192 requests/s.
    rig.all_go(6.0);
    rig.begin_all();
    assert_eq!((rig.follow(), rig.limits.jobs().len()), (Some(true), 32));
    assert_eq!(rig.together(), [("j".into(), 38)], "a tenth, and as much for who may not be limited");
    rig.throttles.give_way(1, STEP, 1);
    assert_eq!((rig.follow(), rig.together()), (Some(true), vec![("j".into(), 8)]));
    // More for all may be no more for each.
    rig.throttles.give_way(0, STEP, 2);
    assert_eq!(rig.follow(), Some(false));
    rig.throttles.end(0);
    assert_eq!((rig.follow(), rig.together().len(), rig.limits.jobs().len()), (Some(true), 0, 0));
    // Together next to nothing: they went through the storage daemons.
    rig.all_go(0.2);
    rig.begin_all();
    assert_eq!((rig.follow(), rig.limits.jobs().len()), (None, 0));
}

#[test]
fn what_is_left_to_all_of_them_is_used_whoever_does_it() {
    let mut rig = Rig::of((0..32).map(|number| format!("{number}.scope")));
    rig.all_go(6.0);
    rig.begin_all();
    rig.throttles.give_way(1, STEP, 1);
    rig.follow();
    // Of eight requests per second, three quarters of them reads; in this spell by six of them.
    let read = |requests| Rate { requests, bytes: requests * 65536.0, reads: 1.0 };
    rig.all_go(0.0);
    rig.board.pace[0].jobs.iter_mut().take(6).for_each(|(_, pair)| *pair = steady(read(1.0)));
    rig.board.pace[0].whole = read(6.0);
    assert_eq!(rig.used(), Some(Use::Full));
    // Others do most of it.
    rig.board.pace[0].jobs.iter_mut().skip(1).for_each(|(_, pair)| *pair = Pair::default());
    assert_eq!(rig.used(), Some(Use::Full));
    rig.board.pace[0].whole = read(1.0);
    assert_eq!(rig.used(), Some(Use::Part));
    // All of it.
    (rig.board.pace[0].whole, rig.board.pace[0].jobs[0].1) = (read(6.0), Pair::default());
    assert_eq!(rig.used(), Some(Use::Little));
    // What goes through the storage daemons is none of it.
    rig.throttles.end(0);
    rig.follow();
    rig.all_go(6.0);
    rig.board.pace[0].daemon = steady(read(250.0));
    rig.begin_all();
    rig.follow();
    rig.all_go(0.0);
    (rig.board.pace[0].whole, rig.board.pace[0].daemon) = (Rate::default(), steady(read(20.0)));
    assert_eq!((rig.together().len(), rig.used()), (1, Some(Use::Part)));
}

#[test]
fn two_filesystems_on_one_disk_give_one_limit() {
    let limit = |device, requests, bytes| Limit { scope: "a.scope".into(), device, requests, bytes, reads: 50 };
    let limited = [(0.5, limit((8, 16), 40, 9)), (0.1, limit((8, 0), 1, 1)), (0.2, limit((8, 16), 50, 5))];
    let limited = limited.map(|(share, limit)| Limited { did: Rate::default(), share, limit });
    let found: Vec<_> = strictest(limited.into()).into_iter().map(|one| (one.share, one.limit)).collect();
    assert_eq!(found, [(0.2, limit((8, 16), 40, 5)), (0.1, limit((8, 0), 1, 1))]);
}

// SPDX-License-Identifier: Apache-2.0
//! Jobs on two disks, whose counters the test writes.

use intf::segment::{Class, Op};

use super::*;
use crate::signals::Traffic;

const DISK: (u32, u32) = (8, 16);
const OTHER: (u32, u32) = (8, 32);
const SECOND_NS: u64 = 1_000_000_000;

/// A slice on two disks; jobs do requests of 64 KiB.
struct Rig {
    folder: tempfile::TempDir,
    signal: Jobs,
    board: Board,
    /// Who on which disk how many requests; are they writes?
    done: Vec<(String, (u32, u32), u64, bool)>,
    now_ns: u64,
}

impl Rig {
    fn new(jobs: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("[paths]\ncgroup = \"{}\"\njobs_slice = \"jobs.slice\"\n", folder.path().display());
        let config = Config::parse("test", &text).unwrap();
        let mut board = Board::new(&config);
        (board.disks, board.disks_version) = (vec![DISK, OTHER], 1);
        board.operations = vec![Traffic::default(); 2];
        board.daemons.restart(2);
        let mut rig = Rig { signal: Jobs::new(&config), board, folder, done: Vec::new(), now_ns: SECOND_NS };
        std::fs::create_dir(rig.slice()).unwrap();
        std::fs::write(rig.slice().join("io.stat"), "").unwrap();
        jobs.iter().for_each(|job| rig.works(job, DISK, 10_000));
        rig.read();
        rig
    }

    fn slice(&self) -> std::path::PathBuf {
        self.folder.path().join("jobs.slice")
    }

    /// Reads; while all stand still the kernel writes.
    fn works(&mut self, job: &str, disk: (u32, u32), requests: u64) {
        let written = self.board.hold == Hold::All;
        self.does(job, disk, requests, written);
    }

    fn does(&mut self, job: &str, disk: (u32, u32), requests: u64, written: bool) {
        self.done.push((job.to_owned(), disk, requests, written));
        let folder = self.slice().join(job);
        std::fs::create_dir_all(&folder).unwrap();
        let text = |of: &dyn Fn(&str) -> bool| {
            let line = |disk: (u32, u32)| {
                let sum = |writes: bool| -> u64 {
                    let done =
                        self.done.iter().filter(|(job, on, _, written)| *on == disk && of(job) && *written == writes);
                    done.map(|(_, _, count, _)| count).sum()
                };
                let (reads, writes) = (sum(false), sum(true));
                let line = format!(
                    "{}:{} rbytes={} wbytes={} rios={reads} wios={writes} dbytes=0 dios=0\n",
                    disk.0,
                    disk.1,
                    reads * 65_536,
                    writes * 65_536
                );
                if reads + writes > 0 {
                    line
                } else {
                    String::new()
                }
            };
            line(DISK) + &line(OTHER)
        };
        std::fs::write(folder.join("io.stat"), text(&|name| name == job)).unwrap();
        std::fs::write(self.slice().join("io.stat"), text(&|_| true)).unwrap();
    }

    fn writes(&mut self, job: &str, text: &str) {
        std::fs::write(self.slice().join(job).join("io.stat"), text).unwrap();
    }

    /// Requests of 64 KiB that batch has through the storage daemon on the first disk, of job `job` where it is known.
    fn through(&mut self, job: Option<&str>, requests: u64) {
        let number = |scope| self.board.jobs.iter().find(|(_, j)| j.scope == scope).map(|(_, job)| job.number);
        let number = job.and_then(number);
        let daemons = &mut self.board.daemons;
        daemons.follow(&self.board.jobs);
        daemons.claimed(&number.iter().map(|number| ("10.127.0.2", *number)).collect::<Vec<_>>());
        daemons.record(0, "10.127.0.2", 0);
        daemons.asked(0, Op::Read, Class::Batch, requests, requests * 65_536);
        daemons.wait(0, Op::Read, Class::Batch, Some(0), 1);
        daemons.settle(0, None, 0.1);
    }

    fn read(&mut self) {
        self.now_ns += SECOND_NS / 10;
        assert_eq!(self.signal.read(self.now_ns, &mut self.board), Reading::Value);
    }

    fn guilty(&self, filesystem: usize) -> Option<Vec<String>> {
        self.names(self.board.guilty[filesystem])
    }

    fn workers(&self, filesystem: usize) -> Option<Vec<String>> {
        self.names(self.board.workers[filesystem])
    }

    /// In the order of the alphabet: their places are in that of the folder.
    fn names(&self, set: Option<JobSet>) -> Option<Vec<String>> {
        let set = set?;
        let named = self.board.jobs.iter().filter(|(place, _)| set.contains(*place));
        let mut names: Vec<_> = named.map(|(_, job)| job.scope.clone()).collect();
        names.sort();
        Some(names)
    }
}

fn named(name: &str) -> Option<Vec<String>> {
    Some(vec![name.to_owned()])
}

#[test]
fn what_was_done_before_the_guard_came_is_nobodys_guilt() {
    let mut rig = Rig::new(&["a.scope", "b.scope"]);
    rig.read();
    assert_eq!(rig.guilty(0), None);
}

#[test]
fn the_hog_is_named_on_its_disk_and_nobody_on_the_other() {
    let mut rig = Rig::new(&["hog.scope", "calm.scope"]);
    rig.works("hog.scope", DISK, 50);
    rig.works("calm.scope", DISK, 2);
    rig.read();
    assert_eq!((rig.guilty(0), rig.guilty(1)), (named("hog.scope"), None));
    // Frozen: nothing is done, and it is still known who it was.
    rig.read();
    assert_eq!(rig.guilty(0), named("hog.scope"));
    // Two spells later it is somebody else's turn.
    for _ in 0..2 {
        rig.works("calm.scope", DISK, 50);
        rig.read();
    }
    assert_eq!(rig.guilty(0), named("calm.scope"));
}

#[test]
fn a_job_that_has_just_begun_is_seen_at_once() {
    let mut rig = Rig::new(&["calm.scope"]);
    rig.works("new.scope", DISK, 30);
    rig.read();
    assert_eq!(rig.guilty(0), named("new.scope"));
}

#[test]
fn the_work_of_jobs_that_have_ended_and_of_the_daemons_clients_is_nobodys() {
    let mut rig = Rig::new(&["a.scope", "b.scope"]);
    rig.works("a.scope", DISK, 50);
    rig.works("b.scope", DISK, 20);
    std::fs::remove_dir_all(rig.slice().join("a.scope")).unwrap();
    rig.read();
    assert_eq!(rig.guilty(0), None, "most of it is of one that is gone");
    let mut rig = Rig::new(&["a.scope", "b.scope"]);
    rig.works("a.scope", DISK, 50);
    rig.through(None, 50);
    rig.read();
    assert_eq!(rig.guilty(0), None, "half of it came through the storage daemon");
}

#[test]
fn what_is_written_back_while_all_stand_still_is_nobodys_guilt() {
    let mut rig = Rig::new(&["hog.scope", "writer.scope"]);
    rig.works("hog.scope", DISK, 50);
    rig.works("writer.scope", DISK, 2);
    rig.board.hold = Hold::All;
    assert!(rig.signal.urgent(&rig.board));
    rig.read();
    assert!(!rig.signal.urgent(&rig.board), "once");
    for _ in 0..8 {
        rig.works("writer.scope", DISK, 50);
        rig.read();
    }
    assert_eq!(rig.guilty(0), named("hog.scope"));
    // Nor when they run again.
    rig.board.hold = Hold::Nobody;
    assert!(rig.signal.urgent(&rig.board));
    rig.read();
    assert!(!rig.signal.urgent(&rig.board));
    rig.works("hog.scope", DISK, 30);
    rig.read();
    assert_eq!(rig.guilty(0), named("hog.scope"));
    for _ in 0..2 {
        rig.works("writer.scope", DISK, 30);
        rig.read();
    }
    assert_eq!(rig.guilty(0), named("writer.scope"), "but what it does now is");
}

#[test]
fn who_is_written_back_is_named_where_nobody_was_when_all_had_to_stand_still() {
    let mut rig = Rig::new(&["hog.scope", "reader.scope", "writer.scope"]);
    rig.works("reader.scope", DISK, 2);
    rig.works("reader.scope", OTHER, 50);
    rig.board.hold = Hold::All;
    rig.read();
    assert_eq!((rig.guilty(0), rig.guilty(1)), (None, named("reader.scope")));
    // The kernel comes to what the hog had written, and to what others had asked for before.
    rig.works("hog.scope", DISK, 200);
    rig.does("reader.scope", DISK, 150, false);
    rig.works("writer.scope", OTHER, 200);
    rig.read();
    assert_eq!((rig.guilty(0), rig.guilty(1)), (named("hog.scope"), named("reader.scope")));
    let pace = &rig.board.pace[0].jobs;
    assert!(pace.len() == 1 && pace[0].1.last.requests > 100.0, "that is what a limit is a share of: {pace:?}");
    // Who comes after that has no part in it.
    for _ in 0..4 {
        rig.works("writer.scope", DISK, 200);
        rig.read();
    }
    assert_eq!(rig.guilty(0), named("hog.scope"));
    rig.board.hold = Hold::Nobody;
    rig.read();
    for _ in 0..2 {
        rig.works("reader.scope", DISK, 300);
        rig.read();
    }
    assert_eq!(rig.guilty(0), named("reader.scope"), "but what it does now is another matter");
}

#[test]
fn what_several_have_written_back_names_all_of_them_and_little_of_it_nobody() {
    let mut rig = Rig::new(&["a.scope", "b.scope", "calm.scope"]);
    rig.board.hold = Hold::All;
    rig.read();
    rig.works("calm.scope", DISK, 2);
    rig.read();
    assert_eq!(rig.guilty(0), None);
    rig.does("calm.scope", DISK, 40, false);
    rig.read();
    assert_eq!(rig.guilty(0), None, "it has asked for that before");
    rig.works("a.scope", DISK, 50);
    rig.works("b.scope", DISK, 60);
    rig.read();
    assert_eq!(rig.guilty(0).unwrap(), ["a.scope", "b.scope"]);
}

#[test]
fn who_uses_the_disk_beside_those_who_stand_still_is_known() {
    let mut rig = Rig::new(&["hog.scope", "other.scope"]);
    rig.works("hog.scope", DISK, 50);
    rig.read();
    let hog = rig.board.guilty[0].unwrap();
    assert!(rig.board.others_use[0] && !rig.board.held_work[0], "the hog itself, which runs");
    rig.board.hold = Hold::Jobs(hog);
    rig.works("hog.scope", DISK, 20);
    rig.read();
    assert!(!rig.board.others_use[0] && rig.board.held_work[0], "what it had written is its own");
    rig.works("other.scope", DISK, 20);
    rig.read();
    assert!(rig.board.others_use[0]);
    // Clients of the storage daemon are others too.
    for _ in 0..6 {
        rig.read();
    }
    assert!(!rig.board.others_use[0]);
    rig.through(None, 50);
    rig.works("hog.scope", DISK, 10);
    rig.read();
    assert!(rig.board.others_use[0]);
    // But what the hog asked them for is its own.
    (0..6).for_each(|_| rig.read());
    rig.through(Some("hog.scope"), 50);
    rig.read();
    assert!(!rig.board.others_use[0] && rig.board.held_work[0]);
}

#[test]
fn who_does_too_little_for_it_to_be_his_fault_is_not_there_beside_those_who_stand_still() {
    let mut rig = beside(50, 2, 0.9);
    rig.board.hold = Hold::Jobs(rig.board.guilty[0].unwrap());
    let mut beside = |part, hog, reader| {
        rig.board.batch_share_now.fill(part);
        rig.works("hog.scope", DISK, hog);
        rig.works("reader.scope", DISK, reader);
        rig.read();
        (rig.board.others_use[0], rig.board.held_work[0])
    };
    assert_eq!(beside(0.15, 0, 20), (false, false));
    assert_eq!(beside(0.3, 20, 20), (false, true), "15 % of the disk, and what the hog had asked for before");
    assert_eq!(beside(0.5, 20, 20), (true, true));
    assert_eq!(beside(f32::NAN, 0, 20), (true, false), "it is not known");
}

#[test]
fn who_works_through_the_daemons_is_named_like_everybody() {
    let mut rig = Rig::new(&["hog.scope", "calm.scope"]);
    rig.through(Some("hog.scope"), 50);
    rig.works("calm.scope", DISK, 3);
    rig.read();
    assert_eq!((rig.guilty(0), rig.guilty(1)), (named("hog.scope"), None));
    // Both ways count together, and what is nobody's as well.
    rig.through(Some("calm.scope"), 40);
    rig.works("calm.scope", DISK, 70);
    rig.read();
    rig.works("calm.scope", DISK, 470);
    rig.read();
    assert_eq!(rig.guilty(0), named("calm.scope"));
    rig.through(None, 100);
    rig.read();
    assert_eq!(rig.guilty(0), None);
}

#[test]
fn who_waits_in_the_daemons_when_all_are_stopped_is_named_before_anything_of_it_has_come_back() {
    let mut rig = Rig::new(&["hog.scope", "calm.scope"]);
    rig.read();
    rig.through(Some("hog.scope"), 0);
    rig.works("calm.scope", DISK, 1);
    rig.read();
    assert_eq!(rig.guilty(0), None);
    rig.board.daemons.tick(rig.now_ns);
    rig.board.daemons.wait(0, Op::Read, Class::Batch, Some(0), 24);
    rig.board.hold = Hold::All;
    rig.read();
    assert_eq!(rig.guilty(0), named("hog.scope"));
    let rate = rig.board.pace[0].daemon.most.requests;
    assert!((70.0..100.0).contains(&rate), "24 in three readings are worth a limit: {rate}");
    rig.read();
    assert_eq!(rig.guilty(0), named("hog.scope"));
    // That it waited is no work that it does when it runs again.
    rig.board.hold = Hold::Nobody;
    rig.read();
    rig.works("calm.scope", DISK, 50);
    rig.read();
    rig.works("calm.scope", DISK, 50);
    rig.read();
    assert_eq!(rig.guilty(0), named("calm.scope"));
}

#[test]
fn what_the_daemons_do_while_all_stand_still_is_nobodys_guilt() {
    let mut rig = Rig::new(&["hog.scope", "calm.scope"]);
    rig.through(Some("hog.scope"), 50);
    rig.board.hold = Hold::All;
    rig.read();
    assert_eq!(rig.guilty(0), named("hog.scope"));
    for _ in 0..4 {
        rig.through(Some("calm.scope"), 50);
        rig.read();
    }
    assert_eq!(rig.guilty(0), named("hog.scope"));
    rig.board.hold = Hold::Nobody;
    rig.read();
    rig.works("hog.scope", DISK, 30);
    rig.read();
    assert_eq!(rig.guilty(0), named("hog.scope"), "nor when they run again");
}

#[test]
fn who_was_there_before_the_guard_is_not_blamed_for_it() {
    let mut rig = Rig::new(&["hog.scope", "calm.scope"]);
    rig.through(Some("hog.scope"), 5000);
    rig.signal.known = false;
    rig.signal.rows.clear();
    rig.read();
    rig.read();
    assert_eq!(rig.guilty(0), None);
    rig.works("calm.scope", DISK, 50);
    rig.read();
    assert_eq!(rig.guilty(0), named("calm.scope"));
}

#[test]
fn a_stream_does_not_hide_seeks() {
    let mut rig = Rig::new(&["stream.scope", "seeks.scope"]);
    // Forty times the bytes with as many requests: both are named.
    rig.works("stream.scope", DISK, 40);
    rig.writes("stream.scope", "8:16 rbytes=2000000000 wbytes=0 rios=10040 wios=0\n");
    rig.writes("seeks.scope", "8:16 rbytes=655770624 wbytes=0 rios=10100 wios=0\n");
    rig.writes("", "8:16 rbytes=2655770624 wbytes=0 rios=20140 wios=0\n");
    rig.read();
    assert_eq!(rig.guilty(0).unwrap(), ["seeks.scope", "stream.scope"]);
}

#[test]
fn who_reads_a_little_at_once_is_not_named_with_a_hog_of_small_requests() {
    // Beside a hog that has begun to swap a job that is just told to begin reads its code, as measured in a node.
    let mut rig = Rig::new(&["hog.scope", "begins.scope"]);
    rig.writes("hog.scope", "8:16 rbytes=655360000 wbytes=3747840 rios=10000 wios=915\n");
    rig.writes("begins.scope", "8:16 rbytes=656158720 wbytes=0 rios=10014 wios=0\n");
    rig.writes("", "8:16 rbytes=1311518720 wbytes=3747840 rios=20014 wios=915\n");
    rig.read();
    assert_eq!(rig.guilty(0), named("hog.scope"));
}

/// A hog begins beside one who reads: so much each, of this part of what the disk does.
fn beside(hog: u64, reader: u64, part: f32) -> Rig {
    let mut rig = Rig::new(&["hog.scope", "reader.scope"]);
    rig.board.batch_share_now = vec![part; 2];
    rig.works("reader.scope", DISK, reader);
    rig.works("hog.scope", DISK, hog);
    rig.read();
    rig
}

fn both() -> Option<Vec<String>> {
    Some(vec!["hog.scope".to_owned(), "reader.scope".to_owned()])
}

#[test]
fn who_does_too_little_to_make_a_disk_slow_is_not_named_with_a_hog_who_has_just_begun() {
    let rig = beside(24, 11, 0.28);
    assert_eq!(rig.guilty(0), named("hog.scope"), "without the hog batch would have 9 % of the disk");
    assert_eq!(rig.workers(0), both(), "both work there, and how fast is known");
    assert_eq!(rig.board.pace[0].jobs.len(), 2);
    assert_eq!(beside(24, 13, 0.28).guilty(0), both(), "two hogs may begin at once");
    assert_eq!(beside(24, 11, 0.9).guilty(0), both(), "it would have 28 %");
    assert_eq!(beside(24, 11, f32::NAN).guilty(0), both(), "it is not known what it would have");
    assert_eq!(beside(11, 24, 0.28).guilty(0), named("reader.scope"), "whoever it is");
}

#[test]
fn beside_a_known_hog_one_is_named_for_what_he_does_without_it() {
    let second = |hog: u64, reader: u64, part: f32, on: u16| {
        let mut rig = beside(50, 2, 0.9);
        rig.board.throttles.begin(on, rig.board.guilty[0].unwrap(), 0.05, rig.now_ns);
        rig.board.batch_share_now.fill(part);
        // What the hog had asked for, and the other one who ran meanwhile; twice, since two spells count.
        for _ in 0..2 {
            rig.works("hog.scope", DISK, hog);
            rig.works("reader.scope", DISK, reader);
            rig.read();
        }
        assert!(
            rig.workers(0).unwrap().contains(&"reader.scope".to_owned()),
            "where clients fill the disk he makes way"
        );
        rig.guilty(0)
    };
    assert_eq!(second(10, 10, 0.3, 0), named("hog.scope"), "15 % of the disk are not enough");
    assert_eq!(second(10, 10, 0.5, 0), both(), "25 % are");
    assert_eq!(second(10, 10, 0.3, 1), both(), "who is limited on another disk is not known as a hog of this one");
    assert_eq!(second(2, 10, 0.22, 0), named("reader.scope"), "18 % are not enough, but the hog did next to nothing");
    assert_eq!(second(0, 10, 0.22, 0), named("reader.scope"), "what batch has is his alone");
    assert_eq!(second(10, 10, f32::NAN, 0), both(), "it is not known");
}

#[test]
fn too_little_says_nothing_and_is_not_forgotten_either() {
    let mut rig = Rig::new(&["a.scope"]);
    for _ in 0..3 {
        rig.works("a.scope", DISK, 1);
        rig.read();
        assert_eq!(rig.guilty(0), None);
    }
    rig.works("a.scope", DISK, 2);
    rig.read();
    assert_eq!(rig.guilty(0), named("a.scope"));
    // Half a second without work ends a spell, and two of them the blame.
    for _ in 0..11 {
        rig.read();
    }
    assert_eq!(rig.guilty(0), None);
}

#[test]
fn without_disk_statistics_nobody_is_blamed_but_jobs_are_counted() {
    let mut rig = Rig::new(&["a.scope"]);
    rig.signal.enabled = false;
    std::fs::create_dir(rig.slice().join("b.scope")).unwrap();
    assert_eq!(rig.signal.read(rig.now_ns + 1, &mut rig.board), Reading::Value);
    assert_eq!(rig.board.jobs.count(), 2);
    rig.board.hold = Hold::All;
    assert!(!rig.signal.urgent(&rig.board));
}

#[test]
fn where_the_kernel_does_not_count_that_is_said() {
    let mut rig = Rig::new(&[]);
    // Somebody has taken the controller from the slice.
    std::fs::remove_file(rig.slice().join("io.stat")).unwrap();
    let config = format!("[paths]\ncgroup = \"{}\"\njobs_slice = \"jobs.slice\"\n", rig.folder.path().display());
    rig.signal = Jobs::new(&Config::parse("test", &config).unwrap());
    assert_eq!(rig.signal.read(rig.now_ns, &mut rig.board), Reading::Absent);
    assert!(rig.signal.fault().contains("jobs.slice/io.stat: not there"), "{}", rig.signal.fault());
}

#[test]
fn a_damaged_file_is_told_and_blames_nobody() {
    let mut rig = Rig::new(&["a.scope"]);
    rig.works("a.scope", DISK, 50);
    rig.read();
    assert_eq!(rig.guilty(0), named("a.scope"));
    rig.works("a.scope", DISK, 50);
    let good = std::fs::read_to_string(rig.slice().join("io.stat")).unwrap();
    std::fs::write(rig.slice().join("io.stat"), "8:16 rbytes=x\n").unwrap();
    rig.now_ns += SECOND_NS / 10;
    assert_eq!(rig.signal.read(rig.now_ns, &mut rig.board), Reading::Broken);
    assert!(rig.signal.fault().contains("io.stat"), "{}", rig.signal.fault());
    assert_eq!(rig.guilty(0), None);
    std::fs::write(rig.slice().join("io.stat"), good).unwrap();
    rig.read();
    assert_eq!(rig.guilty(0), named("a.scope"), "nothing is lost");
}

#[test]
fn how_fast_batch_goes_through_the_daemons_is_known_at_once() {
    let mut rig = Rig::new(&[]);
    rig.board.operations[0].batch = (100, 100 * 65_536);
    // A tenth of it reached the disk: a limit is on what they ask for.
    rig.through(None, 10);
    rig.now_ns += SECOND_NS / 10;
    rig.signal.read(rig.now_ns, &mut rig.board);
    let rate = rig.board.pace[0].daemon.most;
    assert!((399.0..=401.0).contains(&rate.requests), "what comes at once is of a quarter of a second: {rate:?}");
    assert_eq!(rig.board.guilty[0], None, "nobody in particular");
}

#[test]
fn how_fast_batch_went_through_the_daemons_is_known_for_as_long_as_all_stand_still() {
    let mut rig = Rig::new(&["hog.scope"]);
    rig.board.operations[0].batch = (100, 100 * 65_536);
    rig.through(None, 100);
    rig.read();
    let before = rig.board.pace[0].daemon;
    assert!(before.most.requests >= 100.0 && rig.guilty(0).is_none(), "of another node: {before:?}");
    rig.board.hold = Hold::All;
    (0..12).for_each(|_| rig.read());
    assert_eq!(rig.board.pace[0].daemon, before);
    rig.works("hog.scope", DISK, 200);
    rig.read();
    assert_eq!((rig.guilty(0), rig.board.pace[0].daemon), (named("hog.scope"), before));
}

// SPDX-License-Identifier: Apache-2.0
//! Disks and jobs of which the test says what the segment would tell.

use intf::segment::layout::bucket_of;
use intf::segment::{Kind, SeriesId};

use super::*;

impl Daemons {
    /// Requests of a class come back from a filesystem.
    pub fn asked(&mut self, filesystem: u16, op: Op, class: Class, operations: u64, bytes: u64) {
        let series = SeriesId { filesystem, kind: Kind::of(op, class).unwrap() };
        let (sum_ns, errors, max_ns, under, over) = (0, 0, 0, 0, 0);
        let buckets = &[];
        self.series(&SeriesDelta { series, operations, bytes, sum_ns, errors, max_ns, under, over, buckets });
    }

    /// The same, each after so long.
    pub fn served(&mut self, filesystem: u16, class: Class, operations: u64, bytes: u64, latency_ns: u64) {
        let series = SeriesId { filesystem, kind: Kind::of(Op::Read, class).unwrap() };
        let buckets = &[(bucket_of(latency_ns).unwrap(), operations as u32)];
        let (sum_ns, errors, max_ns, under, over) = (0, 0, 0, 0, 0);
        self.series(&SeriesDelta { series, operations, bytes, sum_ns, errors, max_ns, under, over, buckets });
    }

    /// So many requests of a client wait at one tick.
    pub fn wait(&mut self, filesystem: u16, op: Op, class: Class, client: Option<u32>, requests: u32) {
        let series = SeriesId { filesystem, kind: Kind::of(op, class).unwrap() };
        (0..requests).for_each(|_| self.in_flight(&InFlight { series, age_ns: 1, tid: 1, bytes: 1, client }));
    }

    /// The record of a client.
    pub fn record(&mut self, index: u32, address: &str, bytes_written: u64) {
        let address = address.parse::<std::net::Ipv4Addr>().unwrap().to_ipv6_mapped();
        self.client(&Client { index, address, bytes_read: 0, bytes_written, operations: 0, last_ns: 0 });
    }

    /// Jobs come from these addresses.
    pub fn claimed(&mut self, claims: &[(&str, u64)]) {
        let claim = |&(address, number): &(&str, u64)| {
            let address = address.parse::<std::net::Ipv4Addr>().unwrap().to_ipv6_mapped();
            Claim { address, number }
        };
        self.claims = claims.iter().map(claim).collect();
        self.claims.sort_unstable();
    }
}

const MIB: u64 = 1 << 20;

/// How long the disk takes for a read.
const READ_NS: f64 = 8e6;

/// Two filesystems on disks of their own, and jobs a.scope (10.127.0.2, client 0) and b.scope (10.127.0.3, client 1).
struct Rig {
    folder: tempfile::TempDir,
    jobs: JobTable,
    daemons: Daemons,
    /// Place and number.
    a: (usize, u64),
    b: (usize, u64),
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut jobs = JobTable::new(folder.path().join("jobs"));
        for job in ["a.scope", "b.scope"] {
            std::fs::create_dir_all(folder.path().join("jobs").join(job)).unwrap();
        }
        jobs.look(false, &policy::JobSet::default());
        let (a, b) = (Rig::of(&jobs, "a.scope"), Rig::of(&jobs, "b.scope"));
        let mut daemons = Daemons::default();
        daemons.restart(2);
        daemons.on_disks(&[(8, 0), (8, 16)]);
        daemons.follow(&jobs);
        daemons.claimed(&[("10.127.0.2", a.1), ("10.127.0.3", b.1)]);
        let mut rig = Rig { folder, jobs, daemons, a, b };
        rig.records(0, 0);
        rig
    }

    fn of(jobs: &JobTable, scope: &str) -> (usize, u64) {
        jobs.iter().find(|(_, job)| job.scope == scope).map(|(place, job)| (place, job.number)).unwrap()
    }

    /// a.scope ends, and another one comes to its place.
    fn replace_a(&mut self) -> (usize, u64) {
        // Its folder stays for the moment, so that its number is not used again at once.
        std::fs::rename(self.folder.path().join("jobs/a.scope"), self.folder.path().join("gone")).unwrap();
        self.jobs.look(false, &policy::JobSet::default());
        std::fs::create_dir(self.folder.path().join("jobs/c.scope")).unwrap();
        self.jobs.look(false, &policy::JobSet::default());
        self.daemons.follow(&self.jobs);
        Rig::of(&self.jobs, "c.scope")
    }

    /// What both have written in all.
    fn records(&mut self, a: u64, b: u64) {
        self.daemons.record(0, "10.127.0.2", a);
        self.daemons.record(1, "10.127.0.3", b);
        self.daemons.clients_seen();
    }

    fn settle(&mut self, reads: u64, writes: u64) {
        let (reads, writes) = (Work::new(reads, reads * MIB), Work::new(writes, writes * MIB));
        self.daemons.settle(0, Some(Done { reads, writes, read_ns: READ_NS }), 1.0);
    }

    /// Requests of batch, of a and of b on the disk of this filesystem.
    fn done(&self, filesystem: usize) -> [u64; 3] {
        let of = |job: (usize, u64)| self.daemons.of(job.0, job.1, filesystem);
        [self.daemons.batch(filesystem), of(self.a), of(self.b)].map(|work| work.requests.round() as u64)
    }
}

#[test]
fn what_a_disk_reads_is_theirs_who_wait_for_it() {
    let mut rig = Rig::new();
    for _ in 0..10 {
        rig.daemons.wait(0, Op::Read, Class::Batch, Some(0), 12);
        rig.daemons.wait(0, Op::Open, Class::Batch, Some(1), 1);
        rig.daemons.wait(0, Op::Read, Class::Batch, Some(7), 2);
        rig.daemons.wait(0, Op::Read, Class::Storage, None, 4);
        rig.daemons.wait(0, Op::Read, Class::Internal, None, 1);
        rig.daemons.wait(1, Op::Read, Class::Batch, Some(1), 50);
        // Who writes waits for what others wrote.
        rig.daemons.wait(0, Op::Write, Class::Batch, Some(1), 50);
        rig.daemons.wait(0, Op::Sync, Class::Batch, Some(1), 50);
    }
    rig.settle(200, 0);
    assert_eq!(rig.done(0), [150, 120, 10], "and two tenths are of a client of whom nothing is known");
    assert!(rig.daemons.strangers() && !rig.daemons.strangers());
    assert_eq!(rig.done(1), [0, 0, 0], "another disk");
    // Nobody waits any more.
    rig.settle(200, 0);
    assert_eq!(rig.done(0), [150, 120, 10]);
}

#[test]
fn ticks_of_any_length_count_for_what_they_are() {
    let mut rig = Rig::new();
    const MS: u64 = 1_000_000;
    rig.daemons.tick(5000 * MS);
    for (now_ns, client) in [(5020 * MS, 0), (5030 * MS, 1), (5040 * MS, 1), (5060 * MS, 1), (9060 * MS, 0)] {
        rig.daemons.tick(now_ns);
        rig.daemons.wait(0, Op::Read, Class::Batch, Some(client), 1);
    }
    // 20 ms and no more than 100 of a guard that was stopped for 4 s, against 40.
    rig.settle(160, 0);
    assert_eq!(rig.done(0), [160, 120, 40]);
}

#[test]
fn what_the_page_cache_answers_hides_nobody() {
    let mut rig = Rig::new();
    rig.settle(50, 0);
    // 100000 reads for b, of which the disk knows nothing; 40 for a, and 10 for storage.
    rig.daemons.served(0, Class::Batch, 100_000, 1 << 40, 30_000);
    rig.daemons.served(0, Class::Storage, 70_000, 1 << 40, 30_000);
    rig.daemons.served(0, Class::Batch, 40, 40 * MIB, 5_000_000);
    rig.daemons.served(0, Class::Storage, 10, 10 * MIB, 5_000_000);
    rig.daemons.wait(0, Op::Read, Class::Batch, Some(0), 40);
    rig.daemons.wait(0, Op::Read, Class::Storage, None, 10);
    rig.settle(50, 0);
    assert_eq!(rig.done(0), [40, 40, 0]);
    assert_eq!(rig.daemons.batch(0).bytes, (40 * MIB) as f64);
    // Where all of it came from there the disk worked for somebody else.
    rig.daemons.served(0, Class::Batch, 100_000, 1 << 40, 30_000);
    rig.settle(50, 0);
    assert_eq!(rig.done(0), [40, 40, 0]);
}

#[test]
fn who_has_a_lower_priority_waits_for_longer_and_does_no_more_for_it() {
    let mut rig = Rig::new();
    rig.settle(50, 0);
    rig.daemons.served(0, Class::Storage, 95, 95 * MIB, 8_000_000);
    rig.daemons.served(0, Class::Batch, 5, 5 * MIB, 900_000_000);
    rig.daemons.wait(0, Op::Read, Class::Batch, Some(0), 300);
    rig.daemons.wait(0, Op::Read, Class::Batch, Some(1), 75);
    rig.daemons.wait(0, Op::Read, Class::Storage, None, 15);
    rig.settle(100, 0);
    assert_eq!(rig.done(0), [5, 4, 1]);
}

#[test]
fn while_none_of_batch_has_come_back_it_has_what_the_disk_read_beyond_what_others_got() {
    let mut rig = Rig::new();
    rig.settle(50, 0);
    rig.daemons.served(0, Class::Storage, 8, 8 * MIB, 30_000_000);
    rig.daemons.wait(0, Op::Read, Class::Batch, Some(0), 24);
    rig.daemons.wait(0, Op::Read, Class::Storage, None, 6);
    rig.settle(20, 0);
    assert_eq!(rig.done(0), [12, 12, 0]);
    // No more than its part of those that wait: a disk reads ahead, too.
    rig.daemons.served(0, Class::Storage, 2, 2 * MIB, 30_000_000);
    rig.daemons.wait(0, Op::Read, Class::Batch, Some(1), 1);
    rig.daemons.wait(0, Op::Read, Class::Storage, None, 9);
    rig.settle(20, 0);
    assert_eq!(rig.done(0), [14, 12, 2]);
}

#[test]
fn what_waits_there_is_known_for_a_tick_longer_than_it_does() {
    let mut rig = Rig::new();
    let queued = |rig: &Rig| {
        let of = |job: (usize, u64)| rig.daemons.queued_of(job.0, job.1, 0);
        [rig.daemons.queued(0), of(rig.a), of(rig.b), rig.daemons.queued(1)].map(|work| work.requests as u64)
    };
    rig.daemons.tick(1_000_000_000);
    rig.daemons.wait(0, Op::Read, Class::Batch, Some(0), 24);
    rig.daemons.wait(0, Op::Read, Class::Batch, Some(1), 1);
    rig.daemons.wait(0, Op::Read, Class::Storage, None, 9);
    assert_eq!(queued(&rig), [25, 24, 1, 0]);
    rig.daemons.tick(1_040_000_000);
    rig.daemons.wait(0, Op::Read, Class::Batch, Some(0), 3);
    assert_eq!(queued(&rig), [25, 24, 1, 0]);
    rig.daemons.tick(1_080_000_000);
    assert_eq!(queued(&rig), [3, 3, 0, 0]);
    rig.daemons.tick(1_120_000_000);
    assert_eq!(queued(&rig), [0; 4]);
}

#[test]
fn what_takes_some_time_depends_on_the_disk() {
    // Half a millisecond is nothing for a disk with a head and a lot for a flash disk, on which 40 us are some time; 2 ms always are.
    for (read_ns, found) in [(8e6, [0, 0, 10]), (200e3, [0, 10, 10]), (100e3, [10, 10, 10]), (1e9, [0, 0, 10])] {
        let of = |latency_ns| {
            let mut rig = Rig::new();
            for _ in 0..2 {
                // Before a disk has been seen to read all counts.
                let (reads, writes) = (Work::new(20, 0), Work::default());
                rig.daemons.settle(0, Some(Done { reads, writes, read_ns }), 1.0);
                rig.daemons.served(0, Class::Batch, 10, 0, latency_ns);
                rig.daemons.served(0, Class::Storage, 10, 0, 5_000_000);
            }
            let before = rig.done(0)[0];
            rig.daemons.settle(0, Some(Done { reads: Work::new(20, 0), writes: Work::default(), read_ns: 0.0 }), 1.0);
            rig.done(0)[0] - before
        };
        assert_eq!([40_000, 500_000, 2_000_000].map(of), found, "{read_ns}");
    }
}

#[test]
fn a_disk_so_fast_that_nobody_is_seen_to_wait() {
    let mut rig = Rig::new();
    rig.daemons.served(0, Class::Batch, 30, 0, 60_000);
    rig.daemons.served(0, Class::Storage, 10, 0, 60_000);
    rig.settle(20, 0);
    assert_eq!(rig.done(0), [15, 0, 0], "of nobody in particular");
}

#[test]
fn what_is_written_is_drawn_from_the_account_of_who_wrote() {
    let mut rig = Rig::new();
    rig.daemons.asked(0, Op::Write, Class::Batch, 100, 80 * MIB);
    rig.daemons.asked(0, Op::Write, Class::Storage, 1000, 20 * MIB);
    rig.records(60 * MIB, 20 * MIB);
    // Nothing is on the disk yet: nobody did anything there.
    rig.settle(0, 0);
    assert_eq!(rig.done(0), [0, 0, 0]);
    // Half of it comes when they do nothing any more.
    rig.settle(0, 50);
    assert_eq!(rig.done(0), [40, 30, 10]);
    // The rest, and what is of somebody else.
    rig.settle(0, 70);
    assert_eq!(rig.done(0), [96, 72, 24]);
    rig.settle(0, 70);
    assert_eq!(rig.done(0), [96, 72, 24]);
}

#[test]
fn what_was_written_and_deleted_is_forgotten() {
    let mut rig = Rig::new();
    rig.daemons.asked(0, Op::Write, Class::Batch, 100, 1000 * MIB);
    rig.records(1000 * MIB, 0);
    (0..300).for_each(|_| rig.settle(0, 0));
    rig.daemons.asked(0, Op::Write, Class::Storage, 100, 10 * MIB);
    rig.records(1000 * MIB, 0);
    rig.settle(0, 10);
    assert_eq!(rig.done(0), [0, 0, 0]);
}

#[test]
fn who_may_have_written_elsewhere_is_not_blamed() {
    let mut rig = Rig::new();
    rig.daemons.asked(0, Op::Write, Class::Batch, 1, 100 * MIB);
    rig.daemons.asked(1, Op::Write, Class::Batch, 1, 90 * MIB);
    // All but 10 MiB of what a wrote may have gone to the other one; b's all.
    rig.records(100 * MIB, 90 * MIB);
    rig.settle(0, 100);
    assert_eq!(rig.done(0), [100, 10, 0]);
    // A record that says more than all of them wrote is none.
    rig.daemons.asked(0, Op::Write, Class::Batch, 1, 10 * MIB);
    rig.records(u64::MAX, 90 * MIB);
    rig.settle(0, 10);
    assert_eq!(rig.done(0)[1], 20);
}

#[test]
fn an_address_that_changes_hands_takes_nothing_along() {
    let mut rig = Rig::new();
    rig.daemons.wait(0, Op::Read, Class::Batch, Some(0), 10);
    rig.daemons.asked(0, Op::Write, Class::Batch, 1, 100 * MIB);
    let (a, b) = (rig.a.1, rig.b.1);
    // Two claim it: it is in the list no more.
    rig.daemons.claimed(&[("10.127.0.3", b)]);
    rig.records(100 * MIB, 0);
    rig.daemons.wait(0, Op::Read, Class::Batch, Some(0), 10);
    rig.settle(40, 100);
    assert_eq!(rig.done(0), [140, 20, 0], "what a waited for before; the rest is nobody's");
    // It is b's now, and so is what comes from now on.
    rig.daemons.claimed(&[("10.127.0.2", b)]);
    rig.daemons.asked(0, Op::Write, Class::Batch, 1, 200 * MIB);
    rig.records(200 * MIB, 0);
    rig.daemons.asked(0, Op::Write, Class::Batch, 1, 100 * MIB);
    rig.records(300 * MIB, 0);
    rig.daemons.wait(0, Op::Read, Class::Batch, Some(0), 10);
    rig.settle(10, 300);
    assert_eq!(rig.done(0), [450, 20, 110], "a third of what was written");
    assert_eq!(rig.daemons.located(), 1);
    // A job that has ended has none, whatever is claimed for its number.
    rig.daemons.claimed(&[("10.127.0.2", 12345)]);
    assert_eq!(rig.daemons.located(), 0);
    rig.records(300 * MIB, 0);
    rig.daemons.wait(0, Op::Read, Class::Batch, Some(0), 10);
    rig.settle(10, 0);
    assert_eq!(rig.done(0), [460, 20, 110]);
    assert_eq!(rig.daemons.of(rig.a.0, a + 1, 0), Work::default());
}

#[test]
fn who_comes_to_the_place_of_another_is_not_taken_for_him() {
    let mut rig = Rig::new();
    rig.daemons.wait(0, Op::Read, Class::Batch, Some(0), 10);
    rig.settle(10, 0);
    let c = rig.replace_a();
    assert_eq!((c.0, rig.done(0)), (rig.a.0, [10, 0, 0]), "it has gone with all that it did");
    rig.daemons.claimed(&[("10.127.0.4", c.1)]);
    // The records of the others have not been looked at again yet.
    rig.daemons.record(2, "10.127.0.4", 0);
    rig.daemons.wait(0, Op::Read, Class::Batch, Some(0), 10);
    rig.settle(10, 0);
    assert_eq!(rig.daemons.of(c.0, c.1, 0), Work::default());
    rig.daemons.wait(0, Op::Read, Class::Batch, Some(2), 10);
    rig.settle(10, 0);
    assert_eq!(rig.daemons.of(c.0, c.1, 0).requests, 10.0);
}

#[test]
fn filesystems_on_one_disk_have_one_account_and_unknown_ones_each_their_own() {
    let mut rig = Rig::new();
    rig.daemons.on_disks(&[(8, 0), (8, 0)]);
    rig.daemons.wait(0, Op::Read, Class::Storage, None, 10);
    rig.daemons.wait(1, Op::Read, Class::Batch, Some(0), 30);
    rig.settle(40, 0);
    let both = Done { reads: Work::new(40, 0), ..Done::default() };
    rig.daemons.settle(1, Some(both), 1.0);
    assert_eq!((rig.done(0), rig.done(1)), ([30, 30, 0], [30, 30, 0]));
    let mut rig = Rig::new();
    rig.daemons.on_disks(&[(0, 0), (0, 0)]);
    rig.daemons.asked(1, Op::Read, Class::Batch, 30, 0);
    (0..2).for_each(|filesystem| rig.daemons.settle(filesystem, None, 1.0));
    assert_eq!((rig.done(0), rig.done(1)), ([0, 0, 0], [30, 0, 0]), "what was asked for, where the disk is not known");
}

#[test]
fn another_writer_begins_anew() {
    let mut rig = Rig::new();
    rig.daemons.wait(0, Op::Read, Class::Batch, Some(0), 10);
    rig.daemons.asked(0, Op::Write, Class::Batch, 1, 100 * MIB);
    rig.daemons.restart(2);
    rig.records(5 * MIB, 0);
    rig.settle(10, 10);
    assert_eq!(rig.done(0), [0, 0, 0]);
    rig.daemons.wait(0, Op::Read, Class::Batch, Some(0), 10);
    rig.settle(10, 0);
    assert_eq!(rig.done(0), [10, 10, 0]);
}

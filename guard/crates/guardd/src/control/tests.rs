// SPDX-License-Identifier: Apache-2.0
//! The loop with a recording knob and with time that the test moves.

use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::mpsc::{sync_channel, Receiver};

use intf::segment::layout::{Class, Kind, Op};
use intf::segment::synthetic::SegmentWriter;
use intf::segment::SeriesId;
use policy::{Cause, Deed};
use rustix::io::Errno;

use super::*;
use crate::actuators::freeze::testing::RecordingFreezer;
use crate::actuators::shaping::Fault;
use crate::actuators::FreezeError;
use crate::shared::{lock, Owner};

mod gauges;
mod leaving;
mod resting;
mod silence;

const TICK_NS: u64 = 20_000_000;
const SECOND_NS: u64 = 1_000_000_000;

#[derive(Default)]
struct Moved(AtomicU64, AtomicI64);
impl Clock for Moved {
    fn monotonic_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    fn realtime_ns(&self) -> u64 {
        (1_795_173_354_000_000_000 + self.monotonic_ns()).saturating_add_signed(self.1.load(Ordering::Relaxed))
    }
}

/// A node with one filesystem and one job, a storage daemon that the test speaks for, and the loop.
struct Rig {
    folders: tempfile::TempDir,
    writer: SegmentWriter,
    knob: RecordingFreezer,
    control: ControlLoop<RecordingFreezer>,
    inbox: Receiver<Message>,
    wishes: Receiver<Wish>,
    clock: Arc<Moved>,
    hangs: bool,
    /// The storage daemon, and the watch thread, give signs of life.
    daemon: bool,
    watch: bool,
    /// How short of memory storage is.
    memory: f64,
    /// Requests of job a.scope so far, and how many more come with each tick: they make reads slow.
    job: u64,
    attack: u64,
    /// And as many, which make nothing slow.
    harmless: u64,
    /// Batch reads a little through the storage daemon as well.
    through_daemon: bool,
}

impl Rig {
    fn new(knob: RecordingFreezer) -> Self {
        Rig::with(knob, "")
    }

    fn with(knob: RecordingFreezer, more: &str) -> Self {
        let folders = tempfile::tempdir().unwrap();
        let path = |name: &str| folders.path().join(name);
        ["jobs.slice", "proc"].iter().for_each(|name| std::fs::create_dir(path(name)).unwrap());
        std::fs::write(path("proc/diskstats"), "").unwrap();
        for (file, text) in [
            ("cgroup.events", "populated 1\nfrozen 0\n"),
            ("cpuset.cpus.effective", "0-3\n"),
            ("memory.max", "2147483648\n"),
        ] {
            std::fs::write(path("jobs.slice").join(file), text).unwrap();
        }
        let root = folders.path().display();
        let text = format!(
            "[paths]\ncgroup = \"{root}\"\njobs_slice = \"jobs.slice\"\nproc = \"{root}/proc\"\nbatch_slice = \"jobs.slice\"\nrun = \"{root}\"\n\
             [signals.latency]\nsegment = \"{root}/beer.lat\"\nowner = \"{}\"\n[signals.psi]\nenabled = false\n{more}",
            rustix::process::getuid().as_raw()
        );
        let config = Config::parse("test", &text).unwrap();
        let writer = SegmentWriter::create(&path("beer.lat"), 1, &[("/data/01", 8, 0)], 64, 64).unwrap();
        let clock = Arc::new(Moved(AtomicU64::new(1000 * SECOND_NS), AtomicI64::new(0)));
        let owner = Owner::new(&config.latency.owner);
        owner.resolve(&PathBuf::from("/etc/passwd"));
        let (outbox, inbox) = sync_channel(4096);
        let (worker, wishes) = sync_channel(2);
        let control = ControlLoop::new(Parts {
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            shared: Arc::default(),
            outbox,
            signals: crate::signals::all(&config, owner),
            freezer: knob.clone(),
            shaping: ShapingActuator::new(folders.path()),
            worker,
            state_file: StateFile::create(folders.path()).unwrap(),
            config,
        });
        Rig {
            folders,
            writer,
            knob,
            control,
            inbox,
            wishes,
            clock,
            hangs: false,
            daemon: true,
            watch: true,
            memory: 0.0,
            job: 0,
            attack: 0,
            harmless: 0,
            through_daemon: true,
        }
    }

    fn series(class: Class) -> SeriesId {
        SeriesId { filesystem: 0, kind: Kind::of(Op::Read, class).unwrap() }
    }

    /// A storage and a batch request go in and do not come out, or come out.
    fn hang(&mut self, hangs: bool) {
        self.hangs = hangs;
        for (slot, class) in [(0, Class::Storage), (1, Class::Batch)] {
            let now_ns = self.clock.monotonic_ns();
            match hangs {
                true => self.writer.begin(slot, Rig::series(class), now_ns, 4096, None).unwrap(),
                false => self.writer.end(slot).unwrap(),
            }
        }
    }

    /// The kernel has this one.
    fn disks(&self, disk: &str) {
        let text = format!("{disk} 9 0 8 1 0 0 0 0 0 1 1 0 0 0 0 0 0\n");
        std::fs::write(self.folders.path().join("proc/diskstats"), text).unwrap();
    }

    fn pass(&mut self, time_ns: u64) {
        for _ in 0..time_ns / TICK_NS {
            let now_ns = self.clock.0.fetch_add(TICK_NS, Ordering::Relaxed) + TICK_NS;
            if self.daemon {
                self.writer.heartbeat(now_ns).unwrap();
            }
            // All but those that the loop itself reads.
            let own = |name: &str| name == "storage.overloaded" || name.starts_with("storage.disk.");
            let sources = policy::gauge::SOURCES.iter().filter(|source| !own(source.name));
            for source in sources.filter(|_| self.watch) {
                let value = if source.name == "storage.pressure.memory.full" { self.memory } else { 0.0 };
                self.control.shared.gauges.put(source.name, Some(value), now_ns);
            }
            if !self.hangs && self.daemon {
                let latency_ns = if self.attack > 0 { 500_000_000 } else { 8_000_000 };
                self.writer.complete(Rig::series(Class::Storage), latency_ns, 4096).unwrap();
                if self.through_daemon {
                    self.writer.complete(Rig::series(Class::Batch), 8_000_000, 4096).unwrap();
                }
            }
            if self.attack + self.harmless > 0 {
                self.work();
            }
            self.control.tick(now_ns);
        }
    }

    fn work(&mut self) {
        if !self.control.freezer.applied().any() {
            self.job += self.attack + self.harmless;
        }
        let line = format!("8:0 rbytes={} wbytes=0 rios={} wios=0 dbytes=0 dios=0\n", self.job * 65536, self.job);
        for cgroup in ["jobs.slice", "jobs.slice/a.scope"] {
            std::fs::write(self.folders.path().join(cgroup).join("io.stat"), &line).unwrap();
        }
    }

    fn state(&self) -> String {
        std::fs::read_to_string(self.folders.path().join("state")).unwrap()
    }

    fn writes(&self) -> Vec<Hold> {
        lock(&self.knob.0).writes.clone()
    }

    fn messages(&self) -> Vec<Message> {
        self.inbox.try_iter().collect()
    }

    fn effects(&self) -> Vec<Effect> {
        let effect = |message| if let Message::Effect(effect) = message { Some(effect) } else { None };
        self.messages().into_iter().filter_map(effect).collect()
    }
}

fn frozen_rig() -> Rig {
    let mut rig = Rig::new(RecordingFreezer::default());
    rig.pass(10 * SECOND_NS);
    assert!(rig.state().starts_with("state=open admit=1"), "{}", rig.state());
    rig.hang(true);
    rig.pass(2 * SECOND_NS);
    assert!(rig.state().starts_with("state=frozen admit=0"), "{}", rig.state());
    rig
}

#[test]
fn a_stuck_request_freezes_once_and_the_decision_is_told_before_its_effect() {
    let rig = frozen_rig();
    assert_eq!(rig.writes(), [Hold::All]);
    let messages = rig.messages();
    let decision = messages
        .iter()
        .position(|m| matches!(m, Message::Decision { event, written: true } if event.deed == Deed::Freeze));
    let effect = messages.iter().position(|m| matches!(m, Message::Effect(effect) if effect.seen == Ok(true)));
    assert!(decision.unwrap() < effect.unwrap(), "{messages:?}");
    assert!(messages.iter().any(|m| matches!(m, Message::Decision { event, .. } if event.cause == Cause::Stuck)));
}

#[test]
fn a_freeze_holds_batch_in_the_storage_daemons_too() {
    let rig = frozen_rig();
    assert!(rig.control.shaping.held());
    let mut rig = Rig::new(RecordingFreezer::default());
    rig.pass(SECOND_NS);
    assert!(!rig.control.shaping.held());
}

#[test]
fn who_made_a_disk_slow_is_limited_before_he_runs_again_and_free_in_the_end() {
    let mut rig = Rig::new(RecordingFreezer::default());
    std::fs::create_dir(rig.folders.path().join("jobs.slice/a.scope")).unwrap();
    rig.work();
    rig.pass(10 * SECOND_NS);
    let begun: Vec<_> = rig.wishes.try_iter().map(|wish| (wish.disks.to_vec(), wish.limits.len())).collect();
    assert_eq!(begun, [(vec![(8, 0)], 0)], "which disks there are, and nothing else");
    rig.attack = 100;
    rig.pass(2 * SECOND_NS);
    assert!(rig.state().starts_with("state=frozen"), "{}", rig.state());
    let wish = rig.wishes.try_recv().unwrap();
    let limit = &wish.limits[0];
    assert_eq!((wish.limits.len(), &*limit.scope, limit.device, wish.said), (1, "a.scope", (8, 0), true));
    // 100 requests in each tick are 5000 a second.
    assert!((57..=68).contains(&limit.requests), "{limit:?}");
    (rig.attack, rig.harmless) = (0, 100);
    rig.pass(60 * SECOND_NS);
    assert!(rig.state().starts_with("state=throttled"), "{}", rig.state());
    let grown: Vec<u64> = rig.wishes.try_iter().map(|wish| wish.limits[0].requests).collect();
    assert!(grown.is_sorted() && grown[0] > limit.requests, "{grown:?}");
    // Who rests has shown nothing, whatever batch in the daemon does.
    rig.harmless = 0;
    rig.pass(120 * SECOND_NS);
    assert!(rig.state().starts_with("state=throttled"), "{}", rig.state());
    // Ten minutes in which nobody has need of more, and he is free. A full channel loses nothing: the last wish is sent when there is room.
    rig.through_daemon = false;
    rig.pass(610 * SECOND_NS);
    assert!(!rig.state().starts_with("state=throttled"), "{}", rig.state());
    let last = |rig: &mut Rig| {
        rig.pass(TICK_NS);
        rig.wishes.try_iter().last()
    };
    let (first, second) = (last(&mut rig), last(&mut rig));
    assert!(second.or(first).unwrap().limits.is_empty());
}

/// Jobs a.scope and b.scope; from then on a hog asks the storage daemon for so much that reads are slow, and b reads a little directly.
/// `claims` = who comes from the hog's address. Who stood still when.
fn attacked_through_the_daemon(claims: impl Fn(&[u64]) -> Vec<u64>) -> (Rig, Vec<Hold>, [usize; 2]) {
    let mut rig = Rig::new(RecordingFreezer::default());
    for job in ["a.scope", "b.scope"] {
        std::fs::create_dir(rig.folders.path().join("jobs.slice").join(job)).unwrap();
    }
    let hog: std::net::Ipv6Addr = std::net::Ipv4Addr::new(10, 127, 0, 2).to_ipv6_mapped();
    rig.writer.client(0, hog, 0, 0).unwrap();
    rig.pass(10 * SECOND_NS);
    let of = |rig: &Rig, scope: &str| {
        let found = rig.control.board.jobs.iter().find(|(_, job)| job.scope == scope);
        found.map(|(place, job)| (place, job.number)).unwrap()
    };
    let jobs = ["a.scope", "b.scope"].map(|scope| of(&rig, scope));
    let numbers = claims(&jobs.map(|(_, number)| number));
    let list: Vec<_> = numbers.iter().map(|number| crate::watch::Claim { address: hog, number: *number }).collect();
    rig.control.shared.addresses.put(&list);
    rig.pass(3 * SECOND_NS);
    let from = rig.writes().len();
    for tick in 0..100 {
        let stands = |rig: &Rig, place: usize| rig.control.freezer.applied().touches(place);
        let now_ns = rig.clock.monotonic_ns();
        for slot in 0..8 {
            match stands(&rig, jobs[0].0) {
                false => rig.writer.begin(slot, Rig::series(Class::Batch), now_ns, 4096, Some(0)).unwrap(),
                true => rig.writer.end(slot).unwrap(),
            }
        }
        if !stands(&rig, jobs[0].0) {
            (0..20).for_each(|_| rig.writer.complete(Rig::series(Class::Batch), 200_000_000, 4096).unwrap());
            (0..4).for_each(|_| rig.writer.complete(Rig::series(Class::Storage), 500_000_000, 4096).unwrap());
        }
        rig.job += u64::from(tick % 10 == 0 && !stands(&rig, jobs[1].0));
        for cgroup in ["jobs.slice", "jobs.slice/b.scope"] {
            let line = format!("8:0 rbytes={} wbytes=0 rios={} wios=0 dbytes=0 dios=0\n", rig.job * 4096, rig.job);
            std::fs::write(rig.folders.path().join(cgroup).join("io.stat"), &line).unwrap();
        }
        rig.pass(TICK_NS);
    }
    let writes = rig.writes()[from..].to_vec();
    (rig, writes, jobs.map(|(place, _)| place))
}

#[test]
fn who_attacks_through_the_storage_daemon_stands_still_alone_and_batch_waits_on_that_filesystem() {
    let (rig, writes, [hog, innocent]) = attacked_through_the_daemon(|jobs| vec![jobs[0]]);
    let alone = Hold::Jobs([hog].into_iter().collect());
    // A precaution first; what is back as soon as it ends is frozen for longer.
    assert_eq!(writes, [Hold::All, Hold::Nobody, Hold::All, alone]);
    assert!(!rig.control.freezer.applied().touches(innocent) && rig.state().starts_with("state=frozen"));
    assert!(rig.control.shaping.held(), "whose requests wait there is not told apart");
    let messages = rig.messages();
    let when = |hold| {
        let decided = messages.iter().rev().find_map(|m| match m {
            Message::Decision { event, .. } if event.hold == hold && event.deed != Deed::None => Some(event.at_ns),
            _ => None,
        });
        decided.unwrap()
    };
    assert!(when(alone) - when(Hold::All) <= 3 * TICK_NS, "the other one stood still for a moment");
}

#[test]
fn an_attack_from_an_address_that_is_nobodys_freezes_all_of_them() {
    // Of no job here; or claimed by two, which the watch thread leaves out; or by one that has ended.
    for claims in [|_: &[u64]| vec![], |jobs: &[u64]| vec![jobs[0].max(jobs[1]) + 1000]] {
        let (_, writes, _) = attacked_through_the_daemon(claims);
        assert_eq!(writes, [Hold::All, Hold::Nobody, Hold::All]);
    }
}

#[test]
fn a_dry_run_says_what_it_would_do_and_touches_nothing() {
    let mut rig = Rig::with(RecordingFreezer::default(), "[node]\ndry_run = true\n");
    let before = rig.writes();
    std::fs::create_dir(rig.folders.path().join("jobs.slice/a.scope")).unwrap();
    rig.work();
    rig.pass(10 * SECOND_NS);
    rig.messages();
    rig.attack = 100;
    rig.pass(5 * SECOND_NS);
    let froze = |m: &Message| matches!(m, Message::Decision { event, written: false } if event.deed == Deed::Freeze);
    assert!(rig.messages().iter().any(froze));
    assert_eq!((rig.writes(), rig.wishes.try_iter().count()), (before, 0));
    assert!(!rig.folders.path().join(ShapingActuator::NAME).exists() && !rig.control.shaping.held());
    assert!(rig.state().starts_with("state=open admit=1"), "{}", rig.state());
    assert!(rig.state().contains("reason=dry_run cores=4"), "{}", rig.state());
    rig.control.shared.orders.drained.store(true, Ordering::Relaxed);
    rig.pass(TICK_NS);
    assert!(rig.state().starts_with("state=closed admit=0"), "an operator is obeyed: {}", rig.state());
}

#[test]
fn capacity_is_offered_only_while_jobs_may_start() {
    let mut rig = Rig::new(RecordingFreezer::default());
    rig.pass(TICK_NS);
    assert!(rig.state().contains("cores=0 memory_mb=0 "), "{}", rig.state());
    rig.pass(10 * SECOND_NS);
    assert!(rig.state().contains("cores=4 memory_mb=1536 "), "{}", rig.state());
}

#[test]
fn what_somebody_else_writes_for_the_storage_daemons_is_put_right_and_told() {
    let mut rig = frozen_rig();
    let path = rig.control.shaping.path().to_owned();
    let length = std::fs::read(&path).unwrap().len();
    std::fs::write(&path, "x").unwrap();
    rig.pass(SECOND_NS + TICK_NS);
    assert_eq!(std::fs::read(&path).unwrap().len(), length);
    assert_eq!(rig.control.shared.limit_drifts.load(std::sync::atomic::Ordering::Relaxed), 1);
    let told = |m: &Message| matches!(m, Message::Drifted { of: "what batch may do through the storage daemons", .. });
    assert_eq!(rig.messages().iter().filter(|m| told(m)).count(), 1);
}

#[test]
fn less_cpu_is_waited_for_and_not_for_ever() {
    let (mut rig, now_ns) = (Rig::new(RecordingFreezer::default()), 1000 * SECOND_NS);
    let wish = |rig: &mut Rig, cpu, now_ns| {
        let actions = rig.control.ladder.clone().step(&policy::Inputs::default(), now_ns);
        rig.control.act(&Actions { shares: policy::Shares::new([cpu, 1.0, 1.0]), ..actions }, now_ns);
        rig.control.less_awaited(now_ns + TICK_NS)
    };
    assert!(!wish(&mut rig, 1.0, now_ns));
    assert!(wish(&mut rig, 0.5, now_ns));
    rig.control.shared.granted_ns.store(now_ns, std::sync::atomic::Ordering::Relaxed);
    assert!(!wish(&mut rig, 0.5, now_ns));
    assert!(!wish(&mut rig, 0.6, now_ns + SECOND_NS), "more is not waited for");
    // systemd may hang.
    assert!(wish(&mut rig, 0.25, now_ns + 2 * SECOND_NS));
    assert!(rig.control.less_awaited(now_ns + 3 * SECOND_NS) && !rig.control.less_awaited(now_ns + 4 * SECOND_NS));
}

#[test]
fn a_storage_daemon_that_does_not_listen_is_told_once() {
    let mut rig = frozen_rig();
    // The daemon of this segment knows of no file to read.
    rig.pass(4 * SECOND_NS);
    let told = |m: &Message| matches!(m, Message::Shaping { fault: Some(Fault::Unapplied) });
    assert_eq!(rig.messages().iter().filter(|m| told(m)).count(), 1);
    // It has ended: nobody is there who could listen.
    rig.daemon = false;
    rig.pass(2 * SECOND_NS);
    assert!(rig.messages().iter().any(|m| matches!(m, Message::Shaping { fault: None })));
    rig.pass(60 * SECOND_NS);
    assert!(!rig.messages().iter().any(told));
}

#[test]
fn what_somebody_else_thaws_is_frozen_again_within_a_second() {
    let mut rig = frozen_rig();
    lock(&rig.knob.0).asked = Hold::Nobody;
    rig.pass(SECOND_NS + TICK_NS);
    assert_eq!(rig.writes(), [Hold::All, Hold::All]);
    assert_eq!(rig.control.totals.drifts, 1);
    assert!(rig.messages().iter().any(|m| matches!(m, Message::Drifted { .. })));
}

#[test]
fn a_refused_write_is_tried_at_every_tick_and_told_once() {
    let knob = RecordingFreezer::default();
    lock(&knob.0).error = Some(FreezeError::Refused(Errno::BUSY));
    let mut rig = Rig::new(knob);
    rig.pass(10 * SECOND_NS);
    rig.messages();
    rig.hang(true);
    rig.pass(2 * SECOND_NS);
    assert!(rig.writes().len() > 10);
    let effects = rig.effects();
    assert_eq!(effects.len(), 1, "{effects:?}");
    assert_eq!(effects[0].seen, Err(FreezeError::Refused(Errno::BUSY)));
    lock(&rig.knob.0).error = None;
    rig.pass(TICK_NS);
    assert_eq!(rig.effects().last().map(|effect| effect.seen), Some(Ok(true)));
}

#[test]
fn without_its_slice_the_node_is_closed_and_with_it_open_again() {
    let mut rig = Rig::new(RecordingFreezer::default());
    rig.pass(10 * SECOND_NS);
    lock(&rig.knob.0).missing = true;
    rig.messages();
    rig.pass(2 * SECOND_NS);
    assert!(rig.state().starts_with("state=closed admit=0"), "{}", rig.state());
    assert!(rig.messages().iter().any(|m| matches!(m, Message::Slice { present: false })));
    lock(&rig.knob.0).missing = false;
    rig.pass(10 * SECOND_NS);
    assert!(rig.state().starts_with("state=open"), "{}", rig.state());
}

#[test]
fn an_end_on_purpose_thaws_and_closes() {
    let mut rig = frozen_rig();
    rig.control.run(&AtomicBool::new(true));
    assert_eq!(rig.writes(), [Hold::All, Hold::Nobody]);
    assert!(!rig.control.shaping.held());
    assert!(rig.state().contains("state=closed admit=0") && rig.state().contains("reason=guard_stopped"));
}

#[test]
fn a_reader_of_the_view_and_a_full_channel_hold_nothing_up() {
    let mut rig = Rig::new(RecordingFreezer::default());
    rig.pass(SECOND_NS);
    let shared = Arc::clone(&rig.control.shared);
    let held = lock(&shared.snapshot);
    // Nobody takes the messages either.
    for _ in 0..5000 {
        rig.control.send(Message::Stopping);
    }
    rig.hang(true);
    rig.pass(3 * SECOND_NS);
    assert_eq!(rig.writes(), [Hold::All]);
    assert!(shared.dropped.load(Ordering::Relaxed) > 0);
    drop(held);
}

#[test]
fn the_wall_clock_may_jump_and_the_loop_may_be_held_up() {
    let mut rig = frozen_rig();
    let day_ns = 24 * 3600 * SECOND_NS as i64;
    for offset_ns in [day_ns, -day_ns, -1_795_173_354_000_000_000] {
        rig.clock.1.store(offset_ns, Ordering::Relaxed);
        rig.pass(SECOND_NS / 10);
        // What others compare with their own clock is of the same one.
        let heartbeat = format!(" heartbeat={} ", rig.clock.realtime_ns() / SECOND_NS);
        assert!(rig.state().starts_with("state=frozen") && rig.state().contains(&heartbeat), "{}", rig.state());
    }
    assert_eq!(rig.writes(), [Hold::All]);
    rig.hang(false);
    rig.pass(30 * SECOND_NS);
    assert!(rig.state().starts_with("state=open admit=1"), "{}", rig.state());
    let writes = rig.writes();
    // An hour is missing, as after a machine that stood still: nothing that is older than that counts as being so now.
    rig.clock.0.fetch_add(3600 * SECOND_NS, Ordering::Relaxed);
    rig.pass(30 * SECOND_NS);
    assert!(rig.state().starts_with("state=open admit=1"), "{}", rig.state());
    assert_eq!(rig.writes(), writes, "nobody was frozen for it");
    assert!(!rig.control.ladder.counters().weak_suspended);
}

// SPDX-License-Identifier: Apache-2.0
//! The actuator thread: knobs that are slow to turn, because systemd turns them. The control loop says what it wants and
//! goes on; only the last that it wanted counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::sync::Arc;
use std::time::Duration;

use crate::actuators::disks::DisksActuator;
use crate::actuators::io_max::{IoMaxActuator, Limit, Outcome};
use crate::actuators::network::NetworkActuator;
use crate::actuators::squeeze::{SqueezeActuator, Squeezed};
use crate::actuators::swap::SwapActuator;
use crate::actuators::vacate::{Leaver, VacateActuator};
use crate::clock::Clock;
use crate::report::Message;
use crate::shared::{lock, Shared};
use intf::journal::Job;
use policy::{Resource, Shares};

/// Wishes that wait; the loop tries again when there are more.
pub const QUEUE: usize = 4;

/// How often it is looked whether somebody else has turned a knob, and whether what failed works now.
const LOOK: Duration = Duration::from_secs(10);

/// How often it is looked whether those are still there who are to leave.
const HURRY: Duration = Duration::from_secs(1);

/// A container whose starter has gone is left to HTCondor for so long.
const ORPHAN: Duration = Duration::from_secs(60);

/// What the control loop wants.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Who is limited, and to what.
    pub limits: Arc<[Limit]>,
    /// Worth a record, whatever comes of it: somebody gets less, or everything back.
    pub said: bool,
    /// What batch as a whole may have.
    pub shares: Shares,
    /// The disks that storage serves from, and whether batch is to have little of them.
    pub disks: Arc<[(u32, u32)]>,
    /// See `disks`.
    pub little: bool,
    /// And what all jobs together may do to some of them else.
    pub together: Arc<[Limit]>,
    /// Who is to leave.
    pub leavers: Arc<[Leaver]>,
    /// Why the state of the node is what it is.
    pub cause: &'static str,
    /// When it was decided (CLOCK_MONOTONIC).
    pub decided_ns: u64,
}

impl Wish {
    /// Everybody as he likes.
    fn nothing(decided_ns: u64) -> Wish {
        Wish {
            limits: Arc::default(),
            said: true,
            shares: Shares::default(),
            disks: Arc::default(),
            little: false,
            together: Arc::default(),
            leavers: Arc::default(),
            cause: "start",
            decided_ns,
        }
    }
}

/// A job that was ended by force, for the journal.
#[derive(Debug)]
pub struct Ended {
    /// Whose.
    pub job: Job,
    /// Why.
    pub cause: &'static str,
    /// When it began, and when it was done (CLOCK_MONOTONIC).
    pub decided_ns: u64,
    /// See `decided_ns`.
    pub ended_ns: u64,
    /// Nothing of it is there any more, or why that is not so.
    pub seen: anyhow::Result<()>,
}

/// What came of it, for the journal.
#[derive(Debug)]
pub struct Limited {
    /// When it was decided, and when it was so (CLOCK_MONOTONIC).
    pub decided_ns: u64,
    /// See `decided_ns`.
    pub ended_ns: u64,
    /// By job.
    pub outcomes: Vec<Outcome>,
}

/// What the thread turns.
pub struct Knobs {
    /// Of single jobs.
    pub io_max: IoMaxActuator,
    /// Of all of batch.
    pub squeeze: SqueezeActuator,
    /// See `squeeze`.
    pub network: NetworkActuator,
    /// See `squeeze`.
    pub disks: DisksActuator,
    /// See `squeeze`.
    pub swap: SwapActuator,
    /// Who is to leave.
    pub vacate: VacateActuator,
}

/// The thread.
pub struct Worker {
    io_max: IoMaxActuator,
    squeeze: SqueezeActuator,
    network: NetworkActuator,
    disks: DisksActuator,
    swap: SwapActuator,
    vacate: VacateActuator,
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
    outbox: SyncSender<Message>,
    /// What is wanted now.
    wanted: Arc<[Limit]>,
    shares: Shares,
    data_disks: Arc<[(u32, u32)]>,
    little: bool,
    together: Arc<[Limit]>,
    /// Who is to leave now, and why.
    leavers: Arc<[Leaver]>,
    cause: &'static str,
    /// Who was ended by force, or could not be, and that was said.
    ended: BTreeSet<(Box<str>, bool)>,
    /// The kernel was told to end them, and they are there still: whose, why, and since when.
    dying: BTreeMap<Box<str>, (Job, &'static str, u64)>,
    /// That HTCondor could not be told was said.
    mute: bool,
    /// When it was last looked whether a limit is as it was made.
    looked_ns: u64,
    /// Whose limits cannot be set, and that was said.
    failed: BTreeSet<Box<str>>,
    /// The same of what batch as a whole may have.
    stiff: BTreeSet<&'static str>,
    /// Nobody is ended.
    dry_run: bool,
}

impl Worker {
    /// Touches nothing yet.
    pub fn new(knobs: Knobs, clock: Arc<dyn Clock>, shared: Arc<Shared>, outbox: SyncSender<Message>) -> Self {
        let Knobs { io_max, squeeze, network, disks, swap, vacate } = knobs;
        Worker {
            io_max,
            squeeze,
            network,
            disks,
            swap,
            vacate,
            clock,
            shared,
            outbox,
            wanted: Arc::default(),
            shares: Shares::default(),
            data_disks: Arc::default(),
            little: false,
            together: Arc::default(),
            leavers: Arc::default(),
            cause: "",
            ended: BTreeSet::new(),
            dying: BTreeMap::new(),
            mute: false,
            looked_ns: 0,
            failed: BTreeSet::new(),
            stiff: Default::default(),
            dry_run: false,
        }
    }

    /// The same, but if this is a dry run orphans are left alone: all else is left alone because the loop wishes for nothing.
    pub fn dry_run(self, dry_run: bool) -> Self {
        Worker { dry_run, ..self }
    }

    /// Until the control loop is gone; then no job stays limited.
    pub fn run(&mut self, inbox: &Receiver<Wish>) {
        let now_ns = self.clock.monotonic_ns();
        self.io_max.adopt();
        self.squeeze.adopt();
        self.disks.adopt();
        // Until storage is heard: they are those that a guard before has seen.
        self.data_disks = self.disks.known().into();
        let mut next = Some(Wish::nothing(now_ns));
        loop {
            let patience = if self.leavers.is_empty() { LOOK } else { HURRY };
            match next.take().map_or_else(|| inbox.recv_timeout(patience), Ok) {
                Ok(wish) => next = self.grant(inbox.try_iter().fold(wish, last), inbox),
                Err(RecvTimeoutError::Timeout) => self.let_go(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            // Also where wishes leave no pause.
            if next.is_none() && self.clock.monotonic_ns().saturating_sub(self.looked_ns) >= LOOK.as_nanos() as u64 {
                next = self.look(inbox);
            }
        }
        let (_, nothing_more) = sync_channel(0);
        // Who has little of the disks keeps that: the fail-safe takes it over.
        let little = self.little;
        self.grant(Wish { little, ..Wish::nothing(self.clock.monotonic_ns()) }, &nothing_more);
    }

    /// Returns the next one, when it came meanwhile.
    fn grant(&mut self, wish: Wish, inbox: &Receiver<Wish>) -> Option<Wish> {
        (self.leavers, self.cause) = (wish.leavers, wish.cause);
        self.let_go();
        self.know(wish.disks);
        // What all of them may do together holds them at once, the limits of single ones one after the other.
        (self.little, self.together) = (wish.little, wish.together);
        let outcome = self.disks.make(if self.little { &self.data_disks } else { &[] }, &self.together);
        self.say(outcome.into_iter(), wish.decided_ns, wish.said);
        self.wanted = wish.limits;
        let mut next = None;
        let outcomes = self.io_max.make(&self.wanted, &mut || {
            next = inbox.try_recv().ok();
            next.is_some()
        });
        self.tell(outcomes, wish.decided_ns, wish.said);
        if next.is_none() {
            self.shares = wish.shares;
            self.turn(wish.decided_ns, wish.said);
            self.shared.granted_ns.store(wish.decided_ns, Ordering::Relaxed);
        }
        // Of what was left undone for it something may have to be said.
        next.map(|next| Wish { said: next.said || wish.said, ..next })
    }

    /// Which disks there are, also for who comes when no guard is there.
    fn know(&mut self, disks: Arc<[(u32, u32)]>) {
        // A guard that has just begun knows none.
        if disks.is_empty() || disks == self.data_disks {
            return;
        }
        if let Err(error) = self.disks.know(&disks) {
            eprintln!("<4>{error:#}: without a guard batch would have all of the data disks");
        }
        self.disks.arm(&disks);
        self.data_disks = disks;
    }

    /// All of batch gets what it may have.
    fn turn(&mut self, decided_ns: u64, said: bool) {
        let speed = self.shared.wire_speed.load(Ordering::Relaxed);
        let mut outcomes = self.squeeze.make(self.shares);
        outcomes.extend(self.network.make(self.shares.of(Resource::Network), speed));
        outcomes.extend(self.swap());
        self.say(outcomes.into_iter(), decided_ns, said);
    }

    /// For the journal.
    fn say(&mut self, outcomes: impl Iterator<Item = Squeezed>, decided_ns: u64, said: bool) {
        for outcome in outcomes {
            // As with the limits of jobs: what grows bit by bit, and what fails again, is not said.
            let stiff = match outcome.seen {
                Ok(()) => self.stiff.remove(outcome.of),
                Err(_) => !self.stiff.insert(outcome.of),
            };
            let said = said || outcome.of == SwapActuator::OF;
            if outcome.seen.is_err() == stiff && (stiff || !said) {
                continue;
            }
            let message = Message::Squeezed { outcome, decided_ns, ended_ns: self.clock.monotonic_ns() };
            if self.outbox.try_send(message).is_err() {
                Shared::count(&self.shared.dropped);
            }
        }
    }

    /// Not wished for by the loop: it is so whatever the state of the node.
    fn swap(&mut self) -> Option<Squeezed> {
        let on_data = lock(&self.shared.swap_on_data).clone();
        self.swap.make(on_data.as_deref())
    }

    /// Who is to leave does: HTCondor is told, and whoever it has not ended in time is ended.
    fn let_go(&mut self) {
        let leavers = Arc::clone(&self.leavers);
        match self.vacate.tell(&leavers) {
            Err(error) if !std::mem::replace(&mut self.mute, true) => {
                eprintln!("<4>{error:#}: HTCondor is not told which jobs are to leave")
            }
            Err(_) => {}
            Ok(()) => self.mute = false,
        }
        for leaver in leavers.iter() {
            // Whom HTCondor does not know of it will not end, however long one waits.
            if leaver.by_force || self.vacate.has_no_starter(&leaver.scope) {
                self.end(&leaver.scope, self.cause);
            }
        }
    }

    fn end(&mut self, scope: &str, cause: &'static str) {
        let decided_ns = self.clock.monotonic_ns();
        // Whose starter has gone is known to who saw it before.
        let seen_before =
            lock(&self.shared.jobs).iter().find(|(_, job)| job.scope == scope).map(|(_, job)| job.clone());
        let job = seen_before.filter(|job| !job.id.is_empty()).unwrap_or_else(|| self.vacate.of(scope));
        match self.vacate.end(scope) {
            Ok(false) => {}
            Ok(true) => {
                self.dying.entry(scope.into()).or_insert((job, cause, decided_ns));
            }
            Err(error) => self
                .record(scope, Ended { job, cause, decided_ns, ended_ns: self.clock.monotonic_ns(), seen: Err(error) }),
        }
        self.bury();
    }

    /// Of those whom the kernel was told to end, who is gone, and who is not though there was time: a thread that waits for a disk does
    /// not even die.
    fn bury(&mut self) {
        let now_ns = self.clock.monotonic_ns();
        for (scope, (job, cause, decided_ns)) in std::mem::take(&mut self.dying) {
            let took_ns = now_ns.saturating_sub(decided_ns);
            let gone = self.vacate.is_empty(&scope);
            let ended = |seen| Ended { job: job.clone(), cause, decided_ns, ended_ns: now_ns, seen };
            if gone {
                self.record(&scope, ended(Ok(())));
                continue;
            }
            if took_ns >= self.vacate.deadline_ns() {
                self.record(
                    &scope,
                    ended(Err(anyhow::anyhow!("{scope}: still there {} s after cgroup.kill", took_ns / 1_000_000_000))),
                );
            }
            self.dying.insert(scope, (job, cause, decided_ns));
        }
    }

    /// Once: who cannot be ended would fill the journal.
    fn record(&mut self, scope: &str, ended: Ended) {
        if !self.ended.insert((scope.into(), ended.seen.is_ok())) {
            return;
        }
        if self.outbox.try_send(Message::Ended(ended)).is_err() {
            Shared::count(&self.shared.dropped);
        }
    }

    /// What somebody else has changed is put right, and said.
    fn look(&mut self, inbox: &Receiver<Wish>) -> Option<Wish> {
        let decided_ns = self.clock.monotonic_ns();
        self.looked_ns = decided_ns;
        self.bury();
        self.ended.retain(|(scope, _)| self.vacate.exists(scope));
        if !self.dry_run {
            for orphan in self.vacate.orphans(ORPHAN, decided_ns) {
                self.end(&orphan, "orphan");
            }
        }
        let drifts = [
            ("limits of jobs on a disk", self.io_max.drifted()),
            ("what batch as a whole may have", self.squeeze.drifted()),
            ("what batch may send and receive", self.network.drifted()),
            ("limits of batch on the data disks", self.disks.drifted()),
            ("the swap of the jobs", self.swap.drifted()),
        ];
        for (of, _) in drifts.into_iter().filter(|(_, drifted)| *drifted) {
            Shared::count(&self.shared.limit_drifts);
            if self.outbox.try_send(Message::Drifted { of, at_ns: decided_ns }).is_err() {
                Shared::count(&self.shared.dropped);
            }
        }
        let (limits, leavers) = (Arc::clone(&self.wanted), Arc::clone(&self.leavers));
        let (disks, little, together) = (Arc::clone(&self.data_disks), self.little, Arc::clone(&self.together));
        let (shares, cause) = (self.shares, self.cause);
        self.grant(Wish { limits, said: true, shares, disks, little, together, leavers, cause, decided_ns }, inbox)
    }

    fn tell(&mut self, mut outcomes: Vec<Outcome>, decided_ns: u64, said: bool) {
        // What becomes more bit by bit would fill the journal, and so would what fails each time that it is tried again.
        outcomes.retain(|outcome| match outcome.seen {
            Ok(()) => self.failed.remove(&outcome.scope) || said,
            Err(_) => self.failed.insert(outcome.scope.clone()),
        });
        self.failed.retain(|scope| outcomes.iter().any(|outcome| outcome.scope == *scope) || self.io_max.knows(scope));
        if outcomes.is_empty() {
            return;
        }
        let limited = Limited { decided_ns, ended_ns: self.clock.monotonic_ns(), outcomes };
        if self.outbox.try_send(Message::Limited(limited)).is_err() {
            Shared::count(&self.shared.dropped);
        }
    }
}

/// The later of two wishes; what was to be said of the earlier one is to be said of it.
fn last(earlier: Wish, later: Wish) -> Wish {
    Wish { said: earlier.said || later.said, ..later }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use std::path::Path;

    fn limit() -> Limit {
        Limit { scope: "container".into(), device: (8, 16), requests: 40, bytes: 1 << 20, reads: 50 }
    }

    fn worker(folder: &Path) -> (Worker, Receiver<Message>) {
        let patience = Duration::from_secs(5);
        let io_max = IoMaxActuator::new(folder, folder, Path::new("systemctl"), patience);
        let vacate = VacateActuator::new(folder, folder, folder, patience);
        let (outbox, inbox) = sync_channel(16);
        let squeeze = SqueezeActuator::new(folder, folder, Path::new("systemctl"), patience);
        let network = NetworkActuator::new(folder, Path::new("systemctl"), patience);
        let disks = DisksActuator::of_guard(folder, folder, Path::new("systemctl"), patience);
        let swap = SwapActuator::new(folder, folder, Path::new("systemctl"), patience);
        let knobs = Knobs { io_max, squeeze, network, disks, swap, vacate };
        (Worker::new(knobs, Arc::new(SystemClock), Arc::default(), outbox), inbox)
    }

    #[test]
    fn who_is_ended_by_force_is_said_once() {
        let folder = tempfile::tempdir().unwrap();
        let scope = "docker-0a.scope";
        // Its starter is there, as far as /proc says.
        stranger(folder.path(), r#"{"source":"/x/dir_4000000/tmp"}"#);
        let process = folder.path().join("proc/4000000");
        std::fs::create_dir_all(&process).unwrap();
        std::fs::write(process.join("comm"), "condor_starter\n").unwrap();
        std::fs::write(process.join("stat"), "1 (x) S 1 1 1 0 -1 0 1 0 0 0 1 2 3 4 20 0 1 0 500 1 2\n").unwrap();
        let kill = folder.path().join(scope).join("cgroup.kill");
        let (mut worker, inbox) = worker(folder.path());
        let leaver = |by_force| Wish {
            leavers: Arc::from([Leaver { scope: scope.into(), by_force }]),
            cause: "vacate_overdue",
            ..Wish::nothing(1)
        };
        let (_wishes, wished) = sync_channel(1);
        worker.grant(leaver(false), &wished);
        assert!(inbox.try_recv().is_err() && !kill.exists());
        worker.grant(leaver(true), &wished);
        (0..3).for_each(|_| worker.let_go());
        let said: Vec<_> = inbox.try_iter().collect();
        assert!(matches!(&said[..], [Message::Ended(Ended { cause: "vacate_overdue", seen: Ok(()), .. })]), "{said:?}");
        assert_eq!(std::fs::read_to_string(kill).unwrap(), "1");
    }

    #[test]
    fn who_does_not_die_in_time_is_said_not_to_be_ended() {
        let folder = tempfile::tempdir().unwrap();
        stranger(folder.path(), "");
        let events = folder.path().join("docker-0a.scope/cgroup.events");
        std::fs::write(&events, "populated 1\nfrozen 0\n").unwrap();
        let (mut worker, inbox) = worker(folder.path());
        let leavers = Arc::from([Leaver { scope: "docker-0a.scope".into(), by_force: true }]);
        worker.grant(Wish { leavers, cause: "vacate_overdue", ..Wish::nothing(1) }, &sync_channel(1).1);
        assert!(inbox.try_recv().is_err(), "it may be dying just now");
        worker.dying.values_mut().for_each(|(.., decided_ns)| *decided_ns = 0);
        (0..2).for_each(|_| worker.let_go());
        let failed: Vec<_> = inbox.try_iter().collect();
        assert!(matches!(&failed[..], [Message::Ended(Ended { seen: Err(_), .. })]), "{failed:?}");
        std::fs::write(&events, "populated 0\nfrozen 0\n").unwrap();
        worker.bury();
        assert!(matches!(inbox.try_recv(), Ok(Message::Ended(Ended { seen: Ok(()), .. }))));
    }

    /// A container with these mounts: without that of a starter HTCondor does not know of it.
    fn stranger(folder: &Path, mounts: &str) {
        std::fs::create_dir(folder.join("docker-0a.scope")).unwrap();
        std::fs::write(folder.join("docker-0a.scope/cgroup.procs"), "").unwrap();
        let description = folder.join("run/containerd/io.containerd.runtime.v2.task/moby/0a");
        std::fs::create_dir_all(&description).unwrap();
        let text = format!(r#"{{"process":{{"user":{{"uid":7}}}},"mounts":[{mounts}]}}"#);
        std::fs::write(description.join("config.json"), text).unwrap();
    }

    #[test]
    fn whom_htcondor_does_not_know_it_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        stranger(folder.path(), "");
        let (mut worker, inbox) = worker(folder.path());
        let leavers = Arc::from([Leaver { scope: "docker-0a.scope".into(), by_force: false }]);
        worker.grant(Wish { leavers, cause: "gauge_above", ..Wish::nothing(1) }, &sync_channel(1).1);
        assert!(matches!(inbox.try_recv(), Ok(Message::Ended(Ended { cause: "gauge_above", seen: Ok(()), .. }))));
        assert_eq!(std::fs::read_to_string(folder.path().join("docker-0a.scope/cgroup.kill")).unwrap(), "1");
    }

    #[test]
    fn a_dry_run_ends_no_orphan() {
        for dry_run in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            stranger(folder.path(), r#"{"source":"/x/dir_4000000/tmp"}"#);
            let (worker, inbox) = worker(folder.path());
            let clock = Arc::new(Later::default());
            let mut worker = Worker { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..worker }.dry_run(dry_run);
            worker.look(&sync_channel(1).1);
            clock.0.store(ORPHAN.as_nanos() as u64, std::sync::atomic::Ordering::Relaxed);
            worker.look(&sync_channel(1).1);
            assert_eq!(folder.path().join("docker-0a.scope/cgroup.kill").exists(), !dry_run);
            assert_eq!(inbox.try_recv().is_ok(), !dry_run);
        }
    }

    /// Time as a test wants it.
    #[derive(Default)]
    struct Later(std::sync::atomic::AtomicU64);

    impl Clock for Later {
        fn monotonic_ns(&self) -> u64 {
            self.0.load(std::sync::atomic::Ordering::Relaxed)
        }

        fn realtime_ns(&self) -> u64 {
            0
        }
    }

    /// What the reporter hears of: is it a limit, and did it work?
    fn heard(inbox: &Receiver<Message>) -> Vec<(bool, bool)> {
        let of = |message| if let Message::Limited(limited) = message { limited.outcomes } else { Vec::new() };
        inbox.try_iter().flat_map(of).map(|outcome| (!outcome.limits.is_empty(), outcome.seen.is_ok())).collect()
    }

    #[test]
    fn a_failure_is_said_once_and_its_end_too() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("container")).unwrap();
        let (mut worker, inbox) = worker(folder.path());
        let wish = |said| Wish { limits: [limit()].into(), said, ..Wish::nothing(1) };
        let (_wishes, wished) = sync_channel(1);
        worker.grant(wish(true), &wished);
        assert_eq!(heard(&inbox), [(true, false)], "no io.max there");
        (0..3).for_each(|_| assert!(worker.look(&wished).is_none()));
        assert_eq!(heard(&inbox), []);
        std::fs::write(folder.path().join("container/io.max"), "").unwrap();
        worker.look(&wished);
        assert_eq!(heard(&inbox), [(true, true)]);
        worker.look(&wished);
        worker.grant(wish(false), &wished);
        assert_eq!(heard(&inbox), [], "nothing to do");
        // Somebody else lifts it.
        std::fs::write(folder.path().join("container/io.max"), "").unwrap();
        worker.look(&wished);
        assert_eq!(heard(&inbox), [(true, true)]);
        assert_eq!(worker.shared.limit_drifts.load(std::sync::atomic::Ordering::Relaxed), 1);
        std::fs::write(folder.path().join("container/io.max"), "").unwrap();
        worker.look(&wished);
        assert!(inbox
            .try_iter()
            .any(|message| matches!(message, Message::Drifted { of: "limits of jobs on a disk", .. })));
    }

    #[test]
    fn who_is_not_heard_has_little_of_the_disks_and_what_they_are_is_known_when_the_guard_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let slice = folder.path().join("beer-jobs");
        std::fs::create_dir(&slice).unwrap();
        std::fs::write(slice.join("io.max"), "").unwrap();
        let (mut worker, inbox) = worker(&slice);
        let (wishes, wished) = sync_channel(QUEUE);
        let disks: Arc<[(u32, u32)]> = [(8, 16)].into();
        worker.know(Arc::clone(&disks));
        // Another thread makes the kernel ready for limits, which has nothing of that in its file.
        for _ in 0..5000 {
            if std::fs::read(slice.join("io.max")).is_ok_and(|armed| !armed.is_empty()) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        std::fs::write(slice.join("io.max"), "").unwrap();
        wishes.send(Wish { disks: Arc::clone(&disks), ..Wish::nothing(1) }).unwrap();
        wishes.send(Wish { disks, little: true, ..Wish::nothing(2) }).unwrap();
        drop(wishes);
        worker.run(&wished);
        let io_max = || std::fs::read_to_string(slice.join("io.max")).unwrap();
        assert!(io_max().contains("8:16 rbps=524288 wbps=524288 riops=4 wiops=4"), "{}", io_max());
        assert_eq!(worker.disks.known(), [(8, 16)]);
        let little = |message| match message {
            Message::Squeezed { outcome, .. } => outcome.has,
            _ => None,
        };
        assert_eq!(
            inbox.try_iter().filter_map(little).collect::<Vec<_>>(),
            ["8 requests/s and 1.0 MB/s of each data disk"]
        );
    }

    #[test]
    fn many_are_limited_together_before_each_of_them_is() {
        let folder = tempfile::tempdir().unwrap();
        let slice = folder.path().join("beer-jobs");
        std::fs::create_dir_all(slice.join("container")).unwrap();
        for file in ["io.max", "container/io.max"] {
            std::fs::write(slice.join(file), "").unwrap();
        }
        let (mut worker, inbox) = worker(&slice);
        let (wishes, wished) = sync_channel(QUEUE);
        let together = Limit { scope: "beer-jobs".into(), requests: 12, ..limit() };
        let wish = Wish { together: [together].into(), limits: [limit()].into(), ..Wish::nothing(1) };
        wishes.send(wish.clone()).unwrap();
        assert!(worker.grant(wish, &wished).is_some(), "another one has come");
        let io_max = |of: &str| std::fs::read_to_string(slice.join(of)).unwrap();
        assert!(io_max("io.max").contains("riops=6 wiops=6"), "{}", io_max("io.max"));
        assert!(io_max("container/io.max").contains("riops=20"));
        let said = |message| match message {
            Message::Squeezed { outcome, .. } => Some((outcome.of, outcome.has)),
            _ => None,
        };
        let has = Some("12 requests/s and 1.0 MB/s of 8:16".to_owned());
        assert_eq!(inbox.try_iter().filter_map(said).next(), Some((DisksActuator::TOGETHER, has)));
        // Nobody may be left with it.
        drop(wishes);
        worker.run(&wished);
        assert!(io_max("io.max").contains("riops=max wiops=max"), "{}", io_max("io.max"));
    }

    #[test]
    fn the_end_of_the_loop_lifts_everything() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("container")).unwrap();
        std::fs::write(folder.path().join("container/io.max"), "").unwrap();
        let (mut worker, inbox) = worker(folder.path());
        let (wishes, wished) = sync_channel(QUEUE);
        let leavers = Arc::from([Leaver { scope: "container".into(), by_force: false }]);
        wishes.send(Wish { leavers, ..Wish::nothing(1) }).unwrap();
        wishes.send(Wish { limits: [limit()].into(), said: false, ..Wish::nothing(2) }).unwrap();
        drop(wishes);
        worker.run(&wished);
        assert_eq!(std::fs::read_to_string(folder.path().join(VacateActuator::SLOTS)).unwrap(), "\n");
        assert_eq!(heard(&inbox), [(true, true), (false, true)]);
        assert!(std::fs::read_to_string(folder.path().join("container/io.max")).unwrap().contains("riops=max"));
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Who leaves the node: HTCondor is told, whoever it has not ended in time is ended by force, and so are containers whose starter has gone.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::SyncSender;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use intf::journal::Job;

use crate::actuators::vacate::Leaver;
use crate::actuators::{KillActuator, VacateActuator};
use crate::clock::Clock;
use crate::report::Message;
use crate::shared::{lock, Shared};

/// A container whose starter has gone is left to HTCondor for so long.
const ORPHAN: Duration = Duration::from_secs(60);

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

/// Of the actuator thread.
pub(super) struct Departures {
    vacate: VacateActuator,
    kill: KillActuator,
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
    outbox: SyncSender<Message>,
    /// Who is to leave now, and why.
    leavers: Arc<[Leaver]>,
    cause: &'static str,
    /// The kernel was told to end them, and they are there still: whose, why, and since when.
    dying: BTreeMap<Box<str>, (Job, &'static str, u64)>,
    /// Who was ended by force, or could not be, and that was said.
    said: BTreeSet<(Box<str>, bool)>,
    /// That HTCondor could not be told was said.
    mute: bool,
    /// Nobody is ended.
    dry_run: bool,
}

impl Departures {
    /// Touches nothing yet.
    pub fn new(
        vacate: VacateActuator,
        kill: KillActuator,
        clock: Arc<dyn Clock>,
        shared: Arc<Shared>,
        outbox: SyncSender<Message>,
    ) -> Departures {
        Departures {
            vacate,
            kill,
            clock,
            shared,
            outbox,
            leavers: Arc::default(),
            cause: "",
            dying: BTreeMap::new(),
            said: BTreeSet::new(),
            mute: false,
            dry_run: false,
        }
    }

    /// Orphans are left alone, or not.
    pub fn dry_run(&mut self, dry_run: bool) {
        self.dry_run = dry_run;
    }

    /// These are to leave, and nobody else.
    pub fn want(&mut self, leavers: Arc<[Leaver]>, cause: &'static str) {
        (self.leavers, self.cause) = (leavers, cause);
    }

    /// Who is to leave, and why.
    pub fn wanted(&self) -> (Arc<[Leaver]>, &'static str) {
        (Arc::clone(&self.leavers), self.cause)
    }

    /// Nobody is to leave, or dying.
    pub fn over(&self) -> bool {
        self.leavers.is_empty() && self.dying.is_empty()
    }

    /// Who is to leave does.
    pub fn let_go(&mut self) {
        let leavers = Arc::clone(&self.leavers);
        match self.vacate.tell(&leavers) {
            Err(error) if !std::mem::replace(&mut self.mute, true) => {
                eprintln!("<4>{error:#}: HTCondor is not told which jobs are to leave")
            }
            Err(_) => {}
            Ok(changed) => {
                self.mute = false;
                if changed {
                    Shared::count(&self.shared.limit_drifts);
                    eprintln!("<4>somebody else had changed which jobs are to leave: HTCondor is told again");
                }
            }
        }
        for leaver in leavers.iter() {
            // Whom HTCondor does not know of it will not end, however long one waits.
            if leaver.by_force || self.vacate.has_no_starter(&leaver.scope) {
                self.end(&leaver.scope, self.cause);
            }
        }
        self.bury();
    }

    /// Now and then: orphans, and who is gone.
    pub fn look(&mut self) {
        if !self.dry_run {
            for orphan in self.vacate.orphans(ORPHAN, self.clock.monotonic_ns()) {
                self.end(&orphan, "orphan");
            }
        }
        self.bury();
        self.said.retain(|(scope, _)| self.kill.exists(scope));
    }

    fn end(&mut self, scope: &str, cause: &'static str) {
        let decided_ns = self.clock.monotonic_ns();
        // Whose starter has gone is known to who saw it before.
        let seen_before =
            lock(&self.shared.jobs).iter().find(|(_, job)| job.scope == scope).map(|(_, job)| job.clone());
        let job = seen_before.filter(|job| !job.id.is_empty()).unwrap_or_else(|| self.vacate.of(scope));
        match self.kill.end(scope) {
            Ok(false) => {}
            Ok(true) => {
                if let Entry::Vacant(dying) = self.dying.entry(scope.into()) {
                    // Should this guard end before it is gone, nobody else tells.
                    eprintln!("<5>{scope} ({}): the kernel is told to end it ({cause})", job.id);
                    dying.insert((job, cause, decided_ns));
                }
            }
            Err(error) => self.say(scope, (job, cause, decided_ns), Err(error)),
        }
    }

    /// Of those whom the kernel was told to end, who is gone, and who is not though there was time: a thread that waits for a disk does
    /// not even die.
    fn bury(&mut self) {
        let now_ns = self.clock.monotonic_ns();
        for (scope, whose) in std::mem::take(&mut self.dying) {
            if self.kill.is_empty(&scope) {
                self.say(&scope, whose, Ok(()));
                continue;
            }
            let took_ns = now_ns.saturating_sub(whose.2);
            if took_ns >= self.kill.deadline_ns() {
                let seconds = took_ns / 1_000_000_000;
                self.say(&scope, whose.clone(), Err(anyhow!("{scope}: still there {seconds} s after cgroup.kill")));
            }
            self.dying.insert(scope, whose);
        }
    }

    /// The guard ends: of who is not gone yet the next one knows nothing.
    pub fn close(&mut self) {
        for (scope, whose) in std::mem::take(&mut self.dying) {
            self.say(&scope, whose, Err(anyhow!("{scope}: the guard ended before it was gone")));
        }
    }

    /// Once: who cannot be ended would fill the journal.
    fn say(&mut self, scope: &str, (job, cause, decided_ns): (Job, &'static str, u64), seen: anyhow::Result<()>) {
        if !self.said.insert((scope.into(), seen.is_ok())) {
            return;
        }
        let ended = Ended { job, cause, decided_ns, ended_ns: self.clock.monotonic_ns(), seen };
        if self.outbox.try_send(Message::Ended(ended)).is_err() {
            Shared::count(&self.shared.dropped);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc::{sync_channel, Receiver};

    use super::*;

    fn departures(folder: &Path, clock: Arc<dyn Clock>) -> (Departures, Receiver<Message>) {
        let vacate = VacateActuator::new(folder, folder, folder);
        let kill = KillActuator::new(folder, folder, Duration::from_secs(5));
        let (outbox, inbox) = sync_channel(16);
        (Departures::new(vacate, kill, clock, Arc::default(), outbox), inbox)
    }

    fn leaves(departures: &mut Departures, by_force: bool, cause: &'static str) {
        departures.want(Arc::from([Leaver { scope: "docker-0a.scope".into(), by_force }]), cause);
        departures.let_go();
    }

    #[test]
    fn who_is_ended_by_force_is_said_once() {
        let folder = tempfile::tempdir().unwrap();
        // Its starter is there, as far as /proc says.
        stranger(folder.path(), r#"{"source":"/x/dir_4000000/tmp"}"#);
        let process = folder.path().join("proc/4000000");
        std::fs::create_dir_all(&process).unwrap();
        std::fs::write(process.join("comm"), "condor_starter\n").unwrap();
        std::fs::write(process.join("stat"), "1 (x) S 1 1 1 0 -1 0 1 0 0 0 1 2 3 4 20 0 1 0 500 1 2\n").unwrap();
        let kill = folder.path().join("docker-0a.scope/cgroup.kill");
        let (mut departures, inbox) = departures(folder.path(), Arc::new(Later::default()));
        leaves(&mut departures, false, "vacate_overdue");
        assert!(inbox.try_recv().is_err() && !kill.exists());
        (0..4).for_each(|_| leaves(&mut departures, true, "vacate_overdue"));
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
        let clock = Arc::new(Later::default());
        let (mut departures, inbox) = departures(folder.path(), Arc::clone(&clock) as Arc<dyn Clock>);
        leaves(&mut departures, true, "vacate_overdue");
        assert!(inbox.try_recv().is_err(), "it may be dying just now");
        // Also if he is not to leave any more: he is dying.
        departures.want(Arc::default(), "calm");
        assert!(!departures.over());
        clock.pass(5);
        (0..2).for_each(|_| departures.let_go());
        let failed: Vec<_> = inbox.try_iter().collect();
        assert!(matches!(&failed[..], [Message::Ended(Ended { seen: Err(_), .. })]), "{failed:?}");
        // What cannot be read does not say that nothing is there.
        std::fs::remove_file(&events).unwrap();
        std::fs::create_dir(&events).unwrap();
        departures.let_go();
        assert!(inbox.try_recv().is_err());
        std::fs::remove_dir(&events).unwrap();
        std::fs::write(&events, "populated 0\nfrozen 0\n").unwrap();
        departures.let_go();
        assert!(matches!(inbox.try_recv(), Ok(Message::Ended(Ended { seen: Ok(()), .. }))));
        assert!(departures.over());
    }

    #[test]
    fn who_is_dying_when_the_guard_ends_is_said() {
        let folder = tempfile::tempdir().unwrap();
        stranger(folder.path(), "");
        std::fs::write(folder.path().join("docker-0a.scope/cgroup.events"), "populated 1\nfrozen 0\n").unwrap();
        let (mut departures, inbox) = departures(folder.path(), Arc::new(Later::default()));
        leaves(&mut departures, true, "vacate_overdue");
        assert!(inbox.try_recv().is_err());
        (0..2).for_each(|_| departures.close());
        let said: Vec<_> = inbox.try_iter().collect();
        assert!(matches!(&said[..], [Message::Ended(Ended { seen: Err(_), .. })]), "{said:?}");
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
        let (mut departures, inbox) = departures(folder.path(), Arc::new(Later::default()));
        leaves(&mut departures, false, "gauge_above");
        assert!(matches!(inbox.try_recv(), Ok(Message::Ended(Ended { cause: "gauge_above", seen: Ok(()), .. }))));
        assert_eq!(std::fs::read_to_string(folder.path().join("docker-0a.scope/cgroup.kill")).unwrap(), "1");
    }

    #[test]
    fn a_dry_run_ends_no_orphan() {
        for dry_run in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            stranger(folder.path(), r#"{"source":"/x/dir_4000000/tmp"}"#);
            let clock = Arc::new(Later::default());
            let (mut departures, inbox) = departures(folder.path(), Arc::clone(&clock) as Arc<dyn Clock>);
            departures.dry_run(dry_run);
            departures.look();
            clock.pass(ORPHAN.as_secs());
            departures.look();
            assert_eq!(folder.path().join("docker-0a.scope/cgroup.kill").exists(), !dry_run);
            assert_eq!(inbox.try_recv().is_ok(), !dry_run);
        }
    }

    /// Time as a test wants it.
    #[derive(Default)]
    struct Later(std::sync::atomic::AtomicU64);

    impl Later {
        fn pass(&self, seconds: u64) {
            self.0.fetch_add(seconds * 1_000_000_000, std::sync::atomic::Ordering::Relaxed);
        }
    }

    impl Clock for Later {
        fn monotonic_ns(&self) -> u64 {
            self.0.load(std::sync::atomic::Ordering::Relaxed)
        }

        fn realtime_ns(&self) -> u64 {
            0
        }
    }
}

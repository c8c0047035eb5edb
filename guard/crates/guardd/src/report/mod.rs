// SPDX-License-Identifier: Apache-2.0
//! The reporter thread: everything about a decision that can be slow. A disk that hangs below the journal holds up
//! this thread and nothing else; what then does not fit into its channel is counted.

mod ended;
mod journal;
mod limits;
mod log;
mod squeezed;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::Arc;
use std::time::Duration;

use intf::journal::{Job, Outcome, Record};
use intf::order::Order;
use intf::shaping::Allowance;
use intf::state::NodeState;
use policy::{Cause, Config, Deed, Event, Hold, Names};

use crate::actuators::freeze::{Effect, EFFECT_DEADLINE_NS};
use crate::actuators::shaping::Fault;
use crate::actuators::squeeze::Squeezed;
use crate::clock::Clock;
use crate::identity::Identities;
use crate::operators::Given;
use crate::shared::{lock, Owner, Shared};
use crate::signals::Reading;
use crate::worker::{Ended, Limited};

pub use journal::JournalFile;
pub use log::Log;

/// Messages that wait for the reporter; 256 decisions are far more than an honest minute has.
pub const QUEUE: usize = 256;

/// What is written so soon is what the guard before has left.
const BEGINS_NS: u64 = 1_000_000_000;

/// How many of the latest records `beer status` shows.
const RECENT: usize = 8;

/// How often it is looked again whose the jobs are of whom that is not known.
const NAME_AGAIN_NS: u64 = 5_000_000_000;
/// And how often, after somebody has come or gone: a description is some 50 KiB to read.
const NAME_AGAIN: u32 = 6;

/// From the control loop.
#[derive(Debug)]
pub enum Message {
    /// Names behind the indices of the events that follow.
    Names(Arc<Names>),
    /// Names of the jobs, by place.
    Jobs(Arc<[Option<Box<str>>]>),
    /// A decision; `written` = the knob was written for it in the same tick, so an effect will follow.
    Decision {
        /// What was decided.
        event: Event,
        /// See above.
        written: bool,
    },
    /// What came of a write.
    Effect(Effect),
    /// A signal has changed how it is doing.
    Signal {
        /// Its name.
        name: &'static str,
        /// How it is doing.
        reading: Reading,
        /// Why, unless it is fine.
        fault: Option<Box<str>>,
    },
    /// The slice of the jobs has appeared, or gone.
    Slice {
        /// Is it there?
        present: bool,
    },
    /// The shaping segment cannot be written, or is not applied; or all is well with it again.
    Shaping {
        /// Why not.
        fault: Option<Fault>,
    },
    /// What became of limits of jobs.
    Limited(Limited),
    /// What batch may do through the storage daemons is less than before.
    Slowed {
        /// How much that is.
        allowance: Allowance,
        /// When it was decided (CLOCK_MONOTONIC).
        decided_ns: u64,
    },
    /// What batch as a whole has is otherwise.
    Squeezed {
        /// What it has.
        outcome: Squeezed,
        /// When it was decided, and when it was so (CLOCK_MONOTONIC).
        decided_ns: u64,
        /// See `decided_ns`.
        ended_ns: u64,
    },
    /// Somebody else had changed what the guard had set; it is put right.
    Drifted {
        /// What, in words.
        of: &'static str,
        /// When it was seen (CLOCK_MONOTONIC).
        at_ns: u64,
    },
    /// Who was ended by force.
    Ended(Ended),
    /// An operator gave an order.
    Order(Given),
    /// The loop ends on purpose.
    Stopping,
}

/// The reporter.
pub struct Reporter {
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
    owner: Owner,
    passwd: PathBuf,
    segment: PathBuf,
    control: PathBuf,
    slice: PathBuf,
    jobs: Arc<[Option<Box<str>>]>,
    identities: Identities,
    journal: JournalFile,
    log: Log,
    names: Arc<Names>,
    /// The decision whose effect is awaited.
    pending: Option<Record>,
    state: NodeState,
    dry_run: bool,
    /// When jobs were last named.
    named_ns: u64,
    /// How often more it is tried.
    name_again: u32,
    /// Whom the kernel may not have stopped yet: they wait for a disk on which they are limited.
    resting: BTreeSet<String>,
    begun_ns: u64,
    stopping: bool,
}

impl Reporter {
    /// Touches nothing yet.
    pub fn new(config: &Config, clock: Arc<dyn Clock>, shared: Arc<Shared>, owner: Owner) -> Self {
        Reporter {
            slice: config.paths.cgroup.join(&config.paths.jobs_slice),
            jobs: Arc::default(),
            identities: Identities::new(Path::new("/"), &config.paths.cgroup.join(&config.paths.jobs_slice)),
            segment: config.latency.segment.clone(),
            control: config.paths.control.clone(),
            journal: JournalFile::new(&config.journal),
            log: Log::default(),
            names: Arc::default(),
            pending: None,
            state: NodeState::Closed,
            dry_run: config.node.dry_run,
            named_ns: 0,
            name_again: 0,
            resting: BTreeSet::new(),
            begun_ns: clock.monotonic_ns(),
            stopping: false,
            passwd: PathBuf::from("/etc/passwd"),
            clock,
            shared,
            owner,
        }
    }

    /// Until the control loop is gone.
    pub fn run(&mut self, inbox: &Receiver<Message>) {
        loop {
            match inbox.recv_timeout(Duration::from_secs(1)) {
                Ok(message) => self.receive(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.housekeeping();
        }
        if let Some(record) = self.pending.take() {
            self.write(record);
        }
        self.journal.close();
    }

    fn receive(&mut self, message: Message) {
        match message {
            Message::Names(names) => {
                (*lock(&self.shared.names)).clone_from(&names);
                self.names = names;
            }
            Message::Jobs(jobs) => {
                self.identities.follow(jobs.iter().flatten().map(|scope| &**scope));
                self.jobs = jobs;
                let jobs = &self.jobs;
                self.resting.retain(|scope| jobs.iter().flatten().any(|job| **job == **scope));
                self.name_again = NAME_AGAIN;
                self.name_jobs();
            }
            Message::Decision { event, written } => self.decision(&event, written),
            Message::Effect(effect) => self.effect(&effect),
            Message::Signal { name, reading, fault } => self.signal(name, reading, fault),
            Message::Slice { present } => self.slice(present),
            Message::Shaping { fault } => self.shaping(fault),
            Message::Limited(limited) => self.limited(&limited),
            Message::Slowed { allowance, decided_ns } => self.slowed(&allowance, decided_ns),
            Message::Squeezed { outcome, decided_ns, ended_ns } => self.squeezed(&outcome, decided_ns, ended_ns),
            Message::Drifted { of, at_ns } => self.drifted(of, at_ns),
            Message::Ended(ended) => self.ended(&ended),
            Message::Order(given) => self.order(given),
            Message::Stopping => self.stopping = true,
        }
    }

    fn decision(&mut self, event: &Event, written: bool) {
        self.state = event.to;
        let mut record = event.record(&self.names, self.realtime_of(event.at_ns));
        record.jobs = self.job_scopes(event.hold);
        if !record.jobs.is_empty() {
            record.jobs_of = self.jobs.iter().flatten().count() as u32;
        }
        match event.deed {
            Deed::Rest => self.resting.extend(record.jobs.iter().map(|job| job.scope.clone())),
            Deed::GoOn => self.resting.retain(|scope| record.jobs.iter().all(|job| job.scope != *scope)),
            _ => {}
        }
        if self.dry_run && event.deed != Deed::None {
            record.outcome = Outcome::Skipped;
            record.detail = "dry run".into();
            return self.write(record);
        }
        if !matches!(
            event.deed,
            Deed::Freeze
                | Deed::Narrow
                | Deed::Widen
                | Deed::Vacate
                | Deed::Evacuate
                | Deed::Thaw
                | Deed::Stage
                | Deed::Rest
                | Deed::GoOn
        ) {
            record.outcome = Outcome::Done;
            return self.write(record);
        }
        if !written {
            record.outcome = Outcome::Done;
            record.detail = "it was so already".into();
            return self.write(record);
        }
        if let Some(first) = self.pending.as_ref().filter(|first| first.monotonic_ns == record.monotonic_ns) {
            (record.outcome, record.detail) = (Outcome::Done, format!("in the same write as `{}`", first.action));
            return self.write(record);
        }
        // A newer write makes the effect of the one before unknowable.
        if let Some(superseded) = self.pending.replace(record) {
            self.write(superseded);
        }
    }

    fn effect(&mut self, effect: &Effect) {
        let mut record = match self.pending.take_if(|record| record.monotonic_ns == effect.decided_ns) {
            Some(record) => record,
            None => self.unasked(effect),
        };
        record.duration_ns = effect.ended_ns.saturating_sub(effect.decided_ns);
        let written_us = effect.written_ns.saturating_sub(effect.decided_ns) / 1000;
        (record.outcome, record.detail) = match &effect.seen {
            Ok(true) => (Outcome::Done, format!("cgroup.freeze written within {written_us} us")),
            // What those had asked for is served as slowly as their limit says.
            Ok(false) if !self.resting.is_empty() => (
                Outcome::Done,
                format!("cgroup.freeze written within {written_us} us; what those who rest wait for takes longer"),
            ),
            Ok(false) => (Outcome::Failed, format!("no effect within {} s", EFFECT_DEADLINE_NS / 1_000_000_000)),
            Err(error) => (Outcome::Failed, format!("{}: {error}", self.slice.display())),
        };
        if record.outcome == Outcome::Failed {
            self.log.warning(&record.detail);
        }
        self.write(record);
    }

    /// An effect without a decision of the ladder: the guard ends, or puts right what somebody else wrote.
    fn unasked(&mut self, effect: &Effect) -> Record {
        // In words of their own: the ladder had no part in it.
        let begins = effect.decided_ns.saturating_sub(self.begun_ns) < BEGINS_NS;
        let cause = match (self.stopping, begins) {
            (true, _) => "the_guard_stops",
            // Of those who rested when the one before ended.
            (false, true) => Cause::Start.name(),
            (false, false) => "somebody_else_had_changed_it",
        };
        let action = if effect.hold.any() { "freeze" } else { "thaw" };
        let mut record = self.own_record(action, cause, effect.decided_ns);
        record.to = if self.stopping { NodeState::Closed } else { self.state };
        record.jobs = self.job_scopes(if effect.hold.any() { effect.hold } else { Hold::All });
        record.outcome = Outcome::Pending;
        record
    }

    fn order(&mut self, given: Given) {
        let mut record = self.own_record(given.order.name(), "operator", given.at_ns);
        if let Order::Freeze { seconds, .. } = given.order {
            record.lasted_ns = Some(u64::from(seconds) * 1_000_000_000);
        }
        (record.detail, record.by) = (given.order.why(), given.by);
        self.write(record);
    }

    /// Of what the ladder did not decide, and what is done by now.
    fn own_record(&self, action: &str, cause: &str, decided_ns: u64) -> Record {
        Record {
            time_ns: self.realtime_of(decided_ns),
            monotonic_ns: decided_ns,
            from: self.state,
            to: self.state,
            cause: cause.into(),
            action: action.into(),
            precaution: false,
            evidence: None,
            jobs: Vec::new(),
            jobs_of: 0,
            outcome: Outcome::Done,
            detail: String::new(),
            by: String::new(),
            duration_ns: 0,
            lasted_ns: None,
            memory: None,
        }
    }

    fn write(&mut self, record: Record) {
        {
            let mut actions = lock(&self.shared.actions);
            let known =
                actions.iter_mut().find(|(action, outcome, _)| *action == record.action && *outcome == record.outcome);
            match known {
                Some((_, _, count)) => *count += 1,
                None => actions.push((record.action.clone(), record.outcome, 1)),
            }
        }
        self.log.notice(&record.sentence());
        match self.journal.append(&record) {
            Ok(()) => Shared::count(&self.shared.journal_records),
            Err(error) => {
                Shared::count(&self.shared.journal_errors);
                self.log.warning(&format!("{error:#}"));
            }
        }
        let mut recent = lock(&self.shared.recent);
        if recent.len() >= RECENT {
            recent.remove(0);
        }
        recent.push(record);
    }

    fn signal(&mut self, name: &'static str, reading: Reading, fault: Option<Box<str>>) {
        let mut faults = lock(&self.shared.faults);
        faults.retain(|(known, _)| *known != name);
        match (reading, fault) {
            (Reading::Value, _) | (_, None) => self.log.notice(&format!("signal {name}: good")),
            (_, Some(fault)) => {
                self.log.warning(&format!("signal {name}: {fault}"));
                faults.push((name, fault.into()));
            }
        }
    }

    fn slice(&mut self, present: bool) {
        let path = self.slice.display();
        if present {
            self.log.notice(&format!("{path}: guarding the jobs in it"));
        } else {
            self.log.warning(&format!("{path}: no such slice; is it started? Nothing may start until it is there"));
        }
    }

    fn shaping(&mut self, fault: Option<Fault>) {
        let path = self.control.display();
        match fault {
            Some(fault) => {
                self.log.warning(&format!("{path}: {fault}: a freeze does not hold batch in storage daemons"))
            }
            None => self.log.notice(&format!("{path}: that is over")),
        }
    }

    /// For `beer status`.
    fn name_jobs(&mut self) {
        self.named_ns = self.clock.monotonic_ns();
        let scopes = self.jobs.iter().enumerate().filter_map(|(place, scope)| Some((place, scope.as_ref()?)));
        let named = scopes.map(|(place, scope)| (place, self.identities.of(scope))).collect();
        *lock(&self.shared.jobs) = named;
    }

    fn housekeeping(&mut self) {
        let now_ns = self.clock.monotonic_ns();
        // Of a container that has just begun not everything can be known.
        if self.name_again > 0 && now_ns.saturating_sub(self.named_ns) > NAME_AGAIN_NS {
            self.name_again -= 1;
            self.name_jobs();
        }
        let overdue = |record: &mut Record| now_ns.saturating_sub(record.monotonic_ns) > 2 * EFFECT_DEADLINE_NS;
        if let Some(mut record) = self.pending.take_if(overdue) {
            record.outcome = Outcome::Failed;
            record.detail = "its effect was never seen".into();
            self.write(record);
        }
        if self.journal.sync(now_ns).is_err() {
            self.shared.journal_errors.fetch_add(1, Ordering::Relaxed);
        }
        if self.owner.get().is_none() && self.owner.resolve(&self.passwd).is_some() {
            self.log.notice(&format!("{}: user `{}` exists now", self.segment.display(), self.owner.name()));
        }
    }

    fn job_scopes(&mut self, hold: Hold) -> Vec<Job> {
        let named = self.jobs.iter().enumerate().filter_map(|(place, name)| Some((place, name.as_ref()?)));
        named.filter(|(place, _)| hold.touches(*place)).map(|(_, scope)| self.identities.of(scope)).collect()
    }

    fn realtime_of(&self, monotonic_ns: u64) -> u64 {
        let ago = self.clock.monotonic_ns().saturating_sub(monotonic_ns);
        self.clock.realtime_ns().saturating_sub(ago)
    }
}

// SPDX-License-Identifier: Apache-2.0
//! The actuator thread: knobs that are slow to turn, because systemd turns them. The control loop says what it wants and
//! goes on; only the last that it wanted counts.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::sync::Arc;
use std::time::Duration;

use crate::actuators::disks::DisksActuator;
use crate::actuators::io_max::{IoMaxActuator, Limit, Outcome};
use crate::actuators::kill::KillActuator;
use crate::actuators::memory_high::MemoryHighActuator;
use crate::actuators::network::NetworkActuator;
use crate::actuators::squeeze::{SqueezeActuator, Squeezed};
use crate::actuators::swap::SwapActuator;
use crate::actuators::vacate::{Leaver, VacateActuator};
use crate::clock::Clock;
use crate::report::Message;
use crate::shared::{lock, Shared};
use departures::Departures;
use policy::{Resource, Shares};

mod departures;

pub use departures::Ended;

/// Wishes that wait; the loop tries again when there are more.
pub const QUEUE: usize = 4;

/// How often it is looked whether somebody else has turned a knob, and whether what failed works now.
const LOOK: Duration = Duration::from_secs(10);

/// How often it is looked whether those are still there who are to leave.
const HURRY: Duration = Duration::from_secs(1);

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
    /// See `io_max`.
    pub memory_high: MemoryHighActuator,
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
    /// Who has not left in time.
    pub kill: KillActuator,
}

/// The thread.
pub struct Worker {
    io_max: IoMaxActuator,
    memory_high: MemoryHighActuator,
    squeeze: SqueezeActuator,
    network: NetworkActuator,
    disks: DisksActuator,
    swap: SwapActuator,
    departures: Departures,
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
    outbox: SyncSender<Message>,
    /// What is wanted now.
    wanted: Arc<[Limit]>,
    shares: Shares,
    data_disks: Arc<[(u32, u32)]>,
    little: bool,
    together: Arc<[Limit]>,
    /// When it was last looked whether a limit is as it was made.
    looked_ns: u64,
    /// Whose limits cannot be set, and that was said.
    failed: BTreeSet<Box<str>>,
    /// The same of what batch as a whole may have.
    stiff: BTreeSet<&'static str>,
}

impl Worker {
    /// Touches nothing yet.
    pub fn new(knobs: Knobs, clock: Arc<dyn Clock>, shared: Arc<Shared>, outbox: SyncSender<Message>) -> Self {
        let Knobs { io_max, memory_high, squeeze, network, disks, swap, vacate, kill } = knobs;
        Worker {
            io_max,
            memory_high,
            squeeze,
            network,
            disks,
            swap,
            departures: Departures::new(vacate, kill, Arc::clone(&clock), Arc::clone(&shared), outbox.clone()),
            clock,
            shared,
            outbox,
            wanted: Arc::default(),
            shares: Shares::default(),
            data_disks: Arc::default(),
            little: false,
            together: Arc::default(),
            looked_ns: 0,
            failed: BTreeSet::new(),
            stiff: Default::default(),
        }
    }

    /// The same, but if this is a dry run orphans are left alone: all else is left alone because the loop wishes for nothing.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.departures.dry_run(dry_run);
        self
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
            let patience = match self.departures.over() {
                _ if self.memory_high.is_due() => Duration::ZERO,
                true => LOOK,
                false => HURRY,
            };
            match next.take().map_or_else(|| inbox.recv_timeout(patience), Ok) {
                Ok(wish) => {
                    let wish = inbox.try_iter().fold(wish, last);
                    let decided_ns = wish.decided_ns;
                    next = self.grant(wish, inbox);
                    if next.is_none() {
                        self.shared.granted_ns.store(decided_ns, Ordering::Relaxed);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.departures.let_go();
                    // One at a time: what the loop wishes for is more urgent.
                    self.memory_high.set_next();
                }
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
        self.departures.close();
    }

    /// Returns the next one, when it came meanwhile.
    fn grant(&mut self, wish: Wish, inbox: &Receiver<Wish>) -> Option<Wish> {
        self.departures.want(wish.leavers, wish.cause);
        self.departures.let_go();
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

    /// What somebody else has changed is put right, and said.
    fn look(&mut self, inbox: &Receiver<Wish>) -> Option<Wish> {
        let decided_ns = self.clock.monotonic_ns();
        self.looked_ns = decided_ns;
        self.departures.look();
        let scratch_on_data = *lock(&self.shared.scratch_on_data);
        let drifts = [
            ("limits of jobs on a disk", self.io_max.drifted()),
            ("the memory at which jobs are slowed", self.memory_high.look(scratch_on_data)),
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
        let (limits, (leavers, cause)) = (Arc::clone(&self.wanted), self.departures.wanted());
        let (disks, little, together) = (Arc::clone(&self.data_disks), self.little, Arc::clone(&self.together));
        let shares = self.shares;
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
mod tests;

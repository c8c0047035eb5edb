// SPDX-License-Identifier: Apache-2.0
//! The actuator thread: knobs that are slow to turn, because systemd turns them. The control loop says what it wants and
//! goes on; only the last that it wanted counts.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::Arc;
use std::time::Duration;

use crate::actuators::io_max::{IoMaxActuator, Limit, Outcome};
use crate::clock::Clock;
use crate::report::Message;
use crate::shared::Shared;

/// Wishes that wait; the loop tries again when there are more.
pub const QUEUE: usize = 4;

/// How often it is looked whether somebody else has turned a knob, and whether what failed works now.
const LOOK: Duration = Duration::from_secs(10);

/// What the control loop wants.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Who is limited, and to what.
    pub limits: Arc<[Limit]>,
    /// Worth a record, whatever comes of it: somebody gets less, or everything back.
    pub said: bool,
    /// When it was decided (CLOCK_MONOTONIC).
    pub decided_ns: u64,
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

/// The thread.
pub struct Worker {
    io_max: IoMaxActuator,
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
    outbox: SyncSender<Message>,
    /// What is wanted now.
    wanted: Arc<[Limit]>,
}

impl Worker {
    /// Touches nothing yet.
    pub fn new(io_max: IoMaxActuator, clock: Arc<dyn Clock>, shared: Arc<Shared>, outbox: SyncSender<Message>) -> Self {
        Worker { io_max, clock, shared, outbox, wanted: Arc::default() }
    }

    /// Until the control loop is gone; then nobody stays limited.
    pub fn run(&mut self, inbox: &Receiver<Wish>) {
        let now_ns = self.clock.monotonic_ns();
        let left = self.io_max.adopt();
        self.tell(left, now_ns, true);
        loop {
            match inbox.recv_timeout(LOOK) {
                Ok(wish) => self.grant(inbox.try_iter().fold(wish, last)),
                Err(RecvTimeoutError::Timeout) => self.look(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.grant(Wish { limits: Arc::default(), said: true, decided_ns: self.clock.monotonic_ns() });
    }

    fn grant(&mut self, wish: Wish) {
        self.wanted = wish.limits;
        let outcomes = self.io_max.make(&self.wanted);
        self.tell(outcomes, wish.decided_ns, wish.said);
    }

    /// What somebody else has changed is put right, and said.
    fn look(&mut self) {
        let now_ns = self.clock.monotonic_ns();
        if self.io_max.drifted() {
            Shared::count(&self.shared.limit_drifts);
        }
        let outcomes = self.io_max.make(&self.wanted);
        self.tell(outcomes, now_ns, true);
    }

    fn tell(&self, mut outcomes: Vec<Outcome>, decided_ns: u64, said: bool) {
        // What becomes more bit by bit would fill the journal.
        outcomes.retain(|outcome| said || outcome.seen.is_err());
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

// SPDX-License-Identifier: Apache-2.0
//! The actuator thread: knobs that are slow to turn, because systemd turns them. The control loop says what it wants and
//! goes on; only the last that it wanted counts.

use std::collections::BTreeSet;
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
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
    /// Whose limits cannot be set, and that was said.
    failed: BTreeSet<Box<str>>,
}

impl Worker {
    /// Touches nothing yet.
    pub fn new(io_max: IoMaxActuator, clock: Arc<dyn Clock>, shared: Arc<Shared>, outbox: SyncSender<Message>) -> Self {
        Worker { io_max, clock, shared, outbox, wanted: Arc::default(), failed: BTreeSet::new() }
    }

    /// Until the control loop is gone; then nobody stays limited.
    pub fn run(&mut self, inbox: &Receiver<Wish>) {
        let now_ns = self.clock.monotonic_ns();
        self.io_max.adopt();
        let mut next = Some(Wish { limits: Arc::default(), said: true, decided_ns: now_ns });
        loop {
            match next.take().map_or_else(|| inbox.recv_timeout(LOOK), Ok) {
                Ok(wish) => next = self.grant(inbox.try_iter().fold(wish, last), inbox),
                Err(RecvTimeoutError::Timeout) => next = self.look(inbox),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let (_, nothing_more) = sync_channel(0);
        self.grant(Wish { limits: Arc::default(), said: true, decided_ns: self.clock.monotonic_ns() }, &nothing_more);
    }

    /// Returns the next one, when it came meanwhile.
    fn grant(&mut self, wish: Wish, inbox: &Receiver<Wish>) -> Option<Wish> {
        self.wanted = wish.limits;
        let mut next = None;
        let outcomes = self.io_max.make(&self.wanted, &mut || {
            next = inbox.try_recv().ok();
            next.is_some()
        });
        self.tell(outcomes, wish.decided_ns, wish.said);
        // Of what was left undone for it something may have to be said.
        next.map(|next| Wish { said: next.said || wish.said, ..next })
    }

    /// What somebody else has changed is put right, and said.
    fn look(&mut self, inbox: &Receiver<Wish>) -> Option<Wish> {
        let decided_ns = self.clock.monotonic_ns();
        if self.io_max.drifted() {
            Shared::count(&self.shared.limit_drifts);
        }
        self.grant(Wish { limits: Arc::clone(&self.wanted), said: true, decided_ns }, inbox)
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
        Limit { scope: "container".into(), device: (8, 16), requests: 40, bytes: 1 << 20 }
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
        let io_max = IoMaxActuator::new(folder.path(), folder.path(), Path::new("systemctl"), Duration::from_secs(5));
        let (outbox, inbox) = sync_channel(16);
        let mut worker = Worker::new(io_max, Arc::new(SystemClock), Arc::default(), outbox);
        let wish = |said| Wish { limits: [limit()].into(), said, decided_ns: 1 };
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
    }

    #[test]
    fn the_end_of_the_loop_lifts_everything() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("container")).unwrap();
        std::fs::write(folder.path().join("container/io.max"), "").unwrap();
        let io_max = IoMaxActuator::new(folder.path(), folder.path(), Path::new("systemctl"), Duration::from_secs(5));
        let (outbox, inbox) = sync_channel(16);
        let (wishes, wished) = sync_channel(QUEUE);
        wishes.send(Wish { limits: Arc::default(), said: true, decided_ns: 1 }).unwrap();
        wishes.send(Wish { limits: [limit()].into(), said: false, decided_ns: 2 }).unwrap();
        drop(wishes);
        Worker::new(io_max, Arc::new(SystemClock), Arc::default(), outbox).run(&wished);
        assert_eq!(heard(&inbox), [(true, true), (false, true)]);
        assert!(std::fs::read_to_string(folder.path().join("container/io.max")).unwrap().contains("riops=max"));
    }
}

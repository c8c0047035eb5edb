// SPDX-License-Identifier: Apache-2.0
//! What the ladder wants becomes writes: of `cgroup.freeze` and the shaping segment at once, of all else by the thread that can wait.

use std::sync::atomic::Ordering;
use std::sync::mpsc::TrySendError;
use std::sync::Arc;

use intf::state::NodeState;
use policy::throttle::DISKS;
use policy::{Actions, Hold, JobSet, Resource};

use super::{deliver, ControlLoop};
use crate::actuators::freeze::Effect;
use crate::actuators::{Freezer, Held, Wanted};
use crate::report::Message;
use crate::worker::Wish;

/// Less CPU is waited for so long at most.
const LESS_AWAITED_NS: u64 = 2_000_000_000;

impl<F: Freezer> ControlLoop<F> {
    /// The write comes before everything that only tells of it. Returns whether there was one, and its effect if
    /// that (or the effect of an earlier one) can be seen by now.
    pub(super) fn act(&mut self, actions: &Actions, now_ns: u64) -> (bool, Option<Effect>) {
        if self.config.node.dry_run {
            return (false, None);
        }
        let clock = &self.clock;
        let hold = actions.hold.of_living(&self.board.jobs.living());
        // Who is to leave must be able to: its engine first kills what is in the container, and then its monitor has to run. So it
        // has to when somebody else has ended the container.
        let leaves = actions.leave.any() || self.board.jobs.bereft();
        self.freezer.hurry(actions.hold.any(), leaves);
        let hold = if leaves { self.board.jobs.sparing_monitors(hold) } else { hold };
        let rest = actions.resting.and(&self.board.jobs.living());
        let hold = hold.or(Hold::of(rest));
        let outcome = match self.freezer.plan(hold) {
            Some(hold) => (true, self.freezer.apply(hold, now_ns, || clock.monotonic_ns())),
            None => (false, self.freezer.read_back(now_ns)),
        };
        // To signals who rests does not stand still: it is no freeze, and lasts for long.
        let both = match actions.hold {
            Hold::Nobody => JobSet::default(),
            Hold::Jobs(jobs) => jobs,
            Hold::All => rest,
        };
        self.board.hold = self.freezer.applied().without(&rest.without(&both));
        self.board.throttles = actions.throttles;
        self.wish(actions, now_ns);
        self.shaping.heard(self.board.shaping_applied, now_ns);
        self.shaping.keep(self.wanted(actions, now_ns), now_ns);
        let fault = self.shaping.fault(now_ns);
        if std::mem::replace(&mut self.shaping_fault, fault) != fault {
            self.send(Message::Shaping { fault });
        }
        outcome
    }

    /// Has systemd still to be told of less CPU? For some time only: it may hang.
    pub(super) fn less_awaited(&mut self, now_ns: u64) -> bool {
        let granted_ns = self.shared.granted_ns.load(Ordering::Relaxed);
        self.less_ns = self.less_ns.filter(|less_ns| granted_ns < *less_ns && now_ns < less_ns + LESS_AWAITED_NS);
        self.less_ns.is_some()
    }

    /// Who gets how much of which disk, and who is to leave; the thread that tells systemd and HTCondor does the rest.
    fn wish(&mut self, actions: &Actions, now_ns: u64) {
        let limits = self.limits.follow(&actions.throttles, &self.board);
        let before = std::mem::replace(&mut self.shares, actions.shares);
        if actions.shares.of(Resource::Cpu) < before.of(Resource::Cpu) {
            self.less_ns = Some(now_ns);
        }
        let less_or_all = |resource| {
            let (before, now) = (before.of(resource), actions.shares.of(resource));
            now < before || (now >= 1.0 && before < 1.0)
        };
        let leaving = self.leaving.follow(actions, &self.board.jobs);
        let other_disks = self.data_disks.follow(&self.board);
        let turned = self.data_disks.turn(actions.least);
        if leaving || limits.is_some() || before != self.shares || other_disks || turned {
            let said = limits == Some(true) || turned || Resource::ALL.into_iter().any(less_or_all);
            let said = said || self.unsent.take().is_some_and(|unsent| unsent.said);
            // Who waits for a disk behind all the others cannot end.
            let together = if actions.leave.any() { Arc::default() } else { self.limits.together() };
            let limits = self.limits.jobs();
            let (shares, leavers) = (self.shares, self.leaving.list());
            let (disks, little) = (self.data_disks.list(), self.data_disks.little());
            let (cause, decided_ns) = (actions.reason.name(), now_ns);
            self.unsent = Some(Wish { limits, said, shares, disks, little, together, leavers, cause, decided_ns });
        }
        for allowance in self.limits.slowed() {
            deliver(&self.outbox, &self.shared, Message::Slowed { allowance, decided_ns: now_ns });
        }
        if let Some(wish) = self.unsent.take() {
            if let Err(TrySendError::Full(wish)) = self.worker.try_send(wish) {
                self.unsent = Some(wish);
            }
        }
    }

    fn wanted(&self, actions: &Actions, now_ns: u64) -> Wanted {
        let held = self.held(actions, now_ns);
        if actions.least {
            return Wanted { held, ..Wanted::least() };
        }
        let mut slow = [None; DISKS];
        slow.iter_mut().zip(self.limits.daemons()).for_each(|(place, allowance)| *place = Some(*allowance));
        Wanted { held, slow }
    }

    /// What the guilty made slow batch shall leave alone in the storage daemons too: whose requests they are is not known there.
    fn held(&self, actions: &Actions, now_ns: u64) -> Held {
        let device = |filesystem: u16| {
            let filesystem = self.board.filesystems.get(usize::from(filesystem))?;
            Some(Held::Device((filesystem.major, filesystem.minor)))
        };
        match actions.hold {
            // It lasts for long, with or without jobs here, and batch of other nodes may have no part in it, or all of it.
            _ if actions.state == NodeState::Emergency => match now_ns < self.uneasy_until_ns {
                true => Held::Everything,
                false => Held::Nothing,
            },
            Hold::Nobody => Held::Nothing,
            _ if actions.thawing => Held::Nothing,
            // Who leaves for another reason has no part in what goes through the daemons.
            Hold::Jobs(_) if actions.filesystem.is_none() && actions.leave.any() => Held::Nothing,
            Hold::Jobs(_) => actions.filesystem.and_then(device).unwrap_or(Held::Everything),
            Hold::All => Held::Everything,
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! `cgroup.freeze` of beer-jobs.slice and of the jobs in it: the one knob that works in milliseconds. A child cannot run
//! below a frozen parent, so either the slice stands still, or some of its jobs do.
//!
//! The kernel answers the write at once and reports `frozen 1` in `cgroup.events` when the last task stands still;
//! a task in an uninterruptible wait delays that until its I/O returns. So the write and its effect are two times.

mod brakes;
mod knob;
mod slice;

use std::os::fd::BorrowedFd;

use policy::Hold;
use rustix::io::Errno;

use crate::jobs::JobTable;

pub(super) use brakes::IDLE_LIFTED;
pub use slice::SliceFreezer;

/// After this long a write without effect is reported as such (DESIGN 4.5: at most 10 s).
pub const EFFECT_DEADLINE_NS: u64 = 10_000_000_000;

/// Why a write failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreezeError {
    /// There is no such slice now.
    Missing,
    /// The kernel refused.
    Refused(Errno),
}

impl std::fmt::Display for FreezeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FreezeError::Missing => f.write_str("the slice is missing"),
            FreezeError::Refused(errno) => write!(f, "writing cgroup.freeze: {errno}"),
        }
    }
}

/// The knobs themselves; tests record what is done to them.
pub trait Freezer: Send {
    /// Asks for these to stand still and for all others to run.
    ///
    /// # Errors
    /// The slice is not there, or the kernel refuses.
    fn write(&mut self, hold: Hold) -> Result<(), FreezeError>;
    /// What was last asked for, by anybody; `None` = no slice.
    fn asked(&mut self) -> Option<Hold>;
    /// Is it so, as far as it was ours to do? `None` = no slice.
    fn stands(&mut self, hold: Hold) -> Option<bool>;
    /// Lifts what keeps them from the CPU that they need in order to stand still or to end, or puts it back.
    fn ease(&mut self, ease: Ease);
    /// Becomes ready (`POLLPRI`) when that may have changed.
    fn changes(&self) -> Option<BorrowedFd<'_>>;
    /// Jobs have come or gone.
    fn know(&mut self, jobs: &JobTable);
}

/// Who needs CPU for what he is told to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ease {
    /// All is as it was.
    #[default]
    Nobody,
    /// Some, and others run.
    Some,
    /// All of them, and nobody is to run.
    All,
}

/// What came of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    /// Who was to stand still.
    pub hold: Hold,
    /// When it was decided (CLOCK_MONOTONIC).
    pub decided_ns: u64,
    /// When the write had returned.
    pub written_ns: u64,
    /// When the kernel reported the effect, or the attempt ended.
    pub ended_ns: u64,
    /// Seen in the kernel, or why not; `Ok(false)` = not within [`EFFECT_DEADLINE_NS`].
    pub seen: Result<bool, FreezeError>,
}

/// Keeps the slice as it is wanted.
pub struct FreezeActuator<F> {
    freezer: F,
    applied: Hold,
    pending: Option<Effect>,
    /// It is a freeze, and no rest, which is in no hurry.
    urgent: bool,
    /// Somebody is to end.
    leaving: bool,
    /// The last write failed like this; it is tried again at every tick, but told once.
    failed: Option<FreezeError>,
}

impl<F: Freezer> FreezeActuator<F> {
    /// Takes over what is there: [`Self::applied`] then tells whether batch was found frozen.
    pub fn new(mut freezer: F) -> Self {
        let applied = freezer.asked().unwrap_or_default();
        FreezeActuator { freezer, applied, pending: None, urgent: true, leaving: false, failed: None }
    }

    /// Who stands still, as far as was asked for.
    pub fn applied(&self) -> Hold {
        self.applied
    }

    /// The change that is needed, if any.
    pub fn plan(&self, want: Hold) -> Option<Hold> {
        (want != self.applied).then_some(want)
    }

    /// Makes the change. An effect that is complete already is returned at once.
    pub fn apply(&mut self, hold: Hold, decided_ns: u64, now: impl Fn() -> u64) -> Option<Effect> {
        if !hold.any() {
            // Before anybody runs.
            self.ease(hold, true);
        }
        let written = self.freezer.write(hold);
        let written_ns = now();
        let mut effect = Effect { hold, decided_ns, written_ns, ended_ns: written_ns, seen: Ok(false) };
        match written {
            Ok(()) => {
                self.applied = hold;
                self.failed = None;
                self.pending = Some(effect);
                self.read_back(written_ns)
            }
            Err(error) => {
                effect.seen = Err(error);
                self.pending = None;
                let told = self.failed.replace(error) == Some(error);
                (!told).then_some(effect)
            }
        }
    }

    /// Waits for the effect without waiting: call it at every tick, or when [`Self::awaited`] is ready.
    pub fn read_back(&mut self, now_ns: u64) -> Option<Effect> {
        let mut effect = self.pending?;
        effect.ended_ns = now_ns;
        let stands = self.freezer.stands(effect.hold);
        self.ease(effect.hold, stands != Some(false));
        match stands {
            Some(true) => effect.seen = Ok(true),
            None => effect.seen = Err(FreezeError::Missing),
            Some(false) if now_ns.saturating_sub(effect.written_ns) >= EFFECT_DEADLINE_NS => {}
            Some(false) => return None,
        }
        self.pending = None;
        Some(effect)
    }

    /// What becomes ready when the effect of the last write can be seen.
    pub fn awaited(&self) -> Option<BorrowedFd<'_>> {
        self.pending.and_then(|_| self.freezer.changes())
    }

    /// Compares with the kernel; somebody else (the dead-man timer, systemd, an operator) may have written.
    /// Returns whether the slice is there; the next [`Self::plan`] puts a difference right.
    pub fn inspect(&mut self) -> Option<Drift> {
        let asked = self.freezer.asked()?;
        let drift = asked != self.applied;
        self.applied = asked;
        if drift {
            self.pending = None;
        }
        if self.pending.is_none() {
            // Nobody waits for it any more, or an earlier guard began it. While others run they do not wait for who hangs on a disk.
            let stands = asked != Hold::All || self.freezer.stands(asked) != Some(false);
            self.ease(asked, stands);
        }
        Some(if drift { Drift::Changed } else { Drift::None })
    }

    /// Is what is held a freeze, and is somebody to end?
    pub fn hurry(&mut self, freeze: bool, leaving: bool) {
        (self.urgent, self.leaving) = (freeze, leaving);
    }

    /// `stands` = it is so.
    fn ease(&mut self, hold: Hold, stands: bool) {
        self.freezer.ease(match (hold, self.urgent && !stands) {
            (Hold::All, true) => Ease::All,
            (Hold::Jobs(_), true) => Ease::Some,
            _ if self.leaving => Ease::Some,
            _ => Ease::Nobody,
        });
    }

    /// Jobs have come or gone; to who has gone nothing more can be done.
    pub fn know(&mut self, jobs: &JobTable) {
        self.freezer.know(jobs);
        let living = jobs.living();
        self.applied = self.applied.of_living(&living);
        if let Some(effect) = &mut self.pending {
            effect.hold = effect.hold.of_living(&living);
        }
    }

    /// Thaws, when the guard ends on purpose.
    pub fn undo(&mut self, now: impl Fn() -> u64) -> Option<Effect> {
        let decided_ns = now();
        self.plan(Hold::Nobody).and_then(|thaw| self.apply(thaw, decided_ns, now))
    }
}

/// Result of a comparison with the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// As we left it.
    None,
    /// Somebody else changed it.
    Changed,
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

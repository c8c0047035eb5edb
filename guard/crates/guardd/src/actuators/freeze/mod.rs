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
    /// Is it so, as far as it was ours to do? `None` = no slice. Until it is they get the CPU that they need for it.
    fn stands(&mut self, hold: Hold) -> Option<bool>;
    /// Somebody is to end, and needs CPU for that.
    fn leaving(&mut self, somebody: bool);
    /// Becomes ready (`POLLPRI`) when that may have changed.
    fn changes(&self) -> Option<BorrowedFd<'_>>;
    /// Jobs have come or gone.
    fn know(&mut self, jobs: &JobTable);
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
    /// The last write failed like this; it is tried again at every tick, but told once.
    failed: Option<FreezeError>,
}

impl<F: Freezer> FreezeActuator<F> {
    /// Takes over what is there: [`Self::applied`] then tells whether batch was found frozen.
    pub fn new(mut freezer: F) -> Self {
        let applied = freezer.asked().unwrap_or_default();
        FreezeActuator { freezer, applied, pending: None, failed: None }
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
        match self.freezer.stands(effect.hold) {
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
        // Also where nobody waits for it any more, or an earlier guard began it.
        self.freezer.stands(asked);
        Some(if drift { Drift::Changed } else { Drift::None })
    }

    /// Is somebody to end?
    pub fn leaving(&mut self, somebody: bool) {
        self.freezer.leaving(somebody);
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

// SPDX-License-Identifier: Apache-2.0
//! `cgroup.freeze` of beer-jobs.slice: the one knob that works in milliseconds.
//!
//! The kernel answers the write at once and reports `frozen 1` in `cgroup.events` when the last task stands still;
//! a task in an uninterruptible wait delays that until its I/O returns. So the write and its effect are two times.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

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

/// The knob itself; tests record what is done to it.
pub trait Freezer: Send {
    /// Asks for frozen or thawed.
    ///
    /// # Errors
    /// The slice is not there, or the kernel refuses.
    fn write(&mut self, freeze: bool) -> Result<(), FreezeError>;
    /// What was last asked for, by anybody; `None` = no slice.
    fn asked(&mut self) -> Option<bool>;
    /// Does everything in it stand still? `None` = no slice.
    fn frozen(&mut self) -> Option<bool>;
    /// Becomes ready (`POLLPRI`) when `frozen` may have changed.
    fn changes(&self) -> Option<BorrowedFd<'_>>;
}

/// The freezer of one slice in the kernel.
#[derive(Debug)]
pub struct SliceFreezer {
    slice: PathBuf,
    freeze: Option<OwnedFd>,
    events: Option<OwnedFd>,
}

impl SliceFreezer {
    /// `slice` is the folder of the cgroup; it may appear later.
    pub fn new(slice: impl Into<PathBuf>) -> Self {
        let mut freezer = SliceFreezer { slice: slice.into(), freeze: None, events: None };
        freezer.open();
        freezer
    }

    /// The folder of the cgroup.
    pub fn slice(&self) -> &Path {
        &self.slice
    }

    /// Opens what is not open. Descriptors of a removed cgroup answer `ENODEV` for ever and are dropped then.
    fn open(&mut self) {
        let open = |name: &str, flags| rustix::fs::open(self.slice.join(name), flags | OFlags::CLOEXEC, Mode::empty());
        if self.freeze.is_none() {
            self.freeze = open("cgroup.freeze", OFlags::RDWR).ok();
        }
        if self.events.is_none() {
            self.events = open("cgroup.events", OFlags::RDONLY).ok();
        }
    }

    fn close(&mut self) {
        self.freeze = None;
        self.events = None;
    }

    /// Does it on the open descriptors; if they are of a removed cgroup, once more on those of its successor.
    fn twice<T>(&mut self, work: impl Fn(&OwnedFd, &OwnedFd) -> Result<T, Errno>) -> Result<T, FreezeError> {
        for _ in 0..2 {
            self.open();
            let (Some(freeze), Some(events)) = (&self.freeze, &self.events) else {
                self.close();
                return Err(FreezeError::Missing);
            };
            match work(freeze, events) {
                Ok(value) => return Ok(value),
                Err(Errno::NODEV) => self.close(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(FreezeError::Refused(errno)),
            }
        }
        Err(FreezeError::Missing)
    }
}

impl Freezer for SliceFreezer {
    fn write(&mut self, freeze: bool) -> Result<(), FreezeError> {
        let text: &[u8] = if freeze { b"1" } else { b"0" };
        self.twice(|knob, _| rustix::io::pwrite(knob, text, 0).map(drop))
    }

    fn asked(&mut self) -> Option<bool> {
        let text = self.twice(|knob, _| {
            let mut text = [0; 8];
            rustix::io::pread(knob, &mut text, 0).map(|_| text)
        });
        text.ok().map(|text| text.first() == Some(&b'1'))
    }

    fn frozen(&mut self) -> Option<bool> {
        let text = self.twice(|_, events| {
            let mut text = [0; 128];
            rustix::io::pread(events, &mut text, 0).map(|length| (text, length))
        });
        let (text, length) = text.ok()?;
        let text = text.get(..length)?;
        Some(text.windows(8).any(|window| window == b"frozen 1"))
    }

    fn changes(&self) -> Option<BorrowedFd<'_>> {
        self.events.as_ref().map(AsFd::as_fd)
    }
}

/// What came of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    /// Frozen or thawed.
    pub freeze: bool,
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
    applied: bool,
    pending: Option<Effect>,
    /// The last write failed like this; it is tried again at every tick, but told once.
    failed: Option<FreezeError>,
}

impl<F: Freezer> FreezeActuator<F> {
    /// Takes over what is there: [`Self::applied`] then tells whether batch was found frozen.
    pub fn new(mut freezer: F) -> Self {
        let applied = freezer.asked().unwrap_or(false);
        FreezeActuator { freezer, applied, pending: None, failed: None }
    }

    /// Is batch frozen, as far as was asked for?
    pub fn applied(&self) -> bool {
        self.applied
    }

    /// The change that is needed, if any.
    pub fn plan(&self, want: bool) -> Option<bool> {
        (want != self.applied).then_some(want)
    }

    /// Makes the change. An effect that is complete already is returned at once.
    pub fn apply(&mut self, freeze: bool, decided_ns: u64, now: impl Fn() -> u64) -> Option<Effect> {
        let written = self.freezer.write(freeze);
        let written_ns = now();
        let mut effect = Effect { freeze, decided_ns, written_ns, ended_ns: written_ns, seen: Ok(false) };
        match written {
            Ok(()) => {
                self.applied = freeze;
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
        match self.freezer.frozen() {
            Some(frozen) if frozen == effect.freeze => effect.seen = Ok(true),
            None => effect.seen = Err(FreezeError::Missing),
            Some(_) if now_ns.saturating_sub(effect.written_ns) >= EFFECT_DEADLINE_NS => {}
            Some(_) => return None,
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
        Some(if drift { Drift::Changed } else { Drift::None })
    }

    /// Thaws, when the guard ends on purpose.
    pub fn undo(&mut self, now: impl Fn() -> u64) -> Option<Effect> {
        let decided_ns = now();
        self.plan(false).and_then(|thaw| self.apply(thaw, decided_ns, now))
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
pub(crate) mod testing {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// What a recording knob was told, and what it answers.
    #[derive(Debug, Default)]
    pub struct Recording {
        /// Every write.
        pub writes: Vec<bool>,
        /// What the kernel says was asked for.
        pub asked: bool,
        /// What the kernel says is so.
        pub frozen: bool,
        /// The effect does not follow the write by itself.
        pub slow: bool,
        /// Writes fail like this.
        pub error: Option<FreezeError>,
        /// There is no slice.
        pub missing: bool,
    }

    /// A knob that records.
    #[derive(Clone, Debug, Default)]
    pub struct RecordingFreezer(pub Arc<Mutex<Recording>>);

    impl Freezer for RecordingFreezer {
        fn write(&mut self, freeze: bool) -> Result<(), FreezeError> {
            let mut recording = self.0.lock().unwrap();
            recording.writes.push(freeze);
            if recording.missing {
                return Err(FreezeError::Missing);
            }
            if let Some(error) = recording.error {
                return Err(error);
            }
            recording.asked = freeze;
            if !recording.slow {
                recording.frozen = freeze;
            }
            Ok(())
        }
        fn asked(&mut self) -> Option<bool> {
            let recording = self.0.lock().unwrap();
            (!recording.missing).then_some(recording.asked)
        }
        fn frozen(&mut self) -> Option<bool> {
            let recording = self.0.lock().unwrap();
            (!recording.missing).then_some(recording.frozen)
        }
        fn changes(&self) -> Option<BorrowedFd<'_>> {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::RecordingFreezer;
    use super::*;

    #[test]
    fn writes_only_what_differs_and_sees_the_effect() {
        let knob = RecordingFreezer::default();
        let mut actuator = FreezeActuator::new(knob.clone());
        assert_eq!(actuator.plan(false), None);
        assert_eq!(actuator.plan(true), Some(true));
        let effect = actuator.apply(true, 5, || 7).unwrap();
        let expected = Effect { freeze: true, decided_ns: 5, written_ns: 7, ended_ns: 7, seen: Ok(true) };
        assert_eq!(effect, expected);
        assert_eq!(actuator.plan(true), None);
        assert_eq!(knob.0.lock().unwrap().writes, [true]);
    }

    #[test]
    fn a_slow_effect_is_waited_for_and_given_up_at_its_deadline() {
        let knob = RecordingFreezer::default();
        knob.0.lock().unwrap().slow = true;
        let mut actuator = FreezeActuator::new(knob.clone());
        assert_eq!(actuator.apply(true, 0, || 1), None);
        assert_eq!(actuator.read_back(400_000_000), None);
        knob.0.lock().unwrap().frozen = true;
        assert_eq!(actuator.read_back(500_000_000).unwrap().seen, Ok(true));
        assert_eq!(actuator.read_back(600_000_000), None, "told once");

        assert_eq!(actuator.apply(false, 0, || 1), None);
        assert_eq!(actuator.read_back(EFFECT_DEADLINE_NS), None);
        assert_eq!(actuator.read_back(EFFECT_DEADLINE_NS + 1).unwrap().seen, Ok(false));
    }

    #[test]
    fn a_failure_is_told_once_and_tried_again() {
        let knob = RecordingFreezer::default();
        knob.0.lock().unwrap().error = Some(FreezeError::Refused(Errno::BUSY));
        let mut actuator = FreezeActuator::new(knob.clone());
        assert_eq!(actuator.apply(true, 0, || 1).unwrap().seen, Err(FreezeError::Refused(Errno::BUSY)));
        assert_eq!(actuator.plan(true), Some(true));
        assert_eq!(actuator.apply(true, 0, || 1), None);
        knob.0.lock().unwrap().error = None;
        assert_eq!(actuator.apply(true, 0, || 1).unwrap().seen, Ok(true));
        assert_eq!(knob.0.lock().unwrap().writes.len(), 3);
    }

    #[test]
    fn adopts_inspects_and_undoes() {
        let knob = RecordingFreezer::default();
        knob.0.lock().unwrap().asked = true;
        let mut actuator = FreezeActuator::new(knob.clone());
        assert!(actuator.applied());
        assert_eq!(actuator.inspect(), Some(Drift::None));
        knob.0.lock().unwrap().asked = false;
        assert_eq!(actuator.inspect(), Some(Drift::Changed));
        assert_eq!(actuator.plan(true), Some(true), "put right at the next tick");
        actuator.apply(true, 0, || 1);
        assert_eq!(actuator.undo(|| 2).unwrap().seen, Ok(true));
        assert_eq!(actuator.undo(|| 2), None);
        knob.0.lock().unwrap().missing = true;
        assert_eq!(actuator.inspect(), None);
    }

    #[test]
    fn a_slice_that_is_not_there() {
        let mut freezer = SliceFreezer::new("/nowhere/beer-jobs.slice");
        assert_eq!(freezer.write(true), Err(FreezeError::Missing));
        assert_eq!((freezer.asked(), freezer.frozen()), (None, None));
    }
}

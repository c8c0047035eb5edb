// SPDX-License-Identifier: Apache-2.0
//! `cgroup.freeze` of beer-jobs.slice and of the jobs in it: the one knob that works in milliseconds. A child cannot run
//! below a frozen parent, so either the slice stands still, or some of its jobs do.
//!
//! The kernel answers the write at once and reports `frozen 1` in `cgroup.events` when the last task stands still;
//! a task in an uninterruptible wait delays that until its I/O returns. So the write and its effect are two times.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use policy::{Hold, JobSet};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::jobs::JobTable;

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
    /// Becomes ready (`POLLPRI`) when that may have changed.
    fn changes(&self) -> Option<BorrowedFd<'_>>;
    /// Jobs have come or gone.
    fn know(&mut self, jobs: &JobTable);
}

/// `cgroup.freeze` and `cgroup.events` of one cgroup in the kernel.
#[derive(Debug)]
struct Knob {
    cgroup: PathBuf,
    freeze: Option<OwnedFd>,
    events: Option<OwnedFd>,
}

impl Knob {
    /// The cgroup may appear later.
    fn new(cgroup: PathBuf) -> Self {
        let mut knob = Knob { cgroup, freeze: None, events: None };
        // So that nothing has to be opened when it matters.
        let _ = knob.open();
        knob
    }

    /// Opens what is not open. Descriptors of a removed cgroup answer `ENODEV` for ever and are dropped then.
    fn open(&mut self) -> Result<(&OwnedFd, &OwnedFd), Errno> {
        let open = |name: &str, flags| rustix::fs::open(self.cgroup.join(name), flags | OFlags::CLOEXEC, Mode::empty());
        let freeze = match self.freeze.take() {
            Some(freeze) => freeze,
            None => open("cgroup.freeze", OFlags::RDWR)?,
        };
        let events = match self.events.take() {
            Some(events) => events,
            None => open("cgroup.events", OFlags::RDONLY)?,
        };
        Ok((self.freeze.insert(freeze), self.events.insert(events)))
    }

    fn close(&mut self) {
        self.freeze = None;
        self.events = None;
    }

    /// Does it on the open descriptors; if they are of a removed cgroup, once more on those of its successor.
    fn twice<T>(&mut self, work: impl Fn(&OwnedFd, &OwnedFd) -> Result<T, Errno>) -> Result<T, FreezeError> {
        for _ in 0..2 {
            match self.open().and_then(|(freeze, events)| work(freeze, events)) {
                Ok(value) => return Ok(value),
                Err(Errno::NODEV | Errno::NOENT | Errno::NOTDIR) => self.close(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(FreezeError::Refused(errno)),
            }
        }
        Err(FreezeError::Missing)
    }

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
}

/// One job's knob.
#[derive(Debug)]
struct JobKnob {
    number: u64,
    knob: Knob,
}

/// The freezers of a slice and of the jobs in it.
#[derive(Debug)]
pub struct SliceFreezer {
    slice: Knob,
    /// By place.
    jobs: Vec<Option<JobKnob>>,
    /// Whom we froze, or found frozen when we came. Who stands still otherwise was suspended by somebody else
    /// (`condor_suspend`, `docker pause`), which is no business of ours.
    ours: JobSet,
    /// The jobs have been looked at.
    known: bool,
    /// Whose effect is awaited; `None` = the slice's.
    awaited: Option<usize>,
    /// Inode numbers of `ours`, for who comes after us.
    memory: Option<OwnedFd>,
    /// What the one before us had written there; `None` = nothing is known.
    before: Option<Vec<u64>>,
}

impl SliceFreezer {
    /// `slice` is the folder of the cgroup; it may appear later.
    pub fn new(slice: impl Into<PathBuf>) -> Self {
        SliceFreezer {
            slice: Knob::new(slice.into()),
            jobs: Vec::new(),
            ours: JobSet::default(),
            known: false,
            awaited: None,
            memory: None,
            before: None,
        }
    }

    /// One that keeps in mind in the run folder whom it has frozen, and knows whom the one before had.
    pub fn remembering(slice: impl Into<PathBuf>, run: &Path) -> Self {
        let path = run.join(Self::MEMORY);
        let bytes = std::fs::read(&path).ok();
        let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        SliceFreezer {
            before: bytes.map(|bytes| bytes.chunks_exact(8).filter_map(number).collect()),
            memory: rustix::fs::open(&path, flags, Mode::from_raw_mode(0o600)).ok(),
            ..SliceFreezer::new(slice)
        }
    }

    /// Name of the file in the run folder.
    pub const MEMORY: &'static str = "held";

    /// The folder of the cgroup.
    pub fn slice(&self) -> &Path {
        &self.slice.cgroup
    }

    fn jobs(&mut self) -> impl Iterator<Item = (usize, &mut Knob)> {
        self.jobs.iter_mut().enumerate().filter_map(|(place, job)| Some((place, &mut job.as_mut()?.knob)))
    }

    /// Freezes these and thaws those of ours that are not among them. A job that has ended in the meantime is no failure.
    fn write_jobs(&mut self, set: &JobSet) -> Result<(), FreezeError> {
        let mut outcome = Ok(());
        let mut ours = self.ours;
        // Known before it is done: a guard that comes back must know whom to thaw.
        self.remember(&ours.or(set));
        for (place, knob) in self.jobs() {
            let freeze = set.contains(place);
            let wanted = match freeze {
                // Who stands still already was suspended by somebody else, and stays so when we thaw.
                true => ours.contains(place) || knob.asked() != Some(true),
                false => ours.contains(place),
            };
            if !wanted {
                continue;
            }
            match knob.write(freeze) {
                Ok(()) if freeze => ours.insert(place),
                Ok(()) | Err(FreezeError::Missing) => ours.remove(place),
                error => outcome = error,
            }
        }
        self.ours = ours;
        self.remember(&ours);
        outcome
    }

    /// Writes down whose freeze is ours. Below /run: waits for no disk. Without it all that is found frozen counts as ours.
    fn remember(&mut self, ours: &JobSet) {
        let Some(file) = &self.memory else { return };
        let mut text = [0u8; JobSet::PLACES * 8];
        let mut used = 0;
        for place in ours.iter() {
            if let Some(Some(job)) = self.jobs.get(place) {
                text[used..used + 8].copy_from_slice(&job.number.to_le_bytes());
                used += 8;
            }
        }
        if rustix::fs::ftruncate(file, used as u64).is_ok() {
            let _ = rustix::io::pwrite(file, &text[..used], 0);
        }
    }
}

impl Freezer for SliceFreezer {
    fn write(&mut self, hold: Hold) -> Result<(), FreezeError> {
        match hold {
            // The kernel remembers what was asked of the jobs; below a frozen slice it makes no difference.
            Hold::All => self.slice.write(true),
            // First they, then their parent: nobody runs for a moment who is not to.
            Hold::Jobs(set) => self.write_jobs(&set).and_then(|()| self.slice.write(false)),
            Hold::Nobody => self.write_jobs(&JobSet::default()).and(self.slice.write(false)),
        }
    }

    fn asked(&mut self) -> Option<Hold> {
        if self.slice.asked()? {
            return Some(Hold::All);
        }
        let ours = self.ours;
        let ask = |(place, knob): (usize, &mut Knob)| (ours.contains(place) && knob.asked()?).then_some(place);
        let set: JobSet = self.jobs().filter_map(ask).collect();
        Some(if set.is_empty() { Hold::Nobody } else { Hold::Jobs(set) })
    }

    fn stands(&mut self, hold: Hold) -> Option<bool> {
        self.awaited = None;
        let frozen = self.slice.frozen()?;
        let Hold::Jobs(set) = hold else { return Some(frozen == hold.any()) };
        if frozen {
            return Some(false);
        }
        let runs = |(place, knob): (usize, &mut Knob)| (set.contains(place) && !knob.frozen()?).then_some(place);
        let running = self.jobs().find_map(runs);
        self.awaited = running;
        Some(self.awaited.is_none())
    }

    fn changes(&self) -> Option<BorrowedFd<'_>> {
        let knob = match self.awaited {
            Some(place) => &self.jobs.get(place)?.as_ref()?.knob,
            None => &self.slice,
        };
        knob.events.as_ref().map(AsFd::as_fd)
    }

    fn know(&mut self, jobs: &JobTable) {
        let mut living = JobSet::default();
        for (place, job) in jobs.iter() {
            living.insert(place);
            if self.jobs.len() <= place {
                self.jobs.resize_with(place + 1, || None);
            }
            if self.jobs[place].as_ref().is_some_and(|known| known.number == job.number) {
                continue;
            }
            let mut knob = Knob::new(self.slice.cgroup.join(&job.scope));
            self.ours.remove(place);
            let before = self.before.as_ref().is_none_or(|before| before.contains(&job.number));
            if !self.known && before && knob.asked() == Some(true) {
                self.ours.insert(place);
            }
            self.jobs[place] = Some(JobKnob { number: job.number, knob });
        }
        for (place, slot) in self.jobs.iter_mut().enumerate() {
            if !living.contains(place) {
                *slot = None;
            }
        }
        self.ours = self.ours.and(&living);
        self.known |= jobs.listed();
        self.awaited = None;
    }
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
        Some(if drift { Drift::Changed } else { Drift::None })
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
pub(crate) mod testing {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// What a recording knob was told, and what it answers.
    #[derive(Debug, Default)]
    pub struct Recording {
        /// Every write.
        pub writes: Vec<Hold>,
        /// What the kernel says was asked for.
        pub asked: Hold,
        /// What the kernel says is so.
        pub frozen: Hold,
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
        fn write(&mut self, hold: Hold) -> Result<(), FreezeError> {
            let mut recording = self.0.lock().unwrap();
            recording.writes.push(hold);
            if recording.missing {
                return Err(FreezeError::Missing);
            }
            if let Some(error) = recording.error {
                return Err(error);
            }
            recording.asked = hold;
            if !recording.slow {
                recording.frozen = hold;
            }
            Ok(())
        }
        fn asked(&mut self) -> Option<Hold> {
            let recording = self.0.lock().unwrap();
            (!recording.missing).then_some(recording.asked)
        }
        fn stands(&mut self, hold: Hold) -> Option<bool> {
            let recording = self.0.lock().unwrap();
            (!recording.missing).then_some(recording.frozen == hold)
        }
        fn changes(&self) -> Option<BorrowedFd<'_>> {
            None
        }
        fn know(&mut self, _jobs: &JobTable) {}
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
        assert_eq!(actuator.plan(Hold::Nobody), None);
        assert_eq!(actuator.plan(Hold::All), Some(Hold::All));
        let effect = actuator.apply(Hold::All, 5, || 7).unwrap();
        let expected = Effect { hold: Hold::All, decided_ns: 5, written_ns: 7, ended_ns: 7, seen: Ok(true) };
        assert_eq!(effect, expected);
        assert_eq!(actuator.plan(Hold::All), None);
        assert_eq!(knob.0.lock().unwrap().writes, [Hold::All]);
    }

    #[test]
    fn a_slow_effect_is_waited_for_and_given_up_at_its_deadline() {
        let knob = RecordingFreezer::default();
        knob.0.lock().unwrap().slow = true;
        let mut actuator = FreezeActuator::new(knob.clone());
        assert_eq!(actuator.apply(Hold::All, 0, || 1), None);
        assert_eq!(actuator.read_back(400_000_000), None);
        knob.0.lock().unwrap().frozen = Hold::All;
        assert_eq!(actuator.read_back(500_000_000).unwrap().seen, Ok(true));
        assert_eq!(actuator.read_back(600_000_000), None, "told once");

        assert_eq!(actuator.apply(Hold::Nobody, 0, || 1), None);
        assert_eq!(actuator.read_back(EFFECT_DEADLINE_NS), None);
        assert_eq!(actuator.read_back(EFFECT_DEADLINE_NS + 1).unwrap().seen, Ok(false));
    }

    #[test]
    fn a_failure_is_told_once_and_tried_again() {
        let knob = RecordingFreezer::default();
        knob.0.lock().unwrap().error = Some(FreezeError::Refused(Errno::BUSY));
        let mut actuator = FreezeActuator::new(knob.clone());
        assert_eq!(actuator.apply(Hold::All, 0, || 1).unwrap().seen, Err(FreezeError::Refused(Errno::BUSY)));
        assert_eq!(actuator.plan(Hold::All), Some(Hold::All));
        assert_eq!(actuator.apply(Hold::All, 0, || 1), None);
        knob.0.lock().unwrap().error = None;
        assert_eq!(actuator.apply(Hold::All, 0, || 1).unwrap().seen, Ok(true));
        assert_eq!(knob.0.lock().unwrap().writes.len(), 3);
    }

    #[test]
    fn adopts_inspects_and_undoes() {
        let knob = RecordingFreezer::default();
        knob.0.lock().unwrap().asked = Hold::All;
        let mut actuator = FreezeActuator::new(knob.clone());
        assert_eq!(actuator.applied(), Hold::All);
        assert_eq!(actuator.inspect(), Some(Drift::None));
        knob.0.lock().unwrap().asked = Hold::Nobody;
        assert_eq!(actuator.inspect(), Some(Drift::Changed));
        assert_eq!(actuator.plan(Hold::All), Some(Hold::All), "put right at the next tick");
        actuator.apply(Hold::All, 0, || 1);
        assert_eq!(actuator.undo(|| 2).unwrap().seen, Ok(true));
        assert_eq!(actuator.undo(|| 2), None);
        knob.0.lock().unwrap().missing = true;
        assert_eq!(actuator.inspect(), None);
    }

    #[test]
    fn a_slice_that_is_not_there() {
        let mut freezer = SliceFreezer::new("/nowhere/beer-jobs.slice");
        assert_eq!(freezer.write(Hold::All), Err(FreezeError::Missing));
        assert_eq!((freezer.asked(), freezer.stands(Hold::All)), (None, None));
    }
}

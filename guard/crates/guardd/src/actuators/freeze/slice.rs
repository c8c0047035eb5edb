// SPDX-License-Identifier: Apache-2.0
//! The freezers of the slice and of the jobs in it, as the kernel has them.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use policy::{Hold, JobSet};
use rustix::fs::{Mode, OFlags};

use super::brakes::Brakes;
use super::knob::Knob;
use super::{Ease, FreezeError, Freezer};
use crate::jobs::JobTable;

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
    brakes: Brakes,
    /// By place.
    jobs: Vec<Option<JobKnob>>,
    /// Whom we froze, or found frozen when we came. Who stands still otherwise was suspended by somebody else
    /// (`condor_suspend`, `docker pause`), which is no business of ours.
    ours: JobSet,
    /// Of which jobs it was last asked: among them may be who stood still by somebody else's doing already.
    wanted: JobSet,
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
            brakes: Brakes::default(),
            jobs: Vec::new(),
            ours: JobSet::default(),
            wanted: JobSet::default(),
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
            brakes: Brakes::new(run),
            ..SliceFreezer::new(slice)
        }
    }

    /// One that only says what others do, if so.
    #[must_use]
    pub fn dry_run(mut self, dry: bool) -> Self {
        self.brakes.dry_run(dry);
        self
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
        self.wanted = *set;
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
        let ours = self.ours.or(&self.wanted);
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

    fn ease(&mut self, ease: Ease) {
        let cgroup = &self.slice.cgroup;
        match ease {
            Ease::Nobody => self.brakes.put_back(cgroup),
            Ease::Some => self.brakes.lift(cgroup, false),
            Ease::All => self.brakes.lift(cgroup, true),
        }
    }

    fn changes(&self) -> Option<BorrowedFd<'_>> {
        let knob = match self.awaited {
            Some(place) => &self.jobs.get(place)?.as_ref()?.knob,
            None => &self.slice,
        };
        knob.changes()
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
            self.wanted.remove(place);
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

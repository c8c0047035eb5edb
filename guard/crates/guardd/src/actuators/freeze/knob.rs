// SPDX-License-Identifier: Apache-2.0
//! The two files of one cgroup. They are held open: nothing has to be opened when it matters.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::FreezeError;

/// `cgroup.freeze` and `cgroup.events` of one cgroup in the kernel.
#[derive(Debug)]
pub(super) struct Knob {
    pub cgroup: PathBuf,
    freeze: Option<OwnedFd>,
    events: Option<OwnedFd>,
}

impl Knob {
    /// The cgroup may appear later.
    pub fn new(cgroup: PathBuf) -> Self {
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

    /// Becomes ready (`POLLPRI`) when [`Self::frozen`] may have changed.
    pub fn changes(&self) -> Option<BorrowedFd<'_>> {
        self.events.as_ref().map(AsFd::as_fd)
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

    pub fn write(&mut self, freeze: bool) -> Result<(), FreezeError> {
        let text: &[u8] = if freeze { b"1" } else { b"0" };
        self.twice(|knob, _| rustix::io::pwrite(knob, text, 0).map(drop))
    }

    pub fn asked(&mut self) -> Option<bool> {
        let text = self.twice(|knob, _| {
            let mut text = [0; 8];
            rustix::io::pread(knob, &mut text, 0).map(|_| text)
        });
        text.ok().map(|text| text.first() == Some(&b'1'))
    }

    pub fn frozen(&mut self) -> Option<bool> {
        let text = self.twice(|_, events| {
            let mut text = [0; 128];
            rustix::io::pread(events, &mut text, 0).map(|length| (text, length))
        });
        let (text, length) = text.ok()?;
        let text = text.get(..length)?;
        Some(text.windows(8).any(|window| window == b"frozen 1"))
    }
}

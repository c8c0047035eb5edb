// SPDX-License-Identifier: Apache-2.0
//! The state line: 256 bytes in a file below /run, replaced at every tick by one write.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use intf::state::{NodeState, StateLine, STATE_LINE_BYTES};
use rustix::fs::{Mode, OFlags};

/// The file, open for writing.
pub struct StateFile {
    path: PathBuf,
    fd: OwnedFd,
    buffer: [u8; STATE_LINE_BYTES],
    emergency: bool,
}

impl StateFile {
    /// Its name in the run folder.
    pub const NAME: &'static str = "state";

    /// Makes it, readable by everybody.
    ///
    /// # Errors
    /// The folder is not there, or may not be written.
    pub fn create(run: &Path) -> Result<Self> {
        let path = run.join(Self::NAME);
        let before = std::fs::read(&path).ok().and_then(|line| StateLine::parse(&line).ok());
        let emergency = before.is_some_and(|line| line.state == NodeState::Emergency);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o644))
            .with_context(|| format!("{}: cannot be written", path.display()))?;
        Ok(StateFile { path, fd, buffer: [b' '; STATE_LINE_BYTES], emergency })
    }

    /// Did the guard before this one leave the node in an emergency? A reboot ends that.
    pub fn emergency(&self) -> bool {
        self.emergency
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the line. A failure shows by itself: the heartbeat grows old, and START becomes false.
    pub fn write(&mut self, line: &StateLine<&str>) {
        line.format(&mut self.buffer);
        let _ = rustix::io::pwrite(&self.fd, &self.buffer, 0);
    }
}

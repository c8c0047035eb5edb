// SPDX-License-Identifier: Apache-2.0
//! The state line: 256 bytes in a file below /run, replaced by one write when it says something else, and often enough to show that
//! the control loop lives.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use intf::state::{NodeState, StateLine, STATE_LINE_BYTES};
use rustix::fs::{Mode, OFlags};

/// Its readers miss a heartbeat after seconds.
const REPEAT_NS: u64 = 100_000_000;

/// The file, open for writing.
pub struct StateFile {
    path: PathBuf,
    fd: OwnedFd,
    buffer: [u8; STATE_LINE_BYTES],
    before: Option<NodeState>,
    said: Option<StateLine<&'static str>>,
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
        let before = std::fs::read(&path).ok().and_then(|line| Some(StateLine::parse(&line).ok()?.state));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o644))
            .with_context(|| format!("{}: cannot be written", path.display()))?;
        Ok(StateFile { path, fd, buffer: [b' '; STATE_LINE_BYTES], before, said: None })
    }

    /// In which state did the guard before this one leave the node? After a reboot that is not known.
    pub fn before(&self) -> Option<NodeState> {
        self.before
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the line, unless it says what it said a moment ago. A failure shows by itself: the heartbeat grows old, and START
    /// becomes false.
    pub fn write(&mut self, line: &StateLine<&'static str>) {
        let same = |said: &StateLine<_>| {
            StateLine { heartbeat: line.heartbeat, monotonic_ns: line.monotonic_ns, ..*said } == *line
        };
        let fresh = |said: &StateLine<_>| line.monotonic_ns.saturating_sub(said.monotonic_ns) < REPEAT_NS;
        if self.said.as_ref().is_some_and(|said| same(said) && fresh(said)) {
            return;
        }
        line.format(&mut self.buffer);
        self.said = rustix::io::pwrite(&self.fd, &self.buffer, 0).is_ok().then_some(*line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_is_written_at_once_and_what_is_not_ten_times_a_second() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = StateFile::create(folder.path()).unwrap();
        let mut written_at = |at_ms: u64, state: NodeState| {
            let (heartbeat, monotonic_ns) = (at_ms / 1000, at_ms * 1_000_000);
            file.write(&StateLine {
                state,
                admit: true,
                heartbeat,
                monotonic_ns,
                reason: "slack",
                cores: 8,
                memory_mb: 16,
            });
            StateLine::parse(&std::fs::read(file.path()).unwrap()).unwrap().monotonic_ns / 1_000_000
        };
        assert_eq!(written_at(1000, NodeState::Open), 1000);
        assert_eq!(written_at(1020, NodeState::Open), 1000);
        assert_eq!(written_at(1040, NodeState::Frozen), 1040);
        assert_eq!(written_at(1060, NodeState::Open), 1060);
        assert_eq!(written_at(1140, NodeState::Open), 1060);
        assert_eq!(written_at(1160, NodeState::Open), 1160);
    }
}

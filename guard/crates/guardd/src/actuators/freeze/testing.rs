// SPDX-License-Identifier: Apache-2.0
//! A freezer that records what is done to it.

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
    /// What was lifted last.
    pub ease: Ease,
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
    fn ease(&mut self, ease: Ease) {
        self.0.lock().unwrap().ease = ease;
    }
    fn changes(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn know(&mut self, _jobs: &JobTable) {}
}

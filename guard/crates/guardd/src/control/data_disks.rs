// SPDX-License-Identifier: Apache-2.0
//! The disks that storage serves from, and whether batch is left little of them.

use std::sync::Arc;

use crate::signals::Board;

/// As of some version of the board's.
#[derive(Debug, Default)]
pub struct DataDisks {
    list: Arc<[(u32, u32)]>,
    version: u64,
    little: bool,
}

impl DataDisks {
    /// Are they others than before? Allocates when they may be: for another storage daemon, or other mounts.
    pub fn follow(&mut self, board: &Board) -> bool {
        if self.version == board.disks_version {
            return false;
        }
        self.version = board.disks_version;
        let mut disks: Vec<_> = board.disks.iter().copied().filter(|device| device.0 != 0).collect();
        disks.sort_unstable();
        disks.dedup();
        // None are known between two storage daemons: those of before are still there.
        let changed = !disks.is_empty() && *self.list != *disks;
        if changed {
            self.list = disks.into();
        }
        changed
    }

    /// Batch is left little of them, or not. Is that new?
    pub fn turn(&mut self, little: bool) -> bool {
        std::mem::replace(&mut self.little, little) != little
    }

    /// See [`Self::turn`].
    pub fn little(&self) -> bool {
        self.little
    }

    /// Whole disks.
    pub fn list(&self) -> Arc<[(u32, u32)]> {
        Arc::clone(&self.list)
    }
}

// SPDX-License-Identifier: Apache-2.0
//! The disks that storage serves from, for sources that look whether something lies on one of them.

use std::path::PathBuf;
use std::sync::Arc;

use crate::shared::{lock, Shared};
use crate::signals::{disks_below, Mounted};

/// Looks: what lies there is seldom another. At each while it is not known what storage serves from.
pub(super) const BELIEVED: u32 = 10;

/// What storage served from at the last look.
pub(super) struct Served {
    sys: PathBuf,
    mounted: Arc<[Mounted]>,
    pub(super) rest: u32,
}

impl Served {
    /// Nothing yet.
    pub fn new(sys: PathBuf) -> Self {
        Served { sys, mounted: Arc::default(), rest: 0 }
    }

    /// Is it time for a look? Not while nothing is known of storage; at once where it is another.
    pub fn is_due(&mut self, shared: &Shared) -> bool {
        let mounted = Arc::clone(&lock(&shared.mounts));
        if Arc::ptr_eq(&mounted, &self.mounted) && self.rest > 0 {
            self.rest -= 1;
            return false;
        }
        (self.mounted, self.rest) = (mounted, 0);
        !self.mounted.is_empty()
    }

    /// What was seen is believed for a while. Without that it is looked at again the next time.
    pub fn believe(&mut self) {
        self.rest = BELIEVED;
    }

    /// May something on this device lie on one of the disks? Of what it cannot be said where it lies (`None`): yes.
    pub fn may_hold(&self, device: Option<(u32, u32)>) -> bool {
        let Some(device) = device else { return true };
        let disks = disks_below(&self.sys, device);
        let mut data = self.mounted.iter().flat_map(|mounted| disks_below(&self.sys, mounted.device));
        data.any(|disk| disks.contains(&disk))
    }
}

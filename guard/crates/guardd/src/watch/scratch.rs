// SPDX-License-Identifier: Apache-2.0
//! Does the scratch of batch lie on a disk that storage serves from? Images of jobs are there, and so is the code that they run.

use std::path::PathBuf;
use std::sync::Arc;

use kernfs::mountinfo::{mount_of, MountInfo};
use policy::Config;

use super::Source;
use crate::shared::{lock, Shared};
use crate::signals::{device_below, disks_below, Mounted};

/// Looks: it is seldom moved. At each while it is not known what storage serves from.
const BELIEVED: u32 = 10;

/// The source.
pub struct Scratch {
    table: MountInfo,
    path: PathBuf,
    sys: PathBuf,
    served: Arc<[Mounted]>,
    rest: u32,
}

impl Scratch {
    /// Looks at nothing yet.
    pub fn new(config: &Config) -> Self {
        let (path, sys) = (config.paths.scratch.clone(), config.paths.sys.clone());
        Scratch { table: MountInfo::new(&config.paths.proc), path, sys, served: Arc::default(), rest: 0 }
    }
}

impl Source for Scratch {
    fn read(&mut self, _now_ns: u64, shared: &Shared) {
        let served = Arc::clone(&lock(&shared.mounts));
        if Arc::ptr_eq(&served, &self.served) && self.rest > 0 {
            self.rest -= 1;
            return;
        }
        (self.served, self.rest) = (served, 0);
        // Nothing is known of storage yet, or nothing can be read now: what was known stays so.
        if self.served.is_empty() {
            return;
        }
        let Ok(Some(mounts)) = self.table.read() else { return };
        let device = mount_of(&mounts, &self.path).and_then(|mount| device_below(&self.sys, mount));
        let on_data = |device| {
            let disks = disks_below(&self.sys, device);
            let mut served = self.served.iter().flat_map(|mounted| disks_below(&self.sys, mounted.device));
            served.any(|disk| disks.contains(&disk))
        };
        // Of which it cannot be said where it lies: it may lie there.
        *lock(&shared.scratch_on_data) = Some(device.is_none_or(on_data));
        self.rest = BELIEVED;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_of_its_own_or_one_of_storage() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("proc/self")).unwrap();
        let root = folder.path().display();
        let text = format!("[paths]\nproc = \"{root}/proc\"\nsys = \"{root}/sys\"\n");
        let mut source = Scratch::new(&Config::parse("test", &text).unwrap());
        let shared = Shared::default();
        let mut found = |disk: &str| {
            let mounts = format!("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n{disk}");
            std::fs::write(folder.path().join("proc/self/mountinfo"), mounts).unwrap();
            source.rest = 0;
            source.read(1, &shared);
            *lock(&shared.scratch_on_data)
        };
        let bound = "3 1 8:16 /scratch /var/lib/beer/scratch rw - xfs /dev/sdb rw\n";
        assert_eq!(found(bound), None, "it is not known what storage serves from");
        *lock(&shared.mounts) = [Mounted { path: "/data/01".into(), device: (8, 16), disk: (8, 16) }].into();
        assert_eq!(found(bound), Some(true));
        assert_eq!(found("damaged\n"), Some(true), "what cannot be read changes nothing");
        assert_eq!(found("3 1 8:32 / /var/lib/beer/scratch rw - ext4 /dev/sdc rw\n"), Some(false));
        assert_eq!(found("3 1 0:44 / /var/lib/beer/scratch rw - zfs pool/scratch rw\n"), Some(true), "it may be there");
        assert_eq!(found(""), Some(false), "below the root");
    }
}

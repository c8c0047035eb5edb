// SPDX-License-Identifier: Apache-2.0
//! Does the scratch of batch lie on a disk that storage serves from? Images of jobs are there, and so is the code that they run.

use std::path::PathBuf;

use kernfs::mountinfo::{mount_of, MountInfo};
use policy::Config;

use super::served::Served;
use super::Source;
use crate::shared::{lock, Shared};
use crate::signals::device_below;

/// The source.
pub struct Scratch {
    table: MountInfo,
    path: PathBuf,
    sys: PathBuf,
    served: Served,
}

impl Scratch {
    /// Looks at nothing yet.
    pub fn new(config: &Config) -> Self {
        let (path, sys) = (config.paths.scratch.clone(), config.paths.sys.clone());
        Scratch { table: MountInfo::new(&config.paths.proc), path, served: Served::new(sys.clone()), sys }
    }
}

impl Source for Scratch {
    fn read(&mut self, _now_ns: u64, shared: &Shared) {
        if !self.served.is_due(shared) {
            return;
        }
        let Ok(Some(mounts)) = self.table.read() else { return };
        let device = mount_of(&mounts, &self.path).and_then(|mount| device_below(&self.sys, mount));
        *lock(&shared.scratch_on_data) = Some(self.served.may_hold(device));
        self.served.believe();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signals::Mounted;

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
            source.served.rest = 0;
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
        assert_eq!(found(bound), Some(true));
    }
}

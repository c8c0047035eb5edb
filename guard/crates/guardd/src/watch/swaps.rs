// SPDX-License-Identifier: Apache-2.0
//! Where the kernel swaps to disks that storage serves from. What a job has written there passes `io.max`: since Linux 6.12
//! (`bio_issue_as_root_blkg` in block/blk-throttle.c) swap is let through at once, whatever the limit.

use std::path::PathBuf;

use kernfs::mountinfo::{mount_of, MountInfo};
use kernfs::swaps::{Area, Swaps as Table};
use policy::Config;

use super::served::Served;
use super::Source;
use crate::shared::{lock, Shared};
use crate::signals::{device_below, device_named};

/// The source.
pub struct Swaps {
    areas: Table,
    mounts: MountInfo,
    sys: PathBuf,
    served: Served,
}

impl Swaps {
    /// Looks at nothing yet.
    pub fn new(config: &Config) -> Self {
        let (proc, sys) = (&config.paths.proc, config.paths.sys.clone());
        let served = Served::new(sys.clone());
        Swaps { areas: Table::new(proc), mounts: MountInfo::new(proc), sys, served }
    }

    /// The device of each; none where it cannot be said now.
    fn devices(&mut self, areas: &[Area]) -> Option<Vec<Option<(u32, u32)>>> {
        let mounts = match areas.iter().any(|area| area.file) {
            true => self.mounts.read().ok()??,
            false => Vec::new(),
        };
        let device = |area: &Area| match area.file {
            true => mount_of(&mounts, &area.path).and_then(|mount| device_below(&self.sys, mount)),
            false => device_named(&self.sys, &area.path),
        };
        Some(areas.iter().map(device).collect())
    }
}

impl Source for Swaps {
    fn read(&mut self, _now_ns: u64, shared: &Shared) {
        if !self.served.is_due(shared) {
            return;
        }
        let Ok(areas) = self.areas.read() else { return };
        let Some(devices) = self.devices(&areas) else { return };
        let found = areas.iter().zip(devices).filter(|(_, device)| self.served.may_hold(*device));
        let found: Vec<String> = found.map(|(area, _)| area.path.display().to_string()).collect();
        *lock(&shared.swap_on_data) = Some(found.into());
        self.served.believe();
    }
}

#[cfg(test)]
mod tests {
    use super::super::served::BELIEVED;
    use super::*;
    use crate::signals::Mounted;

    struct Rig {
        folder: tempfile::TempDir,
        source: Swaps,
        shared: Shared,
    }

    impl Rig {
        fn new() -> Rig {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(folder.path().join("proc/self")).unwrap();
            for (name, number) in [("sda2", "8:2\n"), ("sdb", "8:16\n"), ("zram0", "252:0\n")] {
                std::fs::create_dir_all(folder.path().join("sys/class/block").join(name)).unwrap();
                std::fs::write(folder.path().join("sys/class/block").join(name).join("dev"), number).unwrap();
            }
            let root = folder.path().display();
            let config =
                Config::parse("test", &format!("[paths]\nproc = \"{root}/proc\"\nsys = \"{root}/sys\"\n")).unwrap();
            let rig = Rig { source: Swaps::new(&config), folder, shared: Shared::default() };
            let mounts = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:16 / /data/01 rw - xfs /dev/sdb rw\n";
            std::fs::write(rig.folder.path().join("proc/self/mountinfo"), mounts).unwrap();
            rig
        }

        fn swaps(&self, lines: &str) {
            let text = format!("Filename\tType\tSize\tUsed\tPriority\n{lines}");
            std::fs::write(self.folder.path().join("proc/swaps"), text).unwrap();
        }

        fn serves(&self, device: (u32, u32)) {
            let mounted = Mounted { path: "/data/01".into(), device, disk: device };
            *lock(&self.shared.mounts) = [mounted].into();
        }

        fn found(&mut self) -> Option<Vec<String>> {
            self.source.read(1, &self.shared);
            lock(&self.shared.swap_on_data).as_ref().map(|areas| areas.to_vec())
        }
    }

    #[test]
    fn a_file_or_a_device_on_a_disk_of_storage() {
        let mut rig = Rig::new();
        rig.swaps(
            "/dev/sda2 partition 1 0 -2\n/dev/zram0 partition 1 0 100\n/swap file 1 0 -3\n/data/01/s file 1 0 -4\n",
        );
        assert_eq!(rig.found(), None, "it is not known what storage serves from");
        rig.serves((8, 16));
        assert_eq!(rig.found().unwrap(), ["/data/01/s"]);
        rig.swaps("/dev/sdb partition 1 0 -2\n");
        (0..BELIEVED).for_each(|_| assert_eq!(rig.found().unwrap(), ["/data/01/s"], "looked at now and then"));
        assert_eq!(rig.found().unwrap(), ["/dev/sdb"]);
        rig.swaps("/home/s file 1 0 -2\n");
        rig.source.served.rest = 0;
        let mounts = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n3 1 0:50 / /home rw - tmpfs tmpfs rw\n";
        let table = rig.folder.path().join("proc/self/mountinfo");
        let before = std::fs::read(&table).unwrap();
        std::fs::write(&table, mounts).unwrap();
        assert_eq!(rig.found().unwrap(), ["/home/s"], "the sandbox hides where it lies");
        std::fs::write(&table, before).unwrap();
        rig.swaps("/dev/sdb partition 1 0 -2\n");
        // Other disks are looked at at once.
        rig.serves((8, 32));
        assert_eq!(rig.found().unwrap(), [""; 0]);
    }

    #[test]
    fn what_cannot_be_read_changes_nothing() {
        let mut rig = Rig::new();
        rig.serves((8, 16));
        rig.swaps("/data/01/s file 1 0 -4\n");
        assert_eq!(rig.found().unwrap().len(), 1);
        for path in ["proc/swaps", "proc/self/mountinfo"] {
            let text = std::fs::read(rig.folder.path().join(path)).unwrap();
            std::fs::write(rig.folder.path().join(path), "damaged\ndamaged\n").unwrap();
            rig.source.served.rest = 0;
            assert_eq!(rig.found().unwrap().len(), 1, "{path}");
            std::fs::write(rig.folder.path().join(path), text).unwrap();
        }
        rig.swaps("");
        rig.source.served.rest = 0;
        assert_eq!(rig.found().unwrap(), [""; 0]);
    }
}

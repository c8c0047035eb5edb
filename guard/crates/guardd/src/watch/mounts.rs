// SPDX-License-Identifier: Apache-2.0
//! Which disks lie below the filesystems of the storage daemon: what is mounted there now. The daemon gives a number for each, but
//! none that is of use for some (btrfs), and the one that it knew at its start for a disk that was replaced since. Not for the
//! control loop: a mount that hangs may hold the lock of the kernel's table.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kernfs::mountinfo::{mount_of, Mount, MountInfo};
use policy::Config;

use super::Source;
use crate::shared::{lock, Shared};
use crate::signals::{device_below, whole_disk, Mounted};

/// Looks: disks are seldom replaced. At each while there are filesystems of which nothing is known.
const BELIEVED: u32 = 10;

/// The source.
pub struct Mounts {
    table: MountInfo,
    sys: PathBuf,
    names: Arc<policy::Names>,
    rest: u32,
}

impl Mounts {
    /// Looks at nothing yet.
    pub fn new(config: &Config) -> Self {
        let (proc, sys) = (&config.paths.proc, config.paths.sys.clone());
        Mounts { table: MountInfo::new(proc), sys, names: Arc::default(), rest: 0 }
    }
}

impl Source for Mounts {
    fn read(&mut self, _now_ns: u64, shared: &Shared) {
        let names = Arc::clone(&lock(&shared.names));
        if Arc::ptr_eq(&names, &self.names) && self.rest > 0 {
            self.rest -= 1;
            return;
        }
        self.names = names;
        // What cannot be read now is looked at again.
        let Ok(Some(mounts)) = self.table.read() else { return };
        let found = self.names.filesystems.iter().filter_map(|path| mounted(&self.sys, &mounts, path));
        let found: Arc<[Mounted]> = found.collect();
        let mut known = lock(&shared.mounts);
        if known[..] != found[..] {
            *known = found;
        }
        self.rest = BELIEVED;
    }
}

/// What is below that path. A filesystem that is not mounted leaves its path on another one, whose disk is not its own; one without
/// a device, of the network, has none.
fn mounted(sys: &Path, mounts: &[Mount], path: &str) -> Option<Mounted> {
    let mount = mount_of(mounts, Path::new(path)).filter(|mount| mount.mount_point != Path::new("/"))?;
    let device = device_below(sys, mount)?;
    Some(Mounted { path: path.to_owned(), device, disk: whole_disk(sys, device) })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Rig {
        folder: tempfile::TempDir,
        source: Mounts,
        shared: Shared,
    }

    impl Rig {
        fn new() -> Rig {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(folder.path().join("proc/self")).unwrap();
            let disk = folder.path().join("sys/class/block/sdc");
            std::fs::create_dir_all(&disk).unwrap();
            std::fs::write(disk.join("dev"), "8:32\n").unwrap();
            let root = folder.path().display();
            let config =
                Config::parse("test", &format!("[paths]\nproc = \"{root}/proc\"\nsys = \"{root}/sys\"\n")).unwrap();
            let rig = Rig { source: Mounts::new(&config), folder, shared: Shared::default() };
            rig.mount("");
            rig
        }

        fn mount(&self, more: &str) {
            let text = format!("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n{more}");
            std::fs::write(self.folder.path().join("proc/self/mountinfo"), text).unwrap();
        }

        fn filesystems(&self, paths: &[&str]) {
            let filesystems = paths.iter().map(|path| (*path).to_owned()).collect();
            *lock(&self.shared.names) = Arc::new(policy::Names { filesystems, ..Default::default() });
        }

        fn found(&mut self) -> Vec<(String, (u32, u32))> {
            self.source.read(1, &self.shared);
            lock(&self.shared.mounts).iter().map(|mounted| (mounted.path.clone(), mounted.disk)).collect()
        }
    }

    #[test]
    fn what_is_mounted_there_now_and_only_there() {
        let mut rig = Rig::new();
        rig.filesystems(&["/data/01", "/data/02", "/data/03"]);
        rig.mount(
            "2 1 8:16 / /data/01 rw - xfs /dev/sdb rw\n3 1 0:40 / /data/02 rw - btrfs /dev/sdc rw\n\
             4 1 0:41 / /data/04 rw - nfs4 server:/x rw\n",
        );
        let both = [("/data/01".to_owned(), (8, 16)), ("/data/02".to_owned(), (8, 32))];
        assert_eq!(rig.found(), both, "what is not mounted does not lie on the disk of the root");
        let before = Arc::clone(&lock(&rig.shared.mounts));
        // Looked at now and then, and what is the same is not told.
        rig.mount("2 1 8:48 / /data/01 rw - xfs /dev/sdd rw\n3 1 0:40 / /data/02 rw - btrfs /dev/sdc rw\n");
        (0..BELIEVED).for_each(|_| assert_eq!(rig.found(), both));
        assert!(Arc::ptr_eq(&before, &lock(&rig.shared.mounts)));
        assert_eq!(rig.found()[0], ("/data/01".to_owned(), (8, 48)));
        // Others are looked at at once, and a table that cannot be read changes nothing.
        rig.filesystems(&["/data/02"]);
        assert_eq!(rig.found().len(), 1);
        rig.filesystems(&["/data/01"]);
        std::fs::write(rig.folder.path().join("proc/self/mountinfo"), "damaged\n").unwrap();
        assert_eq!(rig.found().len(), 1);
        rig.mount("2 1 8:48 / /data/01 rw - xfs /dev/sdd rw\n");
        rig.source.rest = 0;
        assert_eq!(rig.found(), [("/data/01".to_owned(), (8, 48))]);
    }
}

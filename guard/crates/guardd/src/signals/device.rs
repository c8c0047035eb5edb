// SPDX-License-Identifier: Apache-2.0
//! Which block device, and which whole disk, a filesystem lies on.

use std::path::Path;

use intf::segment::Filesystem;
use kernfs::mountinfo::{mount_of, Mount, MountInfo};

/// What a filesystem lies on.
fn device_of(proc: &Path, sys: &Path, filesystem: &Filesystem) -> Option<(u32, u32)> {
    match (filesystem.major, filesystem.minor) {
        // No block device of its own (btrfs and others): ask the mount table what is under the path.
        (0, _) => mounted_device(proc, sys, Path::new(&filesystem.path)),
        number => Some(number),
    }
}

/// The whole disk of that.
pub fn disk_of(proc: &Path, sys: &Path, filesystem: &Filesystem) -> Option<(u32, u32)> {
    device_of(proc, sys, filesystem).map(|device| whole_disk(sys, device))
}

/// `io.stat` counts by whole disk: the parent of a partition.
pub(crate) fn whole_disk(sys: &Path, device: (u32, u32)) -> (u32, u32) {
    let folder = sys.join(format!("dev/block/{}:{}", device.0, device.1));
    if !folder.join("partition").exists() {
        return device;
    }
    let parent = std::fs::read_to_string(folder.join("../dev")).ok();
    parent.as_deref().and_then(parse_device).unwrap_or(device)
}

/// Does the kernel say that it turns? Who has one arm serves one request at a time.
pub(crate) fn rotational(sys: &Path, disk: (u32, u32)) -> bool {
    let file = sys.join(format!("dev/block/{}:{}/queue/rotational", disk.0, disk.1));
    disk.0 != 0 && std::fs::read_to_string(file).is_ok_and(|text| text.trim() == "1")
}

pub(crate) fn parse_device(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn mounted_device(proc: &Path, sys: &Path, path: &Path) -> Option<(u32, u32)> {
    let mounts = MountInfo::new(proc).read().ok()??;
    device_below(sys, mount_of(&mounts, path)?)
}

/// The block device of a mount.
pub(crate) fn device_below(sys: &Path, mount: &Mount) -> Option<(u32, u32)> {
    if mount.device.0 != 0 {
        return Some(mount.device);
    }
    device_named(sys, Path::new(&mount.source))
}

/// The number of `/dev/NAME`: by sysfs, because the sandbox of the service empties `/dev`.
pub(crate) fn device_named(sys: &Path, path: &Path) -> Option<(u32, u32)> {
    let name = path.strip_prefix("/dev").ok()?.to_str()?.replace('/', "!");
    let number = std::fs::read_to_string(sys.join("class/block").join(name).join("dev")).ok()?;
    parse_device(&number)
}

/// The disks that it is made of in the end: those of a volume, of a RAID, of an encrypted device; otherwise its whole disk.
pub(crate) fn disks_below(sys: &Path, device: (u32, u32)) -> Vec<(u32, u32)> {
    let disk = whole_disk(sys, device);
    let parts = std::fs::read_dir(sys.join(format!("dev/block/{}:{}/slaves", disk.0, disk.1)));
    let parts = parts.into_iter().flatten().flatten();
    let number = |part: std::fs::DirEntry| std::fs::read_to_string(part.path().join("dev")).ok();
    let parts: Vec<_> = parts.filter_map(number).filter_map(|text| parse_device(&text)).collect();
    match parts[..] {
        [] => vec![disk],
        _ => parts.into_iter().flat_map(|part| disks_below(sys, part)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_counted_with_its_disk() {
        let sys = tempfile::tempdir().unwrap();
        let disk = sys.path().join("devices/vdb");
        std::fs::create_dir_all(disk.join("vdb1")).unwrap();
        std::fs::create_dir_all(sys.path().join("dev/block")).unwrap();
        std::fs::write(disk.join("dev"), "254:16\n").unwrap();
        std::fs::write(disk.join("vdb1/partition"), "1\n").unwrap();
        std::os::unix::fs::symlink(disk.join("vdb1"), sys.path().join("dev/block/254:17")).unwrap();
        assert_eq!(whole_disk(sys.path(), (254, 17)), (254, 16));
        assert_eq!(whole_disk(sys.path(), (254, 32)), (254, 32));
        std::os::unix::fs::symlink(&disk, sys.path().join("dev/block/254:16")).unwrap();
        std::fs::create_dir_all(disk.join("queue")).unwrap();
        for (text, turns) in [("1\n", true), ("0\n", false), ("", false)] {
            std::fs::write(disk.join("queue/rotational"), text).unwrap();
            assert_eq!(rotational(sys.path(), (254, 16)), turns);
        }
        assert!(!rotational(sys.path(), (254, 32)) && !rotational(sys.path(), (0, 0)));
    }

    #[test]
    fn a_volume_lies_on_the_disks_of_what_it_is_made_of() {
        let sys = tempfile::tempdir().unwrap();
        let made = |name: &str, number: &str, of: &[&str]| {
            let folder = sys.path().join("devices").join(name);
            std::fs::create_dir_all(folder.join("slaves")).unwrap();
            std::fs::write(folder.join("dev"), format!("{number}\n")).unwrap();
            std::fs::create_dir_all(sys.path().join("dev/block")).unwrap();
            std::os::unix::fs::symlink(&folder, sys.path().join("dev/block").join(number)).unwrap();
            for part in of {
                let link = folder.join("slaves").join(part.rsplit('/').next().unwrap());
                std::os::unix::fs::symlink(sys.path().join("devices").join(part), link).unwrap();
            }
        };
        made("sda", "8:0", &[]);
        made("sdb", "8:16", &[]);
        made("sda/sda3", "8:3", &[]);
        std::fs::write(sys.path().join("devices/sda/sda3/partition"), "3\n").unwrap();
        made("md0", "9:0", &["sda/sda3", "sdb"]);
        made("dm-1", "253:1", &["md0"]);
        let mut found = disks_below(sys.path(), (253, 1));
        found.sort_unstable();
        assert_eq!(found, [(8, 0), (8, 16)]);
        assert_eq!(disks_below(sys.path(), (8, 3)), [(8, 0)]);
        assert_eq!(disks_below(sys.path(), (8, 32)), [(8, 32)], "of which sysfs says nothing");
    }
}

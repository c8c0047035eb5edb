// SPDX-License-Identifier: Apache-2.0
//! `/proc/self/mountinfo`: which block device is under a path. Not for the control loop: reading it takes the
//! kernel's namespace lock, which a mount in progress may hold.

use std::path::{Path, PathBuf};

use crate::{Error, KernFile, Result};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// 0:n for filesystems without a block device.
    pub device: (u32, u32),
    pub mount_point: PathBuf,
    pub filesystem: String,
    pub source: String,
}

#[derive(Debug)]
pub struct MountInfo(KernFile);

impl MountInfo {
    /// `proc` is normally `/proc`.
    pub fn new(proc: &Path) -> Self {
        MountInfo(KernFile::new(proc.join("self/mountinfo")))
    }

    pub fn read(&mut self) -> Result<Option<Vec<Mount>>> {
        let parsed = match self.0.read()? {
            None => return Ok(None),
            Some(text) => parse(text),
        };
        parsed.map(Some).map_err(|(line, what)| Error::parse(self.0.path(), line, what))
    }
}

/// The mount that a path lies on: the longest mount point above it, the latest of several on one point.
pub fn mount_of<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let above = mounts.iter().filter(|mount| path.starts_with(&mount.mount_point));
    above.max_by_key(|mount| mount.mount_point.components().count())
}

fn parse(text: &str) -> std::result::Result<Vec<Mount>, (usize, &'static str)> {
    text.lines().enumerate().map(|(number, line)| parse_line(line).ok_or((number, "not a mountinfo line"))).collect()
}

/// `36 35 98:0 /root /mnt rw,noatime master:1 - ext3 /dev/root rw`: the count of optional fields before `-` varies.
fn parse_line(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(2);
    let (major, minor) = left.next()?.split_once(':')?;
    let mount_point = left.nth(1)?;
    let mut right = right.split(' ');
    Some(Mount {
        device: (major.parse().ok()?, minor.parse().ok()?),
        mount_point: PathBuf::from(unescape(mount_point)),
        filesystem: right.next()?.to_owned(),
        source: unescape(right.next()?),
    })
}

/// Space, tab, newline and backslash are written as three octal digits.
pub(crate) fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escaped) = rest.split_at(at);
        out.push_str(before);
        let code = escaped.get(1..4).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                out.push(code as char);
                rest = escaped.get(4..).unwrap_or_default();
            }
            None => {
                out.push('\\');
                rest = escaped.get(1..).unwrap_or_default();
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{damaged, fixture};

    #[test]
    fn finds_the_device_below_a_path() {
        let mounts = MountInfo::new(&fixture("proc")).read().unwrap().unwrap();
        let data = mount_of(&mounts, Path::new("/data/01/store/file")).unwrap();
        assert_eq!((data.device, data.filesystem.as_str(), data.source.as_str()), ((254, 16), "ext4", "/dev/vdb"));
        assert_eq!(mount_of(&mounts, Path::new("/data")).unwrap().mount_point, Path::new("/"));
    }

    #[test]
    fn the_later_mount_hides_the_earlier_one_and_names_are_unescaped() {
        let text = "41 28 254:32 / /data/02 rw shared:21 - ext4 /dev/vdc rw\n\
                    42 41 253:0 / /data/02 rw shared:22 master:1 - ext4 /dev/mapper/data2 rw\n\
                    43 28 0:40 / /mnt/with\\040space rw - tmpfs tmpfs rw\n";
        let dir = damaged("self/mountinfo", text);
        let mounts = MountInfo::new(dir.path()).read().unwrap().unwrap();
        assert_eq!(mount_of(&mounts, Path::new("/data/02/x")).unwrap().source, "/dev/mapper/data2");
        assert_eq!(mounts[2].mount_point, Path::new("/mnt/with space"));
        assert_eq!(mount_of(&mounts, Path::new("/elsewhere")), None);
    }

    #[test]
    fn a_damaged_line_is_named() {
        for line in ["36 35 98:0 /mnt1", "36 35 98 / /m rw - ext4 /dev/x rw", "36 35 a:b / /m rw - ext4 /dev/x rw", ""]
        {
            let dir = damaged("self/mountinfo", &format!("22 27 0:21 / /proc rw - proc proc rw\n{line}\n"));
            let error = MountInfo::new(dir.path()).read().unwrap_err();
            assert!(error.to_string().contains("mountinfo line 2"), "{error}");
        }
    }

    #[test]
    fn unescapes_only_what_is_escaped() {
        assert_eq!(unescape("a\\040b\\134c"), "a b\\c");
        assert_eq!(unescape("end\\04"), "end\\04");
        assert_eq!(unescape("\\999é"), "\\999é");
    }
}

// SPDX-License-Identifier: Apache-2.0
//! `io.max` of a cgroup: what it may do to a device (kernel, cgroup-v2.rst, "IO").

use std::path::Path;

use crate::file::lines_of_devices;
use crate::{Error, KernFile, Result};

/// Limits of one device per second; `u64::MAX` stands for `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoMax {
    pub device: (u32, u32),
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub reads: u64,
    pub writes: u64,
}

impl IoMax {
    /// A device without a limit; the kernel writes no line for it.
    pub fn unlimited(device: (u32, u32)) -> Self {
        IoMax { device, read_bytes: u64::MAX, write_bytes: u64::MAX, reads: u64::MAX, writes: u64::MAX }
    }

    /// What `cgroup` (its folder) may do to a device; `None` = the cgroup is gone, or without the io controller.
    ///
    /// # Errors
    /// The file cannot be read, or is not what the kernel documents.
    pub fn read(cgroup: &Path, device: (u32, u32)) -> Result<Option<IoMax>> {
        let mut file = KernFile::new(cgroup.join("io.max"));
        let path = file.path().to_owned();
        let Some(text) = file.read()? else { return Ok(None) };
        for (number, line) in lines_of_devices(text) {
            let limits = IoMax::parse(line).ok_or_else(|| Error::parse(&path, number, "not an io.max line"))?;
            if limits.device == device {
                return Ok(Some(limits));
            }
        }
        Ok(Some(IoMax::unlimited(device)))
    }

    /// Of both limits of a device the smaller ones.
    pub fn stricter(&self, other: &IoMax) -> IoMax {
        IoMax {
            device: self.device,
            read_bytes: self.read_bytes.min(other.read_bytes),
            write_bytes: self.write_bytes.min(other.write_bytes),
            reads: self.reads.min(other.reads),
            writes: self.writes.min(other.writes),
        }
    }

    /// The line that sets it.
    pub fn line(&self) -> String {
        let (major, minor) = self.device;
        let text = |limit: u64| if limit == u64::MAX { "max".to_owned() } else { limit.to_string() };
        let (rbps, wbps, riops, wiops) =
            (text(self.read_bytes), text(self.write_bytes), text(self.reads), text(self.writes));
        format!("{major}:{minor} rbps={rbps} wbps={wbps} riops={riops} wiops={wiops}")
    }

    /// Of a line like `8:16 rbps=2097152 wbps=max riops=max wiops=120`; what it does not name is unlimited.
    pub fn parse(line: &str) -> Option<IoMax> {
        let mut words = line.split_ascii_whitespace();
        let (major, minor) = words.next()?.split_once(':')?;
        let mut limits = IoMax::unlimited((major.parse().ok()?, minor.parse().ok()?));
        for word in words {
            let (key, value) = word.split_once('=')?;
            let field = match key {
                "rbps" => &mut limits.read_bytes,
                "wbps" => &mut limits.write_bytes,
                "riops" => &mut limits.reads,
                "wiops" => &mut limits.writes,
                _ => continue,
            };
            *field = if value == "max" { u64::MAX } else { value.parse().ok()? };
        }
        Some(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        let limits = IoMax { reads: 40, write_bytes: 2_500_000, ..IoMax::unlimited((254, 16)) };
        assert_eq!(limits.line(), "254:16 rbps=max wbps=2500000 riops=40 wiops=max");
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("io.max"), format!("8:0 riops=1\n{}\n", limits.line())).unwrap();
        assert_eq!(IoMax::read(folder.path(), (254, 16)).unwrap(), Some(limits));
        assert_eq!(IoMax::read(folder.path(), (8, 0)).unwrap().unwrap().reads, 1);
        assert_eq!(IoMax::read(folder.path(), (8, 1)).unwrap(), Some(IoMax::unlimited((8, 1))));
        assert_eq!(IoMax::read(&folder.path().join("gone"), (8, 0)).unwrap(), None);
        // A disk that was pulled out.
        std::fs::write(folder.path().join("io.max"), format!("(unknown) riops=1\n{}\n", limits.line())).unwrap();
        assert_eq!(IoMax::read(folder.path(), (254, 16)).unwrap(), Some(limits));
    }

    #[test]
    fn of_two_limits_the_smaller_one_holds() {
        let (a, b) = ("8:0 rbps=5 riops=9 wiops=max", "8:0 rbps=7 wbps=3 riops=2");
        let [a, b] = [a, b].map(|line| IoMax::parse(line).unwrap());
        assert_eq!(a.stricter(&b).line(), "8:0 rbps=5 wbps=3 riops=2 wiops=max");
    }

    #[test]
    fn a_damaged_file_is_an_error() {
        for text in ["8:0 riops\n", "8 riops=1\n", "\n", "8:0 riops=minimum\n"] {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("io.max"), text).unwrap();
            assert!(IoMax::read(folder.path(), (8, 0)).is_err(), "{text:?}");
        }
    }
}

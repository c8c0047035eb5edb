// SPDX-License-Identifier: Apache-2.0
//! One kernel file, opened once and read again and again.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::{Error, Result};

/// Larger than /proc/diskstats of a server with 200 block devices; more than this is not a file we know.
const LIMIT: usize = 1 << 20;

/// Most of these files are a line or a few; there may be hundreds of readers.
const SMALLEST: usize = 512;

/// Lines by device, numbered. A disk that was pulled out has no name any more (`bdi_dev_name` in mm/backing-dev.c), and its line
/// stays until nobody holds it.
pub(crate) fn lines_of_devices(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter(|(_, line)| !line.starts_with("(unknown)"))
}

#[derive(Debug)]
pub struct KernFile {
    path: PathBuf,
    fd: Option<OwnedFd>,
    buffer: Vec<u8>,
}

impl KernFile {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        KernFile { path: path.into(), fd: None, buffer: vec![0; SMALLEST] }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The whole text; `None` when the file does not exist, or its cgroup or device is gone, or the kernel has
    /// the file but not the feature (`EOPNOTSUPP`: pressure switched off at boot).
    pub fn read(&mut self) -> Result<Option<&str>> {
        let length = match self.fill() {
            Ok(length) => length,
            // The descriptor is of a cgroup that was removed; one of the same name may be there by now.
            Err(Errno::NODEV) => {
                self.fd = None;
                match self.fill() {
                    Ok(length) => length,
                    Err(error) => return self.absent_or(error),
                }
            }
            Err(error) => return self.absent_or(error),
        };
        let text = self.buffer.get(..length).unwrap_or_default();
        match std::str::from_utf8(text) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(Error::parse(&self.path, 0, "not text")),
        }
    }

    fn absent_or<T>(&mut self, error: Errno) -> Result<Option<T>> {
        self.fd = None;
        match error {
            Errno::NOENT | Errno::NODEV | Errno::NOTDIR | Errno::OPNOTSUPP => Ok(None),
            other => Err(Error::io(&self.path, other)),
        }
    }

    fn fill(&mut self) -> std::result::Result<usize, Errno> {
        let fd = match &mut self.fd {
            Some(fd) => fd,
            none => none.insert(rustix::fs::open(
                &self.path,
                OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK,
                Mode::empty(),
            )?),
        };
        // Sequence files hand out about a page for each call, so read on until there is nothing more.
        let mut length = 0;
        loop {
            if length == self.buffer.len() {
                if length >= LIMIT {
                    return Err(Errno::FBIG);
                }
                self.buffer.resize(length * 2, 0);
            }
            let rest = self.buffer.get_mut(length..).unwrap_or_default();
            match rustix::io::pread(&*fd, rest, length as u64) {
                Ok(0) => return Ok(length),
                Ok(n) => length += n,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_again_what_has_changed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory.current");
        let mut file = KernFile::new(&path);
        assert_eq!(file.read().unwrap(), None);
        std::fs::write(&path, "1\n").unwrap();
        assert_eq!(file.read().unwrap(), Some("1\n"));
        std::fs::write(&path, "2345\n").unwrap();
        assert_eq!(file.read().unwrap(), Some("2345\n"));
    }

    #[test]
    fn grows_for_a_long_file_and_refuses_an_endless_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("diskstats");
        std::fs::write(&path, "x".repeat(50_000)).unwrap();
        assert_eq!(KernFile::new(&path).read().unwrap().map(str::len), Some(50_000));
        let error = KernFile::new("/dev/zero").read().unwrap_err();
        assert!(error.to_string().starts_with("/dev/zero: "), "{error}");
    }

    #[test]
    fn a_damaged_file_is_an_error_with_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cpu.stat");
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        let error = KernFile::new(&path).read().unwrap_err();
        assert_eq!(error.path(), path);
        // A directory in the place of the file is an error as well, not "absent".
        assert!(KernFile::new(dir.path()).read().is_err());
    }
}

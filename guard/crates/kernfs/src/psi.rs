// SPDX-License-Identifier: Apache-2.0
//! Pressure stall information: `/proc/pressure/<resource>` of the host, `<cgroup>/<resource>.pressure` of a slice.
//! The running totals are what counts: the kernel's averages fade, and tell of what was for a while after it has ended.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::{Error, KernFile, Result};

/// CGROUP2_SUPER_MAGIC (linux/magic.h).
const CGROUP2: rustix::fs::FsWord = 0x6367_7270;
/// PROC_SUPER_MAGIC (linux/magic.h).
const PROC: rustix::fs::FsWord = 0x9fa0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource {
    Cpu,
    Io,
    Memory,
}

impl Resource {
    pub const ALL: [Resource; 3] = [Resource::Cpu, Resource::Io, Resource::Memory];

    pub fn name(self) -> &'static str {
        match self {
            Resource::Cpu => "cpu",
            Resource::Io => "io",
            Resource::Memory => "memory",
        }
    }
}

/// Time in which some, and in which all, runnable tasks waited for the resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pressure {
    pub some_us: u64,
    pub full_us: u64,
}

#[derive(Debug)]
pub struct PressureFile(KernFile);

impl PressureFile {
    /// `proc` is normally `/proc`.
    pub fn of_host(proc: &Path, resource: Resource) -> Self {
        PressureFile(KernFile::new(proc.join("pressure").join(resource.name())))
    }

    pub fn of_cgroup(cgroup: &Path, resource: Resource) -> Self {
        PressureFile(KernFile::new(cgroup.join(format!("{}.pressure", resource.name()))))
    }

    pub fn read(&mut self) -> Result<Option<Pressure>> {
        // A borrow of the text must not outlive the error path, so parse into plain numbers at once.
        let parsed = match self.0.read()? {
            None => return Ok(None),
            Some(text) => parse(text),
        };
        parsed.map(Some).map_err(|(line, what)| Error::parse(self.0.path(), line, what))
    }
}

/// What the kernel says to a trigger.
#[derive(Debug)]
pub enum Asked {
    /// It will tell.
    Set(Trigger),
    /// It has no pressure information (EL9 needs `psi=1`), or there is no such cgroup.
    Absent,
    /// It does not want to.
    Refused(Errno),
}

/// Becomes readable (POLLPRI) when tasks of a cgroup, or of the host, have waited for long within some time; ends when it is dropped.
#[derive(Debug)]
pub struct Trigger(OwnedFd);

impl Trigger {
    /// When some task waited for 300 ms within 2 s. Whoever has no CAP_SYS_RESOURCE may only ask for multiples of 2 s
    /// (kernel, accounting/psi.rst), and with older kernels for none.
    const SOME: &[u8] = b"some 300000 2000000\0";

    /// Asks for it. `proc` is normally `/proc`. Older kernels want CAP_SYS_RESOURCE for the host's.
    pub fn of_host(proc: &Path, resource: Resource) -> Asked {
        Self::ask(&proc.join("pressure").join(resource.name()), PROC)
    }

    /// Asks for it.
    pub fn of_cgroup(cgroup: &Path, resource: Resource) -> Asked {
        Self::ask(&cgroup.join(format!("{}.pressure", resource.name())), CGROUP2)
    }

    fn ask(path: &Path, filesystem: rustix::fs::FsWord) -> Asked {
        match Self::set(path, filesystem) {
            Ok(trigger) => Asked::Set(trigger),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::NODEV | Errno::OPNOTSUPP) => Asked::Absent,
            Err(error) => Asked::Refused(error),
        }
    }

    fn set(path: &Path, filesystem: rustix::fs::FsWord) -> std::result::Result<Trigger, Errno> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        // What is no file of the kernel would be overwritten.
        if rustix::fs::fstatfs(&fd)?.f_type != filesystem {
            return Err(Errno::NODEV);
        }
        rustix::io::write(&fd, Self::SOME)?;
        Ok(Trigger(fd))
    }
}

impl AsFd for Trigger {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn parse(text: &str) -> std::result::Result<Pressure, (usize, &'static str)> {
    let mut pressure = Pressure::default();
    let mut seen_some = false;
    for (number, line) in text.lines().enumerate() {
        let mut words = line.split_ascii_whitespace();
        let full = match words.next() {
            Some("some") => false,
            Some("full") => true,
            _ => return Err((number, "expected `some` or `full`")),
        };
        let mut total = None;
        for word in words {
            match word.split_once('=') {
                Some(("total", value)) => total = value.parse::<u64>().ok(),
                Some(_) => {}
                None => return Err((number, "expected key=value")),
            }
        }
        let Some(total) = total else {
            return Err((number, "no number in total"));
        };
        if full {
            pressure.full_us = total;
        } else {
            pressure.some_us = total;
            seen_some = true;
        }
    }
    // Only a file cut short has no `some`; `full` is really missing from cpu before Linux 5.13.
    if seen_some {
        Ok(pressure)
    } else {
        Err((0, "no `some` line"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{damaged, fixture};

    #[test]
    fn host_and_slice_from_the_captured_tree() {
        let io = PressureFile::of_host(&fixture("proc"), Resource::Io).read().unwrap().unwrap();
        assert_eq!((io.some_us, io.full_us), (4_008_630, 2_109_815));
        for resource in Resource::ALL {
            assert!(PressureFile::of_cgroup(&fixture("cgroup/storage.slice"), resource).read().unwrap().is_some());
        }
    }

    #[test]
    fn a_file_that_is_none_of_the_kernel_is_not_written() {
        let dir = damaged("io.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n");
        assert!(matches!(Trigger::of_cgroup(dir.path(), Resource::Io), Asked::Absent));
        assert_eq!(PressureFile::of_cgroup(dir.path(), Resource::Io).read().unwrap().unwrap().some_us, 5);
        assert!(matches!(Trigger::of_cgroup(dir.path(), Resource::Cpu), Asked::Absent));
        let dir = damaged("pressure", "");
        assert!(matches!(Trigger::of_host(dir.path(), Resource::Io), Asked::Absent));
    }

    #[test]
    fn absent_is_not_an_error() {
        assert_eq!(PressureFile::of_cgroup(&fixture("cgroup/gone.slice"), Resource::Io).read().unwrap(), None);
    }

    #[test]
    fn without_full_as_before_5_13() {
        let p = parse("some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n").unwrap();
        assert_eq!((p.some_us, p.full_us), (5, 0));
    }

    #[test]
    fn damaged_files_are_errors() {
        for text in ["", "some avg10=0.00 tot", "some total=x", "all total=1 avg10=0", "some avg10=0.0 total=-4"] {
            let dir = damaged("io.pressure", text);
            let error = PressureFile::of_cgroup(dir.path(), Resource::Io).read().unwrap_err();
            assert!(error.to_string().contains("io.pressure line 1"), "{error}");
        }
    }
}

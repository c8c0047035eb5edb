// SPDX-License-Identifier: Apache-2.0
//! Opens the file as what it is: something that an unprivileged service controls.

use super::error::Reason;
use super::layout::MAX_BYTES;
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::Path;

/// An open file that passed all checks of type, owner, mode and size.
pub(super) struct Opened {
    pub fd: OwnedFd,
    pub identity: Identity,
    pub size: u64,
}

/// What distinguishes one file from another at the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(stat: &Stat) -> Identity {
        Identity { device: stat.st_dev, inode: stat.st_ino }
    }

    /// The identity of what is at `path` now; does not open it.
    pub fn at(path: &Path) -> Result<Identity, Reason> {
        match fs::statat(fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Identity::of(&stat)),
            Err(Errno::NOENT | Errno::NOTDIR) => Err(Reason::NotFound),
            Err(error) => Err(Reason::System { call: "stat", error }),
        }
    }
}

/// `O_NONBLOCK` because the open of a FIFO without a writer would wait for ever.
pub(super) fn open(path: &Path, owner: u32) -> Result<Opened, Reason> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let fd = fs::open(path, flags, Mode::empty()).map_err(|error| match error {
        Errno::NOENT | Errno::NOTDIR => Reason::NotFound,
        Errno::LOOP => Reason::SymbolicLink,
        Errno::NXIO => Reason::NotRegular("socket or device"),
        error => Reason::System { call: "open", error },
    })?;
    let stat = fs::fstat(&fd).map_err(|error| Reason::System { call: "fstat", error })?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Fifo => return Err(Reason::NotRegular("FIFO")),
        FileType::Directory => return Err(Reason::NotRegular("directory")),
        _ => return Err(Reason::NotRegular("device")),
    }
    if stat.st_uid != owner {
        return Err(Reason::WrongOwner { found: stat.st_uid, required: owner });
    }
    if stat.st_mode & 0o022 != 0 {
        return Err(Reason::Writable(stat.st_mode & 0o7777));
    }
    let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
    if size > MAX_BYTES {
        return Err(Reason::TooLarge(size));
    }
    Ok(Opened { fd, identity: Identity::of(&stat), size })
}

/// Fills `buffer` from `offset`. A file that has become shorter is an error, not a signal.
pub(super) fn read_exact(fd: &OwnedFd, buffer: &mut [u8], offset: u64) -> Result<(), Reason> {
    let mut done = 0;
    while done < buffer.len() {
        let at = offset + done as u64;
        match rustix::io::pread(fd, &mut buffer[done..], at) {
            Ok(0) => return Err(Reason::Truncated { found: at, required: offset + buffer.len() as u64 }),
            Ok(n) => done += n,
            Err(Errno::INTR) => {}
            Err(error) => return Err(Reason::System { call: "pread", error }),
        }
    }
    Ok(())
}

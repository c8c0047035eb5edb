// SPDX-License-Identifier: Apache-2.0
//! Why a segment cannot be used, in one line that names the file.

use std::path::Path;
use std::sync::Arc;

/// A segment that gives no signal, and why.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct SegmentError {
    /// The file.
    pub path: Arc<Path>,
    /// What is wrong with it.
    pub reason: Reason,
}

/// What is wrong with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// No such file: the storage daemon is not running or has no plug-in.
    #[error("not found; is the storage daemon running with libXrdBeer?")]
    NotFound,
    /// A symbolic link where the file should be.
    #[error("is a symbolic link, a regular file is required")]
    SymbolicLink,
    /// FIFO, directory, device, socket.
    #[error("is a {0}, a regular file is required")]
    NotRegular(&'static str),
    /// Somebody else's file.
    #[error("is owned by uid {found}, uid {required} is required")]
    WrongOwner {
        /// The owner found.
        found: u32,
        /// The owner configured.
        required: u32,
    },
    /// Others could write it.
    #[error("has mode {0:04o}, it must not be writable by group or others")]
    Writable(u32),
    /// Larger than any valid segment.
    #[error("has {0} bytes, at most 2097152 are allowed")]
    TooLarge(u64),
    /// Shorter than its header says, or than a header.
    #[error("truncated: {found} bytes of {required}")]
    Truncated {
        /// Bytes there.
        found: u64,
        /// Bytes needed.
        required: u64,
    },
    /// Not a segment.
    #[error("wrong magic, this is not a latency segment")]
    WrongMagic,
    /// A layout that this reader does not know.
    #[error("layout version {0}, this guard reads 1")]
    WrongVersion(u32),
    /// A header field with a value the format does not allow.
    #[error("header field `{field}` is {found}, {required} is required")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        found: u64,
        /// The value, or the bound that it violates.
        required: u64,
    },
    /// A filesystem record whose path is no absolute zero-terminated UTF-8 path.
    #[error("filesystem record {0} has no valid path")]
    FilesystemPath(u32),
    /// The name of the instance is no zero-terminated text.
    #[error("header field `instance` is no zero-terminated text")]
    Instance,
    /// The system call failed.
    #[error("{call}: {error}")]
    System {
        /// Name of the call.
        call: &'static str,
        /// What it returned.
        error: rustix::io::Errno,
    },
}

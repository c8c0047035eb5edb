// SPDX-License-Identifier: Apache-2.0
//! Waiting for a point in time, and for one descriptor.

use std::os::fd::BorrowedFd;

use rustix::event::{poll, PollFd, PollFlags, Timespec};

/// Waits at most this long; true when the descriptor became ready before.
pub fn wait(awaited: Option<BorrowedFd<'_>>, wait_ns: u64) -> bool {
    let timeout = Timespec {
        tv_sec: i64::try_from(wait_ns / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: (wait_ns % 1_000_000_000) as _,
    };
    match awaited {
        None => poll(&mut [], Some(&timeout)).is_ok_and(|ready| ready > 0),
        Some(fd) => poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::PRI)], Some(&timeout)).is_ok_and(|n| n > 0),
    }
}

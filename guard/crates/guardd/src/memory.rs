// SPDX-License-Identifier: Apache-2.0
//! Memory that is never paged out: a page fault that waits for the disk under attack would stop the guard when it
//! is needed most.

use rustix::mm::{mlockall, MlockAllFlags};

/// Locks what is mapped now, wholly, and what is mapped later as it is touched (thread stacks and the allocator's
/// reserves would otherwise count in full). False when the limit (`LimitMEMLOCK=`) does not allow it.
pub fn lock() -> bool {
    mlockall(MlockAllFlags::CURRENT).is_ok() && mlockall(MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT).is_ok()
}

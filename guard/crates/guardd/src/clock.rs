// SPDX-License-Identifier: Apache-2.0
//! The two clocks. The loop decides by the monotonic one only; the other is for people.

use rustix::time::{clock_gettime, ClockId, Timespec};

/// What gives the time; tests bring their own.
pub trait Clock: Send + Sync {
    /// CLOCK_MONOTONIC in nanoseconds.
    fn monotonic_ns(&self) -> u64;
    /// CLOCK_REALTIME in nanoseconds since 1970.
    fn realtime_ns(&self) -> u64;
}

/// The kernel's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn monotonic_ns(&self) -> u64 {
        nanoseconds(clock_gettime(ClockId::Monotonic))
    }

    fn realtime_ns(&self) -> u64 {
        nanoseconds(clock_gettime(ClockId::Realtime))
    }
}

fn nanoseconds(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or_default())
}

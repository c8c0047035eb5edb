// SPDX-License-Identifier: Apache-2.0
//! The state line as others read it: the startd helper, the fail-safe, `beer status`.

use std::path::Path;

use intf::state::{StateError, StateLine, STATE_LINE_BYTES};
use rustix::fs::{Mode, OFlags};

use crate::clock::Clock;

/// Why there is no state.
#[derive(Debug, thiserror::Error)]
pub enum HeartbeatError {
    /// The file cannot be read.
    #[error("{0}: {1}")]
    File(String, rustix::io::Errno),
    /// It holds something else.
    #[error("{0}: {1}")]
    Line(String, StateError),
}

/// Reads the line. Twice, until both agree: a reader may see half of a write in progress.
///
/// # Errors
/// There is no such file, or no such line in it.
pub fn read(path: &Path) -> Result<StateLine<String>, HeartbeatError> {
    let name = || path.display().to_string();
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = |errno| HeartbeatError::File(name(), errno);
    let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(file)?;
    let line = || {
        let mut line = [0; STATE_LINE_BYTES];
        rustix::io::pread(&fd, &mut line, 0).map(|length| (line, length))
    };
    let mut seen = line().map_err(file)?;
    for _ in 0..4 {
        let again = line().map_err(file)?;
        if again == seen {
            break;
        }
        seen = again;
    }
    let (line, length) = seen;
    StateLine::parse(line.get(..length).unwrap_or_default()).map_err(|error| HeartbeatError::Line(name(), error))
}

/// How old the heartbeat is. One that lies in the future by more than a second is of another boot: infinitely old.
pub fn age_ns<R>(line: &StateLine<R>, clock: &dyn Clock) -> u64 {
    let now_ns = clock.monotonic_ns();
    if line.monotonic_ns > now_ns.saturating_add(1_000_000_000) {
        return u64::MAX;
    }
    now_ns.saturating_sub(line.monotonic_ns)
}

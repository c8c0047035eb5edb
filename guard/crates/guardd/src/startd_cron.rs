// SPDX-License-Identifier: Apache-2.0
//! `beer-guard startd-cron`: tells the startd what the control loop says, and nothing when it says nothing. It
//! goes by the state line, so that a living helper cannot hide a dead guard.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;

use intf::state::{NodeState, StateLine};
use rustix::event::{poll, PollFd, PollFlags, Timespec};

use crate::actuators::VacateActuator;
use crate::clock::Clock;
use crate::heartbeat;

/// An ad at least this often: the startd compares `BeerHeartbeat` with its own clock.
const REPEAT_NS: u64 = 10_000_000_000;
/// A heartbeat older than this is not passed on.
const STALE_NS: u64 = 5_000_000_000;
/// A wall clock that was set by more than this is told at once: START bears a heartbeat from 5 s in the future to 60 s old.
const SET_S: u64 = 3;
/// How often the state line is looked at.
const LOOK_NS: i64 = 200_000_000;

/// More than the names of all slots that there can be.
const SLOTS_BYTES: u64 = 64 << 10;

/// One ad, in the syntax of a startd-cron job; `slots` are to become empty.
pub fn ad(line: &StateLine<String>, slots: &str) -> String {
    format!(
        "BeerState = \"{}\"\nBeerAdmit = {}\nBeerCores = {}\nBeerMemoryMB = {}\nBeerVacateSlots = \"{slots}\"\n\
         BeerReason = \"{}\"\nBeerHeartbeat = {}\n- update:true\n",
        line.state,
        line.admit,
        line.cores,
        line.memory_mb,
        line.reason.replace(['"', '\\'], "_"),
        line.heartbeat
    )
}

/// Decides when to publish.
#[derive(Debug, Default)]
pub struct Publisher {
    last: Option<(StateLine<String>, String, u64)>,
}

impl Publisher {
    /// The ad that is due, if any.
    pub fn due(&mut self, line: StateLine<String>, slots: String, clock: &dyn Clock) -> Option<String> {
        if heartbeat::age_ns(&line, clock) > STALE_NS {
            return None;
        }
        let now_ns = clock.monotonic_ns();
        let said = |line: &StateLine<String>| (line.state, line.admit, line.cores, line.memory_mb, line.reason.clone());
        let due = match &self.last {
            Some((last, told, at_ns)) => {
                let set_s = wall_at_boot_s(&line).saturating_sub(wall_at_boot_s(last));
                said(last) != said(&line)
                    || set_s.unsigned_abs() > SET_S
                    || *told != slots
                    || now_ns.saturating_sub(*at_ns) >= REPEAT_NS
            }
            None => true,
        };
        if !due {
            return None;
        }
        let text = ad(&line, &slots);
        self.last = Some((line, slots, now_ns));
        Some(text)
    }
}

/// What the wall clock would have shown when the node booted: the same for as long as nobody sets it.
fn wall_at_boot_s(line: &StateLine<String>) -> i64 {
    let up_s = line.monotonic_ns / 1_000_000_000;
    i64::try_from(line.heartbeat).unwrap_or(i64::MAX).saturating_sub_unsigned(up_s)
}

/// Publishes until nobody listens any more.
///
/// # Errors
/// Writing fails in another way than by a closed pipe.
pub fn run(state: &Path, clock: &dyn Clock, out: &mut (impl Write + AsFd)) -> std::io::Result<()> {
    let mut publisher = Publisher::default();
    loop {
        // No file, or no line in it: the guard is not running, and silence says so.
        let line = heartbeat::read(state).ok();
        if let Some(text) = line.and_then(|line| publisher.due(line.clone(), slots(state, line.state), clock)) {
            match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
                other => other?,
            }
        }
        if closed_while_waiting(out) {
            return Ok(());
        }
    }
}

/// The slots that are to become empty, where the guard says that some are.
fn slots(state: &Path, now: NodeState) -> String {
    let mut text = String::new();
    if matches!(now, NodeState::Vacating | NodeState::Emergency) {
        let file = std::fs::File::open(state.with_file_name(VacateActuator::SLOTS));
        // Without it nothing but the state is told.
        let _ = file.and_then(|file| file.take(SLOTS_BYTES).read_to_string(&mut text));
    }
    text.trim_end().chars().filter(|c| c.is_ascii_alphanumeric() || ",_@.-".contains(*c)).collect()
}

/// Sleeps; a reader that goes away shows as an error condition on the pipe.
fn closed_while_waiting(out: &impl AsFd) -> bool {
    let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK_NS };
    let fd = out.as_fd();
    let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::empty())];
    let ready = poll(&mut polled, Some(&timeout)).unwrap_or_default();
    ready > 0 && polled.iter().any(|p| p.revents().intersects(PollFlags::ERR | PollFlags::NVAL))
}

#[cfg(test)]
mod tests {
    use super::*;
    const S: u64 = 1_000_000_000;

    /// Time since the boot, as a test wants it.
    struct At(u64);

    impl Clock for At {
        fn monotonic_ns(&self) -> u64 {
            self.0
        }
        fn realtime_ns(&self) -> u64 {
            0
        }
    }

    /// What is published for a heartbeat that the loop wrote just then, by the wall clock and since the boot.
    fn due(publisher: &mut Publisher, wall_s: u64, boot_s: u64) -> bool {
        let reason = "slack".to_owned();
        let (heartbeat, monotonic_ns) = (wall_s, boot_s * S);
        let line =
            StateLine { state: NodeState::Open, admit: true, heartbeat, monotonic_ns, reason, cores: 1, memory_mb: 1 };
        let ad = publisher.due(line, String::new(), &At(boot_s * S));
        assert!(ad.iter().all(|ad| ad.contains(&format!("BeerHeartbeat = {wall_s}\n"))));
        ad.is_some()
    }

    #[test]
    fn a_wall_clock_that_jumps_is_told_at_once() {
        let mut publisher = Publisher::default();
        assert!(due(&mut publisher, 1000, 100));
        assert!(!due(&mut publisher, 1004, 104) && !due(&mut publisher, 1006, 105), "it is set a little all the time");
        // START compares the heartbeat with the startd's clock, which has jumped too.
        assert!(due(&mut publisher, 4606, 106) && !due(&mut publisher, 4607, 107));
        assert!(due(&mut publisher, 1008, 108) && !due(&mut publisher, 1017, 117));
        assert!(due(&mut publisher, 1018, 118), "as ever after ten seconds");
    }
}

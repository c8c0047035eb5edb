// SPDX-License-Identifier: Apache-2.0
//! Which disks storage's clients fill by themselves: somebody of them waits there all the time, and many of their requests are as slow
//! as usually only the slowest fiftieth. Whatever batch does on such a disk is taken from them (a disk that is never idle has
//! nothing to give away), however little of it shows in a single request: each of them is slow as it is.
//!
//! Neither of both is enough by itself. A solid-state disk with many clients has always something in flight and much to spare; and slow
//! requests with idle time in between are evidence, which is judged elsewhere.

use crate::evaluator::FilesystemLoad;

/// Most filesystems, as in the segment.
const FILESYSTEMS: usize = 96;
/// What was before is forgotten with this time constant.
const MEMORY_NS: f32 = 3e9;
/// Clients wait for it for this part of the time: it has hardly any left. It has again when they do for less than the second.
const BUSY: (f32, f32) = (0.95, 0.9);
/// The same for the part of their requests that is slow; usual is one of fifty.
const SLOW: (f32, f32) = (0.2, 0.1);
/// With fewer requests that are remembered nothing is said.
const ENOUGH: f32 = 20.0;
/// Ticks that lie further apart have something in between that was not heard.
const TICK_MAX_NS: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, Default)]
struct Disk {
    /// Part of the time.
    busy: f32,
    requests: f32,
    /// Those of them that are slow.
    slow: f32,
    filled: bool,
}

impl Disk {
    fn slow(&self) -> f32 {
        if self.requests < ENOUGH {
            0.0
        } else {
            self.slow / self.requests
        }
    }
}

/// What is known of each filesystem.
#[derive(Clone, Debug)]
pub struct Filled {
    disks: [Disk; FILESYSTEMS],
    at_ns: u64,
}

impl Filled {
    /// Nothing yet.
    pub fn new(now_ns: u64) -> Filled {
        Filled { disks: [Disk::default(); FILESYSTEMS], at_ns: now_ns }
    }

    /// What clients got since the last time. The filesystems on disks that they fill, bit by index.
    pub fn note(&mut self, loads: &[FilesystemLoad], now_ns: u64) -> u128 {
        let passed_ns = now_ns.saturating_sub(self.at_ns);
        if passed_ns > TICK_MAX_NS {
            self.disks = [Disk::default(); FILESYSTEMS];
        }
        self.at_ns = now_ns;
        let kept = MEMORY_NS / (MEMORY_NS + passed_ns as f32);
        let mut filled = 0;
        for (index, (disk, load)) in self.disks.iter_mut().zip(loads).enumerate() {
            let busy = if load.storage_in_flight > 0 { 1.0 } else { 0.0 };
            disk.busy = busy + kept * (disk.busy - busy);
            disk.requests = kept * disk.requests + load.slow_end.requests;
            disk.slow = kept * disk.slow + load.slow_end.found;
            disk.filled = match disk.filled {
                true => disk.busy >= BUSY.1 && disk.slow() >= SLOW.1,
                false => disk.busy >= BUSY.0 && disk.slow() >= SLOW.0,
            };
            filled |= u128::from(disk.filled) << index;
        }
        filled
    }

    /// The part of the requests to a filesystem that is slow, and how many are too many.
    pub fn slow(&self, filesystem: u16) -> (f32, f32) {
        (self.disks.get(usize::from(filesystem)).map_or(0.0, Disk::slow), SLOW.0)
    }
}

/// Is this filesystem one of these, bit by index?
pub fn contains(filesystems: u128, index: usize) -> bool {
    u32::try_from(index).ok().and_then(|shift| filesystems.checked_shr(shift)).is_some_and(|bits| bits & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detector::SlowEnd;

    const TICK: u64 = 20_000_000;

    /// Two disks, the second of which is idle.
    struct Rig {
        filled: Filled,
        now_ns: u64,
    }

    impl Rig {
        fn new() -> Rig {
            Rig { filled: Filled::new(0), now_ns: 0 }
        }

        /// Two requests per tick, of which this part is slow; this part of the ticks has some in flight. For so many seconds.
        fn run(&mut self, busy: f32, slow: f32, seconds: u64) -> bool {
            let mut filled = 0;
            for tick in 0..50 * seconds {
                let mut loads = [FilesystemLoad::default(); 2];
                loads[0].storage_in_flight = u32::from((tick as f32 * busy).fract() < busy);
                loads[0].slow_end = SlowEnd { requests: 2.0, found: 2.0 * slow, usual: 0.04 };
                self.now_ns += TICK;
                filled = self.filled.note(&loads, self.now_ns);
            }
            assert_eq!(filled >> 1, 0);
            filled == 1
        }
    }

    #[test]
    fn a_disk_is_filled_when_somebody_always_waits_there_and_that_is_slow() {
        assert!(Rig::new().run(1.0, 0.9, 12));
        assert!(!Rig::new().run(0.8, 0.9, 60), "it has time to spare");
        assert!(!Rig::new().run(1.0, 0.1, 60), "there are always some, and they are fast");
        let mut rig = Rig::new();
        rig.run(0.7, 0.02, 60);
        assert!(!rig.run(1.0, 0.9, 2), "a moment is none");
        assert!(rig.run(1.0, 0.9, 4));
        assert_eq!(rig.filled.slow(0).1, 0.2);
        assert!(rig.filled.slow(0).0 > 0.7 && rig.filled.slow(95) == (0.0, 0.2) && rig.filled.slow(96) == (0.0, 0.2));
    }

    #[test]
    fn it_stays_so_until_there_is_some_room() {
        let mut rig = Rig::new();
        assert!(rig.run(1.0, 0.5, 20) && rig.run(0.97, 0.15, 60));
        assert!(!rig.run(0.8, 0.15, 10));
        assert!(rig.run(1.0, 0.5, 20) && !rig.run(1.0, 0.05, 20));
    }

    #[test]
    fn few_requests_and_a_silence_say_nothing() {
        let mut filled = Filled::new(0);
        let mut loads = [FilesystemLoad { storage_in_flight: 1, ..FilesystemLoad::default() }];
        for tick in 1..5000 {
            // One in a second.
            let one = if tick % 50 == 0 { 1.0 } else { 0.0 };
            loads[0].slow_end = SlowEnd { requests: one, found: one, usual: 0.0 };
            assert_eq!(filled.note(&loads, tick * TICK), 0);
        }
        let mut rig = Rig::new();
        assert!(rig.run(1.0, 0.9, 20));
        rig.now_ns += 2_000_000_000;
        assert!(!rig.run(1.0, 0.9, 1) && rig.run(1.0, 0.9, 20));
    }
}

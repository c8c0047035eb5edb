// SPDX-License-Identifier: Apache-2.0
//! Which disks storage's clients fill: somebody of them waits there all the time, and many of their requests are as slow as usually
//! only the slowest fiftieth, or slower than they were promised. A disk with one arm that is never idle has nothing to give away:
//! whatever batch does there is taken from them, however little of it shows in a single request, because each of them is slow as it is.
//!
//! Only of disks that turn: a solid-state disk has always something in flight, and much to spare. And slow requests with idle time in
//! between are evidence, which is judged elsewhere.
//!
//! Whether they do it by themselves shows when batch makes way ([`Filled::make_way`]): they have room then, or get more done. If neither,
//! the disk can do more than one thing at a time, whatever the kernel says of it. Where batch makes way as soon as it begins nothing can
//! show: clients never had less. It then makes way until the disk has room.

use intf::segment::layout::MAX_FILESYSTEMS;

use crate::bits::{bit, contains, each};
use crate::evaluator::FilesystemLoad;

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
/// There must have been room for so long; twice as long each time that it is filled again soon after: so that nobody is told of one
/// and the other in turn.
const ROOM_NS: u64 = 10_000_000_000;
const ROOM_MAX_NS: u64 = 600_000_000_000;
const SOON: u64 = 3;
/// Batch that does this part of the disk's work makes way. Less is what jobs need to be jobs.
pub const TAKEN: f32 = 0.05;
/// What batch has left to clients must show after so long, with at least this part of it: if it was so much that it can.
const TRIAL_NS: u64 = 15_000_000_000;
const SHOWS: f32 = 0.25;
const MEASURABLE: f32 = 0.2;
/// And if it had taken that for so long before, or what clients got done before is what they get without batch: two of `MEMORY_NS`.
const KNOWN_NS: u64 = 6_000_000_000;
/// In vain: it is tried again after so long, and after twice as long each time.
const AGAIN_NS: u64 = 60_000_000_000;
const AGAIN_MAX_NS: u64 = 3_600_000_000_000;
const DOUBLINGS: u32 = 6;

/// Batch has made way: what clients got done before.
#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    at_ns: u64,
    requests: f32,
    /// Batch's part of the disk.
    part: f32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Disk {
    /// Part of the time.
    busy: f32,
    requests: f32,
    /// Those of them that are slow.
    slow: f32,
    filled: bool,
    /// Since when it has room.
    room_ns: Option<u64>,
    /// For how long it must have; when it had last had that.
    wanted_ns: u64,
    ended_ns: Option<u64>,
    /// Since when batch takes a measurable part of it.
    taken_ns: Option<u64>,
    trial: Trial,
    /// It was in vain so often; not tried again before then.
    in_vain: u32,
    not_before_ns: u64,
}

impl Disk {
    fn slow(&self) -> Option<f32> {
        (self.requests >= ENOUGH).then(|| self.slow / self.requests)
    }

    fn add(&mut self, load: &FilesystemLoad, kept: f32) {
        let busy = if load.storage_in_flight > 0 { 1.0 } else { 0.0 };
        self.busy = busy + kept * (self.busy - busy);
        self.requests = kept * self.requests + load.slow_end.requests;
        self.slow = kept * self.slow + load.slow_end.slow;
    }

    fn fill(&mut self, now_ns: u64) {
        if !std::mem::replace(&mut self.filled, true) {
            let soon = self.ended_ns.is_some_and(|ns| now_ns.saturating_sub(ns) < SOON * self.wanted_ns);
            self.wanted_ns = if soon { (2 * self.wanted_ns).min(ROOM_MAX_NS) } else { ROOM_NS };
        }
    }

    fn judge(&mut self, now_ns: u64) {
        if !self.filled {
            if self.busy >= BUSY.0 && self.slow().is_some_and(|slow| slow >= SLOW.0) {
                self.fill(now_ns);
            }
            return;
        }
        // That too few requests come back to say so is no room.
        if self.busy >= BUSY.1 && self.slow().is_none_or(|slow| slow >= SLOW.1) {
            self.room_ns = None;
        } else if now_ns.saturating_sub(*self.room_ns.get_or_insert(now_ns)) >= self.wanted_ns {
            *self = Disk { filled: false, room_ns: None, ended_ns: Some(now_ns), ..*self };
        }
    }
}

/// What is known of each filesystem.
#[derive(Clone, Debug)]
pub struct Filled {
    disks: [Disk; MAX_FILESYSTEMS],
    at_ns: u64,
    /// Those that are filled, and those where batch has made way and it does not show yet, bit by index: most ticks look at none.
    filesystems: u128,
    trials: u128,
    rotational: u128,
}

impl Filled {
    /// Nothing yet.
    pub fn new(now_ns: u64) -> Filled {
        let disks = [Disk::default(); MAX_FILESYSTEMS];
        Filled { disks, at_ns: now_ns, filesystems: 0, trials: 0, rotational: 0 }
    }

    /// What clients got since the last time; which filesystems are on disks that turn, bit by index; and batch's part of each (NaN or a
    /// shorter slice = not known).
    pub fn note(&mut self, loads: &[FilesystemLoad], rotational: u128, parts: &[f32], now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.at_ns);
        self.at_ns = now_ns;
        // After a silence it is as before until more is known.
        let kept = if passed_ns > TICK_MAX_NS { 0.0 } else { MEMORY_NS / (MEMORY_NS + passed_ns as f32) };
        (self.filesystems, self.rotational) = (0, rotational);
        for (index, (disk, load)) in self.disks.iter_mut().zip(loads).enumerate() {
            if !contains(rotational, index) {
                continue;
            }
            let takes = parts.get(index).is_some_and(|part| *part >= MEASURABLE);
            disk.taken_ns = takes.then(|| disk.taken_ns.unwrap_or(now_ns));
            disk.add(load, kept);
            disk.judge(now_ns);
            self.filesystems |= if disk.filled { bit(index) } else { 0 };
        }
    }

    /// Batch stood still, and somebody waited for these all the time: they are filled, if they turn and many of their requests are slow.
    pub fn fill(&mut self, filesystems: u128) {
        for index in each(filesystems & self.rotational) {
            let slow = |disk: &&mut Disk| disk.slow().is_some_and(|slow| slow >= SLOW.0);
            if let Some(disk) = self.disks.get_mut(index).filter(slow) {
                disk.busy = 1.0;
                disk.fill(self.at_ns);
                self.filesystems |= bit(index);
            }
        }
    }

    /// Those on disks that clients fill, bit by index.
    pub fn filesystems(&self) -> u128 {
        self.filesystems
    }

    /// The part of the requests to a filesystem that is slow, and how many are too many.
    pub fn slow(&self, filesystem: u16) -> (f32, f32) {
        (self.disks.get(usize::from(filesystem)).and_then(Disk::slow).unwrap_or_default(), SLOW.0)
    }

    /// May batch be asked to make way there? Not for a while after that was in vain.
    pub fn may_ask(&self, filesystem: u16, now_ns: u64) -> bool {
        self.disks.get(usize::from(filesystem)).is_some_and(|disk| now_ns >= disk.not_before_ns)
    }

    /// On these, bit by index, nobody makes way any more, or for another reason.
    pub fn end_trials(&mut self, filesystems: u128) {
        self.trials &= !filesystems;
    }

    /// Batch is to leave this part of the disk's work to them.
    pub fn make_way(&mut self, filesystem: u16, part: f32, now_ns: u64) {
        let Some(disk) = self.disks.get_mut(usize::from(filesystem)).filter(|_| part >= MEASURABLE) else { return };
        if disk.taken_ns.is_some_and(|since_ns| now_ns.saturating_sub(since_ns) >= KNOWN_NS) {
            disk.trial = Trial { at_ns: now_ns, requests: disk.requests, part };
            self.trials |= bit(filesystem.into());
        }
    }

    /// Where it did, and they have neither room nor more done for it. Said once.
    pub fn in_vain(&mut self, now_ns: u64) -> Option<u16> {
        for index in each(self.trials) {
            let disk = self.disks.get_mut(index)?;
            if now_ns.saturating_sub(disk.trial.at_ns) < TRIAL_NS {
                continue;
            }
            self.trials &= !bit(index);
            let more = disk.requests >= disk.trial.requests * (1.0 + SHOWS * disk.trial.part);
            if !disk.filled || disk.room_ns.is_some() || more {
                disk.in_vain = 0;
            } else {
                disk.not_before_ns = now_ns.saturating_add((AGAIN_NS << disk.in_vain).min(AGAIN_MAX_NS));
                disk.in_vain = (disk.in_vain + 1).min(DOUBLINGS);
                return u16::try_from(index).ok();
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detector::SlowEnd;

    const TICK: u64 = 20_000_000;

    /// Three disks, of which the second is idle and the third does not turn.
    struct Rig {
        filled: Filled,
        now_ns: u64,
        /// Requests per tick.
        requests: f32,
        /// Batch's part of the first one.
        part: f32,
    }

    impl Rig {
        fn new() -> Rig {
            Rig { filled: Filled::new(0), now_ns: 0, requests: 2.0, part: 0.0 }
        }

        /// This part of the requests is slow, and this part of the ticks has some in flight, for so long. Filled?
        fn run(&mut self, busy: f32, slow: f32, seconds: f32) -> bool {
            for tick in 0..(50.0 * seconds) as u64 {
                let mut loads = [FilesystemLoad::default(); 3];
                loads[0].storage_in_flight = u32::from((tick as f32 * busy).fract() < busy);
                let requests = self.requests;
                // They share their fate, which says nothing of how many of them are slow.
                loads[0].slow_end =
                    SlowEnd { requests, slow: requests * slow, found: requests * slow / 8.0, usual: requests / 400.0 };
                loads[2] = loads[0];
                self.now_ns += TICK;
                self.filled.note(&loads, 0b11, &[self.part], self.now_ns);
            }
            assert_eq!(self.filled.filesystems() >> 1, 0);
            self.filled.filesystems() == 1
        }
    }

    #[test]
    fn a_disk_is_filled_when_somebody_always_waits_there_and_that_is_slow() {
        assert!(Rig::new().run(1.0, 0.9, 12.0));
        assert!(!Rig::new().run(0.8, 0.9, 60.0), "it has time to spare");
        assert!(!Rig::new().run(1.0, 0.1, 60.0), "there are always some, and they are fast");
        let mut rig = Rig::new();
        rig.run(0.7, 0.02, 60.0);
        assert!(!rig.run(1.0, 0.9, 2.0), "a moment is none");
        assert!(rig.run(1.0, 0.9, 4.0));
        assert_eq!(rig.filled.slow(0).1, 0.2);
        assert!(rig.filled.slow(0).0 > 0.7 && rig.filled.slow(95) == (0.0, 0.2) && rig.filled.slow(96) == (0.0, 0.2));
    }

    #[test]
    fn it_stays_so_until_there_has_been_some_room_for_a_while() {
        let mut rig = Rig::new();
        assert!(rig.run(1.0, 0.5, 20.0) && rig.run(0.97, 0.15, 60.0));
        assert!(rig.run(0.8, 0.15, 9.0) && !rig.run(0.8, 0.15, 5.0));
        assert!(rig.run(1.0, 0.5, 20.0) && rig.run(1.0, 0.05, 15.0), "so soon once more");
        assert!(!rig.run(1.0, 0.05, 15.0));
    }

    #[test]
    fn who_takes_and_gives_in_turn_is_held_for_longer_each_time() {
        let mut rig = Rig::new();
        // Whoever makes way gives it room, and fills it again as soon as he may.
        let (mut filled, mut times) = (false, 0);
        for _ in 0..3600 {
            let now = if filled { rig.run(0.5, 0.05, 1.0) } else { rig.run(1.0, 0.9, 1.0) };
            times += u32::from(now && !filled);
            filled = now;
        }
        // After six doublings it is ten minutes each.
        assert!((8..=12).contains(&times), "{times} in an hour");
    }

    #[test]
    fn few_requests_and_a_silence_say_nothing() {
        let mut rig = Rig::new();
        rig.requests = 0.02;
        assert!(!rig.run(1.0, 1.0, 100.0));
        rig.requests = 2.0;
        assert!(rig.run(1.0, 0.9, 20.0));
        rig.requests = 0.02;
        assert!(rig.run(1.0, 1.0, 100.0), "nor that there is room");
        rig.requests = 2.0;
        rig.now_ns += 2_000_000_000;
        assert!(rig.run(1.0, 0.9, 1.0) && rig.run(1.0, 0.9, 20.0));
    }

    #[test]
    fn where_batch_makes_way_as_soon_as_it_begins_nothing_can_show() {
        let mut rig = Rig::new();
        rig.run(1.0, 0.9, 20.0);
        rig.part = 0.4;
        rig.run(1.0, 0.9, 2.0);
        rig.filled.make_way(0, 0.4, rig.now_ns);
        rig.part = 0.0;
        assert!(rig.run(1.0, 0.9, 60.0));
        assert_eq!(rig.filled.in_vain(rig.now_ns), None, "clients have all that they had before it came");
    }

    #[test]
    fn what_batch_leaves_to_clients_shows_or_it_was_in_vain() {
        // They have as much as before, more, and room.
        let cases = [(0.4, 2.0, 1.0, Some(0)), (0.4, 2.4, 1.0, None), (0.4, 2.0, 0.7, None), (0.1, 2.0, 1.0, None)];
        for (part, requests, busy, in_vain) in cases {
            let mut rig = Rig::new();
            rig.part = part;
            rig.run(1.0, 0.9, 20.0);
            rig.filled.make_way(0, part, rig.now_ns);
            rig.requests = requests;
            rig.run(busy, 0.9, 14.0);
            assert_eq!(rig.filled.in_vain(rig.now_ns), None);
            rig.run(busy, 0.9, 1.0);
            assert_eq!((rig.filled.in_vain(rig.now_ns), rig.filled.in_vain(rig.now_ns)), (in_vain, None));
            // It is tried again, later each time; on other disks nothing is known.
            let may = |rig: &Rig, seconds: u64| rig.filled.may_ask(0, rig.now_ns + seconds * 1_000_000_000);
            assert_eq!((may(&rig, 59), may(&rig, 60)), (in_vain.is_none(), true));
            assert!(rig.filled.may_ask(1, rig.now_ns) && !rig.filled.may_ask(96, rig.now_ns));
            rig.filled.make_way(0, part, rig.now_ns);
            rig.filled.end_trials(0b1);
            rig.run(busy, 0.9, 20.0);
            assert_eq!(rig.filled.in_vain(rig.now_ns), None, "who made way has gone");
        }
    }
}

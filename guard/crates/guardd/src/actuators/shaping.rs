// SPDX-License-Identifier: Apache-2.0
//! The shaping segment: holds what batch does through the storage daemons, which no cgroup reaches. A freeze without it
//! leaves the requests being served that jobs have sent already, and those of jobs on other nodes.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use intf::shaping::{self, Allowance, Shaping, SHAPING_BYTES};
use policy::throttle::DISKS;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::io_max::LITTLE;

/// What is left to batch in the storage daemons, on each filesystem, while nobody can tell what it does there.
const LEAST_EVERYWHERE: Allowance =
    Allowance { device: (Allowance::EVERY, Allowance::EVERY), bytes: LITTLE.1, operations: LITTLE.0 };
/// A guard that is killed is back well within this; one that never comes back holds nobody for longer.
const LEASE_NS: u64 = 10_000_000_000;
/// The fail-safe looks every 10 s, on a busy node later. Who reads it takes no more than a minute.
const LEASE_OF_FAILSAFE_NS: u64 = 45_000_000_000;
/// The storage daemon looks every 20 ms, and opens a file that was replaced within a second: later than this it does not listen.
const APPLIED_NS: u64 = 2_000_000_000;
/// After a failure it is tried again at this pace, so that a full /run is not written to at every tick.
const AGAIN_NS: u64 = 1_000_000_000;

/// Why batch is not held there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The segment cannot be written.
    Unwritten(Errno),
    /// The storage daemon does not say that it has applied what was written.
    Unapplied,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Unwritten(errno) => errno.fmt(f),
            Fault::Unapplied => f.write_str(
                "the storage daemon has not applied it (does `beer.control` in its configuration name this file?)",
            ),
        }
    }
}

/// What batch may not do through the storage daemons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Held {
    /// It may do everything.
    #[default]
    Nothing,
    /// Nothing on the filesystem of this device.
    Device((u32, u32)),
    /// Nothing at all.
    Everything,
}

/// All that batch is denied there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// What stands still.
    pub held: Held,
    /// What goes slowly, by device.
    pub slow: [Option<Allowance>; DISKS],
}

impl From<Held> for Wanted {
    fn from(held: Held) -> Self {
        Wanted { held, ..Wanted::default() }
    }
}

impl Wanted {
    /// Little, everywhere.
    pub fn least() -> Self {
        let mut slow = [None; DISKS];
        // A disk with a record of its own would have more.
        slow[0] = Some(LEAST_EVERYWHERE);
        Wanted { slow, ..Wanted::default() }
    }

    fn nothing(&self) -> bool {
        *self == Wanted::default()
    }

    /// The records; how many there are.
    fn records(&self) -> ([Allowance; DISKS + 1], usize) {
        let mut records = [Allowance::HELD; DISKS + 1];
        let mut count = 0;
        let mut push = |allowance| {
            records[count] = allowance;
            count += 1;
        };
        match self.held {
            Held::Nothing => {}
            // A record for one device would let go of it.
            Held::Everything => return (records, 1),
            Held::Device(device) => push(Allowance { device, ..Allowance::HELD }),
        }
        let held = |slow: &&Allowance| self.held != Held::Device(slow.device);
        self.slow.iter().flatten().filter(held).for_each(|slow| push(*slow));
        (records, count)
    }
}

/// Keeps the segment as it is wanted. It lies below /run, so a write waits for no disk. A segment that cannot be written
/// never keeps the guard from its first knob, the freezer.
pub struct ShapingActuator {
    path: PathBuf,
    fd: Option<OwnedFd>,
    buffer: [u8; SHAPING_BYTES],
    /// So much of the buffer was written.
    used: usize,
    sequence: u64,
    /// What the file says; `None` = not known: what an earlier guard wrote, or a write that failed.
    written: Option<Wanted>,
    /// So long it is good.
    lease_ns: u64,
    lease_until_ns: u64,
    fault: Option<Errno>,
    again_ns: u64,
    /// The storage daemon says since then that it has applied another one.
    unapplied_ns: Option<u64>,
}

impl ShapingActuator {
    /// Name of the file in its folder.
    pub const NAME: &'static str = "shaping";

    /// Touches nothing yet.
    pub fn new(folder: &Path) -> Self {
        ShapingActuator {
            path: folder.join(Self::NAME),
            fd: None,
            buffer: [0; SHAPING_BYTES],
            used: 0,
            sequence: 0,
            written: None,
            lease_ns: LEASE_NS,
            lease_until_ns: 0,
            fault: None,
            again_ns: 0,
            unapplied_ns: None,
        }
    }

    /// Of the fail-safe, which is run now and then.
    pub fn of_failsafe(folder: &Path) -> Self {
        ShapingActuator { lease_ns: LEASE_OF_FAILSAFE_NS, ..ShapingActuator::new(folder) }
    }

    /// Does somebody hold batch there now, a guard that has ended for example?
    pub fn somebody_holds(&self, now_ns: u64) -> bool {
        std::fs::read(&self.path).is_ok_and(|file| shaping::holds(&file, now_ns))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Is batch held, as far as was written?
    pub fn held(&self) -> bool {
        self.written.is_some_and(|wanted| wanted.held != Held::Nothing)
    }

    /// What is wrong with it.
    pub fn fault(&self, now_ns: u64) -> Option<Fault> {
        let late = self.unapplied_ns.is_some_and(|since_ns| now_ns.saturating_sub(since_ns) >= APPLIED_NS);
        self.fault.map(Fault::Unwritten).or(late.then_some(Fault::Unapplied))
    }

    /// The storage daemon says that it has applied the segment of this number; `None` = it says nothing. To be called at every tick.
    pub fn heard(&mut self, applied: Option<u64>, now_ns: u64) {
        // What has to be written anew first nobody can have applied.
        if self.written.is_some() {
            let unapplied = applied.is_some_and(|applied| applied != self.sequence);
            self.unapplied_ns = unapplied.then(|| self.unapplied_ns.unwrap_or(now_ns));
        }
    }

    /// To be called at every tick: writes when what is wanted changes, and renews the lease at half of it.
    pub fn keep(&mut self, wanted: impl Into<Wanted>, now_ns: u64) {
        let wanted = wanted.into();
        let good =
            self.written == Some(wanted) && (wanted.nothing() || now_ns + self.lease_ns / 2 < self.lease_until_ns);
        if good || (self.fault.is_some() && now_ns < self.again_ns) {
            return;
        }
        self.again_ns = now_ns + AGAIN_NS;
        let outcome = self.write(&wanted, now_ns);
        self.fault = outcome.err();
        self.written = outcome.is_ok().then_some(wanted);
        if self.fault.is_some() {
            self.fd = None;
        }
    }

    /// Has somebody else written there, or taken the file away? The next [`Self::keep`] puts it right.
    pub fn drifted(&mut self) -> bool {
        let (Some(fd), true) = (&self.fd, self.written.is_some()) else { return false };
        let mut found = [0; SHAPING_BYTES];
        let found = &mut found[..self.used];
        let same = in_its_place(fd)
            && rustix::io::pread(fd, &mut *found, 0) == Ok(self.used)
            && *found == self.buffer[..self.used];
        if !same {
            (self.fd, self.written) = (None, None);
        }
        !same
    }

    fn write(&mut self, wanted: &Wanted, now_ns: u64) -> Result<(), Errno> {
        let fd = match self.fd.take().filter(in_its_place) {
            Some(fd) => fd,
            None => open(&self.path)?,
        };
        // From the clock at first: a later guard's numbers are none of an earlier one's.
        self.sequence = if self.sequence == 0 { now_ns } else { self.sequence + 1 };
        self.lease_until_ns = if wanted.nothing() { 0 } else { now_ns + self.lease_ns };
        let (records, count) = wanted.records();
        let shaping = Shaping {
            sequence: self.sequence,
            lease_until_ns: self.lease_until_ns,
            pid: std::process::id(),
            allowances: &records[..count],
        };
        let bytes = shaping.encode(&mut self.buffer);
        self.used = bytes.len();
        let written = rustix::io::pwrite(&fd, bytes, 0)?;
        self.fd = Some(fd);
        if written == self.used {
            Ok(())
        } else {
            Err(Errno::NOSPC)
        }
    }
}

/// Somebody may have removed or replaced the file: nobody reads the old one then.
fn in_its_place(fd: &OwnedFd) -> bool {
    rustix::fs::fstat(fd).is_ok_and(|stat| stat.st_nlink > 0)
}

fn open(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let fd = rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?;
    rustix::fs::ftruncate(&fd, SHAPING_BYTES as u64)?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn lease(folder: &Path) -> u64 {
        let bytes = std::fs::read(folder.join(ShapingActuator::NAME)).unwrap();
        assert_eq!(bytes.len(), SHAPING_BYTES);
        u64::from_le_bytes(bytes[24..32].try_into().unwrap())
    }

    #[test]
    fn holds_renews_and_lifts() {
        let folder = tempfile::tempdir().unwrap();
        let mut actuator = ShapingActuator::new(folder.path());
        let start = 1000 * SECOND_NS;
        actuator.keep(Held::Everything, start);
        assert!(actuator.held());
        assert_eq!(lease(folder.path()), start + LEASE_NS);
        actuator.keep(Held::Everything, start + 4 * SECOND_NS);
        assert_eq!(lease(folder.path()), start + LEASE_NS, "not at every tick");
        actuator.keep(Held::Everything, start + 5 * SECOND_NS);
        assert_eq!(lease(folder.path()), start + 5 * SECOND_NS + LEASE_NS);
        actuator.keep(Held::Nothing, start + 6 * SECOND_NS);
        assert_eq!((actuator.held(), lease(folder.path())), (false, 0));
        let written = actuator.sequence;
        assert_eq!(written, start + 2, "three writes");
        actuator.keep(Held::Nothing, start + 600 * SECOND_NS);
        assert_eq!(actuator.sequence, written);
    }

    #[test]
    fn what_an_earlier_guard_left_is_lifted_at_the_first_tick() {
        let folder = tempfile::tempdir().unwrap();
        ShapingActuator::new(folder.path()).keep(Held::Everything, SECOND_NS);
        let mut next = ShapingActuator::new(folder.path());
        assert_ne!(lease(folder.path()), 0, "nothing was decided yet");
        next.keep(Held::Nothing, 2 * SECOND_NS);
        assert_eq!(lease(folder.path()), 0);
    }

    #[test]
    fn a_daemon_that_does_not_listen_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut actuator = ShapingActuator::new(folder.path());
        let heard = |actuator: &mut ShapingActuator, applied, seconds| {
            actuator.heard(applied, seconds * SECOND_NS);
            actuator.fault(seconds * SECOND_NS)
        };
        assert_eq!(heard(&mut actuator, Some(0), 5), None, "nothing was written");
        actuator.keep(Held::Nothing, 10 * SECOND_NS);
        assert_eq!(heard(&mut actuator, Some(0), 10), None);
        assert_eq!(heard(&mut actuator, Some(0), 11), None, "it may have it any moment now");
        assert_eq!(heard(&mut actuator, Some(0), 12), Some(Fault::Unapplied));
        // Another write gives it no more time.
        actuator.keep(Held::Everything, 13 * SECOND_NS);
        assert_eq!(heard(&mut actuator, Some(0), 13), Some(Fault::Unapplied));
        // Nor is it well because somebody else has written there.
        std::fs::write(actuator.path(), "").unwrap();
        assert!(actuator.drifted());
        assert_eq!(heard(&mut actuator, Some(0), 13), Some(Fault::Unapplied));
        actuator.keep(Held::Everything, 13 * SECOND_NS);
        let written = actuator.sequence;
        assert_eq!(heard(&mut actuator, Some(written), 13), None);
        // One that has just begun has had no time.
        assert_eq!(heard(&mut actuator, None, 60), None);
        assert_eq!(heard(&mut actuator, Some(0), 61), None);
    }

    #[test]
    fn a_file_that_was_removed_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut actuator = ShapingActuator::new(folder.path());
        actuator.keep(Held::Everything, SECOND_NS);
        std::fs::remove_file(actuator.path()).unwrap();
        actuator.keep(Held::Everything, 6 * SECOND_NS);
        assert_eq!(lease(folder.path()), 6 * SECOND_NS + LEASE_NS);
    }

    #[test]
    fn what_somebody_else_has_written_is_seen_and_put_right() {
        let folder = tempfile::tempdir().unwrap();
        let mut actuator = ShapingActuator::new(folder.path());
        assert!(!actuator.drifted(), "nothing is ours");
        for held in [Held::Everything, Held::Nothing] {
            actuator.keep(held, SECOND_NS);
            assert!(!actuator.drifted());
            let ours = std::fs::read(actuator.path()).unwrap();
            let mut other = ours.clone();
            other[24] ^= 1;
            let mischief: [&dyn Fn(&Path); 3] =
                [&|path| std::fs::write(path, &other).unwrap(), &|path| std::fs::write(path, "").unwrap(), &|path| {
                    std::fs::remove_file(path).unwrap()
                }];
            for mischief in mischief {
                mischief(actuator.path());
                assert!(actuator.drifted());
                actuator.keep(held, SECOND_NS + 1);
                assert_eq!(std::fs::read(actuator.path()).unwrap().len(), SHAPING_BYTES);
                assert!(!actuator.drifted() && actuator.written == Some(held.into()));
            }
        }
    }

    #[test]
    fn what_cannot_be_written_is_tried_again_once_a_second() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("control");
        let mut actuator = ShapingActuator::new(&place);
        actuator.keep(Held::Everything, SECOND_NS);
        assert_eq!((actuator.held(), actuator.fault(SECOND_NS)), (false, Some(Fault::Unwritten(Errno::NOENT))));
        std::fs::create_dir(&place).unwrap();
        actuator.keep(Held::Everything, SECOND_NS + SECOND_NS / 2);
        assert!(!actuator.held());
        actuator.keep(Held::Everything, 2 * SECOND_NS);
        assert_eq!((actuator.held(), actuator.fault(4 * SECOND_NS)), (true, None));
    }

    #[test]
    fn one_filesystem_alone_is_held_by_its_device() {
        let folder = tempfile::tempdir().unwrap();
        let mut actuator = ShapingActuator::new(folder.path());
        let record = || {
            let bytes = std::fs::read(folder.path().join(ShapingActuator::NAME)).unwrap();
            let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            (number(12), number(64), number(68))
        };
        actuator.keep(Held::Everything, SECOND_NS);
        assert_eq!(record(), (1, Allowance::EVERY, Allowance::EVERY));
        actuator.keep(Held::Device((8, 16)), SECOND_NS + 1);
        assert_eq!((record(), actuator.held()), ((1, 8, 16), true));
        actuator.keep(Held::Nothing, SECOND_NS + 2);
        assert_eq!(record().0, 0);
    }

    #[test]
    fn what_goes_slowly_is_beside_what_stands_still() {
        let slow = |device| Allowance { device, bytes: 5, operations: 7 };
        let slow_at = |devices: &[(u32, u32)]| {
            let mut slow_all = [None; DISKS];
            devices.iter().zip(&mut slow_all).for_each(|(device, place)| *place = Some(slow(*device)));
            slow_all
        };
        let records = |held, devices: &[(u32, u32)]| {
            let (records, count) = Wanted { held, slow: slow_at(devices) }.records();
            records[..count].to_vec()
        };
        assert_eq!(records(Held::Nothing, &[(8, 16), (8, 32)]), [slow((8, 16)), slow((8, 32))]);
        let held = Allowance { device: (8, 16), ..Allowance::HELD };
        assert_eq!(records(Held::Device((8, 16)), &[(8, 16), (8, 32)]), [held, slow((8, 32))]);
        assert_eq!(records(Held::Everything, &[(8, 16)]), [Allowance::HELD]);
        let folder = tempfile::tempdir().unwrap();
        let mut actuator = ShapingActuator::new(folder.path());
        actuator.keep(Wanted { slow: slow_at(&[(8, 16)]), ..Wanted::default() }, SECOND_NS);
        assert_eq!((actuator.held(), lease(folder.path())), (false, SECOND_NS + LEASE_NS), "a limit needs a lease too");
        actuator.keep(Held::Nothing, 2 * SECOND_NS);
        assert_eq!(lease(folder.path()), 0);
    }

    #[test]
    fn a_link_in_its_place_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), folder.path().join(ShapingActuator::NAME)).unwrap();
        let mut actuator = ShapingActuator::new(folder.path());
        actuator.keep(Held::Everything, SECOND_NS);
        assert_eq!(actuator.fault(SECOND_NS), Some(Fault::Unwritten(Errno::LOOP)));
        assert!(!folder.path().join("elsewhere").exists());
    }
}

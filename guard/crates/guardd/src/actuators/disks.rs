// SPDX-License-Identifier: Apache-2.0
//! How much of the data disks all of batch may have: `io.max` of the slice of the jobs. Little of each that storage serves from, while
//! nobody sees what it does there: nothing is heard of storage, or no guard is there at all (fail-safe). Or so much of one, where
//! limits of single jobs would add up to too much. Slow: for the actuator thread only.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;

use super::io_max::{IoMaxActuator, Limit, LITTLE, PROPERTIES};
use super::replace;
use super::squeeze::Squeezed;
use crate::signals::parse_device;

/// Keeps the limit as it is wanted.
pub struct DisksActuator {
    io_max: IoMaxActuator,
    slice: PathBuf,
    run: PathBuf,
    memory: PathBuf,
}

/// Names of files in the run folder.
impl DisksActuator {
    /// The disks that storage serves from, as the guard last knew them.
    const KNOWN: &'static str = "disks";
    /// There is a limit: the guard's.
    const OF_GUARD: &'static str = "disks-limited";
    /// The same of the fail-safe's.
    const OF_FAILSAFE: &'static str = "disks-capped";
    /// systemd's files may be tidied up: the guard's sandbox cannot.
    const TIDY: &'static str = "disks-before";
}

impl DisksActuator {
    /// Of what batch has less where limits of single jobs would add up to too much.
    pub const TOGETHER: &'static str = "busy disks";

    /// The guard's own. `slice` is the folder of the cgroup of the jobs. Touches nothing yet.
    pub fn of_guard(slice: &Path, run: &Path, systemctl: &Path, deadline: Duration) -> Self {
        Self::new(slice, run, Self::OF_GUARD, systemctl, deadline)
    }

    /// For when there is no guard. Knows what it has set itself before.
    pub fn of_failsafe(slice: &Path, run: &Path, systemctl: &Path, deadline: Duration) -> Self {
        let mut own = Self::new(slice, run, Self::OF_FAILSAFE, systemctl, deadline);
        own.io_max.adopt();
        own
    }

    fn new(slice: &Path, run: &Path, memory: &str, systemctl: &Path, deadline: Duration) -> Self {
        let memory = run.join(memory);
        let parent = slice.parent().unwrap_or(slice);
        let io_max = IoMaxActuator::remembering(parent, &memory, systemctl, deadline);
        DisksActuator { io_max, slice: slice.to_owned(), run: run.to_owned(), memory }
    }

    /// Knows what a guard before has left, which may have died: the next [`Self::make`] puts that right.
    pub fn adopt(&mut self) {
        self.io_max.adopt();
    }

    /// What a guard that is not there any more has left is from now on this one's.
    pub fn inherit(&mut self) {
        let left = self.run.join(Self::OF_GUARD);
        if limited(&left) && !limited(&self.memory) && std::fs::rename(&left, &self.memory).is_ok() {
            self.io_max.adopt();
        }
    }

    /// Little of these disks; if it is of none, so much `together` of some others, and all of the rest. Says what it did, and nothing
    /// of what was so already.
    pub fn make(&mut self, little: &[(u32, u32)], together: &[Limit]) -> Option<Squeezed> {
        let unit = super::unit(&self.slice);
        let wanted: Vec<Limit> = match little {
            _ if !self.slice.exists() => Vec::new(),
            [] => together.to_vec(),
            disks => disks.iter().map(|device| Limit::little(unit, *device)).collect(),
        };
        if self.io_max.stands(&wanted) {
            return None;
        }
        let outcome = self.io_max.make(&wanted, &mut || false).pop()?;
        let less = !outcome.limits.is_empty();
        if !less && outcome.seen.is_ok() {
            // For [`Self::tidy`]. Without it they stay, and hide later changes of the unit's own.
            let _ = std::fs::write(self.run.join(Self::TIDY), "");
        }
        let words = || match little {
            [] => together.iter().map(Limit::words).collect::<Vec<_>>().join(", "),
            _ => format!("{} requests/s and {:.1} MB/s of each data disk", LITTLE.0, LITTLE.1 as f64 / 1e6),
        };
        let has = less.then(words);
        let of = if less && little.is_empty() { Self::TOGETHER } else { "data disks" };
        Some(Squeezed { of, has, seen: outcome.seen })
    }

    /// Is it otherwise in the kernel than it was made? It is put right with the next [`Self::make`].
    pub fn drifted(&mut self) -> bool {
        self.io_max.drifted()
    }

    /// Takes systemd's files away that what was given back has left, so that they do not hide a later change of the unit's own.
    /// `control` = where it keeps them. Only with all privileges.
    ///
    /// # Errors
    /// They cannot be removed.
    pub fn tidy(&self, control: &Path) -> Result<()> {
        let marker = self.run.join(Self::TIDY);
        if !marker.exists() || [Self::OF_GUARD, Self::OF_FAILSAFE].iter().any(|name| limited(&self.run.join(name))) {
            return Ok(());
        }
        let unit = self.slice.file_name().unwrap_or_default().to_string_lossy();
        for property in PROPERTIES {
            let file = control.join(format!("{unit}.d/50-{property}.conf"));
            if std::fs::read_to_string(&file).is_ok_and(|text| text.lines().all(says_nothing)) {
                super::gone(&file)?;
            }
        }
        super::gone(&marker)
    }

    /// Writes down which disks there are, for who comes when no guard is there. Below /run: waits for no disk.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn know(&self, disks: &[(u32, u32)]) -> Result<()> {
        let path = self.run.join(Self::KNOWN);
        let lines: Vec<String> = disks.iter().map(|(major, minor)| format!("{major}:{minor}\n")).collect();
        replace(&path, &lines.concat())
    }

    /// Has the kernel make ready what `io.max` needs on these disks, and changes nothing: since Linux 6.10 it does so with the first
    /// write for a disk, and stops that disk's queue until all that is in it is done (`blk_throtl_init`). Better now than
    /// while batch floods it. Beside all else, because a disk that hangs lets nobody return from there.
    pub fn arm(&self, disks: &[(u32, u32)]) {
        let path = self.slice.join("io.max");
        let disks = disks.to_vec();
        let arm = move || {
            for (major, minor) in disks {
                // What cannot be written now is none the worse later, when it is said.
                let file = std::fs::OpenOptions::new().append(true).open(&path);
                let _ = file.and_then(|mut file| file.write_all(format!("{major}:{minor} \n").as_bytes()));
            }
        };
        let _ = std::thread::Builder::new().name("arm".into()).stack_size(64 << 10).spawn(arm);
    }

    /// The disks that some guard knew; none where there has been no guard since the node was started.
    pub fn known(&self) -> Vec<(u32, u32)> {
        let text = std::fs::read_to_string(self.run.join(Self::KNOWN)).unwrap_or_default();
        text.lines().filter_map(parse_device).collect()
    }
}

/// Is this line of a file of systemd no limit? What else is there the site has set.
fn says_nothing(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with(['#', '[']) || line.ends_with('=') || line.ends_with(" infinity")
}

/// Does this file name a limit?
fn limited(memory: &Path) -> bool {
    std::fs::metadata(memory).is_ok_and(|file| file.len() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISKS: [(u32, u32); 2] = [(254, 16), (254, 32)];
    /// Half of 8 requests/s and of 1 MiB/s each way.
    const LITTLE: &str = "rbps=524288 wbps=524288 riops=4 wiops=4";

    /// The slice, and a systemctl that does as systemd does.
    struct Rig(tempfile::TempDir);

    impl Rig {
        fn new(before: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            for name in ["run", "beer.slice", "control/beer.slice.d"] {
                std::fs::create_dir_all(folder.path().join(name)).unwrap();
            }
            std::fs::write(folder.path().join("beer.slice/io.max"), before).unwrap();
            let systemctl = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/systemctl-io");
            std::os::unix::fs::symlink(systemctl, folder.path().join("run/systemctl")).unwrap();
            Rig(folder)
        }

        fn made(&self, of: fn(&Path, &Path, &Path, Duration) -> DisksActuator) -> DisksActuator {
            let path = |name| self.0.path().join(name);
            of(&path("beer.slice"), &path("run"), &path("run/systemctl"), Duration::from_secs(20))
        }

        fn io_max(&self) -> String {
            std::fs::read_to_string(self.0.path().join("beer.slice/io.max")).unwrap()
        }
    }

    fn said(outcome: Option<Squeezed>) -> Option<(bool, bool)> {
        outcome.map(|outcome| (outcome.has.is_some(), outcome.seen.is_ok()))
    }

    #[test]
    fn little_of_each_disk_and_then_what_the_site_gives_again() {
        let rig = Rig::new("254:32 rbps=max wbps=9000 riops=max wiops=2\n8:0 rbps=max wbps=max riops=70 wiops=max\n");
        let mut actuator = rig.made(DisksActuator::of_guard);
        assert_eq!(said(actuator.make(&[], &[])), None);
        assert_eq!(said(actuator.make(&DISKS, &[])), Some((true, true)));
        let strictest = "254:32 rbps=524288 wbps=9000 riops=4 wiops=2";
        for line in [&format!("254:16 {LITTLE}"), strictest, "8:0 rbps=max wbps=max riops=70 wiops=max"] {
            assert!(rig.io_max().lines().any(|other| other == line), "{line} in\n{}", rig.io_max());
        }
        assert_eq!((said(actuator.make(&DISKS, &[])), actuator.drifted()), (None, false));
        std::fs::write(rig.0.path().join("beer.slice/io.max"), "").unwrap();
        assert!(actuator.drifted() && said(actuator.make(&DISKS, &[])) == Some((true, true)));
        assert_eq!(said(actuator.make(&[], &[])), Some((false, true)));
        assert!(rig.io_max().contains("254:32 rbps=max wbps=9000 riops=max wiops=2"), "{}", rig.io_max());
        assert!(!rig.io_max().contains("riops=4"), "{}", rig.io_max());
        assert_eq!(said(actuator.make(&[], &[])), None);
    }

    #[test]
    fn so_much_together_of_one_disk_unless_it_is_little_of_all() {
        let rig = Rig::new("");
        let mut actuator = rig.made(DisksActuator::of_guard);
        let limit =
            |requests| Limit { scope: "beer.slice".into(), device: (254, 16), requests, bytes: 4 << 20, reads: 75 };
        let has = |outcome: Option<Squeezed>| outcome.and_then(|outcome| outcome.has);
        assert_eq!(has(actuator.make(&[], &[limit(12)])), Some("12 requests/s and 4.2 MB/s of 254:16".into()));
        assert_eq!(rig.io_max(), "254:16 rbps=3145728 wbps=1048576 riops=9 wiops=3\n");
        assert_eq!(said(actuator.make(&[], &[limit(12)])), None);
        assert_eq!(said(actuator.make(&[], &[limit(20)])), Some((true, true)));
        assert!(rig.io_max().contains("riops=15 wiops=5"), "{}", rig.io_max());
        assert_eq!(said(actuator.make(&DISKS, &[limit(20)])), Some((true, true)));
        assert!(rig.io_max().contains(&format!("254:16 {LITTLE}")) && rig.io_max().contains("254:32"));
        assert_eq!(said(actuator.make(&[], &[limit(20)])), Some((true, true)));
        assert!(!rig.io_max().contains("254:32 rbps=524288"), "{}", rig.io_max());
        assert_eq!(said(actuator.make(&[], &[])), Some((false, true)));
        assert!(!rig.io_max().contains("riops=15"), "{}", rig.io_max());
    }

    #[test]
    fn what_the_fail_safe_has_not_lifted_yet_is_no_limit_of_the_sites() {
        let rig = Rig::new("");
        let mut failsafe = rig.made(DisksActuator::of_failsafe);
        failsafe.make(&DISKS[..1], &[]);
        let together = Limit { scope: "beer.slice".into(), device: (254, 16), requests: 12, bytes: 4 << 20, reads: 75 };
        let mut guard = rig.made(DisksActuator::of_guard);
        assert_eq!(said(guard.make(&[], &[together])), Some((true, true)));
        failsafe.make(&[], &[]);
        assert!(guard.drifted());
        assert_eq!(said(guard.make(&[], &[])), Some((false, true)));
        let limits = rig.io_max();
        assert!(limits.lines().all(|line| line == "254:16 rbps=max wbps=max riops=max wiops=max"), "{limits}");
    }

    #[test]
    fn a_disk_less_is_given_back_alone() {
        let rig = Rig::new("254:32 rbps=max wbps=max riops=70 wiops=max\n");
        let together = |device| Limit { scope: "beer.slice".into(), device, requests: 12, bytes: 4 << 20, reads: 75 };
        let mut actuator = rig.made(DisksActuator::of_guard);
        actuator.make(&[], &DISKS.map(together));
        assert_eq!(said(actuator.make(&[], &[together(DISKS[0])])), Some((true, true)));
        let limits = rig.io_max();
        assert!(limits.contains("254:32 rbps=max wbps=max riops=70 wiops=max"), "{limits}");
        assert!(limits.contains("254:16 rbps=3145728 wbps=1048576 riops=9 wiops=3"), "{limits}");
        assert!(!actuator.drifted());
    }

    #[test]
    fn who_comes_after_one_that_died_takes_over_what_it_left() {
        let rig = Rig::new("");
        let mut guard = rig.made(DisksActuator::of_guard);
        guard.know(&DISKS).unwrap();
        guard.make(&guard.known(), &[]);
        let mut failsafe = rig.made(DisksActuator::of_failsafe);
        failsafe.inherit();
        failsafe.make(&failsafe.known(), &[]);
        assert!(rig.io_max().contains(&format!("254:16 {LITTLE}")) && rig.io_max().contains("254:32"));
        // The next guard has nothing to do with it.
        let mut next = rig.made(DisksActuator::of_guard);
        next.adopt();
        assert_eq!(said(next.make(&[], &[])), None);
        assert_eq!(said(rig.made(DisksActuator::of_failsafe).make(&[], &[])), Some((false, true)));
        assert!(!rig.io_max().contains("riops=4"), "{}", rig.io_max());
        // But one that comes after a guard alone has.
        rig.made(DisksActuator::of_guard).make(&DISKS, &[]);
        next.adopt();
        assert_eq!(said(next.make(&[], &[])), Some((false, true)));
        assert!(!rig.io_max().contains("riops=4"), "{}", rig.io_max());
    }

    #[test]
    fn files_of_systemd_go_when_there_is_no_limit_any_more() {
        let rig = Rig::new("");
        let file = rig.0.path().join("control/beer.slice.d/50-IOReadIOPSMax.conf");
        std::fs::write(&file, "# made by systemctl\n[Slice]\nIOReadIOPSMax=\nIOReadIOPSMax=/dev/vdb infinity\n")
            .unwrap();
        let others = rig.0.path().join("control/beer.slice.d/50-IOWriteIOPSMax.conf");
        std::fs::write(&others, "[Slice]\nIOWriteIOPSMax=\nIOWriteIOPSMax=/dev/vdc 70\n").unwrap();
        let tidy = |actuator: &DisksActuator| actuator.tidy(&rig.0.path().join("control")).unwrap();
        let mut guard = rig.made(DisksActuator::of_guard);
        tidy(&guard);
        assert!(file.exists(), "somebody else's");
        guard.make(&DISKS, &[]);
        guard.make(&[], &[]);
        let mut failsafe = rig.made(DisksActuator::of_failsafe);
        failsafe.make(&DISKS, &[]);
        tidy(&guard);
        assert!(file.exists());
        failsafe.make(&[], &[]);
        tidy(&guard);
        assert_eq!((file.exists(), others.exists()), (false, true), "and not what the site has set");
    }

    #[test]
    fn limits_of_the_site_are_told_from_ours_however_often_somebody_dies() {
        let site = "254:16 rbps=max wbps=max riops=max wiops=2\n";
        let rig = Rig::new(site);
        for _ in 0..2 {
            rig.made(DisksActuator::of_guard).make(&DISKS, &[]);
            let mut failsafe = rig.made(DisksActuator::of_failsafe);
            failsafe.inherit();
            failsafe.make(&DISKS, &[]);
            assert!(rig.io_max().contains("254:16 rbps=524288 wbps=524288 riops=4 wiops=2"), "{}", rig.io_max());
            assert_eq!(said(rig.made(DisksActuator::of_failsafe).make(&[], &[])), Some((false, true)));
            assert_eq!(rig.io_max(), site);
        }
        // One that has forgotten all of it.
        rig.made(DisksActuator::of_guard).make(&DISKS, &[]);
        std::fs::remove_file(rig.0.path().join("run").join(DisksActuator::OF_GUARD)).unwrap();
        let mut next = rig.made(DisksActuator::of_guard);
        next.make(&DISKS, &[]);
        next.make(&[], &[]);
        assert_eq!(rig.io_max(), site);
    }

    #[test]
    fn a_disk_that_systemd_does_not_find_keeps_no_other_from_being_limited() {
        let rig = Rig::new("");
        std::fs::write(rig.0.path().join("run/missing"), "254:16").unwrap();
        let mut actuator = rig.made(DisksActuator::of_guard);
        // To the kernel it is told directly; a plain file has one line then.
        assert_eq!(said(actuator.make(&DISKS, &[])), Some((true, true)));
        assert_eq!(rig.io_max(), format!("254:16 {LITTLE}"));
        // Of the others systemd has kept what it was told.
        assert_eq!(
            std::fs::read_to_string(rig.0.path().join("run/told")).unwrap(),
            "2\n",
            "one gives that disk back alone"
        );
    }

    #[test]
    fn a_slice_that_was_stopped_does_not_come_back_limited() {
        let rig = Rig::new("");
        let mut actuator = rig.made(DisksActuator::of_guard);
        actuator.make(&DISKS, &[]);
        let slice = rig.0.path().join("beer.slice");
        std::fs::rename(&slice, rig.0.path().join("elsewhere")).unwrap();
        assert_eq!(said(actuator.make(&[], &[])), Some((false, false)), "systemd has to be told");
        std::fs::rename(rig.0.path().join("elsewhere"), &slice).unwrap();
        assert_eq!(said(actuator.make(&[], &[])), Some((false, true)));
        assert!(!rig.io_max().contains("riops=4"), "{}", rig.io_max());
    }

    #[test]
    fn to_arm_a_disk_names_it_and_no_limit() {
        let rig = Rig::new("");
        rig.made(DisksActuator::of_guard).arm(&DISKS[..1]);
        let begun = std::time::Instant::now();
        while rig.io_max().is_empty() && begun.elapsed() < Duration::from_secs(20) {
            std::thread::yield_now();
        }
        assert_eq!(rig.io_max(), "254:16 \n");
    }

    #[test]
    fn where_there_is_no_slice_there_is_nothing_to_do() {
        let rig = Rig::new("");
        std::fs::remove_dir_all(rig.0.path().join("beer.slice")).unwrap();
        assert_eq!(said(rig.made(DisksActuator::of_guard).make(&DISKS, &[])), None);
        assert_eq!(rig.made(DisksActuator::of_guard).known(), []);
    }
}

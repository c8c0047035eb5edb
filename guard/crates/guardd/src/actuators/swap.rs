// SPDX-License-Identifier: Apache-2.0
//! No swap for the jobs while some of it lies on a disk that storage serves from: the kernel lets swap pass `io.max` (see
//! [`crate::watch`], `swaps`), and a task in the middle of it freezes only seconds later. `memory.swap.max` of the slice of the jobs; what is
//! in swap already stays there. It outlives the guard. Slow: for the actuator thread only.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{bail, Context, Result};

use super::squeeze::Squeezed;
use super::{gone, now, replace, set_property, unit};

/// Keeps it as it is wanted.
pub struct SwapActuator {
    slice: PathBuf,
    run: PathBuf,
    systemctl: PathBuf,
    deadline: Duration,
    allowed: bool,
    /// The last try failed, or seemed to: systemd may do later what it was told.
    failed: bool,
}

impl SwapActuator {
    /// In [`Squeezed::of`].
    pub const OF: &'static str = "swap";
    const FILE: &'static str = "memory.swap.max";
    const PROPERTY: &'static str = "MemorySwapMax";
    /// Name of the file in the run folder that says what the jobs had before.
    const MEMORY: &'static str = "swap-taken";
    /// Name of the file there that says that systemd's file may be tidied up: the guard's sandbox cannot.
    const TIDY: &'static str = "swap-before";

    /// `slice` is the folder of the cgroup of the jobs. Touches nothing yet.
    pub fn new(slice: &Path, run: &Path, systemctl: &Path, deadline: Duration) -> Self {
        let (slice, run, systemctl) = (slice.to_owned(), run.to_owned(), systemctl.to_owned());
        SwapActuator { slice, run, systemctl, deadline, allowed: false, failed: false }
    }

    /// The same, but if the site lets the jobs have it they keep it, or get it back.
    pub fn allowed(self, allowed: bool) -> Self {
        SwapActuator { allowed, ..self }
    }

    /// None of it because of these places, or all that they had before where there are none; where it is not known (`None`) it stays as
    /// it is. Says what it did, and nothing of what was so already.
    pub fn make(&mut self, on_data: Option<&[String]>) -> Option<Squeezed> {
        let on_data = if self.allowed { &[] } else { on_data? };
        let before = std::fs::read_to_string(self.run.join(Self::MEMORY)).ok();
        let limit = now(&self.slice, Self::FILE);
        let (has, seen) = match (on_data, limit, before) {
            // The slice has been stopped, or the kernel counts no swap.
            ([_, ..], None, _) => return None,
            ([_, ..], Some(limit), _) if limit == "0" && !self.failed => return None,
            ([_, ..], Some(limit), before) => (Some(none(on_data)), self.take(before.is_none().then_some(&*limit))),
            ([], _, None) => return None,
            ([], _, Some(before)) => (None, self.give_back(&before)),
        };
        self.failed = seen.is_err();
        Some(Squeezed { of: Self::OF, has, seen })
    }

    /// Has somebody else given them some? It is taken again with the next [`Self::make`].
    pub fn drifted(&self) -> bool {
        !self.failed
            && self.run.join(Self::MEMORY).exists()
            && now(&self.slice, Self::FILE).is_some_and(|limit| limit != "0")
    }

    /// As `SqueezeActuator::tidy`.
    ///
    /// # Errors
    /// systemd's file cannot be removed.
    pub fn tidy(&self, control: &Path) -> Result<()> {
        let marker = self.run.join(Self::TIDY);
        if !marker.exists() || self.run.join(Self::MEMORY).exists() {
            return Ok(());
        }
        gone(&control.join(format!("{}.d/50-{}.conf", unit(&self.slice), Self::PROPERTY)))?;
        gone(&marker)
    }

    /// `before` = what they have now, if that is not known to be ours.
    fn take(&self, before: Option<&str>) -> Result<()> {
        if let Some(limit) = before {
            // Known before it is done: a guard that comes back must know what to give back.
            replace(&self.run.join(Self::MEMORY), limit)?;
        }
        self.set("0")?;
        match now(&self.slice, Self::FILE) {
            Some(now) if now == "0" => Ok(()),
            now => bail!("{}: {} is `{}`", self.slice.display(), Self::FILE, now.unwrap_or_default()),
        }
    }

    fn give_back(&self, before: &str) -> Result<()> {
        self.set(if before.parse::<u64>().is_ok() { before } else { "infinity" })?;
        let marker = self.run.join(Self::TIDY);
        std::fs::write(&marker, "").with_context(|| format!("{}", marker.display()))?;
        gone(&self.run.join(Self::MEMORY))
    }

    fn set(&self, value: &str) -> Result<()> {
        let property = format!("{}={value}", Self::PROPERTY);
        set_property(&self.systemctl, unit(&self.slice), &[property], self.deadline)
    }
}

fn none(on_data: &[String]) -> String {
    format!("no swap, as long as there is some on {}", on_data.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Rig {
        folder: tempfile::TempDir,
        actuator: SwapActuator,
    }

    impl Rig {
        fn new(limit: Option<&str>) -> Rig {
            let folder = tempfile::tempdir().unwrap();
            let slice = folder.path().join("beer-jobs.slice");
            std::fs::create_dir(&slice).unwrap();
            std::os::unix::fs::symlink(&slice, folder.path().join("slice")).unwrap();
            let systemctl = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/systemctl");
            std::os::unix::fs::symlink(systemctl, folder.path().join("systemctl")).unwrap();
            let rig = Rig { actuator: Rig::actuator(folder.path()), folder };
            if let Some(limit) = limit {
                rig.put(limit);
            }
            rig
        }

        fn actuator(folder: &Path) -> SwapActuator {
            let path = |name| folder.join(name);
            SwapActuator::new(&path("beer-jobs.slice"), folder, &path("systemctl"), Duration::from_secs(20))
        }

        fn put(&self, limit: &str) {
            std::fs::write(self.folder.path().join("slice/memory.swap.max"), format!("{limit}\n")).unwrap();
        }

        fn limit(&self) -> Option<String> {
            now(&self.folder.path().join("slice"), "memory.swap.max")
        }

        /// What it said, and whether it worked.
        fn make(&mut self, on_data: &[&str]) -> Option<(Option<String>, bool)> {
            let on_data: Vec<String> = on_data.iter().map(|&path| path.into()).collect();
            self.actuator.make(Some(&on_data)).map(|said| (said.has, said.seen.is_ok()))
        }
    }

    const SWAP: [&str; 2] = ["/data/01/swap", "/dev/sdb"];

    fn taken() -> Option<(Option<String>, bool)> {
        Some((Some("no swap, as long as there is some on /data/01/swap and /dev/sdb".into()), true))
    }

    #[test]
    fn it_is_taken_and_given_back_also_by_the_next_guard() {
        for before in ["max", "2147483648"] {
            let mut rig = Rig::new(Some(before));
            assert_eq!(rig.make(&[]), None);
            assert_eq!(rig.make(&SWAP), taken());
            assert_eq!((rig.limit().as_deref(), rig.make(&SWAP)), (Some("0"), None));
            // Somebody else has given them some.
            assert!(!rig.actuator.drifted());
            rig.put("4096");
            assert!(rig.actuator.drifted());
            assert_eq!(rig.make(&SWAP), taken());
            rig.actuator = Rig::actuator(rig.folder.path());
            assert_eq!(rig.make(&SWAP), None, "it is so already");
            assert_eq!(rig.make(&[]), Some((None, true)));
            assert_eq!((rig.limit().as_deref(), rig.make(&[])), (Some(before), None));
            assert!(!rig.actuator.drifted());
            // The site wants it so.
            rig.make(&SWAP);
            assert!(rig.actuator.make(None).is_none() && rig.limit().as_deref() == Some("0"), "it is not known");
            rig.actuator = Rig::actuator(rig.folder.path()).allowed(true);
            assert!(rig.actuator.make(None).unwrap().has.is_none());
            assert_eq!((rig.limit().as_deref(), rig.make(&SWAP)), (Some(before), None));
        }
    }

    #[test]
    fn who_has_none_keeps_none() {
        for limit in [None, Some("0")] {
            let mut rig = Rig::new(limit);
            assert_eq!((rig.make(&SWAP), rig.make(&[])), (None, None));
            assert_eq!(rig.limit().as_deref(), limit);
            assert!(!rig.folder.path().join("systemctl.said").exists());
        }
    }

    #[test]
    fn a_failure_is_tried_again() {
        let mut rig = Rig::new(Some("max"));
        let slow = rig.folder.path().join("slow");
        std::fs::write(&slow, "").unwrap();
        assert!(!rig.make(&SWAP).unwrap().1);
        std::fs::remove_file(&slow).unwrap();
        assert_eq!(rig.limit().as_deref(), Some("0"), "systemd has done it later");
        assert_eq!((rig.make(&SWAP), rig.make(&SWAP)), (taken(), None), "which is said");
        std::fs::write(&slow, "").unwrap();
        assert_eq!(rig.make(&[]), Some((None, false)));
        std::fs::remove_file(&slow).unwrap();
        assert_eq!(rig.make(&[]), Some((None, true)));
        assert_eq!(rig.limit().as_deref(), Some("max"), "what was there at first");
    }

    #[test]
    fn systemd_s_file_is_tidied_up_when_it_is_given_back() {
        let mut rig = Rig::new(Some("max"));
        let control = rig.folder.path().join("control");
        let folder = control.join("beer-jobs.slice.d");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("50-MemorySwapMax.conf"), "").unwrap();
        std::fs::write(folder.join("50-MemoryMax.conf"), "").unwrap();
        rig.make(&SWAP);
        rig.actuator.tidy(&control).unwrap();
        assert!(folder.join("50-MemorySwapMax.conf").exists(), "it is in force");
        rig.make(&[]);
        rig.actuator.tidy(&control).unwrap();
        assert!(!folder.join("50-MemorySwapMax.conf").exists() && folder.join("50-MemoryMax.conf").exists());
    }
}

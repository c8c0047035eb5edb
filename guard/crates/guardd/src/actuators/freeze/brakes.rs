// SPDX-License-Identifier: Apache-2.0
//! What keeps tasks from coming to a stand, and from ending: one whose slice has used up its quota of CPU comes to it only in the next
//! period (100 ms), and one of an idle slice (`cpu.idle`), as that of the jobs is, when nobody else wants the CPU, which is never where
//! storage keeps all busy. So both are lifted, and put back as soon as it is done, and before anybody runs again. systemd, to which
//! nothing has changed, undoes it with whatever it sets in that slice: so it is lifted again as long as it is needed. A quota of a
//! site's own stays: if the guard dies then nobody would know of it.

use std::path::{Path, PathBuf};

use policy::Resource;

use crate::actuators::squeeze::SqueezeActuator;
use crate::actuators::{gone, now, write};

/// Name of a file in the run folder: see [`Brakes::idle`].
pub(in crate::actuators) const IDLE_LIFTED: &str = "idle-lifted";

/// What was lifted.
#[derive(Debug, Default)]
pub(super) struct Brakes {
    /// The run folder; `None` = nothing is lifted.
    run: Option<PathBuf>,
    /// Nothing is lifted, only put back.
    dry: bool,
    /// A file there: it is there while the slice is not idle because of this, whichever guard has done it.
    idle: PathBuf,
    quota: Option<String>,
}

impl Brakes {
    /// For a guard with this run folder.
    pub fn new(run: &Path) -> Brakes {
        Brakes { run: Some(run.to_owned()), dry: false, idle: run.join(IDLE_LIFTED), quota: None }
    }

    /// Of a guard that changes nothing of its own, but gives back what one before it has taken.
    pub fn dry_run(&mut self, dry: bool) {
        self.dry = dry;
    }

    /// `all` = nobody is to run: the quota, too. Whatever comes of it, the freeze goes on.
    pub fn lift(&mut self, slice: &Path, all: bool) {
        if self.dry {
            return;
        }
        if all {
            self.lift_quota(slice);
        } else {
            self.put_quota_back(slice);
        }
        // Known before it is done: a guard that comes back must know what to put back.
        let idle = self.run.is_some() && now(slice, "cpu.idle").as_deref() == Some("1");
        if idle && std::fs::write(&self.idle, "").is_ok() {
            let _ = write(slice, "cpu.idle", "0");
        }
    }

    /// All of it.
    pub fn put_back(&mut self, slice: &Path) {
        self.put_quota_back(slice);
        if self.run.is_none() || !self.idle.exists() {
            return;
        }
        if write(slice, "cpu.idle", "1").is_ok() || !slice.join("cpu.idle").exists() {
            let _ = gone(&self.idle);
        }
    }

    fn lift_quota(&mut self, slice: &Path) {
        if let Some(quota) = now(slice, "cpu.max").filter(|quota| !free(quota) && self.taken()) {
            if write(slice, "cpu.max", "max").is_ok() {
                self.quota = Some(quota);
            }
        }
    }

    /// Unless batch has got all of it back meanwhile. Another quota that it has got stays.
    fn put_quota_back(&mut self, slice: &Path) {
        let Some(quota) = self.quota.take().filter(|_| self.taken()) else { return };
        if now(slice, "cpu.max").is_some_and(|now| free(&now)) {
            let _ = write(slice, "cpu.max", &quota);
        }
    }

    /// Has the guard taken CPU from batch?
    fn taken(&self) -> bool {
        self.run.as_ref().is_some_and(|run| SqueezeActuator::taken(run, Resource::Cpu))
    }
}

fn free(quota: &str) -> bool {
    quota.starts_with("max")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slice, which is the run folder, too.
    fn slice(quota: &str, idle: &str, taken: &str) -> (tempfile::TempDir, Brakes) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("cpu.max", quota), ("cpu.idle", idle), (SqueezeActuator::MEMORY, taken)] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let brakes = Brakes::new(folder.path());
        (folder, brakes)
    }

    fn of(slice: &tempfile::TempDir) -> [String; 2] {
        ["cpu.max", "cpu.idle"].map(|name| now(slice.path(), name).unwrap())
    }

    #[test]
    fn a_quota_and_idleness_are_lifted_and_put_back_once() {
        let (slice, mut brakes) = slice("5000 100000\n", "1\n", "memory MemoryHigh=infinity\ncpu CPUQuota=\n");
        // Told again that it is to stand still it does not forget what it had.
        for _ in 0..2 {
            brakes.lift(slice.path(), true);
            assert_eq!(of(&slice), ["max", "0"]);
        }
        // systemd sets something else there, and all that it knows of again.
        for (name, text) in [("cpu.max", "5000 100000"), ("cpu.idle", "1")] {
            std::fs::write(slice.path().join(name), text).unwrap();
        }
        brakes.lift(slice.path(), true);
        assert_eq!(of(&slice), ["max", "0"]);
        // Some run again.
        brakes.lift(slice.path(), false);
        assert_eq!(of(&slice), ["5000 100000", "0"]);
        brakes.put_back(slice.path());
        assert_eq!(of(&slice), ["5000 100000", "1"]);
        for (name, text) in [("cpu.max", "max 100000"), ("cpu.idle", "0")] {
            std::fs::write(slice.path().join(name), text).unwrap();
        }
        brakes.put_back(slice.path());
        assert_eq!(of(&slice), ["max 100000", "0"], "they are somebody else's by now");
    }

    #[test]
    fn what_is_set_meanwhile_stays_and_where_there_is_nothing_nothing_is_done() {
        let (slice, mut brakes) = slice("5000 100000\n", "0\n", "cpu CPUQuota=\n");
        brakes.lift(slice.path(), true);
        std::fs::write(slice.path().join("cpu.max"), "2500 100000").unwrap();
        brakes.put_back(slice.path());
        assert_eq!(of(&slice), ["2500 100000", "0"]);
        for name in ["cpu.max", "cpu.idle"] {
            std::fs::remove_file(slice.path().join(name)).unwrap();
        }
        brakes.lift(slice.path(), true);
        brakes.put_back(slice.path());
        assert!(["cpu.max", "cpu.idle"].iter().all(|name| !slice.path().join(name).exists()));
    }

    #[test]
    fn a_quota_that_batch_got_back_while_it_stood_still_is_not_taken_again() {
        let (slice, mut brakes) = slice("5000 100000\n", "1\n", "cpu CPUQuota=\n");
        brakes.lift(slice.path(), true);
        std::fs::remove_file(slice.path().join(SqueezeActuator::MEMORY)).unwrap();
        brakes.put_back(slice.path());
        assert_eq!(of(&slice), ["max", "1"]);
    }

    #[test]
    fn a_quota_of_a_site_s_own_stays_and_the_next_guard_knows_that_the_slice_was_idle() {
        let (slice, mut brakes) = slice("5000 100000\n", "1\n", "memory MemoryHigh=infinity\n");
        brakes.lift(slice.path(), true);
        assert_eq!(of(&slice), ["5000 100000", "0"]);
        Brakes::new(slice.path()).put_back(slice.path());
        assert_eq!(of(&slice), ["5000 100000", "1"]);
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What slows a slice down, and its freeze with it: a task whose slice has used up its quota of CPU stands still only in the next period
//! (100 ms), and one of an idle slice (`cpu.idle`) when nobody else wants the CPU. Where the guard has put it so both are lifted for a
//! freeze of the whole slice, and back before anybody runs again. To systemd nothing has changed. What a site has set by itself stays: if
//! the guard dies in the freeze nobody would know of it.

use std::path::{Path, PathBuf};

use policy::Resource;

use crate::actuators::squeeze::SqueezeActuator;
use crate::actuators::{now, write};

/// What was lifted.
#[derive(Debug, Default)]
pub(super) struct Brakes {
    /// The run folder; `None` = nothing is lifted.
    run: Option<PathBuf>,
    quota: Option<String>,
    idle: bool,
}

impl Brakes {
    /// For a guard with this run folder.
    pub fn new(run: &Path) -> Brakes {
        Brakes { run: Some(run.to_owned()), ..Brakes::default() }
    }

    /// Does nothing where the guard has taken no CPU from batch, which is the rule. Whatever comes of it, the freeze goes on; what is not
    /// as it should be the actuator thread puts right.
    pub fn lift(&mut self, slice: &Path) {
        if !self.taken() {
            return;
        }
        if let Some(quota) = now(slice, "cpu.max").filter(|quota| !free(quota)) {
            if write(slice, "cpu.max", "max").is_ok() {
                self.quota = Some(quota);
            }
        }
        if now(slice, "cpu.idle").as_deref() == Some("1") {
            self.idle |= write(slice, "cpu.idle", "0").is_ok();
        }
    }

    /// Unless batch has got all of it back meanwhile. Another quota that it has got stays.
    pub fn put_back(&mut self, slice: &Path) {
        let (quota, idle) = (self.quota.take(), std::mem::take(&mut self.idle));
        if (quota.is_none() && !idle) || !self.taken() {
            return;
        }
        if let Some(quota) = quota.filter(|_| now(slice, "cpu.max").is_some_and(|now| free(&now))) {
            let _ = write(slice, "cpu.max", &quota);
        }
        if idle {
            let _ = write(slice, "cpu.idle", "1");
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
            brakes.lift(slice.path());
            assert_eq!(of(&slice), ["max", "0"]);
        }
        brakes.put_back(slice.path());
        assert_eq!(of(&slice), ["5000 100000", "1"]);
        std::fs::write(slice.path().join("cpu.max"), "max 100000").unwrap();
        brakes.put_back(slice.path());
        assert_eq!(of(&slice)[0], "max 100000", "it is somebody else's by now");
    }

    #[test]
    fn what_is_set_meanwhile_stays_and_where_there_is_nothing_nothing_is_done() {
        let (slice, mut brakes) = slice("5000 100000\n", "0\n", "cpu CPUQuota=\n");
        brakes.lift(slice.path());
        std::fs::write(slice.path().join("cpu.max"), "2500 100000").unwrap();
        brakes.put_back(slice.path());
        assert_eq!(of(&slice), ["2500 100000", "0"]);
        std::fs::remove_file(slice.path().join("cpu.max")).unwrap();
        brakes.lift(slice.path());
        brakes.put_back(slice.path());
        assert!(!slice.path().join("cpu.max").exists());
    }

    #[test]
    fn what_batch_got_back_while_it_stood_still_is_not_taken_again() {
        let (slice, mut brakes) = slice("5000 100000\n", "1\n", "cpu CPUQuota=\n");
        brakes.lift(slice.path());
        std::fs::remove_file(slice.path().join(SqueezeActuator::MEMORY)).unwrap();
        brakes.put_back(slice.path());
        assert_eq!(of(&slice), ["max", "0"]);
    }

    #[test]
    fn what_a_site_has_set_by_itself_stays() {
        let (slice, mut brakes) = slice("5000 100000\n", "1\n", "memory MemoryHigh=infinity\n");
        brakes.lift(slice.path());
        assert_eq!(of(&slice), ["5000 100000", "1"]);
    }
}

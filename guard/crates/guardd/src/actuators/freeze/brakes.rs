// SPDX-License-Identifier: Apache-2.0
//! What slows a slice down, and its freeze with it: a task whose slice has used up its quota of CPU stands still only in the next period
//! (100 ms), and one of an idle slice (`cpu.idle`), as that of the jobs is, when nobody else wants the CPU: never, where storage keeps all
//! busy. So both are lifted for a freeze of the whole slice, and back before anybody runs again. To systemd nothing has changed. A quota
//! of a site's own stays: if the guard dies in the freeze nobody would know of it.

use std::path::{Path, PathBuf};

use policy::Resource;

use crate::actuators::squeeze::SqueezeActuator;
use crate::actuators::{gone, now, write};

/// Name of the file in the run folder that is there while the slice is not idle because all stand still. It says who had made it idle.
pub(in crate::actuators) const IDLE_LIFTED: &str = "idle-lifted";
/// The guard, which may take it away meanwhile; what else is in the file is somebody else, whose it is for good.
const GUARD: &str = "guard";

/// What was lifted.
#[derive(Debug, Default)]
pub(super) struct Brakes {
    /// The run folder; `None` = nothing is lifted.
    run: Option<PathBuf>,
    quota: Option<String>,
    idle: bool,
}

impl Brakes {
    /// For a guard with this run folder; knows what one before it has lifted.
    pub fn new(run: &Path) -> Brakes {
        Brakes { run: Some(run.to_owned()), quota: None, idle: run.join(IDLE_LIFTED).exists() }
    }

    /// Whatever comes of it, the freeze goes on; what is not as it should be the actuator thread puts right.
    pub fn lift(&mut self, slice: &Path) {
        let Some(run) = &self.run else { return };
        let taken = taken(run);
        if let Some(quota) = now(slice, "cpu.max").filter(|quota| taken && !free(quota)) {
            if write(slice, "cpu.max", "max").is_ok() {
                self.quota = Some(quota);
            }
        }
        // Known before it is done: a guard that comes back must know what to put back.
        let known = |run: &Path| std::fs::write(run.join(IDLE_LIFTED), if taken { GUARD } else { "unit" });
        if now(slice, "cpu.idle").as_deref() == Some("1") && (self.idle || known(run).is_ok()) {
            self.idle = true;
            let _ = write(slice, "cpu.idle", "0");
        }
    }

    /// What the guard had taken only if batch has not got all of it back meanwhile. Another quota that it has got stays.
    pub fn put_back(&mut self, slice: &Path) {
        let (quota, idle) = (self.quota.take(), std::mem::take(&mut self.idle));
        let Some(run) = self.run.as_ref().filter(|_| quota.is_some() || idle) else { return };
        let taken = taken(run);
        if let Some(quota) = quota.filter(|_| taken && now(slice, "cpu.max").is_some_and(|now| free(&now))) {
            let _ = write(slice, "cpu.max", &quota);
        }
        if idle {
            if taken || now(run, IDLE_LIFTED).as_deref() != Some(GUARD) {
                let _ = write(slice, "cpu.idle", "1");
            }
            let _ = gone(&run.join(IDLE_LIFTED));
        }
    }
}

/// Has the guard taken CPU from batch?
fn taken(run: &Path) -> bool {
    SqueezeActuator::taken(run, Resource::Cpu)
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
    fn a_quota_of_a_site_s_own_stays_and_jobs_that_are_idle_always_are_so_again() {
        let (slice, mut brakes) = slice("5000 100000\n", "1\n", "memory MemoryHigh=infinity\n");
        for _ in 0..2 {
            brakes.lift(slice.path());
            assert_eq!(of(&slice), ["5000 100000", "0"]);
        }
        brakes.put_back(slice.path());
        assert_eq!(of(&slice), ["5000 100000", "1"]);
        brakes.lift(slice.path());
        // The guard dies, and the next one has taken CPU from batch meanwhile, and given back.
        let mut brakes = Brakes::new(slice.path());
        brakes.put_back(slice.path());
        assert_eq!(of(&slice)[1], "1");
        std::fs::write(slice.path().join("cpu.idle"), "0").unwrap();
        for mut brakes in [brakes, Brakes::new(slice.path())] {
            brakes.put_back(slice.path());
            assert_eq!(of(&slice)[1], "0", "once");
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! A job slows down before it comes to its memory limit: `memory.high` of its scope, a little below its `memory.max`. Where it has no
//! swap the kernel finds memory for whoever is at the limit by dropping the code of his programs, which all of his processes read again
//! from their disk at once, for as long as the kernel ends none of them. Above `memory.high` it makes them sleep for the more they take,
//! the longer the more that is (cgroup-v2.rst; mm/memcontrol.c, mem_cgroup_handle_over_high). Only where that disk is one of storage's:
//! whoever needs all of his memory to the last is slowed as well.
//!
//! systemd is not told, though the scope is its: it would write it again with each limit of a disk, and the kernel takes memory back for
//! whoever writes it, so PID 1 would wait for a hog. What it knows nothing of it sets to `max` instead, which is put right at the next
//! look. It outlives the guard and ends with the scope. Slow: for the actuator thread only.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{bail, Result};
use kernfs::cgroup::Children;
use policy::JobSet;

use super::{now, replace, write, write_memory_high, PAGE, RECLAIM};
use crate::jobs::MONITOR;

/// Keeps it as it is wanted.
pub struct MemoryHighActuator {
    slice: PathBuf,
    children: Children,
    /// For who comes after us: whose limits are ours.
    memory: PathBuf,
    /// Of its `memory.max`; `None` = a job has no such limit.
    share: Option<f64>,
    /// Whose limits are ours, and what was seen in the kernel.
    ours: BTreeMap<Box<str>, Option<u64>>,
    /// Who is to get which limit ([`NONE`]: no more).
    due: Vec<(Box<str>, u64)>,
    /// Whose limit could not be set, and that was said.
    failed: BTreeSet<Box<str>>,
}

const FILE: &str = "memory.high";

/// `max`.
const NONE: u64 = u64::MAX;

impl MemoryHighActuator {
    /// Name of the file in the run folder that says whose limits are ours.
    const MEMORY: &'static str = "slowed-at-limit";

    /// `slice` is the folder of the cgroup of the jobs; `share` is that of its limit that a job may have before it is slowed, 1 = all.
    /// Touches nothing yet.
    pub fn new(slice: &Path, run: &Path, share: f64) -> Self {
        let memory = run.join(Self::MEMORY);
        let before = std::fs::read_to_string(&memory).unwrap_or_default();
        MemoryHighActuator {
            slice: slice.to_owned(),
            children: Children::new(slice),
            memory,
            share: (share < 1.0).then_some(share),
            ours: before.lines().map(|scope| (scope.into(), None)).collect(),
            due: Vec::new(),
            failed: BTreeSet::new(),
        }
    }

    /// Looks who is to get one, for [`Self::set_next`]; nobody where the code of jobs is not on a disk of storage (`on_data`), and where
    /// that is not known all stays as it is. Returns whether somebody else has changed one of ours.
    pub fn look(&mut self, on_data: Option<bool>) -> bool {
        self.due.clear();
        let share = match (self.share, on_data) {
            (None, _) | (_, Some(false)) => None,
            (share, Some(true)) => share,
            (Some(_), None) => return false,
        };
        let mut there = BTreeSet::new();
        let listed = self.children.each(|scope, _| {
            if !scope.starts_with(MONITOR) {
                there.insert(Box::<str>::from(scope));
            }
            match there.len() < JobSet::PLACES {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        if listed.is_err() {
            return false;
        }
        let slice = &self.slice;
        self.ours.retain(|scope, _| slice.join(&**scope).exists());
        self.failed.retain(|scope| slice.join(&**scope).exists());
        let mut drifted = false;
        for scope in there {
            let folder = slice.join(&*scope);
            let (Some(high), Some(max)) = (limit(&folder, FILE), limit(&folder, "memory.max")) else { continue };
            let share = share.filter(|_| max < NONE);
            let wanted = share.map_or(NONE, |share| (max as f64 * share) as u64 / PAGE * PAGE);
            match self.ours.get_mut(&scope) {
                Some(_) if high == wanted && wanted == NONE => drop(self.ours.remove(&scope)),
                Some(seen) => {
                    let seen = std::mem::replace(seen, Some(high).filter(|_| high == wanted));
                    // systemd sets what it knows nothing of to `max`.
                    drifted |= seen.is_some_and(|seen| seen != high) && high != NONE;
                    if high != wanted {
                        self.due.push((scope, wanted));
                    }
                }
                // One that is not ours is its engine's, or the site's.
                None if high != NONE || wanted == NONE => {}
                None => self.due.push((scope, wanted)),
            }
        }
        drifted
    }

    /// Is there anybody left?
    pub fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// One job gets its limit, or is rid of it.
    pub fn set_next(&mut self) {
        let Some((scope, bytes)) = self.due.pop() else { return };
        // Known before it is done: a guard that comes back must know whose limits are ours.
        self.ours.insert(scope.clone(), None);
        match self.remember().and_then(|()| self.set(&scope, bytes)) {
            Ok(()) if bytes == NONE => {
                self.ours.remove(&scope);
                self.failed.remove(&scope);
                // Else the next guard takes one that is somebody else's by then for ours.
                _ = self.remember();
            }
            Ok(()) => {
                self.failed.remove(&scope);
                self.ours.insert(scope, Some(bytes));
            }
            Err(error) => {
                if self.failed.insert(scope) {
                    eprintln!("<4>{error:#}: the job may read its own code again and again at its memory limit");
                }
            }
        }
    }

    fn set(&self, scope: &str, bytes: u64) -> Result<()> {
        let folder = self.slice.join(scope);
        let made = match bytes {
            NONE => write(&folder, FILE, "max"),
            // It holds though the kernel was not given the time to take back what is above.
            _ => write_memory_high(&folder, &bytes.to_string(), RECLAIM).map(drop),
        };
        match limit(&folder, FILE) {
            // It has ended.
            None => Ok(()),
            Some(high) if high == bytes => Ok(()),
            Some(high) => made.and_then(|()| bail!("{}: {FILE} is {high}", folder.display())),
        }
    }

    /// Below /run: waits for no disk.
    fn remember(&self) -> Result<()> {
        let scopes: Vec<&str> = self.ours.keys().map(|scope| &**scope).collect();
        replace(&self.memory, &scopes.join("\n"))
    }
}

fn limit(folder: &Path, file: &str) -> Option<u64> {
    match now(folder, file)?.as_str() {
        "max" => Some(NONE),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    struct Rig {
        folder: tempfile::TempDir,
        actuator: MemoryHighActuator,
    }

    impl Rig {
        fn new() -> Rig {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir(folder.path().join("jobs")).unwrap();
            Rig { actuator: Rig::actuator(folder.path(), 0.95), folder }
        }

        fn actuator(folder: &Path, share: f64) -> MemoryHighActuator {
            MemoryHighActuator::new(&folder.join("jobs"), folder, share)
        }

        fn put(&self, scope: &str, file: &str, text: impl std::fmt::Display) {
            let folder = self.folder.path().join("jobs").join(scope);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(file), format!("{text}\n")).unwrap();
        }

        /// As an engine makes it.
        fn job(&self, scope: &str, max: &str) {
            self.put(scope, "memory.max", max);
            self.put(scope, "memory.high", "max");
        }

        fn high(&self, scope: &str) -> Option<u64> {
            limit(&self.folder.path().join("jobs").join(scope), FILE)
        }

        /// Whether somebody else had changed one, and how many were set.
        fn make(&mut self, on_data: Option<bool>) -> (bool, usize) {
            let drifted = self.actuator.look(on_data);
            let due = self.actuator.due.len();
            (0..due).for_each(|_| self.actuator.set_next());
            assert!(!self.actuator.is_due());
            (drifted, due)
        }
    }

    #[test]
    fn a_job_is_slowed_before_its_limit_and_is_set_once() {
        let mut rig = Rig::new();
        assert_eq!(rig.make(Some(true)), (false, 0));
        rig.job("docker-a.scope", &(100 * MIB).to_string());
        rig.job("docker-free.scope", "max");
        rig.job("libpod-conmon-b.scope", &(200 * MIB).to_string());
        assert_eq!(rig.make(None), (false, 0), "it is not known where his code is");
        assert_eq!(rig.make(Some(true)), (false, 1));
        assert_eq!(rig.high("docker-a.scope"), Some(95 * MIB));
        assert_eq!((rig.high("docker-free.scope"), rig.high("libpod-conmon-b.scope")), (Some(NONE), Some(NONE)));
        assert_eq!(rig.make(Some(true)), (false, 0));
        // Its engine has given it more, and another one has come.
        rig.put("docker-a.scope", "memory.max", 200 * MIB);
        rig.job("docker-c.scope", &(100 * MIB + 4096).to_string());
        assert_eq!((rig.make(Some(true)), rig.make(Some(true))), ((false, 2), (false, 0)));
        assert_eq!(rig.high("docker-a.scope"), Some(190 * MIB));
        assert_eq!(rig.high("docker-c.scope"), Some(95 * MIB), "whole pages");
    }

    #[test]
    fn what_somebody_else_has_changed_is_put_right_and_what_he_had_set_before_is_left() {
        let mut rig = Rig::new();
        rig.job("docker-a.scope", &(100 * MIB).to_string());
        rig.job("docker-own.scope", &(100 * MIB).to_string());
        rig.put("docker-own.scope", "memory.high", 50 * MIB);
        assert_eq!(rig.make(Some(true)), (false, 1));
        // systemd writes `max` with every limit of a disk.
        for (other, somebody) in [("max".to_owned(), false), (MIB.to_string(), true)] {
            rig.put("docker-a.scope", "memory.high", &other);
            assert_eq!(rig.actuator.look(Some(true)), somebody, "{other}");
            assert_eq!((rig.make(Some(true)), rig.make(Some(true))), ((false, 1), (false, 0)), "said once");
            assert_eq!(rig.high("docker-a.scope"), Some(95 * MIB));
        }
        assert_eq!(rig.high("docker-own.scope"), Some(50 * MIB));
        // The next guard knows whose they are.
        rig.actuator = Rig::actuator(rig.folder.path(), 0.95);
        assert_eq!(rig.make(Some(true)), (false, 0));
        rig.put("docker-a.scope", "memory.high", MIB);
        assert_eq!(rig.make(Some(true)), (true, 1));
        rig.actuator = Rig::actuator(rig.folder.path(), 0.5);
        assert_eq!(rig.make(Some(true)), (false, 1));
        assert_eq!((rig.high("docker-a.scope"), rig.high("docker-own.scope")), (Some(50 * MIB), Some(50 * MIB)));
    }

    #[test]
    fn where_there_is_to_be_none_it_is_taken_away_and_only_ours() {
        for (share, on_data) in [(0.95, Some(false)), (1.0, Some(true)), (1.0, None)] {
            let mut rig = Rig::new();
            rig.job("docker-a.scope", &(100 * MIB).to_string());
            rig.job("docker-own.scope", &(100 * MIB).to_string());
            rig.put("docker-own.scope", "memory.high", 95 * MIB);
            assert_eq!(rig.make(Some(true)), (false, 1));
            rig.actuator = Rig::actuator(rig.folder.path(), share);
            assert_eq!((rig.make(on_data), rig.make(on_data)), ((false, 1), (false, 0)));
            assert_eq!((rig.high("docker-a.scope"), rig.high("docker-own.scope")), (Some(NONE), Some(95 * MIB)));
            // It is not ours any more, for the next guard neither.
            rig.put("docker-a.scope", "memory.high", MIB);
            for _ in 0..2 {
                assert_eq!((rig.make(on_data), rig.high("docker-a.scope")), ((false, 0), Some(MIB)));
                rig.actuator = Rig::actuator(rig.folder.path(), share);
            }
        }
    }

    #[test]
    fn a_failure_is_tried_again_and_a_job_that_has_ended_is_none() {
        let mut rig = Rig::new();
        for scope in ["docker-a.scope", "docker-b.scope"] {
            rig.job(scope, &(100 * MIB).to_string());
        }
        rig.actuator.look(Some(true));
        std::fs::remove_dir_all(rig.folder.path().join("jobs/docker-b.scope")).unwrap();
        rig.actuator.set_next();
        assert!(rig.actuator.is_due() && rig.actuator.failed.is_empty(), "docker-b.scope has ended");
        // A number that nobody can write.
        let file = rig.folder.path().join("jobs/docker-a.scope/memory.high");
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/proc/sys/kernel/ngroups_max", &file).unwrap();
        rig.actuator.set_next();
        assert!(rig.actuator.failed.contains("docker-a.scope"));
        assert_eq!(rig.make(Some(true)), (false, 1));
        std::fs::remove_file(&file).unwrap();
        rig.put("docker-a.scope", "memory.high", "max");
        assert_eq!((rig.make(Some(true)), rig.make(Some(true))), ((false, 1), (false, 0)));
        assert!(rig.actuator.failed.is_empty());
    }
}

// SPDX-License-Identifier: Apache-2.0
//! A job slows down before it comes to its memory limit: `memory.high` of its scope, a little below its `memory.max`. Where it has no
//! swap the kernel finds memory for whoever is at the limit by dropping the code of his programs, which all of his processes read again
//! from their disk at once, for as long as the kernel ends none of them. Above `memory.high` it slows them instead (cgroup-v2.rst;
//! mm/memcontrol.c, mem_cgroup_handle_over_high). Only where that disk is one of storage's: whoever needs all of his memory to the last
//! is slowed as well. It outlives the guard and ends with the scope. Slow: for the actuator thread only.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{bail, Result};
use kernfs::cgroup::Children;
use policy::JobSet;

use super::{is_unit, now, replace, set_property, write, write_memory_high, PAGE};
use crate::command::Unanswered;
use crate::jobs::MONITOR;

/// Keeps it as it is wanted.
pub struct MemoryHighActuator {
    slice: PathBuf,
    children: Children,
    systemctl: PathBuf,
    deadline: Duration,
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
    pub fn new(slice: &Path, run: &Path, systemctl: &Path, deadline: Duration, share: f64) -> Self {
        let memory = run.join(Self::MEMORY);
        let before = std::fs::read_to_string(&memory).unwrap_or_default();
        MemoryHighActuator {
            slice: slice.to_owned(),
            children: Children::new(slice),
            systemctl: systemctl.to_owned(),
            deadline,
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
        let Some(on_data) = on_data else { return false };
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
        self.ours.retain(|scope, _| there.contains(scope));
        self.failed.retain(|scope| there.contains(scope));
        let mut drifted = false;
        for scope in there {
            let folder = self.slice.join(&*scope);
            let (Some(high), Some(max)) = (limit(&folder, FILE), limit(&folder, "memory.max")) else { continue };
            let ours = self.ours.get_mut(&scope);
            drifted |= ours.as_ref().is_some_and(|seen| seen.is_some_and(|seen| seen != high));
            let wanted = self
                .share
                .filter(|_| on_data && max < NONE)
                .map_or(NONE, |share| (max as f64 * share) as u64 / PAGE * PAGE);
            match ours {
                Some(_) if high == wanted && wanted == NONE => drop(self.ours.remove(&scope)),
                Some(seen) if high == wanted => *seen = Some(high),
                // One that is not ours is its engine's, or the site's.
                None if high != NONE || wanted == NONE => {}
                _ => self.due.push((scope, wanted)),
            }
        }
        drifted
    }

    /// One job gets its limit, or is rid of it; `false` = there was nobody left.
    pub fn set_next(&mut self) -> bool {
        let Some((scope, bytes)) = self.due.pop() else { return false };
        self.ours.insert(scope.clone(), None);
        // Known before it is done: a guard that comes back must know whose limits are ours.
        let made = self.remember().and_then(|()| self.set(&scope, bytes));
        match made {
            Ok(()) => {
                self.failed.remove(&scope);
                match bytes {
                    NONE => drop(self.ours.remove(&scope)),
                    _ => drop(self.ours.insert(scope, Some(bytes))),
                }
            }
            Err(error) => {
                if error.is::<Unanswered>() {
                    self.due.clear();
                }
                if self.failed.insert(scope) {
                    eprintln!("<4>{error:#}: the job may read its own code again and again at its memory limit");
                }
            }
        }
        true
    }

    fn set(&self, scope: &str, bytes: u64) -> Result<()> {
        let folder = self.slice.join(scope);
        let text = if bytes == NONE { "max".to_owned() } else { bytes.to_string() };
        // systemd is not to wait for the kernel, which takes memory back for whoever writes it.
        let above = limit(&folder, "memory.current").is_some_and(|current| current > bytes);
        let told = if above && !write_memory_high(&folder, &text)? {
            Ok(())
        } else if is_unit(scope) {
            let property = format!("MemoryHigh={}", if bytes == NONE { "infinity" } else { &text });
            set_property(&self.systemctl, scope, &[property], self.deadline)
        } else {
            write(&folder, FILE, &text)
        };
        match limit(&folder, FILE) {
            // It has ended.
            None => Ok(()),
            Some(high) if high == bytes => told,
            Some(high) => told.and_then(|()| bail!("{}: {FILE} is {high}", folder.display())),
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
            std::os::unix::fs::symlink(folder.path().join("jobs"), folder.path().join("slice")).unwrap();
            let systemctl = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/systemctl");
            std::os::unix::fs::symlink(systemctl, folder.path().join("systemctl")).unwrap();
            Rig { actuator: Rig::actuator(folder.path(), 0.95), folder }
        }

        fn actuator(folder: &Path, share: f64) -> MemoryHighActuator {
            let path = |name| folder.join(name);
            MemoryHighActuator::new(&path("jobs"), folder, &path("systemctl"), Duration::from_secs(20), share)
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
            self.put(scope, "memory.current", 7);
        }

        fn high(&self, scope: &str) -> Option<u64> {
            limit(&self.folder.path().join("jobs").join(scope), FILE)
        }

        /// Whether somebody else had changed one, and how many were set.
        fn make(&mut self) -> (bool, usize) {
            let drifted = self.actuator.look(Some(true));
            let mut set = 0;
            while self.actuator.set_next() {
                set += 1;
            }
            (drifted, set)
        }

        fn said(&self) -> String {
            std::fs::read_to_string(self.folder.path().join("systemctl.said")).unwrap_or_default()
        }
    }

    #[test]
    fn a_job_is_slowed_before_its_limit_whatever_its_engine_and_is_set_once() {
        let mut rig = Rig::new();
        assert_eq!(rig.make(), (false, 0));
        rig.job("docker-a.scope", &(100 * MIB).to_string());
        rig.job("container", &(200 * MIB).to_string());
        rig.job("docker-free.scope", "max");
        rig.job("libpod-conmon-b.scope", &(200 * MIB).to_string());
        assert_eq!(rig.make(), (false, 2));
        assert_eq!(rig.high("docker-a.scope"), Some(95 * MIB));
        assert_eq!(rig.said(), format!("set-property --runtime -- docker-a.scope MemoryHigh={}\n", 95 * MIB));
        assert_eq!(rig.high("container"), Some(190 * MIB), "it is no unit of systemd's");
        assert_eq!((rig.high("docker-free.scope"), rig.high("libpod-conmon-b.scope")), (Some(NONE), Some(NONE)));
        assert_eq!(rig.make(), (false, 0));
        // Its engine has given it more, and another one has come.
        rig.put("docker-a.scope", "memory.max", 200 * MIB);
        rig.job("docker-c.scope", &(100 * MIB + 4096).to_string());
        assert_eq!((rig.make(), rig.make()), ((false, 2), (false, 0)));
        assert_eq!(rig.high("docker-a.scope"), Some(190 * MIB));
        assert_eq!(rig.high("docker-c.scope"), Some(95 * MIB), "whole pages");
    }

    #[test]
    fn what_somebody_else_has_changed_is_put_right_and_what_he_had_set_before_is_left() {
        let mut rig = Rig::new();
        rig.job("docker-a.scope", &(100 * MIB).to_string());
        rig.job("docker-own.scope", &(100 * MIB).to_string());
        rig.put("docker-own.scope", "memory.high", 50 * MIB);
        assert_eq!(rig.make(), (false, 1));
        for other in ["max".to_owned(), MIB.to_string()] {
            rig.put("docker-a.scope", "memory.high", &other);
            assert_eq!((rig.make(), rig.make()), ((true, 1), (false, 0)), "{other}");
            assert_eq!(rig.high("docker-a.scope"), Some(95 * MIB));
        }
        assert_eq!(rig.high("docker-own.scope"), Some(50 * MIB));
        // The next guard knows whose they are.
        rig.actuator = Rig::actuator(rig.folder.path(), 0.95);
        assert_eq!(rig.make(), (false, 0));
        rig.put("docker-a.scope", "memory.high", MIB);
        assert_eq!(rig.make(), (true, 1));
        rig.actuator = Rig::actuator(rig.folder.path(), 0.5);
        assert_eq!(rig.make(), (false, 1));
        assert_eq!((rig.high("docker-a.scope"), rig.high("docker-own.scope")), (Some(50 * MIB), Some(50 * MIB)));
    }

    #[test]
    fn where_there_is_to_be_none_it_is_taken_away_and_only_ours() {
        let mut rig = Rig::new();
        rig.job("docker-a.scope", &(100 * MIB).to_string());
        rig.job("docker-own.scope", &(100 * MIB).to_string());
        rig.put("docker-own.scope", "memory.high", 95 * MIB);
        rig.make();
        assert!(!rig.actuator.look(None) && !rig.actuator.set_next(), "it is not known");
        assert!(!rig.actuator.look(Some(false)) && rig.actuator.set_next() && !rig.actuator.set_next());
        assert_eq!((rig.high("docker-a.scope"), rig.high("docker-own.scope")), (Some(NONE), Some(95 * MIB)));
        assert_eq!((rig.make(), rig.high("docker-a.scope")), ((false, 1), Some(95 * MIB)));
        rig.actuator = Rig::actuator(rig.folder.path(), 1.0);
        assert_eq!((rig.make(), rig.make()), ((false, 1), (false, 0)));
        assert_eq!((rig.high("docker-a.scope"), rig.high("docker-own.scope")), (Some(NONE), Some(95 * MIB)));
        rig.put("docker-a.scope", "memory.high", MIB);
        assert_eq!((rig.make(), rig.high("docker-a.scope")), ((false, 0), Some(MIB)), "that is not ours any more");
    }

    #[test]
    fn a_failure_is_tried_again_and_a_job_that_has_ended_is_none() {
        let mut rig = Rig::new();
        for scope in ["docker-a.scope", "docker-b.scope"] {
            rig.job(scope, &(100 * MIB).to_string());
        }
        rig.actuator.look(Some(true));
        std::fs::remove_dir_all(rig.folder.path().join("jobs/docker-b.scope")).unwrap();
        assert!(rig.actuator.set_next() && rig.actuator.failed.is_empty(), "docker-b.scope has ended");
        let broken = rig.folder.path().join("slow");
        std::fs::write(&broken, "").unwrap();
        assert!(rig.actuator.set_next());
        assert_eq!(rig.high("docker-a.scope"), Some(95 * MIB), "systemd has done it, whatever it says");
        rig.put("docker-a.scope", "memory.high", "max");
        assert_eq!(rig.make(), (false, 1));
        std::fs::remove_file(&broken).unwrap();
        rig.put("docker-a.scope", "memory.high", "max");
        assert_eq!((rig.make(), rig.make()), ((false, 1), (false, 0)));
        assert!(rig.actuator.failed.is_empty());
    }

    #[test]
    fn who_has_more_already_gets_it_from_the_kernel_before_systemd_is_told() {
        let mut rig = Rig::new();
        rig.job("docker-a.scope", &(100 * MIB).to_string());
        rig.put("docker-a.scope", "memory.current", 99 * MIB);
        // systemd says that it has done it and does it later.
        std::fs::remove_file(rig.folder.path().join("slice")).unwrap();
        std::fs::create_dir(rig.folder.path().join("slice")).unwrap();
        assert_eq!((rig.make(), rig.make()), ((false, 1), (false, 0)));
        assert!(rig.high("docker-a.scope") == Some(95 * MIB) && rig.said().contains("MemoryHigh="));
    }
}

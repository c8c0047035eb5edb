// SPDX-License-Identifier: Apache-2.0
//! Jobs that are to leave. HTCondor ends them, and queues them again: it is told their slots by a file that the startd's helper
//! reads. A container whose starter has gone before it is nobody's: HTCondor 23 forgets it. Slow: for the actuator thread only.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use intf::journal::Job;

use super::replace;
use crate::identity::{Identities, Keeper};

/// A job that is to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaver {
    /// Its cgroup below the slice of the jobs.
    pub scope: Box<str>,
    /// HTCondor has taken too long.
    pub by_force: bool,
}

/// Lets jobs leave.
pub struct VacateActuator {
    slice: PathBuf,
    identities: Identities,
    file: PathBuf,
    told: String,
    kept: BTreeMap<Box<str>, Kept>,
}

/// By whom a container is kept.
#[derive(Clone, Copy, Debug)]
enum Kept {
    /// By a process of HTCondor.
    ByStarter,
    /// By one that has ended, before then (CLOCK_MONOTONIC).
    NotSince(u64),
    /// Not by HTCondor.
    Otherwise,
}

impl VacateActuator {
    /// Name of the file in the run folder with the slots that are to become empty: one line, separated by commas.
    pub const SLOTS: &'static str = "vacate";

    /// `slice` is the folder of the cgroup of the jobs, `root` normally `/`. Touches nothing yet.
    pub fn new(root: &Path, slice: &Path, run: &Path) -> Self {
        let identities = Identities::new(root, slice);
        VacateActuator {
            slice: slice.into(),
            identities,
            file: run.join(Self::SLOTS),
            told: String::new(),
            kept: BTreeMap::new(),
        }
    }

    /// Containers whose starter has been gone for `grace`. Whose starter is not known is none of them.
    pub fn orphans(&mut self, grace: Duration, now_ns: u64) -> Vec<Box<str>> {
        let scopes = containers(&self.slice);
        self.kept.retain(|scope, _| scopes.contains(scope));
        for scope in scopes {
            let kept = match (self.kept.get(&scope), self.identities.keeper(&scope)) {
                (Some(Kept::NotSince(since_ns)), Ok(Keeper::Gone)) => Kept::NotSince(*since_ns),
                (_, Ok(Keeper::Gone)) => Kept::NotSince(now_ns),
                (_, Ok(Keeper::Starter(_))) => Kept::ByStarter,
                (_, Ok(Keeper::Nobody)) => Kept::Otherwise,
                // What could not be seen is no proof that it has gone on being so.
                (_, Err(_)) => {
                    self.kept.remove(&scope);
                    continue;
                }
            };
            self.kept.insert(scope, kept);
        }
        let orphan = |kept: &Kept| match kept {
            Kept::ByStarter | Kept::Otherwise => false,
            Kept::NotSince(ns) => u128::from(now_ns.saturating_sub(*ns)) >= grace.as_nanos(),
        };
        self.kept.iter().filter(|(_, kept)| orphan(kept)).map(|(scope, _)| scope.clone()).collect()
    }

    /// Tells HTCondor who is to leave; `Ok(true)` = it had been told so, and somebody else has changed it.
    ///
    /// # Errors
    /// The file cannot be written; the next call tries again.
    pub fn tell(&mut self, leavers: &[Leaver]) -> Result<bool> {
        let mut slots: Vec<String> = leavers.iter().map(|leaver| self.identities.of(&leaver.scope).slot).collect();
        slots.retain(|slot| !slot.is_empty());
        slots.sort_unstable();
        let text = slots.join(",") + "\n";
        // Somebody else may have changed it, and then HTCondor would end nobody until it is too late for all.
        if std::fs::read_to_string(&self.file).is_ok_and(|told| told == text) {
            self.told = text;
            return Ok(false);
        }
        replace(&self.file, &text)?;
        Ok(std::mem::replace(&mut self.told, text) == self.told)
    }

    /// Is it known that nobody of HTCondor will end it?
    pub fn has_no_starter(&self, scope: &str) -> bool {
        matches!(self.identities.keeper(scope), Ok(Keeper::Gone | Keeper::Nobody))
    }

    /// Whose job that is.
    pub fn of(&mut self, scope: &str) -> Job {
        self.identities.of(scope)
    }
}

/// Names of their cgroups. A slice that is not there has none.
fn containers(slice: &Path) -> BTreeSet<Box<str>> {
    let entries = std::fs::read_dir(slice).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.ends_with(".scope")).map(String::into_boxed_str).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::node;
    use super::*;

    fn actuator(root: &Path) -> VacateActuator {
        VacateActuator::new(root, &root.join("slice"), &root.join("own"))
    }

    fn leaver(scope: &str) -> Leaver {
        Leaver { scope: scope.into(), by_force: false }
    }

    #[test]
    fn htcondor_is_told_the_slots() {
        let node = node(4_000_000, "condor_starter\n");
        let mut actuator = actuator(node.path());
        let told = || std::fs::read_to_string(node.path().join("own/vacate")).unwrap();
        actuator.tell(&[leaver("docker-0a.scope"), leaver("stranger.scope")]).unwrap();
        assert_eq!(told(), "slot1_2\n");
        for change in ["", "slot1_1\n"] {
            std::fs::write(node.path().join("own/vacate"), change).unwrap();
            assert!(actuator.tell(&[leaver("docker-0a.scope")]).unwrap());
            assert_eq!(told(), "slot1_2\n", "somebody else changed it");
        }
        std::fs::remove_file(node.path().join("own/vacate")).unwrap();
        assert!(actuator.tell(&[leaver("docker-0a.scope")]).unwrap());
        assert_eq!(told(), "slot1_2\n", "somebody else removed it");
        assert!(!actuator.tell(&[leaver("docker-0a.scope")]).unwrap() && !actuator.tell(&[]).unwrap());
        assert_eq!(told(), "\n");
        std::fs::remove_dir_all(node.path().join("own")).unwrap();
        assert!(actuator.tell(&[leaver("docker-0a.scope")]).unwrap_err().to_string().contains("vacate.new"));
    }

    #[test]
    fn a_container_whose_starter_has_gone_is_an_orphan_after_the_grace_time() {
        let node = node(4_000_000, "condor_starter\n");
        std::fs::create_dir(node.path().join("slice/stranger.scope")).unwrap();
        let mut actuator = actuator(node.path());
        let mut orphans = |second: u64| actuator.orphans(Duration::from_secs(60), second * 1_000_000_000);
        assert!(orphans(100).is_empty() && orphans(900).is_empty(), "it is there");
        std::fs::remove_file(node.path().join("proc/4000000/stat")).unwrap();
        assert!(orphans(1000).is_empty() && orphans(1059).is_empty());
        assert_eq!(orphans(1060), ["docker-0a.scope".into()]);
        std::fs::remove_dir_all(node.path().join("slice/docker-0a.scope")).unwrap();
        assert!(orphans(1070).is_empty());
    }

    #[test]
    fn an_orphan_whose_starter_is_seen_after_all_is_none() {
        let node = node(4_000_000, "condor_starter\n");
        let stat = node.path().join("proc/4000000/stat");
        let text = std::fs::read_to_string(&stat).unwrap();
        let mut actuator = actuator(node.path());
        let mut orphans = |second: u64| actuator.orphans(Duration::from_secs(60), second * 1_000_000_000).len();
        std::fs::remove_file(&stat).unwrap();
        assert_eq!((orphans(100), orphans(159), orphans(160)), (0, 0, 1));
        // An error is no proof.
        std::fs::create_dir(&stat).unwrap();
        assert_eq!(orphans(170), 0);
        std::fs::remove_dir(&stat).unwrap();
        std::fs::write(&stat, text).unwrap();
        assert_eq!((orphans(180), orphans(900)), (0, 0));
    }
}

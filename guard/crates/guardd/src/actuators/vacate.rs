// SPDX-License-Identifier: Apache-2.0
//! Jobs that are to leave. HTCondor ends them, and queues them again: it is told their slots by a file that the startd's helper
//! reads. Whom it does not end in time is ended by force: the job's starter first, so that HTCondor does not take the end of the
//! container for the job's own, and then what is in the container. A container whose starter has gone before it is nobody's:
//! HTCondor 23 forgets it. Slow: for the actuator thread only.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{bail, Context, Result};
use intf::journal::Job;
use kernfs::KernFile;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::process::{pidfd_open, pidfd_send_signal, Pid, PidfdFlags, Signal};

use super::replace;
use crate::identity::{Identities, Keeper, Starter};

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
    deadline: Duration,
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
    pub fn new(root: &Path, slice: &Path, run: &Path, deadline: Duration) -> Self {
        let identities = Identities::new(root, slice);
        VacateActuator {
            slice: slice.into(),
            identities,
            deadline,
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

    /// Is that container still there?
    pub fn exists(&self, scope: &str) -> bool {
        self.slice.join(scope).is_dir()
    }

    /// Is nothing of that container there any more?
    pub fn is_empty(&self, scope: &str) -> bool {
        match KernFile::new(self.slice.join(scope).join("cgroup.events")).read() {
            Ok(events) => events.is_none_or(|events| !events.contains("populated 1")),
            // What cannot be read says nothing.
            Err(_) => false,
        }
    }

    /// How long the end of one may take.
    pub fn deadline_ns(&self) -> u64 {
        u64::try_from(self.deadline.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Whose job that is.
    pub fn of(&mut self, scope: &str) -> Job {
        self.identities.of(scope)
    }

    /// Ends a job by force. `Ok(false)` = it was over already.
    ///
    /// # Errors
    /// Its starter does not end, or it cannot be known who that is, and then it is left alone; or the kernel refuses.
    pub fn end(&self, scope: &str) -> Result<bool> {
        let cgroup = self.slice.join(scope);
        if scope.is_empty() || scope.contains('/') || !cgroup.is_dir() {
            return Ok(false);
        }
        if let Keeper::Starter(starter) = self.identities.keeper(scope)? {
            self.end_starter(&starter, scope)?;
        }
        let file = cgroup.join("cgroup.kill");
        match std::fs::write(&file, "1") {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error).with_context(|| format!("{}", file.display())),
        }
    }

    fn end_starter(&self, starter: &Starter, scope: &str) -> Result<()> {
        let pid = starter.pid;
        let Some(id) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(()) };
        let process = match pidfd_open(id, PidfdFlags::empty()) {
            Ok(process) => process,
            Err(rustix::io::Errno::SRCH) => return Ok(()),
            Err(error) => bail!("starter {pid}: {error}"),
        };
        // From here on the number cannot become another's: once more, is it the one?
        if self.identities.keeper(scope)? != Keeper::Starter(*starter) {
            return Ok(());
        }
        match pidfd_send_signal(&process, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => bail!("starter {pid}: {error}"),
        }
        let limit = Timespec::try_from(self.deadline).context("deadline")?;
        let mut ended = [PollFd::new(&process, PollFlags::IN)];
        match poll(&mut ended, Some(&limit)) {
            Ok(1..) => Ok(()),
            Ok(0) => bail!("starter {pid} does not end within {} s", self.deadline.as_secs_f64()),
            Err(error) => Err(error).context("poll"),
        }
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
    use super::*;

    fn actuator(root: &Path) -> VacateActuator {
        VacateActuator::new(root, &root.join("slice"), &root.join("own"), Duration::from_secs(5))
    }

    fn write(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// A container of HTCondor whose starter is a process of ours.
    fn node(starter: u32, name: &str) -> tempfile::TempDir {
        let node = tempfile::tempdir().unwrap();
        let root = node.path();
        let description =
            format!(r#"{{"process":{{"user":{{"uid":7}}}},"mounts":[{{"source":"/x/dir_{starter}/tmp"}}]}}"#);
        write(&root.join("run/containerd/io.containerd.runtime.v2.task/moby/0a/config.json"), &description);
        write(&root.join(format!("proc/{starter}/comm")), name);
        write(&root.join(format!("proc/{starter}/stat")), "1 (x) S 1 1 1 0 -1 0 1 0 0 0 1 2 3 4 20 0 1 0 500 1 2\n");
        write(&root.join(format!("proc/{starter}/task/{starter}/children")), "77");
        write(&root.join("proc/77/cmdline"), &format!("docker\0start\0HTCJob1_0_slot1_2_PID{starter}"));
        write(&root.join("slice/docker-0a.scope/cgroup.procs"), "");
        write(&root.join("slice/docker-0a.scope/cgroup.kill"), "");
        write(&root.join("own/x"), "");
        node
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
    fn the_starter_ends_before_the_container() {
        let mut starter = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let node = node(starter.id(), "condor_starter\n");
        assert!(actuator(node.path()).end("docker-0a.scope").unwrap());
        assert!(starter.wait().unwrap().code().is_none(), "killed");
        let killed = std::fs::read_to_string(node.path().join("slice/docker-0a.scope/cgroup.kill")).unwrap();
        assert_eq!(killed, "1");
    }

    #[test]
    fn a_process_that_is_no_starter_is_left_alone() {
        let mut stranger = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let node = node(stranger.id(), "sleep\n");
        assert!(actuator(node.path()).end("docker-0a.scope").unwrap(), "it has none any more");
        assert!(stranger.try_wait().unwrap().is_none());
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }

    #[test]
    fn a_container_whose_starter_has_gone_is_an_orphan_after_the_grace_time() {
        let node = node(4_000_000, "condor_starter\n");
        std::fs::create_dir(node.path().join("slice/stranger.scope")).unwrap();
        assert!(actuator(node.path()).end("stranger.scope").unwrap_err().to_string().contains("not known"));
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

    #[test]
    fn what_is_not_there_is_not_ended() {
        let node = node(4_000_000, "condor_starter\n");
        for scope in ["", "gone.scope", "../slice/docker-0a.scope"] {
            assert!(!actuator(node.path()).end(scope).unwrap(), "{scope}");
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! `io.max` of single jobs. Their scopes are systemd's, so it is told (`set-property --runtime`), and the kernel is asked
//! whether it is so; a container that is no unit of systemd's is written to. It can be slow: for the actuator thread only.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{bail, Context, Result};
use intf::status::LimitStatus;
use kernfs::io_max::IoMax;

use crate::command;

/// What one job may do to one disk: of reads, and as much of writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Its cgroup below beer-jobs.slice.
    pub scope: Box<str>,
    /// The whole disk.
    pub device: (u32, u32),
    /// Per second.
    pub requests: u64,
    /// Per second.
    pub bytes: u64,
}

impl Limit {
    fn in_kernel(&self) -> IoMax {
        let Limit { device, requests, bytes, .. } = *self;
        IoMax { device, read_bytes: bytes, write_bytes: bytes, reads: requests, writes: requests }
    }
}

impl From<&Limit> for LimitStatus {
    fn from(limit: &Limit) -> Self {
        let Limit { device: (major, minor), requests, bytes, .. } = *limit;
        LimitStatus { device: format!("{major}:{minor}"), requests, bytes }
    }
}

/// What has become of one job.
#[derive(Debug)]
pub struct Outcome {
    /// Who.
    pub scope: Box<str>,
    /// What he was to get there; `None` = everything.
    pub limit: Option<Limit>,
    /// It is so in the kernel, or why not.
    pub seen: Result<()>,
}

/// Keeps the limits of the jobs as they are wanted.
pub struct IoMaxActuator {
    slice: PathBuf,
    systemctl: PathBuf,
    deadline: Duration,
    /// For who comes after us: whose limits are ours.
    memory: PathBuf,
    applied: Vec<Limit>,
}

/// Larger than all names of jobs that there can be.
const MEMORY_BYTES: u64 = 64 << 10;

impl IoMaxActuator {
    /// Name of the file in the run folder that says who is limited.
    pub const MEMORY: &'static str = "limited";

    /// `slice` is the folder of the cgroup of the jobs. Touches nothing yet.
    pub fn new(slice: &Path, run: &Path, systemctl: &Path, deadline: Duration) -> Self {
        let (slice, systemctl) = (slice.to_owned(), systemctl.to_owned());
        IoMaxActuator { slice, systemctl, deadline, memory: run.join(Self::MEMORY), applied: Vec::new() }
    }

    /// Limits that an earlier guard has left are lifted: it may have died.
    pub fn adopt(&mut self) -> Vec<Outcome> {
        let mut text = String::new();
        let file = std::fs::File::open(&self.memory).map(|file| std::io::Read::take(file, MEMORY_BYTES));
        if file.and_then(|mut file| std::io::Read::read_to_string(&mut file, &mut text)).is_err() {
            return Vec::new();
        }
        let plain = |scope: &&str| !scope.is_empty() && !scope.contains('/') && !scope.starts_with('.');
        let outcomes = text.lines().filter(plain).map(|scope| self.lift(scope)).collect();
        self.remember();
        outcomes
    }

    /// Makes it so; says what it did, and nothing of what was so already.
    pub fn make(&mut self, wanted: &[Limit]) -> Vec<Outcome> {
        let scopes = |limits: &[Limit]| limits.iter().map(|limit| limit.scope.clone()).collect::<BTreeSet<_>>();
        let before = std::mem::take(&mut self.applied);
        // Known before it is done: a guard that comes back must know whose limits to lift.
        self.applied = wanted.to_vec();
        self.applied.extend(before.iter().cloned());
        self.remember();
        let mut outcomes = Vec::new();
        for scope in scopes(&before).difference(&scopes(wanted)) {
            outcomes.push(self.lift(scope));
        }
        for scope in scopes(wanted) {
            let of = |limits: &[Limit]| limits.iter().filter(|limit| limit.scope == scope).cloned().collect::<Vec<_>>();
            let (old, new) = (of(&before), of(wanted));
            if old == new {
                continue;
            }
            // A disk fewer: systemd knows no way to take one back alone.
            if old.iter().any(|old| new.iter().all(|new| new.device != old.device)) {
                outcomes.push(self.lift(&scope));
            }
            for limit in &new {
                let seen = self.set(limit);
                outcomes.push(Outcome { scope: scope.clone(), limit: Some(limit.clone()), seen });
            }
        }
        let failed = |limit: &Limit| outcomes.iter().any(|o| o.seen.is_err() && o.limit.as_ref() == Some(limit));
        // What failed is tried again with the next change, and with the next look.
        self.applied = wanted.iter().filter(|limit| !failed(limit)).cloned().collect();
        self.remember();
        outcomes
    }

    /// Is anything otherwise in the kernel than it was made? It is put right with the next [`Self::make`]. Jobs that have
    /// ended are no matter.
    pub fn drifted(&mut self) -> bool {
        let slice = &self.slice;
        let so = |limit: &Limit| match IoMax::read(&slice.join(&*limit.scope), limit.device) {
            Ok(Some(now)) => now == limit.in_kernel(),
            _ => true,
        };
        let before = self.applied.len();
        self.applied.retain(so);
        before != self.applied.len()
    }

    fn set(&self, limit: &Limit) -> Result<()> {
        let wanted = limit.in_kernel();
        let folder = self.slice.join(&*limit.scope);
        if is_unit(&limit.scope) {
            let (major, minor) = limit.device;
            let device = format!("/dev/block/{major}:{minor}");
            let property = |name: &str, value: u64| format!("IO{name}Max={device} {value}");
            self.systemctl(
                &limit.scope,
                &[
                    property("ReadIOPS", limit.requests),
                    property("WriteIOPS", limit.requests),
                    property("ReadBandwidth", limit.bytes),
                    property("WriteBandwidth", limit.bytes),
                ],
            )
            .or_else(|error| self.unless_ended(&folder, error))?;
        } else {
            write(&folder, &wanted).or_else(|error| self.unless_ended(&folder, error))?;
        }
        match IoMax::read(&folder, limit.device)? {
            Some(now) if now != wanted => bail!("{}: io.max is `{}`", folder.display(), now.line()),
            _ => Ok(()),
        }
    }

    fn lift(&self, scope: &str) -> Outcome {
        let folder = self.slice.join(scope);
        let lifted = || {
            if is_unit(scope) && folder.exists() {
                let all = ["IOReadIOPSMax=", "IOWriteIOPSMax=", "IOReadBandwidthMax=", "IOWriteBandwidthMax="];
                return self.systemctl(scope, &all.map(str::to_owned));
            }
            for limit in self.applied.iter().filter(|limit| *limit.scope == *scope) {
                write(&folder, &IoMax::unlimited(limit.device))?;
            }
            Ok(())
        };
        let seen = lifted().or_else(|error| self.unless_ended(&folder, error));
        Outcome { scope: scope.into(), limit: None, seen }
    }

    /// Whoever has ended needs no limit.
    fn unless_ended(&self, folder: &Path, error: anyhow::Error) -> Result<()> {
        if folder.exists() {
            Err(error)
        } else {
            Ok(())
        }
    }

    fn systemctl(&self, unit: &str, properties: &[String]) -> Result<()> {
        let mut arguments = vec!["set-property", "--runtime", unit];
        arguments.extend(properties.iter().map(String::as_str));
        command::run(&self.systemctl, &arguments, self.deadline)
            .with_context(|| format!("systemctl {}", arguments.join(" ")))
    }

    /// Below /run: waits for no disk. Without it limits outlive a guard that dies, until their jobs end.
    fn remember(&self) {
        let scopes: BTreeSet<&str> = self.applied.iter().map(|limit| &*limit.scope).collect();
        let text = scopes.into_iter().flat_map(|scope| [scope, "\n"]).collect::<String>();
        let fresh = self.memory.with_extension("new");
        let _ = std::fs::write(&fresh, text).and_then(|()| std::fs::rename(&fresh, &self.memory));
    }
}

fn is_unit(scope: &str) -> bool {
    scope.ends_with(".scope") || scope.ends_with(".service")
}

fn write(folder: &Path, limits: &IoMax) -> Result<()> {
    let path = folder.join("io.max");
    // Not made where there is none: that would be a file of a folder that is no cgroup.
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(&path)
        .with_context(|| format!("{}", path.display()))?;
    std::io::Write::write_all(&mut file, limits.line().as_bytes()).with_context(|| format!("{}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: (u32, u32) = (254, 16);

    /// Folders for cgroups, and a systemctl that does what systemd does, but for what a scope is in the kernel.
    struct Rig {
        folder: tempfile::TempDir,
        actuator: IoMaxActuator,
    }

    impl Rig {
        fn new(scopes: &[&str]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            scopes.iter().for_each(|scope| {
                std::fs::create_dir_all(folder.path().join(scope)).unwrap();
                std::fs::write(folder.path().join(scope).join("io.max"), "").unwrap();
            });
            let actuator = Rig::actuator(folder.path());
            Rig { folder, actuator }
        }

        fn actuator(folder: &Path) -> IoMaxActuator {
            let systemctl = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/systemctl-io");
            std::fs::create_dir_all(folder.join("run")).unwrap();
            let program = folder.join("run/systemctl");
            let _ = std::os::unix::fs::symlink(systemctl, &program);
            IoMaxActuator::new(folder, &folder.join("run"), &program, Duration::from_secs(20))
        }

        fn in_kernel(&self, scope: &str) -> String {
            std::fs::read_to_string(self.folder.path().join(scope).join("io.max")).unwrap()
        }

        fn limited(&self) -> String {
            std::fs::read_to_string(self.folder.path().join("run/limited")).unwrap_or_default()
        }
    }

    fn limit(scope: &str, requests: u64) -> Limit {
        Limit { scope: scope.into(), device: DISK, requests, bytes: 2_000_000 }
    }

    fn said(outcomes: &[Outcome]) -> Vec<(&str, Option<u64>, bool)> {
        outcomes.iter().map(|o| (&*o.scope, o.limit.as_ref().map(|l| l.requests), o.seen.is_ok())).collect()
    }

    const SET: &str = "254:16 rbps=2000000 wbps=2000000 riops=40 wiops=40\n";

    #[test]
    fn limits_are_set_changed_and_lifted_and_what_is_so_is_left_alone() {
        let mut rig = Rig::new(&["a.scope", "b.scope"]);
        assert_eq!(said(&rig.actuator.make(&[limit("a.scope", 40)])), [("a.scope", Some(40), true)]);
        assert_eq!((rig.in_kernel("a.scope").as_str(), rig.in_kernel("b.scope").as_str()), (SET, ""));
        assert_eq!(rig.limited(), "a.scope\n");
        assert!(rig.actuator.make(&[limit("a.scope", 40)]).is_empty());
        let outcomes = rig.actuator.make(&[limit("a.scope", 80), limit("b.scope", 40)]);
        assert_eq!(said(&outcomes), [("a.scope", Some(80), true), ("b.scope", Some(40), true)]);
        assert_eq!(said(&rig.actuator.make(&[limit("b.scope", 40)])), [("a.scope", None, true)]);
        assert_eq!((rig.in_kernel("a.scope").as_str(), rig.in_kernel("b.scope").as_str()), ("", SET));
        assert_eq!(said(&rig.actuator.make(&[])), [("b.scope", None, true)]);
        assert_eq!(rig.limited(), "");
    }

    #[test]
    fn a_container_that_is_no_unit_is_written_to() {
        let mut rig = Rig::new(&["podman-a"]);
        assert_eq!(said(&rig.actuator.make(&[limit("podman-a", 40)])), [("podman-a", Some(40), true)]);
        assert_eq!(rig.in_kernel("podman-a"), SET.trim_end());
        assert_eq!(said(&rig.actuator.make(&[])), [("podman-a", None, true)]);
        assert_eq!(rig.in_kernel("podman-a"), "254:16 rbps=max wbps=max riops=max wiops=max".to_owned());
    }

    #[test]
    fn what_somebody_else_has_changed_is_put_right() {
        let mut rig = Rig::new(&["a.scope"]);
        rig.actuator.make(&[limit("a.scope", 40)]);
        assert!(!rig.actuator.drifted());
        std::fs::write(rig.folder.path().join("a.scope/io.max"), "").unwrap();
        assert!(rig.actuator.drifted());
        assert_eq!(said(&rig.actuator.make(&[limit("a.scope", 40)])), [("a.scope", Some(40), true)]);
        assert_eq!(rig.in_kernel("a.scope"), SET);
    }

    #[test]
    fn a_job_that_has_ended_is_no_failure_and_one_that_cannot_be_limited_is() {
        let mut rig = Rig::new(&["a.scope"]);
        rig.actuator.make(&[limit("a.scope", 40)]);
        std::fs::remove_dir_all(rig.folder.path().join("a.scope")).unwrap();
        assert_eq!(
            said(&rig.actuator.make(&[limit("gone.scope", 40)])),
            [("a.scope", None, true), ("gone.scope", Some(40), true)]
        );
        let mut rig = Rig::new(&["a.scope"]);
        rig.actuator.systemctl = "/nowhere/systemctl".into();
        assert_eq!(said(&rig.actuator.make(&[limit("a.scope", 40)])), [("a.scope", Some(40), false)]);
        rig.actuator = Rig::actuator(rig.folder.path());
        assert_eq!(said(&rig.actuator.make(&[limit("a.scope", 40)])), [("a.scope", Some(40), true)], "tried again");
        // It says that it did, and did not: the kernel is asked.
        std::fs::write(rig.folder.path().join("run/deaf"), "").unwrap();
        let outcomes = rig.actuator.make(&[limit("a.scope", 20)]);
        assert_eq!(said(&outcomes), [("a.scope", Some(20), false)]);
        assert!(outcomes[0].seen.as_ref().unwrap_err().to_string().contains("riops=40"));
    }

    #[test]
    fn what_an_earlier_guard_has_left_is_lifted() {
        let mut rig = Rig::new(&["a.scope", "b.scope"]);
        rig.actuator.make(&[limit("a.scope", 40)]);
        let mut next = Rig::actuator(rig.folder.path());
        assert_eq!(said(&next.adopt()), [("a.scope", None, true)]);
        assert_eq!((rig.in_kernel("a.scope").as_str(), rig.limited().as_str()), ("", ""));
        std::fs::write(rig.folder.path().join("run/limited"), "../etc\n\n.hidden\nb.scope\n").unwrap();
        assert_eq!(said(&next.adopt()), [("b.scope", None, true)], "names of jobs only");
        std::fs::remove_file(rig.folder.path().join("run/limited")).unwrap();
        assert!(next.adopt().is_empty());
    }
}

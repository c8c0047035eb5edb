// SPDX-License-Identifier: Apache-2.0
//! The end of a job by force: of its starter first, so that HTCondor does not take the end of the container for the job's own and
//! queues it again; then of what is in the container (`cgroup.kill`). There is no way back. Slow: for the actuator thread only.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{bail, Context, Result};
use kernfs::KernFile;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::process::{pidfd_open, pidfd_send_signal, Pid, PidfdFlags, Signal};

use crate::identity::{Identities, Keeper, Starter};

/// Ends jobs.
pub struct KillActuator {
    slice: PathBuf,
    identities: Identities,
    deadline: Duration,
}

impl KillActuator {
    /// `slice` is the folder of the cgroup of the jobs, `root` normally `/`. Touches nothing yet.
    pub fn new(root: &Path, slice: &Path, deadline: Duration) -> Self {
        KillActuator { slice: slice.into(), identities: Identities::new(root, slice), deadline }
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

#[cfg(test)]
mod tests {
    use super::super::testing::node;
    use super::*;

    fn actuator(root: &Path) -> KillActuator {
        KillActuator::new(root, &root.join("slice"), Duration::from_secs(5))
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
    fn whose_starter_is_not_known_is_left_alone() {
        let node = node(4_000_000, "condor_starter\n");
        std::fs::create_dir(node.path().join("slice/stranger.scope")).unwrap();
        assert!(actuator(node.path()).end("stranger.scope").unwrap_err().to_string().contains("not known"));
    }

    #[test]
    fn what_is_not_there_is_not_ended() {
        let node = node(4_000_000, "condor_starter\n");
        for scope in ["", "gone.scope", "../slice/docker-0a.scope"] {
            assert!(!actuator(node.path()).end(scope).unwrap(), "{scope}");
        }
    }
}

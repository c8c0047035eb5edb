// SPDX-License-Identifier: Apache-2.0
//! Less network for all of batch: the most that jobs may send to other hosts, and receive from them, as a share of the speed of the
//! storage interface. Packet rules take CAP_NET_ADMIN, which the guard has not: it writes a rate into its run folder and starts
//! beer-network-limit.service (cgroup-slices), which sets the rules and says in a file of its own what the kernel has then. Slow: for
//! the actuator thread only.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{bail, Context, Result};
use policy::squeeze::Resource;

use super::squeeze::Squeezed;
use crate::command;

const UNIT: &str = "beer-network-limit.service";

/// Keeps the limit as it is wanted.
pub struct NetworkActuator {
    /// What we ask for; there is none = no limit of ours.
    asked: PathBuf,
    /// What is in force.
    told: PathBuf,
    systemctl: PathBuf,
    deadline: Duration,
    /// What was made so; `None` = not known, or nothing.
    applied: Option<String>,
}

impl NetworkActuator {
    /// Name of the file in the run folder.
    pub const ASKED: &'static str = "network-limit";

    /// Touches nothing yet.
    pub fn new(run: &Path, systemctl: &Path, deadline: Duration) -> Self {
        NetworkActuator {
            asked: run.join(Self::ASKED),
            told: run.with_file_name("network").join("limit"),
            systemctl: systemctl.to_owned(),
            deadline,
            applied: None,
        }
    }

    /// Makes it so, of an interface of such a speed (bytes per second; 0 = not known); says what it did, and nothing of what was so
    /// already. What a guard before it has left is given back with the first share of 1.
    pub fn make(&mut self, share: f32, speed: u64) -> Option<Squeezed> {
        if share >= 1.0 {
            return self.give_back();
        }
        let rate = rate(share, speed);
        if self.applied == Some(rate.clone()) {
            return None;
        }
        let seen = match speed {
            0 => Err(anyhow::anyhow!("the speed of the storage interface is not known (signals.network.speed)")),
            _ => self.set(&rate),
        };
        self.applied = seen.is_ok().then(|| rate.clone());
        Some(Squeezed { resource: Resource::Network, has: Some(format!("{rate}/s of network")), seen })
    }

    /// Is another limit in force than was made? It is put right with the next [`Self::make`].
    pub fn drifted(&mut self) -> bool {
        let other = self.applied.as_ref().is_some_and(|applied| self.in_force().as_ref() != Some(applied));
        if other {
            self.applied = None;
        }
        other
    }

    fn set(&self, rate: &str) -> Result<()> {
        let fresh = self.asked.with_extension("new");
        std::fs::write(&fresh, format!("{rate}\n"))
            .and_then(|()| std::fs::rename(&fresh, &self.asked))
            .with_context(|| format!("{}", self.asked.display()))?;
        self.start()?;
        match self.in_force() {
            Some(now) if now == rate => Ok(()),
            now => bail!("{}: the limit is `{}` and not {rate}", self.told.display(), now.unwrap_or_default()),
        }
    }

    fn give_back(&mut self) -> Option<Squeezed> {
        match std::fs::remove_file(&self.asked) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && self.applied.is_none() => return None,
            _ => {}
        }
        let seen = self.start();
        if seen.is_ok() {
            self.applied = None;
        } else {
            // To be tried again, also by the next guard.
            let _ = std::fs::write(&self.asked, "");
        }
        Some(Squeezed { resource: Resource::Network, has: None, seen })
    }

    fn start(&self) -> Result<()> {
        let arguments = ["restart", "--", UNIT];
        command::run(&self.systemctl, &arguments, self.deadline)
            .with_context(|| format!("systemctl {}", arguments.join(" ")))
    }

    fn in_force(&self) -> Option<String> {
        std::fs::read_to_string(&self.told).ok().map(|text| text.trim_end().to_owned())
    }
}

/// In whole megabits, as network.conf has it; never nothing.
fn rate(share: f32, speed: u64) -> String {
    let megabits = f64::from(share) * speed as f64 * 8.0 / 1e6;
    format!("{}Mbit", (megabits as u64).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 Gbit/s.
    const SPEED: u64 = 125_000_000;

    fn rig() -> (tempfile::TempDir, NetworkActuator) {
        let folder = tempfile::tempdir().unwrap();
        let systemctl = folder.path().join("systemctl");
        let stand_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/systemctl");
        std::os::unix::fs::symlink(stand_in, &systemctl).unwrap();
        for name in ["guard", "network"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let actuator = NetworkActuator::new(&folder.path().join("guard"), &systemctl, Duration::from_secs(20));
        (folder, actuator)
    }

    fn said(outcome: Option<Squeezed>) -> Option<(Option<String>, bool)> {
        outcome.map(|outcome| (outcome.has, outcome.seen.is_ok()))
    }

    #[test]
    fn it_gets_less_and_all_of_it_back() {
        let (folder, mut actuator) = rig();
        let in_force = || std::fs::read_to_string(folder.path().join("network/limit")).unwrap_or_default();
        assert_eq!(said(actuator.make(1.0, SPEED)), None, "nothing was taken");
        assert_eq!(said(actuator.make(0.5, SPEED)), Some((Some("500Mbit/s of network".into()), true)));
        assert_eq!((said(actuator.make(0.5, SPEED)), in_force().trim_end()), (None, "500Mbit"));
        assert!(!actuator.drifted());
        std::fs::write(folder.path().join("network/limit"), "").unwrap();
        assert!(actuator.drifted());
        assert!(said(actuator.make(0.5, SPEED)).is_some_and(|(_, seen)| seen) && in_force() == "500Mbit\n");
        assert_eq!(said(actuator.make(1.0, SPEED)), Some((None, true)));
        assert_eq!((said(actuator.make(1.0, SPEED)), in_force().as_str()), (None, ""));
    }

    #[test]
    fn who_comes_after_one_that_died_gives_back_what_it_left() {
        let (folder, mut actuator) = rig();
        actuator.make(0.05, SPEED);
        let mut next =
            NetworkActuator::new(&folder.path().join("guard"), &folder.path().join("systemctl"), actuator.deadline);
        assert_eq!(said(next.make(1.0, 0)), Some((None, true)));
        assert_eq!(std::fs::read_to_string(folder.path().join("network/limit")).unwrap(), "");
    }

    #[test]
    fn failures_are_told_and_tried_again() {
        let (folder, mut actuator) = rig();
        let outcome = actuator.make(0.5, 0).unwrap();
        assert!(format!("{:#}", outcome.seen.unwrap_err()).contains("signals.network.speed"));
        std::fs::write(folder.path().join("slow"), "").unwrap();
        assert!(actuator.make(0.5, SPEED).unwrap().seen.is_err());
        std::fs::remove_file(folder.path().join("slow")).unwrap();
        assert!(actuator.make(0.5, SPEED).unwrap().seen.is_ok());
        std::fs::write(folder.path().join("slow"), "").unwrap();
        assert!(actuator.make(1.0, SPEED).unwrap().seen.is_err());
        std::fs::remove_file(folder.path().join("slow")).unwrap();
        assert_eq!(said(actuator.make(1.0, SPEED)), Some((None, true)));
    }

    #[test]
    fn a_rate_is_never_nothing() {
        assert_eq!(
            ["1Mbit", "62Mbit", "400000Mbit"].map(str::to_owned),
            [rate(0.05, 125_000), rate(0.5, 15_625_000), rate(1.0, 50_000_000_000),]
        );
    }
}

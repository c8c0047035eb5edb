// SPDX-License-Identifier: Apache-2.0
//! Less network for all of batch: the most that jobs may send to other hosts, and receive from them, as a share of the speed of the
//! storage interface. Packet rules take CAP_NET_ADMIN, which the guard has not: it writes a rate into its run folder and starts
//! beer-network-limit.service (cgroup-slices), which sets the rules, reads them back and says in a file of its own what was asked for
//! then, and whether somebody else had changed the rules. Slow: for the actuator thread only.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{anyhow, bail, Context, Result};
use policy::squeeze::Resource;

use super::replace;
use super::squeeze::Squeezed;
use crate::command;

const UNIT: &str = "beer-network-limit.service";

/// The kernel's arithmetic ends at some 147 Gbit/s (nft_limit_init, net/netfilter/nft_limit.c).
const MOST_MEGABITS: u64 = 100_000;

/// The guard may not look at packet rules either: at each third look for what somebody else has changed the service does, while there is
/// a limit.
const CHECKED_EVERY: u32 = 3;

/// Keeps the limit as it is wanted.
pub struct NetworkActuator {
    /// What we ask for, a rate or nothing. While it is there some limit of ours may be in force.
    asked: PathBuf,
    /// What was asked for when the rules were last set.
    told: PathBuf,
    systemctl: PathBuf,
    deadline: Duration,
    /// What was wanted last, and whether it was so then; `None` = not known, or to be tried again.
    made: Option<(String, bool)>,
    /// How often it was looked.
    looks: u32,
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
            made: None,
            looks: 0,
        }
    }

    /// Makes it so, of an interface of such a speed (bytes per second; 0 = not known); says what it did, and nothing of what was so
    /// already. What failed is tried again after [`Self::drifted`]. What a guard before it has left is given back with the first
    /// share of 1.
    pub fn make(&mut self, share: f32, speed: u64) -> Option<Squeezed> {
        let less = share < 1.0;
        let rate = if less { rate(share, speed) } else { String::new() };
        if self.made.as_ref().is_some_and(|(made, _)| *made == rate) || (!less && !self.asked.exists()) {
            return None;
        }
        let seen = match (less, speed) {
            (true, 0) => Err(anyhow!("the speed of the storage interface is not known (signals.network.speed)")),
            (true, _) => self.set(&rate),
            (false, _) => self.set(&rate).and_then(|()| Ok(std::fs::remove_file(&self.asked)?)),
        };
        let has = less.then(|| format!("{rate}/s of network"));
        self.made = Some((rate, seen.is_ok()));
        Some(Squeezed { of: Resource::Network.name(), has, seen })
    }

    /// Has somebody else set another limit, or taken the rules away? That is put right, and what failed is tried again, with the next
    /// [`Self::make`].
    pub fn drifted(&mut self) -> bool {
        let Some((made, was_so)) = self.made.take_if(|_| self.asked.exists()) else { return false };
        self.looks += 1;
        // What it finds wrong the service puts right by itself. If it cannot, it tells nothing any more.
        let looked = self.looks % CHECKED_EVERY == 0 && self.restart().is_ok();
        match self.told() {
            Some((told, changed)) if told == made => {
                self.made = Some((made, true));
                looked && changed
            }
            _ => was_so,
        }
    }

    fn set(&self, rate: &str) -> Result<()> {
        replace(&self.asked, &format!("{rate}\n"))?;
        // It may have been done after nobody waited for it any more.
        let told = || self.told().map(|(told, _)| told);
        if told().as_deref() == Some(rate) {
            return Ok(());
        }
        self.restart()?;
        match told() {
            Some(now) if now == rate => Ok(()),
            now => bail!("{}: the limit is `{}` and not `{rate}`", self.told.display(), now.unwrap_or_default()),
        }
    }

    fn restart(&self) -> Result<()> {
        let arguments = ["restart", "--", UNIT];
        command::run(&self.systemctl, &arguments, self.deadline)
            .with_context(|| format!("systemctl {}", arguments.join(" ")))
    }

    /// What the service last said: the limit, and whether somebody else had changed the rules. `None` = nothing is in force.
    fn told(&self) -> Option<(String, bool)> {
        let text = std::fs::read_to_string(&self.told).ok()?;
        let mut lines = text.lines().map(str::to_owned);
        Some((lines.next()?, lines.next().is_some()))
    }
}

/// In whole megabits, as network.conf has it; never nothing.
fn rate(share: f32, speed: u64) -> String {
    let megabits = f64::from(share) * speed as f64 * 8.0 / 1e6;
    format!("{}Mbit", (megabits as u64).clamp(1, MOST_MEGABITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 Gbit/s.
    const SPEED: u64 = 125_000_000;
    const PATIENCE: Duration = Duration::from_secs(20);
    const STAND_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/systemctl");

    fn rig() -> (tempfile::TempDir, NetworkActuator) {
        let folder = tempfile::tempdir().unwrap();
        let systemctl = folder.path().join("systemctl");
        std::os::unix::fs::symlink(STAND_IN, &systemctl).unwrap();
        for name in ["guard", "network"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let actuator = NetworkActuator::new(&folder.path().join("guard"), &systemctl, PATIENCE);
        (folder, actuator)
    }

    fn said(outcome: Option<Squeezed>) -> Option<(Option<String>, bool)> {
        outcome.map(|outcome| (outcome.has, outcome.seen.is_ok()))
    }

    #[test]
    fn it_gets_less_and_all_of_it_back() {
        let (folder, mut actuator) = rig();
        let told = || std::fs::read_to_string(folder.path().join("network/limit")).unwrap_or_default();
        assert_eq!(said(actuator.make(1.0, SPEED)), None, "nothing was taken");
        assert_eq!(said(actuator.make(0.5, SPEED)), Some((Some("500Mbit/s of network".into()), true)));
        assert_eq!((said(actuator.make(0.5, SPEED)), told().as_str()), (None, "500Mbit\n"));
        assert!(!actuator.drifted());
        std::fs::write(folder.path().join("network/limit"), "").unwrap();
        assert!(actuator.drifted());
        assert!(said(actuator.make(0.5, SPEED)).is_some_and(|(_, seen)| seen) && told() == "500Mbit\n");
        assert_eq!(said(actuator.make(1.0, SPEED)), Some((None, true)));
        assert_eq!((said(actuator.make(1.0, SPEED)), told().as_str()), (None, "\n"));
        assert!(!folder.path().join("guard").join(NetworkActuator::ASKED).exists());
    }

    #[test]
    fn rules_that_somebody_took_away_are_seen_by_the_service() {
        let (folder, mut actuator) = rig();
        actuator.make(0.5, SPEED);
        let log = folder.path().join("systemctl.said");
        let restarts = || std::fs::read_to_string(&log).unwrap().lines().count();
        let drifts = |actuator: &mut NetworkActuator, looks| (0..looks).filter(|_| actuator.drifted()).count();
        assert_eq!((drifts(&mut actuator, 6), restarts()), (0, 3));
        std::fs::write(folder.path().join("changed"), "").unwrap();
        assert_eq!((drifts(&mut actuator, 3), restarts()), (1, 4));
        assert!(actuator.make(0.5, SPEED).is_none(), "it was put right by the service");
        std::fs::remove_file(folder.path().join("changed")).unwrap();
        assert_eq!(drifts(&mut actuator, 3), 0);
        // It cannot, and says so.
        std::fs::write(folder.path().join("broken"), "").unwrap();
        assert_eq!(drifts(&mut actuator, 3), 1);
        assert_eq!(said(actuator.make(0.5, SPEED)), Some((Some("500Mbit/s of network".into()), false)));
    }

    #[test]
    fn who_comes_after_one_that_died_gives_back_what_it_left() {
        let (folder, mut actuator) = rig();
        let systemctl = folder.path().join("systemctl");
        actuator.make(0.05, SPEED);
        // It dies while it gives back, too.
        std::fs::remove_file(&systemctl).unwrap();
        assert!(actuator.make(1.0, SPEED).unwrap().seen.is_err());
        std::os::unix::fs::symlink(STAND_IN, &systemctl).unwrap();
        let mut next = NetworkActuator::new(&folder.path().join("guard"), &systemctl, actuator.deadline);
        assert_eq!(said(next.make(1.0, 0)), Some((None, true)));
        assert_eq!(std::fs::read_to_string(folder.path().join("network/limit")).unwrap(), "\n");
    }

    #[test]
    fn failures_are_told_and_tried_again_now_and_then() {
        let (_folder, mut actuator) = rig();
        let outcome = actuator.make(0.5, 0).unwrap();
        assert!(format!("{:#}", outcome.seen.unwrap_err()).contains("signals.network.speed"));
        let systemctl = std::mem::replace(&mut actuator.systemctl, "/none".into());
        assert!(actuator.make(0.5, SPEED).unwrap().seen.is_err());
        assert!(actuator.make(0.5, SPEED).is_none(), "not with every wish");
        assert!(!actuator.drifted(), "nobody has changed anything");
        actuator.systemctl = systemctl;
        assert!(actuator.make(0.5, SPEED).unwrap().seen.is_ok());
        // Nobody waited for the one before: it is so, and not begun anew.
        actuator.systemctl = "/none".into();
        actuator.made = None;
        assert!(actuator.make(0.5, SPEED).unwrap().seen.is_ok());
    }

    #[test]
    fn a_rate_is_never_nothing_and_never_more_than_the_kernel_can_count() {
        let rates = [rate(0.05, 125_000), rate(0.5, 15_625_000), rate(0.5, 50_000_000_000)];
        assert_eq!(rates, ["1Mbit", "62Mbit", "100000Mbit"]);
    }
}

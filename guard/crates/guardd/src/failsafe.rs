// SPDX-License-Identifier: Apache-2.0
//! `beer-guard failsafe`: what happens when the guard is not there. Static caps on batch, and nothing frozen for
//! ever. It runs with all privileges, apart from the sandboxed guard, and needs neither its configuration to be
//! right nor its process to be alive.

use std::path::PathBuf;
use std::sync::mpsc::{channel, Receiver};
use std::time::Duration;

use anyhow::{anyhow, bail, Context, Result};

use policy::{Config, Hold, Shares};

use crate::actuators::freeze::Ease;
use crate::actuators::{
    self, gone, now, DisksActuator, Freezer, IoMaxActuator, NetworkActuator, ShapingActuator, SliceFreezer,
    SqueezeActuator, SwapActuator, Wanted,
};
use crate::clock::{Clock, SystemClock};
use crate::command;
use crate::control::StateFile;
use crate::heartbeat;
use crate::jobs::JobTable;

/// systemctl must answer within this, or the thaw goes ahead without it. Less than `TimeoutStopSec=` of the guard's unit.
const DEADLINE: Duration = Duration::from_secs(3);
/// The same for the data disks: without an answer the kernel is told.
const SLOW_DEADLINE: Duration = Duration::from_secs(1);
/// Whoever is frozen does not stand still for longer until that is done.
const SLOW_PATIENCE: Duration = Duration::from_secs(2);
/// A daemon-reload runs all generators.
const RELOAD_DEADLINE: Duration = Duration::from_secs(25);

/// Where things are.
#[derive(Clone, Debug)]
pub struct Failsafe {
    /// Folder of the cgroup of beer-jobs.slice.
    pub slice: PathBuf,
    /// `/run/beer/guard`.
    pub run: PathBuf,
    /// Folder of the shaping segment.
    pub shaping: PathBuf,
    /// Where systemd keeps what `set-property --runtime` sets.
    pub control: PathBuf,
    /// `systemctl`.
    pub systemctl: PathBuf,
    /// For example `100%`: one core for all jobs together.
    pub cpu_quota: String,
    /// The guard was to touch nothing: no caps for want of it.
    pub dry_run: bool,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Caps were set now.
    pub capped: bool,
    /// Caps were lifted now.
    pub lifted: bool,
    /// The slice was frozen and is thawed now.
    pub thawed: bool,
}

impl Done {
    /// For the log; nothing when nothing was done.
    pub fn sentence(&self) -> Option<&'static str> {
        match self {
            Done { capped: true, thawed: true, .. } => Some("no guard: batch is capped and thawed"),
            Done { capped: true, .. } => Some("no guard: batch is capped"),
            Done { thawed: true, .. } => Some("no guard: batch is thawed"),
            Done { lifted: true, .. } => Some("the guard is back: caps lifted"),
            _ => None,
        }
    }
}

impl Failsafe {
    /// Name of the file in the run folder that is there while batch has the CPU caps, and says what it had before.
    pub const CAPPED: &'static str = "capped";

    /// As configured, or where things normally are when there is no usable configuration.
    pub fn of(config: Option<&Config>, cpu_quota: &str) -> Self {
        let slice = "/sys/fs/cgroup/beer.slice/beer-jobs.slice";
        Failsafe {
            slice: config.map_or_else(|| slice.into(), |c| c.paths.cgroup.join(&c.paths.jobs_slice)),
            run: config.map_or_else(|| "/run/beer/guard".into(), |c| c.paths.run.clone()),
            shaping: config.map_or_else(|| "/run/beer/control".into(), |c| c.paths.control.clone()),
            control: "/run/systemd/system.control".into(),
            systemctl: "systemctl".into(),
            cpu_quota: cpu_quota.to_owned(),
            dry_run: config.is_some_and(|config| config.node.dry_run),
        }
    }

    /// After the guard has ended (`ExecStopPost`): caps always; a thaw only when it was stopped on purpose, since
    /// otherwise it is back in a moment and takes over what it finds.
    ///
    /// # Errors
    /// Caps or thaw did not work; both were tried.
    pub fn after_exit(&self, on_purpose: bool) -> Result<Done> {
        if self.dry_run {
            // What a guard before it may have frozen.
            return Ok(Done { thawed: on_purpose && self.thaw()?, ..Done::default() });
        }
        let slowed = self.slow_disks();
        let shaped = self.slow_daemons(on_purpose);
        // What batch had before counts for the caps, and for their end.
        let given_back = self.give_back();
        let capped = self.cap(given_back.is_ok());
        // Before anybody is thawed.
        let slowed =
            slowed.recv_timeout(SLOW_PATIENCE).unwrap_or_else(|_| Err(anyhow!("the data disks are not limited yet")));
        let thawed = if on_purpose { self.thaw() } else { Ok(false) };
        if on_purpose {
            self.free_jobs()?;
        }
        // Last: it starts a service, which may wait for a disk.
        let network = NetworkActuator::new(&self.run, &self.systemctl, DEADLINE).make(1.0, 0);
        given_back?;
        shaped?;
        network.map_or(Ok(()), |outcome| outcome.seen)?;
        Ok(Done { capped: capped? | slowed?, thawed: thawed?, lifted: false })
    }

    /// The dead-man timer: acts when the heartbeat is older than `limit`; lifts what is left of an earlier act when
    /// the guard lives.
    ///
    /// # Errors
    /// As [`Self::after_exit`].
    pub fn dead_man(&self, limit: Duration, clock: &dyn Clock) -> Result<Done> {
        let age_ns =
            heartbeat::read(&self.run.join(StateFile::NAME)).map_or(u64::MAX, |l| heartbeat::age_ns(&l, clock));
        if u128::from(age_ns) > limit.as_nanos() {
            self.after_exit(true)
        } else {
            let lifted = self.lift()?;
            self.squeezed().tidy(&self.control)?;
            SwapActuator::new(&self.slice, &self.run, &self.systemctl, DEADLINE).tidy(&self.control)?;
            Ok(Done { lifted, ..Done::default() })
        }
    }

    /// Little for all of batch through the storage daemons, which answer it on their own account. Nobody lifts it but the guard's first
    /// tick, or the end of its lease.
    fn slow_daemons(&self, on_purpose: bool) -> Result<()> {
        let (mut shaping, now_ns) = (ShapingActuator::of_failsafe(&self.shaping), SystemClock.monotonic_ns());
        // What was held when the guard died stays so for the moment until it is back, as whom it has frozen.
        if !on_purpose && shaping.somebody_holds(now_ns) {
            return Ok(());
        }
        shaping.keep(Wanted::least(), now_ns);
        shaping.fault(now_ns).map_or(Ok(()), |fault| Err(anyhow!("{}: {fault}", shaping.path().display())))
    }

    /// Little of the data disks for all of batch: nobody sees what it does there. Beside all else: the kernel may first wait for what
    /// is in flight on a disk (blk_throtl_init, block/blk-throttle.c), and on one that hangs it would for ever.
    fn slow_disks(&self) -> Receiver<Result<bool>> {
        let (sender, receiver) = channel();
        let mut disks = self.disks(SLOW_DEADLINE);
        std::thread::spawn(move || {
            disks.inherit();
            let known = disks.known();
            let seen = disks.make(&known, &[]).map_or(Ok(false), |outcome| outcome.seen.map(|()| true));
            // Nobody may be waiting any more.
            let _ = sender.send(seen);
        });
        receiver
    }

    /// All of them again.
    fn free_disks(&self) -> Result<bool> {
        let mut disks = self.disks(DEADLINE);
        let freed = disks.make(&[], &[]).map_or(Ok(false), |outcome| outcome.seen.map(|()| true));
        disks.tidy(&self.control)?;
        freed
    }

    fn disks(&self, deadline: Duration) -> DisksActuator {
        DisksActuator::of_failsafe(&self.slice, &self.run, &self.systemctl, deadline)
    }

    /// CPU and memory of all of batch.
    fn give_back(&self) -> Result<()> {
        let mut squeezed = self.squeezed();
        squeezed.adopt();
        squeezed.make(Shares::default()).into_iter().try_for_each(|outcome| outcome.seen)?;
        squeezed.tidy(&self.control)
    }

    fn squeezed(&self) -> SqueezeActuator {
        SqueezeActuator::new(&self.slice, &self.run, &self.systemctl, DEADLINE)
    }

    /// Takes the caps away again, once the guard is back.
    ///
    /// # Errors
    /// systemd did not do it; the marker stays, so that the timer tries again.
    pub fn lift(&self) -> Result<bool> {
        let (freed, uncapped) = (self.free_disks(), self.uncap());
        Ok(freed? | uncapped?)
    }

    fn uncap(&self) -> Result<bool> {
        let marker = self.marker();
        let Ok(text) = std::fs::read(&marker) else { return Ok(false) };
        // `set-property` cannot say "as the unit file has it". So: back to what was there before, and then our run-time files
        // away, so that they do not hide a later change of the unit file. Not by a daemon-reload, which takes seconds on a
        // busy node, unless it is not known what was there before.
        let before = quota(&String::from_utf8_lossy(&text));
        if let Some(quota) = &before {
            self.set(quota)?;
        }
        gone(&self.control.join(format!("{}.d/50-CPUQuota.conf", self.unit())))?;
        if before.is_none() {
            self.systemctl(&["daemon-reload"], RELOAD_DEADLINE)?;
        }
        gone(&marker)?;
        Ok(true)
    }

    /// `given_back` = batch has what it had before the guard gave it less.
    fn cap(&self, given_back: bool) -> Result<bool> {
        if !self.slice.exists() {
            return Ok(false);
        }
        let has = now(&self.slice, "cpu.max").unwrap_or_default();
        let capped = quota(&has).as_ref() == Some(&self.cpu_quota);
        // Before the caps and only once: what is there afterwards is ours, also if systemd was slow and we were killed.
        let marked = self.mark(if given_back && !capped { &has } else { "" });
        if !capped {
            self.set(&self.cpu_quota)?;
        }
        marked?;
        Ok(!capped)
    }

    /// Writes down what was there before, unless that is known already.
    fn mark(&self, text: &str) -> Result<()> {
        let path = self.marker();
        let file = std::fs::OpenOptions::new().write(true).create_new(true).open(&path);
        match file.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes())) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                Err(error).with_context(|| format!("{}", path.display()))
            }
            _ => Ok(()),
        }
    }

    fn set(&self, quota: &str) -> Result<()> {
        self.systemctl(&["set-property", "--runtime", self.unit(), &format!("CPUQuota={quota}")], DEADLINE)
    }

    /// The slice, and every job in it: the guard may have frozen some of them only.
    fn thaw(&self) -> Result<bool> {
        let mut jobs = JobTable::new(&self.slice);
        jobs.look(true, &policy::JobSet::default());
        let mut freezer = SliceFreezer::remembering(&self.slice, &self.run);
        freezer.know(&jobs);
        // Also where nobody stands still: somebody may have been to end.
        freezer.ease(Ease::Nobody);
        if !freezer.asked().is_some_and(|hold| hold.any()) {
            return Ok(false);
        }
        match freezer.write(Hold::Nobody) {
            Ok(()) => Ok(true),
            Err(error) => bail!("{}: {error}", self.slice.display()),
        }
    }

    /// Limits of single jobs that the guard has left: nobody is there to give them more.
    fn free_jobs(&self) -> Result<()> {
        let mut io_max = IoMaxActuator::new(&self.slice, &self.run, &self.systemctl, DEADLINE);
        io_max.adopt();
        let outcomes = io_max.make(&[], &mut || false);
        outcomes.into_iter().try_for_each(|outcome| outcome.seen)
    }

    fn marker(&self) -> PathBuf {
        self.run.join(Self::CAPPED)
    }

    fn unit(&self) -> &str {
        actuators::unit(&self.slice)
    }

    fn systemctl(&self, arguments: &[&str], deadline: Duration) -> Result<()> {
        command::run(&self.systemctl, arguments, deadline).with_context(|| format!("systemctl {}", arguments.join(" ")))
    }
}

/// What systemd is told in order to get this `cpu.max` (kernel, cgroup-v2.rst); empty = no quota. `None` where it cannot be told just that.
fn quota(text: &str) -> Option<String> {
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        ["max", _] => Some(String::new()),
        [time, period] => percent(time, period),
        _ => None,
    }
}

pub(crate) fn percent(time: &str, period: &str) -> Option<String> {
    let (time, period) = (time.parse::<u32>().ok()?, period.parse::<u32>().ok().filter(|&p| p > 0)?);
    let hundredths = 10_000 * u64::from(time) / u64::from(period);
    let text = match hundredths % 100 {
        0 => format!("{}%", hundredths / 100),
        rest => format!("{}.{rest:02}%", hundredths / 100),
    };
    (hundredths > 0).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quota_before_is_said_in_systemd_s_words() {
        for (text, expected) in [
            ("max 100000\n", Some("")),
            ("150000 100000\n", Some("150%")),
            ("155555 100000\n", Some("155.55%")),
            // What systemd refuses, and what is cut off or of another version.
            ("18446744073709551615 1\n", None),
            ("10 0\n", None),
            ("50\n", None),
            ("cpu.weight 50\ncpu.max max 100000\n", None),
            ("set by beer-guard failsafe\n", None),
            ("", None),
        ] {
            assert_eq!(quota(text).as_deref(), expected, "{text:?}");
        }
    }
}

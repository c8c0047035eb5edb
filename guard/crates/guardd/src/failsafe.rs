// SPDX-License-Identifier: Apache-2.0
//! `beer-guard failsafe`: what happens when the guard is not there. Static caps on batch, and nothing frozen for
//! ever. It runs with all privileges, apart from the sandboxed guard, and needs neither its configuration to be
//! right nor its process to be alive.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};

use policy::Config;

use crate::actuators::{Freezer, SliceFreezer};
use crate::clock::Clock;
use crate::control::StateFile;
use crate::heartbeat;

/// systemctl must answer within this, or the thaw goes ahead without it.
const DEADLINE: Duration = Duration::from_secs(5);

/// Where things are.
#[derive(Clone, Debug)]
pub struct Failsafe {
    /// Folder of the cgroup of beer-jobs.slice.
    pub slice: PathBuf,
    /// `/run/beer/guard`.
    pub run: PathBuf,
    /// Where systemd keeps what `set-property --runtime` sets.
    pub control: PathBuf,
    /// `systemctl`.
    pub systemctl: PathBuf,
    /// For example `100%`: one core for all jobs together.
    pub cpu_quota: String,
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
    /// As configured, or where things normally are when there is no usable configuration.
    pub fn of(config: Option<&Config>, cpu_quota: &str) -> Self {
        let slice = "/sys/fs/cgroup/beer.slice/beer-jobs.slice";
        Failsafe {
            slice: config.map_or_else(|| slice.into(), |c| c.paths.cgroup.join(&c.paths.jobs_slice)),
            run: config.map_or_else(|| "/run/beer/guard".into(), |c| c.paths.run.clone()),
            control: "/run/systemd/system.control".into(),
            systemctl: "systemctl".into(),
            cpu_quota: cpu_quota.to_owned(),
        }
    }

    /// After the guard has ended (`ExecStopPost`): caps always; a thaw only when it was stopped on purpose, since
    /// otherwise it is back in a moment and takes over what it finds.
    ///
    /// # Errors
    /// Caps or thaw did not work; both were tried.
    pub fn after_exit(&self, on_purpose: bool) -> Result<Done> {
        let capped = self.cap();
        let thawed = if on_purpose { self.thaw() } else { Ok(false) };
        Ok(Done { capped: capped?, thawed: thawed?, lifted: false })
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
            Ok(Done { lifted: self.lift()?, ..Done::default() })
        }
    }

    /// Takes the caps away again, once the guard is back.
    ///
    /// # Errors
    /// systemd did not do it; the marker stays, so that the timer tries again.
    pub fn lift(&self) -> Result<bool> {
        let marker = self.marker();
        if !marker.exists() {
            return Ok(false);
        }
        // `set-property` cannot say "as the unit file has it". So: back to what was there before, and then our run-time files
        // away, so that they do not hide a later change of the unit file. No daemon-reload: it takes seconds on a busy node.
        let text = std::fs::read_to_string(&marker).with_context(|| format!("{}", marker.display()))?;
        let Caps { weight, quota } = Caps::parse(&text);
        self.set(&weight, &quota)?;
        for name in ["50-CPUWeight.conf", "50-CPUQuota.conf"] {
            let path = self.control.join(format!("{}.d", self.unit())).join(name);
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("{}", path.display()));
                }
                _ => {}
            }
        }
        std::fs::remove_file(&marker).with_context(|| format!("{}", marker.display()))?;
        Ok(true)
    }

    fn cap(&self) -> Result<bool> {
        if !self.slice.exists() || self.marker().exists() {
            return Ok(false);
        }
        let before = ["cpu.weight", "cpu.max"].map(|file| {
            let value = std::fs::read_to_string(self.slice.join(file)).unwrap_or_default();
            format!("{file} {}\n", value.trim())
        });
        self.set("1", &self.cpu_quota)?;
        std::fs::write(self.marker(), before.concat()).with_context(|| format!("{}", self.marker().display()))?;
        Ok(true)
    }

    fn set(&self, weight: &str, quota: &str) -> Result<()> {
        let (weight, quota) = (format!("CPUWeight={weight}"), format!("CPUQuota={quota}"));
        self.systemctl(&["set-property", "--runtime", self.unit(), &weight, &quota])
    }

    fn thaw(&self) -> Result<bool> {
        let mut freezer = SliceFreezer::new(&self.slice);
        if freezer.asked() != Some(true) {
            return Ok(false);
        }
        match freezer.write(false) {
            Ok(()) => Ok(true),
            Err(error) => bail!("{}: {error}", self.slice.display()),
        }
    }

    fn marker(&self) -> PathBuf {
        self.run.join("capped")
    }

    fn unit(&self) -> &str {
        self.slice.file_name().and_then(|name| name.to_str()).unwrap_or("beer-jobs.slice")
    }

    fn systemctl(&self, arguments: &[&str]) -> Result<()> {
        run(&self.systemctl, arguments).with_context(|| format!("systemctl {}", arguments.join(" ")))
    }
}

/// What systemd is told in order to get back the limits that the kernel had; empty = systemd's default.
#[derive(Debug, Default, PartialEq, Eq)]
struct Caps {
    weight: String,
    quota: String,
}

impl Caps {
    /// From lines of `cpu.weight` and `cpu.max` (kernel, cgroup-v2.rst). What cannot be understood is left to the default.
    fn parse(text: &str) -> Caps {
        let mut caps = Caps::default();
        for line in text.lines() {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["cpu.weight", weight] if weight.parse::<u32>().is_ok() => caps.weight = weight.to_owned(),
                ["cpu.max", time, period] => caps.quota = percent(time, period).unwrap_or_default(),
                _ => {}
            }
        }
        caps
    }
}

fn percent(time: &str, period: &str) -> Option<String> {
    let share = 100 * time.parse::<u64>().ok()? / period.parse::<u64>().ok().filter(|&p| p > 0)?;
    Some(format!("{}%", share.max(1)))
}

/// Runs a command that must end in time.
fn run(program: &Path, arguments: &[&str]) -> Result<()> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("{}", program.display()))?;
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return if status.success() { Ok(()) } else { bail!("{status}") };
        }
        if begun.elapsed() > DEADLINE {
            // Its end is not waited for: it may be stuck, and the thaw is not to be.
            let _ = child.kill();
            bail!("no answer within {} s", DEADLINE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_before_are_said_in_systemd_s_words() {
        for (text, weight, quota) in [
            ("cpu.weight 50\ncpu.max max 100000\n", "50", ""),
            ("cpu.weight 100\ncpu.max 150000 100000\n", "100", "150%"),
            ("cpu.max 10 0\ncpu.weight -1\n", "", ""),
            ("set by somebody\ncpu.weight \n", "", ""),
            ("", "", ""),
        ] {
            assert_eq!(Caps::parse(text), Caps { weight: weight.into(), quota: quota.into() }, "{text:?}");
        }
    }
}

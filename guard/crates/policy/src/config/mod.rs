// SPDX-License-Identifier: Apache-2.0
//! The guard's configuration (`/etc/beer/guard.toml`): text -> `RawConfig` -> [`Config`], in this one place.

mod check;
mod exec;
mod raw;
mod reload;
mod values;

pub use self::exec::{exec_places, source_names, Exec, EXEC_MOST};
use crate::gauge::GaugeObjective;
use crate::ladder::LadderConfig;
use crate::objective::Objective;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Everything an administrator may set, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `[node]`
    pub node: Node,
    /// `[paths]`
    pub paths: Paths,
    /// `[loop]`
    pub control_loop: Loop,
    /// `[signals.latency]`
    pub latency: LatencySignal,
    /// `[signals.disk]`
    pub disk: PeriodicSignal,
    /// `[signals.psi]`
    pub psi: PeriodicSignal,
    /// `[signals.network]`
    pub network: NetworkSignal,
    /// `[signals.probe]`
    pub probe: ProbeSignal,
    /// `[[objective]]`
    pub objectives: Vec<Objective>,
    /// `[[gauge]]`
    pub gauges: Vec<GaugeObjective>,
    /// `[[exec]]`
    pub exec: Vec<Exec>,
    /// `[ladder]`
    pub ladder: LadderConfig,
    /// `[capacity]`
    pub capacity: Capacity,
    /// `[metrics]`
    pub metrics: Metrics,
    /// `[journal]`
    pub journal: Journal,
}

/// `[node]`
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Name of the node; empty = its host name.
    pub name: String,
    /// Decide and say so, and touch nothing.
    pub dry_run: bool,
    /// Jobs keep their swap though some of it lies on a disk that storage serves from.
    pub swap_on_data_disks: bool,
    /// Share of its memory limit above which the kernel slows a job whose code is on a disk of storage; 1 = it does not.
    pub job_memory_high: f64,
}

/// `[paths]`
#[derive(Clone, Debug, PartialEq)]
pub struct Paths {
    /// Mount point of cgroup v2.
    pub cgroup: PathBuf,
    /// The slice of batch, relative to `cgroup`.
    pub batch_slice: PathBuf,
    /// The slice of the job containers, relative to `cgroup`.
    pub jobs_slice: PathBuf,
    /// The slice of the storage services, relative to `cgroup`.
    pub storage_slice: PathBuf,
    /// procfs.
    pub proc: PathBuf,
    /// sysfs.
    pub sys: PathBuf,
    /// State line and status.
    pub run: PathBuf,
    /// The shaping segment, which the storage daemons read.
    pub control: PathBuf,
    /// What outlives a restart.
    pub memory: PathBuf,
    /// What commands of the site's own have printed, a folder for each.
    pub exec: PathBuf,
    /// What beer-probe tells the guard.
    pub probe: PathBuf,
    /// Where the container engine has images and jobs.
    pub scratch: PathBuf,
}

/// The shipped period of the control loop: ticks are nearly all that a guard with nothing to do costs, and come sooner where
/// evidence grows. benchmarks/runs compares periods (`freeze-latency`).
pub const TICK_NS: u64 = 50_000_000;

/// `[loop]`
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// Period of the control loop.
    pub tick_ns: u64,
    /// Period of cgroup files, filesystem and client records, status.
    pub slow_ns: u64,
    /// Deadline of one action of the actuator thread.
    pub action_deadline_ns: u64,
}

/// `[signals.latency]`
#[derive(Clone, Debug, PartialEq)]
pub struct LatencySignal {
    /// The latency segment.
    pub segment: PathBuf,
    /// Name (or number) of the user who must own it.
    pub owner: String,
}

/// `[signals.disk]`, `[signals.psi]`
#[derive(Clone, Debug, PartialEq)]
pub struct PeriodicSignal {
    /// Read it at all?
    pub enabled: bool,
    /// Period.
    pub interval_ns: u64,
}

/// `[signals.network]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkSignal {
    /// The interface that storage clients come by; empty = that of the default route.
    pub interface: String,
    /// Its speed in bytes per second; `None` = as it says itself.
    pub speed: Option<u64>,
}

/// `[signals.probe]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeSignal {
    /// Are disks probed?
    pub enabled: bool,
    /// Between two probes of a filesystem.
    pub interval_ns: u64,
    /// What is opened and read as a client would, `root://...`; empty = nothing.
    pub root: String,
}

/// `[capacity]`
#[derive(Clone, Debug, PartialEq)]
pub struct Capacity {
    /// Most cores offered; `None` = what the slice allows.
    pub cores: Option<u32>,
    /// Most memory offered; `None` = what the slice allows.
    pub memory_bytes: Option<u64>,
    /// Memory of the slice that is not offered (page cache and overhead of the containers).
    pub memory_reserve_bytes: u64,
}

/// `[metrics]`
#[derive(Clone, Debug, PartialEq)]
pub struct Metrics {
    /// Where `/metrics` listens; `None` = nowhere.
    pub listen: Option<SocketAddr>,
}

/// `[journal]`
#[derive(Clone, Debug, PartialEq)]
pub struct Journal {
    /// The folder.
    pub folder: PathBuf,
    /// A file is closed at this size.
    pub file_bytes: u64,
    /// Oldest files are removed when all of them exceed this.
    pub total_bytes: u64,
}

/// A configuration that cannot be used: where, and what was allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {path}{}{message}", if path.is_empty() { "" } else { ": " })]
pub struct ConfigError {
    /// Name of the file.
    pub file: String,
    /// Path of the key, for example `objective[1].threshold`.
    pub path: String,
    /// What is wrong, and what was allowed.
    pub message: String,
}

impl Config {
    /// Reads a configuration. `file` is only for error messages.
    ///
    /// # Errors
    /// The first thing wrong with it.
    pub fn parse(file: &str, text: &str) -> Result<Config, ConfigError> {
        let error = |path: String, message: String| ConfigError { file: file.into(), path, message };
        let raw: raw::RawConfig = serde_path_to_error::deserialize(toml::Deserializer::new(text)).map_err(|e| {
            let path = match e.path().to_string() {
                root if root == "." => String::new(),
                path => path,
            };
            error(path, explain(e.inner(), text))
        })?;
        check::check(raw).map_err(|(path, message)| error(path, message))
    }

    /// The text of `/etc/beer/guard.toml` as shipped: every key, documented, at its default.
    pub fn example() -> &'static str {
        include_str!("../../guard.toml")
    }
}

impl Default for Config {
    /// As an empty file.
    fn default() -> Config {
        // The defaults are constants that pass the checks: shown by the test `the_example_is_the_defaults`.
        match check::check(raw::RawConfig::default()) {
            Ok(config) => config,
            Err(fault) => unreachable!("the default of {} is invalid: {}", fault.0, fault.1),
        }
    }
}

/// What serde and toml say, in the words of an administrator, with the line where there is one.
fn explain(error: &toml::de::Error, text: &str) -> String {
    let message = error
        .message()
        .replace("unknown field", "unknown key")
        .replace("missing field", "missing key")
        .replace("unknown variant", "unknown value")
        .replace(", expected one of", "; allowed:")
        .replace(", expected", "; allowed:")
        .replace('\n', ", ");
    match error.span() {
        Some(span) => format!("{} (line {})", message.trim_end(), text[..span.start].matches('\n').count() + 1),
        None => message,
    }
}

#[cfg(test)]
mod tests;

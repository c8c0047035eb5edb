// SPDX-License-Identifier: Apache-2.0
//! `beer-guard check-config`: is the configuration right, and (`--live`) is the node as it says?

use std::path::Path;

use anyhow::Result;
use intf::segment::SegmentReader;
use policy::{Config, ConfigError};

use crate::clock::Clock;
use crate::shared::Owner;

/// Requests per second of the series that delays are stated for.
const STATED_RATE: f64 = 300.0;

/// Reads the configuration.
///
/// # Errors
/// One line that names file and key.
pub fn load(path: &Path) -> Result<Config> {
    let file = path.display().to_string();
    let unreadable =
        |error: std::io::Error| ConfigError { file: file.clone(), path: String::new(), message: error.to_string() };
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    Ok(Config::parse(&file, &text)?)
}

/// What may be expected of each objective's detector, as the policy states it.
pub fn stated(config: &Config) -> Vec<String> {
    let line = |objective: &policy::Objective| {
        let stated = policy::detector::stated(objective, 1);
        let ms = |requests: f64| requests / STATED_RATE * 1e3;
        format!(
            "objective {}: {:.2} false precautions and {:.4} false freezes in 10^6 healthy requests (as long as its dependence is at most 8); a step \
             to 3 times the latency is found after {:.0} requests (99 %: {:.0}), at {STATED_RATE}/s that is {:.0} ms \
             (99 %: {:.0} ms)",
            objective.name,
            stated.weak_per_million,
            stated.strong_per_million,
            stated.requests_3x_p50,
            stated.requests_3x_p99,
            ms(stated.requests_3x_p50),
            ms(stated.requests_3x_p99),
        )
    };
    config.objectives.iter().map(line).collect()
}

/// Everything on the node that is not as the guard needs it, one line each. Changes nothing.
pub fn live(config: &Config, clock: &dyn Clock) -> Vec<String> {
    let mut faults = Vec::new();
    let slice = config.paths.cgroup.join(&config.paths.jobs_slice);
    for (what, path) in [("cgroup.freeze", slice.join("cgroup.freeze")), ("cgroup.events", slice.join("cgroup.events"))]
    {
        if !slice.exists() {
            faults.push(format!("{}: no such slice (paths.jobs_slice)", slice.display()));
            break;
        }
        if let Err(error) = std::fs::File::open(&path) {
            faults.push(format!("{}: {what} cannot be read: {error}", path.display()));
        }
    }
    let owner = Owner::new(&config.latency.owner);
    match owner.resolve(Path::new("/etc/passwd")) {
        None => faults.push(format!(
            "{}: signals.latency.owner: there is no user `{}`",
            config.latency.segment.display(),
            owner.name()
        )),
        Some(id) => {
            let mut reader = SegmentReader::new(&config.latency.segment, id);
            if let Err(error) = reader.poll(clock.monotonic_ns(), &mut ()) {
                faults.push(error.to_string());
            }
        }
    }
    for folder in [&config.paths.run, &config.paths.memory, &config.journal.folder] {
        if !folder.is_dir() {
            faults.push(format!("{}: no such folder", folder.display()));
        }
    }
    faults
}

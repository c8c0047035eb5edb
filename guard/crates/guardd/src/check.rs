// SPDX-License-Identifier: Apache-2.0
//! `beer-guard check-config`: is the configuration right, and (`--live`) is the node as it says?

use std::path::{Path, PathBuf};

use anyhow::Result;
use intf::exec::Readings;
use intf::segment::{Class, Reason, SegmentReader};
use intf::units::Duration;
use policy::detector::stated_rate;
use policy::{Config, ConfigError, Exec, GaugeObjective, Resource, Then};

use crate::clock::Clock;
use crate::shared::Owner;

/// Who limits the network of batch when the guard asks for it.
const NETWORK_RULES: &str = "/usr/libexec/beer/beer-network";
/// Who was alive so long ago is.
const FRESH_NS: u64 = 2_000_000_000;

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

/// What may be expected of each objective: of its detector, where one of so many disks becomes `step` times slower, and of its error budget.
pub fn stated(config: &Config, disks: usize, step: f64) -> Vec<String> {
    let line = |objective: &policy::Objective| {
        let disks = if objective.filesystem.contains('*') { disks } else { 1 };
        let whose = if disks == 1 { String::new() } else { format!(" of one of {disks} disks") };
        let stated = policy::detector::stated(objective, disks, step, config.control_loop.tick_ns);
        let rate = stated_rate(objective);
        let ms = |requests: f64| requests / rate * 1e3;
        format!(
            "objective {}: {:.2} false precautions and {:.1e} false freezes in 10^6 healthy requests (as long as its dependence is at most 8); a step \
             to {step} times the latency{whose} is suspected after {:.0} requests (99 %: {:.0}) and found after {:.0} requests \
             (99 %: {:.0}), at {rate}/s that is {:.0} ms (99 %: {:.0} ms) and {:.0} ms (99 %: {:.0} ms)",
            objective.name,
            stated.weak_per_million,
            stated.strong_per_million,
            stated.weak_p50,
            stated.weak_p99,
            stated.strong_p50,
            stated.strong_p99,
            ms(stated.weak_p50),
            ms(stated.weak_p99),
            ms(stated.strong_p50),
            ms(stated.strong_p99),
        )
    };
    config.objectives.iter().flat_map(|objective| [line(objective), closes(objective)]).collect()
}

/// Excesses of the allowed share that are stated, in times.
const EXCESSES: [f64; 3] = [2.0, 6.0, 15.0];

/// When a steady excess closes the node to new jobs, as the policy states it: by the slack of the last minute, and by the error budget.
fn closes(objective: &policy::Objective) -> String {
    let rate = stated_rate(objective);
    let stated = EXCESSES.map(|factor| policy::error_budget::stated(objective, rate, factor));
    let list = |within: &dyn Fn(&policy::error_budget::Stated) -> Option<f64>| {
        stated.each_ref().map(|stated| format!("{}x {}", stated.factor, time(within(stated)))).join(", ")
    };
    let budget = match objective.budget_window_ns {
        None => "it has no error budget".into(),
        Some(ns) => {
            format!("its error budget of {}, which closes it for longer: {}", Duration(ns), list(&|s| s.budget_s))
        }
    };
    format!(
        "objective {}: after so long (99 %) a steady excess of the allowed share closes the node to new jobs, at {rate}/s: {}; {budget}",
        objective.name,
        list(&|s| s.slack_s),
    )
}

/// In a unit that fits; `None` = it may never come to that.
fn time(seconds: Option<f64>) -> String {
    match seconds {
        None => "never".into(),
        Some(s) if s < 120.0 => format!("{s:.0} s"),
        Some(s) if s < 7200.0 => format!("{:.0} min", s / 60.0),
        Some(s) => format!("{:.1} h", s / 3600.0),
    }
}

/// Everything on the node that is not as the guard needs it, one line each. Changes nothing.
pub fn live(config: &Config, clock: &dyn Clock) -> Vec<String> {
    let mut faults = Vec::new();
    let slice = config.paths.cgroup.join(&config.paths.jobs_slice);
    if slice.exists() {
        let unread = |name| Some((name, std::fs::metadata(slice.join(name)).err()?));
        let unread =
            ["cgroup.freeze", "cgroup.events", "cgroup.kill", "io.stat", "io.max"].into_iter().filter_map(unread);
        faults.extend(unread.map(|(name, error)| format!("{}: {error}", slice.join(name).display())));
    } else {
        faults.push(format!("{}: no such slice (paths.jobs_slice)", slice.display()));
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
            faults.extend(unwatched(config, id, clock));
        }
    }
    faults.extend(unprobed(config, clock));
    faults.extend(unlimited(config));
    faults.extend(config.exec.iter().filter_map(|exec| unread(config, exec, clock)));
    for folder in [&config.paths.run, &config.paths.memory, &config.journal.folder] {
        if !folder.is_dir() {
            faults.push(format!("{}: no such folder", folder.display()));
        }
    }
    faults
}

/// Storage daemons that are at work beside the one that is watched.
fn unwatched(config: &Config, owner: u32, clock: &dyn Clock) -> Vec<String> {
    let watched = &config.latency.segment;
    let folder = watched.parent().and_then(|folder| std::fs::read_dir(folder).ok());
    let others = folder.into_iter().flatten().flatten().map(|entry| entry.path());
    let others = others.filter(|path| path != watched && path.extension() == watched.extension());
    let works = |path: &PathBuf| {
        let mut reader = SegmentReader::new(path, owner);
        reader.poll(clock.monotonic_ns(), &mut ()).is_ok_and(|poll| poll.heartbeat_age_ns <= FRESH_NS)
    };
    let fault = |path: PathBuf| format!("{}: not watched, since signals.latency.segment names another", path.display());
    others.filter(works).map(fault).collect()
}

/// Why nothing is known where clients read too little, if it is to be known.
fn unprobed(config: &Config, clock: &dyn Clock) -> Option<String> {
    let judged = config.probe.enabled && config.objectives.iter().any(|objective| objective.class == Class::Probe);
    // Who must own it was said before.
    let owner = Owner::new(&config.latency.owner).resolve(Path::new("/etc/passwd")).filter(|_| judged)?;
    let mut reader = SegmentReader::new(&config.paths.probe.join(crate::probe::SEGMENT), owner);
    let fault = match reader.poll(clock.monotonic_ns(), &mut ()) {
        Ok(poll) if poll.heartbeat_age_ns <= FRESH_NS => return None,
        Ok(_) => format!("{}: its heartbeat is old", reader.path().display()),
        Err(error) if error.reason == Reason::NotFound => format!("{}: beer-probe does not run", error.path.display()),
        Err(error) => error.to_string(),
    };
    Some(format!("{fault} (systemctl status beer-probe)"))
}

/// Why the network of batch could not be limited, if it is to be when storage is short of it.
fn unlimited(config: &Config) -> Option<String> {
    let limits = |gauge: &GaugeObjective| gauge.then == Then::Throttle(Resource::Network);
    let gauge = config.gauges.iter().find(|gauge| limits(gauge))?;
    let fault = if crate::watch::network::speed(config).is_none() {
        "the storage interface does not say how fast it is: signals.network.speed"
    } else if !Path::new(NETWORK_RULES).exists() {
        "nobody there to do it: install beer-slices"
    } else {
        return None;
    };
    Some(format!("gauge {}: throttle-network: {fault}", gauge.name))
}

/// Why there are no readings of a command of the site's own.
fn unread(config: &Config, exec: &Exec, clock: &dyn Clock) -> Option<String> {
    let path = crate::exec::readings_of(config, exec);
    let hint = format!("systemctl status beer-exec@{}", exec.name);
    let readings = match Readings::load(&path, || clock.monotonic_ns()) {
        Ok(readings) => readings,
        Err(fault) => return Some(format!("{}: {fault} ({hint})", path.display())),
    };
    let now_ns = clock.monotonic_ns();
    let due_ns = exec.interval_ns + exec.timeout_ns + 2_000_000_000;
    let fresh =
        |key: &&String| readings.values.get(*key).is_some_and(|printed| now_ns.saturating_sub(printed.at_ns) <= due_ns);
    let old = exec.metrics.iter().find(|key| !fresh(key))?;
    Some(format!("{}: `{old}` was not printed for {} ({hint})", path.display(), Duration(due_ns)))
}

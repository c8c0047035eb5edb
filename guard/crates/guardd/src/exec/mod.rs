// SPDX-License-Identifier: Apache-2.0
//! `beer-guard run-exec NAME`: runs a command of the site's own again and again and writes what it prints to where the guard reads
//! it ([`crate::watch`]). A service of its own (beer-exec@.service), as a user of its own: none of this is in the guard's process.

mod child;
mod printed;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use intf::exec::{Printed, Readings, READINGS};
use policy::{Config, ConfigError, Exec};

use crate::clock::Clock;
use crate::notify::Notifier;
use child::Failure;

pub(crate) use child::output;

/// A stop of the service waits for one.
const LOOK: Duration = Duration::from_millis(200);

/// The entry of this name. `file` is only for the error.
///
/// # Errors
/// There is none.
pub fn find<'a>(config: &'a Config, file: &Path, name: &str) -> Result<&'a Exec, ConfigError> {
    config.exec.iter().find(|exec| exec.name == name).ok_or_else(|| {
        let names: Vec<&str> = config.exec.iter().map(|exec| exec.name.as_str()).collect();
        let message = format!("none is named `{name}`; there are: {}", names.join(", "));
        ConfigError { file: file.display().to_string(), path: "exec".into(), message }
    })
}

/// Where the readings of this command are.
pub fn readings_of(config: &Config, exec: &Exec) -> PathBuf {
    config.paths.exec.join(&exec.name).join(READINGS)
}

/// Until the flag is up. The service has started when the command has ended for the first time: what it printed is there for whoever
/// waited for the start.
///
/// # Errors
/// The readings cannot be written, or a command could not be killed.
pub fn run(config: &Config, exec: &Exec, clock: &dyn Clock, shutdown: &AtomicBool) -> Result<()> {
    let notifier = Notifier::from_environment();
    let path = readings_of(config, exec);
    let mut readings = Readings::default();
    let mut said = String::new();
    while !shutdown.load(Ordering::Relaxed) {
        let begun_ns = clock.monotonic_ns();
        let problem = match output(&exec.command, Duration::from_nanos(exec.timeout_ns), shutdown) {
            Ok(text) => take(exec, &text, begun_ns, &mut readings),
            Err(Failure::Stopped) => break,
            Err(stuck @ Failure::Stuck) => return Err(stuck.into()),
            Err(failure) => failure.to_string(),
        };
        if problem != said && !problem.is_empty() {
            eprintln!("<4>exec {}: {problem}", exec.name);
        }
        said = problem;
        write(&path, &readings)?;
        notifier.ready();
        let next_ns = begun_ns.saturating_add(exec.interval_ns);
        while clock.monotonic_ns() < next_ns && !shutdown.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK.min(Duration::from_nanos(next_ns.saturating_sub(clock.monotonic_ns()))));
        }
    }
    Ok(())
}

/// What was printed replaces what was there; the rest grows old. Returns what is wrong; empty = nothing.
fn take(exec: &Exec, text: &[u8], at_ns: u64, readings: &mut Readings) -> String {
    match printed::values(text, &exec.metrics) {
        Err(fault) => fault.to_string(),
        Ok(values) => {
            for (key, value) in values {
                readings.values.insert(key.to_owned(), Printed { value, at_ns });
            }
            let old = |key: &&String| readings.values.get(*key).is_none_or(|printed| printed.at_ns != at_ns);
            let old: Vec<&str> = exec.metrics.iter().filter(old).map(String::as_str).collect();
            match old[..] {
                [] => String::new(),
                _ => format!("it did not print {}", old.join(", ")),
            }
        }
    }
}

/// Whoever reads sees the old file or the new one.
pub(crate) fn write(path: &Path, readings: &Readings) -> Result<()> {
    let new = path.with_extension("new");
    let text = serde_json::to_vec(readings)?;
    std::fs::write(&new, text).with_context(|| format!("{}: cannot be written", new.display()))?;
    std::fs::rename(&new, path).with_context(|| format!("{}: cannot be written", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_printed_keeps_its_time_and_is_named() {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
        let (command, metrics) = (words(&["/bin/true"]), words(&["a", "b"]));
        let exec = Exec { name: "x".into(), command, interval_ns: 1, timeout_ns: 1, metrics };
        let mut readings = Readings::default();
        assert_eq!(take(&exec, b"{\"a\":1,\"b\":2}\n", 5, &mut readings), "");
        assert_eq!(take(&exec, b"{\"a\":3}\n", 6, &mut readings), "it did not print b");
        let before = readings.clone();
        assert_eq!(take(&exec, b"{\"a\":4}\n[]\n", 7, &mut readings), "line 2 is no JSON object");
        assert_eq!(readings, before, "not the good line either");
        assert_eq!(readings.values["a"], Printed { value: 3.0, at_ns: 6 });
        assert_eq!(readings.values["b"], Printed { value: 2.0, at_ns: 5 });
    }
}

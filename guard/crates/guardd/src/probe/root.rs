// SPDX-License-Identifier: Apache-2.0
//! From end to end: opens and reads a file as a client would, with a client's program. Whatever is wrong with it is no reading, and
//! the gauge on it becomes stale.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use anyhow::{Context, Result};
use intf::exec::{Printed, Readings, READINGS};
use policy::gauge::{PROBE_ROOT, PROBE_ROOT_NS};
use policy::Config;

use crate::clock::Clock;
use crate::exec::{output, write};

/// Found in PATH.
const CLIENT: &str = "xrdcp";
/// A stop of the service waits for one.
const LOOK: Duration = Duration::from_millis(200);

/// Where its readings are.
pub fn readings_of(config: &Config) -> PathBuf {
    config.paths.probe.join(READINGS)
}

/// A thread of its own, if there is a file to be read.
pub fn start(config: &Config, clock: Arc<dyn Clock>, shutdown: &Arc<AtomicBool>) -> Result<()> {
    if config.probe.root.is_empty() {
        return Ok(());
    }
    let command: Vec<String> =
        [CLIENT, "--silent", "--force", &config.probe.root, "/dev/null"].map(str::to_owned).into();
    let (path, stop) = (readings_of(config), Arc::clone(shutdown));
    Builder::new().name("root".into()).spawn(move || run(&command, &path, &*clock, &stop)).context("root thread")?;
    Ok(())
}

fn run(command: &[String], path: &std::path::Path, clock: &dyn Clock, shutdown: &AtomicBool) {
    let mut said = String::new();
    while !shutdown.load(Ordering::Relaxed) {
        let begun_ns = clock.monotonic_ns();
        let problem = match output(command, Duration::from_nanos(PROBE_ROOT_NS), shutdown) {
            Ok(_) => {
                let value = clock.monotonic_ns().saturating_sub(begun_ns) as f64 / 1e9;
                let values = [(PROBE_ROOT.to_owned(), Printed { value, at_ns: begun_ns })].into();
                write(path, &Readings { values }).err().map_or_else(String::new, |error| format!("{error:#}"))
            }
            Err(failure) => failure.to_string(),
        };
        if problem != said && !problem.is_empty() && !shutdown.load(Ordering::Relaxed) {
            eprintln!("<4>signals.probe.root: {CLIENT}: {problem}");
        }
        said = problem;
        let next_ns = begun_ns.saturating_add(PROBE_ROOT_NS);
        while clock.monotonic_ns() < next_ns && !shutdown.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK.min(Duration::from_nanos(next_ns.saturating_sub(clock.monotonic_ns()))));
        }
    }
}

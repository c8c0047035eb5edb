// SPDX-License-Identifier: Apache-2.0
//! How long it takes to open and read a file as a client would, as beer-probe.service wrote it down. A file that is gone or wrong
//! leaves the reading as it was, to become stale.

use std::path::PathBuf;
use std::sync::Arc;

use intf::exec::Readings;
use policy::gauge::PROBE_ROOT;
use policy::Config;

use super::Source;
use crate::clock::Clock;
use crate::shared::Shared;

/// The source.
pub struct Root {
    /// `None` = nothing is read so.
    path: Option<PathBuf>,
    clock: Arc<dyn Clock>,
}

impl Root {
    /// Opens nothing yet.
    pub fn new(config: &Config, clock: Arc<dyn Clock>) -> Self {
        let wanted = !config.probe.root.is_empty();
        Root { path: wanted.then(|| crate::probe::readings_of(config)), clock }
    }
}

impl Source for Root {
    fn read(&mut self, now_ns: u64, shared: &Shared) {
        let Some(path) = &self.path else { return shared.gauges.put(PROBE_ROOT, None, now_ns) };
        let readings = match Readings::load(path, || self.clock.monotonic_ns()) {
            Ok(readings) => readings,
            Err(fault) => return shared.gauges.fail(PROBE_ROOT, format_args!("{}: {fault}", path.display())),
        };
        match readings.values.get(PROBE_ROOT) {
            Some(printed) => shared.gauges.put(PROBE_ROOT, Some(printed.value), printed.at_ns),
            None => shared.gauges.fail(PROBE_ROOT, format_args!("{}: no `{PROBE_ROOT}` there", path.display())),
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! The publisher thread: `/metrics` and `status.json`, from the control loop's last view. It touches no disk but
//! /run, so a stuck journal leaves both alive.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use intf::journal::Job;
use intf::status::{
    FilesystemStatus, GaugeStatus, JobStatus, LimitStatus, LoopStatus, ObjectiveStatus, PrecautionStatus, SignalStatus,
    Status,
};
use kernfs::process::ProcessMemory;
use policy::bits::contains;
use policy::{Config, GaugeState, Level, SignalState};

use crate::clock::Clock;
use crate::metrics::names;
use crate::metrics::render::Renderer;
use crate::metrics::server::Server;
use crate::shared::{lock, Shared, Snapshot};
use crate::signals::{Label, Reading};

/// The publisher.
pub struct Publisher {
    renderer: Renderer,
    listen: Option<SocketAddr>,
    server: Option<Server>,
    /// The address could not be had, and that was said.
    told: bool,
    status: StatusFile,
    shared: Arc<Shared>,
}

impl Publisher {
    /// Does not listen yet.
    pub fn new(config: &Config, shared: &Arc<Shared>, clock: &Arc<dyn Clock>, locked: bool) -> Self {
        Publisher {
            listen: config.metrics.listen,
            server: None,
            told: false,
            renderer: Renderer::new(config, Arc::clone(shared), Arc::clone(clock), locked),
            status: StatusFile::new(config, shared, clock),
            shared: Arc::clone(shared),
        }
    }

    /// Until the flag is up.
    pub fn run(&mut self, shutdown: &AtomicBool) {
        let period = Duration::from_secs(1);
        while !shutdown.load(Ordering::Relaxed) {
            // Without it `beer status` says how old the file is; there is nobody else to tell.
            let _ = self.status.write(&look(&self.shared));
            self.listen();
            let mut page = || self.renderer.render(&look(&self.shared));
            match &mut self.server {
                Some(server) => server.serve(period, &mut page),
                None => std::thread::sleep(period),
            }
        }
    }

    /// A node without metrics is still to be guarded: an address that is taken is said once and tried again.
    fn listen(&mut self) {
        let Some(address) = self.listen.filter(|_| self.server.is_none()) else { return };
        match Server::listen(address) {
            Ok(server) => self.server = Some(server),
            Err(error) if !self.told => {
                self.told = true;
                eprintln!("<4>{error:#}; metrics are tried again until it is free");
            }
            Err(_) => {}
        }
    }
}

/// The control loop's last view.
fn look(shared: &Shared) -> Snapshot {
    lock(&shared.snapshot).clone()
}

/// `status.json`.
struct StatusFile {
    path: PathBuf,
    node: String,
    dry_run: bool,
    started_ns: u64,
    memory: ProcessMemory,
    /// Names of all that gauges may watch, by place.
    sources: Vec<String>,
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
}

impl StatusFile {
    fn new(config: &Config, shared: &Arc<Shared>, clock: &Arc<dyn Clock>) -> Self {
        let host = || rustix::system::uname().nodename().to_string_lossy().into_owned();
        StatusFile {
            path: config.paths.run.join("status.json"),
            node: Some(config.node.name.clone()).filter(|name| !name.is_empty()).unwrap_or_else(host),
            dry_run: config.node.dry_run,
            started_ns: clock.realtime_ns(),
            memory: ProcessMemory::of_self(&config.paths.proc),
            sources: policy::source_names(&config.exec).collect(),
            shared: Arc::clone(shared),
            clock: Arc::clone(clock),
        }
    }

    fn write(&mut self, view: &Snapshot) -> Result<()> {
        if view.at_ns == 0 {
            return Ok(());
        }
        let text = serde_json::to_vec(&self.status(view)).context("status")?;
        let new = self.path.with_extension("json.new");
        std::fs::write(&new, text).with_context(|| format!("{}", new.display()))?;
        std::fs::rename(&new, &self.path).with_context(|| format!("{}", self.path.display()))
    }

    fn status(&mut self, view: &Snapshot) -> Status {
        let now_ns = self.clock.monotonic_ns();
        let counters = &view.counters;
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            node: self.node.clone(),
            pid: std::process::id(),
            time_ns: self.clock.realtime_ns(),
            started_ns: self.started_ns,
            state: view.state,
            precaution: view.precaution,
            state_ns: now_ns.saturating_sub(counters.since_ns),
            admit: view.admit,
            reason: view.reason.name().into(),
            cores: view.cores,
            memory_mb: view.memory_mb,
            jobs: view.jobs.unwrap_or_default(),
            squeezed: view.shares.less().map(|(of, share)| (of.name().to_owned(), f64::from(share))).collect(),
            together: view.together.iter().map(LimitStatus::from).collect(),
            each_job: self.jobs(view),
            dry_run: self.dry_run,
            configuration_error: lock(&self.shared.reloaded).error.clone(),
            objectives: self.objectives(view),
            gauges: self.gauges(view, now_ns),
            signals: self.signals(view, now_ns),
            filesystems: self.filesystems(view),
            stuck_threads: lock(&self.shared.stuck).clone(),
            precautions: PrecautionStatus {
                count: counters.precautions,
                needless: counters.needless,
                needless_share: counters.needless_share,
                suspended: counters.weak_suspended,
            },
            control_loop: LoopStatus {
                ticks: view.times.ticks,
                late: view.times.late,
                mean_ns: view.times.mean_ns(),
                max_ns: view.times.max_ns(),
                rss_bytes: self.memory.resident_bytes().ok().flatten().unwrap_or_default(),
            },
            last: lock(&self.shared.recent).last().cloned(),
        }
    }

    fn jobs(&self, view: &Snapshot) -> Vec<JobStatus> {
        let limits = |scope: &str| {
            let own = view.limits.iter().filter(|limit| *limit.scope == *scope);
            own.map(LimitStatus::from).collect()
        };
        let status = |(place, job): &(usize, Job)| JobStatus {
            held: view.hold.touches(*place),
            leaves: view.leave.touches(*place),
            limits: limits(&job.scope),
            job: job.clone(),
        };
        lock(&self.shared.jobs).iter().map(status).collect()
    }

    fn objectives(&self, view: &Snapshot) -> Vec<ObjectiveStatus> {
        let names = lock(&self.shared.names);
        let name = |index: u16| names.objectives.get(usize::from(index)).cloned().unwrap_or_default();
        let status = |verdict: &policy::Verdict| ObjectiveStatus {
            name: name(verdict.objective),
            level: match verdict.level {
                Level::Calm => "calm",
                Level::Weak => "weak",
                Level::Strong => "strong",
            }
            .into(),
            signal: match verdict.signal {
                SignalState::Fresh => "fresh",
                SignalState::Stale => "stale",
                SignalState::Missing => "missing",
                SignalState::Absent => "absent",
            }
            .into(),
            slack: verdict.slack,
            budget_left: verdict.budget_left,
            burn_rate: verdict.burning.map(|measure| measure.value),
            dependence: verdict.dependence,
            rate: verdict.rate,
            worst: verdict.worst.map(|series| intf::journal::Evidence {
                objective: name(verdict.objective),
                series: names.series(series),
                value: verdict.measure.value,
                limit: verdict.measure.limit,
                unit: verdict.measure.unit.name().into(),
            }),
        };
        view.verdicts.iter().map(status).collect()
    }

    fn gauges(&self, view: &Snapshot, now_ns: u64) -> Vec<GaugeStatus> {
        let names = lock(&self.shared.names);
        let status = |(name, verdict): (&String, &policy::GaugeVerdict)| GaugeStatus {
            name: name.clone(),
            state: match verdict.state {
                GaugeState::Kept => "kept",
                GaugeState::Broken => "broken",
                GaugeState::Stale => "stale",
                GaugeState::Absent => "absent",
            }
            .into(),
            value: verdict.measure.value,
            limit: verdict.measure.limit,
            state_ns: now_ns.saturating_sub(verdict.since_ns),
            age_ns: (verdict.read_ns > 0).then(|| now_ns.saturating_sub(verdict.read_ns)),
            error: match verdict.state {
                GaugeState::Stale => self.shared.gauges.fault(verdict.source).unwrap_or_default(),
                GaugeState::Kept | GaugeState::Broken | GaugeState::Absent => String::new(),
            },
        };
        names.gauges.iter().zip(&view.gauges).map(status).collect()
    }

    fn signals(&self, view: &Snapshot, now_ns: u64) -> Vec<SignalStatus> {
        let faults = lock(&self.shared.faults);
        let fault = |name| faults.iter().find(|(known, _)| *known == name).map(|(_, fault)| fault.clone());
        let status = |health: &crate::shared::SignalHealth| SignalStatus {
            name: health.name.into(),
            ok: health.reading == Reading::Value,
            error: fault(health.name).unwrap_or_default(),
            age_ns: if health.value_ns == 0 { u64::MAX } else { now_ns.saturating_sub(health.value_ns) },
        };
        // Of what gauges may watch only that which is broken: what is usual of it is in the metrics.
        let broken = |(place, error, at_ns): (usize, String, Option<u64>)| SignalStatus {
            name: self.sources.get(place).cloned().unwrap_or_default(),
            ok: false,
            error,
            age_ns: at_ns.map_or(u64::MAX, |at_ns| now_ns.saturating_sub(at_ns)),
        };
        view.signals.iter().map(status).chain(self.shared.gauges.broken().into_iter().map(broken)).collect()
    }

    fn filesystems(&self, view: &Snapshot) -> Vec<FilesystemStatus> {
        let known = Arc::clone(&lock(&self.shared.names));
        let mut readers = vec![0; view.loads.len()];
        let mut writers = readers.clone();
        for sample in &view.samples {
            let Label::Filesystem(index) = sample.label else { continue };
            let open = match sample.metric {
                metric if std::ptr::eq(metric, &names::OPEN_READERS) => &mut readers,
                metric if std::ptr::eq(metric, &names::OPEN_WRITERS) => &mut writers,
                _ => continue,
            };
            if let Some(open) = open.get_mut(usize::from(index)) {
                *open = sample.value as u32;
            }
        }
        let status = |(index, load): (usize, &policy::FilesystemLoad)| FilesystemStatus {
            path: known.filesystems.get(index).cloned().unwrap_or_default(),
            device: device(view.disks.get(index)),
            quarantined: contains(view.quarantined, index),
            filled: contains(view.filled, index),
            disk_gone: contains(view.gone, index),
            oldest_ns: load.oldest_ns,
            storage_in_flight: load.storage_in_flight,
            batch_in_flight: load.batch_in_flight,
            batch_share: view.batch_share.get(index).filter(|s| s.is_finite()).map(|share| f64::from(*share)),
            open_readers: readers[index],
            open_writers: writers[index],
        };
        view.loads.iter().enumerate().map(status).collect()
    }
}

fn device(known: Option<&(u32, u32)>) -> String {
    known.filter(|(major, _)| *major != 0).map_or_else(String::new, |(major, minor)| format!("{major}:{minor}"))
}

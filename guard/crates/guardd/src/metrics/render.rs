// SPDX-License-Identifier: Apache-2.0
//! A view of the node as text. Nothing here is kept between two scrapes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use intf::journal::Outcome;
use intf::segment::{Class, Op, SeriesId};
use intf::state::NodeState;
use kernfs::process::ProcessMemory;
use policy::bits::contains;
use policy::event::Unit;
use policy::gauge::{Reading as GaugeReading, SOURCES};
use policy::{source_names, Config, GaugeState, Level, Names, Resource, SignalState};

use super::per_job::PerJob;
use super::slices::Slices;
use super::text::Exposition;
use super::{names, Metric};
use crate::clock::Clock;
use crate::shared::{lock, Shared, Snapshot};
use crate::signals::{Label, Reading, BOUNDS};

/// Makes the text.
pub struct Renderer {
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    slices: Slices,
    per_job: PerJob,
    memory: ProcessMemory,
    /// Names of all that gauges may watch, by place.
    sources: Vec<String>,
    locked: bool,
    dry_run: bool,
}

impl Renderer {
    /// For this node; `locked` = the guard's memory is.
    pub fn new(config: &Config, shared: Arc<Shared>, clock: Arc<dyn Clock>, locked: bool) -> Self {
        let memory = ProcessMemory::of_self(&config.paths.proc);
        let dry_run = config.node.dry_run;
        let (slices, per_job) = (Slices::new(config), PerJob::new(config));
        let sources = source_names(&config.exec).collect();
        Renderer { slices, per_job, shared, clock, memory, sources, locked, dry_run }
    }

    /// The whole page.
    pub fn render(&mut self, view: &Snapshot) -> String {
        let names = Arc::clone(&lock(&self.shared.names));
        let mut out = Exposition::default();
        out.family(&names::BUILD_INFO).sample(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
        let reloaded = lock(&self.shared.reloaded).clone();
        out.single(&names::CONFIG_GOOD, flag(reloaded.error.is_empty()));
        out.single(&names::CONFIG_SECONDS, seconds(reloaded.good_ns));
        if view.at_ns != 0 {
            self.node(view, &mut out);
            objectives(view, &names, &mut out);
            self.sources(&mut out);
            gauges(view, &names, &mut out);
            filesystems(view, &names, &mut out);
            throttles(view, &names, &mut out);
            allowed(view, &mut out);
            latencies(view, &names, &mut out);
            samples(view, &names, &mut out);
            self.signals(view, &mut out);
        }
        self.slices.export(&mut out);
        let jobs = lock(&self.shared.jobs).clone();
        self.per_job.export(&jobs, view.hold, &mut out);
        self.actions(&mut out);
        self.own(view, &mut out);
        out.finish()
    }

    /// All that is read, whether a gauge watches it or not: who chooses a limit wants to know first what is usual.
    fn sources(&self, out: &mut Exposition) {
        let (gauges, now_ns) = (&self.shared.gauges, self.clock.monotonic_ns());
        let look = |(place, name): (usize, &String)| match gauges.read(place, now_ns) {
            GaugeReading::Value(value, at_ns) => {
                let unit = SOURCES.get(place).map_or(Unit::Count, |source| source.unit).name();
                let failed = gauges.fault(place).is_some();
                Some((name.clone(), unit, value, seconds(now_ns.saturating_sub(at_ns)), failed))
            }
            GaugeReading::Missing(_) | GaugeReading::Absent => None,
        };
        let there: Vec<_> = self.sources.iter().enumerate().filter_map(look).collect();
        if there.is_empty() {
            return;
        }
        let mut family = out.family(&names::SOURCE_VALUE);
        for (name, unit, value, ..) in &there {
            family.sample(&[("source", name), ("unit", unit)], *value);
        }
        let mut family = out.family(&names::SOURCE_AGE);
        there.iter().for_each(|(name, .., age_s, _)| family.sample(&[("source", name)], *age_s));
        let mut family = out.family(&names::SOURCE_FAILED);
        there.iter().for_each(|(name, .., failed)| family.sample(&[("source", name)], flag(*failed)));
    }

    fn node(&self, view: &Snapshot, out: &mut Exposition) {
        let now_ns = self.clock.monotonic_ns();
        let mut family = out.family(&names::STATE);
        for state in NodeState::ALL {
            family.sample(&[("state", state.name())], flag(state == view.state));
        }
        out.single(&names::STATE_SECONDS, seconds(now_ns.saturating_sub(view.counters.since_ns)));
        out.single(&names::PRECAUTION, flag(view.precaution));
        out.single(&names::ADMIT, flag(view.admit));
        out.single(&names::OFFERED_CORES, f64::from(view.cores));
        out.single(&names::OFFERED_MEMORY, (view.memory_mb << 20) as f64);
        if let Some(jobs) = view.jobs {
            out.single(&names::JOBS, f64::from(jobs));
        }
        out.single(&names::JOBS_HELD, f64::from(view.held_jobs));
        out.single(&names::JOBS_RESTING, f64::from(view.resting_jobs));
        out.single(&names::JOBS_LOCATED, f64::from(view.located_jobs));
        out.single(&names::SLICE_PRESENT, flag(view.slice));
        out.single(&names::PRECAUTIONS, view.counters.precautions as f64);
        out.single(&names::NEEDLESS, view.counters.needless as f64);
        out.single(&names::NEEDLESS_SHARE, view.counters.needless_share);
        out.single(&names::FREEZES, view.counters.freezes as f64);
        let mut family = out.family(&names::FROZEN_SECONDS);
        family.sample(&[("kind", "precaution")], seconds(view.precaution_ns));
        family.sample(&[("kind", "evidence")], seconds(view.frozen_ns));
        out.single(&names::REST_SECONDS, seconds(view.rest_ns));
        out.single(&names::BATCH_HELD, flag(view.held));
        out.single(&names::SHAPING_FAILED, flag(view.shaping_failed));
        out.single(&names::DRIFTS, view.drifts as f64);
    }

    fn signals(&self, view: &Snapshot, out: &mut Exposition) {
        let signals = &view.signals;
        let now_ns = self.clock.monotonic_ns();
        let mut family = out.family(&names::SIGNAL_SUCCESS);
        for signal in signals {
            family.sample(&[("signal", signal.name)], flag(signal.reading == Reading::Value));
        }
        let mut family = out.family(&names::SIGNAL_DURATION);
        for signal in signals {
            family.sample(&[("signal", signal.name)], seconds(signal.took_ns));
        }
        if signals.iter().any(|signal| signal.value_ns != 0) {
            let mut family = out.family(&names::SIGNAL_AGE);
            for signal in signals.iter().filter(|signal| signal.value_ns != 0) {
                family.sample(&[("signal", signal.name)], seconds(now_ns.saturating_sub(signal.value_ns)));
            }
        }
    }

    fn actions(&self, out: &mut Exposition) {
        let mut actions = lock(&self.shared.actions).clone();
        if actions.is_empty() {
            return;
        }
        actions.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(outcome_name(a.1).cmp(outcome_name(b.1))));
        let mut family = out.family(&names::ACTIONS);
        for (action, outcome, count) in actions {
            family.sample(&[("action", &action), ("outcome", outcome_name(outcome))], count as f64);
        }
    }

    /// The guard itself.
    fn own(&mut self, view: &Snapshot, out: &mut Exposition) {
        let shared = &self.shared;
        let load = |counter: &AtomicU64| load(counter) as f64;
        out.single(&names::JOURNAL_RECORDS, load(&shared.journal_records));
        out.single(&names::JOURNAL_ERRORS, load(&shared.journal_errors));
        out.single(&names::LIMIT_DRIFTS, load(&shared.limit_drifts));
        out.single(&names::DROPPED, load(&shared.dropped));
        out.single(&names::TICKS, load(&shared.ticks));
        out.single(&names::LATE, view.times.late as f64);
        let times = &view.times;
        let mut family = out.family(&names::LOOP_SECONDS);
        for (label, share) in [("p50", 0.5), ("p99", 0.99)] {
            family.sample(&[("statistic", label)], seconds(times.quantile_ns(share)));
        }
        family.sample(&[("statistic", "max")], seconds(times.max_ns()));
        out.single(&names::LOOP_TOTAL, seconds(times.sum_ns));
        out.single(&names::CPU, cpu_seconds());
        if let Ok(Some(bytes)) = self.memory.resident_bytes() {
            out.single(&names::RSS, bytes as f64);
        }
        if let Some(areas) = lock(&self.shared.swap_on_data).as_ref() {
            out.single(&names::SWAP_ON_DATA, areas.len() as f64);
        }
        if let Some(on_data) = *lock(&self.shared.scratch_on_data) {
            out.single(&names::SCRATCH_ON_DATA, flag(on_data));
        }
        out.single(&names::DRY_RUN, flag(self.dry_run));
        out.single(&names::LOCKED, flag(self.locked));
    }
}

fn objectives(view: &Snapshot, names: &Names, out: &mut Exposition) {
    let name = |index: u16| names.objectives.get(usize::from(index)).map_or("", String::as_str);
    let mut each = |metric: &Metric, value: &dyn Fn(&policy::Verdict) -> f64| {
        let mut family = out.family(metric);
        for verdict in &view.verdicts {
            family.sample(&[("objective", name(verdict.objective))], value(verdict));
        }
    };
    if view.verdicts.is_empty() {
        return;
    }
    each(&names::OBJECTIVE_LEARNED, &|verdict| flag(verdict.dependence.is_some()));
    each(&names::OBJECTIVE_DEPENDENCE, &|verdict| verdict.dependence.unwrap_or(0.0));
    each(&names::OBJECTIVE_SLACK, &|verdict| verdict.slack);
    each(&names::OBJECTIVE_LEVEL, &|verdict| match verdict.level {
        Level::Calm => 0.0,
        Level::Weak => 1.0,
        Level::Strong => 2.0,
    });
    each(&names::OBJECTIVE_FRESH, &|verdict| flag(verdict.signal == SignalState::Fresh));
    each(&names::OBJECTIVE_RATE, &|verdict| verdict.rate);
    budgets(view, names, out);
    let mut family = out.family(&names::OBJECTIVE_EVIDENCE);
    for verdict in &view.verdicts {
        let unit = Unit::name(verdict.measure.unit);
        family.sample(&[("objective", name(verdict.objective)), ("unit", unit)], verdict.measure.value);
    }
}

fn budgets(view: &Snapshot, names: &Names, out: &mut Exposition) {
    let there = || {
        let left = view.verdicts.iter().filter_map(|verdict| Some((verdict, verdict.budget_left?)));
        left.filter_map(|(verdict, left)| Some((names.objectives.get(usize::from(verdict.objective))?, verdict, left)))
    };
    if there().next().is_none() {
        return;
    }
    let mut family = out.family(&names::OBJECTIVE_BUDGET);
    there().for_each(|(name, _, left)| family.sample(&[("objective", name)], left));
    let mut family = out.family(&names::OBJECTIVE_BURNING);
    there().for_each(|(name, verdict, _)| family.sample(&[("objective", name)], flag(verdict.burning.is_some())));
}

fn gauges(view: &Snapshot, names: &Names, out: &mut Exposition) {
    let there = || names.gauges.iter().zip(&view.gauges).filter(|(_, verdict)| verdict.state != GaugeState::Absent);
    if there().next().is_none() {
        return;
    }
    let mut family = out.family(&names::GAUGE_VALUE);
    there().for_each(|(name, verdict)| family.sample(&[("gauge", name)], verdict.measure.value));
    let mut family = out.family(&names::GAUGE_AGE);
    for (name, verdict) in there().filter(|(_, verdict)| verdict.read_ns > 0) {
        family.sample(&[("gauge", name)], seconds(view.at_ns.saturating_sub(verdict.read_ns)));
    }
    let mut family = out.family(&names::GAUGE_BROKEN);
    for (name, verdict) in there() {
        family.sample(&[("gauge", name)], flag(verdict.state != GaugeState::Kept));
    }
}

fn filesystems(view: &Snapshot, names: &Names, out: &mut Exposition) {
    if view.loads.is_empty() {
        return;
    }
    let path = |index: usize| names.filesystems.get(index).map_or("", String::as_str);
    let mut family = out.family(&names::IN_FLIGHT);
    for (index, load) in view.loads.iter().enumerate() {
        let filesystem = ("filesystem", path(index));
        family.sample(&[filesystem, ("class", "storage")], f64::from(load.storage_in_flight));
        family.sample(&[filesystem, ("class", "batch")], f64::from(load.batch_in_flight));
    }
    let mut family = out.family(&names::OLDEST);
    for (index, load) in view.loads.iter().enumerate() {
        family.sample(&[("filesystem", path(index))], seconds(load.oldest_ns));
    }
    for (metric, bits) in [(&names::FILLED, view.filled), (&names::QUARANTINED, view.quarantined)] {
        let mut family = out.family(metric);
        for index in 0..view.loads.len() {
            family.sample(&[("filesystem", path(index))], flag(contains(bits, index)));
        }
    }
}

fn allowed(view: &Snapshot, out: &mut Exposition) {
    let mut family = out.family(&names::BATCH_ALLOWED);
    for resource in Resource::ALL {
        family.sample(&[("resource", resource.name())], f64::from(view.shares.of(resource)));
    }
}

fn throttles(view: &Snapshot, names: &Names, out: &mut Exposition) {
    if view.throttles.is_empty() {
        return;
    }
    let path = |index: u16| names.filesystems.get(usize::from(index)).map_or("", String::as_str);
    let mut family = out.family(&names::THROTTLE_SHARE);
    for throttle in view.throttles.iter() {
        family.sample(&[("filesystem", path(throttle.filesystem))], f64::from(throttle.given()));
    }
    let mut family = out.family(&names::THROTTLED_JOBS);
    for throttle in view.throttles.iter() {
        family.sample(&[("filesystem", path(throttle.filesystem))], throttle.jobs.len() as f64);
    }
}

fn latencies(view: &Snapshot, names: &Names, out: &mut Exposition) {
    // Series that never had a request are left out: 96 filesystems have 1824.
    let used = |with_bytes: bool| {
        let busy = view.histograms.0.iter().enumerate().filter(|(_, histogram)| load(&histogram.operations) > 0);
        busy.filter_map(move |(index, histogram)| {
            let series = SeriesId::from_index(u32::try_from(index).ok()?)?;
            let (op, class) = (op_name(series.kind.op()), class_name(series.kind.class()));
            let path = names.filesystems.get(usize::from(series.filesystem))?.as_str();
            let wanted = !with_bytes || matches!(series.kind.op(), Op::Read | Op::Write);
            wanted.then_some(([("op", op), ("class", class), ("filesystem", path)], histogram))
        })
    };
    if used(false).next().is_none() {
        return;
    }
    let bounds = BOUNDS.map(|power| (1u64 << power) as f64 / 1e9);
    let mut family = out.family(&names::STORAGE_LATENCY);
    for (labels, histogram) in used(false) {
        family.histogram(&labels, &bounds, &histogram.buckets.each_ref().map(load), seconds(load(&histogram.sum_ns)));
    }
    let mut family = out.family(&names::STORAGE_ERRORS);
    for (labels, histogram) in used(false) {
        family.sample(&labels, load(&histogram.errors) as f64);
    }
    if used(true).next().is_some() {
        let mut family = out.family(&names::STORAGE_BYTES);
        for (labels, histogram) in used(true) {
            family.sample(&labels, load(&histogram.bytes) as f64);
        }
    }
}

/// What the signals said of themselves, family by family in the order of the table.
fn samples(view: &Snapshot, names: &Names, out: &mut Exposition) {
    for metric in names::ALL {
        let mut of = view.samples.iter().filter(|sample| std::ptr::eq(sample.metric, *metric)).peekable();
        if of.peek().is_none() {
            continue;
        }
        let mut family = out.family(metric);
        for sample in of {
            match sample.label {
                Label::None => family.sample(&[], sample.value),
                Label::Resource(resource) => family.sample(&[("resource", resource)], sample.value),
                Label::Filesystem(index) => {
                    let path = names.filesystems.get(usize::from(index)).map_or("", String::as_str);
                    family.sample(&[("filesystem", path)], sample.value);
                }
            }
        }
    }
}

/// User and system time of this process.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn flag(set: bool) -> f64 {
    f64::from(u8::from(set))
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Name in labels.
pub fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Done => "done",
        Outcome::Pending => "pending",
        Outcome::Failed => "failed",
        Outcome::Skipped => "skipped",
    }
}

fn op_name(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Sync => "sync",
        Op::Open => "open",
        Op::Meta => "meta",
        Op::Pacing => "pacing",
        Op::Stall => "stall",
    }
}

fn class_name(class: Class) -> &'static str {
    match class {
        Class::Storage => "storage",
        Class::Batch => "batch",
        Class::Internal => "internal",
        Class::Probe => "probe",
    }
}

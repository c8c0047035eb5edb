// SPDX-License-Identifier: Apache-2.0
//! The whole page from a fixture, and the list of metrics against the documentation.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use intf::journal::Outcome;
use intf::segment::layout::{Class, Kind as SeriesKind, Op, KINDS};
use intf::segment::SeriesId;
use intf::state::NodeState;
use policy::event::{Measure, Unit};
use policy::{Cause, Config, FilesystemLoad, GaugeState, GaugeVerdict, Level, Names, SignalState, Verdict};

use super::names;
use super::render::Renderer;
use crate::clock::Clock;
use crate::shared::{lock, Shared, SignalHealth, Snapshot};
use crate::signals::{Histograms, Label, Reading, Sample};

struct At;
impl Clock for At {
    fn monotonic_ns(&self) -> u64 {
        100_000_000_000
    }
    fn realtime_ns(&self) -> u64 {
        1_795_173_354_000_000_000
    }
}

fn view() -> Snapshot {
    let series = SeriesId { filesystem: 1, kind: SeriesKind::of(Op::Read, Class::Storage).unwrap() };
    let mut view =
        Snapshot { at_ns: 99_000_000_000, state: NodeState::Frozen, reason: Cause::Stuck, ..Snapshot::default() };
    (view.slice, view.jobs, view.quarantined) = (true, Some(2), 0b01);
    (view.held_jobs, view.resting_jobs, view.filled) = (1, 2, 0b10);
    (view.precaution_ns, view.frozen_ns, view.drifts) = (300_000_000, 4_000_000_000, 1);
    view.rest_ns = 5_000_000_000;
    view.held = true;
    view.verdicts = vec![Verdict {
        objective: 0,
        level: Level::Strong,
        signal: SignalState::Fresh,
        stuck: true,
        slack: -0.5,
        budget_left: Some(0.875),
        burning: Some(Measure { value: 7.5, limit: 6.0, unit: Unit::Count }),
        dependence: Some(1.5),
        worst: Some(series),
        measure: Measure { value: 25.5, limit: 24.0, unit: Unit::Nats },
        rate: 300.0,
        ..Verdict::default()
    }];
    let measure = Measure { value: 0.25, limit: 0.1, unit: Unit::Share };
    view.gauges = vec![
        GaugeVerdict {
            state: GaugeState::Broken,
            measure,
            since_ns: 1,
            read_ns: 98_500_000_000,
            ..GaugeVerdict::default()
        },
        GaugeVerdict { state: GaugeState::Absent, ..GaugeVerdict::default() },
    ];
    view.throttles.begin(1, [3, 5].into_iter().collect(), 0.05, 1);
    let load = FilesystemLoad { oldest_ns: 1_500_000_000, storage_in_flight: 3, ..FilesystemLoad::default() };
    view.loads = vec![load, FilesystemLoad { batch_in_flight: 2, ..FilesystemLoad::default() }];
    view.histograms = Histograms::new(2 * KINDS);
    let histogram = &view.histograms.0[series.index()];
    let put = |counter: &AtomicU64, value| counter.store(value, Ordering::Relaxed);
    put(&histogram.operations, 6);
    put(&histogram.sum_ns, 90_000_000);
    put(&histogram.bytes, 393_216);
    put(&histogram.errors, 1);
    [(0, 1), (5, 4), (14, 1)].into_iter().for_each(|(bucket, count)| put(&histogram.buckets[bucket], count));
    view.samples = vec![
        Sample { metric: &names::SEGMENT_RESTARTS, label: Label::None, value: 1.0 },
        Sample { metric: &names::DISK_AWAIT, label: Label::Filesystem(0), value: 0.0085 },
        Sample { metric: &names::HOST_WAITING, label: Label::Resource("io"), value: 7.25 },
        Sample { metric: &names::DISK_AWAIT, label: Label::Filesystem(1), value: 0.25 },
        Sample { metric: &names::DISK_GONE, label: Label::Filesystem(1), value: 1.0 },
    ];
    let health = |name, reading, value_ns| SignalHealth { name, reading, value_ns, took_ns: 15_000 };
    view.signals = vec![health("latency", Reading::Value, 99_980_000_000), health("psi", Reading::Absent, 0)];
    view.counters.since_ns = 96_000_000_000;
    (view.counters.precautions, view.counters.needless, view.counters.freezes) = (5, 2, 3);
    view.times = crate::control::LoopTimes::new(20_000_000);
    view.times.record(0, 30_000);
    view
}

fn page() -> String {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../kernfs/fixtures/6.12.107");
    let text = format!("[paths]\ncgroup = \"{fixtures}/cgroup\"\nproc = \"{fixtures}/proc\"\n");
    let config = Config::parse("test", &text).unwrap();
    let shared = Arc::new(Shared::default());
    *lock(&shared.names) = Arc::new(Names {
        objectives: vec!["storage-read".into()],
        gauges: vec!["storage-memory".into(), "not-here".into()],
        filesystems: vec!["/data/01".into(), "/data/02".into()],
    });
    shared.gauges.put("host.load", Some(1.5), 98_000_000_000);
    shared.gauges.put("host.load.total", Some(6.0), 98_000_000_000);
    shared.gauges.put("storage.memory.swap", None, 98_000_000_000);
    shared.gauges.fail("host.load", "no such number");
    *lock(&shared.actions) = vec![("thaw".into(), Outcome::Done, 1), ("freeze".into(), Outcome::Done, 2)];
    Renderer::new(&config, shared, Arc::new(At), true).render(&view())
}

/// Values of the process that runs the test, and the version, differ from run to run.
fn stable(text: &str) -> String {
    let varies = ["beer_guard_cpu_seconds_total ", "beer_build_info{"];
    let line = |line: &str| match varies.iter().find(|name| line.starts_with(**name)) {
        Some(name) => format!("{name}(varies)\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[test]
fn golden() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/metrics/golden.txt");
    let text = stable(&page());
    if std::env::var_os("GOLDEN_WRITE").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    assert!(text == golden, "differs from {path} (after a wanted change: GOLDEN_WRITE=1, and read the diff):\n{text}");
}

/// The format's own checker, where it is installed; what it says would be said about every node.
#[test]
fn promtool_has_nothing_to_say() {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut command = Command::new("promtool");
    let command =
        command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        return eprintln!("skipped: promtool is not installed");
    };
    child.stdin.take().unwrap().write_all(page().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}

#[test]
fn no_family_comes_twice() {
    let text = page();
    let mut families: Vec<_> = text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
    let all = families.len();
    families.sort_unstable();
    families.dedup();
    assert_eq!(families.len(), all);
}

/// The table for people holds what the code has, and nothing else.
#[test]
fn documentation_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let documented = std::fs::read_to_string(path).unwrap();
    let rows: Vec<_> = documented.lines().filter(|line| line.starts_with("| `")).collect();
    let expected: Vec<_> =
        names::ALL.iter().map(|m| format!("| `{}` | {} | {} |", m.name, m.kind.name(), m.help)).collect();
    assert!(rows == expected, "{path} should have these rows:\n{}", expected.join("\n"));
}

// SPDX-License-Identifier: Apache-2.0
//! How long from the first slow request to frozen jobs? The real `beer-guard run` as a child process, a synthetic
//! latency segment, and a real cgroup with spinning tasks; no virtual machine. Prints JSON.
//!
//! `cargo run --release --example freeze_latency -- --trials 100`
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::collections::BinaryHeap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use intf::segment::layout::{Class, Kind, Op};
use intf::segment::synthetic::SegmentWriter;
use intf::segment::SeriesId;
use support::{ends_with_this_thread, monotonic_ns, NodeFolders, TestCgroup};

/// Time from the first slow request to the freeze, and the cost of the guard.
#[derive(Parser)]
struct Arguments {
    /// Steps to inject.
    #[arg(long, default_value_t = 100)]
    trials: usize,
    /// Requests per second.
    #[arg(long, default_value_t = 300.0)]
    rate: f64,
    /// Median latency when all is well, in milliseconds (log-normal, sigma 0.5).
    #[arg(long, default_value_t = 8.0)]
    median_ms: f64,
    /// All latencies become this many times longer.
    #[arg(long, default_value_t = 3.0)]
    factor: f64,
    /// Spinning tasks in the cgroup of the jobs.
    #[arg(long, default_value_t = 2)]
    tasks: usize,
    /// Job containers in it: a cgroup with a sleeping task each. They have io.stat and memory.stat only below a cgroup with such
    /// controllers ($BEER_TEST_CGROUP), and with no spinning tasks.
    #[arg(long, default_value_t = 0)]
    jobs: usize,
    /// Empty cgroups beside it, as a node full of services has.
    #[arg(long, default_value_t = 0)]
    cgroups: usize,
    /// Filesystems in the segment.
    #[arg(long, default_value_t = 96)]
    filesystems: usize,
    /// Seconds over which the cost is measured, the requests spread over all filesystems.
    #[arg(long, default_value_t = 20.0)]
    cost_seconds: f64,
    /// Seconds without anything slow before each step: the detector must not learn from the steps.
    #[arg(long, default_value_t = 4.0)]
    calm_seconds: f64,
    /// The guard; beside this program if not given.
    #[arg(long)]
    guard: Option<PathBuf>,
    /// More configuration, TOML.
    #[arg(long, default_value = "")]
    config: String,
}

const MS: f64 = 1e6;
const SCRAPED_EVERY: Duration = Duration::from_secs(15);
/// Not found within this time is a miss.
const PATIENCE_NS: u64 = 5_000_000_000;

fn main() {
    let arguments = Arguments::parse();
    let folders = NodeFolders::new();
    let mut jobs = TestCgroup::new("bench").expect("a cgroup2 mount is needed");
    match arguments.tasks {
        0 => jobs.delegate(),
        tasks => jobs.spin(tasks),
    }
    // Dropped before their parents.
    let others = TestCgroup::new("others").expect("a cgroup2 mount is needed");
    let _others: Vec<TestCgroup> = (0..arguments.cgroups).map(|number| others.child(&format!("{number}"))).collect();
    let _containers: Vec<TestCgroup> = (0..arguments.jobs).map(|number| container(&jobs, number)).collect();
    let config = folders.path("guard.toml");
    // Free again when the guard wants it.
    let metrics = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = folders.config(&jobs.path, &settings(&arguments, metrics));
    let proc = proc_with_disks(&folders, arguments.filesystems);
    std::fs::write(&config, text.replacen("[paths]", &format!("[paths]\nproc = \"{}\"", proc.display()), 1)).unwrap();
    let mut load = Load::new(&folders, &arguments);
    let guard = Guard::start(&arguments, &config);
    let cost = cost(&arguments, &folders, &mut load, guard.0.id(), metrics);
    let trials = trials(&arguments, &folders, &jobs, &mut load);
    let wrong = folders.journal().iter().filter(|record| record.outcome == intf::journal::Outcome::Failed).count();
    let rss_at_the_end = resident_bytes(guard.0.id());
    drop(guard);
    let missed = trials.iter().filter(|trial| trial.written_ns.is_none()).count();
    let times = |pick: fn(&Trial) -> Option<u64>| quantiles(trials.iter().filter_map(pick).collect());
    let report = serde_json::json!({
        "benchmark": "freeze_latency",
        "requests_per_second": arguments.rate,
        "median_ms": arguments.median_ms,
        "factor": arguments.factor,
        "tasks": arguments.tasks,
        "filesystems": arguments.filesystems,
        "jobs": arguments.jobs,
        "cgroups": arguments.cgroups,
        "trials": trials.len(),
        "missed": missed,
        "failed_actions": wrong,
        "first_slow_request_to_freeze_write_ms": times(|trial| trial.written_ns),
        "first_slow_request_to_frozen_ms": times(|trial| trial.frozen_ns),
        "freeze_write_ms_by_trial": trials
            .iter()
            .map(|trial| trial.written_ns.map(|ns| (ns as f64 / MS).round()))
            .collect::<Vec<_>>(),
        "requests_until_freeze_write": quantiles_of(trials.iter().map(|trial| trial.requests as f64).collect()),
        "false_freezes_per_hour": cost.false_freezes as f64 * 3600.0 / cost.healthy_seconds,
        "guard": {
            "cpu_percent": cost.cpu_percent,
            "wakeups_per_second": cost.wakeups_per_second,
            "cpu_percent_of_empty_wakeups": cost.empty_percent,
            "rss_bytes": cost.rss_bytes,
            "loop_p99_seconds": cost.loop_p99_seconds,
            "rss_bytes_after_the_trials": rss_at_the_end,
            "measured_seconds": cost.healthy_seconds,
        },
    });
    println!("{report:#}");
}

/// Named as Docker names them.
fn container(jobs: &TestCgroup, number: usize) -> TestCgroup {
    let mut container = jobs.child(&format!("docker-{number:064x}.scope"));
    container.sleep();
    container
}

/// A procfs with the disks of the segment, which do nothing; all else is the real one's.
fn proc_with_disks(folders: &NodeFolders, disks: usize) -> PathBuf {
    let folder = folders.path("proc");
    std::fs::create_dir(&folder).unwrap();
    for entry in std::fs::read_dir("/proc").unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name != "diskstats" && name.parse::<u32>().is_err() {
            std::os::unix::fs::symlink(format!("/proc/{name}"), folder.join(name)).unwrap();
        }
    }
    let line = |disk| format!("   8 {disk} sd{disk} 10 0 80 80 10 0 80 80 0 90 160 0 0 0 0 0 0\n");
    std::fs::write(folder.join("diskstats"), (0..disks).map(line).collect::<Vec<_>>().concat()).unwrap();
    folder
}

/// The shipped configuration, but for what would make a trial longer than needed.
fn settings(arguments: &Arguments, metrics: SocketAddr) -> String {
    format!(
        "[ladder]\nhold = \"100ms\"\nhold_max = \"100ms\"\nflap = \"100ms\"\n[metrics]\nlisten = \"{metrics}\"\n{}\n",
        arguments.config
    )
}

struct Guard(Child);

impl Guard {
    fn start(arguments: &Arguments, config: &std::path::Path) -> Self {
        let beside = || {
            let own = std::env::current_exe().unwrap();
            own.parent().unwrap().parent().unwrap().join("beer-guard")
        };
        let program = arguments.guard.clone().unwrap_or_else(beside);
        let child = ends_with_this_thread().arg(&program).arg("run").arg("--config").arg(config).spawn();
        Guard(child.unwrap_or_else(|error| panic!("{}: {error}", program.display())))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(rustix::process::Pid::from_child(&self.0), rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

/// Requests as they come and go: open loop, Poisson arrivals, log-normal latencies.
struct Load {
    writer: SegmentWriter,
    random: Random,
    arrival_ns: u64,
    gap_ns: f64,
    median_ns: f64,
    /// (negative end, slot, series, latency): the earliest end first.
    in_flight: BinaryHeap<(std::cmp::Reverse<u64>, u32, usize, u64)>,
    free: Vec<u32>,
    spread: usize,
    beat_ns: u64,
}

impl Load {
    fn new(folders: &NodeFolders, arguments: &Arguments) -> Self {
        let names: Vec<String> = (0..arguments.filesystems).map(|number| format!("/data/{number:02}")).collect();
        let filesystems: Vec<_> = names.iter().zip(0..).map(|(name, disk)| (name.as_str(), 8, disk)).collect();
        let writer = SegmentWriter::create(&folders.segment(), 1, &filesystems, 256, 64).unwrap();
        Load {
            writer,
            random: Random(0x9e37_79b9_7f4a_7c15),
            arrival_ns: monotonic_ns(),
            gap_ns: 1e9 / arguments.rate,
            median_ns: arguments.median_ms * MS,
            in_flight: BinaryHeap::new(),
            free: (0..256).rev().collect(),
            spread: 1,
            beat_ns: 0,
        }
    }

    /// Until `end_ns` or until `stop`; returns the arrivals.
    fn run(&mut self, factor: f64, end_ns: u64, mut stop: impl FnMut(u64) -> bool) -> Vec<u64> {
        let mut arrivals = Vec::new();
        loop {
            let now_ns = monotonic_ns();
            if now_ns >= end_ns || stop(now_ns) {
                return arrivals;
            }
            if now_ns >= self.beat_ns {
                self.beat_ns = now_ns + 100_000_000;
                self.writer.heartbeat(now_ns).unwrap();
            }
            while self.in_flight.peek().is_some_and(|next| next.0 .0 <= now_ns) {
                let (_, slot, filesystem, latency_ns) = self.in_flight.pop().unwrap();
                self.writer.end(slot).unwrap();
                self.writer.complete(series(filesystem), latency_ns, 65_536).unwrap();
                self.free.push(slot);
            }
            while self.arrival_ns <= now_ns {
                self.arrive(factor);
                arrivals.push(self.arrival_ns);
                self.arrival_ns += (self.gap_ns * self.random.exponential()) as u64;
            }
            let next = self.in_flight.peek().map_or(u64::MAX, |next| next.0 .0).min(self.arrival_ns);
            let wait = next.min(self.beat_ns).min(end_ns).saturating_sub(monotonic_ns()).min(2_000_000);
            std::thread::sleep(Duration::from_nanos(wait));
        }
    }

    fn arrive(&mut self, factor: f64) {
        let latency_ns = (self.median_ns * factor * (0.5 * self.random.normal()).exp()) as u64;
        let filesystem = self.random.below(self.spread);
        // With all slots taken the real writer counts an overflow and measures at the end only.
        let Some(slot) = self.free.pop() else { return };
        self.writer.begin(slot, series(filesystem), self.arrival_ns, 65_536, None).unwrap();
        let end = std::cmp::Reverse(self.arrival_ns + latency_ns);
        self.in_flight.push((end, slot, filesystem, latency_ns));
    }
}

fn series(filesystem: usize) -> SeriesId {
    SeriesId { filesystem: filesystem as u16, kind: Kind::of(Op::Read, Class::Storage).unwrap() }
}

struct Cost {
    cpu_percent: f64,
    /// How often its threads slept and were woken, and what as many wake-ups cost here of somebody who does nothing then.
    wakeups_per_second: f64,
    empty_percent: f64,
    rss_bytes: u64,
    /// Of its ticks in the last one to two minutes.
    loop_p99_seconds: f64,
    false_freezes: usize,
    healthy_seconds: f64,
}

/// Requests over all filesystems, all well, and Prometheus comes by: what does the guard use, and does it freeze for nothing?
fn cost(arguments: &Arguments, folders: &NodeFolders, load: &mut Load, pid: u32, metrics: SocketAddr) -> Cost {
    load.spread = arguments.filesystems;
    load.run(1.0, monotonic_ns() + 5_000_000_000, |_| false);
    assert!(!scrape(metrics).is_empty(), "no metrics");
    let (begun_ns, before, asleep) = (monotonic_ns(), cpu_ns(pid), sleeps(pid));
    let stop = Arc::new(AtomicBool::new(false));
    let prometheus = {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                scrape(metrics);
                std::thread::park_timeout(SCRAPED_EVERY);
            }
        })
    };
    // Beside the load, which must go on: a silent storage daemon is another story.
    let empty = std::thread::spawn(empty_wakeup_ns);
    load.run(1.0, begun_ns + (arguments.cost_seconds * 1e9) as u64, |_| false);
    stop.store(true, Ordering::Relaxed);
    prometheus.thread().unpark();
    prometheus.join().unwrap();
    let (used_ns, slept) = (cpu_ns(pid) - before, sleeps(pid) - asleep);
    let elapsed_ns = monotonic_ns() - begun_ns;
    let empty_ns = empty.join().unwrap();
    let wakeups_per_second = slept as f64 * 1e9 / elapsed_ns as f64;
    Cost {
        cpu_percent: used_ns as f64 * 100.0 / elapsed_ns as f64,
        wakeups_per_second,
        empty_percent: wakeups_per_second * empty_ns / 1e7,
        rss_bytes: resident_bytes(pid),
        loop_p99_seconds: loop_p99_seconds(&scrape(metrics)),
        false_freezes: folders.journal().iter().filter(|record| record.action == "freeze").count(),
        healthy_seconds: elapsed_ns as f64 / 1e9,
    }
}

/// How long a tick takes, by the guard's own account.
fn loop_p99_seconds(page: &str) -> f64 {
    let found = page.lines().find_map(|line| line.strip_prefix("beer_guard_loop_seconds{statistic=\"p99\"} "));
    found.expect("the guard tells how long its ticks take").parse().unwrap()
}

/// The metrics, as Prometheus gets them.
fn scrape(metrics: SocketAddr) -> String {
    let mut stream = TcpStream::connect(metrics).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}

fn resident_bytes(pid: u32) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

/// CPU time in nanoseconds, exact where the kernel has it.
fn cpu_ns(pid: u32) -> u64 {
    sum_of_tasks(pid, "schedstat", |text| text.split(' ').next())
}

/// The sum of a number in a file that each of its threads has.
fn sum_of_tasks(pid: u32, file: &str, number: fn(&str) -> Option<&str>) -> u64 {
    let of = |task: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(task.unwrap().path().join(file)).ok()?;
        number(&text)?.trim().parse::<u64>().ok()
    };
    std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().filter_map(of).sum()
}

/// How often all its threads together have gone to sleep.
fn sleeps(pid: u32) -> u64 {
    sum_of_tasks(pid, "status", |text| text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")))
}

/// CPU time of one wake-up as often as those of the control loop: a processor that has slept for so long is slow to come back, and
/// a virtual one has to ask for it.
fn empty_wakeup_ns() -> f64 {
    const WAKEUPS: u32 = 250;
    let own = || {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        text.split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let before = own();
    (0..WAKEUPS).for_each(|_| std::thread::sleep(Duration::from_millis(20)));
    (own() - before) as f64 / f64::from(WAKEUPS)
}

struct Trial {
    written_ns: Option<u64>,
    frozen_ns: Option<u64>,
    requests: usize,
}

/// Steps on one series that has all the requests, each after the guard has thawed again and all was calm for a while.
fn trials(arguments: &Arguments, folders: &NodeFolders, jobs: &TestCgroup, load: &mut Load) -> Vec<Trial> {
    if arguments.trials == 0 {
        return Vec::new();
    }
    load.spread = 1;
    // The baseline of this series must be learned at its rate first.
    load.run(1.0, monotonic_ns() + 40_000_000_000, |_| false);
    let calm_ns = (arguments.calm_seconds * 1e9) as u64;
    let mut trials = Vec::new();
    for number in 0..arguments.trials {
        let mut thawed_ns = 0;
        load.run(1.0, monotonic_ns() + 60_000_000_000, |now_ns| {
            // Look rarely: the state line is a file, and this loop is to be on time. Steps that follow each other like
            // this are a slow burn too, so the node may well be closed; that is no matter here.
            if thawed_ns == 0 && ["state=open", "state=closed"].iter().any(|state| folders.state().starts_with(state)) {
                thawed_ns = now_ns;
            }
            // At a random point of the guard's tick.
            thawed_ns != 0 && now_ns > thawed_ns + calm_ns + (number as u64 * 7_919_000) % 100_000_000
        });
        assert!(thawed_ns != 0, "the guard does not thaw: {}", folders.state());
        trials.push(trial(arguments, jobs, load));
        eprint!("\r{} of {} ", number + 1, arguments.trials);
    }
    eprintln!();
    trials
}

fn trial(arguments: &Arguments, jobs: &TestCgroup, load: &mut Load) -> Trial {
    let stop = Arc::new(AtomicBool::new(false));
    let (written, frozen) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let watcher = {
        let (stop, written, frozen) = (Arc::clone(&stop), Arc::clone(&written), Arc::clone(&frozen));
        let path = jobs.path.clone();
        std::thread::spawn(move || watch(&path, &stop, &written, &frozen))
    };
    let begun_ns = monotonic_ns();
    let arrivals = load.run(arguments.factor, begun_ns + PATIENCE_NS, |_| frozen.load(Ordering::Relaxed) != 0);
    stop.store(true, Ordering::Relaxed);
    watcher.join().unwrap();
    let first_ns = arrivals.first().copied().unwrap_or(begun_ns);
    let since =
        |at: &AtomicU64| Some(at.load(Ordering::Relaxed)).filter(|at| *at != 0).map(|at| at.saturating_sub(first_ns));
    Trial {
        requests: arrivals.iter().filter(|at| **at <= written.load(Ordering::Relaxed)).count(),
        written_ns: since(&written),
        frozen_ns: since(&frozen),
    }
}

/// Reads what the kernel says five times in a millisecond.
fn watch(cgroup: &std::path::Path, stop: &AtomicBool, written: &AtomicU64, frozen: &AtomicU64) {
    let mut knob = kernfs::KernFile::new(cgroup.join("cgroup.freeze"));
    let mut events = kernfs::KernFile::new(cgroup.join("cgroup.events"));
    while !stop.load(Ordering::Relaxed) {
        if written.load(Ordering::Relaxed) == 0 && knob.read().unwrap().unwrap().starts_with('1') {
            written.store(monotonic_ns(), Ordering::Relaxed);
        }
        if events.read().unwrap().unwrap().contains("frozen 1") {
            frozen.store(monotonic_ns(), Ordering::Relaxed);
            return;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn quantiles(ns: Vec<u64>) -> serde_json::Value {
    quantiles_of(ns.into_iter().map(|ns| ns as f64 / MS).collect())
}

fn quantiles_of(mut values: Vec<f64>) -> serde_json::Value {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let index = ((values.len() as f64 * share).ceil() as usize).clamp(1, values.len().max(1)) - 1;
        values.get(index).map(|value| (value * 1000.0).round() / 1000.0)
    };
    serde_json::json!({ "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "max": at(1.0) })
}

/// xorshift64*: the same requests in every run.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    fn below(&mut self, count: usize) -> usize {
        ((self.uniform() * count as f64) as usize).min(count - 1)
    }
}

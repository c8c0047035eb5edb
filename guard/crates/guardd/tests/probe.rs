// SPDX-License-Identifier: Apache-2.0
//! beer-probe: what it reads where clients read little, how the guard sees it, and what a disk that hangs holds up.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::BTreeMap;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, SystemTime};

use guardd::clock::SystemClock;
use guardd::probe::{self, Outcome, Reader};
use guardd::shared::{Owner, Shared};
use guardd::signals::{self, Board, Reading};
use guardd::watch::Watch;
use intf::segment::synthetic::SegmentWriter;
use intf::segment::{Class, Filesystem, InFlight, Kind, Op, SegmentReader, SeriesDelta, SeriesId, Visitor};
use policy::gauge::source_of;
use policy::{Config, SignalState};
use support::{eventually, monotonic_ns, NodeFolders};

const WITHIN: Duration = Duration::from_secs(20);
const INTERVAL: &str = "[signals.probe]\ninterval = \"200ms\"\n";

fn node(more: &str) -> (NodeFolders, Config) {
    let folders = NodeFolders::new();
    std::fs::create_dir(folders.path("probe")).unwrap();
    let text = folders.config(&folders.slice(), more);
    std::fs::write(folders.path("guard.toml"), &text).unwrap();
    (folders, Config::parse("test", &text).unwrap())
}

/// On the disk of this checkout, with a file that has long been there: a temporary folder may be memory. `None` = no direct reads.
fn disk() -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, vec![1; 4 << 20]).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    file.sync_all().unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECT;
    match rustix::fs::open(&path, flags, rustix::fs::Mode::empty()) {
        Ok(_) => Some(folder),
        Err(error) => {
            eprintln!("skipped: {}: O_DIRECT: {error}", path.display());
            None
        }
    }
}

fn entry(folder: &Path) -> (String, u32, u32) {
    let device = std::fs::metadata(folder).unwrap().st_dev();
    (folder.display().to_string(), rustix::fs::major(device), rustix::fs::minor(device))
}

fn storage(path: &Path, disks: &[(String, u32, u32)]) -> SegmentWriter {
    let disks: Vec<(&str, u32, u32)> =
        disks.iter().map(|(path, major, minor)| (path.as_str(), *major, *minor)).collect();
    static GENERATION: AtomicUsize = AtomicUsize::new(1);
    let generation = GENERATION.fetch_add(1, Ordering::Relaxed) as u64;
    let mut writer = SegmentWriter::create(path, generation, &disks, 64, 64).unwrap();
    writer.heartbeat(monotonic_ns()).unwrap();
    writer
}

fn client(writer: &mut SegmentWriter, filesystem: u16) {
    writer.complete(SeriesId { filesystem, kind: Kind::STORAGE_READ }, 8_000_000, 65_536).unwrap();
}

fn begin(folders: &NodeFolders) -> Child {
    Command::new(env!("CARGO_BIN_EXE_beer-guard"))
        .args(["probe", "--config"])
        .arg(folders.path("guard.toml"))
        .stderr(Stdio::from(std::fs::File::create(folders.path("log")).unwrap()))
        .spawn()
        .unwrap()
}

fn end(mut child: Child) {
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
}

/// What is in beer-probe's segment: reads by filesystem, and the ages of those in flight.
#[derive(Default)]
struct Seen {
    paths: Vec<String>,
    reads: BTreeMap<u16, u64>,
    ages: BTreeMap<u16, Vec<u64>>,
}

impl Visitor for Seen {
    fn restart(&mut self, filesystems: &[Filesystem]) {
        self.paths = filesystems.iter().map(|filesystem| filesystem.path.clone()).collect();
        self.reads.clear();
    }
    fn series(&mut self, delta: &SeriesDelta<'_>) {
        assert_eq!(Some(delta.series.kind), Kind::of(Op::Read, Class::Internal));
        *self.reads.entry(delta.series.filesystem).or_default() += delta.operations;
    }
    fn in_flight(&mut self, request: &InFlight) {
        self.ages.entry(request.series.filesystem).or_default().push(request.age_ns);
    }
}

struct Segment(SegmentReader, Seen);

impl Segment {
    fn new(config: &Config) -> Segment {
        let owner = rustix::process::getuid().as_raw();
        Segment(SegmentReader::new(&config.paths.probe.join(probe::SEGMENT), owner), Seen::default())
    }

    fn look(&mut self) -> &Seen {
        self.1.ages.clear();
        let _ = self.0.poll(monotonic_ns(), &mut self.1);
        &self.1
    }

    fn reads(&mut self, filesystem: u16) -> u64 {
        self.look().reads.get(&filesystem).copied().unwrap_or_default()
    }
}

#[test]
fn where_clients_read_little_the_guard_sees_probes_of_the_same_disk() {
    let (Some(used), Some(unused)) = (disk(), disk()) else { return };
    let (folders, config) = node(INTERVAL);
    let mut writer = storage(&folders.segment(), &[entry(unused.path()), entry(used.path())]);
    let mut segment = Segment::new(&config);
    let owner = Owner::new(&config.latency.owner);
    owner.resolve(Path::new("/etc/passwd"));
    let mut signals = signals::all(&config, owner);
    let mut board = Board::new(&config);
    let objective = config.objectives.iter().position(|objective| objective.name == "probe-read").unwrap();
    let mut look = |writer: &mut SegmentWriter| {
        let now_ns = monotonic_ns();
        writer.heartbeat(now_ns).unwrap();
        board.evaluator.begin(now_ns);
        let readings: Vec<Reading> =
            signals.iter_mut().filter(|s| s.period_ns() == 0).map(|signal| signal.read(now_ns, &mut board)).collect();
        board.evaluator.finish(now_ns, board.storage, false);
        (readings, board.evaluator.verdicts()[objective], board.probes_stuck)
    };
    let (readings, verdict, stuck) = look(&mut writer);
    assert_eq!((readings[1], verdict.signal, stuck), (Reading::Absent, SignalState::Absent, None), "nobody probes");

    let child = begin(&folders);
    eventually("it follows the storage daemon", WITHIN, || !segment.look().paths.is_empty());
    std::thread::sleep(Duration::from_secs(1));
    assert!(segment.look().reads.is_empty(), "there are no clients");
    client(&mut writer, 1);
    eventually("probes, and the guard sees them", WITHIN, || {
        let (readings, verdict, stuck) = look(&mut writer);
        readings[1] == Reading::Value && verdict.signal == SignalState::Fresh && verdict.rate > 0.1 && stuck == Some(0)
    });
    eventually("again and again", WITHIN, || segment.reads(1) > 10);
    assert_eq!(segment.reads(0), 0, "of the disk that nobody uses");
    let (_, verdict, _) = look(&mut writer);
    assert_eq!(verdict.worst.map(|series| series.kind), Some(Kind::PROBE_READ));

    // A busy disk tells itself.
    let busy = |writer: &mut SegmentWriter| (0..50).for_each(|_| client(writer, 1));
    (0..10).for_each(|_| {
        busy(&mut writer);
        std::thread::sleep(Duration::from_millis(200));
    });
    let before = segment.reads(1);
    (0..10).for_each(|_| {
        busy(&mut writer);
        std::thread::sleep(Duration::from_millis(200));
    });
    assert!(segment.reads(1) <= before + 1, "{before}, then {}", segment.reads(1));
    end(child);
    assert_eq!(std::fs::read_to_string(folders.path("log")).unwrap(), "");
}

/// A disk that hangs, when it is told to; counts who is in it.
struct Disk {
    hangs: Arc<(Mutex<bool>, Condvar)>,
    inside: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Reader for Disk {
    fn ready(&self) -> bool {
        true
    }
    fn read(&mut self, _device: (u32, u32)) -> Outcome {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        let mut hangs = self.hangs.0.lock().unwrap();
        while *hangs {
            hangs = self.hangs.1.wait(hangs).unwrap();
        }
        drop(hangs);
        self.inside.fetch_sub(1, Ordering::SeqCst);
        Outcome::Read(4096)
    }
}

#[test]
fn a_disk_that_hangs_holds_up_no_other_and_gets_no_second_read() {
    let (folders, config) = node(INTERVAL);
    let disks: Vec<_> = (0..96).map(|number| (format!("/data/{number:02}"), 8, number)).collect();
    let mut writer = storage(&folders.segment(), &disks);
    let hangs = Arc::new((Mutex::new(false), Condvar::new()));
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let free = Arc::new((Mutex::new(false), Condvar::new()));
    let (hang, count, peak) = (Arc::clone(&hangs), Arc::clone(&inside), Arc::clone(&most));
    let make = move |filesystem: &Filesystem| -> Box<dyn Reader> {
        match filesystem.path.as_str() {
            "/data/07" => {
                let (hangs, inside, most) = (Arc::clone(&hang), Arc::clone(&count), Arc::clone(&peak));
                Box::new(Disk { hangs, inside, most })
            }
            _ => Box::new(Disk { hangs: Arc::clone(&free), inside: Arc::default(), most: Arc::default() }),
        }
    };
    let shutdown = Arc::new(AtomicBool::new(false));
    let (stop, of) = (Arc::clone(&shutdown), config.clone());
    let thread = std::thread::spawn(move || probe::run(&of, Arc::new(SystemClock), &make, &stop).unwrap());
    let mut segment = Segment::new(&config);
    eventually("it follows the storage daemon", WITHIN, || segment.look().paths.len() == 96);
    std::thread::sleep(Duration::from_millis(300));
    let all_use = |writer: &mut SegmentWriter| (0..96).for_each(|filesystem| client(writer, filesystem));
    all_use(&mut writer);
    eventually("all are read", WITHIN, || segment.look().reads.len() == 96);

    *hangs.0.lock().unwrap() = true;
    eventually("one is stuck", WITHIN, || segment.look().ages.get(&7).is_some_and(|ages| ages[0] > 1_000_000_000));
    let before: Vec<u64> = (0..96).map(|filesystem| segment.reads(filesystem)).collect();
    eventually("the others go on", WITHIN, || {
        (0..96).filter(|f| *f != 7).all(|f| segment.reads(f) > before[usize::from(f)] + 5)
    });
    assert_eq!((segment.reads(7), most.load(Ordering::SeqCst)), (before[7], 1));

    // The storage daemon comes back with fewer disks, in another order: what is stuck is still seen, with its age, and left alone.
    drop(writer);
    let mut writer = storage(&folders.segment(), &[disks[3].clone(), disks[7].clone()]);
    eventually("it follows", WITHIN, || segment.look().paths == ["/data/03", "/data/07"]);
    std::thread::sleep(Duration::from_millis(300));
    (0..2).for_each(|filesystem| client(&mut writer, filesystem));
    eventually("the other one goes on", WITHIN, || segment.reads(0) > 5);
    let ages = segment.look().ages.get(&1).cloned().unwrap();
    assert!(ages.len() == 1 && ages[0] > 2_000_000_000, "{ages:?}");
    assert_eq!((segment.reads(1), most.load(Ordering::SeqCst)), (0, 1));

    *hangs.0.lock().unwrap() = false;
    hangs.1.notify_all();
    eventually("it moves", WITHIN, || segment.reads(1) > 3 && !segment.look().ages.contains_key(&1));
    assert_eq!(most.load(Ordering::SeqCst), 1);
    shutdown.store(true, Ordering::Relaxed);
    thread.join().unwrap();
}

#[test]
fn switched_off_no_disk_is_read() {
    let (folders, config) = node("[signals.probe]\nenabled = false\ninterval = \"200ms\"\n");
    let mut writer = storage(&folders.segment(), &[("/data/01".to_owned(), 8, 1)]);
    let most = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&most);
    let make = move |_: &Filesystem| -> Box<dyn Reader> {
        Box::new(Disk { hangs: Arc::default(), inside: Arc::default(), most: Arc::clone(&count) })
    };
    let shutdown = Arc::new(AtomicBool::new(false));
    let (stop, of) = (Arc::clone(&shutdown), config.clone());
    let thread = std::thread::spawn(move || probe::run(&of, Arc::new(SystemClock), &make, &stop).unwrap());
    let mut segment = Segment::new(&config);
    eventually("it follows the storage daemon", WITHIN, || segment.look().paths == ["/data/01"]);
    client(&mut writer, 0);
    std::thread::sleep(Duration::from_millis(1000));
    assert_eq!((segment.reads(0), most.load(Ordering::SeqCst)), (0, 0));
    shutdown.store(true, Ordering::Relaxed);
    thread.join().unwrap();
}

/// A program of this name that does this, first in the search path.
fn program(folders: &NodeFolders, script: &str) -> PathBuf {
    let folder = folders.path("bin");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("xrdcp");
    std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    folder
}

#[test]
fn a_file_is_read_as_a_client_would_and_one_that_cannot_be_is_no_reading() {
    const ROOT: &str = "[signals.probe]\nroot = \"root://localhost//store/probe\"\n";
    for (script, good) in [("echo \"$@\" > $(dirname $0)/said; sleep 0.2", true), ("exit 51", false)] {
        let (folders, config) = node(ROOT);
        let bin = program(&folders, script);
        let child = Command::new(env!("CARGO_BIN_EXE_beer-guard"))
            .args(["probe", "--config"])
            .arg(folders.path("guard.toml"))
            .env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()))
            .stderr(Stdio::from(std::fs::File::create(folders.path("log")).unwrap()))
            .spawn()
            .unwrap();
        let shared = Arc::new(Shared::default());
        let mut watch = Watch::new(&config, Arc::new(SystemClock), Arc::clone(&shared));
        let shutdown = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&shutdown);
        let thread = std::thread::spawn(move || watch.run(&stop));
        let reading = || shared.gauges.read(source_of("probe.root.seconds").unwrap(), 7);
        let log = || std::fs::read_to_string(folders.path("log")).unwrap();
        if good {
            let value = |reading| matches!(reading, policy::gauge::Reading::Value(v, _) if (0.2..10.0).contains(&v));
            eventually("a reading", WITHIN, || value(reading()));
            let said = std::fs::read_to_string(bin.join("said")).unwrap();
            assert_eq!(said, "--silent --force root://localhost//store/probe /dev/null\n");
            assert_eq!(log(), "");
        } else {
            eventually("what is wrong", WITHIN, || {
                log().contains("signals.probe.root: xrdcp: it failed (exit status: 51)")
            });
            assert_eq!(reading(), policy::gauge::Reading::Missing(7), "it becomes stale");
        }
        end(child);
        shutdown.store(true, Ordering::Relaxed);
        thread.join().unwrap();
    }
}

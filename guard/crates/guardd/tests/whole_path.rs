// SPDX-License-Identifier: Apache-2.0
//! The whole guard, as the service runs it: from a request in the segment to frozen tasks, the journal, the state
//! line and `/metrics`.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use guardd::clock::SystemClock;
use guardd::reload::Reload;
use intf::segment::layout::{Class, Kind, Op};
use intf::segment::synthetic::SegmentWriter;
use intf::segment::SeriesId;
use intf::status::Status;
use policy::Config;
use support::{eventually, monotonic_ns, NodeFolders, TestCgroup};

const LONG: Duration = Duration::from_secs(20);

/// A guard in a thread; ends with the test.
struct Running {
    shutdown: Arc<AtomicBool>,
    reload: Reload,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

fn nowhere() -> Reload {
    Reload { wanted: Arc::default(), path: "/nowhere/guard.toml".into() }
}

impl Running {
    fn start(text: &str) -> Self {
        Running::reloading(text, nowhere())
    }

    fn reloading(text: &str, reload: Reload) -> Self {
        let config = Config::parse("test", text).unwrap();
        let shutdown = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&shutdown);
        let wish = reload.clone();
        let thread = std::thread::spawn(move || guardd::run::run(&config, Arc::new(SystemClock), &flag, &wish));
        Running { shutdown, reload, thread: Some(thread) }
    }

    fn stop(mut self) {
        self.shutdown.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shutdown.store(true, Ordering::Relaxed);
    }
}

/// A storage daemon that serves one filesystem.
struct Storage {
    stop: Arc<AtomicBool>,
    stuck: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Storage {
    fn start(folders: &NodeFolders) -> Self {
        let mut writer =
            SegmentWriter::create(&folders.segment(), monotonic_ns(), &[("/data/01", 8, 0)], 64, 64).unwrap();
        let (stop, stuck) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (ended, hung) = (Arc::clone(&stop), Arc::clone(&stuck));
        let of = |class| SeriesId { filesystem: 0, kind: Kind::of(Op::Read, class).unwrap() };
        let thread = std::thread::spawn(move || {
            let mut hangs = false;
            while !ended.load(Ordering::Relaxed) {
                writer.heartbeat(monotonic_ns()).unwrap();
                if hung.load(Ordering::Relaxed) != hangs {
                    hangs = !hangs;
                    // One storage and one batch request go in and do not come out.
                    for (slot, class) in [(0, Class::Storage), (1, Class::Batch)] {
                        match hangs {
                            true => writer.begin(slot, of(class), monotonic_ns(), 65_536, None).unwrap(),
                            false => writer.end(slot).unwrap(),
                        }
                    }
                }
                if !hangs {
                    writer.complete(of(Class::Storage), 8_000_000, 65_536).unwrap();
                    writer.complete(of(Class::Batch), 8_000_000, 65_536).unwrap();
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Storage { stop, stuck, thread: Some(thread) }
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

/// An address that was free a moment ago.
fn free_address() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

fn metrics(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn from_a_stuck_request_to_frozen_jobs_and_back() {
    let Some(mut jobs) = TestCgroup::of_test("path") else { return };
    jobs.spin(1);
    let folders = NodeFolders::new();
    let address = &free_address();
    let storage = Storage::start(&folders);
    let guard = Running::start(&folders.config(&jobs.path, &format!("[metrics]\nlisten = \"{address}\"\n")));
    eventually("open", LONG, || folders.state().starts_with("state=open admit=1"));
    assert_eq!(folders.state().len(), 256);
    // Batch's share of the disk is known after two readings.
    eventually("batch share", LONG, || {
        metrics(address).contains("beer_filesystem_batch_ratio{filesystem=\"/data/01\"}")
    });

    storage.stuck.store(true, Ordering::Relaxed);
    eventually("frozen by the kernel", LONG, || jobs.frozen());
    eventually("held in the storage daemon", LONG, || metrics(address).contains("beer_storage_batch_held 1"));
    eventually("frozen in the state line", LONG, || folders.state().starts_with("state=frozen admit=0"));
    eventually("in the metrics", LONG, || {
        let text = metrics(address);
        text.contains("beer_state{state=\"frozen\"} 1")
            && text.contains("beer_actions_total{action=\"freeze\",outcome=\"done\"}")
    });

    storage.stuck.store(false, Ordering::Relaxed);
    eventually("thawed by the kernel", LONG, || !jobs.frozen());
    eventually("let go in the storage daemon", LONG, || metrics(address).contains("beer_storage_batch_held 0"));
    eventually("open again", LONG, || folders.state().starts_with("state=open"));
    guard.stop();

    assert!(folders.state().contains("reason=guard_stopped"), "{}", folders.state());
    let journal = folders.journal();
    let freeze = journal.iter().find(|record| record.action == "freeze").unwrap();
    assert_eq!((freeze.outcome, freeze.cause.as_str()), (intf::journal::Outcome::Done, "stuck"));
    assert!(freeze.duration_ns > 0 && freeze.evidence.as_ref().unwrap().series.contains("/data/01"), "{freeze:?}");
    assert!(journal.iter().any(|record| record.action == "thaw"));
}

#[test]
fn a_guard_that_is_stopped_leaves_nothing_frozen() {
    let Some(mut jobs) = TestCgroup::of_test("stop") else { return };
    jobs.spin(1);
    jobs.write("cgroup.freeze", "1");
    let folders = NodeFolders::new();
    // No storage daemon: what was found frozen is adopted, and there is no reason to thaw it yet.
    let guard = Running::start(&folders.config(&jobs.path, "[metrics]\nlisten = \"off\"\n"));
    eventually("adopted", LONG, || folders.journal().iter().any(|record| record.cause == "adopted"));
    guard.stop();
    eventually("thawed", LONG, || !jobs.frozen());
}

/// One order, as `beer` gives it.
fn order(folders: &NodeFolders, line: &str) -> String {
    let mut stream = std::os::unix::net::UnixStream::connect(folders.path("run").join(intf::order::SOCKET)).unwrap();
    stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn operators_take_batch_off_the_node_and_give_it_back() {
    let Some(mut jobs) = TestCgroup::of_test("orders") else { return };
    jobs.spin(1);
    let folders = NodeFolders::new();
    let _storage = Storage::start(&folders);
    let text = folders.config(&jobs.path, "[metrics]\nlisten = \"off\"\n");
    let guard = Running::start(&text);
    eventually("open", LONG, || folders.state().starts_with("state=open admit=1"));
    assert!(order(&folders, "{\"do\":\"drain\",\"why\":\"new disks\"}").contains("\"done\":true"));
    eventually("drained", LONG, || {
        folders.state().contains("state=closed admit=0") && folders.state().contains("drained")
    });
    assert!(!jobs.frozen(), "what runs runs on");
    // Another guard knows it from its first tick on.
    guard.stop();
    let guard = Running::start(&text);
    eventually("drained still", LONG, || folders.state().contains("reason=drained"));
    assert!(order(&folders, "{\"do\":\"resume\"}").contains("\"done\":true"));
    eventually("open again", LONG, || folders.state().starts_with("state=open admit=1"));
    assert!(order(&folders, "{\"do\":\"freeze\",\"seconds\":2}").contains("\"done\":true"));
    eventually("frozen by order", LONG, || jobs.frozen() && folders.state().contains("reason=ordered"));
    eventually("thawed when its time is over", LONG, || !jobs.frozen());
    eventually("open after it", LONG, || folders.state().starts_with("state=open admit=1"));
    guard.stop();
    let journal = folders.journal();
    let given: Vec<_> = journal.iter().filter(|record| record.cause == "operator").collect();
    assert_eq!(given.iter().map(|record| record.action.as_str()).collect::<Vec<_>>(), ["drain", "resume", "hold"]);
    assert!(!given[0].by.is_empty() && given[0].sentence().ends_with("drained the node because new disks."));
    assert!(given[2].sentence().ends_with("asked for a freeze of 2.0 s."), "{}", given[2].sentence());
    assert!(journal.iter().any(|record| record.cause == "order_over" && record.action == "thaw"));
}

#[test]
fn a_configuration_is_taken_over_while_a_job_stands_still() {
    let Some(mut jobs) = TestCgroup::of_test("reload") else { return };
    jobs.spin(1);
    let folders = NodeFolders::new();
    let storage = Storage::start(&folders);
    let address = &free_address();
    let text = |more: &str| folders.config(&jobs.path, &format!("[metrics]\nlisten = \"{address}\"\n{more}"));
    let path = folders.path("guard.toml");
    let guard = Running::reloading(&text(""), Reload { path: path.clone(), ..nowhere() });
    let wanted = Arc::clone(&guard.reload.wanted);
    let reload = |text: &str| {
        std::fs::write(&path, text).unwrap();
        wanted.store(true, Ordering::Relaxed);
        eventually("it was looked at", LONG, || !wanted.load(Ordering::Relaxed));
    };
    eventually("open", LONG, || folders.state().starts_with("state=open admit=1"));
    storage.stuck.store(true, Ordering::Relaxed);
    eventually("frozen", LONG, || jobs.frozen());
    reload("[ladder]\nhold = 5\n");
    eventually("refused, and said", LONG, || metrics(address).contains("beer_config_last_reload_successful 0"));
    eventually("in the status", LONG, || {
        std::fs::read_to_string(folders.path("run/status.json")).unwrap().contains("ladder.hold")
    });
    assert!(jobs.frozen(), "what was in force stays so");
    // Another promise too: what is known of the disk's requests in flight is known of it at once.
    let objective = "[[objective]]\nname = \"reads\"\nop = \"read\"\nclass = \"storage\"\nfilesystem = \"*\"\n\
                     threshold = \"100ms\"\nshare = \"1%\"\nweak = 12.0\nstrong = 24.0\ndwell = \"1s\"\n\
                     stuck_after = \"800ms\"\ngrace = \"2s\"\n";
    reload(&text(&format!("[ladder]\nhold = \"1s\"\n[capacity]\ncores = 1\n{objective}")));
    eventually("in force", LONG, || metrics(address).contains("beer_objective_slack{objective=\"reads\"}"));
    assert!(metrics(address).contains("beer_config_last_reload_successful 1"));
    assert!(jobs.frozen(), "nobody is thawed for it");
    assert!(!folders.journal().iter().any(|record| record.action == "thaw"));
    storage.stuck.store(false, Ordering::Relaxed);
    eventually("thawed", LONG, || !jobs.frozen());
    eventually("one core is offered", LONG, || folders.state().contains("cores=1 "));
    guard.stop();
}

#[test]
fn without_slice_and_segment_it_is_closed_and_says_why() {
    let folders = NodeFolders::new();
    let slice = folders.path("cgroup/beer-jobs.slice");
    let address = &free_address();
    // Somebody else has the address at first; that is no reason not to guard.
    let taken = std::net::TcpListener::bind(address).unwrap();
    let guard = Running::start(&folders.config(&slice, &format!("[metrics]\nlisten = \"{address}\"\n")));
    eventually("closed", LONG, || folders.state().starts_with("state=closed admit=0"));
    let status =
        || serde_json::from_slice::<Status>(&std::fs::read(folders.path("run/status.json")).unwrap_or_default());
    eventually("told in the status", LONG, || {
        let latency = |status: &Status| status.signals.iter().find(|signal| signal.name == "latency").cloned();
        status().ok().and_then(|s| latency(&s)).is_some_and(|signal| signal.error.contains("beer.lat: not found"))
    });
    drop(taken);
    eventually("metrics", LONG, || TcpStream::connect(address).is_ok());
    let text = metrics(address);
    for line in [
        "beer_guard_signal_success{signal=\"latency\"} 0",
        "beer_jobs_slice_present 0",
        "beer_state{state=\"closed\"} 1",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    // A second guard must not work against the first.
    let config = Config::parse("test", &folders.config(&slice, "[metrics]\nlisten = \"off\"\n")).unwrap();
    let error =
        guardd::run::run(&config, Arc::new(SystemClock), &Arc::new(AtomicBool::new(false)), &nowhere()).unwrap_err();
    assert!(format!("{error:#}").contains("another beer-guard runs"), "{error:#}");
    guard.stop();
}

#[test]
fn a_journal_that_hangs_stops_neither_loop_nor_metrics() {
    let folders = NodeFolders::new();
    // Opening a FIFO without a reader never returns: the worst of disks.
    let fifo = folders.path("journal/guard-0000000001.jsonl");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0)
        .unwrap();
    let _storage = Storage::start(&folders);
    let address = &free_address();
    let slice = folders.path("cgroup/beer-jobs.slice");
    std::fs::create_dir_all(&slice).unwrap();
    for (file, text) in [("cgroup.freeze", "0\n"), ("cgroup.events", "populated 0\nfrozen 0\n")] {
        std::fs::write(slice.join(file), text).unwrap();
    }
    let guard = Running::start(&folders.config(&slice, &format!("[metrics]\nlisten = \"{address}\"\n")));
    eventually("open in spite of it", LONG, || folders.state().starts_with("state=open"));
    let ticks =
        || metrics(address).lines().find_map(|line| line.strip_prefix("beer_guard_ticks_total ")?.parse::<u64>().ok());
    let before = ticks().unwrap();
    eventually("the loop goes on", LONG, || ticks().unwrap() > before + 20);
    assert!(metrics(address).contains("beer_journal_records_total 0\n"));
    guard.stop();
}

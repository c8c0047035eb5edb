// SPDX-License-Identifier: Apache-2.0
//! beer-guard as it is called: exit codes, and one line that names file and key.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use intf::segment::synthetic::SegmentWriter;
use intf::state::NodeState;
use support::{monotonic_ns, NodeFolders};

fn guard(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_beer-guard")).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn config(folders: &NodeFolders, more: &str) -> String {
    let path = folders.path("guard.toml");
    std::fs::write(&path, folders.config(&folders.slice(), more)).unwrap();
    path.display().to_string()
}

#[test]
fn the_shipped_configuration_is_good_and_states_its_rates() {
    let folders = NodeFolders::new();
    let path = folders.path("guard.toml");
    std::fs::write(&path, policy::Config::example()).unwrap();
    let output = guard(&["check-config", "--quiet", path.to_str().unwrap()]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{}: good\n", path.display()));
    assert!(output.status.success());
    let output = guard(&["check-config", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("guard.toml: good\n") && text.contains("e-5 false freezes in"), "{text}");
    assert!(text.contains(" is suspected after ") && text.contains(" and found after "), "{text}");
    assert_eq!(text.matches("its error budget of 6h, which closes it for longer: 2x 2").count(), 3, "{text}");
}

/// `ExecStopPost=`, and what systemd tells it (systemd.exec(5), `$SERVICE_RESULT`). A dry run asks systemd for nothing.
#[test]
fn who_refused_its_configuration_has_touched_nothing_and_neither_does_its_end() {
    let folders = NodeFolders::new();
    let config = config(&folders, "[node]\ndry_run = true\n");
    std::fs::create_dir_all(folders.slice()).unwrap();
    std::fs::write(folders.slice().join("cgroup.events"), "populated 1\nfrozen 1\n").unwrap();
    for (result, status, thaws) in [("success", "2", false), ("exit-code", "1", false), ("success", "0", true)] {
        std::fs::write(folders.slice().join("cgroup.freeze"), "1\n").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_beer-guard"))
            .args(["failsafe", "--config", &config])
            .envs([("SERVICE_RESULT", result), ("EXIT_CODE", "exited"), ("EXIT_STATUS", status)])
            .output()
            .unwrap();
        let frozen = std::fs::read_to_string(folders.slice().join("cgroup.freeze")).unwrap();
        assert_eq!(frozen.starts_with('0'), thaws, "{result} {status}: {}", said(&output));
    }
}

#[test]
fn a_bad_configuration_is_one_line_and_2() {
    let folders = NodeFolders::new();
    for (text, key) in [
        ("[loop]\ntick = 20\n", "loop.tick"),
        ("[loop]\ntock = \"20ms\"\n", "loop.tock"),
        ("[loop]\ntick = \"never\"\n", "loop.tick"),
        ("[loop\n", "line 1"),
    ] {
        let path = folders.path("bad.toml");
        std::fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap();
        for arguments in [&["check-config", path][..], &["run", "--config", path][..]] {
            let output = guard(arguments);
            let said = said(&output);
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert_eq!(said.trim_end().lines().count(), 1, "{said}");
            assert!(said.contains(path) && said.contains(key), "{key} is not in {said}");
        }
    }
    let output = guard(&["check-config", "/nowhere/guard.toml"]);
    assert_eq!((output.status.code(), said(&output).contains("/nowhere/guard.toml: ")), (Some(2), true));
    assert!(!folders.path("run/state").exists(), "nothing was touched");
}

#[test]
fn live_names_what_is_missing() {
    let folders = NodeFolders::new();
    let path = config(&folders, "");
    let live = || guard(&["check-config", "--live", &path]);
    let output = live();
    assert_eq!(output.status.code(), Some(1));
    let text = said(&output);
    assert!(text.contains("beer-jobs.slice: no such slice") && text.contains("beer.lat: not found"), "{text}");
    let stated = String::from_utf8(output.stdout).unwrap();
    assert!(stated.contains("\npressure: ") && !stated.contains(": good"), "{stated}");
    assert!(guard(&["check-config", "--live", "--quiet", &path]).stdout.is_empty());

    std::fs::create_dir_all(folders.slice()).unwrap();
    let text = said(&live());
    assert!(text.contains("beer-jobs.slice/io.stat: No such file"), "{text}");
    for file in ["cgroup.freeze", "cgroup.events", "cgroup.kill", "io.stat", "io.max"] {
        std::fs::write(folders.slice().join(file), "").unwrap();
    }
    let _writer = SegmentWriter::create(&folders.segment(), 1, &[("/data/01", 8, 0)], 64, 64).unwrap();
    config(&folders, "[signals.probe]\nenabled = false\n");
    let output = live();
    assert_eq!(output.status.code(), Some(0), "disks are not to be probed: {}", said(&output));
    config(&folders, "");
    let output = live();
    let text = said(&output);
    assert!(text.contains("probe.lat: beer-probe does not run (systemctl status beer-probe)"), "{text}");
    assert_eq!((output.status.code(), text.lines().count()), (Some(1), 1), "{text}");
    std::fs::create_dir(folders.path("probe")).unwrap();
    let mut probe = SegmentWriter::create(&folders.path("probe/probe.lat"), 1, &[("/data/01", 8, 0)], 64, 64).unwrap();
    let text = said(&live());
    assert!(text.contains("probe.lat: its heartbeat is old (systemctl status beer-probe)"), "{text}");
    let mut live = || {
        probe.heartbeat(monotonic_ns()).unwrap();
        guard(&["check-config", "--live", &path])
    };
    let output = live();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.lines().any(|line| line.starts_with("pressure: ")), "{text}");

    let other = folders.path("storage/other.lat");
    let mut writer = SegmentWriter::create(&other, 1, &[("/data/02", 8, 16)], 64, 64).unwrap();
    let output = live();
    assert_eq!(output.status.code(), Some(0), "nobody writes there any more: {}", said(&output));
    writer.heartbeat(monotonic_ns()).unwrap();
    let text = said(&live());
    assert!(text.contains("other.lat: not watched, since signals.latency.segment names another"), "{text}");
    std::fs::remove_file(other).unwrap();

    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().write(true).open(folders.segment()).unwrap();
    file.write_all_at(&[7], 8).unwrap();
    let output = live();
    assert_eq!(output.status.code(), Some(1));
    let text = said(&output);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("beer.lat: layout version 7"), "{text}");
}

#[test]
fn startd_cron_tells_changes_at_once_and_ends_with_its_reader() {
    let folders = NodeFolders::new();
    let path = config(&folders, "");
    folders.write_state(NodeState::Open, monotonic_ns());
    let mut child = Command::new(env!("CARGO_BIN_EXE_beer-guard"))
        .args(["startd-cron", "--config", &path])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut ad = || {
        let mut lines = String::new();
        while !lines.ends_with("- update:true\n") {
            assert!(std::io::BufRead::read_line(&mut out, &mut lines).unwrap() > 0, "ended after {lines}");
        }
        lines
    };
    assert_eq!(
        ad(),
        "BeerState = \"open\"\nBeerAdmit = true\nBeerCores = 3\nBeerMemoryMB = 512\nBeerVacateSlots = \"\"\n\
         BeerReason = \"slack\"\nBeerHeartbeat = 7\n- update:true\n"
    );
    let changed = Instant::now();
    folders.write_state(NodeState::Frozen, monotonic_ns());
    assert!(ad().starts_with("BeerState = \"frozen\"\nBeerAdmit = false\n"));
    assert!(changed.elapsed() < Duration::from_secs(2), "{:?}", changed.elapsed());
    std::fs::write(folders.path("run/vacate"), "slot1_1,slot1_3\n").unwrap();
    folders.write_state(NodeState::Vacating, monotonic_ns());
    assert!(ad().contains("BeerVacateSlots = \"slot1_1,slot1_3\"\n"));
    drop(out);
    let end = Instant::now() + Duration::from_secs(5);
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < end, "it goes on without a reader");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_hangup_reads_the_configuration_anew_and_a_bad_one_ends_nothing() {
    let folders = NodeFolders::new();
    let path = config(&folders, "[metrics]\nlisten = \"off\"\n");
    let log = folders.path("log");
    let mut child = Command::new(env!("CARGO_BIN_EXE_beer-guard"))
        .args(["run", "--config", &path])
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    let hang_up = || rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    let within = Duration::from_secs(20);
    let logged = |part: &str| std::fs::read_to_string(&log).unwrap().contains(part);
    support::eventually("it runs", within, || folders.path("run/state").exists());
    std::fs::write(&path, "[loop]\ntick = 20\n").unwrap();
    hang_up();
    support::eventually("refused", within, || logged("guard.toml: loop.tick: "));
    config(&folders, "[metrics]\nlisten = \"127.0.0.1:1\"\n");
    hang_up();
    support::eventually("taken over", within, || logged("needs a restart: metrics"));
    assert!(child.try_wait().unwrap().is_none());
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
}

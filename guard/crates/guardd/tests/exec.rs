// SPDX-License-Identifier: Apache-2.0
//! A signal of the site's own, from the command that prints it to the gauge.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use guardd::clock::SystemClock;
use guardd::shared::Shared;
use guardd::watch::Watch;
use guardd::{check, exec};
use policy::gauge::{Reading, SOURCES};
use policy::Config;
use support::{eventually, monotonic_ns, NodeFolders};

const WITHIN: Duration = Duration::from_secs(20);

/// A configuration with this script as a command, and its readings' folder.
fn node(script: &str) -> (NodeFolders, Config) {
    node_every(script, "1s")
}

fn node_every(script: &str, interval: &str) -> (NodeFolders, Config) {
    let folders = NodeFolders::new();
    std::fs::create_dir_all(folders.path("exec/site")).unwrap();
    let program = folders.path("script");
    std::fs::write(&program, script).unwrap();
    let more = format!(
        "[[exec]]\nname = \"site\"\ncommand = [\"/bin/sh\", \"{}\"]\ninterval = \"{interval}\"\ntimeout = \"{interval}\"\nmetrics = [\"a\", \"b.c\"]\n\
         [[gauge]]\nname = \"site\"\nsource = \"exec.site.b.c\"\nabove = 1\ngrace = \"60s\"\n",
        program.display()
    );
    let text = folders.config(&folders.slice(), &more);
    std::fs::write(folders.path("guard.toml"), &text).unwrap();
    (folders, Config::parse("test", &text).unwrap())
}

fn command(folders: &NodeFolders, name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_beer-guard"));
    command.args(["run-exec", name, "--config"]).arg(folders.path("guard.toml"));
    command.stderr(Stdio::from(std::fs::File::create(folders.path("log")).unwrap()));
    command
}

fn run_exec(folders: &NodeFolders, name: &str) -> Child {
    command(folders, name).spawn().unwrap()
}

fn end(mut child: Child) {
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
}

fn faults_of_it(config: &Config) -> Vec<String> {
    check::live(config, &SystemClock).into_iter().filter(|fault| fault.contains("readings.json")).collect()
}

#[test]
fn what_a_command_prints_is_what_the_guard_reads() {
    let (folders, config) = node("echo '{\"a\": 1, \"other\": \"x\"}'; echo '{\"b.c\": 2.5}'\n");
    assert!(faults_of_it(&config)[0].contains("there are no readings (systemctl status beer-exec@site)"));
    let begun_ns = monotonic_ns();
    let child = run_exec(&folders, "site");
    let shared = Arc::new(Shared::default());
    let mut watch = Watch::new(&config, Arc::new(SystemClock), Arc::clone(&shared));
    let shutdown = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&shutdown);
    let thread = std::thread::spawn(move || watch.run(&stop));
    let reading = |number| shared.gauges.read(SOURCES.len() + number, 1);
    let value = |reading| match reading {
        Reading::Value(value, at_ns) if (begun_ns..=monotonic_ns()).contains(&at_ns) => Some((value, at_ns)),
        _ => None,
    };
    eventually("a reading", WITHIN, || value(reading(1)).is_some());
    let (first, at_ns) = value(reading(1)).unwrap();
    assert_eq!((first, value(reading(0)).map(|(value, _)| value)), (2.5, Some(1.0)));
    assert_eq!(config.gauges[0].source, SOURCES.len() + 1);
    eventually("another one", WITHIN, || value(reading(1)).is_some_and(|(_, later_ns)| later_ns > at_ns));
    assert_eq!(faults_of_it(&config), Vec::<String>::new());
    end(child);
    shutdown.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    let after = reading(1);
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(reading(1), after, "nobody writes it, and it grows old");
}

#[test]
fn whoever_waited_for_the_start_finds_readings() {
    let (folders, config) = node_every("sleep 1; echo \"{\\\"a\\\": ${#NOTIFY_SOCKET}, \\\"b.c\\\": 1}\"\n", "10s");
    let systemd = UnixDatagram::bind(folders.path("notify")).unwrap();
    systemd.set_read_timeout(Some(WITHIN)).unwrap();
    let child = command(&folders, "site").env("NOTIFY_SOCKET", folders.path("notify")).spawn().unwrap();
    let mut told = [0; 64];
    let length = systemd.recv(&mut told).unwrap();
    assert_eq!(String::from_utf8_lossy(&told[..length]).trim(), "READY=1");
    assert_eq!(faults_of_it(&config), Vec::<String>::new());
    let readings = std::fs::read_to_string(folders.path("exec/site/readings.json")).unwrap();
    let readings: intf::exec::Readings = serde_json::from_str(&readings).unwrap();
    assert_eq!(readings.values["a"].value, 0.0, "the command cannot tell systemd anything");
    end(child);
}

#[test]
fn one_that_hangs_is_killed_each_time_and_gives_nothing() {
    let (folders, config) = node("echo '{\"a\": 1}'; echo $$ >> $(dirname $0)/pids; sleep 600\n");
    let child = run_exec(&folders, "site");
    let log = |part: &str| std::fs::read_to_string(folders.path("log")).unwrap().contains(part);
    eventually("killed", WITHIN, || log("exec site: it had not ended after 1 s"));
    let pids = || std::fs::read_to_string(folders.path("pids")).unwrap_or_default();
    eventually("again", WITHIN, || pids().lines().count() > 1);
    assert!(!Path::new("/proc").join(pids().lines().next().unwrap()).exists());
    let found = faults_of_it(&config);
    assert!(found[0].contains("`a` was not printed for 4s"), "{found:?}");
    end(child);
    let log = std::fs::read_to_string(folders.path("log")).unwrap();
    assert_eq!(log.lines().count(), 1, "told once: {log}");
    let last = pids().lines().last().unwrap().to_owned();
    assert!(!Path::new("/proc").join(last).exists(), "the end of the service is that of its command");
}

#[test]
fn a_name_that_is_not_configured_is_2_and_says_which_are() {
    let (folders, config) = node("");
    let mut child = run_exec(&folders, "sites");
    assert_eq!(child.wait().unwrap().code(), Some(2));
    let said = std::fs::read_to_string(folders.path("log")).unwrap();
    assert!(said.contains("guard.toml: exec: none is named `sites`; there are: site\n"), "{said}");
    let file = exec::readings_of(&config, &config.exec[0]);
    assert_eq!((file, config.exec.len()), (folders.path("exec/site/readings.json"), 1));
}

// SPDX-License-Identifier: Apache-2.0
//! `beer status`.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use guardd::clock::Clock;
use guardd::control::StateFile;
use guardd::heartbeat;
use intf::journal::Evidence;
use intf::state::NodeState;
use intf::status::{FilesystemStatus, GaugeStatus, JobStatus, LimitStatus, ObjectiveStatus, SignalStatus, Status};

use crate::say;
use crate::stuck::Stuck;

/// As the startd helper judges it.
const STALE_NS: u64 = 5_000_000_000;
const PROC: &str = "/proc";

/// Prints it. Exit status 3 when there is no living guard.
pub fn show(run: &Path, json: bool, clock: &dyn Clock, out: &mut impl Write) -> Result<ExitCode> {
    let state = heartbeat::read(&run.join(StateFile::NAME));
    let age_ns = state.as_ref().ok().map(|line| heartbeat::age_ns(line, clock));
    let alive = age_ns.is_some_and(|age_ns| age_ns <= STALE_NS);
    let path = run.join("status.json");
    let text = match std::fs::read_to_string(&path) {
        Err(_) if !alive => return no_guard(run, json, age_ns, out),
        text => text.with_context(|| format!("{}", path.display()))?,
    };
    let status: Status = serde_json::from_str(&text).with_context(|| format!("{}", path.display()))?;
    let stuck: Vec<Stuck> = status.stuck_threads.iter().map(|thread| Stuck::of(Path::new(PROC), *thread)).collect();
    if json {
        let mut value: serde_json::Value = serde_json::to_value(&status)?;
        if let Some(object) = value.as_object_mut() {
            object.insert("alive".into(), alive.into());
            object.insert("heartbeat_age_ns".into(), age_ns.into());
            object.insert("stuck_threads".into(), serde_json::to_value(&stuck)?);
        }
        writeln!(out, "{value:#}")?;
    } else {
        if !alive {
            writeln!(out, "NO GUARD IS ALIVE ({}); below is the last that it said.", heartbeat_age(age_ns))?;
        }
        write!(out, "{}", text_of(&status, &stuck, clock.realtime_ns()))?;
    }
    Ok(if alive { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

fn no_guard(run: &Path, json: bool, age_ns: Option<u64>, out: &mut impl Write) -> Result<ExitCode> {
    if json {
        writeln!(out, "{}", serde_json::json!({ "alive": false, "heartbeat_age_ns": age_ns }))?;
    } else {
        writeln!(out, "No guard is alive: nothing usable in {} ({}).", run.display(), heartbeat_age(age_ns))?;
    }
    Ok(ExitCode::from(3))
}

fn heartbeat_age(age_ns: Option<u64>) -> String {
    match age_ns {
        None => "no heartbeat".into(),
        Some(u64::MAX) => "its heartbeat is of another boot".into(),
        Some(age_ns) => format!("heartbeat {} old", say::duration(age_ns)),
    }
}

fn text_of(status: &Status, stuck: &[Stuck], now_ns: u64) -> String {
    let mut lines = Vec::new();
    let precaution = if status.precaution { ", as a precaution" } else { "" };
    lines.push(format!(
        "{}: {}{precaution} for {} ({}); {}",
        status.node,
        status.state,
        say::duration(status.state_ns),
        status.reason,
        if status.admit { "new jobs may start" } else { "no new jobs" }
    ));
    if status.dry_run {
        lines.push("  DRY RUN     nothing of this is done (node.dry_run)".to_owned());
    }
    let jobs = say::count(status.jobs.into(), "job");
    lines.push(format!(
        "  batch       {jobs}; {} and {} MiB offered",
        say::count(status.cores.into(), "core"),
        status.memory_mb
    ));
    if !status.configuration_error.is_empty() {
        lines.push(format!("  REFUSED     {}; what was in force before stays so", status.configuration_error));
    }
    if status.state == NodeState::Frozen {
        lines.push(format!("  frozen      since {}", say::time(now_ns.saturating_sub(status.state_ns))));
    }
    lines.extend(
        status
            .squeezed
            .iter()
            .map(|(of, share)| format!("  squeezed    batch as a whole may have {:.0} % of its {of}", share * 100.0)),
    );
    lines.extend(status.together.iter().map(|all| format!("  limited     all jobs together: {}", limit(all))));
    lines.extend(status.each_job.iter().map(job));
    lines.extend(status.objectives.iter().map(objective));
    lines.extend(status.gauges.iter().map(gauge));
    lines.extend(status.filesystems.iter().map(filesystem));
    lines.extend(stuck.iter().map(Stuck::to_string));
    lines.extend(status.signals.iter().map(signal));
    let precautions = &status.precautions;
    lines.push(format!(
        "  precautions {} of which {} needless, {:.3} % of the last hour{}",
        precautions.count,
        precautions.needless,
        precautions.needless_share * 100.0,
        if precautions.suspended { "; SUSPENDED, they cost too much" } else { "" }
    ));
    let cost = &status.control_loop;
    lines.push(format!(
        "  guard       {} up, tick {} (longest {}), {} late, {} KiB resident",
        say::duration(now_ns.saturating_sub(status.started_ns)),
        say::duration(cost.mean_ns),
        say::duration(cost.max_ns),
        cost.late,
        cost.rss_bytes / 1024
    ));
    if let Some(last) = &status.last {
        let ago = say::duration(now_ns.saturating_sub(last.time_ns));
        lines.push(format!("  last        {ago} ago: {}", last.sentence()));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn limit(limit: &LimitStatus) -> String {
    format!("at most {} requests/s and {:.1} MB/s of {}", limit.requests, limit.bytes as f64 / 1e6, limit.device)
}

fn job(status: &JobStatus) -> String {
    let does = match (status.leaves, status.held) {
        (true, _) => "stands still until HTCondor has ended it",
        (false, true) => "stands still",
        (false, false) => "runs",
    };
    let mut allowed = vec![does.to_owned()];
    allowed.extend(status.limits.iter().map(limit));
    format!("  job         {}: {}", status.job.name(), allowed.join(", "))
}

fn objective(objective: &ObjectiveStatus) -> String {
    let ObjectiveStatus { name, level, signal, slack, budget_left, burn_rate, rate, dependence, worst } = objective;
    let worst = worst.as_ref().map(|evidence| format!("; worst: {}", measured(evidence))).unwrap_or_default();
    let signal = if signal == "fresh" { String::new() } else { format!(", signal {signal}") };
    let baseline = dependence.map_or(", no baseline yet".into(), |k| format!(", dependence {k:.1}"));
    let budget =
        budget_left.map(|left| format!(", {:.1} % of the error budget left", left * 100.0)).unwrap_or_default();
    let burning = burn_rate.map(|rate| format!(", SPENT {rate:.1} TIMES AS FAST AS IT MAY")).unwrap_or_default();
    format!("  objective   {name}: slack {slack:.2}, {level}, {rate:.1} requests/s{baseline}{signal}{budget}{burning}{worst}")
}

fn gauge(gauge: &GaugeStatus) -> String {
    let GaugeStatus { name, state, value, limit, state_ns, age_ns, error } = gauge;
    let read = match age_ns.filter(|_| state == "stale") {
        Some(age_ns) => format!(", read {} ago", say::duration(age_ns)),
        None => String::new(),
    };
    let why = if error.is_empty() { String::new() } else { format!(": {error}") };
    format!("  gauge       {name}: {value:.2} of {limit:.2}, {state} for {}{read}{why}", say::duration(*state_ns))
}

fn measured(evidence: &Evidence) -> String {
    format!("{} {:.2} of {:.2} {}", evidence.series, evidence.value, evidence.limit, evidence.unit)
}

fn filesystem(filesystem: &FilesystemStatus) -> String {
    let share = filesystem.batch_share.map(|share| format!(", {:.0} % batch", share * 100.0)).unwrap_or_default();
    let oldest = match filesystem.oldest_ns {
        0 => String::new(),
        age => format!(" (oldest {})", say::duration(age)),
    };
    format!(
        "  filesystem  {}: {} storage{oldest} and {} batch requests in flight{share}{}{}{}",
        filesystem.path,
        filesystem.storage_in_flight,
        filesystem.batch_in_flight,
        if filesystem.filled { "; its clients fill the disk" } else { "" },
        if filesystem.quarantined { "; STUCK without batch, look at the disk" } else { "" },
        if filesystem.disk_gone { "; its DISK IS GONE, the kernel has it no more" } else { "" }
    )
}

fn signal(signal: &SignalStatus) -> String {
    match (signal.ok, signal.error.as_str()) {
        (true, _) => format!("  signal      {}: good", signal.name),
        (false, "") => format!("  signal      {}: no value", signal.name),
        (false, error) => format!("  signal      {}: {error}", signal.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use intf::journal::Job;
    use intf::state::{StateLine, STATE_LINE_BYTES};

    struct At(u64);
    impl Clock for At {
        fn monotonic_ns(&self) -> u64 {
            self.0
        }
        fn realtime_ns(&self) -> u64 {
            1_795_173_354_000_000_000
        }
    }

    fn run_folder(heartbeat_ns: u64) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let mut line = [0; STATE_LINE_BYTES];
        let state = NodeState::Frozen;
        let fields = StateLine {
            state,
            admit: false,
            heartbeat: 1,
            monotonic_ns: heartbeat_ns,
            reason: "stuck",
            cores: 0,
            memory_mb: 0,
        };
        fields.format(&mut line);
        std::fs::write(dir.path().join("state"), line).unwrap();
        let status = Status {
            node: "node1".into(),
            state,
            state_ns: 3_000_000_000,
            objectives: vec![ObjectiveStatus {
                name: "reads".into(),
                slack: -0.5,
                budget_left: Some(0.871),
                burn_rate: Some(7.24),
                level: "strong".into(),
                ..Default::default()
            }],
            each_job: vec![
                JobStatus {
                    job: Job { scope: "a.scope".into(), id: "12.0".into(), owner: "alice".into(), ..Job::default() },
                    held: true,
                    ..JobStatus::default()
                },
                JobStatus {
                    job: Job { scope: "c.scope".into(), ..Job::default() },
                    leaves: true,
                    held: true,
                    ..JobStatus::default()
                },
                JobStatus {
                    job: Job { scope: "b.scope".into(), ..Job::default() },
                    limits: vec![LimitStatus { device: "8:16".into(), requests: 40, bytes: 2_500_000 }],
                    ..JobStatus::default()
                },
            ],
            together: vec![LimitStatus { device: "8:16".into(), requests: 8, bytes: 3_000_000 }],
            gauges: ["broken", "stale"]
                .map(|state| GaugeStatus {
                    name: "storage-memory".into(),
                    state: state.into(),
                    value: 0.25,
                    limit: 0.1,
                    state_ns: 3_000_000_000,
                    age_ns: Some(14_000_000_000),
                    error: if state == "stale" { "memory.stat: it is a secret".into() } else { String::new() },
                })
                .into(),
            filesystems: vec![FilesystemStatus {
                path: "/data/03".into(),
                filled: true,
                disk_gone: true,
                ..Default::default()
            }],
            // None has this number (kernel, threads.h, PID_MAX_LIMIT).
            stuck_threads: vec![1 << 30],
            dry_run: true,
            configuration_error: "guard.toml: loop.tick: 20".into(),
            signals: vec![SignalStatus { name: "psi".into(), error: "psi=1 missing".into(), ..Default::default() }],
            ..Status::default()
        };
        std::fs::write(dir.path().join("status.json"), serde_json::to_vec(&status).unwrap()).unwrap();
        dir
    }

    fn shown(run: &Path, json: bool, clock: &dyn Clock) -> (String, ExitCode) {
        let mut out = Vec::new();
        let code = show(run, json, clock, &mut out).unwrap();
        (String::from_utf8(out).unwrap(), code)
    }

    #[test]
    fn says_state_slack_and_faults() {
        let run = run_folder(1_000);
        let (text, code) = shown(run.path(), false, &At(2_000));
        assert_eq!(code, ExitCode::SUCCESS);
        for part in [
            "node1: frozen for 3.0 s",
            "no new jobs",
            "since 2026-11-20 11:15:51",
            "slack -0.50",
            "no baseline yet, signal , 87.1 % of the error budget left, SPENT 7.2 TIMES AS FAST AS IT MAY",
            "psi=1 missing",
            "job         12.0 of alice: stands still\n",
            "job         b.scope: runs, at most 40 requests/s and 2.5 MB/s of 8:16\n",
            "limited     all jobs together: at most 8 requests/s and 3.0 MB/s of 8:16\n",
            "job         c.scope: stands still until HTCondor has ended it\n",
            "gauge       storage-memory: 0.25 of 0.10, broken for 3.0 s\n",
            "gauge       storage-memory: 0.25 of 0.10, stale for 3.0 s, read 14 s ago: memory.stat: it is a secret\n",
            "filesystem  /data/03: 0 storage and 0 batch requests in flight; its clients fill the disk; its DISK IS GONE",
            "stuck       thread 1073741824 of a storage service, which has ended since\n",
            "DRY RUN     nothing of this is done",
            "REFUSED     guard.toml: loop.tick: 20; ",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn a_dead_guard_is_the_first_thing_said() {
        let run = run_folder(1_000);
        let (text, code) = shown(run.path(), false, &At(60_000_000_000));
        assert_eq!(code, ExitCode::from(3));
        assert!(text.starts_with("NO GUARD IS ALIVE (heartbeat 59 s old)"), "{text}");
        let (text, _) = shown(run.path(), true, &At(60_000_000_000));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((value["alive"].as_bool(), value["state"].as_str()), (Some(false), Some("frozen")));
        let ended = serde_json::json!({ "thread": 1 << 30, "name": null, "wait_channel": null });
        assert_eq!(value["stuck_threads"], serde_json::json!([ended]));
    }

    #[test]
    fn without_anything() {
        let dir = tempfile::tempdir().unwrap();
        let (text, code) = shown(dir.path(), false, &At(1));
        assert!(text.starts_with("No guard is alive"), "{text}");
        assert_eq!(code, ExitCode::from(3));
        let (text, _) = shown(dir.path(), true, &At(1));
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
    }
}

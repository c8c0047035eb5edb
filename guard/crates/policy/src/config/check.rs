// SPDX-License-Identifier: Apache-2.0
//! From what was written to what is valid: ranges, and values that must fit together.

use super::raw::{self, RawConfig, RawGauge, RawLadder, RawObjective, RawPeriodic};
use super::{exec, Exec};
use super::{
    Capacity, Config, Journal, LatencySignal, Loop, Metrics, NetworkSignal, Node, Paths, PeriodicSignal, ProbeSignal,
};
use crate::gauge::GaugeObjective;
use crate::ladder::LadderConfig;
use crate::objective::Objective;
use intf::segment::{Class, Kind, Op};
use intf::units::{Bytes, Duration, Share};
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Path of a key, and what is wrong with its value.
pub(super) type Fault = (String, String);

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;
const MIN: u64 = 60 * S;

fn between<T: PartialOrd + Display>(path: impl Display, value: T, low: T, high: T) -> Result<T, Fault> {
    match value >= low && value <= high {
        true => Ok(value),
        false => Err((path.to_string(), format!("{value} is outside {low} to {high}"))),
    }
}

pub(super) fn time(path: impl Display, value: Duration, low: u64, high: u64) -> Result<u64, Fault> {
    between(path, value, Duration(low), Duration(high)).map(|d| d.0)
}

fn absolute(path: &str, value: PathBuf) -> Result<PathBuf, Fault> {
    match value.is_absolute() {
        true => Ok(value),
        false => Err((path.into(), format!("`{}` must be an absolute path", value.display()))),
    }
}

/// A cgroup below the root of the hierarchy.
fn slice(path: &str, value: PathBuf) -> Result<PathBuf, Fault> {
    let plain = value.components().all(|c| matches!(c, std::path::Component::Normal(_)));
    match plain && value != Path::new("") {
        true => Ok(value),
        false => Err((path.into(), format!("`{}` must be a path below paths.cgroup, without `..`", value.display()))),
    }
}

/// A network interface, as the kernel allows them (net/core/dev.c, dev_valid_name); it becomes part of a path.
fn interface(name: String) -> Result<String, Fault> {
    let odd = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
    match name.len() < 16 && !name.contains(odd) && name != "." && name != ".." {
        true => Ok(name),
        false => Err((
            "signals.network.interface".into(),
            format!("`{name}` is no interface; write one such as eth0, or nothing"),
        )),
    }
}

/// In bytes per second; `None` = as the interface says.
fn speed(text: &str) -> Result<Option<u64>, Fault> {
    let units = [("Gbit", 1_000_000_000 / 8), ("Mbit", 1_000_000 / 8)];
    let split = units.into_iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?.trim_end(), bytes)));
    let speed =
        split.and_then(|(number, bytes)| Some(u64::from(number.parse::<u32>().ok().filter(|n| *n > 0)?) * bytes));
    match (text, speed) {
        ("", _) => Ok(None),
        (_, Some(speed)) => Ok(Some(speed)),
        _ => {
            Err(("signals.network.speed".into(), format!("`{text}` is no speed; write one such as 25Gbit, or nothing")))
        }
    }
}

/// It becomes an argument of xrdcp, which takes what begins with `-` for an option.
fn url(path: &str, value: String) -> Result<String, Fault> {
    let known = ["root://", "roots://", "xroot://", "xroots://"].iter().any(|scheme| value.starts_with(scheme));
    let plain = value.len() <= 1024 && !value.contains(|c: char| c.is_whitespace() || c.is_control());
    match value.is_empty() || (known && plain) {
        true => Ok(value),
        false => Err((
            path.into(),
            format!("`{value}` is no URL of a file; write one such as root://localhost//store/file, or nothing"),
        )),
    }
}

pub(super) fn check(raw: RawConfig) -> Result<Config, Fault> {
    let objectives = raw.objective.unwrap_or_else(raw::default_objectives);
    if objectives.is_empty() || objectives.len() > 64 {
        return Err(("objective".into(), format!("{} objectives; from 1 to 64 are possible", objectives.len())));
    }
    let checked: Vec<Objective> =
        objectives.into_iter().enumerate().map(|(i, raw)| objective(i, raw)).collect::<Result<_, _>>()?;
    for (i, o) in checked.iter().enumerate() {
        if checked[..i].iter().any(|other| other.name == o.name) {
            return Err((format!("objective[{i}].name"), format!("`{}` is there twice", o.name)));
        }
    }
    let exec = exec::check(raw.exec)?;
    let raw_disk = raw.signals.disk.clone();
    let gauges = raw.gauge.unwrap_or_else(raw::default_gauges);
    if gauges.len() > 64 {
        return Err(("gauge".into(), format!("{} gauges; up to 64 are possible", gauges.len())));
    }
    let gauges: Vec<GaugeObjective> =
        gauges.into_iter().enumerate().map(|(i, raw)| gauge(i, raw, &exec, &raw_disk)).collect::<Result<_, _>>()?;
    let names = || checked.iter().map(|o| &o.name).chain(gauges.iter().map(|g| &g.name));
    for (i, gauge) in gauges.iter().enumerate() {
        if names().filter(|name| **name == gauge.name).count() > 1 {
            return Err((format!("gauge[{i}].name"), format!("`{}` is there twice", gauge.name)));
        }
    }
    let (paths, capacity, signals) = (raw.paths, raw.capacity, raw.signals);
    let control_loop = Loop {
        tick_ns: time("loop.tick", raw.control_loop.tick, 5 * MS, 100 * MS)?,
        slow_ns: time("loop.slow", raw.control_loop.slow, 200 * MS, 10 * S)?,
        action_deadline_ns: time("loop.action_deadline", raw.control_loop.action_deadline, 100 * MS, MIN)?,
    };
    let file_bytes = between("journal.file_size", raw.journal.file_size, Bytes(64 << 10), Bytes(1 << 30))?;
    Ok(Config {
        node: Node {
            name: raw.node.name,
            dry_run: raw.node.dry_run,
            swap_on_data_disks: raw.node.swap_on_data_disks,
            job_memory_high: between("node.job_memory_high", raw.node.job_memory_high, Share(0.5), Share(1.0))?.0,
        },
        paths: Paths {
            cgroup: absolute("paths.cgroup", paths.cgroup)?,
            batch_slice: slice("paths.batch_slice", paths.batch_slice)?,
            jobs_slice: slice("paths.jobs_slice", paths.jobs_slice)?,
            storage_slice: slice("paths.storage_slice", paths.storage_slice)?,
            proc: absolute("paths.proc", paths.proc)?,
            sys: absolute("paths.sys", paths.sys)?,
            run: absolute("paths.run", paths.run)?,
            control: absolute("paths.control", paths.control)?,
            memory: absolute("paths.memory", paths.memory)?,
            exec: absolute("paths.exec", paths.exec)?,
            probe: absolute("paths.probe", paths.probe)?,
            scratch: absolute("paths.scratch", paths.scratch)?,
        },
        latency: LatencySignal {
            segment: absolute("signals.latency.segment", signals.latency.segment)?,
            owner: signals.latency.owner,
        },
        disk: PeriodicSignal {
            enabled: signals.disk.enabled,
            interval_ns: time("signals.disk.interval", signals.disk.interval, 100 * MS, MIN)?,
        },
        psi: PeriodicSignal {
            enabled: signals.psi.enabled,
            interval_ns: time("signals.psi.interval", signals.psi.interval, 100 * MS, MIN)?,
        },
        probe: ProbeSignal {
            enabled: signals.probe.enabled,
            // Evidence is forgotten after two seconds without any.
            interval_ns: time("signals.probe.interval", signals.probe.interval, 200 * MS, 1500 * MS)?,
            root: url("signals.probe.root", signals.probe.root)?,
        },
        network: NetworkSignal {
            interface: interface(signals.network.interface)?,
            speed: speed(&signals.network.speed)?,
        },
        objectives: checked,
        gauges,
        exec,
        ladder: ladder(raw.ladder, raw.node.dry_run, control_loop.tick_ns)?,
        control_loop,
        capacity: Capacity {
            cores: capacity.cores.0.map(|c| between("capacity.cores", c, 1, 4096)).transpose()?,
            memory_bytes: capacity.memory.0.map(|b| b.0),
            memory_reserve_bytes: capacity.memory_reserve.0,
        },
        metrics: Metrics { listen: raw.metrics.listen.0 },
        journal: Journal {
            folder: absolute("journal.folder", raw.journal.folder)?,
            file_bytes: file_bytes.0,
            total_bytes: between(
                "journal.total_size",
                raw.journal.total_size,
                Bytes(2 * file_bytes.0),
                Bytes(1 << 42),
            )?
            .0,
        },
    })
}

fn ladder(raw: RawLadder, dry_run: bool, tick_ns: u64) -> Result<LadderConfig, Fault> {
    let effect_timeout_ns = time("ladder.effect_timeout", raw.effect_timeout, S, MIN)?;
    let freeze_max_ns = time("ladder.freeze_max", raw.freeze_max, effect_timeout_ns + S, 10 * MIN)?;
    // Shorter than two ticks it could not see an effect; longer than `effect_timeout` it would be no precaution.
    let precaution_max_ns = effect_timeout_ns.min(5 * S);
    let precaution_ns = time("ladder.precaution", raw.precaution, (2 * tick_ns).max(40 * MS), precaution_max_ns)?;
    let hold_ns = time("ladder.hold", raw.hold, 100 * MS, MIN.min(freeze_max_ns))?;
    let batch_share_min = between("ladder.batch_share_min", raw.batch_share_min, Share(0.0001), Share(0.5))?.0;
    Ok(LadderConfig {
        dry_run,
        hold_ns,
        hold_max_ns: time("ladder.hold_max", raw.hold_max, hold_ns, freeze_max_ns)?,
        flap_ns: time("ladder.flap", raw.flap, 100 * MS, 10 * MIN)?,
        precaution_ns,
        precaution_budget: between("ladder.precaution_budget", raw.precaution_budget, Share(0.0), Share(0.05))?.0,
        effect_timeout_ns,
        innocent_backoff_ns: time("ladder.innocent_backoff", raw.innocent_backoff, S, 60 * MIN)?,
        freeze_max_ns,
        vacate_deadline_ns: time("ladder.vacate_deadline", raw.vacate_deadline, 10 * S, 10 * MIN)?,
        emergency_quiet_ns: time("ladder.emergency_quiet", raw.emergency_quiet, 10 * S, 24 * 60 * MIN)?,
        batch_share_min,
        batch_share_guilty: between(
            "ladder.batch_share_guilty",
            raw.batch_share_guilty,
            Share(batch_share_min),
            Share(1.0),
        )?
        .0,
        stale_floor_ns: time_or_0s("ladder.stale_floor", raw.stale_floor, S, 60 * MIN, "never")?.unwrap_or_default(),
        guilty_first: raw.guilty_first,
        throttle: raw.throttle,
        throttle_step: between("ladder.throttle_step", raw.throttle_step, Share(0.01), Share(0.5))?.0 as f32,
        filled_share: between("ladder.filled_share", raw.filled_share, Share(0.001), Share(1.0))?.0,
        guilty_timeout_ns: time("ladder.guilty_timeout", raw.guilty_timeout, 100 * MS, effect_timeout_ns / 5)?,
    })
}

fn name(path: String, name: String) -> Result<String, Fault> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
        return Err((path, format!("`{name}`: 1 to 64 characters a-z, 0-9 and - are allowed")));
    }
    Ok(name)
}

fn gauge(index: usize, raw: RawGauge, exec: &[Exec], disk: &RawPeriodic) -> Result<GaugeObjective, Fault> {
    let at = |key: &str| format!("gauge[{index}].{key}");
    let Some((source, grace_ns)) = exec::place(&raw.source, exec) else {
        let names: Vec<String> = exec::source_names(exec).collect();
        return Err((at("source"), format!("unknown source `{}`; allowed: {}", raw.source, names.join(", "))));
    };
    let of_disks = raw.source.starts_with("storage.disk.");
    if of_disks && !disk.enabled {
        return Err((at("source"), format!("`{}` is read only with signals.disk.enabled = true", raw.source)));
    }
    // A value is as old as that before there is a new one.
    let grace_ns = if of_disks { grace_ns.max(2 * disk.interval.0.min(MIN)) } else { grace_ns };
    Ok(GaugeObjective {
        name: name(at("name"), raw.name)?,
        source,
        above: between(at("above"), raw.above, 0.0, 1e12)?,
        for_ns: time(at("for"), raw.lasting, 0, 60 * MIN)?,
        dwell_ns: time(at("dwell"), raw.dwell, S, 60 * MIN)?,
        grace_ns: time(at("grace"), raw.grace, grace_ns, 10 * MIN)?,
        then: raw.then.into(),
    })
}

/// A time, or `0s` for none.
fn time_or_0s(path: impl Display, value: Duration, low: u64, high: u64, none: &str) -> Result<Option<u64>, Fault> {
    match value.0 {
        0 => Ok(None),
        _ => time(path, value, low, high)
            .map(Some)
            .map_err(|(path, message)| (path, format!("{message}, and is not 0s ({none})"))),
    }
}

/// Shorter windows would hold too few requests.
fn budget_window(path: String, value: Duration) -> Result<Option<u64>, Fault> {
    time_or_0s(path, value, 60 * MIN, 30 * 24 * 60 * MIN, "no error budget")
}

fn objective(index: usize, raw: RawObjective) -> Result<Objective, Fault> {
    let at = |key: &str| format!("objective[{index}].{key}");
    let name = name(at("name"), raw.name)?;
    if !raw.filesystem.starts_with(['/', '*']) {
        return Err((at("filesystem"), format!("`{}` is no mount point; it must start with / or *", raw.filesystem)));
    }
    let (op, class) = (Op::from(raw.op), Class::from(raw.class));
    if Kind::of(op, class).is_none() {
        return Err((at("op"), format!("probes do not {op}; allowed with class \"probe\": read")));
    }
    let threshold_ns = time(at("threshold"), raw.threshold, MS, MIN)?;
    // The lower bound of the evidence is what a single clipped request may weigh: one must never decide.
    let weak = between(at("weak"), raw.weak, 4.0, 100.0)?;
    let strong = between(at("strong"), raw.strong, weak, 100.0)?;
    Ok(Objective {
        name,
        op,
        class,
        filesystem: raw.filesystem,
        threshold_ns,
        share: between(at("share"), raw.share, Share(1e-6), Share(0.2))?.0,
        floor_ns: match raw.floor {
            Some(floor) => time(at("floor"), floor, 0, threshold_ns)?,
            None => threshold_ns / 10,
        },
        weak,
        strong,
        dwell_ns: time(at("dwell"), raw.dwell, 100 * MS, 10 * MIN)?,
        stuck_after_ns: time(at("stuck_after"), raw.stuck_after, threshold_ns, MIN)?,
        grace_ns: time(at("grace"), raw.grace, 200 * MS, MIN)?,
        budget_window_ns: budget_window(at("budget_window"), raw.budget_window)?,
    })
}

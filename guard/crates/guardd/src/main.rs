// SPDX-License-Identifier: Apache-2.0
//! The command line of beer-guard.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, Result};
use clap::{Parser, Subcommand};
use guardd::clock::{Clock, SystemClock};
use guardd::control::StateFile;
use guardd::failsafe::{Done, Failsafe};
use guardd::reload::Reload;
use guardd::{check, exec, io_weight, probe, run, startd_cron, watch};
use intf::segment::Filesystem;
use intf::units;
use policy::ConfigError;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

const CONFIG: &str = "/etc/beer/guard.toml";

/// Watches the latency of storage and takes batch jobs out of its way.
#[derive(Parser)]
#[command(
    version,
    about,
    after_help = "Exit status: 0 good, 2 the configuration or the command line is wrong, 1 anything else."
)]
struct Arguments {
    /// The configuration.
    #[arg(long, global = true, default_value = CONFIG, value_name = "FILE")]
    config: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Guard the node until a signal ends it (the service does this). SIGHUP: read the configuration anew; one that is wrong
    /// changes nothing.
    Run,
    /// Say what is wrong with a configuration; change nothing.
    CheckConfig {
        /// The configuration; the one of --config if not given.
        file: Option<PathBuf>,
        /// Check the node too: is the latency segment readable, is the slice there?
        #[arg(long)]
        live: bool,
        /// Say only whether it is good, and not what is stated about each objective: that is worked out, and takes a while.
        #[arg(long)]
        quiet: bool,
        /// What is stated is for a node with so many data disks, of which one becomes slow: one of many needs stronger evidence.
        #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=96))]
        disks: u16,
        /// What is stated is for latencies that become so many times longer: 2 to 100.
        #[arg(long, value_name = "TIMES", default_value_t = 3.0, value_parser = step)]
        step: f64,
    },
    /// Run the command of this name of the configuration (`[[exec]]`) again and again, and write what it prints for the guard
    /// (beer-exec@.service does this).
    RunExec {
        /// Its name.
        name: String,
    },
    /// Read a little from filesystems that clients use little, and write how long that took for the guard (beer-probe.service does
    /// this).
    Probe,
    /// Tell HTCondor's startd the state of the node, for as long as it listens.
    StartdCron,
    /// Cap batch while no guard is there, and thaw what must not stay frozen. Works without a configuration.
    Failsafe {
        /// Act only when the guard's heartbeat is older than this, for example 15s; lift the caps when it is not.
        #[arg(long, value_name = "TIME", conflicts_with = "lift")]
        if_stale: Option<units::Duration>,
        /// Take the caps away again: the guard is back.
        #[arg(long)]
        lift: bool,
        /// CPU that all jobs together may use while no guard is there.
        #[arg(long, value_name = "QUOTA", default_value = "100%")]
        cpu_quota: String,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match execute(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("beer-guard: {error:#}");
            ExitCode::from(if error.is::<ConfigError>() { 2 } else { 1 })
        }
    }
}

fn execute(arguments: &Arguments) -> Result<ExitCode> {
    let configuration = &arguments.config;
    match &arguments.command {
        Command::Run => {
            let config = check::load(configuration)?;
            let wanted = flag_of(&[SIGHUP])?;
            let reload = Reload { wanted, path: configuration.clone() };
            run::run(&config, Arc::new(SystemClock), &flag_of(&[SIGTERM, SIGINT])?, &reload)?;
        }
        Command::CheckConfig { file, live, quiet, disks, step } => {
            let stated = (!quiet).then_some((usize::from(*disks), *step));
            return check_config(file.as_deref().unwrap_or(configuration), *live, stated);
        }
        Command::RunExec { name } => {
            let config = check::load(configuration)?;
            let command = exec::find(&config, configuration, name)?;
            exec::run(&config, command, &SystemClock, &*flag_of(&[SIGTERM, SIGINT])?)?;
        }
        Command::Probe => {
            let config = check::load(configuration)?;
            let make = |filesystem: &Filesystem| -> Box<dyn probe::Reader> {
                let seed = (u64::from(filesystem.major) << 32) | u64::from(filesystem.minor);
                Box::new(probe::DirectReader::new(Path::new(&filesystem.path), seed ^ SystemClock.realtime_ns()))
            };
            probe::run(&config, Arc::new(SystemClock), &make, &flag_of(&[SIGTERM, SIGINT])?)?;
        }
        Command::StartdCron => {
            // A broken configuration is the guard's to tell; the state is where it always is.
            let run = check::load(configuration).map_or_else(|_| PathBuf::from("/run/beer/guard"), |c| c.paths.run);
            startd_cron::run(&run.join(StateFile::NAME), &SystemClock, &mut std::io::stdout().lock())?;
        }
        Command::Failsafe { if_stale, lift, cpu_quota } => {
            let failsafe = Failsafe::of(check::load(configuration).ok().as_ref(), cpu_quota);
            let done = match if_stale {
                Some(limit) => failsafe.dead_man(Duration::from_nanos(limit.0), &SystemClock)?,
                None if *lift => Done { lifted: failsafe.lift()?, ..Done::default() },
                None => after_exit(&failsafe)?,
            };
            if let Some(text) = done.sentence() {
                eprintln!("<4>{text}");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What systemd tells an `ExecStopPost=`. A guard that refused its configuration has touched nothing, and neither
/// does this; should something be frozen from before, the dead-man timer thaws it.
fn after_exit(failsafe: &Failsafe) -> Result<Done> {
    let told = |name: &str, value: &str| std::env::var(name).is_ok_and(|told| told == value);
    if told("EXIT_CODE", "exited") && told("EXIT_STATUS", "2") {
        return Ok(Done::default());
    }
    failsafe.after_exit(told("SERVICE_RESULT", "success"))
}

/// Of the command line.
fn step(text: &str) -> Result<f64, String> {
    let step = text.parse().map_err(|_| "no number".to_owned())?;
    if (2.0..=100.0).contains(&step) {
        Ok(step)
    } else {
        Err("2 to 100 are possible".into())
    }
}

/// `stated` = how many disks there are, and how much slower one of them becomes; `None` = nothing is stated.
fn check_config(path: &Path, live: bool, stated: Option<(usize, f64)>) -> Result<ExitCode> {
    let config = check::load(path)?;
    let faults = if live { check::live(&config, &SystemClock) } else { Vec::new() };
    if faults.is_empty() {
        println!("{}: good", path.display());
    }
    if let Some((disks, step)) = stated {
        let mut lines = check::stated(&config, disks, step);
        if live {
            lines.extend(io_weight::said(&config, &SystemClock));
            lines.push(watch::said(&config));
        }
        lines.iter().for_each(|line| println!("{line}"));
    }
    for fault in &faults {
        eprintln!("beer-guard: {fault}");
    }
    Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A flag that these signals put up.
fn flag_of(signals: &[i32]) -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for &signal in signals {
        if let Err(error) = signal_hook::flag::register(signal, Arc::clone(&flag)) {
            bail!("signal {signal}: {error}");
        }
    }
    Ok(flag)
}

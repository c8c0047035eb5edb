// SPDX-License-Identifier: Apache-2.0
//! `beer`: what the guard and the storage daemons of a node do, and why, for people; and the orders that people give.

mod order;
mod say;
mod status;
mod storage;
mod stuck;
mod table;
mod time;
mod why;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use intf::order::Order;
use policy::Config;

/// Shows what the guard and the storage daemons of this node do, and why; keeps batch off the node and gives it back.
#[derive(Parser)]
#[command(
    name = "beer",
    version,
    after_help = "Exit status: 0 good, 1 something cannot be read, 2 wrong command line, 3 no guard is alive, or no storage daemon."
)]
struct Arguments {
    /// The guard's configuration; says where state and journal are.
    #[arg(long, global = true, default_value = "/etc/beer/guard.toml", value_name = "FILE")]
    config: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// State of the node, slack of each objective, what is offered to batch, the last decision.
    Status {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// What was decided lately, on what evidence, and what came of it.
    Why {
        /// How far back: 30s, 10m, 2h, 7d.
        #[arg(long, default_value = "10m", value_name = "TIME", value_parser = time::parse)]
        since: u64,
        /// As a JSON array of journal records.
        #[arg(long)]
        json: bool,
    },
    /// No job starts on this node any more, also after a restart. Those that run run on.
    Drain {
        /// For the journal.
        #[arg(long, default_value = "", value_name = "TEXT")]
        why: String,
    },
    /// Give the node back to batch, and thaw what `beer freeze` has frozen.
    Resume {
        /// For the journal.
        #[arg(long, default_value = "", value_name = "TEXT")]
        why: String,
    },
    /// Let all jobs stand still for a while.
    Freeze {
        /// How long from now on: 1s to 1h, such as 5m.
        #[arg(long = "for", value_name = "TIME", value_parser = time::parse)]
        time: u64,
        /// For the journal.
        #[arg(long, default_value = "", value_name = "TEXT")]
        why: String,
    },
    /// Asks the storage daemons of this node what they do.
    Storage {
        #[command(subcommand)]
        question: storage::Question,
    },
}

fn main() -> ExitCode {
    match execute(&Arguments::parse()) {
        Ok(code) => code,
        // `beer why | head` is no error.
        Err(error) if broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("beer: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Where the guard is found.
fn run(config: Option<Config>) -> PathBuf {
    config.map_or_else(|| PathBuf::from("/run/beer/guard"), |config| config.paths.run)
}

fn execute(arguments: &Arguments) -> Result<ExitCode> {
    // With a broken configuration, or none that this user may read, things are where they normally are.
    let config = std::fs::read_to_string(&arguments.config).ok();
    let config = config.and_then(|text| Config::parse(&arguments.config.display().to_string(), &text).ok());
    let mut out = std::io::stdout().lock();
    match &arguments.command {
        Command::Status { json } => status::show(&run(config), *json, &guardd::clock::SystemClock, &mut out),
        Command::Why { since, json } => {
            let folder = config.map_or_else(|| PathBuf::from("/var/lib/beer/journal"), |config| config.journal.folder);
            why::show(&folder, *since, *json, &guardd::clock::SystemClock, &mut out)
        }
        Command::Drain { why } => order::give(&run(config), &Order::Drain { why: why.clone() }, &mut out),
        Command::Resume { why } => order::give(&run(config), &Order::Resume { why: why.clone() }, &mut out),
        Command::Freeze { time, why } => {
            // Never shorter than what was asked for; what is too long the guard refuses.
            let seconds = u32::try_from(time.div_ceil(1_000_000_000)).unwrap_or(u32::MAX);
            order::give(&run(config), &Order::Freeze { seconds, why: why.clone() }, &mut out)
        }
        Command::Storage { question } => storage::show(question, &mut out),
    }
}

// SPDX-License-Identifier: Apache-2.0
//! `beer storage`: asks the storage daemons of this node what they do.

mod load;
mod policy;
mod socket;
mod stat;
mod streams;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use clap::{Args, Subcommand};
use intf::storage::{Head, FORMAT};

use crate::say;

/// Where the daemons put their sockets.
const FOLDER: &str = "/run/beer/storage";
/// Between the two looks that a rate is made from.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What to ask.
#[derive(Subcommand)]
pub enum Question {
    #[command(flatten)]
    Shown(Shown),
    /// How full this server is, 0 to 100, as `cms.perf int 30 pgm /usr/bin/beer storage load --every 30` wants it.
    ///
    /// 100: it takes no new files (`beer.overload`), or does not answer. The other four numbers of the line are 0: it wants
    /// `cms.sched runq 100 maxload 99`, on servers and manager. With several daemons the fullest one counts.
    Load {
        #[command(flatten)]
        daemon: Daemon,
        /// Say it again after so many seconds, for ever.
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
        every: Option<u64>,
    },
}

/// What is shown to people.
#[derive(Subcommand)]
pub enum Shown {
    /// Requests by filesystem and class; metadata by operation; who is stalled.
    Stat(Whom),
    /// Open files, those that wait for longest first: who, which application, how fast, waiting how long, by which rule.
    Streams {
        #[command(flatten)]
        whom: Whom,
        /// Show at most so many; 0 = all.
        #[arg(long, default_value_t = 50, value_name = "NUMBER")]
        most: usize,
    },
    /// The rules in force, what the guard says, and what I/O priorities do on each filesystem.
    Policy(Whom),
}

/// Whom to ask, and in what form the answer is wanted.
#[derive(Args)]
pub struct Whom {
    #[command(flatten)]
    daemon: Daemon,
    /// As a JSON array with one object for each daemon.
    #[arg(long)]
    json: bool,
}

/// Which daemon; without anything said, every one of this node.
#[derive(Args, Default)]
pub struct Daemon {
    /// The instance of this name.
    #[arg(long, value_name = "NAME", conflicts_with = "socket", value_parser = instance_name)]
    instance: Option<String>,
    /// The one with this socket.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

fn instance_name(name: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        return Err("a name is made of letters, digits, `_`, `-` and `.`".into());
    }
    Ok(name.into())
}

/// Prints the answers. Exit status 1 if one of several did not answer, 3 if there is none to ask.
pub fn show(question: &Question, out: &mut impl Write) -> Result<ExitCode> {
    let folder = Path::new(FOLDER);
    match question {
        Question::Shown(shown) => show_in(folder, shown, LOOK_AGAIN, out),
        Question::Load { daemon, every } => {
            load::report(|| sockets_of(folder, daemon), every.map(Duration::from_secs), out)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn sockets_of(folder: &Path, daemon: &Daemon) -> Result<Vec<PathBuf>> {
    match (&daemon.socket, &daemon.instance) {
        (Some(path), _) => Ok(vec![path.clone()]),
        (None, Some(name)) => Ok(vec![folder.join(format!("{name}.info"))]),
        (None, None) => socket::all_in(folder),
    }
}

fn show_in(folder: &Path, question: &Shown, look_again: Duration, out: &mut impl Write) -> Result<ExitCode> {
    let whom = match question {
        Shown::Stat(whom) | Shown::Policy(whom) | Shown::Streams { whom, .. } => whom,
    };
    let sockets = sockets_of(folder, &whom.daemon)?;
    if sockets.is_empty() {
        eprintln!("beer: no storage daemon with libXrdBeer runs here: {} holds no .info socket", folder.display());
        return Ok(ExitCode::from(3));
    }
    // Rates come from two looks at each daemon, with one pause for all of them.
    let firsts: Vec<_> = match question {
        Shown::Streams { .. } if !whom.json => {
            let firsts = sockets.iter().map(|path| Answer::get(path, "streams").ok()).collect();
            std::thread::sleep(look_again);
            firsts
        }
        _ => sockets.iter().map(|_| None).collect(),
    };
    let mut failed = false;
    let mut objects = Vec::new();
    for (path, first) in sockets.iter().zip(&firsts) {
        let shown = Answer::get(path, word(question)).and_then(|answer| {
            if whom.json {
                objects.push(serde_json::from_str::<serde_json::Value>(&answer.text)?);
                return Ok(String::new());
            }
            text_of(question, first.as_ref(), &answer)
        });
        match shown {
            Ok(text) => out.write_all(text.as_bytes())?,
            Err(error) => {
                eprintln!("beer: {}", say::harmless(&format!("{}: {error:#}", path.display()), usize::MAX));
                failed = true;
            }
        }
    }
    if whom.json {
        writeln!(out, "{}", ascii(&format!("{:#}", serde_json::Value::Array(objects))))?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn word(question: &Shown) -> &'static str {
    match question {
        Shown::Stat(_) => "stat",
        Shown::Streams { .. } => "streams",
        Shown::Policy(_) => "policy",
    }
}

/// What one daemon said, with its head checked.
struct Answer {
    head: Head,
    text: String,
}

impl Answer {
    fn get(path: &Path, word: &str) -> Result<Answer> {
        let text = socket::ask(path, word)?;
        let head: Head = serde_json::from_str(&text).context("that is no answer of a storage daemon")?;
        if let Some(error) = head.error {
            bail!("the daemon says: {error}");
        }
        if head.format != FORMAT {
            bail!("the daemon speaks format {}, this program {FORMAT}: their versions differ", head.format);
        }
        if head.kind != word {
            bail!("asked for `{word}`, answered with `{}`", head.kind);
        }
        Ok(Answer { head, text })
    }

    fn body<T: serde::de::DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.text).context("that is no answer of a storage daemon")
    }
}

/// For people, with a line that says which daemon it is.
fn text_of(question: &Shown, first: Option<&Answer>, answer: &Answer) -> Result<String> {
    let title = format!("{} (pid {})", say::harmless(&answer.head.instance, 64), answer.head.pid);
    Ok(match question {
        Shown::Stat(_) => stat::text(&title, &answer.body()?),
        Shown::Policy(_) => policy::text(&title, &answer.body()?),
        Shown::Streams { most, .. } => {
            // A daemon that was restarted in between has no past.
            let first =
                first.filter(|first| first.head.pid == answer.head.pid && first.head.now_ns < answer.head.now_ns);
            let past = match first {
                Some(first) => Some((answer.head.now_ns - first.head.now_ns, first.body()?)),
                None => None,
            };
            streams::text(&title, past.as_ref(), &answer.body()?, *most)
        }
    })
}

/// JSON that is safe on every terminal: outside of strings it is ASCII anyhow, and inside everything may be escaped.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let mut units = [0; 2];
    for c in json.chars() {
        if matches!(c, '\n' | ' '..='~') {
            text.push(c);
        } else {
            for unit in c.encode_utf16(&mut units) {
                text += &format!("\\u{unit:04x}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests;

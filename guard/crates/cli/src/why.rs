// SPDX-License-Identifier: Apache-2.0
//! `beer why`: the journal as sentences.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{bail, Context, Result};
use guardd::clock::Clock;
use intf::journal::{Outcome, Record};

use crate::say;

/// So many jobs are named in a line, and more only counted.
const NAMED: usize = 3;

/// Prints the records of the last `since_ns`.
pub fn show(folder: &Path, since_ns: u64, json: bool, clock: &dyn Clock, out: &mut impl Write) -> Result<ExitCode> {
    let now_ns = clock.realtime_ns();
    let (records, damaged) = read(folder, now_ns.saturating_sub(since_ns))?;
    if json {
        serde_json::to_writer_pretty(&mut *out, &records)?;
        writeln!(out)?;
    } else {
        for record in &records {
            writeln!(out, "{}", line(record))?;
        }
        if records.is_empty() {
            writeln!(out, "Nothing was decided in the last {}.", say::duration(since_ns))?;
        }
    }
    if damaged > 0 {
        eprintln!("beer: {} of the journal left out", say::count(damaged, "damaged line"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Time, sentence, what came of it.
fn line(record: &Record) -> String {
    let mut line = format!("{}  {}", say::time(record.time_ns), record.sentence());
    if !record.jobs.is_empty() {
        let count = record.jobs.len();
        let of = u64::from(record.jobs_of);
        line += &match of > count as u64 {
            // Few of many: it matters which.
            true if count <= NAMED => {
                let names: Vec<String> = record.jobs.iter().map(intf::journal::Job::name).collect();
                format!(" [{count} of {}: {}]", say::count(of, "job"), names.join(", "))
            }
            true => format!(" [{count} of {}]", say::count(of, "job")),
            false => format!(" [{}]", say::count(count as u64, "job")),
        };
    }
    match record.outcome {
        Outcome::Done if record.duration_ns > 0 => line += &format!(" [done in {}]", say::duration(record.duration_ns)),
        Outcome::Done => {}
        Outcome::Pending => line += " [not confirmed]",
        Outcome::Failed => line += &format!(" [FAILED: {}]", record.detail),
        Outcome::Skipped => line += " [not done]",
    }
    line
}

fn read(folder: &Path, from_ns: u64) -> Result<(Vec<Record>, u64)> {
    let mut records = Vec::new();
    let mut damaged = 0;
    for path in files(folder, from_ns)? {
        let file = match File::open(&path) {
            // It was removed as the oldest in the meantime.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => bail!(explained(&path, &error)),
            Ok(file) => file,
        };
        for line in BufReader::new(file).split(b'\n') {
            let line = line.with_context(|| format!("{}", path.display()))?;
            match serde_json::from_slice::<Record>(&line) {
                Ok(record) if record.time_ns >= from_ns => records.push(record),
                Ok(_) => {}
                Err(_) if line.is_empty() => {}
                Err(_) => damaged += 1,
            }
        }
    }
    // A freeze is written when its effect is known, a decision without effect at once.
    records.sort_by_key(|record| record.time_ns);
    Ok((records, damaged))
}

/// Files that were written to since then, oldest first.
fn files(folder: &Path, from_ns: u64) -> Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => bail!(explained(folder, &error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("{}", folder.display()))?;
        let path = entry.path();
        let written = entry.metadata().and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        let written = written.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        if path.extension().is_some_and(|extension| extension == "jsonl") && written.as_nanos() >= u128::from(from_ns) {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

fn explained(path: &Path, error: &std::io::Error) -> String {
    let path = path.display();
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            format!("{path}: you may not read the journal; ask to be put into group adm, or use sudo")
        }
        std::io::ErrorKind::NotFound => format!("{path}: there is no journal; has the guard ever run here?"),
        _ => format!("{path}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use intf::state::NodeState;

    struct Now;
    impl Clock for Now {
        fn monotonic_ns(&self) -> u64 {
            0
        }
        fn realtime_ns(&self) -> u64 {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
            now.as_nanos() as u64
        }
    }

    fn record(time_ns: u64, outcome: Outcome) -> Record {
        Record {
            time_ns,
            monotonic_ns: 1,
            from: NodeState::Open,
            to: NodeState::Frozen,
            cause: "strong_evidence".into(),
            action: "freeze".into(),
            precaution: false,
            evidence: None,
            jobs: vec![Default::default(), Default::default()],
            jobs_of: 2,
            by: String::new(),
            outcome,
            detail: "the slice is missing".into(),
            duration_ns: 4_000_000,
            lasted_ns: None,
            memory: None,
        }
    }

    fn journal(records: &[Record]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let mut text = String::from("damaged\n");
        for record in records {
            text += &(serde_json::to_string(record).unwrap() + "\n");
        }
        std::fs::write(dir.path().join("guard-0000000001.jsonl"), text).unwrap();
        dir
    }

    fn shown(folder: &Path, json: bool) -> String {
        let mut out = Vec::new();
        show(folder, 600_000_000_000, json, &Now, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn tells_what_is_recent_in_order() {
        let now = Now.realtime_ns();
        let late = record(now - 1_000_000_000, Outcome::Failed);
        let early = record(now - 2_000_000_000, Outcome::Done);
        let old = record(now - 700_000_000_000, Outcome::Done);
        let dir = journal(&[late, early, old]);
        let text = shown(dir.path(), false);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].contains("[2 jobs] [done in 4 ms]"), "{text}");
        assert!(lines[1].contains("[FAILED: the slice is missing]"), "{text}");
        let records: Vec<Record> = serde_json::from_str(&shown(dir.path(), true)).unwrap();
        assert_eq!(records.len(), 2);
    }

    #[test]
    fn few_of_many_are_named() {
        let mut one = record(Now.realtime_ns() - 1_000_000_000, Outcome::Done);
        one.jobs_of = 64;
        one.jobs[0] = intf::journal::Job {
            id: "12.0".into(),
            owner: "alice".into(),
            slot: "slot1_2".into(),
            ..one.jobs[0].clone()
        };
        one.jobs[1].scope = "docker-0a.scope".into();
        let text = shown(journal(&[one.clone()]).path(), false);
        assert!(text.contains("[2 of 64 jobs: 12.0 of alice in slot1_2, docker-0a.scope]"), "{text}");
        one.jobs = vec![one.jobs[0].clone(); NAMED + 1];
        assert!(shown(journal(&[one]).path(), false).contains("[4 of 64 jobs]"));
    }

    #[test]
    fn says_so_when_there_is_nothing() {
        assert_eq!(shown(journal(&[]).path(), false), "Nothing was decided in the last 10 min.\n");
        let error = show(Path::new("/nowhere/journal"), 1, false, &Now, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().starts_with("/nowhere/journal: there is no journal"), "{error}");
    }
}

// SPDX-License-Identifier: Apache-2.0
//! The journal's files: JSON lines, closed at a size, the oldest removed when all together are too large.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use intf::journal::Record;
use policy::config;

/// Losing the last seconds of the history in a power cut is no harm; waiting for a disk at every decision is.
const SYNC_NS: u64 = 30_000_000_000;

/// The writer.
#[derive(Debug)]
pub struct JournalFile {
    settings: config::Journal,
    open: Option<Open>,
    dirty: bool,
    synced_ns: u64,
}

#[derive(Debug)]
struct Open {
    file: File,
    path: PathBuf,
    bytes: u64,
    /// The last write ended in the middle of a line.
    torn: bool,
}

impl Open {
    /// Somebody has taken it away, or put another file in its place: nobody reads what is written into it.
    fn moved(&self) -> bool {
        let number = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        std::fs::metadata(&self.path).ok().map(number) != self.file.metadata().ok().map(number)
    }
}

impl JournalFile {
    /// Opens nothing yet.
    pub fn new(settings: &config::Journal) -> Self {
        JournalFile { settings: settings.clone(), open: None, dirty: false, synced_ns: 0 }
    }

    /// Adds one line.
    ///
    /// # Errors
    /// The disk is full, or gone; the next record is tried again from scratch.
    pub fn append(&mut self, record: &Record) -> Result<()> {
        let mut line = serde_json::to_vec(record).context("journal record")?;
        line.push(b'\n');
        let full = |open: &Open| open.bytes + line.len() as u64 > self.settings.file_bytes;
        if self.open.as_ref().is_some_and(|open| full(open) || open.moved()) {
            self.close();
        }
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(begin(&self.settings, line.len() as u64)?),
        };
        // After a torn line a new one begins, so that readers lose one record and not two.
        if open.torn {
            line.insert(0, b'\n');
        }
        let outcome = open.file.write_all(&line).with_context(|| format!("{}", open.path.display()));
        open.torn = outcome.is_err();
        // Where its disk was remounted it has moved by the next time.
        outcome?;
        open.bytes += line.len() as u64;
        self.dirty = true;
        Ok(())
    }

    /// Makes it durable, rarely.
    ///
    /// # Errors
    /// The disk says no.
    pub fn sync(&mut self, now_ns: u64) -> Result<()> {
        if !self.dirty || now_ns.saturating_sub(self.synced_ns) < SYNC_NS {
            return Ok(());
        }
        self.synced_ns = now_ns;
        self.dirty = false;
        self.open.as_ref().map_or(Ok(()), |open| open.file.sync_data().context("journal"))
    }

    /// Makes it durable and ends the file's use.
    pub fn close(&mut self) {
        if let Some(open) = self.open.take() {
            let _ = open.file.sync_data();
        }
        self.dirty = false;
    }
}

/// Goes on with the newest file if there is room in it, else begins one and removes what is too much.
fn begin(settings: &config::Journal, bytes: u64) -> Result<Open> {
    let folder = &settings.folder;
    let mut files = files(folder).with_context(|| format!("{}", folder.display()))?;
    let newest = files.last().filter(|(_, size)| size + bytes <= settings.file_bytes);
    let (path, size) = match newest {
        Some((path, size)) => (path.clone(), *size),
        None => {
            let last = files.last().and_then(|file| number(&file.0)).unwrap_or_default();
            let path = folder.join(format!("guard-{:010}.jsonl", last.saturating_add(1)));
            files.push((path.clone(), bytes));
            remove_oldest(&files, settings.total_bytes);
            (path, 0)
        }
    };
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o640)
        .open(&path)
        .with_context(|| format!("{}", path.display()))?;
    let torn = size > 0 && !ends_in_newline(&path, size);
    Ok(Open { file, path, bytes: size, torn })
}

/// Files are numbered and not named by time, so that their order survives a clock that is set back. `None` = it is none of ours.
fn number(path: &Path) -> Option<u64> {
    let digits = path.file_name()?.to_str()?.strip_prefix("guard-")?.strip_suffix(".jsonl")?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

fn ends_in_newline(path: &Path, size: u64) -> bool {
    use std::os::unix::fs::FileExt;
    let mut last = [0; 1];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut last, size.saturating_sub(1)));
    read.is_ok() && last == *b"\n"
}

fn remove_oldest(files: &[(PathBuf, u64)], allowed: u64) {
    let mut total: u64 = files.iter().map(|(_, size)| size).sum();
    let keep = files.len().saturating_sub(1);
    for (path, size) in files.iter().take(keep) {
        if total <= allowed {
            return;
        }
        // What cannot be removed now is tried again when the next file begins.
        let _ = std::fs::remove_file(path);
        total = total.saturating_sub(*size);
    }
}

/// All files of the journal with their sizes, oldest first. What else lies there, a copy that somebody keeps, is not ours.
fn files(folder: &Path) -> std::io::Result<Vec<(PathBuf, u64)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if number(&path).is_some() {
            files.push((path, entry.metadata()?.len()));
        }
    }
    files.sort_unstable_by_key(|(path, _)| number(path));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use intf::journal::Outcome;
    use intf::state::NodeState;

    fn record(time_ns: u64) -> Record {
        Record {
            time_ns,
            monotonic_ns: 1,
            from: NodeState::Open,
            to: NodeState::Frozen,
            cause: "strong_evidence".into(),
            action: "freeze".into(),
            precaution: false,
            evidence: None,
            jobs: Vec::new(),
            jobs_of: 0,
            by: String::new(),
            outcome: Outcome::Done,
            detail: String::new(),
            duration_ns: 5,
            lasted_ns: None,
            memory: None,
        }
    }

    fn settings(folder: &Path, file_bytes: u64, total_bytes: u64) -> config::Journal {
        config::Journal { folder: folder.into(), file_bytes, total_bytes }
    }

    fn records(folder: &Path) -> Vec<u64> {
        let text: String =
            files(folder).unwrap().iter().map(|(path, _)| std::fs::read_to_string(path).unwrap()).collect();
        text.lines().filter_map(|line| serde_json::from_str::<Record>(line).ok()).map(|r| r.time_ns).collect()
    }

    #[test]
    fn goes_on_with_the_last_file_and_mends_a_torn_line() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = JournalFile::new(&settings(dir.path(), 10_000, 100_000));
        journal.append(&record(1)).unwrap();
        journal.close();
        let (path, _) = files(dir.path()).unwrap().remove(0);
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"time_ns\":").unwrap();
        let mut journal = JournalFile::new(&settings(dir.path(), 10_000, 100_000));
        journal.append(&record(2)).unwrap();
        journal.append(&record(3)).unwrap();
        assert_eq!(files(dir.path()).unwrap().len(), 1);
        assert_eq!(records(dir.path()), [1, 2, 3]);
    }

    #[test]
    fn is_bounded_and_keeps_the_newest() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = JournalFile::new(&settings(dir.path(), 1_000, 4_000));
        for time in 0..500 {
            // The clock was set back in the middle.
            journal.append(&record(if time < 250 { 1_000 + time } else { time })).unwrap();
        }
        let sizes: u64 = files(dir.path()).unwrap().iter().map(|(_, size)| size).sum();
        assert!(sizes <= 5_000, "{sizes}");
        assert_eq!(records(dir.path()).last(), Some(&499));
        assert!(records(dir.path()).len() > 10);
    }

    #[test]
    fn what_others_keep_beside_it_is_neither_written_nor_counted_nor_removed() {
        let dir = tempfile::tempdir().unwrap();
        let kept = ["save.jsonl", "guard-0000000003-save.jsonl", "guard-.jsonl", "guard-99999999999999999999.jsonl"];
        for name in kept {
            std::fs::write(dir.path().join(name), "x".repeat(900)).unwrap();
        }
        let mut journal = JournalFile::new(&settings(dir.path(), 1_000, 4_000));
        (0..100).for_each(|time| journal.append(&record(time)).unwrap());
        for name in kept {
            assert_eq!(std::fs::read_to_string(dir.path().join(name)).unwrap(), "x".repeat(900), "{name}");
        }
        let sizes: Vec<u64> = files(dir.path()).unwrap().iter().map(|(_, size)| *size).collect();
        assert!(sizes.iter().all(|size| *size <= 1_000) && sizes.iter().sum::<u64>() <= 5_000, "{sizes:?}");
        assert!(sizes.len() > 2 && records(dir.path()).last() == Some(&99));
    }

    #[test]
    fn a_file_that_is_moved_away_is_not_written_to_any_more() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = JournalFile::new(&settings(dir.path(), 10_000, 40_000));
        journal.append(&record(1)).unwrap();
        let (path, _) = files(dir.path()).unwrap().remove(0);
        std::fs::rename(&path, dir.path().join("moved")).unwrap();
        journal.append(&record(2)).unwrap();
        assert_eq!(records(dir.path()), [2]);
        // Another file has its name by now.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        journal.append(&record(3)).unwrap();
        assert_eq!(records(dir.path()), [3]);
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error_and_then_fine_again() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("journal");
        let mut journal = JournalFile::new(&settings(&folder, 1_000, 4_000));
        let error = journal.append(&record(1)).unwrap_err();
        assert!(format!("{error:#}").contains("journal: "), "{error:#}");
        std::fs::create_dir(&folder).unwrap();
        journal.append(&record(2)).unwrap();
        assert_eq!(records(&folder), [2]);
    }

    #[test]
    fn a_full_disk_is_an_error_each_time() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/full", dir.path().join("guard-1.jsonl")).unwrap();
        let mut journal = JournalFile::new(&settings(dir.path(), 1_000, 4_000));
        assert!(journal.append(&record(1)).is_err());
        assert!(journal.append(&record(2)).is_err());
    }
}

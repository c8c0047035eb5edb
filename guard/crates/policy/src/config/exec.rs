// SPDX-License-Identifier: Apache-2.0
//! `[[exec]]`: signals of the site's own, numbers that a command prints. Their places follow those of [`SOURCES`].

use super::check::{time, Fault};
use super::raw::RawExec;
use crate::gauge::{source_of, PROBE_ROOT, PROBE_ROOT_NS, SOURCES};
use std::path::Path;

/// Values of all commands together.
pub const EXEC_MOST: usize = 32;

/// A name is part of that of a user, `beer-exec-NAME`, of at most 31 characters (utmp; systemd, valid_user_group_name).
const NAME_MOST: usize = 21;
const KEY_MOST: usize = 64;
const WORDS_MOST: usize = 64;
const WORD_MOST: usize = 4096;
const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;
/// The watch thread looks once a second, and what runs as another process may be late.
const LATE_NS: u64 = 2 * S;

/// A command that prints readings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exec {
    /// Its name, unique: the instance of `beer-exec@.service`.
    pub name: String,
    /// Program and arguments; never empty.
    pub command: Vec<String>,
    /// It is started so often.
    pub interval_ns: u64,
    /// It must have ended by then.
    pub timeout_ns: u64,
    /// Keys that it prints.
    pub metrics: Vec<String>,
}

/// Each value: its place, whose it is, and its key.
pub fn exec_places(exec: &[Exec]) -> impl Iterator<Item = (usize, &Exec, &str)> {
    let keys = exec.iter().flat_map(|entry| entry.metrics.iter().map(move |key| (entry, key.as_str())));
    keys.enumerate().map(|(number, (entry, key))| (SOURCES.len() + number, entry, key))
}

/// What gauges may name; the index is its place.
pub fn source_names(exec: &[Exec]) -> impl Iterator<Item = String> + '_ {
    let own = SOURCES.iter().map(|source| source.name.to_owned());
    own.chain(exec_places(exec).map(|(_, entry, key)| format!("exec.{}.{key}", entry.name)))
}

/// Place of a source, and the least grace time that it needs.
pub(super) fn place(name: &str, exec: &[Exec]) -> Option<(usize, u64)> {
    if let Some(place) = source_of(name) {
        return Some((place, if name == PROBE_ROOT { 2 * PROBE_ROOT_NS + LATE_NS } else { 2 * S }));
    }
    let (owner, wanted) = name.strip_prefix("exec.")?.split_once('.')?;
    let found = exec_places(exec).find(|(_, entry, key)| entry.name == owner && *key == wanted);
    found.map(|(place, entry, _)| (place, entry.interval_ns + entry.timeout_ns + LATE_NS))
}

pub(super) fn check(raw: Vec<RawExec>) -> Result<Vec<Exec>, Fault> {
    let mut checked: Vec<Exec> = Vec::new();
    for (i, raw) in raw.into_iter().enumerate() {
        let entry = entry(i, raw)?;
        if checked.iter().any(|other| other.name == entry.name) {
            return Err((format!("exec[{i}].name"), format!("`{}` is there twice", entry.name)));
        }
        checked.push(entry);
    }
    match exec_places(&checked).count() {
        0..=EXEC_MOST => Ok(checked),
        many => Err(("exec".into(), format!("{many} metrics; up to {EXEC_MOST} in all are possible"))),
    }
}

fn entry(index: usize, raw: RawExec) -> Result<Exec, Fault> {
    let at = |key: &str| format!("exec[{index}].{key}");
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let name = of(at("name"), raw.name, NAME_MOST, plain, "a-z, 0-9 and -")?;
    let interval_ns = time(at("interval"), raw.interval, S, 240 * S)?;
    let timeout_ns = time(at("timeout"), raw.timeout, 100 * MS, interval_ns)?;
    if raw.metrics.is_empty() {
        return Err((at("metrics"), "it is empty; write the keys that the command prints".into()));
    }
    let mut metrics: Vec<String> = Vec::new();
    for (i, key) in raw.metrics.into_iter().enumerate() {
        let path = at(&format!("metrics[{i}]"));
        let key = of(path.clone(), key, KEY_MOST, |c| plain(c) || c == '_' || c == '.', "a-z, 0-9, _, . and -")?;
        if metrics.contains(&key) {
            return Err((path, format!("`{key}` is there twice")));
        }
        metrics.push(key);
    }
    Ok(Exec { name, command: command(at("command"), raw.command)?, interval_ns, timeout_ns, metrics })
}

/// A word of a few characters.
fn of(path: String, text: String, most: usize, allowed: impl Fn(char) -> bool, said: &str) -> Result<String, Fault> {
    match !text.is_empty() && text.len() <= most && text.chars().all(allowed) {
        true => Ok(text),
        false => Err((path, format!("`{text}`: 1 to {most} characters {said} are allowed"))),
    }
}

fn command(path: String, words: Vec<String>) -> Result<Vec<String>, Fault> {
    match words.first() {
        Some(program) if Path::new(program).is_absolute() => {}
        Some(program) => return Err((format!("{path}[0]"), format!("`{program}` must be an absolute path"))),
        None => return Err((path, "it is empty; write a program with its path, and its arguments".into())),
    }
    if words.len() > WORDS_MOST {
        return Err((path, format!("{} words; up to {WORDS_MOST} are possible", words.len())));
    }
    match words.iter().position(|word| word.len() > WORD_MOST || word.contains('\0')) {
        Some(i) => Err((format!("{path}[{i}]"), format!("up to {WORD_MOST} bytes, none of them 0, are allowed"))),
        None => Ok(words),
    }
}

// SPDX-License-Identifier: Apache-2.0
//! `io.max` of single jobs, and of their slice. These are systemd's, so it is told (`set-property --runtime`), and the kernel is asked
//! whether it is so. What systemd cannot do is written to the file: a container that is no unit of its, and a disk that it
//! takes for another one (it puts limits for a device-mapper volume on the disk below). Slow: for the actuator thread only.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{bail, Context, Result};
use intf::status::LimitStatus;
use kernfs::io_max::IoMax;

use super::{replace, set_property, write};
use crate::command;

/// What one job may do to one disk, reads and writes together. The kernel limits them apart, so each of them gets its part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Its cgroup below beer-jobs.slice, or that.
    pub scope: Box<str>,
    /// The whole disk.
    pub device: (u32, u32),
    /// Per second.
    pub requests: u64,
    /// Per second.
    pub bytes: u64,
    /// How much of both is for reads, in percent: as it was when the limit began, and some for whoever does otherwise now.
    pub reads: u64,
}

/// Nobody gets less than this of a disk per second, in requests and in bytes: one large request is to be through in a moment,
/// because a task that waits for it does not freeze.
pub const LITTLE: (u64, u64) = (8, 1 << 20);

/// The kernel refuses less (EINVAL: block/blk-throttle.c, tg_set_limit), and then nothing of the line is in force.
const LEAST: u64 = 2;

impl Limit {
    /// The least that all of batch has of a disk.
    pub fn little(scope: &str, device: (u32, u32)) -> Limit {
        Limit { scope: scope.into(), device, requests: LITTLE.0, bytes: LITTLE.1, reads: 50 }
    }

    /// For example `40 requests/s and 2.5 MB/s of vdb`.
    pub fn words(&self) -> String {
        in_words(self.device, self.requests, self.bytes)
    }

    /// What the kernel is told.
    pub fn in_kernel(&self) -> IoMax {
        let part = |all: u64, percent: u64| (all.saturating_mul(percent) / 100).max(LEAST);
        let writes = 100u64.saturating_sub(self.reads);
        IoMax {
            device: self.device,
            read_bytes: part(self.bytes, self.reads),
            write_bytes: part(self.bytes, writes),
            reads: part(self.requests, self.reads),
            writes: part(self.requests, writes),
        }
    }
}

/// The same of whoever it is.
pub fn in_words((major, minor): (u32, u32), requests: u64, bytes: u64) -> String {
    let link = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok();
    let name = link.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_else(|| format!("{major}:{minor}"));
    format!("{requests} requests/s and {:.1} MB/s of {name}", bytes as f64 / 1e6)
}

impl From<&Limit> for LimitStatus {
    fn from(limit: &Limit) -> Self {
        let Limit { device: (major, minor), requests, bytes, .. } = *limit;
        LimitStatus { device: format!("{major}:{minor}"), requests, bytes }
    }
}

/// What has become of one job.
#[derive(Debug)]
pub struct Outcome {
    /// Who.
    pub scope: Box<str>,
    /// What he was to get; empty = everything.
    pub limits: Vec<Limit>,
    /// It is so in the kernel, or why not.
    pub seen: Result<()>,
}

/// Keeps the limits of the jobs as they are wanted.
pub struct IoMaxActuator {
    slice: PathBuf,
    systemctl: PathBuf,
    deadline: Duration,
    /// For who comes after us: whose limits may be ours.
    memory: PathBuf,
    /// What is so in the kernel, by job.
    applied: BTreeMap<Box<str>, Vec<Limit>>,
    /// Whose limits we have tried to set, on which disks, until it was seen that there are none of ours any more; and what was
    /// there before.
    touched: BTreeMap<Box<str>, Before>,
    /// When each was last tried, by the number of the try.
    tried: BTreeMap<Box<str>, u64>,
    tries: u64,
    /// systemd has not answered in this round.
    unanswered: bool,
    /// Disks that the kernel does not have any more: there is nothing to limit.
    vanished: BTreeSet<(u32, u32)>,
}

/// By disk. A job's scope has no limits but ours; its slice may have some of the site's own, which always hold too.
type Before = BTreeMap<(u32, u32), IoMax>;

/// More than all names of jobs that there can be, with some disks each.
const MEMORY_BYTES: u64 = 1 << 20;

pub(super) const PROPERTIES: [&str; 4] =
    ["IOReadIOPSMax", "IOWriteIOPSMax", "IOReadBandwidthMax", "IOWriteBandwidthMax"];

impl IoMaxActuator {
    /// Name of the file in the run folder that says who is limited.
    pub const MEMORY: &'static str = "limited";

    /// `slice` is the folder of the cgroup of the jobs. Touches nothing yet.
    pub fn new(slice: &Path, run: &Path, systemctl: &Path, deadline: Duration) -> Self {
        Self::remembering(slice, &run.join(Self::MEMORY), systemctl, deadline)
    }

    /// Of cgroups below `folder`; `memory` is the file that says who is limited.
    pub(super) fn remembering(folder: &Path, memory: &Path, systemctl: &Path, deadline: Duration) -> Self {
        IoMaxActuator {
            slice: folder.to_owned(),
            systemctl: systemctl.to_owned(),
            deadline,
            memory: memory.to_owned(),
            applied: BTreeMap::new(),
            touched: BTreeMap::new(),
            tried: BTreeMap::new(),
            tries: 0,
            unanswered: false,
            vanished: BTreeSet::new(),
        }
    }

    /// Knows whose limits an earlier guard has left, which may have died: the next [`Self::make`] lifts them.
    pub fn adopt(&mut self) {
        let mut text = String::new();
        let file = std::fs::File::open(&self.memory);
        if file.and_then(|file| file.take(MEMORY_BYTES).read_to_string(&mut text)).is_err() {
            return;
        }
        for line in text.lines() {
            let Some((scope, before)) =
                line.split_once(' ').and_then(|(scope, before)| Some((scope, IoMax::parse(before)?)))
            else {
                continue;
            };
            if !scope.is_empty() && !scope.contains('/') && !scope.starts_with(['.', '-']) {
                self.touched.entry(scope.into()).or_default().insert(before.device, before);
            }
        }
    }

    /// Makes it so; says what it did, and nothing of what was so already. Lifts come first, then who has no limit yet, then who has
    /// waited for longest. Ends early when `superseded` says that something else is wanted by now: what is left is done the next
    /// time. When systemd does not answer the kernel is told, and systemd the next time.
    pub fn make(&mut self, wanted: &[Limit], superseded: &mut dyn FnMut() -> bool) -> Vec<Outcome> {
        let mut by_scope: BTreeMap<Box<str>, Vec<Limit>> = BTreeMap::new();
        for limit in wanted {
            by_scope.entry(limit.scope.clone()).or_default().push(limit.clone());
        }
        let mut outcomes = Vec::new();
        let unwanted: Vec<Box<str>> =
            self.touched.keys().filter(|scope| !by_scope.contains_key(*scope)).cloned().collect();
        let lifts = unwanted.into_iter().map(|scope| (scope, Vec::new()));
        let mut due: Vec<(Box<str>, Vec<Limit>)> = lifts.chain(by_scope).collect();
        due.retain(|(scope, limits)| limits.is_empty() || self.applied.get(scope) != Some(limits));
        self.tried.retain(|scope, _| due.iter().any(|(other, _)| other == scope));
        due.sort_by_key(|(scope, limits)| {
            (!limits.is_empty(), self.applied.contains_key(scope), self.tried.get(scope).copied().unwrap_or_default())
        });
        self.unanswered = false;
        for (scope, limits) in due {
            self.tries += 1;
            self.tried.insert(scope.clone(), self.tries);
            let seen = if limits.is_empty() { self.lift(&scope) } else { self.set(&scope, &limits) };
            outcomes.push(Outcome { scope, limits, seen });
            if superseded() {
                break;
            }
        }
        outcomes
    }

    /// May this job have a limit of ours?
    pub fn knows(&self, scope: &str) -> bool {
        self.touched.contains_key(scope)
    }

    /// Is anything otherwise in the kernel than it was made? It is put right with the next [`Self::make`]. Jobs that have
    /// ended are no matter.
    pub fn drifted(&mut self) -> bool {
        let (slice, touched, vanished) = (&self.slice, &self.touched, &self.vanished);
        let so = |limit: &Limit| match IoMax::read(&slice.join(&*limit.scope), limit.device) {
            Ok(Some(now)) => vanished.contains(&limit.device) || now == within(limit, touched.get(&limit.scope)),
            _ => true,
        };
        let count = self.applied.len();
        self.applied.retain(|_, limits| limits.iter().all(so));
        count != self.applied.len()
    }

    /// Are these limits, and no others of ours, in the kernel already? Somebody before us may have set them.
    pub(super) fn stands(&self, wanted: &[Limit]) -> bool {
        let so = |limit: &Limit| {
            let before = self.touched.get(&limit.scope).filter(|before| before.contains_key(&limit.device));
            let now = IoMax::read(&self.slice.join(&*limit.scope), limit.device).ok().flatten();
            before.is_some() && (self.vanished.contains(&limit.device) || now == Some(within(limit, before)))
        };
        wanted.len() == self.touched.values().map(Before::len).sum::<usize>() && wanted.iter().all(so)
    }

    fn set(&mut self, scope: &str, limits: &[Limit]) -> Result<()> {
        self.applied.remove(scope);
        let folder = self.slice.join(scope);
        let touched = self.touched.entry(scope.into()).or_default();
        let unwanted = |device: &(u32, u32)| limits.iter().all(|limit| limit.device != *device);
        let fewer: Vec<(u32, u32)> = touched.keys().copied().filter(unwanted).collect();
        match fewer[..] {
            [] => {}
            _ if is_slice(scope) => self.give_back(scope, &fewer, &folder)?,
            // systemd knows no way to take the limits of one disk out of a list.
            _ => self.lift(scope)?,
        }
        let touched = self.touched.entry(scope.into()).or_default();
        for limit in limits {
            touched.entry(limit.device).or_insert_with(|| before(&folder, limit));
        }
        let targets: Vec<IoMax> = limits.iter().map(|limit| within(limit, Some(touched))).collect();
        // Known before it is done: a guard that comes back must know whose limits to lift.
        self.remember();
        let made = self.tell_and_look(scope, &targets, &folder);
        if gone(&folder) && !is_slice(scope) {
            self.forget(scope);
            return Ok(());
        }
        made?;
        self.applied.insert(scope.into(), limits.to_vec());
        Ok(())
    }

    fn tell_and_look(&mut self, scope: &str, wanted: &[IoMax], folder: &Path) -> Result<()> {
        if is_unit(scope) && self.systemctl(scope, &assignments(wanted))? {
            let other = |wanted: &&IoMax| now(folder, wanted.device).ok() != Some(**wanted);
            let others: Vec<IoMax> = wanted.iter().filter(other).copied().collect();
            if others.is_empty() {
                return Ok(());
            }
            // It took the disk for another one, where it must not stay, or does not find it.
            self.systemctl(scope, &self.as_before(scope, |device| others.iter().any(|other| other.device == device)))?;
            // Of a slice it keeps the limits of other disks.
            return self.write_all(folder, if is_slice(scope) { &others } else { wanted });
        }
        self.write_all(folder, wanted)
    }

    /// What systemd has left otherwise.
    fn put_right<'a>(&mut self, folder: &Path, wanted: impl Iterator<Item = &'a IoMax>) -> Result<()> {
        let other = |wanted: &&IoMax| now(folder, wanted.device).ok() != Some(**wanted);
        let others: Vec<IoMax> = wanted.filter(other).copied().collect();
        self.write_all(folder, &others)
    }

    /// One that fails keeps no other from being limited.
    fn write_all(&mut self, folder: &Path, wanted: &[IoMax]) -> Result<()> {
        let mut first = Ok(());
        for wanted in wanted {
            self.vanished.remove(&wanted.device);
            match write(folder, "io.max", &wanted.line()) {
                Err(error) if no_such_device(&error) => _ = self.vanished.insert(wanted.device),
                made => first = first.and(made),
            }
        }
        first?;
        let mut there = wanted.iter().filter(|wanted| !self.vanished.contains(&wanted.device));
        there.try_for_each(|wanted| match now(folder, wanted.device)? {
            now if now == *wanted => Ok(()),
            now => bail!("{}: io.max is `{}`", folder.display(), now.line()),
        })
    }

    /// These disks of a slice are as before; it keeps what it has of others.
    fn give_back(&mut self, scope: &str, disks: &[(u32, u32)], folder: &Path) -> Result<()> {
        let told = self.systemctl(scope, &self.as_before(scope, |device| disks.contains(&device)))?;
        let before = self.touched.get(scope).cloned().unwrap_or_default();
        self.put_right(folder, disks.iter().filter_map(|device| before.get(device)))?;
        // Else systemd is told the next time.
        if let Some(touched) = self.touched.get_mut(scope).filter(|_| told) {
            touched.retain(|device, _| !disks.contains(device));
        }
        Ok(())
    }

    fn lift(&mut self, scope: &str) -> Result<()> {
        self.applied.remove(scope);
        let folder = self.slice.join(scope);
        let before = self.touched.get(scope).cloned().unwrap_or_default();
        let lifted = self.lift_in(scope, &folder, &before);
        if lifted.is_ok() || (gone(&folder) && !is_slice(scope)) {
            self.forget(scope);
            return Ok(());
        }
        lifted
    }

    fn lift_in(&mut self, scope: &str, folder: &Path, before: &Before) -> Result<()> {
        // A scope ends with its cgroup; a slice is remembered by systemd, which would make the next one as this one was.
        let ended = gone(folder) && !is_slice(scope);
        let told = !is_unit(scope) || ended || self.systemctl(scope, &self.as_before(scope, |_| true))?;
        if !gone(folder) {
            self.put_right(folder, before.values())?;
        }
        if !told {
            // It would set them again the next time that it writes anything.
            bail!("{scope}: systemd does not answer");
        }
        Ok(())
    }

    fn forget(&mut self, scope: &str) {
        self.touched.remove(scope);
        self.applied.remove(scope);
        self.remember();
    }

    /// What systemd is told to take our limits away. It knows no way to take those of one disk out of its list; a slice may have
    /// others there.
    fn as_before(&self, scope: &str, on: impl Fn((u32, u32)) -> bool) -> Vec<String> {
        match self.touched.get(scope) {
            Some(before) if is_slice(scope) => {
                assignments(&before.values().filter(|before| on(before.device)).copied().collect::<Vec<_>>())
            }
            _ => PROPERTIES.map(|name| format!("{name}=")).into(),
        }
    }

    /// `Ok(false)` = it does not answer, now or before in this round.
    fn systemctl(&mut self, unit: &str, properties: &[String]) -> Result<bool> {
        if self.unanswered {
            return Ok(false);
        }
        match set_property(&self.systemctl, unit, properties, self.deadline) {
            Err(error) if error.is::<command::Unanswered>() => {
                self.unanswered = true;
                Ok(false)
            }
            other => other.map(|()| true),
        }
    }

    /// Below /run: waits for no disk. Without it limits outlive a guard that dies, until their jobs end.
    fn remember(&self) {
        let mut text = String::new();
        for (scope, before) in &self.touched {
            for before in before.values() {
                text += &format!("{scope} {}\n", before.line());
            }
        }
        let _ = replace(&self.memory, &text);
    }
}

/// A slice is there before we are, and may have limits of the site's own; who finds ours there has lost his memory.
fn before(folder: &Path, limit: &Limit) -> IoMax {
    let slice = folder.to_str().is_some_and(is_slice);
    let now = IoMax::read(folder, limit.device).ok().flatten().filter(|_| slice);
    let now = now.unwrap_or(IoMax::unlimited(limit.device));
    // The fail-safe may have limited it and not be through with lifting that.
    let ours = [limit.in_kernel(), Limit::little(&limit.scope, limit.device).in_kernel()];
    let unless_ours =
        |now: u64, of: fn(&IoMax) -> u64| if ours.iter().any(|ours| of(ours) == now) { u64::MAX } else { now };
    IoMax {
        device: now.device,
        read_bytes: unless_ours(now.read_bytes, |so| so.read_bytes),
        write_bytes: unless_ours(now.write_bytes, |so| so.write_bytes),
        reads: unless_ours(now.reads, |so| so.reads),
        writes: unless_ours(now.writes, |so| so.writes),
    }
}

/// A limit, where the one of before may be stricter.
fn within(limit: &Limit, before: Option<&Before>) -> IoMax {
    let wanted = limit.in_kernel();
    before.and_then(|before| before.get(&limit.device)).map_or(wanted, |before| wanted.stricter(before))
}

fn assignments(wanted: &[IoMax]) -> Vec<String> {
    let of = |so: &IoMax| {
        let (major, minor) = so.device;
        let value = |limit: u64| if limit == u64::MAX { "infinity".to_owned() } else { limit.to_string() };
        let values = [so.reads, so.writes, so.read_bytes, so.write_bytes].map(value);
        let one = |(name, value): (&str, String)| format!("{name}=/dev/block/{major}:{minor} {value}");
        PROPERTIES.into_iter().zip(values).map(one).collect::<Vec<_>>()
    };
    wanted.iter().flat_map(of).collect()
}

fn is_unit(scope: &str) -> bool {
    [".scope", ".service"].iter().any(|suffix| scope.ends_with(suffix)) || is_slice(scope)
}

fn is_slice(scope: &str) -> bool {
    scope.ends_with(".slice")
}

/// The kernel has no such disk (ENODEV).
fn no_such_device(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<std::io::Error>();
    cause.and_then(std::io::Error::raw_os_error) == Some(rustix::io::Errno::NODEV.raw_os_error())
}

/// The job has ended.
fn gone(folder: &Path) -> bool {
    !folder.exists()
}

fn now(folder: &Path, device: (u32, u32)) -> Result<IoMax> {
    IoMax::read(folder, device)?.with_context(|| format!("{}: no io.max: is the io controller on?", folder.display()))
}

#[cfg(test)]
mod tests;

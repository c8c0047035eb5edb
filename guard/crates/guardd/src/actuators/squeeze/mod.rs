// SPDX-License-Identifier: Apache-2.0
//! Less CPU or memory for all of batch: properties of its slice, which is systemd's, so it is told (`set-property --runtime`), and
//! the kernel is asked whether it is so. Slow: for the actuator thread only.

mod cpu;
mod memory;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{bail, Context, Result};
use kernfs::cpus;
use policy::squeeze::{Resource, Shares};

use super::freeze::IDLE_LIFTED;
use super::{gone, now, replace, set_property, unit, write_memory_high, RECLAIM};
use crate::failsafe::{percent, Failsafe};

/// A property of the slice, and the file of the cgroup where it is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Knob {
    property: &'static str,
    value: String,
    file: &'static str,
    seen: String,
}

impl Knob {
    fn new(property: &'static str, value: &str, file: &'static str, seen: &str) -> Knob {
        Knob { property, value: value.into(), file, seen: seen.into() }
    }
}

/// What batch had before it got less.
#[derive(Clone, Debug, Default)]
struct Before {
    /// `Property=value`, for systemd. A weight only where batch was not idle, as it is as shipped.
    assignments: Vec<String>,
    cpus: Vec<u32>,
    bytes: u64,
}

/// What has become of one resource.
#[derive(Debug)]
pub struct Squeezed {
    /// Of what: the name of a [`Resource`], `data disks`, `busy disks`, or `swap`.
    pub of: &'static str,
    /// What batch has now, in words; `None` = all that it had before.
    pub has: Option<String>,
    /// It is so in the kernel, or why not.
    pub seen: Result<()>,
}

/// Keeps the slice as it is wanted.
pub struct SqueezeActuator {
    slice: PathBuf,
    topology: PathBuf,
    systemctl: PathBuf,
    deadline: Duration,
    run: PathBuf,
    /// By resource; `None` = it has all of it.
    before: [Option<Before>; OF.len()],
    /// What is so in the kernel.
    applied: [Vec<Knob>; OF.len()],
}

/// Of what; their places are those of [`Resource::ALL`].
const OF: [Resource; 2] = [Resource::Cpu, Resource::Memory];

/// The properties of each resource, and the files that systemd keeps them in are named after them.
const PROPERTIES: [&[&str]; OF.len()] = [&["AllowedCPUs", "CPUQuota", "CPUWeight"], &["MemoryHigh"]];

impl SqueezeActuator {
    /// Name of the file in the run folder that says what batch had before.
    pub const MEMORY: &'static str = "squeezed";
    /// Name of the file there that says that systemd's files may be tidied up: the guard's sandbox cannot.
    const TIDY: &'static str = "squeezed-before";

    /// `slice` is the folder of the cgroup of the jobs. Touches nothing yet.
    pub fn new(slice: &Path, run: &Path, systemctl: &Path, deadline: Duration) -> Self {
        SqueezeActuator {
            slice: slice.to_owned(),
            topology: "/sys/devices/system/cpu".into(),
            systemctl: systemctl.to_owned(),
            deadline,
            run: run.to_owned(),
            before: Default::default(),
            applied: Default::default(),
        }
    }

    /// Knows what an earlier guard has left, which may have died: the next [`Self::make`] gives it back.
    pub fn adopt(&mut self) {
        let text = std::fs::read_to_string(self.run.join(Self::MEMORY)).unwrap_or_default();
        for line in text.lines() {
            let mut words = line.split(' ');
            let name = words.next();
            let Some(resource) = OF.into_iter().find(|resource| Some(resource.name()) == name) else {
                continue;
            };
            let ours =
                |word: &&str| PROPERTIES[resource as usize].contains(&word.split('=').next().unwrap_or_default());
            let assignments: Vec<String> = words.filter(ours).map(str::to_owned).collect();
            if !assignments.is_empty() {
                self.before[resource as usize] = Some(Before { assignments, ..Before::default() });
            }
        }
    }

    /// Has a guard with this run folder taken some of it from batch, this one or one before?
    pub(super) fn taken(run: &Path, resource: Resource) -> bool {
        let memory = now(run, Self::MEMORY).unwrap_or_default();
        memory.lines().any(|line| line.split(' ').next() == Some(resource.name()))
    }

    /// Makes it so; says what it did, and nothing of what was so already.
    pub fn make(&mut self, shares: Shares) -> Vec<Squeezed> {
        let make = |resource| match shares.of(resource) {
            share if share < 1.0 => self.squeeze(resource, share),
            _ => self.give_back(resource),
        };
        OF.into_iter().filter_map(make).collect()
    }

    /// Is anything otherwise in the kernel than it was made? It is put right with the next [`Self::make`].
    pub fn drifted(&mut self) -> bool {
        let (slice, run) = (&self.slice, &self.run);
        let changed = |knob: &Knob| now(slice, knob.file).is_some_and(|now| now != knob.seen);
        let other = |knobs: &&mut Vec<Knob>| knobs.iter().any(|knob| changed(knob) && !lifted(slice, run, knob));
        self.applied.iter_mut().filter(other).map(Vec::clear).count() > 0
    }

    /// Takes systemd's files away that what was given back has left, so that they do not hide a later change of the unit's own.
    /// `control` = where it keeps them. Only with all privileges.
    ///
    /// # Errors
    /// They cannot be removed.
    pub fn tidy(&self, control: &Path) -> Result<()> {
        let marker = self.run.join(Self::TIDY);
        if !marker.exists() || self.run.join(Self::MEMORY).exists() {
            return Ok(());
        }
        for property in PROPERTIES.iter().flat_map(|properties| properties.iter()) {
            gone(&control.join(format!("{}.d/50-{property}.conf", unit(&self.slice))))?;
        }
        gone(&marker)
    }

    fn squeeze(&mut self, resource: Resource, share: f32) -> Option<Squeezed> {
        if !self.slice.exists() {
            return None;
        }
        let before = match self.before[resource as usize].take() {
            Some(before) if !before.cpus.is_empty() || before.bytes > 0 => before,
            // What an earlier guard has left could not be given back yet.
            Some(Before { assignments, .. }) => Before { assignments, ..self.look(resource) },
            // What is there now are the fail-safe's caps, and not what batch had. They are lifted within seconds.
            None if resource == Resource::Cpu && self.run.join(Failsafe::CAPPED).exists() => return None,
            None => self.look(resource),
        };
        let (knobs, words) = match resource {
            Resource::Cpu => {
                let knobs = cpu::knobs(&self.topology, &before.cpus, share, has_weight(&before.assignments));
                let words = cpu::words(&knobs, &before.cpus);
                (knobs, words)
            }
            Resource::Memory => {
                let knobs = memory::knobs(before.bytes, share);
                let words = memory::words(&knobs, before.bytes);
                (knobs, words)
            }
            // Another actuator's.
            Resource::Network => return None,
        };
        self.before[resource as usize] = Some(before);
        if knobs == self.applied[resource as usize] {
            return None;
        }
        // Known before it is done: a guard that comes back must know what to give back.
        let seen = self.remember().and_then(|()| self.set(resource, &knobs));
        self.applied[resource as usize] = if seen.is_ok() { knobs } else { Vec::new() };
        Some(Squeezed { of: resource.name(), has: Some(words), seen })
    }

    fn set(&self, resource: Resource, knobs: &[Knob]) -> Result<()> {
        if knobs.is_empty() {
            bail!("{}: it cannot be said which CPUs there are", self.slice.display());
        }
        if resource == Resource::Memory {
            // PID 1 is not to wait for the kernel either. Systemd puts back what it knows of when it changes anything else there, and then
            // it has drifted.
            for knob in knobs {
                if !write_memory_high(&self.slice, &knob.seen, RECLAIM)? {
                    return self.is_so(knobs);
                }
            }
        }
        let told = knobs.iter().map(|knob| format!("{}={}", knob.property, knob.value));
        // What this share does not need is as it was before.
        let before = self.before[resource as usize].iter().flat_map(|before| &before.assignments);
        let unneeded = |word: &&String| knobs.iter().all(|knob| !word.starts_with(&format!("{}=", knob.property)));
        self.systemctl(told.chain(before.filter(unneeded).cloned()).collect())?;
        self.is_so(knobs)
    }

    fn is_so(&self, knobs: &[Knob]) -> Result<()> {
        knobs.iter().try_for_each(|knob| match now(&self.slice, knob.file) {
            Some(now) if now == knob.seen => Ok(()),
            _ if lifted(&self.slice, &self.run, knob) => Ok(()),
            now => bail!("{}: {} is `{}`", self.slice.display(), knob.file, now.unwrap_or_default()),
        })
    }

    fn give_back(&mut self, resource: Resource) -> Option<Squeezed> {
        let before = self.before[resource as usize].clone()?;
        // Also where it has been stopped: systemd would make the next one as this one was.
        let assignments = self.returns(&before.assignments);
        let done = self.systemctl(assignments.clone());
        if done.is_err() {
            return Some(Squeezed { of: resource.name(), has: None, seen: done });
        }
        self.before[resource as usize] = None;
        let ours = std::mem::take(&mut self.applied[resource as usize]);
        let mut seen = self.remember();
        if has_weight(&assignments) {
            // The freezer is not to make it idle again that is not.
            seen = seen.and(gone(&self.run.join(IDLE_LIFTED)));
        }
        // The end of a freeze, which had lifted it, has put it back just then.
        let back =
            |knob: &Knob| knob.file.starts_with("cpu.") && now(&self.slice, knob.file).as_ref() == Some(&knob.seen);
        if seen.is_ok() && ours.iter().any(back) {
            seen = self.systemctl(assignments);
        }
        Some(Squeezed { of: resource.name(), has: None, seen })
    }

    /// What gives back what was there before. A slice without a list of CPUs of its own had its parent's; the kernel lets nobody take a
    /// list from a cgroup with tasks in it (ENOSPC), and systemd does not try, but one of all CPUs that there can be comes to the same.
    fn returns(&self, assignments: &[String]) -> Vec<String> {
        let possible = std::fs::read_to_string(self.topology.join("possible")).unwrap_or_default();
        let own = now(&self.slice, "cpuset.cpus").is_some_and(|list| !list.is_empty());
        let returned = |assignment: &String| match assignment.as_str() {
            none @ "AllowedCPUs=" if own => format!("{none}{}", possible.trim_end()),
            other => other.to_owned(),
        };
        assignments.iter().map(returned).collect()
    }

    /// As the kernel has it; what systemd cannot be told just so is left alone.
    fn look(&self, resource: Resource) -> Before {
        let file = |name| now(&self.slice, name);
        match resource {
            Resource::Cpu => {
                let quota = file("cpu.max").and_then(|text| match text.split_once(' ')? {
                    ("max", _) => Some(String::new()),
                    (time, period) => percent(time, period),
                });
                // Without a cpuset of its own it has its parent's, and systemd makes one for it.
                let mut assignments = vec![
                    format!("AllowedCPUs={}", file("cpuset.cpus").unwrap_or_default()),
                    format!("CPUQuota={}", quota.unwrap_or_default()),
                ];
                // Kernels before 5.15 know of nothing idle. The control loop may lift that, or put it back, just now: what is idle has
                // no weight that is worth to be known.
                let lifted = || self.run.join(IDLE_LIFTED).exists();
                let before = lifted();
                let weight = file("cpu.weight").filter(|weight| weight != "0");
                let busy = !before && file("cpu.idle").as_deref() == Some("0") && !lifted();
                assignments.extend(weight.filter(|_| busy).map(|weight| format!("CPUWeight={weight}")));
                Before { assignments, cpus: self.allowed(), bytes: 0 }
            }
            Resource::Memory => {
                let number = |name| file(name).and_then(|text| text.parse::<u64>().ok());
                let high = number("memory.high").map_or("infinity".to_owned(), |bytes| bytes.to_string());
                let bytes = number("memory.current").unwrap_or_default().max(1);
                Before { assignments: vec![format!("MemoryHigh={high}")], cpus: Vec::new(), bytes }
            }
            Resource::Network => Before::default(),
        }
    }

    /// The CPUs that batch may use: of its slice, or of the next one above that has a list.
    fn allowed(&self) -> Vec<u32> {
        let list = |folder: &Path| now(folder, "cpuset.cpus.effective").and_then(|text| cpus::parse(&text));
        self.slice.ancestors().find_map(list).unwrap_or_default()
    }

    /// Below /run: waits for no disk.
    fn remember(&self) -> Result<()> {
        let path = self.run.join(Self::MEMORY);
        let known = OF.into_iter().zip(&self.before);
        let lines = known.filter_map(|(resource, before)| {
            Some(format!("{} {}\n", resource.name(), before.as_ref()?.assignments.join(" ")))
        });
        let text: String = lines.collect();
        if text.is_empty() {
            std::fs::write(self.run.join(Self::TIDY), "").with_context(|| format!("{}", self.run.display()))?;
            return gone(&path);
        }
        replace(&path, &text)
    }

    fn systemctl(&self, properties: Vec<String>) -> Result<()> {
        set_property(&self.systemctl, unit(&self.slice), &properties, self.deadline)
    }
}

/// Has the freezer lifted it, for as long as jobs are to come to a stand or to end?
fn lifted(slice: &Path, run: &Path, knob: &Knob) -> bool {
    match knob.file {
        "cpu.idle" => run.join(IDLE_LIFTED).exists(),
        "cpu.max" => now(slice, "cgroup.freeze").as_deref() == Some("1"),
        _ => false,
    }
}

/// Had batch a weight, so that it was not idle?
fn has_weight(assignments: &[String]) -> bool {
    assignments.iter().any(|assignment| assignment.starts_with("CPUWeight="))
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: Apache-2.0
//! The kernel says itself when tasks of the storage services, or of the host, begin to wait (kernel, accounting/psi.rst), where it
//! can. Where it cannot the gauges are looked at once a second all the same.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kernfs::psi::{Asked, PressureFile, Resource, Trigger};
use policy::Config;
use rustix::event::{poll, PollFd, PollFlags, Timespec};

/// A slice that has gone may come back: it is asked again after so many looks.
const AGAIN: u32 = 60;

/// Those of the slice of the storage services, and of the host.
pub struct Triggers {
    slice: PathBuf,
    proc: PathBuf,
    set: Vec<Trigger>,
    /// The kernel does not want to set so many of them.
    refused: usize,
    /// Looks until it is asked again.
    again: u32,
    told: bool,
}

/// All that are wanted.
const ALL: usize = 2 * Resource::ALL.len();

impl Triggers {
    /// Asks for nothing yet.
    pub fn new(config: &Config) -> Self {
        let proc = config.paths.proc.clone();
        Triggers { slice: slice(config), proc, set: Vec::new(), refused: 0, again: 0, told: false }
    }

    /// Asks for those that are not there.
    pub fn look(&mut self) {
        if self.set.len() + self.refused == ALL {
            return;
        }
        self.again = self.again.checked_sub(1).unwrap_or(AGAIN);
        if self.again != AGAIN {
            return;
        }
        self.set.clear();
        self.refused = 0;
        for (whose, resource, asked) in ask(&self.slice, &self.proc) {
            match asked {
                Asked::Set(trigger) => self.set.push(trigger),
                Asked::Absent => {}
                Asked::Refused(error) => {
                    self.refused += 1;
                    if !std::mem::replace(&mut self.told, true) {
                        eprintln!("<5>{}", refusal(whose, resource, &error));
                    }
                }
            }
        }
    }

    /// Waits until then. Returns earlier, and true, when the kernel says that some task has waited for long.
    pub fn fired(&mut self, end: Instant) -> bool {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        if self.set.is_empty() {
            std::thread::sleep(left);
            return false;
        }
        let mut fds: Vec<PollFd<'_>> = self.set.iter().map(|trigger| PollFd::new(trigger, PollFlags::PRI)).collect();
        let timeout = Timespec::try_from(left).ok();
        let ready = poll(&mut fds, timeout.as_ref()).unwrap_or_else(|_| {
            std::thread::sleep(left.min(Duration::from_millis(100)));
            0
        });
        let gone = fds.iter().any(|fd| fd.revents().contains(PollFlags::ERR));
        if gone {
            // Its slice was removed; it would be ready for ever.
            self.set.clear();
        }
        ready > 0 && !gone
    }
}

fn slice(config: &Config) -> PathBuf {
    config.paths.cgroup.join(&config.paths.storage_slice)
}

/// For all that are wanted, one after the other: of the slice first.
fn ask<'a>(slice: &'a Path, proc: &'a Path) -> impl Iterator<Item = (&'a Path, Resource, Asked)> {
    let storage = Resource::ALL.into_iter().map(move |of| (slice, of, Trigger::of_cgroup(slice, of)));
    storage.chain(Resource::ALL.into_iter().map(move |of| (proc, of, Trigger::of_host(proc, of))))
}

fn refusal(whose: &Path, resource: Resource, error: &rustix::io::Errno) -> String {
    let (whose, resource) = (whose.display(), resource.name());
    format!("{whose}: the kernel sets no trigger for pressure on {resource} ({error}): it is looked at once a second")
}

/// What this node can say about pressure, for `check-config --live`.
pub fn said(config: &Config) -> String {
    if let Ok(None) = PressureFile::of_host(&config.paths.proc, Resource::Io).read() {
        return "pressure: this kernel has it off; start it with psi=1 (EL9). Gauges on it are absent, who waits for memory is not known, and all else works".into();
    }
    let slice = slice(config);
    for (whose, resource, asked) in ask(&slice, &config.paths.proc) {
        match asked {
            Asked::Set(_) => {}
            Asked::Absent => return format!("pressure: {}: there is none for {}", whose.display(), resource.name()),
            Asked::Refused(error) => return format!("pressure: {}", refusal(whose, resource, &error)),
        }
    }
    format!("pressure: the kernel tells when tasks of {}, or of the host, wait", slice.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_any_it_waits_and_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().display();
        let config = format!("[paths]\ncgroup = \"{root}\"\nproc = \"{root}/proc\"\n");
        let config = Config::parse("test", &config).unwrap();
        let mut triggers = Triggers::new(&config);
        triggers.look();
        let begun = Instant::now();
        assert!(!triggers.fired(begun + Duration::from_millis(50)));
        assert!(begun.elapsed() >= Duration::from_millis(50));
        assert!(said(&config).contains("psi=1"), "{}", said(&config));
        let pressure = folder.path().join("proc/pressure");
        std::fs::create_dir_all(&pressure).unwrap();
        std::fs::write(pressure.join("io"), "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n").unwrap();
        assert!(said(&config).ends_with("storage.slice: there is none for cpu"), "{}", said(&config));
    }
}

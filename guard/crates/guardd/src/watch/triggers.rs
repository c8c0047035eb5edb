// SPDX-License-Identifier: Apache-2.0
//! The kernel says itself when tasks of the storage services begin to wait (kernel, accounting/psi.rst), where it can. Where it
//! cannot the gauges are looked at once a second all the same.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kernfs::psi::{Asked, PressureFile, Resource, Trigger};
use policy::Config;
use rustix::event::{poll, PollFd, PollFlags, Timespec};

/// A slice that has gone may come back: it is asked again after so many looks.
const AGAIN: u32 = 60;

/// Those of the slice of the storage services.
pub struct Triggers {
    slice: PathBuf,
    set: Vec<Trigger>,
    /// Looks until it is asked again.
    again: u32,
    /// Told once.
    refused: bool,
}

impl Triggers {
    /// Asks for nothing yet.
    pub fn new(config: &Config) -> Self {
        Triggers { slice: slice(config), set: Vec::new(), again: 0, refused: false }
    }

    /// Asks for those that are not there.
    pub fn look(&mut self) {
        if self.set.len() == Resource::ALL.len() {
            return;
        }
        self.again = self.again.checked_sub(1).unwrap_or(AGAIN);
        if self.again != AGAIN {
            return;
        }
        self.set.clear();
        for resource in Resource::ALL {
            match Trigger::of_cgroup(&self.slice, resource) {
                Asked::Set(trigger) => self.set.push(trigger),
                Asked::Absent => {}
                Asked::Refused(error) if !self.refused => {
                    self.refused = true;
                    eprintln!("<5>{}", refusal(&self.slice, resource, &error));
                }
                Asked::Refused(_) => {}
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

fn refusal(slice: &Path, resource: Resource, error: &rustix::io::Errno) -> String {
    format!(
        "{}/{}.pressure: the kernel sets no trigger ({error}): it is looked at once a second",
        slice.display(),
        resource.name()
    )
}

/// What this node can say about pressure, for `check-config --live`.
pub fn said(config: &Config) -> String {
    if let Ok(None) = PressureFile::of_host(&config.paths.proc, Resource::Io).read() {
        return "pressure: this kernel has it off; start it with psi=1 (EL9). Gauges on it are absent, and all else works".into();
    }
    let slice = slice(config);
    for resource in Resource::ALL {
        match Trigger::of_cgroup(&slice, resource) {
            Asked::Set(_) => {}
            Asked::Absent => return format!("pressure: {}: there is none for {}", slice.display(), resource.name()),
            Asked::Refused(error) => return format!("pressure: {}", refusal(&slice, resource, &error)),
        }
    }
    format!("pressure: the kernel tells when tasks of {} wait", slice.display())
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

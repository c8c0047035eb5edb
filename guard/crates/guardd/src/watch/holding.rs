// SPDX-License-Identifier: Apache-2.0
//! What each job holds of the memory, by how much that has grown in the last minute, and for how long it waited for memory in that time.
//! It holds what its tasks have, not the page cache, which the kernel takes back when it must. One that has come to a limit of its own in
//! that time waited there, or may have: of that nobody else is short.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::PathBuf;

use kernfs::cgroup::{Children, HeldMemory};
use kernfs::psi::{PressureFile, Resource};
use policy::Config;

use super::{watchable, Source};
use crate::jobs::MONITOR;
use crate::shared::Shared;

/// What counts as lately.
const WINDOW_NS: u64 = 60_000_000_000;

/// How often each is read: the kernel sums up a cgroup's statistics for it.
const PERIOD_NS: u64 = 5_000_000_000;

/// What one job holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Inode of its cgroup.
    pub number: u64,
    /// Bytes that it holds, and by how many that grew.
    pub bytes: u64,
    /// See `bytes`.
    pub grown: u64,
    /// Microseconds in which some task of it waited for memory that others use; 0 where the kernel does not say.
    pub waited_us: u64,
    /// When that was read (CLOCK_MONOTONIC).
    pub at_ns: u64,
}

/// At one time: what it held, for how long it had waited since it began, and how often it had come to its limit.
#[derive(Clone, Copy)]
struct Reading {
    at_ns: u64,
    bytes: u64,
    waited_us: Option<u64>,
    at_limit: Option<u64>,
}

impl Reading {
    /// As it begins.
    const fn first(at_ns: u64) -> Self {
        Reading { at_ns, bytes: 0, waited_us: Some(0), at_limit: Some(0) }
    }
}

struct Known {
    scope: String,
    number: u64,
    memory: HeldMemory,
    pressure: PressureFile,
    /// Oldest first.
    readings: VecDeque<Reading>,
    due_ns: u64,
    seen: bool,
}

/// The source.
pub struct Holdings {
    slice: PathBuf,
    children: Children,
    known: Vec<Known>,
    /// There was a look before: a job that is new now held nothing then.
    looked: bool,
    told: Vec<Holding>,
}

impl Holdings {
    /// Looks at nothing yet.
    pub fn new(config: &Config) -> Self {
        let slice = config.paths.cgroup.join(&config.paths.jobs_slice);
        Holdings { children: Children::new(&slice), slice, known: Vec::new(), looked: false, told: Vec::new() }
    }

    /// Who is there.
    fn follow(&mut self, now_ns: u64) {
        self.known.iter_mut().for_each(|job| job.seen = false);
        let (known, slice, looked) = (&mut self.known, &self.slice, self.looked);
        let listed = self.children.each(|scope, number| {
            if scope.starts_with(MONITOR) {
                return ControlFlow::Continue(());
            }
            match known.iter_mut().find(|job| job.number == number && job.scope == scope) {
                Some(job) => job.seen = true,
                None => known.push(Known {
                    memory: HeldMemory::new(&slice.join(scope)),
                    pressure: PressureFile::of_cgroup(&slice.join(scope), Resource::Memory),
                    scope: scope.to_owned(),
                    number,
                    readings: looked.then_some(Reading::first(now_ns)).into_iter().collect(),
                    due_ns: 0,
                    seen: true,
                }),
            }
            watchable(known.len())
        });
        if listed.is_ok() {
            self.known.retain(|job| job.seen);
            self.looked = true;
        }
    }
}

impl Known {
    fn read(&mut self, now_ns: u64) {
        if now_ns < self.due_ns {
            return;
        }
        self.due_ns = now_ns + PERIOD_NS;
        // What cannot be read is left as it was, to become old.
        let Ok(Some(bytes)) = self.memory.bytes() else { return };
        // Of whom it cannot be read he is not known to have waited.
        let waited_us = self.pressure.read().ok().flatten().map(|pressure| pressure.some_us);
        let at_limit = self.memory.times_at_limit().ok().flatten();
        self.readings.push_back(Reading { at_ns: now_ns, bytes, waited_us, at_limit });
        while self.readings.front().is_some_and(|reading| now_ns.saturating_sub(reading.at_ns) > WINDOW_NS) {
            self.readings.pop_front();
        }
    }

    fn holding(&self) -> Option<Holding> {
        let (before, now) = (self.readings.front()?, self.readings.back()?);
        Some(Holding {
            number: self.number,
            bytes: now.bytes,
            grown: now.bytes.saturating_sub(before.bytes),
            waited_us: if self.since(|reading| reading.at_limit) > 0 {
                0
            } else {
                self.since(|reading| reading.waited_us)
            },
            at_ns: now.at_ns,
        })
    }

    /// By how much that grew in the window, as far as it is known.
    fn since(&self, of: impl Fn(&Reading) -> Option<u64>) -> u64 {
        let mut known = self.readings.iter().filter_map(of);
        let first = known.next().unwrap_or_default();
        known.next_back().unwrap_or(first).saturating_sub(first)
    }
}

impl Source for Holdings {
    fn read(&mut self, now_ns: u64, shared: &Shared) {
        self.follow(now_ns);
        self.known.iter_mut().for_each(|job| job.read(now_ns));
        self.told.clear();
        self.told.extend(self.known.iter().filter_map(Known::holding));
        shared.holdings.put(&self.told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    struct Slice {
        folder: tempfile::TempDir,
        source: Holdings,
        shared: Shared,
        second: u64,
    }

    impl Slice {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let text = format!("[paths]\ncgroup = \"{}\"\njobs_slice = \"jobs.slice\"\n", folder.path().display());
            std::fs::create_dir(folder.path().join("jobs.slice")).unwrap();
            let source = Holdings::new(&Config::parse("test", &text).unwrap());
            Slice { folder, source, shared: Shared::default(), second: 100 }
        }

        /// As Linux 6.12 prints it; the page cache is large.
        fn holds(&self, scope: &str, anon: u64, shmem: u64, swap: Option<u64>) {
            let folder = self.folder.path().join("jobs.slice").join(scope);
            std::fs::create_dir_all(&folder).unwrap();
            let text = format!("anon {anon}\nfile 900000000\nkernel 7\nshmem {shmem}\nfile_mapped 1\n");
            std::fs::write(folder.join("memory.stat"), text).unwrap();
            match swap {
                Some(swap) => std::fs::write(folder.join("memory.swap.current"), format!("{swap}\n")).unwrap(),
                None => drop(std::fs::remove_file(folder.join("memory.swap.current"))),
            }
        }

        /// What each holds, and by how much that grew, after so many seconds.
        fn after(&mut self, seconds: u64) -> Vec<(u64, u64)> {
            for _ in 0..seconds {
                self.second += 1;
                self.source.read(self.second * S, &self.shared);
            }
            let (mut list, mut seen) = (Vec::new(), u64::MAX);
            self.shared.holdings.take(&mut seen, &mut list);
            list.sort_by_key(|holding| holding.bytes);
            list.iter().map(|holding| (holding.bytes, holding.grown)).collect()
        }
    }

    #[test]
    fn what_was_held_before_the_guard_came_is_no_growth_and_what_a_new_one_takes_is() {
        let mut slice = Slice::new();
        slice.holds("old.scope", 500, 20, Some(3));
        assert_eq!(slice.after(1), [(523, 0)]);
        slice.holds("new.scope", 700, 0, None);
        slice.holds("old.scope", 500, 40, Some(3));
        assert_eq!(slice.after(6), [(543, 20), (700, 700)]);
        // What is put into swap is held as before.
        slice.holds("old.scope", 100, 40, Some(403));
        assert_eq!(slice.after(6)[0], (543, 20));
        slice.holds("old.scope", 100, 0, Some(0));
        assert_eq!(slice.after(6)[0], (100, 0), "less is no growth");
    }

    #[test]
    fn after_a_minute_it_is_forgotten_and_with_its_job_as_well() {
        let mut slice = Slice::new();
        slice.holds("a.scope", 100, 0, None);
        slice.after(5);
        slice.holds("a.scope", 600, 0, None);
        assert_eq!(slice.after(50), [(600, 500)]);
        assert_eq!(slice.after(20), [(600, 0)]);
        std::fs::remove_dir_all(slice.folder.path().join("jobs.slice/a.scope")).unwrap();
        assert_eq!(slice.after(1), []);
    }

    #[test]
    fn how_long_it_waited_for_memory_in_the_last_minute() {
        let mut slice = Slice::new();
        let file = slice.folder.path().join("jobs.slice/a.scope/memory.pressure");
        let waited = |slice: &mut Slice, total: u64| {
            let text = |us| format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={us}\nfull avg10=0.00 total=1\n");
            std::fs::write(&file, text(total)).unwrap();
            slice.after(6);
            slice.source.told[0].waited_us
        };
        slice.holds("a.scope", 100, 0, None);
        assert_eq!(waited(&mut slice, 7_000_000), 0, "before the guard came");
        assert_eq!(waited(&mut slice, 9_000_000), 2_000_000);
        std::fs::write(&file, "damaged").unwrap();
        slice.after(6);
        assert_eq!(slice.source.told[0].waited_us, 2_000_000, "it is not known to have waited since");
        slice.after(60);
        assert_eq!(slice.source.told[0].waited_us, 0);
        assert_eq!(waited(&mut slice, 20_000_000), 0, "nor how much of that is of the last minute");
        assert_eq!(waited(&mut slice, 23_000_000), 3_000_000);
    }

    #[test]
    fn who_comes_to_his_own_limit_waits_there() {
        let mut slice = Slice::new();
        let folder = slice.folder.path().join("jobs.slice/a.scope");
        let waited = |slice: &mut Slice, total: u64, max: u64| {
            let text = format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={total}\nfull avg10=0.00 total=1\n");
            std::fs::write(folder.join("memory.pressure"), text).unwrap();
            std::fs::write(folder.join("memory.events.local"), format!("low 0\nhigh 0\nmax {max}\n")).unwrap();
            slice.after(6);
            slice.source.told[0].waited_us
        };
        slice.holds("a.scope", 100, 0, None);
        waited(&mut slice, 0, 9);
        assert_eq!(waited(&mut slice, 5_000_000, 9), 5_000_000, "it was there before");
        assert_eq!(waited(&mut slice, 6_000_000, 10), 0);
        for _ in 0..11 {
            waited(&mut slice, 6_000_000, 10);
        }
        assert_eq!(waited(&mut slice, 7_000_000, 10), 1_000_000, "more than a minute ago");
    }

    #[test]
    fn what_cannot_be_read_becomes_old() {
        let mut slice = Slice::new();
        slice.holds("a.scope", 100, 0, None);
        assert_eq!(slice.after(1), [(100, 0)]);
        std::fs::write(slice.folder.path().join("jobs.slice/a.scope/memory.stat"), "anon x\nshmem 0\n").unwrap();
        assert_eq!(slice.after(30), [(100, 0)]);
        let at_ns = slice.source.told[0].at_ns;
        assert_eq!(at_ns, 101 * S);
    }
}

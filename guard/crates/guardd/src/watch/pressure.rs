// SPDX-License-Identifier: Apache-2.0
//! Pressure stall information of the storage services and of the host, over the last 5 s (kernel, accounting/psi.rst; that all tasks of
//! a host wait for CPU cannot be). From the running totals: the kernel's own average over 10 s still has a third of what ended 10 s ago,
//! for which jobs would leave. As shipped a gauge must be above its limit for twice as long: one moment in which all wait is no reason.
//! A kernel without it (EL9 needs `psi=1`) or a node without the slice has none.

use std::collections::VecDeque;

use kernfs::psi::{Pressure, PressureFile, Resource};
use policy::Config;

use super::Source;
use crate::shared::Shared;

const S: u64 = 1_000_000_000;
/// A share is of so long a time, or of the time since the guard began, and of no less than a second.
const OVER_NS: u64 = 5 * S;
/// With looks that lie further from each other it would be of another time.
const GAP_NS: u64 = 3 * S;
/// Looks that are remembered are no closer to each other, however often the kernel says that there is pressure.
const APART_NS: u64 = S / 2;

/// Totals, oldest first: one of 5 s ago or a bit more, and those since.
#[derive(Default)]
struct Looks(VecDeque<(u64, Pressure)>);

impl Looks {
    /// Shares in which some tasks waited, and all.
    fn add(&mut self, now_ns: u64, now: Pressure) -> Option<(f64, f64)> {
        let another_slice = |last: &Pressure| now.some_us < last.some_us || now.full_us < last.full_us;
        if self.0.back().is_some_and(|(at_ns, last)| another_slice(last) || now_ns.saturating_sub(*at_ns) > GAP_NS) {
            self.0.clear();
        }
        while self.0.get(1).is_some_and(|(at_ns, _)| now_ns.saturating_sub(*at_ns) >= OVER_NS) {
            self.0.pop_front();
        }
        if self.0.back().is_none_or(|(at_ns, _)| now_ns.saturating_sub(*at_ns) >= APART_NS) {
            self.0.push_back((now_ns, now));
        }
        let (since_ns, first) = self.0.front()?;
        let passed_ns = now_ns.saturating_sub(*since_ns);
        let share = |now: u64, first: u64| ((now - first) as f64 * 1e3 / passed_ns as f64).min(1.0);
        (passed_ns >= S).then(|| (share(now.some_us, first.some_us), share(now.full_us, first.full_us)))
    }
}

struct Watched {
    some: &'static str,
    full: Option<&'static str>,
    file: PressureFile,
    looks: Looks,
}

/// The source.
pub struct PressureOfStorage([Watched; 6]);

impl PressureOfStorage {
    /// Opens nothing yet.
    pub fn new(config: &Config) -> Self {
        let slice = config.paths.cgroup.join(&config.paths.storage_slice);
        let watched = |some, full, file| Watched { some, full, file, looks: Looks::default() };
        let storage = |some, full, resource| watched(some, Some(full), PressureFile::of_cgroup(&slice, resource));
        let host = |some, full, resource| watched(some, full, PressureFile::of_host(&config.paths.proc, resource));
        PressureOfStorage([
            storage("storage.pressure.cpu.some", "storage.pressure.cpu.full", Resource::Cpu),
            storage("storage.pressure.io.some", "storage.pressure.io.full", Resource::Io),
            storage("storage.pressure.memory.some", "storage.pressure.memory.full", Resource::Memory),
            host("host.pressure.cpu.some", None, Resource::Cpu),
            host("host.pressure.io.some", Some("host.pressure.io.full"), Resource::Io),
            host("host.pressure.memory.some", Some("host.pressure.memory.full"), Resource::Memory),
        ])
    }
}

impl Source for PressureOfStorage {
    fn read(&mut self, now_ns: u64, shared: &Shared) {
        for Watched { some, full, file, looks } in &mut self.0 {
            let shares = match file.read() {
                Ok(Some(pressure)) => match looks.add(now_ns, pressure) {
                    Some((some, full)) => (Some(some), Some(full)),
                    None => continue,
                },
                Ok(None) => {
                    *looks = Looks::default();
                    (None, None)
                }
                Err(error) => {
                    [Some(*some), *full].into_iter().flatten().for_each(|name| shared.gauges.fail(name, &error));
                    continue;
                }
            };
            shared.gauges.put(some, shares.0, now_ns);
            if let Some(full) = full {
                shared.gauges.put(full, shares.1, now_ns);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::gauge::{source_of, Reading};

    #[test]
    fn from_the_files_of_the_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for place in ["storage.slice", "proc/pressure"] {
            std::fs::create_dir_all(path(place)).unwrap();
        }
        // What the kernel makes of it itself is not asked.
        let line = |kind, total| format!("{kind} avg10=99.00 avg60=0.00 avg300=0.00 total={total}\n");
        let write = |place: &str, some: u64, full: u64| {
            std::fs::write(path(place), line("some", some) + &line("full", full)).unwrap();
        };
        let write_all = |some, full| {
            for place in ["storage.slice/memory.pressure", "proc/pressure/cpu", "proc/pressure/io"] {
                write(place, some, full);
            }
        };
        std::fs::write(path("storage.slice/io.pressure"), "damaged").unwrap();
        let root = folder.path().display();
        let config = format!("[paths]\ncgroup = \"{root}\"\nproc = \"{root}/proc\"\n");
        let mut source = PressureOfStorage::new(&Config::parse("test", &config).unwrap());
        let shared = Shared::default();
        let read = |name| shared.gauges.read(source_of(name).unwrap(), 1);
        write_all(7_000_000, 5_000_000);
        source.read(20 * S, &shared);
        assert_eq!(read("storage.pressure.memory.full"), Reading::Missing(1), "nothing to compare with yet");
        write_all(7_500_000, 5_250_000);
        let now = 22 * S;
        source.read(now, &shared);
        assert_eq!(read("storage.pressure.memory.some"), Reading::Value(0.25, now));
        assert_eq!(read("storage.pressure.memory.full"), Reading::Value(0.125, now));
        assert_eq!(read("storage.pressure.io.full"), Reading::Missing(1), "a damaged file is no value and not absence");
        assert_eq!(read("host.pressure.cpu.some"), Reading::Value(0.25, now));
        assert_eq!(read("host.pressure.io.some"), Reading::Value(0.25, now));
        assert_eq!(read("host.pressure.io.full"), Reading::Value(0.125, now));
        for name in ["host.pressure.memory.some", "host.pressure.memory.full", "storage.pressure.cpu.full"] {
            assert_eq!(read(name), Reading::Absent, "{name}");
        }
    }

    #[test]
    fn what_was_more_than_five_seconds_ago_does_not_count() {
        let at = |us| Pressure { some_us: us, full_us: us / 2 };
        let mut looks = Looks::default();
        // All of five seconds, and nothing since; the kernel's average would say 0.24 five seconds after the end, and 0.14 after ten.
        for second in 0..=5 {
            looks.add((100 + second) * S, at(second * 1_000_000));
        }
        let shares: Vec<_> = (6..=11).map(|second| looks.add((100 + second) * S, at(5_000_000)).unwrap()).collect();
        assert_eq!(shares, [(0.8, 0.4), (0.6, 0.3), (0.4, 0.2), (0.2, 0.1), (0.0, 0.0), (0.0, 0.0)]);
        assert_eq!(looks.0.len(), 6);
    }

    #[test]
    fn looks_that_the_kernel_asks_for_are_as_good_and_are_not_all_kept() {
        let at = |us| Pressure { some_us: us, full_us: 0 };
        let mut looks = Looks::default();
        for tenth in 0..=300 {
            let found = looks.add(100 * S + tenth * S / 10, at(tenth * 50_000));
            assert!(tenth < 10 || (found.unwrap().0 - 0.5).abs() < 1e-9, "{found:?}");
        }
        assert!(looks.0.len() <= 12, "{}", looks.0.len());
        assert_eq!(looks.add(131 * S, at(3)), None, "a slice that was made anew");
        assert_eq!(looks.add(133 * S, at(200_003)), Some((0.1, 0.0)));
        assert_eq!(looks.add(143 * S, at(9_000_000)), None, "nobody has looked for long: of what time would that be?");
        assert_eq!(looks.add(145 * S, at(9_000_000)), Some((0.0, 0.0)));
    }
}

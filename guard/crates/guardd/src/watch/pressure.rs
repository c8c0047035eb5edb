// SPDX-License-Identifier: Apache-2.0
//! Pressure stall information of the storage services and of the host, over the last 10 s (kernel, accounting/psi.rst; that all tasks of
//! a host wait for CPU cannot be).
//! A kernel without it (EL9 needs `psi=1`) or a node without the slice has none.

use kernfs::psi::{Pressure, PressureFile, Resource};
use policy::Config;

use super::Source;
use crate::shared::Shared;

struct Gauge {
    name: &'static str,
    file: PressureFile,
    pick: fn(&Pressure) -> f64,
}

/// The source.
pub struct PressureOfStorage(Vec<Gauge>);

impl PressureOfStorage {
    /// Opens nothing yet.
    pub fn new(config: &Config) -> Self {
        let slice = config.paths.cgroup.join(&config.paths.storage_slice);
        let storage = |name, resource, pick| Gauge { name, file: PressureFile::of_cgroup(&slice, resource), pick };
        let some: fn(&Pressure) -> f64 = |pressure| pressure.some_avg10;
        let full: fn(&Pressure) -> f64 = |pressure| pressure.full_avg10;
        let host =
            |name, resource, pick| Gauge { name, file: PressureFile::of_host(&config.paths.proc, resource), pick };
        PressureOfStorage(vec![
            storage("storage.pressure.cpu.some", Resource::Cpu, some),
            storage("storage.pressure.cpu.full", Resource::Cpu, full),
            storage("storage.pressure.io.some", Resource::Io, some),
            storage("storage.pressure.io.full", Resource::Io, full),
            storage("storage.pressure.memory.some", Resource::Memory, some),
            storage("storage.pressure.memory.full", Resource::Memory, full),
            host("host.pressure.cpu.some", Resource::Cpu, some),
            host("host.pressure.io.some", Resource::Io, some),
            host("host.pressure.io.full", Resource::Io, full),
            host("host.pressure.memory.some", Resource::Memory, some),
            host("host.pressure.memory.full", Resource::Memory, full),
        ])
    }
}

impl Source for PressureOfStorage {
    fn read(&mut self, now_ns: u64, shared: &Shared) {
        for Gauge { name, file, pick } in &mut self.0 {
            if let Ok(pressure) = file.read() {
                shared.gauges.put(name, pressure.map(|pressure| pick(&pressure) / 100.0), now_ns);
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
        let text = |some: f64, full: f64| {
            let line = |kind, value| format!("{kind} avg10={value:.2} avg60=0.00 avg300=0.00 total=5\n");
            line("some", some) + &line("full", full)
        };
        std::fs::write(path("storage.slice/memory.pressure"), text(25.0, 12.5)).unwrap();
        std::fs::write(path("storage.slice/io.pressure"), "damaged").unwrap();
        std::fs::write(path("proc/pressure/cpu"), text(50.0, 0.0)).unwrap();
        std::fs::write(path("proc/pressure/io"), text(75.0, 62.5)).unwrap();
        let root = folder.path().display();
        let config = format!("[paths]\ncgroup = \"{root}\"\nproc = \"{root}/proc\"\n");
        let mut source = PressureOfStorage::new(&Config::parse("test", &config).unwrap());
        let shared = Shared::default();
        source.read(9, &shared);
        let read = |name| shared.gauges.read(source_of(name).unwrap(), 1);
        assert_eq!(read("storage.pressure.memory.some"), Reading::Value(0.25, 9));
        assert_eq!(read("storage.pressure.memory.full"), Reading::Value(0.125, 9));
        assert_eq!(read("storage.pressure.io.full"), Reading::Missing(1), "a damaged file is no value and not absence");
        assert_eq!(read("host.pressure.cpu.some"), Reading::Value(0.5, 9));
        assert_eq!(read("host.pressure.io.some"), Reading::Value(0.75, 9));
        assert_eq!(read("host.pressure.io.full"), Reading::Value(0.625, 9));
        for name in ["host.pressure.memory.some", "host.pressure.memory.full", "storage.pressure.cpu.full"] {
            assert_eq!(read(name), Reading::Absent, "{name}");
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What the kernel counts for the storage and the jobs slice, read when somebody asks for `/metrics`. A slice that
//! is not there has no series.

use kernfs::cgroup::Cgroup;
use kernfs::psi::{Pressure, PressureFile, Resource};
use kernfs::KernFile;
use policy::Config;

use super::names;
use super::text::Exposition;

/// The slices, by name.
pub struct Slices(Vec<Slice>);

struct Slice {
    name: String,
    cgroup: Cgroup,
    cpu_max: KernFile,
    pressure: Vec<(Resource, PressureFile)>,
}

impl Slices {
    /// Those of the configuration.
    pub fn new(config: &Config) -> Self {
        let paths = &config.paths;
        let slice = |relative: &std::path::Path| {
            let path = paths.cgroup.join(relative);
            let name = relative.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let pressure = Resource::ALL.map(|resource| (resource, PressureFile::of_cgroup(&path, resource)));
            let cpu_max = KernFile::new(path.join("cpu.max"));
            Slice { name, cgroup: Cgroup::new(path), cpu_max, pressure: pressure.into() }
        };
        Slices([&paths.storage_slice, &paths.jobs_slice].map(|path| slice(path)).into())
    }

    /// Adds their families. A file that cannot be read leaves its series out; the scrape goes on.
    pub fn export(&mut self, out: &mut Exposition) {
        let cpu = |s: &mut Slice| s.cgroup.cpu().ok().flatten().map(|cpu| cpu.usage_us as f64 / 1e6);
        self.each(out, &names::SLICE_CPU, cpu);
        self.each(out, &names::SLICE_MEMORY, |s| s.cgroup.memory_bytes().ok().flatten().map(|bytes| bytes as f64));
        self.each(out, &names::SLICE_CPUS, |s| s.cgroup.cpu_count().ok().flatten().map(f64::from));
        self.each(out, &names::SLICE_QUOTA, |s| quota(s.cpu_max.read().ok().flatten()?));
        self.each(out, &names::SLICE_MEMORY_MAX, |s| {
            s.cgroup.memory_max_bytes().ok().flatten().filter(|bytes| *bytes != u64::MAX).map(|bytes| bytes as f64)
        });
        self.each(out, &names::SLICE_FROZEN, |s| {
            s.cgroup.events().ok().flatten().map(|e| f64::from(u8::from(e.frozen)))
        });
        self.io(out, &names::SLICE_READ, |io| io.read_bytes);
        self.io(out, &names::SLICE_WRITTEN, |io| io.write_bytes);
        self.pressure(out, &names::SLICE_WAITING, |pressure| pressure.some_us);
        self.pressure(out, &names::SLICE_STALLED, |pressure| pressure.full_us);
    }

    fn each(&mut self, out: &mut Exposition, metric: &super::Metric, value: impl Fn(&mut Slice) -> Option<f64>) {
        let values: Vec<_> = self.0.iter_mut().map(value).collect();
        if values.iter().all(Option::is_none) {
            return;
        }
        let mut family = out.family(metric);
        for (slice, value) in self.0.iter().zip(values) {
            value.into_iter().for_each(|value| family.sample(&[("slice", &slice.name)], value));
        }
    }

    fn io(&mut self, out: &mut Exposition, metric: &super::Metric, value: impl Fn(&kernfs::cgroup::DeviceIo) -> u64) {
        let mut family = out.family(metric);
        for slice in &mut self.0 {
            for io in slice.cgroup.io().ok().flatten().unwrap_or_default() {
                let device = format!("{}:{}", io.device.0, io.device.1);
                family.sample(&[("slice", &slice.name), ("device", &device)], value(io) as f64);
            }
        }
    }

    fn pressure(&mut self, out: &mut Exposition, metric: &super::Metric, value: impl Fn(&Pressure) -> u64) {
        let mut family = out.family(metric);
        for slice in &mut self.0 {
            for (resource, file) in &mut slice.pressure {
                if let Ok(Some(pressure)) = file.read() {
                    let labels = [("slice", slice.name.as_str()), ("resource", resource.name())];
                    family.sample(&labels, value(&pressure) as f64 / 1e6);
                }
            }
        }
    }
}

/// `150000 100000` is 1.5 cores, `max 100000` is no quota.
fn quota(text: &str) -> Option<f64> {
    let (time, period) = text.trim_end().split_once(' ')?;
    let (time, period): (u32, u32) = (time.parse().ok()?, period.parse().ok()?);
    (period > 0).then(|| f64::from(time) / f64::from(period))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_in_cores() {
        assert_eq!((quota("150000 100000\n"), quota("5000 100000")), (Some(1.5), Some(0.05)));
        for text in ["max 100000\n", "", "1", "1 0", "-1 100000", "x y", "18446744073709551615 1"] {
            assert_eq!(quota(text), None, "{text}");
        }
    }
}

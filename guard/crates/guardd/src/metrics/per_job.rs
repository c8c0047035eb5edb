// SPDX-License-Identifier: Apache-2.0
//! What the kernel counts for each job, by the slot of HTCondor that it has, read when somebody asks for `/metrics`. A job whose slot
//! is not known is in the numbers of its slice only: names of containers would be another series for each job there ever was.

use std::path::PathBuf;

use intf::journal::Job;
use kernfs::cgroup::{Cgroup, DeviceIo};
use policy::{Config, Hold};

use super::names;
use super::text::Exposition;
use super::Metric;

/// The slice of the jobs.
pub struct PerJob(PathBuf);

/// One of them.
struct Counted<'a> {
    slot: &'a str,
    held: bool,
    cpu_s: Option<f64>,
    memory: Option<u64>,
    /// On all devices together.
    moved: Option<(u64, u64)>,
}

impl PerJob {
    /// That of the configuration.
    pub fn new(config: &Config) -> Self {
        PerJob(config.paths.cgroup.join(&config.paths.jobs_slice))
    }

    /// Adds their families. What has ended meanwhile, or cannot be read, is left out.
    pub fn export(&self, jobs: &[(usize, Job)], hold: Hold, out: &mut Exposition) {
        let known = jobs.iter().filter(|(_, job)| !job.slot.is_empty());
        let counted: Vec<Counted<'_>> = known.map(|(place, job)| self.read(job, hold.touches(*place))).collect();
        family(out, &names::JOB_HELD, &counted, |job| Some(f64::from(u8::from(job.held))));
        family(out, &names::JOB_CPU, &counted, |job| job.cpu_s);
        family(out, &names::JOB_MEMORY, &counted, |job| job.memory.map(|bytes| bytes as f64));
        family(out, &names::JOB_READ, &counted, |job| job.moved.map(|(read, _)| read as f64));
        family(out, &names::JOB_WRITTEN, &counted, |job| job.moved.map(|(_, written)| written as f64));
    }

    fn read<'a>(&self, job: &'a Job, held: bool) -> Counted<'a> {
        let mut cgroup = Cgroup::new(self.0.join(&job.scope));
        let sum = |devices: &[DeviceIo]| {
            let add = |(read, written): (u64, u64), io: &DeviceIo| {
                (read.saturating_add(io.read_bytes), written.saturating_add(io.write_bytes))
            };
            devices.iter().fold((0, 0), add)
        };
        Counted {
            slot: &job.slot,
            held,
            cpu_s: cgroup.cpu().ok().flatten().map(|cpu| cpu.usage_us as f64 / 1e6),
            memory: cgroup.memory_bytes().ok().flatten(),
            moved: cgroup.io().ok().flatten().map(sum),
        }
    }
}

fn family(out: &mut Exposition, metric: &Metric, jobs: &[Counted<'_>], value: impl Fn(&Counted<'_>) -> Option<f64>) {
    let values: Vec<_> = jobs.iter().filter_map(|job| Some((job.slot, value(job)?))).collect();
    if values.is_empty() {
        return;
    }
    let mut family = out.family(metric);
    values.iter().for_each(|(slot, value)| family.sample(&[("slot", slot)], *value));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_has_its_numbers_and_who_has_ended_or_is_not_known_has_none() {
        let folder = tempfile::tempdir().unwrap();
        for (scope, file, text) in [
            ("a.scope", "cpu.stat", "usage_usec 2500000\nuser_usec 1\n"),
            ("a.scope", "memory.current", "4096\n"),
            ("a.scope", "io.stat", "8:0 rbytes=5 wbytes=7 rios=1 wios=1\n8:16 rbytes=10 wbytes=20 rios=1 wios=1\n"),
            ("b.scope", "cpu.stat", "usage_usec 9000000\n"),
            ("c.scope", "cpu.stat", "damaged\n"),
        ] {
            std::fs::create_dir_all(folder.path().join("j").join(scope)).unwrap();
            std::fs::write(folder.path().join("j").join(scope).join(file), text).unwrap();
        }
        let text = format!("[paths]\ncgroup = \"{}\"\njobs_slice = \"j\"\n", folder.path().display());
        let per_job = PerJob::new(&Config::parse("test", &text).unwrap());
        let job =
            |place, scope: &str, slot: &str| (place, Job { scope: scope.into(), slot: slot.into(), ..Job::default() });
        let jobs = [
            job(0, "a.scope", "slot1_1"),
            job(1, "b.scope", ""),
            job(2, "c.scope", "slot1_3"),
            job(3, "d.scope", "slot\"2"),
        ];
        let mut out = Exposition::default();
        per_job.export(&jobs, Hold::Jobs([2].into_iter().collect()), &mut out);
        let text = out.finish();
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                "beer_job_held{slot=\"slot1_1\"} 0",
                "beer_job_held{slot=\"slot1_3\"} 1",
                "beer_job_held{slot=\"slot\\\"2\"} 0",
                "beer_job_cpu_usage_seconds_total{slot=\"slot1_1\"} 2.5",
                "beer_job_memory_bytes{slot=\"slot1_1\"} 4096",
                "beer_job_io_read_bytes_total{slot=\"slot1_1\"} 15",
                "beer_job_io_written_bytes_total{slot=\"slot1_1\"} 27",
            ]
        );
        let mut out = Exposition::default();
        per_job.export(&[], Hold::All, &mut out);
        assert_eq!(out.finish(), "", "no families without samples");
    }
}

// SPDX-License-Identifier: Apache-2.0
//! The load average, as that of `uptime`, and by the number of CPUs that are there: tasks that run, want to run, or wait in D state.

use kernfs::KernFile;
use policy::Config;

use super::Source;
use crate::shared::Shared;

/// The source.
pub struct Load {
    average: KernFile,
    stat: KernFile,
    /// How many there are, and how often more that is believed: counting them costs more than all else here.
    cpus: (usize, u32),
}

const BELIEVED: u32 = 60;
const NAME: &str = "host.load";
const TOTAL: &str = "host.load.total";

impl Load {
    /// Opens nothing yet.
    pub fn new(config: &Config) -> Self {
        Load {
            average: KernFile::new(config.paths.proc.join("loadavg")),
            stat: KernFile::new(config.paths.proc.join("stat")),
            cpus: (0, 0),
        }
    }
}

impl Source for Load {
    fn read(&mut self, now_ns: u64, shared: &Shared) {
        let cpu =
            |line: &&str| line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        if self.cpus.1 == 0 {
            let count = self.stat.read().ok().flatten().map_or(0, |text| text.lines().filter(cpu).count());
            self.cpus = (count, BELIEVED);
        }
        self.cpus.1 -= 1;
        let cpus = self.cpus.0;
        let average = match self.average.read() {
            Ok(text) => text.and_then(|text| text.split(' ').next()?.parse::<f64>().ok()),
            Err(error) => return [NAME, TOTAL].into_iter().for_each(|name| shared.gauges.fail(name, &error)),
        };
        match average {
            Some(average) => shared.gauges.put(TOTAL, Some(average), now_ns),
            None => shared.gauges.fail(TOTAL, format!("{}: no number there", self.average.path().display())),
        }
        match (average, cpus) {
            (Some(average), 1..) => shared.gauges.put(NAME, Some(average / cpus as f64), now_ns),
            _ => shared.gauges.fail(NAME, format!("{}, or CPUs in stat: none there", self.average.path().display())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::gauge::{source_of, Reading};

    #[test]
    fn it_is_shared_by_the_cpus_that_there_are() {
        let proc = tempfile::tempdir().unwrap();
        let config = Config::parse("test", &format!("[paths]\nproc = \"{}\"\n", proc.path().display())).unwrap();
        let (shared, place) = (Shared::default(), source_of(NAME).unwrap());
        let write = |name: &str, text: &str| std::fs::write(proc.path().join(name), text).unwrap();
        write("stat", "cpu  1 2 3\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\ncpufreq 1\n");
        write("loadavg", "3.00 2.00 1.00 1/234 5678\n");
        let mut load = Load::new(&config);
        load.read(5, &shared);
        assert_eq!(shared.gauges.read(place, 1), Reading::Value(1.5, 5));
        let total = source_of(TOTAL).unwrap();
        assert_eq!(shared.gauges.read(total, 1), Reading::Value(3.0, 5));
        // A CPU more is noticed within a minute, and no sooner.
        write("stat", "cpu0 1\ncpu1 1\ncpu2 1\n");
        for now_ns in 6..=64 {
            load.read(now_ns, &shared);
        }
        assert_eq!(shared.gauges.read(place, 1), Reading::Value(1.5, 64));
        load.read(65, &shared);
        assert_eq!(shared.gauges.read(place, 1), Reading::Value(1.0, 65));
        // What is damaged leaves the last value to grow old, and says so.
        write("loadavg", "much\n");
        load.read(66, &shared);
        assert_eq!(shared.gauges.read(place, 1), Reading::Value(1.0, 65));
        assert!([place, total].into_iter().all(|place| shared.gauges.fault(place).unwrap().contains("loadavg")));
    }

    #[test]
    fn of_this_machine() {
        let shared = Shared::default();
        Load::new(&Config::default()).read(5, &shared);
        let Reading::Value(load, 5) = shared.gauges.read(source_of(NAME).unwrap(), 1) else {
            panic!("no load of this machine")
        };
        assert!((0.0..1e4).contains(&load), "{load}");
    }
}

// SPDX-License-Identifier: Apache-2.0
//! The load average, as that of `uptime`, by the number of CPUs that are there: tasks that run, want to run, or wait in D state.

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
        let average = self.average.read().ok().flatten().and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
        if let (Some(average), 1..) = (average, cpus) {
            shared.gauges.put("host.load", Some(average / cpus as f64), now_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::gauge::{source_of, Reading};

    #[test]
    fn of_this_machine() {
        let shared = Shared::default();
        Load::new(&Config::default()).read(5, &shared);
        let Reading::Value(load, 5) = shared.gauges.read(source_of("host.load").unwrap(), 1) else {
            panic!("no load of this machine")
        };
        assert!((0.0..1e4).contains(&load), "{load}");
    }
}

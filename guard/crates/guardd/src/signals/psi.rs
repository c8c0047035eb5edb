// SPDX-License-Identifier: Apache-2.0
//! Pressure of the host, for the metrics. What the ladder knows of pressure are gauges (`watch/pressure.rs`).

use kernfs::psi::{Pressure, PressureFile, Resource};
use policy::Config;

use super::{Board, Label, Reading, Sample, Signal};
use crate::metrics::names;

/// The signal.
pub struct Psi {
    period_ns: u64,
    files: Vec<(Resource, PressureFile, Option<Pressure>)>,
    fault: Option<String>,
}

impl Psi {
    /// The pressure files of the host.
    pub fn new(config: &Config) -> Self {
        let file = |resource| (resource, PressureFile::of_host(&config.paths.proc, resource), None);
        Psi { period_ns: config.psi.interval_ns, files: Resource::ALL.map(file).into(), fault: None }
    }
}

impl Signal for Psi {
    fn name(&self) -> &'static str {
        "psi"
    }

    fn period_ns(&self) -> u64 {
        self.period_ns
    }

    fn read(&mut self, _now_ns: u64, _board: &mut Board) -> Reading {
        self.fault = None;
        for (_, file, pressure) in &mut self.files {
            match file.read() {
                Ok(value) => *pressure = value,
                Err(error) => {
                    *pressure = None;
                    self.fault = Some(error.to_string());
                }
            }
        }
        match &self.fault {
            Some(_) => Reading::Broken,
            None if self.files.iter().all(|(_, _, pressure)| pressure.is_none()) => Reading::Absent,
            None => Reading::Value,
        }
    }

    fn fault(&self) -> String {
        self.fault.clone().unwrap_or_else(|| "the kernel was started without pressure information (psi=1)".into())
    }

    fn sample(&self, samples: &mut Vec<Sample>) {
        for (resource, _, pressure) in &self.files {
            let Some(pressure) = pressure else { continue };
            let label = Label::Resource(resource.name());
            let seconds = |us: u64| us as f64 / 1e6;
            samples.push(Sample { metric: &names::HOST_WAITING, label, value: seconds(pressure.some_us) });
            samples.push(Sample { metric: &names::HOST_STALLED, label, value: seconds(pressure.full_us) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_broken_and_leaves_no_value_and_what_is_not_there_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().display();
        let config = Config::parse("test", &format!("[paths]\nproc = \"{root}\"\n")).unwrap();
        let (mut signal, mut board) = (Psi::new(&config), Board::new(&config));
        let mut read = || {
            let reading = signal.read(1, &mut board);
            let mut samples = Vec::new();
            signal.sample(&mut samples);
            (reading, samples.len())
        };
        assert_eq!(read(), (Reading::Absent, 0), "a kernel without it");
        std::fs::create_dir(folder.path().join("pressure")).unwrap();
        let line = |kind| format!("{kind} avg10=0.00 avg60=0.00 avg300=0.00 total=5\n");
        for name in ["cpu", "io", "memory"] {
            std::fs::write(folder.path().join("pressure").join(name), line("some") + &line("full")).unwrap();
        }
        assert_eq!(read(), (Reading::Value, 6));
        std::fs::write(folder.path().join("pressure/io"), "damaged").unwrap();
        assert_eq!(read(), (Reading::Broken, 4));
        assert!(signal.fault().contains("pressure/io"), "{}", signal.fault());
    }
}

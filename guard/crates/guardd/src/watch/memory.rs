// SPDX-License-Identifier: Apache-2.0
//! Storage tasks that the kernel killed for want of memory (`memory.events`, oom_kill; kernel, cgroup-v2.rst).

use kernfs::KernFile;
use policy::Config;

use super::Source;
use crate::shared::Shared;

/// The source.
pub struct Ooms {
    file: KernFile,
    before: Option<u64>,
}

impl Ooms {
    /// Opens nothing yet.
    pub fn new(config: &Config) -> Self {
        let slice = config.paths.cgroup.join(&config.paths.storage_slice);
        Ooms { file: KernFile::new(slice.join("memory.events")), before: None }
    }
}

impl Source for Ooms {
    fn read(&mut self, now_ns: u64, shared: &Shared) {
        const NAME: &str = "storage.memory.ooms";
        match self.file.read() {
            Ok(None) => shared.gauges.put(NAME, None, now_ns),
            Ok(Some(text)) => {
                let kills = text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse::<u64>().ok());
                let Some(kills) = kills else { return };
                let since = kills.saturating_sub(self.before.unwrap_or(kills));
                self.before = Some(kills);
                shared.gauges.put(NAME, Some(since as f64), now_ns);
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::gauge::{source_of, Reading};

    #[test]
    fn kills_since_the_last_look() {
        let folder = tempfile::tempdir().unwrap();
        let slice = folder.path().join("storage.slice");
        let config = format!("[paths]\ncgroup = \"{}\"\n", folder.path().display());
        let mut source = Ooms::new(&Config::parse("test", &config).unwrap());
        let shared = Shared::default();
        let mut read = |now_ns| {
            source.read(now_ns, &shared);
            shared.gauges.read(source_of("storage.memory.ooms").unwrap(), 1)
        };
        assert_eq!(read(2), Reading::Absent);
        std::fs::create_dir(&slice).unwrap();
        for (kills, expected) in [(7, 0.0), (7, 0.0), (9, 2.0), (1, 0.0)] {
            let text = format!("low 0\nhigh 1\nmax 2\noom 3\noom_kill {kills}\noom_group_kill 0\n");
            std::fs::write(slice.join("memory.events"), text).unwrap();
            assert_eq!(read(3), Reading::Value(expected, 3));
        }
    }
}

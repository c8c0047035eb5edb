// SPDX-License-Identifier: Apache-2.0
//! Memory of the storage services: what was taken from them although they were to keep it, what of them is in swap, and who of
//! them was killed for want of it; and batch's, against its limit (kernel, cgroup-v2.rst, memory controller).

use kernfs::KernFile;
use policy::Config;

use super::Source;
use crate::shared::Shared;

/// A number of `memory.events` that only grows.
struct Event {
    gauge: &'static str,
    key: &'static str,
    before: Option<u64>,
}

/// The source.
pub struct Memory {
    events: KernFile,
    counted: [Event; 2],
    swap: KernFile,
    batch: KernFile,
    limit: KernFile,
}

impl Memory {
    /// Opens nothing yet.
    pub fn new(config: &Config) -> Self {
        let storage = config.paths.cgroup.join(&config.paths.storage_slice);
        let batch = config.paths.cgroup.join(&config.paths.batch_slice);
        let event = |gauge, key| Event { gauge, key, before: None };
        Memory {
            events: KernFile::new(storage.join("memory.events")),
            counted: [event("storage.memory.low", "low "), event("storage.memory.ooms", "oom_kill ")],
            swap: KernFile::new(storage.join("memory.swap.current")),
            batch: KernFile::new(batch.join("memory.current")),
            limit: KernFile::new(batch.join("memory.max")),
        }
    }
}

/// `Some(None)` = there is no such number here.
fn number(file: &mut KernFile) -> Option<Option<f64>> {
    match file.read() {
        Ok(None) => Some(None),
        // "max" is no limit.
        Ok(Some(text)) if text.trim() == "max" => Some(None),
        Ok(Some(text)) => text.trim().parse().ok().map(Some),
        Err(_) => None,
    }
}

impl Source for Memory {
    fn read(&mut self, now_ns: u64, shared: &Shared) {
        if let Ok(text) = self.events.read() {
            for Event { gauge, key, before } in &mut self.counted {
                let count =
                    |text: &str| text.lines().find_map(|line| line.strip_prefix(*key)?.trim().parse::<u64>().ok());
                let Some(count) = text.map(count) else {
                    shared.gauges.put(gauge, None, now_ns);
                    continue;
                };
                let Some(count) = count else { continue };
                let since = count.saturating_sub(before.unwrap_or(count));
                *before = Some(count);
                shared.gauges.put(gauge, Some(since as f64), now_ns);
            }
        }
        if let Some(swapped) = number(&mut self.swap) {
            shared.gauges.put("storage.memory.swap", swapped, now_ns);
        }
        if let (Some(used), Some(limit)) = (number(&mut self.batch), number(&mut self.limit)) {
            let share = used.zip(limit).filter(|(_, limit)| *limit > 0.0).map(|(used, limit)| used / limit);
            shared.gauges.put("batch.memory", share, now_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::gauge::{source_of, Reading};

    #[test]
    fn events_since_the_last_look_and_what_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let config = format!("[paths]\ncgroup = \"{}\"\n", folder.path().display());
        let mut source = Memory::new(&Config::parse("test", &config).unwrap());
        let shared = Shared::default();
        let mut read = |now_ns| {
            source.read(now_ns, &shared);
            ["storage.memory.low", "storage.memory.ooms", "storage.memory.swap", "batch.memory"]
                .map(|name| shared.gauges.read(source_of(name).unwrap(), 1))
        };
        assert_eq!(read(2), [Reading::Absent; 4]);
        let write = |file: &str, text: &str| std::fs::write(folder.path().join(file), text).unwrap();
        for slice in ["storage.slice", "beer.slice"] {
            std::fs::create_dir(folder.path().join(slice)).unwrap();
        }
        write("storage.slice/memory.swap.current", "4096\n");
        write("beer.slice/memory.current", "300\n");
        write("beer.slice/memory.max", "400\n");
        for (low, kills, expected) in [(3, 7, [0.0, 0.0]), (3, 7, [0.0, 0.0]), (4, 9, [1.0, 2.0]), (0, 1, [0.0, 0.0])] {
            let text = format!("low {low}\nhigh 1\nmax 2\noom 3\noom_kill {kills}\noom_group_kill 0\n");
            write("storage.slice/memory.events", &text);
            let expected = [expected[0], expected[1], 4096.0, 0.75].map(|value| Reading::Value(value, 3));
            assert_eq!(read(3), expected);
        }
        write("beer.slice/memory.max", "max\n");
        assert_eq!(read(4)[3], Reading::Absent);
    }
}

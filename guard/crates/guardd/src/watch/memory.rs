// SPDX-License-Identifier: Apache-2.0
//! Memory of the storage services: what the kernel took from them, what of that they had to read again, what it took although they
//! were to keep it, how much they have of what they are to keep, what of them is in swap, and who of them was killed for want of it; and batch's, against its limit (kernel,
//! cgroup-v2.rst, memory controller).

use std::path::Path;

use kernfs::KernFile;
use policy::Config;

use super::Source;
use crate::shared::Shared;

/// Of numbers that only grow: the sum of some of them.
struct Count {
    gauge: &'static str,
    /// With the blank behind them.
    keys: &'static [&'static str],
    unit: f64,
    before: Option<u64>,
}

impl Count {
    const fn new(gauge: &'static str, keys: &'static [&'static str], unit: f64) -> Count {
        Count { gauge, keys, unit, before: None }
    }

    /// A damaged text is no value, and not absence.
    fn follow(&mut self, text: Result<Option<&str>, &kernfs::Error>, now_ns: u64, shared: &Shared) {
        let text = match text {
            Ok(text) => text,
            Err(error) => return shared.gauges.fail(self.gauge, error),
        };
        let of =
            |text: &str, key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok());
        let sum = |text: &str| self.keys.iter().try_fold(0_u64, |sum, key| Some(sum.saturating_add(of(text, key)?)));
        let Some(sum) = text.map(sum) else {
            shared.gauges.put(self.gauge, None, now_ns);
            return;
        };
        let Some(sum) = sum else {
            return shared.gauges.fail(self.gauge, format_args!("no {:?} there", self.keys));
        };
        let since = sum.saturating_sub(self.before.unwrap_or(sum));
        self.before = Some(sum);
        shared.gauges.put(self.gauge, Some(since as f64 * self.unit), now_ns);
    }
}

/// The source.
pub struct Memory {
    events: KernFile,
    stat: KernFile,
    events_counted: [Count; 2],
    stat_counted: [Count; 2],
    swap: KernFile,
    storage: Part,
    batch: Part,
}

/// What is used of a limit.
struct Part {
    used: KernFile,
    limit: KernFile,
}

impl Part {
    fn new(slice: &Path, limit: &str) -> Part {
        Part { used: KernFile::new(slice.join("memory.current")), limit: KernFile::new(slice.join(limit)) }
    }

    /// `None` = there is no limit.
    fn share(&mut self) -> Result<Option<f64>, String> {
        let both = number(&mut self.used)?.zip(number(&mut self.limit)?);
        Ok(both.and_then(|(used, limit)| (limit > 0.0).then_some(used / limit)))
    }
}

impl Memory {
    /// Opens nothing yet.
    pub fn new(config: &Config) -> Self {
        let storage = config.paths.cgroup.join(&config.paths.storage_slice);
        let batch = config.paths.cgroup.join(&config.paths.batch_slice);
        let page = rustix::param::page_size() as f64;
        Memory {
            events: KernFile::new(storage.join("memory.events")),
            stat: KernFile::new(storage.join("memory.stat")),
            events_counted: [
                Count::new("storage.memory.low", &["low "], 1.0),
                Count::new("storage.memory.ooms", &["oom_kill "], 1.0),
            ],
            stat_counted: [
                Count::new("storage.memory.reclaimed", &["pgsteal "], page),
                Count::new("storage.memory.refaulted", &["workingset_refault_anon ", "workingset_refault_file "], page),
            ],
            swap: KernFile::new(storage.join("memory.swap.current")),
            storage: Part::new(&storage, "memory.low"),
            batch: Part::new(&batch, "memory.max"),
        }
    }
}

/// `None` = there is no such number here.
fn number(file: &mut KernFile) -> Result<Option<f64>, String> {
    let value = match file.read().map_err(|error| error.to_string())?.map(str::trim) {
        // "max" is no limit.
        None | Some("max") => return Ok(None),
        Some(text) => text.parse(),
    };
    value.map(Some).map_err(|error| format!("{}: {error}", file.path().display()))
}

impl Source for Memory {
    fn read(&mut self, now_ns: u64, shared: &Shared) {
        let counted = [(&mut self.events, &mut self.events_counted), (&mut self.stat, &mut self.stat_counted)];
        for (file, counts) in counted {
            let text = file.read();
            counts.iter_mut().for_each(|count| count.follow(text.as_ref().copied(), now_ns, shared));
        }
        let put = |name, value| match value {
            Ok(value) => shared.gauges.put(name, value, now_ns),
            Err(fault) => shared.gauges.fail(name, fault),
        };
        put("storage.memory.swap", number(&mut self.swap));
        put("storage.memory.protected", self.storage.share());
        put("batch.memory", self.batch.share());
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
        let mut protected = |low: &str| {
            write("storage.slice/memory.low", low);
            read(4);
            shared.gauges.read(source_of("storage.memory.protected").unwrap(), 1)
        };
        write("storage.slice/memory.current", "600\n");
        assert_eq!(protected("400\n"), Reading::Value(1.5, 4));
        assert_eq!((protected("0\n"), protected("max\n")), (Reading::Absent, Reading::Absent));
        // What is damaged leaves the last values to grow old, and says why.
        write("storage.slice/memory.swap.current", "much\n");
        write("storage.slice/memory.events", "low few\n");
        assert_eq!(read(5)[..3], [0.0, 0.0, 4096.0].map(|value| Reading::Value(value, 4)));
        let fault = |name| shared.gauges.fault(source_of(name).unwrap()).unwrap();
        assert!(fault("storage.memory.swap").contains("memory.swap.current: invalid"));
        assert!(fault("storage.memory.low").contains("low "));
    }

    #[test]
    fn what_was_taken_and_what_had_to_be_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let config = format!("[paths]\ncgroup = \"{}\"\n", folder.path().display());
        let mut source = Memory::new(&Config::parse("test", &config).unwrap());
        let shared = Shared::default();
        std::fs::create_dir(folder.path().join("storage.slice")).unwrap();
        let page = rustix::param::page_size() as f64;
        let mut read = |text: &str| {
            std::fs::write(folder.path().join("storage.slice/memory.stat"), text).unwrap();
            source.read(3, &shared);
            ["storage.memory.reclaimed", "storage.memory.refaulted"]
                .map(|name| shared.gauges.read(source_of(name).unwrap(), 1))
        };
        let stat = |steal: u64, anon: u64, file: u64| {
            format!(
                "anon 1\npgsteal {steal}\npgsteal_kswapd 9\nworkingset_refault_anon {anon}\n\
                 workingset_refault_file {file}\n"
            )
        };
        assert_eq!(read(&stat(7, 1, 2)), [Reading::Value(0.0, 3); 2]);
        assert_eq!(read(&stat(17, 2, 4)), [Reading::Value(10.0 * page, 3), Reading::Value(3.0 * page, 3)]);
        assert_eq!(read("anon 1\n"), [Reading::Value(10.0 * page, 3), Reading::Value(3.0 * page, 3)], "damaged");
    }
}

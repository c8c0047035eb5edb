// SPDX-License-Identifier: Apache-2.0
//! One cgroup of the unified hierarchy: the files that the guard reads. A cgroup that is not there, or goes away
//! between two reads, is `None` and never an error: job scopes come and go.

use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;

use crate::file::lines_of_devices;
use crate::{Error, KernFile, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Events {
    pub populated: bool,
    /// All tasks are frozen; a task in an uninterruptible wait keeps this false until its I/O returns.
    pub frozen: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuStat {
    pub usage_us: u64,
    pub throttled_us: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceIo {
    pub device: (u32, u32),
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub reads: u64,
    pub writes: u64,
}

#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    events: KernFile,
    cpu_stat: KernFile,
    io: IoStat,
    memory_current: KernFile,
    memory_max: KernFile,
    cpus_effective: KernFile,
}

type Broken = (usize, &'static str);

impl Cgroup {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let file = |name: &str| KernFile::new(path.join(name));
        Cgroup {
            events: file("cgroup.events"),
            cpu_stat: file("cpu.stat"),
            io: IoStat::new(&path),
            memory_current: file("memory.current"),
            memory_max: file("memory.max"),
            cpus_effective: file("cpuset.cpus.effective"),
            path,
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn events(&mut self) -> Result<Option<Events>> {
        parsed(&mut self.events, |text| {
            let frozen = keyed(text, "frozen")?;
            Ok(Events { populated: keyed(text, "populated")? != 0, frozen: frozen != 0 })
        })
    }

    pub fn cpu(&mut self) -> Result<Option<CpuStat>> {
        parsed(&mut self.cpu_stat, |text| {
            // throttled_usec is there only with the cpu controller enabled.
            let throttled_us = if text.contains("throttled_usec") { keyed(text, "throttled_usec")? } else { 0 };
            Ok(CpuStat { usage_us: keyed(text, "usage_usec")?, throttled_us })
        })
    }

    pub fn memory_bytes(&mut self) -> Result<Option<u64>> {
        parsed(&mut self.memory_current, |text| number(text).ok_or((0, "not a number")))
    }

    /// `u64::MAX` stands for `max`.
    pub fn memory_max_bytes(&mut self) -> Result<Option<u64>> {
        parsed(&mut self.memory_max, |text| match text.trim_end() {
            "max" => Ok(u64::MAX),
            other => number(other).ok_or((0, "neither a number nor `max`")),
        })
    }

    /// How many CPUs the tasks may run on.
    pub fn cpu_count(&mut self) -> Result<Option<u32>> {
        parsed(&mut self.cpus_effective, |text| count_cpus(text).ok_or((0, "not a list of CPUs")))
    }

    /// Bytes and requests by device, as charged to this cgroup and all below it.
    pub fn io(&mut self) -> Result<Option<&[DeviceIo]>> {
        self.io.read()
    }
}

/// `io.stat` of one cgroup.
#[derive(Debug)]
pub struct IoStat {
    file: KernFile,
    devices: Vec<DeviceIo>,
}

impl IoStat {
    /// `cgroup` is its folder.
    pub fn new(cgroup: &Path) -> Self {
        IoStat { file: KernFile::new(cgroup.join("io.stat")), devices: Vec::new() }
    }

    /// Bytes and requests by device, since the cgroup was made.
    pub fn read(&mut self) -> Result<Option<&[DeviceIo]>> {
        let devices = &mut self.devices;
        devices.clear();
        match parsed(&mut self.file, |text| parse_io(text, devices))? {
            None => Ok(None),
            Some(()) => Ok(Some(&self.devices)),
        }
    }
}

/// Memory of one cgroup that its tasks hold: the kernel cannot drop it, as it can the page cache, only put it into swap.
#[derive(Debug)]
pub struct HeldMemory {
    stat: KernFile,
    swap: KernFile,
    events: KernFile,
}

impl HeldMemory {
    /// `cgroup` is its folder.
    pub fn new(cgroup: &Path) -> Self {
        let file = |name: &str| KernFile::new(cgroup.join(name));
        HeldMemory { stat: file("memory.stat"), swap: file("memory.swap.current"), events: file("memory.events.local") }
    }

    /// Anonymous memory, that of tmpfs and shared memory, and what is in swap.
    pub fn bytes(&mut self) -> Result<Option<u64>> {
        let resident = parsed(&mut self.stat, |text| {
            let held = keyed(text, "anon")?.saturating_add(keyed(text, "shmem")?);
            // What is in both counts once; older kernels do not say what that is.
            Ok(held.saturating_sub(keyed(text, "swapcached").unwrap_or_default()))
        })?;
        // A kernel without swap has no such file.
        let swapped = parsed(&mut self.swap, |text| number(text).ok_or((0, "not a number")))?.unwrap_or_default();
        Ok(resident.map(|bytes| bytes.saturating_add(swapped)))
    }

    /// How often it came to a limit of its own: it waited for memory there, of which nobody else was short.
    pub fn times_at_limit(&mut self) -> Result<Option<u64>> {
        parsed(&mut self.events, |text| Ok(keyed(text, "high")?.saturating_add(keyed(text, "max")?)))
    }
}

/// Lists the cgroups directly below one, without allocating.
pub struct Children {
    path: PathBuf,
    buffer: Vec<MaybeUninit<u8>>,
}

impl Children {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Children { path: path.into(), buffer: vec![MaybeUninit::uninit(); 32768] }
    }

    /// Name and inode number of each; a cgroup that is made anew under the same name has another number. A name that is not
    /// text is left out: systemd makes none. `None` = the cgroup is not there. Ends early when `visit` says so: to list ten thousand
    /// takes the kernel some milliseconds.
    pub fn each(&mut self, mut visit: impl FnMut(&str, u64) -> ControlFlow<()>) -> Result<Option<()>> {
        // Opened each time: a descriptor of a removed cgroup lists nothing for ever.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = match rustix::fs::open(&self.path, flags, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::NOENT | Errno::NODEV | Errno::NOTDIR) => return Ok(None),
            Err(error) => return Err(Error::io(&self.path, error)),
        };
        let mut entries = RawDir::new(&folder, &mut self.buffer);
        while let Some(entry) = entries.next() {
            match entry {
                Ok(entry) => {
                    let name = entry.file_name().to_str().unwrap_or_default();
                    let cgroup = entry.file_type() == FileType::Directory && !matches!(name, "" | "." | "..");
                    if cgroup && visit(name, entry.ino()).is_break() {
                        return Ok(Some(()));
                    }
                }
                // It was removed while we listed it.
                Err(Errno::NOENT | Errno::NODEV) => return Ok(None),
                Err(error) => return Err(Error::io(&self.path, error)),
            }
        }
        Ok(Some(()))
    }
}

fn parsed<T>(file: &mut KernFile, parse: impl FnOnce(&str) -> std::result::Result<T, Broken>) -> Result<Option<T>> {
    let outcome = match file.read()? {
        None => return Ok(None),
        Some(text) => parse(text),
    };
    outcome.map(Some).map_err(|(line, what)| Error::parse(file.path(), line, what))
}

fn number(text: &str) -> Option<u64> {
    text.trim_end().parse().ok()
}

/// The value in a file of `key value` lines.
fn keyed(text: &str, key: &'static str) -> std::result::Result<u64, Broken> {
    for (line, words) in text.lines().enumerate() {
        if let Some((name, value)) = words.split_once(' ') {
            if name == key {
                return number(value).ok_or((line, "not a number"));
            }
        }
    }
    Err((text.lines().count(), key_missing(key)))
}

fn key_missing(key: &'static str) -> &'static str {
    match key {
        "frozen" => "no `frozen`",
        "populated" => "no `populated`",
        "usage_usec" => "no `usage_usec`",
        "anon" => "no `anon`",
        "shmem" => "no `shmem`",
        "high" => "no `high`",
        "max" => "no `max`",
        _ => "a key is missing",
    }
}

fn parse_io(text: &str, devices: &mut Vec<DeviceIo>) -> std::result::Result<(), Broken> {
    for (number, line) in lines_of_devices(text) {
        devices.push(parse_io_line(line).ok_or((number, "not an io.stat line"))?);
    }
    Ok(())
}

/// `8:16 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0`; a device without I/O of this cgroup may stand alone.
fn parse_io_line(line: &str) -> Option<DeviceIo> {
    let mut words = line.split_ascii_whitespace();
    let (major, minor) = words.next()?.split_once(':')?;
    let mut io = DeviceIo { device: (major.parse().ok()?, minor.parse().ok()?), ..DeviceIo::default() };
    for word in words {
        let (key, value) = word.split_once('=')?;
        let field = match key {
            "rbytes" => &mut io.read_bytes,
            "wbytes" => &mut io.write_bytes,
            "rios" => &mut io.reads,
            "wios" => &mut io.writes,
            _ => continue,
        };
        *field = value.parse().ok()?;
    }
    Some(io)
}

/// `0-3,8,10-11` is 7 CPUs; an empty list is 0.
fn count_cpus(text: &str) -> Option<u32> {
    let text = text.trim_end();
    if text.is_empty() {
        return Some(0);
    }
    let mut count = 0u32;
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{container, damaged, fixture};

    #[test]
    fn captured_tree() {
        let mut jobs = Cgroup::new(fixture("cgroup/beer.slice/beer-jobs.slice"));
        assert_eq!(jobs.events().unwrap(), Some(Events { populated: true, frozen: true }));
        assert!(jobs.cpu().unwrap().unwrap().usage_us > 0);
        assert!(jobs.memory_bytes().unwrap().unwrap() > 0);
        assert!(jobs.io().unwrap().unwrap().iter().any(|io| io.device.0 == 254 && io.write_bytes > 0));
        let mut beer = Cgroup::new(fixture("cgroup/beer.slice"));
        assert_eq!(beer.cpu_count().unwrap(), Some(2));
        assert_eq!(beer.memory_max_bytes().unwrap(), Some(2_500_853_760));
        let mut storage = Cgroup::new(fixture("cgroup/storage.slice"));
        assert_eq!(storage.memory_max_bytes().unwrap(), Some(u64::MAX));
    }

    #[test]
    fn what_tasks_hold_is_not_the_page_cache() {
        assert_eq!(HeldMemory::new(&container("cgroup")).bytes().unwrap(), Some(12_443_648));
        let folder = damaged("memory.stat", "anon 300\nfile 9000\nkernel 11\nshmem 20\nfile_mapped 1\n");
        let mut held = HeldMemory::new(folder.path());
        assert_eq!(held.bytes().unwrap(), Some(320));
        std::fs::write(folder.path().join("memory.swap.current"), "4000\n").unwrap();
        assert_eq!(held.bytes().unwrap(), Some(4320));
        std::fs::write(folder.path().join("memory.swap.current"), "max\n").unwrap();
        assert!(held.bytes().is_err());
        std::fs::write(folder.path().join("memory.swap.current"), "4000\n").unwrap();
        std::fs::write(folder.path().join("memory.stat"), "anon 300\nshmem 20\nswapcached 100\n").unwrap();
        assert_eq!(held.bytes().unwrap(), Some(4220));
        assert_eq!(held.times_at_limit().unwrap(), None);
        std::fs::write(folder.path().join("memory.events.local"), "low 7\nhigh 2\nmax 3\noom 1\n").unwrap();
        assert_eq!(held.times_at_limit().unwrap(), Some(5));
        std::fs::write(folder.path().join("memory.events.local"), "high 2\n").unwrap();
        assert!(held.times_at_limit().is_err());
        for text in ["anon 300\n", "shmem 20\n", "anon x\nshmem 20\n", ""] {
            assert!(HeldMemory::new(damaged("memory.stat", text).path()).bytes().is_err(), "{text}");
        }
        assert_eq!(HeldMemory::new(&fixture("cgroup/gone.slice")).bytes().unwrap(), None);
    }

    #[test]
    fn a_cgroup_that_is_gone_is_none_everywhere() {
        let mut gone = Cgroup::new(fixture("cgroup/gone.slice"));
        assert_eq!(gone.events().unwrap(), None);
        assert_eq!(gone.cpu().unwrap(), None);
        assert_eq!(gone.memory_bytes().unwrap(), None);
        assert_eq!(gone.memory_max_bytes().unwrap(), None);
        assert_eq!(gone.cpu_count().unwrap(), None);
        assert_eq!(gone.io().unwrap(), None);
        assert_eq!(Children::new(gone.path()).each(|_, _| panic!("there are none")).unwrap(), None);
    }

    #[test]
    fn damaged_files_are_errors() {
        let damaged_error = |name: &str, text: &str, read: &dyn Fn(&mut Cgroup) -> Option<Error>| {
            let dir = damaged(name, text);
            let error = read(&mut Cgroup::new(dir.path())).unwrap_or_else(|| panic!("{name} {text:?} was accepted"));
            assert!(error.path().ends_with(name));
        };
        for text in ["", "populated 1\n", "populated 1\nfrozen x\n"] {
            damaged_error("cgroup.events", text, &|c| c.events().err());
        }
        damaged_error("cpu.stat", "usage_usec\n", &|c| c.cpu().err());
        damaged_error("memory.current", "\n", &|c| c.memory_bytes().err());
        damaged_error("memory.max", "maximum\n", &|c| c.memory_max_bytes().err());
        damaged_error("cpuset.cpus.effective", "3-1\n", &|c| c.cpu_count().err());
        for text in ["8:0 rbytes=1 wbytes\n", "8 rbytes=1\n", "\n", "8:0 rbytes=18446744073709551616\n"] {
            damaged_error("io.stat", text, &|c| c.io().map(|_| ()).err());
        }
    }

    #[test]
    fn children_are_folders_and_a_new_one_of_the_same_name_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let mut children = Children::new(dir.path());
        let mut list = || {
            let mut found = Vec::new();
            let mut push = |name: &str, number| found.push((name.to_owned(), number));
            let listed = children.each(|name, number| {
                push(name, number);
                ControlFlow::Continue(())
            });
            listed.unwrap().unwrap();
            found.sort();
            found
        };
        assert_eq!(list(), []);
        std::fs::write(dir.path().join("cgroup.procs"), "").unwrap();
        // More than fit into the buffer at once.
        let names: Vec<String> = (0..300).map(|number| format!("docker-{number:064}.scope")).collect();
        names.iter().for_each(|name| std::fs::create_dir(dir.path().join(name)).unwrap());
        let before = list();
        assert_eq!(before.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), names);
        std::fs::rename(dir.path().join(&names[0]), dir.path().join("elsewhere")).unwrap();
        std::fs::create_dir(dir.path().join(&names[0])).unwrap();
        assert_ne!(list()[0].1, before[0].1);
        let mut visited = 0;
        let visit = |_: &str, _| {
            visited += 1;
            if visited < 7 {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        assert_eq!((children.each(visit).unwrap(), visited), (Some(()), 7));
        drop(dir);
        assert_eq!(children.each(|_, _| ControlFlow::Continue(())).unwrap(), None);
    }

    #[test]
    fn cpu_lists() {
        assert_eq!(count_cpus("0-3,8,10-11\n"), Some(7));
        assert_eq!(count_cpus("\n"), Some(0));
        for text in ["a", "1-", "0-4294967295", "1,,2"] {
            assert_eq!(count_cpus(text), None, "{text}");
        }
    }

    #[test]
    fn a_disk_that_was_pulled_out_is_no_device() {
        let mut devices = Vec::new();
        let text = "254:16 rbytes=1 wbytes=0 rios=1 wios=0 dbytes=0 dios=0\n(unknown) rbytes=5 wbytes=0 rios=1 wios=0 dbytes=0 dios=0\n";
        assert_eq!((parse_io(text, &mut devices), devices.len()), (Ok(()), 1));
    }

    #[test]
    fn a_device_without_io_may_stand_alone() {
        let mut devices = Vec::new();
        assert_eq!(parse_io("254:0\n254:16 rbytes=4096 wbytes=0 rios=1 wios=0 cost.usage=3\n", &mut devices), Ok(()));
        assert_eq!(devices[1], DeviceIo { device: (254, 16), read_bytes: 4096, reads: 1, ..DeviceIo::default() });
    }
}

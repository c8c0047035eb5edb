// SPDX-License-Identifier: Apache-2.0
//! `/proc/diskstats`: counters of every block device, and what two readings say about the time in between.

use std::path::Path;
use std::time::Duration;

use crate::{Error, KernFile, Result};

/// Kernel names are at most 31 bytes (`DISK_NAME_LEN`); kept in place so that reading allocates nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskName([u8; 32]);

impl DiskName {
    fn new(name: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        Some(DiskName(bytes))
    }

    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        self.0.get(..end).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskCounters {
    pub device: (u32, u32),
    pub name: DiskName,
    pub reads: u64,
    pub read_sectors: u64,
    pub writes: u64,
    pub write_sectors: u64,
    /// The kernel prints times as 32 bits of milliseconds: they wrap after 49 days.
    pub read_ms: u32,
    pub write_ms: u32,
    pub in_flight: u32,
    pub busy_ms: u32,
    pub queue_ms: u32,
}

/// One device between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DiskUse {
    pub requests_per_second: f64,
    pub bytes_per_second: f64,
    /// Mean time from queueing to completion; `None` when nothing completed.
    pub await_ms: Option<f64>,
    /// Mean number of requests queued or served.
    pub queue: f64,
    /// Share of the time with at least one request, 0 to 1.
    pub utilisation: f64,
}

impl DiskCounters {
    /// `None` when the counters cannot be of the same device's one life: it was taken out and put back.
    pub fn since(&self, earlier: &DiskCounters, elapsed: Duration) -> Option<DiskUse> {
        let seconds = elapsed.as_secs_f64();
        let more = |now: u64, then: u64| now.checked_sub(then);
        let requests = more(self.reads, earlier.reads)?.checked_add(more(self.writes, earlier.writes)?)?;
        let written = more(self.write_sectors, earlier.write_sectors)?;
        let sectors = more(self.read_sectors, earlier.read_sectors)?.checked_add(written)?;
        if self.device != earlier.device || seconds <= 0.0 {
            return None;
        }
        let difference = |now: u32, then: u32| f64::from(now.wrapping_sub(then));
        let waited = difference(self.read_ms, earlier.read_ms) + difference(self.write_ms, earlier.write_ms);
        Some(DiskUse {
            requests_per_second: requests as f64 / seconds,
            bytes_per_second: sectors as f64 * 512.0 / seconds,
            await_ms: (requests > 0).then(|| waited / requests as f64),
            queue: difference(self.queue_ms, earlier.queue_ms) / (seconds * 1e3),
            utilisation: (difference(self.busy_ms, earlier.busy_ms) / (seconds * 1e3)).min(1.0),
        })
    }
}

#[derive(Debug)]
pub struct DiskStats {
    file: KernFile,
    disks: Vec<DiskCounters>,
}

impl DiskStats {
    /// `proc` is normally `/proc`.
    pub fn new(proc: &Path) -> Self {
        DiskStats { file: KernFile::new(proc.join("diskstats")), disks: Vec::with_capacity(256) }
    }

    /// All devices, in the order of the kernel.
    pub fn read(&mut self) -> Result<Option<&[DiskCounters]>> {
        self.disks.clear();
        let broken = match self.file.read()? {
            None => return Ok(None),
            Some(text) => fill(text, &mut self.disks),
        };
        match broken {
            None => Ok(Some(&self.disks)),
            Some(line) => Err(Error::parse(self.file.path(), line, "not a diskstats line")),
        }
    }
}

/// Returns the number of the first line that makes no sense.
fn fill(text: &str, disks: &mut Vec<DiskCounters>) -> Option<usize> {
    for (number, line) in text.lines().enumerate() {
        match parse_line(line) {
            Some(disk) => disks.push(disk),
            None => return Some(number),
        }
    }
    None
}

/// `major minor name reads merged sectors ms writes merged sectors ms in_flight busy_ms queue_ms` and, since
/// 4.18 and 5.5, discards and flushes that are not used here.
fn parse_line(line: &str) -> Option<DiskCounters> {
    let mut words = line.split_ascii_whitespace();
    let device = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let name = DiskName::new(words.next()?)?;
    let mut numbers = [0u64; 11];
    for number in &mut numbers {
        *number = words.next()?.parse().ok()?;
    }
    let [reads, _, read_sectors, read_ms, writes, _, write_sectors, write_ms, in_flight, busy_ms, queue_ms] = numbers;
    Some(DiskCounters {
        device,
        name,
        reads,
        read_sectors,
        writes,
        write_sectors,
        read_ms: read_ms as u32,
        write_ms: write_ms as u32,
        in_flight: in_flight as u32,
        busy_ms: busy_ms as u32,
        queue_ms: queue_ms as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{damaged, fixture};

    #[test]
    fn captured_tree() {
        let mut stats = DiskStats::new(&fixture("proc"));
        let disks = stats.read().unwrap().unwrap();
        let vdb = disks.iter().find(|disk| disk.device == (254, 16)).unwrap();
        assert_eq!(vdb.name.as_str(), "vdb");
        assert!(vdb.reads > 0 && vdb.busy_ms > 0);
    }

    #[test]
    fn absent() {
        assert_eq!(DiskStats::new(Path::new("/nowhere")).read().unwrap(), None);
    }

    #[test]
    fn use_between_two_readings() {
        let early = parse_line("8 0 sda 100 0 800 4294967290 50 0 400 10 1 4294967000 500 0 0 0 0 0 0").unwrap();
        let late = parse_line("8 0 sda 140 0 1120 194 60 0 480 110 9 204 1500").unwrap();
        let usage = late.since(&early, Duration::from_secs(1)).unwrap();
        assert_eq!(usage.requests_per_second, 50.0);
        assert_eq!(usage.bytes_per_second, 400.0 * 512.0);
        // The read time wrapped: 200 ms for reads and 100 ms for writes over 50 requests.
        assert_eq!(usage.await_ms, Some(6.0));
        assert_eq!((usage.queue, usage.utilisation), (1.0, 0.5));
        assert_eq!(late.since(&late, Duration::from_secs(1)).unwrap().await_ms, None);
        assert_eq!(early.since(&late, Duration::from_secs(1)), None, "counters ran backwards");
        assert_eq!(late.since(&early, Duration::ZERO), None);
    }

    #[test]
    fn damaged_files_are_errors() {
        let long = format!("8 0 {} 1 1 1 1 1 1 1 1 1 1 1", "n".repeat(33));
        for text in ["8 0 sda 1 2 3\n", "garbage\n", "8 0 sda 1 0 8 -1 50 0 400 10 1 4 500\n", long.as_str()] {
            let dir = damaged("diskstats", text);
            let error = DiskStats::new(dir.path()).read().unwrap_err();
            assert!(error.to_string().contains("diskstats line 1"), "{error}");
        }
    }
}

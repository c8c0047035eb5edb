// SPDX-License-Identifier: Apache-2.0
//! Less memory for all of batch: `memory.high`, above which the kernel takes its memory back and slows it (kernel, cgroup-v2.rst).

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::Knob;
use crate::command::{self, Unanswered};

/// Not less than what a few processes need to end.
const LEAST: u64 = 64 << 20;
/// The largest pages that there are as a unit: the kernel rounds down to whole pages.
const PAGE: u64 = 64 << 10;

/// The knob for this share of what batch had when storage became short of memory.
pub(super) fn knobs(had_bytes: u64, share: f32) -> Vec<Knob> {
    let bytes = ((had_bytes as f64 * f64::from(share)) as u64).max(LEAST) / PAGE * PAGE;
    vec![Knob::new("MemoryHigh", &bytes.to_string(), "memory.high", &bytes.to_string())]
}

/// For example `1.20 of 2.40 GB of memory`. Who had next to nothing may have more than that.
pub(super) fn words(knobs: &[Knob], had_bytes: u64) -> String {
    let bytes = knobs.first().and_then(|knob| knob.value.parse::<u64>().ok()).unwrap_or_default();
    let gigabytes = |bytes: u64| bytes as f64 / 1e9;
    match bytes < had_bytes {
        true => format!("{:.2} of {:.2} GB of memory", gigabytes(bytes), gigabytes(had_bytes)),
        false => format!("no more than {:.2} GB of memory", gigabytes(bytes)),
    }
}

/// Writes the limit, which holds at once. But the kernel takes memory back for whoever writes it (mm/memcontrol.c, memory_high_write), from
/// a slow disk for a long time, unless he is killed: so somebody else does it, and not for long. `Ok(false)` = it was not done by then.
///
/// # Errors
/// It cannot be written.
pub(super) fn write(folder: &Path, knob: &Knob, patience: Duration) -> Result<bool> {
    let file = folder.join(knob.file).display().to_string();
    match command::run(Path::new("/bin/sh"), &["-c", "printf %s \"$0\" > \"$1\"", &knob.seen, &file], patience) {
        Ok(()) => Ok(true),
        Err(error) if error.is::<Unanswered>() => Ok(false),
        Err(error) => Err(error).context(file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn nobody_waits_long_for_the_kernel_to_take_memory_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory.high");
        std::fs::write(&path, "max\n").unwrap();
        let knob = knobs(1 << 30, 0.5).remove(0);
        assert!(write(folder.path(), &knob, Duration::from_secs(20)).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "536870912");
        std::fs::remove_file(&path).unwrap();
        // Whoever opens it waits for its reader, as who writes the limit does for the kernel.
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let begun = Instant::now();
        assert!(!write(folder.path(), &knob, Duration::from_millis(50)).unwrap());
        assert!(begun.elapsed() < Duration::from_secs(20));
        assert!(write(&folder.path().join("none"), &knob, Duration::from_secs(20)).is_err());
    }

    #[test]
    fn a_share_of_what_it_had_in_whole_pages() {
        let half = knobs(2_000_000_000, 0.5);
        assert_eq!((half[0].value.as_str(), half[0].seen.as_str()), ("999948288", "999948288"));
        assert_eq!(words(&half, 2_000_000_000), "1.00 of 2.00 GB of memory");
        let least = knobs(1 << 20, 0.05);
        assert_eq!(least[0].value, LEAST.to_string());
        assert_eq!(words(&least, 1 << 20), "no more than 0.07 GB of memory");
    }
}

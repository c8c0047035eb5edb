// SPDX-License-Identifier: Apache-2.0
//! Less memory for all of batch: `memory.high`, above which the kernel takes its memory back and slows it (kernel, cgroup-v2.rst).

use std::path::Path;
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use anyhow::{bail, Result};

use super::{write, Knob};

/// Not less than what a few processes need to end.
const LEAST: u64 = 64 << 20;
/// The largest pages that there are as a unit: the kernel rounds down to whole pages.
const PAGE: u64 = 64 << 10;

/// Of the thread that writes it; all of it is locked (`crate::memory`).
const STACK: usize = 64 << 10;

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

/// Writes a limit in a thread of its own. It holds at once, but the kernel takes memory back for whoever writes it (mm/memcontrol.c,
/// memory_high_write): from a slow disk that may be a long time, in which others are to be limited, and ended.
#[derive(Debug, Default)]
pub(super) struct Aside(Option<Receiver<Result<()>>>);

impl Aside {
    /// Waits for the end of it, but no longer than the deadline.
    ///
    /// # Errors
    /// It takes longer; then nobody waits for it any more, and nothing else is written before it has ended. Or it cannot be written.
    pub fn write(&mut self, folder: &Path, knob: &Knob, deadline: Duration) -> Result<()> {
        let file = folder.join(knob.file);
        if self.0.as_ref().is_some_and(|last| matches!(last.try_recv(), Err(TryRecvError::Empty))) {
            bail!("{}: the kernel still takes memory back", file.display());
        }
        let (done, ended) = sync_channel(1);
        let (folder, name, text) = (folder.to_owned(), knob.file, knob.seen.clone());
        let writer = move || done.send(write(&folder, name, &text));
        std::thread::Builder::new().name("memory.high".into()).stack_size(STACK).spawn(writer)?;
        match ended.recv_timeout(deadline) {
            Ok(written) => written,
            Err(RecvTimeoutError::Timeout) => {
                self.0 = Some(ended);
                bail!("{}: the kernel takes memory back for more than {} s", file.display(), deadline.as_secs_f64())
            }
            Err(RecvTimeoutError::Disconnected) => bail!("{}: its writer has failed", file.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_long_for_the_kernel_to_take_memory_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory.high");
        // Whoever opens it waits for its reader, as who writes the limit does for the kernel.
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let (mut aside, knob, deadline) = (Aside::default(), knobs(1 << 30, 0.5).remove(0), Duration::from_millis(50));
        let mut write = || aside.write(folder.path(), &knob, deadline).map_err(|error| error.to_string());
        assert!(write().unwrap_err().contains("for more than 0.05 s"));
        let begun = std::time::Instant::now();
        assert!(write().unwrap_err().contains("still") && begun.elapsed() < deadline, "one at a time");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "536870912");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "max").unwrap();
        // The first one ends, whenever its thread gets to it.
        let ended = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            write().is_ok()
        });
        assert!(ended && std::fs::read_to_string(&path).unwrap() == "536870912");
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

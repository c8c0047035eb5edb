// SPDX-License-Identifier: Apache-2.0
//! One file per knob of the node. Every knob is planned (is a write needed?), applied, read back from the kernel
//! and undone when the guard ends, unless its file says that it outlives the guard.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::command::{self, Unanswered};

pub mod disks;
pub mod freeze;
pub mod io_max;
pub mod kill;
pub mod memory_high;
pub mod network;
pub mod shaping;
pub mod squeeze;
pub mod swap;
pub mod vacate;

#[cfg(test)]
mod testing;

pub use disks::DisksActuator;
pub use freeze::{FreezeActuator, FreezeError, Freezer, SliceFreezer};
pub use io_max::IoMaxActuator;
pub use kill::KillActuator;
pub use memory_high::MemoryHighActuator;
pub use network::NetworkActuator;
pub use shaping::{Held, ShapingActuator, Wanted};
pub use squeeze::SqueezeActuator;
pub use swap::SwapActuator;
pub use vacate::VacateActuator;

/// The largest pages that there are as a unit: the kernel rounds limits of memory down to whole pages.
const PAGE: u64 = 64 << 10;
/// How long the kernel may take memory back while a limit is written.
const RECLAIM: Duration = Duration::from_secs(1);

/// The unit whose cgroup this is.
pub(crate) fn unit(slice: &Path) -> &str {
    slice.file_name().and_then(|name| name.to_str()).unwrap_or("beer-jobs.slice")
}

/// Tells systemd, until the next boot.
fn set_property(systemctl: &Path, unit: &str, properties: &[String], deadline: Duration) -> Result<()> {
    let mut arguments = vec!["set-property", "--runtime", "--", unit];
    arguments.extend(properties.iter().map(String::as_str));
    command::run(systemctl, &arguments, deadline).with_context(|| format!("systemctl {}", arguments.join(" ")))
}

/// What is in a file of the cgroup; `None` = there is none.
pub(crate) fn now(folder: &Path, file: &str) -> Option<String> {
    std::fs::read_to_string(folder.join(file)).ok().map(|text| text.trim_end().to_owned())
}

/// Writes a file of the cgroup. Not made where there is none: that would be a file of a folder that is no cgroup.
fn write(folder: &Path, file: &str, text: &str) -> Result<()> {
    let path = folder.join(file);
    let open = std::fs::OpenOptions::new().write(true).truncate(true).open(&path);
    open.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()))
        .with_context(|| format!("{}", path.display()))
}

/// Writes `memory.high`, which holds at once. But the kernel takes memory back for whoever writes it (mm/memcontrol.c, memory_high_write),
/// from a slow disk for a long time, unless he is killed: so somebody else does it, and not for long. `Ok(false)` = it was not done by then.
fn write_memory_high(folder: &Path, text: &str, patience: Duration) -> Result<bool> {
    let file = folder.join("memory.high").display().to_string();
    match command::run(Path::new("/bin/sh"), &["-c", "printf %s \"$0\" > \"$1\"", text, &file], patience) {
        Ok(()) => Ok(true),
        Err(error) if error.is::<Unanswered>() => Ok(false),
        Err(error) => Err(error).context(file),
    }
}

/// Writes a file of the run folder in one piece: whoever reads it sees what was there before, or all of it.
pub(crate) fn replace(path: &Path, text: &str) -> Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, text).with_context(|| format!("{}", new.display()))?;
    std::fs::rename(&new, path).with_context(|| format!("{}", path.display()))
}

/// Removes a file that may be gone already.
pub(crate) fn gone(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn nobody_waits_long_for_the_kernel_to_take_memory_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory.high");
        std::fs::write(&path, "max\n").unwrap();
        assert!(write_memory_high(folder.path(), "536870912", Duration::from_secs(20)).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "536870912");
        std::fs::remove_file(&path).unwrap();
        // Whoever opens it waits for its reader, as who writes the limit does for the kernel.
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let begun = Instant::now();
        assert!(!write_memory_high(folder.path(), "536870912", Duration::from_millis(50)).unwrap());
        assert!(begun.elapsed() < Duration::from_secs(20));
        assert!(write_memory_high(&folder.path().join("none"), "1", Duration::from_secs(20)).is_err());
    }
}

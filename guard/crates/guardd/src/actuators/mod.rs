// SPDX-License-Identifier: Apache-2.0
//! One file per knob of the node. Every knob is planned (is a write needed?), applied, read back from the kernel
//! and undone when the guard ends.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::command;

pub mod disks;
pub mod freeze;
pub mod io_max;
pub mod kill;
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
pub use network::NetworkActuator;
pub use shaping::{Held, ShapingActuator, Wanted};
pub use squeeze::SqueezeActuator;
pub use swap::SwapActuator;
pub use vacate::VacateActuator;

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

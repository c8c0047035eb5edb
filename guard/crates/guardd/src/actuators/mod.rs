// SPDX-License-Identifier: Apache-2.0
//! One file per knob of the node. Every knob is planned (is a write needed?), applied, read back from the kernel
//! and undone when the guard ends.

use std::path::Path;

use anyhow::{Context, Result};

pub mod disks;
pub mod freeze;
pub mod io_max;
pub mod network;
pub mod shaping;
pub mod squeeze;
pub mod swap;
pub mod vacate;

pub use disks::DisksActuator;
pub use freeze::{FreezeActuator, FreezeError, Freezer, SliceFreezer};
pub use io_max::IoMaxActuator;
pub use network::NetworkActuator;
pub use shaping::{Held, ShapingActuator, Wanted};
pub use squeeze::SqueezeActuator;
pub use swap::SwapActuator;
pub use vacate::VacateActuator;

/// What is in a file of the cgroup; `None` = there is none.
fn now(folder: &Path, file: &str) -> Option<String> {
    std::fs::read_to_string(folder.join(file)).ok().map(|text| text.trim_end().to_owned())
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

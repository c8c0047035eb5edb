// SPDX-License-Identifier: Apache-2.0
//! One file per knob of the node. Every knob is planned (is a write needed?), applied, read back from the kernel
//! and undone when the guard ends.

pub mod freeze;
pub mod io_max;
pub mod network;
pub mod shaping;
pub mod squeeze;
pub mod vacate;

pub use freeze::{FreezeActuator, FreezeError, Freezer, SliceFreezer};
pub use io_max::IoMaxActuator;
pub use network::NetworkActuator;
pub use shaping::{Held, ShapingActuator, Wanted};
pub use squeeze::SqueezeActuator;
pub use vacate::VacateActuator;

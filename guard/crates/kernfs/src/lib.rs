// SPDX-License-Identifier: Apache-2.0
//! Readers for kernel filesystems, one file each. Every reader takes its root path as an argument (tests
//! point it at a fixture tree) and answers in three ways: `Ok(Some(value))`, `Ok(None)` when the kernel or
//! the node does not have it (any more), `Err` when it is there but cannot be read or understood.
//!
//! A reader keeps its descriptor and its buffer: reading again allocates nothing and resolves no path.
// Names are the kernel's own words; comments that repeat them would say nothing.
#![allow(missing_docs)]

pub mod block;
pub mod cgroup;
pub mod cpus;
mod error;
mod file;
pub mod io_max;
pub mod mountinfo;
pub mod net;
pub mod process;
pub mod psi;
pub mod swaps;
#[cfg(test)]
mod testing;

pub use error::{Error, Result};
pub use file::KernFile;

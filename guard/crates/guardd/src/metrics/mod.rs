// SPDX-License-Identifier: Apache-2.0
//! `/metrics`: `names` is the table of all of them, `render` turns a view of the node into text, `server` hands it
//! out.

pub mod names;
mod per_job;
pub mod render;
pub mod server;
mod slices;
#[cfg(test)]
mod tests;
pub mod text;

pub use names::{Kind, Metric};

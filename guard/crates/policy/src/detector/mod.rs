// SPDX-License-Identifier: Apache-2.0
//! The sequential test of one series, and what is stated about its errors and delays.
//!
//! Each request adds its log-likelihood ratio (latency under "everything is 2, 3 or 10 times slower" over latency under a
//! learned baseline) to a sum that never falls below zero (CUSUM). Three things bound what a single misfortune can do:
//! - one request adds at most [`REQUEST_MAX`];
//! - one tick adds at most a third of the strong level: requests that complete together share their fate;
//! - requests in flight are judged by how old they are, but only provisionally, and never for more than the weak level.
//!
//! Latencies below the objective's floor are one bin: a slowdown that nobody minds is no evidence. Beside it runs the
//! share test, which needs no baseline: it counts requests over the threshold against the share that is allowed.

mod accumulator;
mod baseline;
mod depth;
mod evidence;
mod kinship;
mod series;
mod slow_end;
mod stated;
pub mod trial;

pub use accumulator::{Accumulator, Limits};
pub use baseline::Baseline;
pub use depth::{Arrivals, Depths};
pub use evidence::{Evidence, REQUEST_MAX};
pub use kinship::Kinship;
pub use series::SeriesDetector;
pub(crate) use series::{Lesson, Tests, Tick};
pub use slow_end::SlowEnd;
pub use stated::{stated, stated_false_alarms_per_million, stated_rate, Stated};

// SPDX-License-Identifier: Apache-2.0
//! Types that cross a file or process boundary: latency and shaping segment, state line, journal, status,
//! operators' orders,
//! the storage daemon's answers, units. No policy here.

#![forbid(unsafe_code)]

mod bytes;
pub mod exec;
pub mod journal;
pub mod order;
pub mod segment;
pub mod shaping;
pub mod state;
pub mod status;
pub mod storage;
pub mod units;

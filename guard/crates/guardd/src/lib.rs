// SPDX-License-Identifier: Apache-2.0
//! beer-guard. Start at [`run::run`], which puts the threads together: [`control`] looks, decides and freezes,
//! [`worker`] turns the knobs that are slow, [`report`] writes the journal, [`publisher`] answers `/metrics`, [`operators`] takes orders,
//! [`watch`] reads gauges, and [`reload`] a new configuration. [`exec`] and [`probe`] are processes of their own: commands of the
//! site, and reads of disks.

pub mod actuators;
pub mod check;
pub mod clock;
pub mod command;
pub mod control;
pub mod exec;
pub mod failsafe;
pub mod heartbeat;
pub mod identity;
pub mod io_weight;
pub mod jobs;
pub mod memory;
pub mod metrics;
pub mod notify;
pub mod operators;
pub mod passwd;
pub mod probe;
pub mod publisher;
pub mod reload;
pub mod report;
pub mod run;
pub mod shared;
pub mod signals;
pub mod startd_cron;
pub mod watch;
pub mod worker;

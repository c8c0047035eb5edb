// SPDX-License-Identifier: Apache-2.0
//! What the guard decides, as pure functions: no clock, no I/O, no allocation per tick.
//!
//! One tick of the control loop is
//! ```text
//! evaluator.begin(now);
//! let signal = match reader.poll(now, &mut evaluator) { Ok(p) => Signal::heard(p.heartbeat_age_ns), Err(_) => Signal::Missing };
//! evaluator.finish(now, signal, ladder.acting());
//! let actions = ladder.step(&Inputs { verdicts: evaluator.verdicts(), filesystems: evaluator.filesystems(), .. }, now);
//! ```
//! and the loop then makes the freezer what `actions.freeze` says, writes the state line and passes the events on.

pub mod bits;
pub mod config;
pub mod detector;
pub mod error_budget;
pub mod evaluator;
pub mod event;
pub mod filled;
pub mod gauge;
pub mod jobs;
pub mod ladder;
pub mod objective;
pub mod squeeze;
pub mod strain;
pub mod taker;
pub mod throttle;

pub use config::{exec_places, source_names, Config, ConfigError, Exec, NetworkSignal, EXEC_MOST};
pub use detector::SlowEnd;
pub use evaluator::{Evaluator, FilesystemLoad, Signal};
pub use event::{Cause, Deed, Event, Measure, Names};
pub use gauge::{GaugeJudge, GaugeObjective, GaugeState, GaugeVerdict, Then};
pub use jobs::{Hold, JobSet};
pub use ladder::{Actions, Inputs, Ladder, LadderConfig, Taken};
pub use objective::{Level, Objective, SignalState, Verdict};
pub use squeeze::{Resource, Shares};
pub use taker::{Sign, Taker};
pub use throttle::{Throttle, Throttles, Use};

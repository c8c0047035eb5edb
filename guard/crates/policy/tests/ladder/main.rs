// SPDX-License-Identifier: Apache-2.0
//! The ladder, walked forward in time. `steps` gives it verdicts; `model` a disk with a hog on it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by failing loudly")]

mod closed;
mod dry;
mod frozen;
mod guilty;
mod innocence;
mod making_way;
mod model;
mod ordered;
mod precaution;
mod probe;
mod properties;
mod queue;
mod squeeze;
mod staged;
mod steps;
mod stuck;
mod throttled;
mod vacating;

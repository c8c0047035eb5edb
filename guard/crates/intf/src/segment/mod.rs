// SPDX-License-Identifier: Apache-2.0
//! The latency segment (`docs/formats/latency-segment.md`): libXrdBeer writes it, the guard reads it as hostile input.
//!
//! Start at [`SegmentReader::poll`]; it reports through a [`Visitor`].

mod error;
mod header;
pub mod layout;
mod open;
mod reader;
mod record;
pub mod synthetic;
mod visit;

pub use error::{Reason, SegmentError};
pub use layout::{Class, Kind, Op, SeriesId, BUCKETS, KINDS};
pub use reader::{Poll, SegmentReader};
pub use visit::{Both, Client, Filesystem, InFlight, SeriesDelta, Visitor};

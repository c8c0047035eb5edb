// SPDX-License-Identifier: Apache-2.0
//! What a storage daemon says of itself on its socket: `docs/formats/storage-info.md`.
//!
//! Only what is read here is listed; a newer daemon may say more.

use serde::Deserialize;
use std::collections::BTreeMap;

/// The format that is understood.
pub const FORMAT: u32 = 1;

/// What every answer begins with.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Head {
    /// [`FORMAT`].
    pub format: u32,
    /// `stat`, `streams`, `policy`, or `error`.
    pub kind: String,
    /// Name of the daemon's instance.
    pub instance: String,
    /// Its process id.
    pub pid: u32,
    /// Its CLOCK_MONOTONIC when it answered, nanoseconds.
    pub now_ns: u64,
    /// What was wrong with the question.
    pub error: Option<String>,
}

/// Answer to `stat`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Stat {
    /// False: there is no latency segment, and the counters of the filesystems are missing.
    pub measures: bool,
    /// When the daemon started, CLOCK_REALTIME nanoseconds.
    pub started_realtime_ns: Option<u64>,
    /// Exceptions that the plug-in caught.
    pub internal_errors: u64,
    /// Open files.
    pub streams: StreamCounts,
    /// By class: connections that may be held and have files open.
    pub connections_that_may_be_held: BTreeMap<String, Budget>,
    /// The measured filesystems.
    pub filesystems: Vec<FilesystemStat>,
    /// Metadata operations, and reasons why clients were stalled.
    pub metadata: Vec<MetadataLine>,
    /// Who made metadata requests, those who were stalled last first.
    pub users: Vec<User>,
    /// So many more users.
    pub users_left_out: u64,
}

/// How many streams there are.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct StreamCounts {
    /// Open files.
    pub open: u64,
    /// Requests that wait for a limit.
    pub requests_waiting: u64,
}

/// A number of places.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Budget {
    /// Taken.
    pub used: u64,
    /// There are.
    pub most: u64,
}

/// One filesystem since the daemon started.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct FilesystemStat {
    /// Mount point.
    pub path: String,
    /// Files open for reading.
    pub open_readers: u64,
    /// Files open for writing.
    pub open_writers: u64,
    /// It takes no new files now.
    pub overloaded: bool,
    /// By class of traffic and kind of request.
    pub operations: BTreeMap<String, BTreeMap<String, Operations>>,
    /// By class: waits for limits.
    pub pacing: BTreeMap<String, Delays>,
    /// By class: answers that told clients to come back.
    pub stalls: BTreeMap<String, Delays>,
}

/// Requests to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Operations {
    /// Their number.
    pub operations: u64,
    /// Bytes they moved.
    pub bytes: u64,
    /// Those that failed.
    pub errors: u64,
    /// Time they took together.
    pub sum_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Times that clients were made to wait.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Delays {
    /// Their number.
    pub operations: u64,
    /// Together.
    pub sum_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Counts of one metadata operation, or of one reason to stall.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct MetadataLine {
    /// `Stat`, `Stall::threads::alice`.
    pub name: String,
    /// Since the start.
    pub total: u64,
    /// In the last 5 seconds.
    pub seconds5: u64,
    /// In the last minute.
    pub minute: u64,
    /// In the last 5 minutes.
    pub minutes5: u64,
    /// In the last hour.
    pub hour: u64,
    /// Of the last hundred, as are the following.
    pub mean_ns: f64,
    /// Standard deviation.
    pub sigma_ns: f64,
    /// 99 of 100 were not longer.
    pub p99_ns: f64,
    /// The longest.
    pub max_ns: f64,
}

/// Somebody who made metadata requests.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct User {
    /// Name.
    pub name: String,
    /// Requests under way.
    pub in_flight: u64,
    /// How often stalled.
    pub stalls: u64,
    /// How long ago the last time was; none = never.
    pub stalled_ago_ns: Option<u64>,
}

/// Answer to `streams`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Streams {
    /// Open files in all.
    pub open: u64,
    /// Those that are not in the list.
    pub left_out: u64,
    /// The list, those that wait first.
    pub streams: Vec<Stream>,
}

/// One open file of one client.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Stream {
    /// The same from answer to answer, until the daemon restarts.
    pub id: u64,
    /// Who.
    pub user: String,
    /// As what.
    pub app: String,
    /// Address.
    pub host: Option<String>,
    /// The connection as the daemon's log names it.
    pub link: String,
    /// `storage`, `batch`, `internal`.
    pub class: String,
    /// Mount point; none = on none that is measured.
    pub filesystem: Option<String>,
    /// The file as the client names it, at most 1024 bytes.
    pub path: String,
    /// Open for writing.
    pub writer: bool,
    /// Open for so long.
    pub age_ns: u64,
    /// Moved to the client.
    pub read: Moved,
    /// Moved from the client.
    pub written: Moved,
    /// Requests that waited for a limit.
    pub waits: u64,
    /// How long together.
    pub waited_ns: u64,
    /// Requests that wait now.
    pub requests_waiting: u64,
    /// For how long the first of them does; none = none waits.
    pub waits_for_ns: Option<u64>,
    /// The rule that it waits for, or else waited for last.
    pub by: Option<String>,
}

/// What was moved in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub struct Moved {
    /// Bytes.
    pub bytes: u64,
    /// Requests of the client.
    pub operations: u64,
}

/// Answer to `policy`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Policy {
    /// Grows with every new policy.
    pub version: u64,
    /// The policy file.
    pub file: Option<String>,
    /// All rules in force as they are written in the configuration.
    pub rules: Vec<String>,
    /// What the guard says.
    pub guard: GuardSays,
    /// The measured filesystems.
    pub filesystems: Vec<FilesystemPolicy>,
}

/// What the guard says of batch.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct GuardSays {
    /// Where it says so.
    pub file: String,
    /// Of what was read last; 0 = nothing yet.
    pub sequence: u64,
    /// 0 = it says nothing now.
    pub lease_left_ns: u64,
    /// For files on no measured filesystem.
    pub elsewhere: Rates,
}

/// A limit; none = no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub struct Rates {
    /// Bytes per second.
    pub bytes_per_s: Option<u64>,
    /// Requests per second.
    pub operations_per_s: Option<u64>,
}

/// What holds on one filesystem.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct FilesystemPolicy {
    /// Mount point.
    pub path: String,
    /// `major:minor`.
    pub device: String,
    /// I/O scheduler, if known.
    pub scheduler: Option<String>,
    /// What I/O priorities do there.
    pub priorities: String,
    /// Files open for reading at most; 0 = as many as like.
    pub most_readers: u64,
    /// The same for writing.
    pub most_writers: u64,
    /// It takes no new files now.
    pub overloaded: bool,
    /// The guard's limit for batch.
    pub guard: Rates,
}

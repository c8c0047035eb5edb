// SPDX-License-Identifier: Apache-2.0
//! `beer storage load`: how full this server is, in the words of XRootD's `cms.perf`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use intf::storage::{Policy, Stat};

use super::Answer;

/// Of a server that takes no new files, or does not say.
const FULL: u64 = 100;

/// A line now, and again after each pause; without one, just once. cmsd reads five numbers from 0 to 100 (run queue,
/// CPU, memory, paging, network: `XrdCmsMeter::Update`); the plug-in knows the first alone, and the others are 0.
pub fn report(sockets: impl Fn() -> Result<Vec<PathBuf>>, every: Option<Duration>, out: &mut impl Write) -> Result<()> {
    loop {
        // Looked for each time: a daemon may start later.
        let load = sockets().map(|all| all.iter().map(|path| of(path)).max().unwrap_or(FULL));
        let load = load.unwrap_or_else(full_because);
        writeln!(out, "{load} 0 0 0 0")?;
        out.flush()?;
        match every {
            Some(pause) => std::thread::sleep(pause),
            None => return Ok(()),
        }
    }
}

fn of(path: &Path) -> u64 {
    let ask =
        || -> Result<u64> { Ok(percent(&Answer::get(path, "stat")?.body()?, &Answer::get(path, "policy")?.body()?)) };
    ask().with_context(|| path.display().to_string()).unwrap_or_else(full_because)
}

fn full_because(error: anyhow::Error) -> u64 {
    eprintln!("beer: {}", crate::say::harmless(&format!("{error:#}"), usize::MAX));
    FULL
}

/// Of the filesystem that is nearest to its limit of open files: below 100 as long as it takes new ones.
fn percent(stat: &Stat, policy: &Policy) -> u64 {
    let part = |open: u64, most: u64| open.saturating_mul(100).checked_div(most).unwrap_or(0).min(FULL - 1);
    let of_one = |now: &intf::storage::FilesystemStat| {
        if now.overloaded {
            return FULL;
        }
        let limits = policy.filesystems.iter().find(|one| one.path == now.path);
        limits
            .map_or(0, |most| part(now.open_readers, most.most_readers).max(part(now.open_writers, most.most_writers)))
    };
    stat.filesystems.iter().map(of_one).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_filesystem_counts_and_100_means_no_more() {
        let stat = |readers: u64, writers: u64, overloaded: bool| {
            let filesystem = |path: &str, readers: u64, writers: u64, overloaded: bool| {
                serde_json::json!({"path": path, "open_readers": readers, "open_writers": writers,
                    "overloaded": overloaded, "operations": {}, "pacing": {}, "stalls": {}})
            };
            serde_json::from_value(serde_json::json!({"measures": true, "started_realtime_ns": 1, "internal_errors": 0,
                "streams": {"open": 0, "requests_waiting": 0}, "connections_that_may_be_held": {}, "metadata": [],
                "users": [], "users_left_out": 0, "filesystems": [filesystem("/data/01", readers, writers, overloaded),
                filesystem("/data/02", 5, 5, false), filesystem("/data/03", 900, 0, false)]}))
            .unwrap()
        };
        let limits = |path: &str, readers: u64, writers: u64| {
            serde_json::json!({"path": path, "device": "8:1", "scheduler": null, "priorities": "", "overloaded": false,
                "most_readers": readers, "most_writers": writers,
                "guard": {"bytes_per_s": null, "operations_per_s": null}})
        };
        let policy: Policy = serde_json::from_value(serde_json::json!({"version": 1, "file": null, "rules": [],
            "guard": {"file": "", "sequence": 0, "lease_left_ns": 0,
                      "elsewhere": {"bytes_per_s": null, "operations_per_s": null}},
            "filesystems": [limits("/data/01", 200, 50), limits("/data/02", 100, 0)]}))
        .unwrap();
        for (readers, writers, overloaded, expected) in
            [(0, 0, false, 5), (100, 10, false, 50), (10, 40, false, 80), (200, 0, false, 99), (180, 0, true, 100)]
        {
            assert_eq!(percent(&stat(readers, writers, overloaded), &policy), expected, "{readers} {writers}");
        }
    }

    #[test]
    fn a_server_that_says_nothing_is_full() {
        let mut out = Vec::new();
        report(|| Ok(vec![]), None, &mut out).unwrap();
        report(|| anyhow::bail!("not allowed"), None, &mut out).unwrap();
        report(|| Ok(vec!["/nonexistent/beer.info".into()]), None, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "100 0 0 0 0\n".repeat(3));
    }
}

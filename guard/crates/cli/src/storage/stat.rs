// SPDX-License-Identifier: Apache-2.0
//! `beer storage stat`.

use intf::storage::{FilesystemStat, MetadataLine, Stat};

use crate::say;
use crate::table::Table;

/// Names of people and reasons come from clients; so much of them is shown.
const NAME: usize = 48;

pub fn text(title: &str, stat: &Stat) -> String {
    let mut text = format!("{title}: {}", say::count(stat.streams.open, "open file"));
    text += &format!(", {} waiting for a limit or a turn", say::count(stat.streams.requests_waiting, "request"));
    if let Some(started) = stat.started_realtime_ns {
        text += &format!(", counting since {}", say::time(started));
    }
    text.push('\n');
    if !stat.measures {
        text += "  NOT MEASURING: there is no latency segment; the log of the daemon says why.\n";
    }
    if stat.internal_errors > 0 {
        text += &format!("  {} in the plug-in: please report\n", say::count(stat.internal_errors, "internal error"));
    }
    for (class, budget) in &stat.connections_that_may_be_held {
        if budget.used > 0 {
            let class = say::harmless(class, NAME);
            text += &format!("  {class}: {} of {} connections that may be held\n", budget.used, budget.most);
        }
    }
    for part in [operations(&stat.filesystems), delays(&stat.filesystems), metadata(&stat.metadata), stalled(stat)] {
        if !part.is_empty() {
            text.push('\n');
            text += &part;
        }
    }
    text
}

/// Kinds of requests in the order of their work for a disk; one that is new comes last.
fn rank(kind: &str) -> usize {
    ["storage", "batch", "internal", "read", "write", "sync", "open", "meta"]
        .iter()
        .position(|one| *one == kind)
        .unwrap_or(9)
}

fn operations(filesystems: &[FilesystemStat]) -> String {
    let mut table = Table::new(&["FILESYSTEM", "CLASS", "KIND", ">REQUESTS", ">BYTES", ">ERRORS", ">MEAN", ">LONGEST"]);
    for filesystem in filesystems {
        let path = say::harmless(&filesystem.path, NAME);
        let mut classes: Vec<_> = filesystem.operations.iter().collect();
        classes.sort_by_key(|(class, _)| rank(class));
        for (class, kinds) in classes {
            let mut kinds: Vec<_> = kinds.iter().filter(|(_, one)| one.operations > 0).collect();
            kinds.sort_by_key(|(kind, _)| rank(kind));
            for (kind, one) in kinds {
                table.add(vec![
                    path.clone(),
                    say::harmless(class, NAME),
                    say::harmless(kind, NAME),
                    one.operations.to_string(),
                    say::bytes(one.bytes),
                    one.errors.to_string(),
                    say::duration(one.sum_ns / one.operations),
                    say::duration(one.max_ns),
                ]);
            }
        }
    }
    match table.is_empty() {
        true => "  No request has reached a disk yet.\n".into(),
        false => table.text(2),
    }
}

fn delays(filesystems: &[FilesystemStat]) -> String {
    let mut table = Table::new(&["FILESYSTEM", "CLASS", "MADE TO", ">TIMES", ">MEAN", ">LONGEST", ">TOGETHER"]);
    for filesystem in filesystems {
        for (what, by_class) in [("wait for a limit", &filesystem.pacing), ("come back later", &filesystem.stalls)] {
            for (class, one) in by_class.iter().filter(|(_, one)| one.operations > 0) {
                table.add(vec![
                    say::harmless(&filesystem.path, NAME),
                    say::harmless(class, NAME),
                    what.into(),
                    one.operations.to_string(),
                    say::duration(one.sum_ns / one.operations),
                    say::duration(one.max_ns),
                    say::duration(one.sum_ns),
                ]);
            }
        }
    }
    if table.is_empty() {
        String::new()
    } else {
        table.text(2)
    }
}

fn metadata(lines: &[MetadataLine]) -> String {
    let headings = ["METADATA", ">SUM", ">5 s", ">1 min", ">5 min", ">1 h", ">MEAN", ">SIGMA", ">P99", ">MAX"];
    let mut table = Table::new(&headings);
    for line in lines.iter().filter(|line| line.total > 0) {
        let mut cells = vec![say::harmless(&line.name, NAME)];
        cells.extend([line.total, line.seconds5, line.minute, line.minutes5, line.hour].map(|count| count.to_string()));
        for ns in [line.mean_ns, line.sigma_ns, line.p99_ns, line.max_ns] {
            // What is stalled is not executed.
            cells.push(if line.max_ns > 0.0 { say::duration(ns as u64) } else { String::new() });
        }
        table.add(cells);
    }
    if table.is_empty() {
        String::new()
    } else {
        table.text(2)
    }
}

fn stalled(stat: &Stat) -> String {
    let mut table = Table::new(&["STALLED USER", ">TIMES", ">LAST", ">UNDER WAY NOW"]);
    for user in &stat.users {
        let Some(ago) = user.stalled_ago_ns else { continue };
        table.add(vec![
            user_name(&user.name),
            user.stalls.to_string(),
            format!("{} ago", say::duration(ago)),
            user.in_flight.to_string(),
        ]);
    }
    let mut text = if table.is_empty() { "  Nobody was stalled.\n".into() } else { table.text(2) };
    if stat.users_left_out > 0 {
        text += &format!("  {} more\n", say::count(stat.users_left_out, "user"));
    }
    text
}

/// A client without a name is one.
pub fn user_name(name: &str) -> String {
    if name.is_empty() {
        "-".into()
    } else {
        say::harmless(name, NAME)
    }
}

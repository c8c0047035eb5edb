// SPDX-License-Identifier: Apache-2.0
//! `beer storage policy`.

use intf::storage::{Policy, Rates};

use crate::say;
use crate::table::Table;

/// A line of a configuration.
const LINE: usize = 500;

pub fn text(title: &str, policy: &Policy) -> String {
    let file = policy.file.as_deref().map_or("no policy file".into(), |file| say::harmless(file, LINE));
    let rules = say::count(policy.rules.len() as u64, "rule");
    let mut text = format!("{title}: {rules} in force, version {}, {file}\n", policy.version);
    for rule in &policy.rules {
        text += &format!("  {}\n", say::harmless(rule, LINE));
    }
    let guard = &policy.guard;
    text += &match (guard.sequence, guard.lease_left_ns) {
        (0, _) => format!("\nThe guard has said nothing yet ({}).\n", say::harmless(&guard.file, LINE)),
        (_, 0) => "\nThe guard sets no limit now.\n".into(),
        (sequence, left) => format!("\nThe guard limits batch (word {sequence}, {} left):\n", say::duration(left)),
    };
    let mut table =
        Table::new(&["FILESYSTEM", "GUARD TO BATCH", ">READERS", ">WRITERS", "SCHEDULER", "I/O PRIORITIES"]);
    for filesystem in &policy.filesystems {
        let most = |count: u64| if count == 0 { "any".into() } else { format!("<= {count}") };
        table.add(vec![
            format!("{} ({})", say::harmless(&filesystem.path, LINE), say::harmless(&filesystem.device, 32)),
            limit(filesystem.guard),
            most(filesystem.most_readers),
            most(filesystem.most_writers) + if filesystem.overloaded { ", OVERLOADED" } else { "" },
            filesystem.scheduler.as_deref().map_or("-".into(), |name| say::harmless(name, 32)),
            say::harmless(&filesystem.priorities, LINE),
        ]);
    }
    if !table.is_empty() {
        text += &table.text(2);
    }
    if guard.elsewhere != Rates::default() {
        text += &format!("  elsewhere: {}\n", limit(guard.elsewhere));
    }
    text
}

fn limit(rates: Rates) -> String {
    match (rates.bytes_per_s, rates.operations_per_s) {
        (None, None) => "no limit".into(),
        (Some(0), _) | (_, Some(0)) => "HELD".into(),
        (Some(bytes), None) => format!("{}/s", say::bytes(bytes)),
        (None, Some(operations)) => format!("{operations} requests/s"),
        (Some(bytes), Some(operations)) => format!("{}/s, {operations} requests/s", say::bytes(bytes)),
    }
}

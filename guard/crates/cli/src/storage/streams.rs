// SPDX-License-Identifier: Apache-2.0
//! `beer storage streams`.

use std::cmp::Reverse;
use std::collections::HashMap;

use intf::storage::{Moved, Stream, Streams};

use crate::say;
use crate::storage::stat::user_name;
use crate::table::Table;

const NAME: usize = 32;
const PATH: usize = 200;

/// Per second.
#[derive(Clone, Copy)]
struct Rates {
    read: u64,
    written: u64,
    /// Of the time.
    waited: Option<f64>,
}

/// `past`: the daemon's earlier answer, so many nanoseconds ago.
pub fn text(title: &str, past: Option<&(u64, Streams)>, now: &Streams, most: usize) -> String {
    let old: HashMap<u64, &Stream> =
        past.iter().flat_map(|(_, past)| &past.streams).map(|stream| (stream.id, stream)).collect();
    let apart_ns = past.map_or(0, |(apart_ns, _)| *apart_ns);
    let mut streams: Vec<(&Stream, Rates)> =
        now.streams.iter().map(|stream| (stream, rates(stream, old.get(&stream.id).copied(), apart_ns))).collect();
    streams.sort_by_key(|(stream, rates)| {
        (Reverse(stream.waits_for_ns.unwrap_or(0)), Reverse(rates.read.saturating_add(rates.written)), stream.id)
    });
    let waiting = now.streams.iter().filter(|stream| stream.waits_for_ns.is_some()).count() as u64;
    let mut text = format!("{title}: {}, {waiting} of them waiting\n", say::count(now.open, "open file"));
    let shown = if most == 0 { streams.len() } else { most.min(streams.len()) };
    if shown > 0 {
        text += &table(&streams[..shown]).text(2);
    }
    let more = now.left_out.saturating_add((streams.len() - shown) as u64);
    if more > 0 {
        let why = if now.left_out > 0 { "the daemon lists no more" } else { "--most 0 shows all" };
        text += &format!("  and {more} more ({why})\n");
    }
    text
}

fn table(streams: &[(&Stream, Rates)]) -> Table {
    let mut table = Table::new(&[
        ">WAITS", "BY", ">WAITED", ">READ", ">WRITTEN", ">OPEN", "CLASS", "USER", "APP", "CLIENT", "FILE",
    ]);
    for (stream, rates) in streams {
        table.add(vec![
            stream.waits_for_ns.map_or("-".into(), say::duration),
            stream.by.as_deref().map_or("-".into(), |by| say::harmless(by, NAME)),
            rates.waited.map_or("-".into(), |share| format!("{:.0} %", share * 100.0)),
            rate(rates.read),
            rate(rates.written),
            say::duration(stream.age_ns),
            say::harmless(&stream.class, NAME),
            user_name(&stream.user),
            say::harmless(&stream.app, NAME),
            stream.host.as_deref().map_or("-".into(), |host| say::harmless(host, 45)),
            say::harmless(&stream.path, PATH),
        ]);
    }
    table
}

fn rate(per_second: u64) -> String {
    if per_second == 0 {
        "-".into()
    } else {
        format!("{}/s", say::bytes(per_second))
    }
}

/// Since the earlier look, or since it was opened.
fn rates(now: &Stream, before: Option<&Stream>, apart_ns: u64) -> Rates {
    let (read, written, waited_ns, over_ns) = match before {
        Some(before) => (before.read, before.written, before.waited_ns, apart_ns),
        None => (Moved::default(), Moved::default(), 0, now.age_ns),
    };
    let per_second = |now: Moved, before: Moved| {
        let bytes = u128::from(now.bytes.saturating_sub(before.bytes));
        (bytes * 1_000_000_000).checked_div(over_ns.into()).unwrap_or(0) as u64
    };
    // A wait that has not ended is not counted yet.
    let running_ns = now.waits_for_ns.unwrap_or(0).min(over_ns);
    let waited_ns = now.waited_ns.saturating_sub(waited_ns).saturating_add(running_ns);
    let share = (now.by.is_some() && over_ns > 0).then(|| (waited_ns as f64 / over_ns as f64).min(1.0));
    Rates { read: per_second(now.read, read), written: per_second(now.written, written), waited: share }
}

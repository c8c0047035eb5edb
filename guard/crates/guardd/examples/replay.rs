// SPDX-License-Identifier: Apache-2.0
//! How often does the guard act on storage that is well? Plays recorded requests of a healthy storage service to the very
//! detectors and ladder that guard a node, for as many days as wanted, and prints JSON. No node, no files of the kernel.
//!
//! The trace comes on stdin, a request per line: start and end in nanoseconds, index of its filesystem; requests in windows of time
//! that hang together. Time is made of blocks of the trace drawn at random (a moving block bootstrap, Kuensch 1989): what requests of
//! a block share stays, and what blocks of one another share is lost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::io::BufRead;

use clap::Parser;
use intf::segment::layout::{Kind, SeriesId};
use intf::segment::{Filesystem, InFlight, Visitor};
use intf::state::NodeState;
use policy::detector::trial::{Completed, Random};
use policy::ladder::Counters;
use policy::{Cause, Config, Deed, Evaluator, Inputs, Ladder, Signal, Throttle, Use};

const S: u64 = 1_000_000_000;

/// False actions on a recorded trace.
#[derive(Parser)]
struct Arguments {
    /// Days to play.
    #[arg(long, default_value_t = 1.0)]
    days: f64,
    /// Length of a block in seconds.
    #[arg(long, default_value_t = 10.0)]
    block: f64,
    /// Batch's share of the work of the disk all the while. With a fifth and more weak evidence is enough for a freeze.
    #[arg(long, default_value_t = 0.0)]
    share: f32,
    /// It does twice that for so many seconds in the mean, and then nothing for as long. 0 = the same all the while.
    #[arg(long, default_value_t = 0.0)]
    bursts: f64,
    /// All latencies are so many times longer in the last hour of each day: what the guard is there for. 1 = never.
    #[arg(long, default_value_t = 1.0)]
    slower: f64,
    /// Which blocks are drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy)]
struct Request {
    start: u64,
    end: u64,
    filesystem: u16,
}

/// By start.
struct Trace(Vec<Request>);

impl Trace {
    fn read(input: impl BufRead) -> Trace {
        let number = |text: Option<&str>| text.and_then(|text| text.parse::<u64>().ok());
        let request = |line: std::io::Result<String>| {
            let line = line.unwrap();
            let mut words = line.split_ascii_whitespace();
            let (start, end) = (number(words.next())?, number(words.next())?);
            Some(Request { start, end, filesystem: number(words.next())? as u16 })
        };
        let mut requests: Vec<Request> =
            input.lines().map(|line| request(line).expect("start end filesystem")).collect();
        requests.sort_by_key(|request| request.start);
        assert!(requests.len() > 1000, "{} requests are no trace", requests.len());
        Trace(requests)
    }

    fn filesystems(&self) -> usize {
        self.0.iter().map(|request| usize::from(request.filesystem) + 1).max().unwrap_or(0)
    }

    /// Without holes of a second.
    fn seconds(&self) -> f64 {
        let gaps = self.0.windows(2).map(|pair| pair[1].start - pair[0].start);
        gaps.filter(|gap| *gap < S).sum::<u64>() as f64 / 1e9
    }

    /// A block that has no hole of a second in it.
    fn draw(&self, random: &mut Random, length: u64) -> &[Request] {
        for _ in 0..10_000 {
            let first = (random.uniform() * self.0.len() as f64) as usize;
            let from = self.0[first].start;
            let count = self.0[first..].partition_point(|request| request.start < from + length);
            let block = &self.0[first..first + count];
            let reaches = block.last().is_some_and(|last| last.start + S >= from + length);
            if reaches && block.windows(2).all(|pair| pair[1].start - pair[0].start < S) {
                return block;
            }
        }
        panic!("no window of the trace is as long as a block");
    }
}

/// What the ladder does not count itself.
#[derive(Default)]
struct Found {
    closings: u64,
    squeezes: u64,
    evictions: u64,
    tightened: u64,
    frozen_ns: u64,
    closed_ns: u64,
    ticks: u64,
}

struct Player {
    evaluator: Evaluator,
    ladder: Ladder,
    share: f32,
    waiting: Vec<Request>,
    tick_ns: u64,
    completed: Vec<Completed>,
    /// What batch does of the work of each disk, and whether it needs all that it is left.
    shares: Vec<f32>,
    used: Vec<Use>,
    found: Found,
    frozen: bool,
}

impl Player {
    fn new(filesystems: usize, share: f32, now: u64) -> Player {
        let config = Config::default();
        let mut evaluator = Evaluator::new(&config.objectives);
        let disk = |index: usize| Filesystem {
            path: format!("/data/{index:02}"),
            major: 8,
            minor: index as u32,
            open_readers: 0,
            open_writers: 0,
            overloaded: false,
        };
        evaluator.restart(&(0..filesystems).map(disk).collect::<Vec<_>>());
        Player {
            evaluator,
            ladder: Ladder::new(config.ladder, now),
            share,
            waiting: Vec::new(),
            tick_ns: config.control_loop.tick_ns,
            completed: vec![Completed::NOTHING; filesystems],
            shares: vec![share; filesystems],
            used: vec![Use::Full; filesystems],
            found: Found::default(),
            frozen: false,
        }
    }

    fn tick(&mut self, now: u64) -> u64 {
        self.evaluator.begin(now);
        let series = |filesystem: u16| SeriesId { filesystem, kind: Kind::STORAGE_READ };
        let completed = &mut self.completed;
        self.waiting.retain(|request| {
            let waits = request.end > now;
            if !waits {
                completed[usize::from(request.filesystem)].add(request.end - request.start);
            }
            waits
        });
        for (filesystem, completed) in (0..).zip(completed) {
            let Some(delta) = completed.delta(series(filesystem)) else { continue };
            self.evaluator.series(&delta);
            *completed = Completed::NOTHING;
        }
        for request in &self.waiting {
            let (series, age_ns) = (series(request.filesystem), now - request.start);
            self.evaluator.in_flight(&InFlight { series, age_ns, tid: 1, bytes: 0, client: None });
        }
        for objective in 0..self.evaluator.verdicts().len() as u16 {
            self.evaluator.excuse(objective, self.ladder.excused(objective, now));
        }
        self.evaluator.finish(now, Signal::Heard { heartbeat_age_ns: 0 }, self.ladder.acting());
        let actions = self.ladder.step(
            &Inputs {
                verdicts: self.evaluator.verdicts(),
                filesystems: self.evaluator.filesystems(),
                batch_share: &self.shares,
                batch_share_now: &self.shares,
                used: &self.used,
                jobs: Some(4),
                self_check: true,
                ..Inputs::default()
            },
            now,
        );
        self.frozen = actions.hold.any();
        for (index, (share, used)) in self.shares.iter_mut().zip(&mut self.used).enumerate() {
            let left = actions.throttles.of(index as u16).map_or(1.0, Throttle::given);
            *share = if self.frozen { 0.0 } else { self.share * left.min(1.0) };
            *used = if left < 1.0 { Use::Full } else { Use::Little };
        }
        for event in actions.events.iter() {
            self.found.tightened += u64::from(event.deed == Deed::Tighten);
            self.found.evictions += u64::from(matches!(event.deed, Deed::Vacate | Deed::Evacuate));
            self.found.closings += u64::from(event.deed == Deed::Close);
            self.found.squeezes += u64::from(event.cause == Cause::SlowBesideBatch);
        }
        let tick = self.evaluator.next_tick_ns(self.tick_ns);
        self.found.ticks += 1;
        self.found.frozen_ns += if self.frozen { tick } else { 0 };
        self.found.closed_ns += if self.ladder.state() == NodeState::Closed { tick } else { 0 };
        tick
    }
}

fn main() {
    let arguments = Arguments::parse();
    let most = arguments.share * if arguments.bursts > 0.0 { 2.0 } else { 1.0 };
    assert!((0.0..=1.0).contains(&most), "--share: batch would do {most} of the work");
    let trace = Trace::read(std::io::stdin().lock());
    let block = (arguments.block * 1e9) as u64;
    let mut random = Random::new(arguments.seed);
    let mut player = Player::new(trace.filesystems(), arguments.share, S);
    // What is usual is learned first.
    let (learn, length) = (1200 * S, (arguments.days * 86_400.0 * 1e9) as u64);
    let mut before: Option<Counters> = None;
    let (mut now, mut due) = (S, S);
    let (mut chance, mut turns, mut busy) = (Random::new(!arguments.seed), S, false);
    while now < learn + length {
        if now >= learn && before.is_none() {
            before = Some(*player.ladder.counters());
            player.found = Found::default();
        }
        let drawn = trace.draw(&mut random, block);
        let day = now.saturating_sub(learn) % (86_400 * S);
        let factor = if day >= 82_800 * S { arguments.slower } else { 1.0 };
        let mut moved = drawn.iter().map(move |request| {
            let start = now + (request.start - drawn[0].start);
            let latency = ((request.end - request.start) as f64 * factor) as u64;
            Request { start, end: start + latency, ..*request }
        });
        now += block;
        let mut next = moved.next();
        while due < now {
            while let Some(request) = next.filter(|request| request.start <= due) {
                player.waiting.push(request);
                next = moved.next();
            }
            while arguments.bursts > 0.0 && turns <= due {
                turns += (chance.exponential(arguments.bursts) * 1e9) as u64;
                busy = !busy;
                player.share = if busy { 2.0 * arguments.share } else { 0.0 };
            }
            due += player.tick(due);
        }
        // Since the last tick.
        player.waiting.extend(next.into_iter().chain(moved));
    }
    let (found, counters, before) = (&player.found, player.ladder.counters(), before.unwrap_or_default());
    let seconds = length as f64 / 1e9;
    let report = serde_json::json!({
        "requests_in_trace": trace.0.len(),
        "seconds_in_trace": trace.seconds(),
        "filesystems": trace.filesystems(),
        "days": arguments.days,
        "block_seconds": arguments.block,
        "share": arguments.share,
        "bursts_seconds": arguments.bursts,
        "ticks": found.ticks,
        "precautions": counters.precautions - before.precautions,
        "needless": counters.needless - before.needless,
        "freezes": counters.freezes - before.freezes,
        "closings": found.closings,
        "tightened": found.tightened,
        "squeezes": found.squeezes,
        "evictions": found.evictions,
        "frozen_share": found.frozen_ns as f64 / 1e9 / seconds,
        "closed_share": found.closed_ns as f64 / 1e9 / seconds,
    });
    println!("{report}");
}

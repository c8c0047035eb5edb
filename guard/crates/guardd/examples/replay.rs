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
use intf::segment::layout::{bucket_of, Kind, SeriesId};
use intf::segment::{Filesystem, InFlight, SeriesDelta, Visitor, BUCKETS};
use intf::state::NodeState;
use policy::detector::trial::Random;
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

#[derive(Default)]
struct Found {
    precautions: u64,
    needless: u64,
    freezes: u64,
    closings: u64,
    squeezes: u64,
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
    buckets: Vec<[u32; BUCKETS]>,
    touched: Vec<u64>,
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
            buckets: vec![[0; BUCKETS]; filesystems],
            touched: vec![0; filesystems],
            shares: vec![share; filesystems],
            used: vec![Use::Full; filesystems],
            found: Found::default(),
            frozen: false,
        }
    }

    fn tick(&mut self, now: u64) -> u64 {
        self.evaluator.begin(now);
        let series = |filesystem: u16| SeriesId { filesystem, kind: Kind::STORAGE_READ };
        let (buckets, touched) = (&mut self.buckets, &mut self.touched);
        self.waiting.retain(|request| {
            let waits = request.end > now;
            if !waits {
                let disk = usize::from(request.filesystem);
                // Shorter or longer than all buckets: not of a disk.
                if let Some(bucket) = bucket_of(request.end - request.start) {
                    buckets[disk][bucket] += 1;
                    touched[disk] += 1;
                }
            }
            waits
        });
        for (index, operations) in self.touched.iter_mut().enumerate().filter(|(_, operations)| **operations > 0) {
            let buckets = &mut self.buckets[index];
            self.evaluator.series(&SeriesDelta {
                series: series(index as u16),
                operations: std::mem::take(operations),
                bytes: 0,
                sum_ns: 0,
                errors: 0,
                max_ns: 0,
                under: 0,
                over: 0,
                buckets,
            });
            buckets.fill(0);
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
                gauges: &[],
                filesystems: self.evaluator.filesystems(),
                batch_share: &self.shares,
                batch_share_now: &self.shares,
                guilty: &[],
                others_use: &[],
                rotational: 0,
                held_work: &[],
                used: &self.used,
                jobs: Some(4),
                living: policy::JobSet::default(),
                oldest_first: &[],
                grower: None,
                self_check: true,
                drained: false,
                ordered: false,
                resumed: false,
            },
            now,
        );
        self.frozen = actions.hold.any();
        for (index, (share, used)) in self.shares.iter_mut().zip(&mut self.used).enumerate() {
            let left = actions.throttles.of(index as u16).map_or(1.0, Throttle::given);
            *share = if self.frozen { 0.0 } else { self.share * left.min(1.0) };
            *used = if left < 1.0 { Use::Full } else { Use::Little };
        }
        self.found.tightened += actions.events.iter().filter(|event| event.deed == Deed::Tighten).count() as u64;
        self.found.closings += actions.events.iter().filter(|event| event.deed == Deed::Close).count() as u64;
        self.found.squeezes +=
            actions.events.iter().filter(|event| event.cause == Cause::SlowBesideBatch).count() as u64;
        let tick = self.evaluator.next_tick_ns(Config::default().control_loop.tick_ns);
        self.found.ticks += 1;
        self.found.frozen_ns += if self.frozen { tick } else { 0 };
        self.found.closed_ns += if self.ladder.state() == NodeState::Closed { tick } else { 0 };
        tick
    }

    /// Forgets what was counted so far.
    fn begin(&mut self) {
        self.found = Found::default();
        let counters = self.ladder.counters();
        (self.found.precautions, self.found.needless) = (counters.precautions, counters.needless);
        self.found.freezes = counters.freezes;
    }
}

fn main() {
    let arguments = Arguments::parse();
    let trace = Trace::read(std::io::stdin().lock());
    let block = (arguments.block * 1e9) as u64;
    let mut random = Random::new(arguments.seed);
    let mut player = Player::new(trace.filesystems(), arguments.share, S);
    // What is usual is learned first.
    let (learn, length) = (1200 * S, (arguments.days * 86_400.0 * 1e9) as u64);
    let (mut now, mut begun, mut due) = (S, false, S);
    while now < learn + length {
        let drawn = trace.draw(&mut random, block);
        let shift = now.saturating_sub(drawn[0].start);
        let back = drawn[0].start.saturating_sub(now);
        let day = now.saturating_sub(learn) % (86_400 * S);
        let factor = if begun && day >= 82_800 * S { arguments.slower } else { 1.0 };
        let (end, mut next) = (now + block, 0);
        while due < end {
            while next < drawn.len() && drawn[next].start + shift - back <= due {
                let Request { start, end, filesystem } = drawn[next];
                let start_now = start + shift - back;
                let latency = ((end - start) as f64 * factor) as u64;
                player.waiting.push(Request { start: start_now, end: start_now + latency, filesystem });
                next += 1;
            }
            due += player.tick(due);
        }
        for Request { start, end, filesystem } in &drawn[next..] {
            let start_now = start + shift - back;
            let latency = ((end - start) as f64 * factor) as u64;
            player.waiting.push(Request { start: start_now, end: start_now + latency, filesystem: *filesystem });
        }
        now = end;
        if !begun && now >= learn {
            begun = true;
            player.begin();
        }
    }
    let (found, counters) = (&player.found, player.ladder.counters());
    let seconds = length as f64 / 1e9;
    let report = serde_json::json!({
        "requests_in_trace": trace.0.len(),
        "seconds_in_trace": trace.seconds(),
        "filesystems": trace.filesystems(),
        "days": arguments.days,
        "block_seconds": arguments.block,
        "share": arguments.share,
        "ticks": found.ticks,
        "precautions": counters.precautions - found.precautions,
        "needless": counters.needless - found.needless,
        "freezes": counters.freezes - found.freezes,
        "closings": found.closings,
        "tightened": found.tightened,
        "squeezes": found.squeezes,
        "frozen_share": found.frozen_ns as f64 / 1e9 / seconds,
        "closed_share": found.closed_ns as f64 / 1e9 / seconds,
    });
    println!("{report}");
}

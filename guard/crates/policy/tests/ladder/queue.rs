// SPDX-License-Identifier: Apache-2.0
//! A disk with one arm, clients who use 70 % of it, and a hog with two dozen threads that takes whatever he is left: what is lost
//! to clients in the long run, by the whole policy. Requests take the same time each and wait in one queue (M/D/1 without the hog),
//! which is what a disk of the lab is too noisy to show: benchmarks/runs/2026-11-28-2-core.

use std::collections::VecDeque;

use intf::segment::{InFlight, Visitor};
use policy::detector::trial::{objective, Completed, Random};
use policy::{Evaluator, Inputs, JobSet, Ladder, Signal, Taken, Use};

use crate::model::read;
use crate::steps::{config, disk, MS, S, TICK};

const SERVICE: u64 = S / 120;
const CLIENTS: f64 = 84.0;
const THREADS: usize = 24;
/// The least that the kernel is told, and what the hog did when he was caught.
const LEAST: f64 = 8.0;
const DID: f64 = 100.0;
const HOG: usize = 1;

struct Request {
    /// When it came, and when the disk has done it.
    at: u64,
    end: u64,
    hog: bool,
}

struct Disk {
    evaluator: Evaluator,
    ladder: Ladder,
    random: Random,
    now: u64,
    free_at: u64,
    queue: VecDeque<Request>,
    next_client: u64,
    /// Requests of the hog that wait for his limit, and when the next one of them may go.
    held: usize,
    next_hog: u64,
    limit: Option<f64>,
    stands_still: bool,
    /// When requests of the hog were done, and all.
    done: VecDeque<(u64, bool)>,
    attacks: bool,
    /// Of clients.
    latencies: Vec<u64>,
    hog_done: usize,
}

impl Disk {
    fn new(seed: u64) -> Disk {
        let mut evaluator = Evaluator::new(&[objective(10.0, 24.0, 10 * MS)]);
        evaluator.restart(&[disk(1)]);
        Disk {
            evaluator,
            ladder: Ladder::new(config(), S),
            random: Random::new(seed),
            now: S,
            free_at: S,
            queue: VecDeque::new(),
            next_client: S,
            held: 0,
            next_hog: S,
            limit: None,
            stands_still: false,
            done: VecDeque::new(),
            attacks: false,
            latencies: Vec::new(),
            hog_done: 0,
        }
    }

    fn serve(&mut self, at: u64, hog: bool) {
        self.free_at = self.free_at.max(at) + SERVICE;
        self.queue.push_back(Request { at, end: self.free_at, hog });
    }

    /// All that comes in this tick, in its order. A thread of the hog comes back when its request is done, and waits for his limit;
    /// what waits there already goes on when he stands still, as in the kernel.
    fn arrive(&mut self) {
        for at in (self.now - TICK..self.now).step_by(MS as usize) {
            while self.next_client <= at {
                self.serve(self.next_client, false);
                self.next_client += (self.random.exponential(1.0 / CLIENTS) * S as f64) as u64 + 1;
            }
            let busy = self.queue.iter().filter(|request| request.hog && request.end > at).count();
            if self.attacks && !self.stands_still {
                self.held = THREADS.saturating_sub(busy);
            }
            while self.held > 0 && self.next_hog <= at {
                self.serve(at, true);
                self.held -= 1;
                self.next_hog = self.limit.map_or(at, |limit| at + (S as f64 / limit) as u64);
            }
        }
    }

    fn report(&mut self) {
        let mut completed = Completed::NOTHING;
        while self.queue.front().is_some_and(|request| request.end <= self.now) {
            let request = self.queue.pop_front().unwrap();
            self.done.push_back((request.end, request.hog));
            if request.hog {
                self.hog_done += 1;
            } else {
                completed.add(request.end - request.at);
                self.latencies.push(request.end - request.at);
            }
        }
        if let Some(delta) = completed.delta(read()) {
            self.evaluator.series(&delta);
        }
        for request in self.queue.iter().filter(|request| !request.hog && request.at <= self.now) {
            let age_ns = self.now - request.at;
            self.evaluator.in_flight(&InFlight { series: read(), age_ns, tid: 1, bytes: 0, client: None });
        }
    }

    /// Requests of the hog, and all, that the disk did within this time.
    fn rates(&self, within: u64) -> (f64, f64) {
        let recent = || self.done.iter().filter(|(at, _)| self.now - at < within);
        let per_second = |requests: usize| requests as f64 * S as f64 / within as f64;
        (per_second(recent().filter(|(_, hog)| *hog).count()), per_second(recent().count()))
    }

    fn tick(&mut self) {
        self.now += TICK;
        self.arrive();
        self.evaluator.begin(self.now);
        self.report();
        self.evaluator.excuse(0, self.ladder.excused(0, self.now));
        self.evaluator.finish(self.now, Signal::Heard { heartbeat_age_ns: 0 }, self.ladder.acting());
        self.done.retain(|(at, _)| self.now - at < 5 * S);
        let ((hog, _), (hog_long, all)) = (self.rates(S), self.rates(5 * S));
        let part = |hog: f64| (hog / all.max(1.0)).min(1.0) as f32;
        let hogs: JobSet = [HOG].into_iter().collect();
        let used = if self.limit.is_none_or(|limit| hog > 0.6 * limit) { Use::Full } else { Use::Little };
        // As `guardd::control::limits` does: of what batch did there, if that is more than the disk does.
        let taken = [Taken { filesystem: 0, place: HOG, part: (hog / all.max(DID)).min(1.0) as f32 }];
        let inputs = Inputs {
            verdicts: self.evaluator.verdicts(),
            filesystems: self.evaluator.filesystems(),
            batch_share: &[part(hog_long)],
            batch_share_now: &[part(hog)],
            workers: &[],
            guilty: &[(hog_long > 0.0).then_some(hogs)],
            others_use: &[false],
            rotational: 1,
            used: &[used],
            taken: if self.limit == Some(LEAST) { &taken } else { &[] },
            jobs: Some(2),
            living: [0, HOG].into_iter().collect(),
            oldest_first: &[0, HOG],
            self_check: true,
            ..Inputs::default()
        };
        let actions = self.ladder.step(&inputs, self.now);
        self.stands_still = actions.hold.touches(HOG) || actions.resting.contains(HOG);
        self.limit = actions.throttles.of(0).map(|throttle| (f64::from(throttle.given()) * DID).max(LEAST));
    }

    fn run(&mut self, time: u64) {
        (0..time / TICK).for_each(|_| self.tick());
    }
}

/// What clients get beside a hog for ten minutes, from its first request on.
#[derive(Debug)]
struct Beside {
    /// The p99 of two minutes, by that of the same clients without the hog: the middle one of five.
    p99: f64,
    /// The same of all ten, with the attack in it.
    p99_in_all: f64,
    /// Requests per second of the hog.
    hog: f64,
}

fn p99(latencies: &mut [u64]) -> f64 {
    latencies.sort_unstable();
    latencies[latencies.len() * 99 / 100] as f64
}

fn ten_minutes(seed: u64, attacks: bool) -> (Vec<f64>, f64, f64) {
    let mut disk = Disk::new(seed);
    disk.run(120 * S);
    disk.attacks = attacks;
    let (mut parts, mut all) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        disk.latencies.clear();
        disk.run(120 * S);
        all.extend_from_slice(&disk.latencies);
        parts.push(p99(&mut disk.latencies));
    }
    (parts, p99(&mut all), disk.hog_done as f64 / 600.0)
}

fn beside_a_hog(seed: u64) -> Beside {
    let ((alone, all_alone, _), (attacked, all_attacked, hog)) = (ten_minutes(seed, false), ten_minutes(seed, true));
    let ratios = alone.iter().zip(&attacked).map(|(alone, attacked)| attacked / alone);
    Beside { p99: median(ratios), p99_in_all: all_attacked / all_alone, hog }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn clients_hardly_notice_a_hog_in_their_slowest_requests() {
    let found: Vec<Beside> = (0..9).map(beside_a_hog).collect();
    println!("{found:#?}");
    assert!(median(found.iter().map(|one| one.p99)) <= 1.04, "{found:?}");
    assert!(median(found.iter().map(|one| one.p99_in_all)) <= 1.1, "{found:?}");
    assert!(found.iter().all(|one| one.hog > 0.3), "he may as well have left: {found:?}");
}

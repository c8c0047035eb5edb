// SPDX-License-Identifier: Apache-2.0
//! From shares to limits: the ladder says what share those get who made a disk slow; here is kept what they did there then.

mod together;

use std::sync::Arc;

use intf::shaping::Allowance;
use policy::throttle::DISKS;
use policy::{Taken, Throttle, Throttles, Use};

use crate::actuators::io_max::{Limit, LITTLE};
use crate::actuators::unit;
use crate::signals::{Board, Rate};

/// Nobody gets less than this.
const LEAST: Rate = Rate { requests: LITTLE.0 as f32, bytes: LITTLE.1 as f32, reads: 0.0 };

/// Two reads and two writes per second: the kernel does not know less.
const KERNEL_LEAST: f32 = 4.0;

/// Percent of a limit that is left for the direction in which little or nothing was done when it began.
const OTHER_WAY: f32 = 25.0;

/// Who does more than this part of what he is left, of reads or of writes, would do more; with few requests per second a spell may
/// have one less.
const USED: f32 = 0.6;

/// What one job, or batch in the storage daemons, did to one disk when it became slow.
#[derive(Clone, Copy, Debug)]
struct Base {
    filesystem: u16,
    /// Of the job's cgroup; `None` = through the storage daemons.
    job: Option<u64>,
    /// `None` = nothing worth a limit.
    rate: Option<Rate>,
}

/// Who is limited to what.
#[derive(Debug, Default)]
pub struct Limits {
    throttles: Throttles,
    bases: Vec<Base>,
    jobs: Arc<[Limit]>,
    together: Arc<[Limit]>,
    daemons: [Option<Allowance>; DISKS],
    /// Those of them that are less than before, until somebody asks.
    slowed: [Option<Allowance>; DISKS],
    /// Of the board, when they were last followed.
    disks_version: u64,
    /// What is done with what is left, by filesystem. Empty where nobody is limited.
    used: Vec<Use>,
    /// What those take to whom nothing less can be left.
    taken: Vec<Taken>,
}

impl Limits {
    /// Takes over what the ladder wants. `Some(less)` when that changes limits of jobs: somebody gets less than before, or is limited no
    /// more.
    pub fn follow(&mut self, throttles: &Throttles, board: &Board) -> Option<bool> {
        let same_disks = std::mem::replace(&mut self.disks_version, board.disks_version) == board.disks_version;
        if throttles.give_the_same(&self.throttles) && (same_disks || throttles.is_empty()) {
            return None;
        }
        self.throttles = *throttles;
        let lives = |number| board.jobs.iter().any(|(_, job)| job.number == number);
        self.bases.retain(|base| throttles.of(base.filesystem).is_some() && base.job.is_none_or(lives));
        let mut limited = Vec::new();
        let before = std::mem::take(&mut self.daemons);
        self.slowed = Default::default();
        for ((throttle, daemon), slowed) in throttles.iter().zip(&mut self.daemons).zip(&mut self.slowed) {
            *daemon = of_daemons(&mut self.bases, throttle, board);
            // Of whom nothing went through them there is nothing to tell.
            let worked = through_daemons(&self.bases, throttle).is_some();
            *slowed = daemon.filter(|new| worked && less_than_in(new, &before));
            of_jobs(&mut self.bases, throttle, board, &mut limited);
        }
        let limited = strictest(limited);
        let together = together::limits(unit(board.jobs.slice()), &limited);
        let jobs: Vec<Limit> = limited.into_iter().map(|one| one.limit).collect();
        if *self.jobs == *jobs && *self.together == *together {
            return None;
        }
        let told = less_or_freed(&self.jobs, &jobs) || less_or_freed(&self.together, &together);
        (self.jobs, self.together) = (jobs.into(), together.into());
        Some(told)
    }

    /// Looks what those who are limited do with what they are left: who works earns nothing for who rests.
    pub fn look(&mut self, board: &Board) {
        self.used.clear();
        self.taken.clear();
        if self.throttles.is_empty() {
            return;
        }
        self.used.resize(board.filesystems.len(), Use::Full);
        for throttle in self.throttles.iter() {
            if let Some(used) = self.used.get_mut(usize::from(throttle.filesystem)) {
                *used = uses(&self.bases, throttle, &self.together, board);
            }
            self.taken.extend(takes(&self.bases, throttle, board));
        }
    }

    /// As was seen then, by filesystem; shorter = nobody is limited there.
    pub fn used(&self) -> &[Use] {
        &self.used
    }

    /// What those take by themselves to whom nothing less can be left.
    pub fn taken(&self) -> &[Taken] {
        &self.taken
    }

    /// The filesystems are others now: what is known of their indices says nothing.
    pub fn forget(&mut self) {
        self.bases.clear();
    }

    /// Of single jobs.
    pub fn jobs(&self) -> Arc<[Limit]> {
        Arc::clone(&self.jobs)
    }

    /// Of all jobs together, on disks where what single ones are left would be too much.
    pub fn together(&self) -> Arc<[Limit]> {
        Arc::clone(&self.together)
    }

    /// Of what somebody has just been given less; once.
    pub fn slowed(&mut self) -> impl Iterator<Item = Allowance> {
        std::mem::take(&mut self.slowed).into_iter().flatten()
    }

    /// Of batch in the storage daemons.
    pub fn daemons(&self) -> impl Iterator<Item = &Allowance> {
        self.daemons.iter().flatten()
    }
}

/// A job that is limited on a disk: what it did there when it became slow, and the share of that which it may do.
struct Limited {
    did: Rate,
    share: f32,
    limit: Limit,
}

/// Two filesystems may lie on one disk: of two limits of a job there the smaller one holds.
fn strictest(limited: Vec<Limited>) -> Vec<Limited> {
    let mut kept: Vec<Limited> = Vec::with_capacity(limited.len());
    for one in limited {
        let same =
            |known: &&mut Limited| known.limit.scope == one.limit.scope && known.limit.device == one.limit.device;
        match kept.iter_mut().find(same) {
            Some(Limited { share, limit, .. }) => {
                *share = share.min(one.share);
                limit.requests = limit.requests.min(one.limit.requests);
                limit.bytes = limit.bytes.min(one.limit.bytes);
            }
            None => kept.push(one),
        }
    }
    kept
}

fn less_than_in(new: &Allowance, before: &[Option<Allowance>]) -> bool {
    let before = before.iter().flatten().find(|old| old.device == new.device);
    before.is_none_or(|old| new.operations < old.operations)
}

/// Does somebody get less, or is limited no more?
fn less_or_freed(before: &[Limit], now: &[Limit]) -> bool {
    let same = |a: &Limit, b: &Limit| a.scope == b.scope && a.device == b.device;
    let given = |limits: &[Limit], limit: &Limit| limits.iter().find(|l| same(l, limit)).map(|l| l.requests);
    let less = now.iter().any(|limit| given(before, limit).is_none_or(|before| limit.requests < before));
    less || before.iter().any(|limit| given(now, limit).is_none())
}

fn of_jobs(bases: &mut Vec<Base>, throttle: &Throttle, board: &Board, limited: &mut Vec<Limited>) {
    // Without a block device of its own there is nothing to limit.
    let known = board.disks.get(usize::from(throttle.filesystem)).filter(|device| device.0 != 0);
    let (Some(&device), Some(pace)) = (known, board.pace.get(usize::from(throttle.filesystem))) else { return };
    let (of, share) = (throttle.jobs.len(), throttle.given());
    let those = || board.jobs.iter().filter(|(place, _)| throttle.jobs.contains(*place)).map(|(_, job)| job);
    let now = |number| pace.jobs.iter().find(|(known, _)| *known == number).map(|(_, pair)| pair.most);
    // Who went through the storage daemons is limited there. Many who each do little may do much.
    let all = those().filter_map(|job| now(job.number)).fold(Rate::default(), |all, rate| Rate {
        requests: all.requests + rate.requests,
        bytes: all.bytes + rate.bytes,
        ..all
    });
    let worth = |rate: &Rate, of: usize| {
        rate.requests >= LEAST.requests / of.max(1) as f32 || rate.bytes >= LEAST.bytes / of.max(1) as f32
    };
    for job in those() {
        let worthy = || now(job.number).filter(|rate| worth(&all, 1) && worth(rate, of));
        // Where clients fill the disk nothing will say of one who has only just begun that it was his doing.
        let nothing = || (share == 0.0).then_some(Rate { reads: 0.5, ..Rate::default() });
        let Some(did) = base(bases, throttle, job.number, worthy).or_else(nothing) else { continue };
        let (requests, bytes) = part(did, share, of);
        let reads = reads_of(did);
        let limit = Limit { scope: job.scope.as_str().into(), device, requests, bytes, reads };
        limited.push(Limited { did, share, limit });
    }
}

/// What went through the storage daemons when it became slow, if it was worth a limit.
fn through_daemons<'a>(bases: &'a [Base], throttle: &Throttle) -> Option<&'a Base> {
    bases.iter().find(|base| base.filesystem == throttle.filesystem && base.job.is_none())
}

fn of_daemons(bases: &mut Vec<Base>, throttle: &Throttle, board: &Board) -> Option<Allowance> {
    let index = usize::from(throttle.filesystem);
    let filesystem = board.filesystems.get(index)?;
    let known = through_daemons(bases, throttle);
    // If nothing worth a limit went through them when others made it slow, it may do so the next time.
    let now = || board.pace.get(index).filter(|_| throttle.was_cut()).map(|pace| pace.daemon.most);
    let rate = match known {
        Some(base) => base.rate,
        None => now().filter(|rate| rate.requests >= LEAST.requests),
    };
    if let (Some(_), None) = (rate, known) {
        bases.push(Base { filesystem: throttle.filesystem, job: None, rate });
    }
    let (operations, bytes) = match rate {
        Some(rate) => part(rate, throttle.given(), 1),
        None if throttle.given() > 0.0 => return None,
        // Where clients fill the disk what they do next would take it from those, and nothing would say so.
        None => LITTLE,
    };
    Some(Allowance { device: (filesystem.major, filesystem.minor), bytes, operations })
}

/// What a job did then: it is kept for as long as the disk is throttled. Of whom nothing was worth a limit it may be the next time.
fn base(bases: &mut Vec<Base>, throttle: &Throttle, job: u64, now: impl FnOnce() -> Option<Rate>) -> Option<Rate> {
    let (filesystem, job) = (throttle.filesystem, Some(job));
    match bases.iter_mut().find(|base| base.filesystem == filesystem && base.job == job) {
        Some(Base { rate: Some(rate), .. }) => Some(*rate),
        Some(base) => {
            base.rate = if throttle.was_cut() { now() } else { None };
            base.rate
        }
        None => {
            let rate = now();
            bases.push(Base { filesystem, job, rate });
            rate
        }
    }
}

/// What those who are limited there do with what they are left. Where no limit was found for anybody none keeps them from anything.
fn uses(bases: &[Base], throttle: &Throttle, together: &[Limit], board: &Board) -> Use {
    let Some(pace) = board.pace.get(usize::from(throttle.filesystem)) else { return Use::Little };
    let device = board.disks.get(usize::from(throttle.filesystem));
    // Of what is left to all of them each gets more or less by chance, and others have their part of it.
    let all = together.iter().find(|all| Some(&all.device) == device);
    let all_used = all.is_some_and(|all| most(&parts_of(&pace.whole), &left_by(all)));
    let (mut left, mut done, mut somebody) = ([0.0; 4], [0.0; 4], false);
    for base in bases.iter().filter(|base| base.filesystem == throttle.filesystem) {
        let Some(rate) = base.rate else { continue };
        let (own_left, own_done) = match base.job {
            // The daemons' limit is one for both directions.
            None => (parts(part(rate, throttle.given(), 1), 1.0), parts_of(&Rate { reads: 1.0, ..pace.daemon.last })),
            Some(job) => {
                let now =
                    pace.jobs.iter().find(|(number, _)| *number == job).map_or(Rate::default(), |(_, now)| now.last);
                let reads = reads_of(rate) as f32 / 100.0;
                (parts(part(rate, throttle.given(), throttle.jobs.len()), reads), parts_of(&now))
            }
        };
        let used = most(&own_done, &own_left);
        if used && base.job.is_some() && all_used {
            return Use::Full;
        }
        somebody |= used;
        for (sum, own) in left.iter_mut().zip(own_left) {
            *sum += own;
        }
        for (sum, (done, left)) in done.iter_mut().zip(own_done.iter().zip(own_left)) {
            *sum += done.min(left);
        }
    }
    match (most(&done, &left), somebody) {
        (true, _) => Use::Full,
        (false, true) => Use::Part,
        (false, false) => Use::Little,
    }
}

/// What each of those takes of the disk by himself to whom nothing less can be left: of what it does, or of what batch did there when it
/// became slow if that is more, so that nobody rests because clients ask for little.
fn takes<'a>(bases: &'a [Base], throttle: &'a Throttle, board: &'a Board) -> impl Iterator<Item = Taken> + 'a {
    let (filesystem, share, of) = (throttle.filesystem, throttle.given(), throttle.jobs.len());
    let (pace, all) = (board.pace.get(usize::from(filesystem)), board.disk_work.get(usize::from(filesystem)));
    let here = move || bases.iter().filter(move |base| base.filesystem == filesystem && base.job.is_some());
    // Whoever could be left less has his part of it by his limit.
    let (batch, theirs) = here().filter_map(|base| base.rate).fold((0.0, 0.0), |(batch, theirs), rate| {
        let his = if cannot_be_less(rate, share, of) { rate.work() } else { 0.0 };
        (batch + rate.work(), theirs + his)
    });
    let known = pace.zip(all.filter(|all| **all > 0.0)).filter(|_| share < 1.0);
    let all = move |all: f32| if share > 0.0 { all.max(batch) * theirs / batch } else { all };
    let least = move |number| {
        let base = here().find(|base| base.job == Some(number));
        share == 0.0 || base.and_then(|base| base.rate).is_some_and(|rate| cannot_be_less(rate, share, of))
    };
    let jobs = board.jobs.iter().filter(|(place, _)| throttle.jobs.contains(*place));
    jobs.filter_map(move |(place, job)| {
        let (pace, done) = known.filter(|_| least(job.number))?;
        let (_, pair) = pace.jobs.iter().find(|(number, _)| *number == job.number)?;
        Some(Taken { filesystem, place, part: (pair.last.work() / all(*done)).min(1.0) })
    })
}

/// Is that share of what he did less than the least limit that there is?
fn cannot_be_less(rate: Rate, share: f32, of: usize) -> bool {
    rate.requests * share <= least(share, of).max(KERNEL_LEAST) && rate.bytes * share <= LEAST.bytes
}

/// Is most of it done, of one kind?
fn most(done: &[f32; 4], left: &[f32; 4]) -> bool {
    done.iter().zip(left).any(|(done, left)| *left > 0.0 && *done > USED * left)
}

/// Requests and bytes that are read, and those that are written.
fn parts_of(&Rate { requests, bytes, reads }: &Rate) -> [f32; 4] {
    [requests * reads, bytes * reads, requests * (1.0 - reads), bytes * (1.0 - reads)]
}

fn left_by(limit: &Limit) -> [f32; 4] {
    parts((limit.requests, limit.bytes), limit.reads as f32 / 100.0)
}

fn parts((requests, bytes): (u64, u64), reads: f32) -> [f32; 4] {
    parts_of(&Rate { requests: requests as f32, bytes: bytes as f32, reads })
}

/// Percent of a limit that are for reads.
fn reads_of(rate: Rate) -> u64 {
    (rate.reads * 100.0).clamp(OTHER_WAY, 100.0 - OTHER_WAY) as u64
}

/// Requests and bytes per second of one of `of` who are limited together. Many who each get the least would be too much, but
/// a request of any size must be through in a moment. Without a share it is as little as there can be: what the disk does belongs to
/// its clients.
fn part(rate: Rate, share: f32, of: usize) -> (u64, u64) {
    ((rate.requests * share).max(least(share, of)) as u64, (rate.bytes * share).max(LEAST.bytes) as u64)
}

fn least(share: f32, of: usize) -> f32 {
    if share > 0.0 {
        (LEAST.requests / of.max(1) as f32).max(1.0)
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests;

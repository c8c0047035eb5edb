// SPDX-License-Identifier: Apache-2.0
//! Which jobs there are, and which of them use the disk of each filesystem: the difference of `io.stat` of their
//! cgroups between two readings. Work is charged to who asked for it, also when the page cache writes it out later
//! (kernel, cgroup-v2.rst, "Writeback"; ext4, btrfs and xfs).
//!
//! What jobs do through the storage daemons is in nobody's `io.stat` but the daemon's: `daemons` knows whose it is, as far as that can
//! be known. Journal commits and flushes are in nobody's at all. What is of nobody in particular counts as work of somebody unknown,
//! so that no job is blamed for it.

use std::path::PathBuf;

use intf::segment::layout::MAX_FILESYSTEMS as FILESYSTEMS;
use kernfs::cgroup::{DeviceIo, IoStat};
use policy::{Config, Hold, JobSet};

use super::{
    work, Board, Daemons, Pace, Pair, Rate, Reading, Sample, Signal, Work, HURRIED_NS, STALE_SECONDS, WORK_MIN,
};

mod blame;

/// More jobs than are often to blame for one disk: room for them is made at the start.
const PACED: usize = 16;

/// A shorter spell says little about a rate: what waits in many threads comes all at once, and may be answered by a cache of the
/// disk.
const SPELL_MIN: f32 = 0.25;

/// What has been done on one disk: what the counters said last, and the work of the last two spells between readings.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    requests: u64,
    bytes: u64,
    recent: [(f32, f32); 2],
    /// Requests that were reads, and how many of them belong to `recent`.
    reads: u64,
    recent_reads: [f32; 2],
}

impl Meter {
    fn since(&self, requests: u64, bytes: u64) -> (u64, u64) {
        (requests.saturating_sub(self.requests), bytes.saturating_sub(self.bytes))
    }

    fn pass(&mut self, requests: u64, bytes: u64) {
        let done = self.since(requests, bytes);
        self.recent = [(done.0 as f32, done.1 as f32), self.recent[0]];
        (self.requests, self.bytes) = (requests, bytes);
    }

    /// Directly: the daemons' limit is one for both directions.
    fn pass_all(&mut self, done: &DeviceIo) {
        self.recent_reads = [done.reads.saturating_sub(self.reads) as f32, self.recent_reads[0]];
        self.reads = done.reads;
        self.pass(done.reads + done.writes, done.read_bytes + done.write_bytes);
    }

    /// Nothing since.
    fn pass_nothing(&mut self) {
        self.recent_reads = [0.0, self.recent_reads[0]];
        self.pass(self.requests, self.bytes);
    }

    /// What was done until now does not count.
    fn base(&mut self, done: &DeviceIo) {
        (self.requests, self.bytes) = (done.reads + done.writes, done.read_bytes + done.write_bytes);
        self.reads = done.reads;
    }

    /// Requests and bytes of two spells: in the last one alone a freeze that began a moment ago hides what led to it.
    fn lately(&self) -> (f32, f32) {
        let [last, before] = self.recent;
        (last.0 + before.0, last.1 + before.1)
    }

    /// Writes of the last spell, and about their bytes.
    fn written(&self) -> (f32, f32) {
        let (requests, bytes) = self.recent[0];
        let part = 1.0 - self.recent_reads[0] / requests.max(1.0);
        (requests * part, bytes * part)
    }

    /// They took so many seconds.
    fn rate(&self, seconds: &[f32; 2]) -> Pair {
        let reads = (self.recent_reads[0] + self.recent_reads[1]) / self.lately().0.max(1.0);
        let [last, before] = [0, 1].map(|spell| {
            let (requests, bytes) = self.recent[spell];
            let seconds = seconds[spell].max(SPELL_MIN);
            Rate { requests: requests / seconds, bytes: bytes / seconds, reads }
        });
        let (requests, bytes) = (last.requests.max(before.requests), last.bytes.max(before.bytes));
        Pair { last, most: Rate { requests, bytes, reads } }
    }
}

/// Whole ones.
fn counted(work: Work) -> (u64, u64) {
    (work.requests as u64, work.bytes as u64)
}

fn sum(a: (f32, f32), b: (f32, f32)) -> (f32, f32) {
    (a.0 + b.0, a.1 + b.1)
}

/// One job, by filesystem: what it did directly, and through the storage daemons.
struct Row {
    number: u64,
    io: IoStat,
    meters: Vec<Meter>,
    /// None until it comes to them: most jobs of a node never do.
    through: Box<[Meter]>,
}

impl Row {
    /// What it did lately, and in the last spell.
    fn lately(&self, filesystem: usize) -> Option<(f32, f32)> {
        let through = self.through.get(filesystem).map(Meter::lately).unwrap_or_default();
        Some(sum(self.meters.get(filesystem)?.lately(), through))
    }

    fn last(&self, filesystem: usize) -> Option<(f32, f32)> {
        let through = self.through.get(filesystem).map(|meter| meter.recent[0]).unwrap_or_default();
        Some(sum(self.meters.get(filesystem)?.recent[0], through))
    }
}

/// The disk of a filesystem.
#[derive(Clone, Copy, Debug, Default)]
struct Spell {
    /// Work of the slice, of batch through the storage daemons, and what batch asked those for: memory may have answered.
    whole: Meter,
    through: Meter,
    asked: Meter,
    begun_ns: u64,
    /// How long the last two took.
    seconds: [f32; 2],
    /// It ends with this reading: enough was done to tell, or too little for too long.
    over: bool,
    /// All stood still in it: what was written says who had filled the page cache, all else was asked for before.
    still: bool,
}

/// What a reading of the slice asks of those of its jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// No spell with work in it is over: all counters are as they were.
    Nothing,
    /// Somebody runs again: what was written back until now is nobody's work.
    Base,
    /// Whose work was it?
    Read,
}

/// The signal.
pub struct Jobs {
    period_ns: u64,
    enabled: bool,
    /// With less of a disk nobody is to blame for it (0..1).
    share_guilty: f32,
    slice: IoStat,
    spells: Vec<Spell>,
    rows: Vec<Option<Row>>,
    /// Of the board's disks: with others all begins anew.
    version: u64,
    /// There was a reading before: a job that is new now has done all its work since then.
    known: bool,
    /// At the last reading all stood still; and that was the first one in a freeze.
    still: bool,
    stopped: bool,
    scratch: Vec<(usize, f32)>,
    /// Of the slice.
    file: PathBuf,
    /// The kernel does not count for the slice: nobody is blamed for a disk.
    absent: bool,
    fault: Option<String>,
}

impl Jobs {
    /// Looks at nothing yet.
    pub fn new(config: &Config) -> Self {
        let slice = config.paths.cgroup.join(&config.paths.jobs_slice);
        Jobs {
            period_ns: config.disk.interval_ns.min(config.control_loop.slow_ns),
            enabled: config.disk.enabled,
            share_guilty: config.ladder.batch_share_guilty as f32,
            slice: IoStat::new(&slice),
            spells: Vec::new(),
            rows: Vec::new(),
            version: 0,
            known: false,
            still: false,
            stopped: false,
            scratch: Vec::with_capacity(JobSet::PLACES),
            file: slice.join("io.stat"),
            absent: false,
            fault: None,
        }
    }

    fn begin_anew(&mut self, board: &mut Board) {
        self.version = board.disks_version;
        self.spells = vec![Spell::default(); board.disks.len()];
        self.rows.clear();
        self.known = false;
        for named in [&mut board.guilty, &mut board.workers] {
            named.clear();
            named.resize(board.disks.len(), None);
        }
        board.others_use.clear();
        board.others_use.resize(board.disks.len(), true);
        board.held_work.clear();
        board.held_work.resize(board.disks.len(), false);
        board.pace.clear();
        board.pace.resize_with(board.disks.len(), || Pace { jobs: Vec::with_capacity(PACED), ..Pace::default() });
    }

    /// Readers for new jobs, none for those that have ended.
    fn follow(&mut self, board: &mut Board) {
        if self.rows.len() < JobSet::PLACES {
            self.rows.resize_with(JobSet::PLACES, || None);
        }
        let mut living = JobSet::default();
        for (place, job) in board.jobs.iter() {
            living.insert(place);
            let Some(row) = self.rows.get_mut(place) else { continue };
            if row.as_ref().is_none_or(|row| row.number != job.number) {
                let mut io = IoStat::new(&board.jobs.slice().join(&job.scope));
                let mut meters = vec![Meter::default(); board.disks.len()];
                if !self.known {
                    // It may be old: what it has done is the base.
                    let _ = each(&mut io, &board.disks, |filesystem, done| {
                        if let Some(meter) = meters.get_mut(filesystem) {
                            meter.base(done);
                        }
                    });
                }
                *row = Some(Row { number: job.number, io, meters, through: Box::default() });
                // What was said of the one who had this place is not said of this one.
                for set in board.guilty.iter_mut().chain(&mut board.workers).flatten() {
                    set.remove(place);
                }
            }
        }
        for (place, row) in self.rows.iter_mut().enumerate() {
            if !living.contains(place) {
                *row = None;
            }
        }
    }

    /// Reads the slice.
    fn whole(&mut self, now_ns: u64, board: &mut Board) -> Next {
        let mut next = Next::Nothing;
        let mut seen = [DeviceIo::default(); FILESYSTEMS];
        let read = each(&mut self.slice, &board.disks, |filesystem, done| {
            if let Some(seen) = seen.get_mut(filesystem) {
                *seen = *done;
            }
        });
        self.absent = matches!(read, Ok(false));
        self.fault = read.err().map(|error| error.to_string());
        let unknown = self.absent || self.fault.is_some();
        if unknown {
            board.guilty.fill(None);
            board.workers.fill(None);
            board.others_use.fill(true);
            board.held_work.fill(false);
            for pace in &mut board.pace {
                pace.jobs.clear();
                (pace.daemon, pace.whole) = (Pair::default(), Rate::default());
            }
        }
        // What is written back while all stand still was not asked for now: the last spell before a freeze ends with its first
        // reading, and the next one begins when somebody runs again. But where nobody was at work until then it is all there is to go
        // by: who fills the page cache makes storage slow before a write of his is counted.
        let still = board.hold == Hold::All;
        let late = still && self.still;
        let again = self.still && !still;
        self.stopped = still && !self.still;
        if again {
            next = Next::Base;
        }
        for (filesystem, spell) in self.spells.iter_mut().enumerate() {
            let seen = seen.get(filesystem).copied().unwrap_or_default();
            let (requests, bytes) = (seen.reads + seen.writes, seen.read_bytes + seen.write_bytes);
            // What waits for a disk in the daemons makes it slow, and what of it is done in the freeze is not counted any more.
            let queued = if self.stopped { board.daemons.queued(filesystem) } else { Work::default() };
            let through = counted(board.daemons.batch(filesystem).plus(queued));
            let (requests_asked, bytes_asked) =
                board.operations.get(filesystem).map_or((0, 0), |traffic| traffic.batch);
            let asked = (requests_asked + counted(queued).0, bytes_asked + counted(queued).1);
            if !self.known || again {
                spell.over = false;
                spell.whole.base(&seen);
                (spell.through.requests, spell.through.bytes) = through;
                (spell.asked.requests, spell.asked.bytes) = asked;
                spell.begun_ns = now_ns;
                continue;
            }
            let (more, more_bytes) = spell.whole.since(requests, bytes);
            let done = work(more, more_bytes);
            let (through_more, through_bytes) = spell.through.since(through.0, through.1);
            let seconds = now_ns.saturating_sub(spell.begun_ns) as f64 / 1e9;
            let enough = done + work(through_more, through_bytes) >= WORK_MIN;
            let known = late && board.guilty.get(filesystem).is_some_and(Option::is_some);
            spell.still = late;
            spell.over = !unknown && !known && (enough || seconds >= STALE_SECONDS);
            if spell.over {
                spell.whole.pass_all(&seen);
                spell.through.pass(through.0, through.1);
                spell.asked.pass(asked.0, asked.1);
                spell.seconds = [seconds as f32, spell.seconds[0]];
                spell.begun_ns = now_ns;
                if done > 0.0 {
                    next = Next::Read;
                }
            }
        }
        self.still = still;
        next
    }

    fn of_jobs(&mut self, next: Next, disks: &[(u32, u32)]) {
        let spells = &self.spells;
        for row in self.rows.iter_mut().flatten() {
            if next == Next::Nothing {
                let over = row.meters.iter_mut().zip(spells).filter(|(_, spell)| spell.over);
                over.for_each(|(meter, _)| meter.pass_nothing());
                continue;
            }
            let mut seen = 0u128;
            let meters = &mut row.meters;
            // Of one that has just ended there is nothing to read.
            let _ = each(&mut row.io, disks, |filesystem, done| {
                seen |= 1u128.checked_shl(filesystem as u32).unwrap_or(0);
                let Some(meter) = meters.get_mut(filesystem) else { return };
                if next == Next::Base {
                    meter.base(done);
                } else if spells.get(filesystem).is_some_and(|spell| spell.over) {
                    meter.pass_all(done);
                }
            });
            // A device without a line has had no work of this job.
            for (filesystem, (meter, spell)) in row.meters.iter_mut().zip(spells).enumerate() {
                if spell.over && (seen >> filesystem.min(127)) & 1 == 0 {
                    meter.pass_nothing();
                }
            }
        }
    }

    /// What each did through the storage daemons.
    fn through_daemons(&mut self, next: Next, daemons: &Daemons) {
        for (place, row) in self.rows.iter_mut().enumerate() {
            let Some(Row { number, through, .. }) = row else { continue };
            if through.is_empty() && daemons.knows(place, *number) {
                *through = vec![Meter::default(); self.spells.len()].into();
            }
            if next == Next::Base || !self.known {
                base(through, daemons, place, *number);
            }
            for (filesystem, (meter, _)) in
                through.iter_mut().zip(&self.spells).enumerate().filter(|(_, (_, s))| s.over)
            {
                let mut done = daemons.of(place, *number, filesystem);
                if self.stopped {
                    done = done.plus(daemons.queued_of(place, *number, filesystem));
                }
                let (requests, bytes) = counted(done);
                meter.pass(requests, bytes);
            }
        }
    }
}

/// What was done through the daemons until now counts no more.
fn base(through: &mut [Meter], daemons: &Daemons, place: usize, number: u64) {
    for (filesystem, meter) in through.iter_mut().enumerate() {
        (meter.requests, meter.bytes) = counted(daemons.of(place, number, filesystem));
    }
}

/// What was done on the disk of each filesystem that has a line; two may lie on one disk. `false` = there is no such file.
fn each(io: &mut IoStat, disks: &[(u32, u32)], mut visit: impl FnMut(usize, &DeviceIo)) -> Result<bool, kernfs::Error> {
    let Some(devices) = io.read()? else { return Ok(false) };
    for io in devices {
        for (filesystem, _) in disks.iter().enumerate().filter(|(_, disk)| **disk == io.device) {
            visit(filesystem, io);
        }
    }
    Ok(true)
}

impl Signal for Jobs {
    fn name(&self) -> &'static str {
        "jobs"
    }

    fn period_ns(&self) -> u64 {
        self.period_ns
    }

    fn hurried_ns(&self) -> u64 {
        self.period_ns.min(HURRIED_NS)
    }

    fn urgent(&self, board: &Board) -> bool {
        // Who was it? What comes after the freeze would blur it, and what was written back in it what comes after that.
        self.enabled && ((board.hold == Hold::All) != self.still || board.others_suspected())
    }

    fn read(&mut self, now_ns: u64, board: &mut Board) -> Reading {
        (self.absent, self.fault) = (false, None);
        board.jobs.look_again(board.hold.any(), &board.throttles.jobs(), now_ns);
        if !self.enabled {
            // Who is there is known all the same.
            return Reading::Value;
        }
        if self.version != board.disks_version {
            self.begin_anew(board);
        }
        let next = self.whole(now_ns, board);
        self.follow(board);
        self.of_jobs(next, &board.disks);
        self.through_daemons(next, &board.daemons);
        self.blame(board);
        self.known = true;
        match self.fault {
            Some(_) => Reading::Broken,
            None if self.absent => Reading::Absent,
            None => Reading::Value,
        }
    }

    fn fault(&self) -> String {
        let absent = || format!("{}: not there: nobody can be blamed for a disk", self.file.display());
        self.fault.clone().unwrap_or_else(absent)
    }

    fn sample(&self, _samples: &mut Vec<Sample>) {}
}

#[cfg(test)]
mod tests;

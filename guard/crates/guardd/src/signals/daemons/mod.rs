// SPDX-License-Identifier: Apache-2.0
//! What batch does through the storage daemons, as far as it reaches the disks: the kernel charges it to the daemons, the latency
//! segment tells what clients ask for, and of which job's address.
//!
//! **Reads**: what the page cache answers takes no time, be it ever so much: of what a disk reads for the daemons batch has its share of
//! the requests that took some. A share of requests and not of time, for who has a lower I/O priority waits for longer and gets less.
//! Which clients they are of tell those that wait in the storage layer, looked at with every tick: among themselves all of batch
//! are served alike. While none of batch's has come back, batch has what the disk read beyond what came back of others.
//!
//! **Writes** are gathered in memory and reach the disk when those who wrote may have gone: what was written and is not on the disk
//! yet is kept in an account, and what a disk writes for the daemons is drawn from it in proportion.
//!
//! Clients of other nodes, and those of whom two jobs claim the address, are nobody's.

use std::net::Ipv6Addr;

use intf::segment::layout::bucket_lower;
use intf::segment::{Class, Client, InFlight, Op, SeriesDelta, BUCKETS};

use crate::jobs::JobTable;
use crate::watch::Claim;

/// So long the kernel keeps at most what was written (vm.dirty_expire_centisecs): what is older was deleted before.
const KEPT_SECONDS: f64 = 30.0;

/// What takes less than this part of what a read takes at the disk was not read there; nor, whatever takes less than the first of these
/// times. What takes longer than the second was, however slow the disk is.
const SOME_TIME: f64 = 0.25;
const SOME_TIME_NS: [f64; 2] = [20e3, 1e6];

/// A tick that came late counts for no more than this: nobody saw what was then.
const TICK_MOST_NS: u64 = 100_000_000;

/// More jobs than come to a node: room for what is told of them is made at the start.
const CLAIMS: usize = 512;

/// Requests and bytes. Shares of them are no whole numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Requests.
    pub requests: f64,
    /// Bytes.
    pub bytes: f64,
}

impl Work {
    /// So much.
    pub fn new(requests: u64, bytes: u64) -> Self {
        Work { requests: requests as f64, bytes: bytes as f64 }
    }

    /// Both together.
    pub fn plus(self, other: Work) -> Work {
        Work { requests: self.requests + other.requests, bytes: self.bytes + other.bytes }
    }

    /// What is left without the other; never less than nothing.
    pub fn less(self, other: Work) -> Work {
        Work { requests: (self.requests - other.requests).max(0.0), bytes: (self.bytes - other.bytes).max(0.0) }
    }

    fn least(self, other: Work) -> Work {
        Work { requests: self.requests.min(other.requests), bytes: self.bytes.min(other.bytes) }
    }

    fn times(self, share: f64) -> Work {
        Work { requests: self.requests * share, bytes: self.bytes * share }
    }
}

/// What a disk did for the daemons between two settlements.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Done {
    /// What it read, and how long a read took on average, in nanoseconds; 0 = not known.
    pub reads: Work,
    /// See `reads`.
    pub read_ns: f64,
    /// What it wrote.
    pub writes: Work,
}

/// Requests that wait in the storage layer, at a tick and at the one before.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    tick: u64,
    now: Work,
    before: Work,
}

impl Queue {
    fn add(&mut self, request: Work, tick: u64) {
        self.pass(tick);
        self.now = self.now.plus(request);
    }

    fn pass(&mut self, tick: u64) {
        match tick - self.tick {
            0 => {}
            1 => self.before = std::mem::take(&mut self.now),
            _ => (self.now, self.before) = Default::default(),
        }
        self.tick = tick;
    }

    /// What is in it, or was a tick ago: a freeze that has just begun may have emptied it.
    fn lately(mut self, tick: u64) -> Work {
        self.pass(tick);
        if self.now.requests > self.before.requests {
            self.now
        } else {
            self.before
        }
    }
}

/// Of batch, and of all clients.
#[derive(Clone, Copy, Debug, Default)]
struct Classes<T> {
    batch: T,
    all: T,
}

/// One disk; filesystems that share one have one account.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// For how long requests for something to read waited since the last settlement, in nanoseconds.
    waited: Classes<u64>,
    /// What was asked for since then, and which reads took some time.
    reads: Classes<Work>,
    slow_reads: Classes<Work>,
    writes: Classes<Work>,
    /// How long that is: from this bucket of a histogram on.
    slow_from: usize,
    /// Bytes written since the clients were last looked at.
    written: Classes<u64>,
    /// Bytes that were written and are not on the disk yet.
    dirty: Classes<f64>,
    /// What batch has done, and what waits there for batch.
    done: Work,
    queue: Queue,
}

/// The same of one job.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    waited: u64,
    dirty: f64,
    done: Work,
    queue: Queue,
}

struct Row {
    number: u64,
    /// Bytes written since the clients were last looked at, to any disk.
    written: u64,
    /// By disk.
    cells: Box<[Cell]>,
}

/// A client record.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Whose it is: the job's number and place.
    owner: Option<(u64, u16)>,
    written: u64,
}

/// All of it.
pub struct Daemons {
    /// Which account each filesystem has.
    account_of: Vec<u16>,
    accounts: Vec<Account>,
    /// By place in the job table.
    rows: Vec<Option<Row>>,
    /// By index of the record.
    clients: Vec<Known>,
    /// When requests were last looked at, and how long before that the time before.
    looked_ns: u64,
    tick_ns: u64,
    /// How often they were.
    tick: u64,
    /// A request of a client that is not known yet: the records are worth another look.
    strangers: bool,
    /// From where each job comes, in ascending order.
    pub claims: Vec<Claim>,
    /// Of that list.
    pub claims_version: u64,
    /// The jobs: number and place, in ascending order.
    places: Vec<(u64, u16)>,
    jobs_version: u64,
}

impl Default for Daemons {
    fn default() -> Self {
        Daemons {
            account_of: Vec::new(),
            accounts: Vec::new(),
            rows: Vec::new(),
            clients: Vec::new(),
            looked_ns: 0,
            tick_ns: 1,
            tick: 0,
            strangers: false,
            claims: Vec::with_capacity(CLAIMS),
            claims_version: 0,
            places: Vec::new(),
            jobs_version: u64::MAX,
        }
    }
}

impl Daemons {
    /// Another writer of the segment: all counters begin anew.
    pub fn restart(&mut self, filesystems: usize) {
        self.account_of = (0..filesystems as u16).collect();
        self.accounts = vec![Account::default(); filesystems];
        self.rows.clear();
        self.clients.clear();
    }

    /// On which disk each filesystem is; one of which that is not known has an account of its own.
    pub fn on_disks(&mut self, disks: &[(u32, u32)]) {
        let first = |disk: &(u32, u32)| disks.iter().position(|other| other == disk && other.0 != 0);
        for (index, account) in self.account_of.iter_mut().enumerate() {
            *account = disks.get(index).and_then(first).unwrap_or(index) as u16;
        }
    }

    /// Who is there. Allocates only when that has changed.
    pub fn follow(&mut self, jobs: &JobTable) {
        if self.jobs_version == jobs.version() {
            return;
        }
        self.jobs_version = jobs.version();
        self.places.clear();
        self.places.extend(jobs.iter().map(|(place, job)| (job.number, place as u16)));
        self.places.sort_unstable();
        for (place, row) in self.rows.iter_mut().enumerate() {
            let there = |row: &Row| self.places.binary_search(&(row.number, place as u16)).is_ok();
            if row.as_ref().is_some_and(|row| !there(row)) {
                *row = None;
            }
        }
    }

    /// How many jobs there are of which it is known from where they come.
    pub fn located(&self) -> u32 {
        let known = |number: &u64| self.claims.iter().any(|claim| claim.number == *number);
        self.places.iter().filter(|(number, _)| known(number)).count() as u32
    }

    /// The job that comes from this address.
    fn owner(&self, address: Ipv6Addr) -> Option<(u64, u16)> {
        let claim = self.claims.binary_search_by_key(&address, |claim| claim.address).ok()?;
        let number = self.claims.get(claim)?.number;
        let place = self.places.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        self.places.get(place).copied()
    }

    fn account(&mut self, filesystem: u16) -> Option<(usize, &mut Account)> {
        let account = usize::from(*self.account_of.get(usize::from(filesystem))?);
        Some((account, self.accounts.get_mut(account)?))
    }

    /// Requests are about to be looked at: each has probably waited since the last time.
    pub fn tick(&mut self, now_ns: u64) {
        self.tick_ns = now_ns.saturating_sub(self.looked_ns).min(TICK_MOST_NS);
        self.looked_ns = now_ns;
        self.tick += 1;
    }

    /// A request waits.
    pub fn in_flight(&mut self, request: &InFlight) {
        let kind = request.series.kind;
        // Who writes waits for what others wrote as well; their account says more.
        if matches!(kind.op(), Op::Write | Op::Sync | Op::Pacing | Op::Stall) {
            return;
        }
        let (tick_ns, tick) = (self.tick_ns, self.tick);
        let work = Work::new(1, request.bytes);
        let Some((account, of)) = self.account(request.series.filesystem) else { return };
        of.waited.all = of.waited.all.saturating_add(tick_ns);
        if kind.class() != Class::Batch {
            return;
        }
        of.waited.batch = of.waited.batch.saturating_add(tick_ns);
        of.queue.add(work, tick);
        let Some(client) = request.client else { return };
        let Some(known) = self.clients.get(client as usize) else {
            self.strangers = true;
            return;
        };
        let Some((number, place)) = known.owner else { return };
        let row = self.rows.get_mut(usize::from(place)).and_then(Option::as_mut).filter(|row| row.number == number);
        if let Some(cell) = row.and_then(|row| row.cells.get_mut(account)) {
            cell.waited = cell.waited.saturating_add(tick_ns);
            cell.queue.add(work, tick);
        }
    }

    /// Requests have come back.
    pub fn series(&mut self, delta: &SeriesDelta<'_>) {
        let kind = delta.series.kind;
        let Some((_, account)) = self.account(delta.series.filesystem) else { return };
        let work = Work::new(delta.operations, delta.bytes);
        let batch = kind.class() == Class::Batch;
        match kind.op() {
            Op::Pacing | Op::Stall => return,
            Op::Write | Op::Sync => account.writes.add(work, batch),
            Op::Read | Op::Open | Op::Meta => {
                account.reads.add(work, batch);
                account.slow_reads.add(slow_part(account.slow_from, delta, work), batch);
            }
        }
        if kind.op() == Op::Write {
            account.written.all = account.written.all.saturating_add(delta.bytes);
            account.written.batch = account.written.batch.saturating_add(if batch { delta.bytes } else { 0 });
        }
    }

    /// Has somebody come of whom nothing is known? Once.
    pub fn strangers(&mut self) -> bool {
        std::mem::take(&mut self.strangers)
    }

    /// A client record. Allocates for one that is new, and for a job that comes for the first time.
    pub fn client(&mut self, client: &Client) {
        let index = client.index as usize;
        let owner = self.owner(client.address);
        if self.clients.len() <= index {
            self.clients.resize(index + 1, Known::default());
        }
        let Some(known) = self.clients.get_mut(index) else { return };
        let written = client.bytes_written.saturating_sub(known.written);
        // What was written between the end of one and the beginning of another who has its address is nobody's.
        let same = known.owner == owner;
        *known = Known { owner, written: client.bytes_written };
        let Some((number, place)) = owner else { return };
        let place = usize::from(place);
        if self.rows.len() <= place {
            self.rows.resize_with(place + 1, || None);
        }
        let Some(row) = self.rows.get_mut(place) else { return };
        if row.as_ref().is_none_or(|row| row.number != number) {
            let cells = vec![Cell::default(); self.accounts.len()].into();
            *row = Some(Row { number, written: 0, cells });
        }
        if let Some(row) = row.as_mut().filter(|_| same) {
            row.written = row.written.saturating_add(written);
        }
    }

    /// All records have been looked at: who wrote what since the last time? To which disk a client wrote is not in its record; what it
    /// cannot have written to others is certain.
    pub fn clients_seen(&mut self) {
        let all = self.accounts.iter().fold(0u64, |all, account| all.saturating_add(account.written.batch));
        for (index, account) in self.accounts.iter_mut().enumerate() {
            let written = std::mem::take(&mut account.written);
            account.dirty.all += written.all as f64;
            account.dirty.batch += written.batch as f64;
            for row in self.rows.iter_mut().flatten().filter(|row| row.written > 0 && written.batch > 0) {
                let certain = row.written.saturating_add(written.batch).saturating_sub(all);
                if let Some(cell) = row.cells.get_mut(index) {
                    cell.dirty += certain.min(row.written).min(written.batch) as f64;
                }
            }
        }
        self.rows.iter_mut().flatten().for_each(|row| row.written = 0);
    }

    /// Shares out what the disk of this filesystem did for the daemons in so long; `None` = it cannot be known: what was asked for.
    pub fn settle(&mut self, filesystem: usize, done: Option<Done>, seconds: f64) {
        // It was done with the first filesystem on that disk.
        if self.account_of.get(filesystem).is_none_or(|account| usize::from(*account) != filesystem) {
            return;
        }
        let Some(account) = self.accounts.get_mut(filesystem) else { return };
        let Account { waited, reads, slow_reads, writes, dirty, slow_from, .. } = *account;
        let known = done.is_some();
        let done = done.unwrap_or(Done { reads: reads.all, writes: writes.all, read_ns: 0.0 });
        (account.waited, account.reads, account.slow_reads, account.writes) = Default::default();
        account.slow_from = if known { slow_bucket(done.read_ns).unwrap_or(slow_from) } else { 0 };
        let came = if known { slow_reads } else { reads };
        let by_time = done.reads.times(part(waited.batch as f64, waited.all as f64));
        let read = match (came.batch.requests > 0.0, came.all.requests > 0.0) {
            (true, _) => Work {
                requests: done.reads.requests * part(came.batch.requests, came.all.requests),
                bytes: done.reads.bytes * part(came.batch.bytes, came.all.bytes),
            },
            // Of batch none has come back yet: the disk reads many places for one request of several, and in a freeze they do not come.
            (false, true) => done.reads.less(came.all).least(by_time),
            (false, false) => by_time,
        };
        let wrote = done.writes.times(part(dirty.batch, dirty.all));
        account.done = account.done.plus(read).plus(wrote);
        let kept = (1.0 - part(done.writes.bytes, dirty.all)) * (-seconds / KEPT_SECONDS).exp();
        (account.dirty.batch, account.dirty.all) = (dirty.batch * kept, dirty.all * kept);
        for cell in self.rows.iter_mut().flatten().filter_map(|row| row.cells.get_mut(filesystem)) {
            let read = read.times(part(std::mem::take(&mut cell.waited) as f64, waited.batch as f64));
            let wrote = done.writes.times(part(cell.dirty, dirty.all));
            cell.done = cell.done.plus(read).plus(wrote);
            cell.dirty *= kept;
        }
    }

    /// What batch has done on the disk of a filesystem through the daemons; only grows until a restart.
    pub fn batch(&self, filesystem: usize) -> Work {
        self.account_at(filesystem).map(|account| account.done).unwrap_or_default()
    }

    /// What waits there for batch.
    pub fn queued(&self, filesystem: usize) -> Work {
        self.account_at(filesystem).map(|account| account.queue.lately(self.tick)).unwrap_or_default()
    }

    fn account_at(&self, filesystem: usize) -> Option<&Account> {
        self.accounts.get(usize::from(*self.account_of.get(filesystem)?))
    }

    fn row(&self, place: usize, number: u64) -> Option<&Row> {
        self.rows.get(place).and_then(Option::as_ref).filter(|row| row.number == number)
    }

    /// Has the job of this place and number come to the daemons?
    pub fn knows(&self, place: usize, number: u64) -> bool {
        self.row(place, number).is_some()
    }

    /// What it has done.
    pub fn of(&self, place: usize, number: u64, filesystem: usize) -> Work {
        self.cell(place, number, filesystem).map(|cell| cell.done).unwrap_or_default()
    }

    /// What waits there for it.
    pub fn queued_of(&self, place: usize, number: u64, filesystem: usize) -> Work {
        self.cell(place, number, filesystem).map(|cell| cell.queue.lately(self.tick)).unwrap_or_default()
    }

    fn cell(&self, place: usize, number: u64, filesystem: usize) -> Option<&Cell> {
        self.row(place, number)?.cells.get(usize::from(*self.account_of.get(filesystem)?))
    }
}

impl Classes<Work> {
    fn add(&mut self, work: Work, batch: bool) {
        self.all = self.all.plus(work);
        if batch {
            self.batch = self.batch.plus(work);
        }
    }
}

/// Of these requests those that took some time.
fn slow_part(slow_from: usize, delta: &SeriesDelta<'_>, work: Work) -> Work {
    if slow_from == 0 {
        return work;
    }
    let slow = delta.buckets.iter().filter(|(bucket, _)| *bucket >= slow_from).map(|(_, count)| u64::from(*count));
    work.times(part((slow.sum::<u64>() + u64::from(delta.over)) as f64, work.requests))
}

/// Some time on a disk where a read takes so long.
fn slow_bucket(read_ns: f64) -> Option<usize> {
    let [least, most] = SOME_TIME_NS;
    let some_ns = (read_ns > 0.0).then(|| (SOME_TIME * read_ns).clamp(least, most))? as u64;
    (0..BUCKETS).find(|bucket| bucket_lower(*bucket) >= some_ns)
}

/// How much of the whole; no more than all of it.
fn part(some: f64, whole: f64) -> f64 {
    match whole > 0.0 {
        true => (some / whole).min(1.0),
        false => 0.0,
    }
}

#[cfg(test)]
mod tests;

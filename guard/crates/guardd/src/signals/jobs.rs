// SPDX-License-Identifier: Apache-2.0
//! Which jobs there are, and which of them use the disk of each filesystem: the difference of `io.stat` of their
//! cgroups between two readings. Work is charged to who asked for it, also when the page cache writes it out later
//! (kernel, cgroup-v2.rst, "Writeback"; ext4, btrfs and xfs).
//!
//! What jobs do through the storage daemons is in nobody's `io.stat` but the daemon's, and journal commits and flushes
//! are in nobody's at all: the first counts as work of somebody unknown, so that nobody is blamed for it.

use intf::segment::layout::MAX_FILESYSTEMS as FILESYSTEMS;
use kernfs::cgroup::{DeviceIo, IoStat};
use policy::jobs::guilty;
use policy::{Config, Hold, JobSet};

use super::{work, Board, Pace, Rate, Reading, Sample, Signal, HURRIED_NS, STALE_SECONDS, WORK_MIN};

/// More jobs than are often to blame for one disk: room for them is made at the start.
const PACED: usize = 16;

/// A shorter spell says little about a rate.
const SPELL_MIN: f32 = 0.05;

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

    /// Of a job: the daemons' limit is one for both directions.
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

    /// Of the faster one of both, which took so many seconds: somebody may have begun in the middle of the slower one.
    fn rate(&self, seconds: &[f32; 2]) -> Rate {
        let mut rate = Rate::default();
        for (done, seconds) in self.recent.iter().zip(seconds) {
            let seconds = seconds.max(SPELL_MIN);
            rate.requests = rate.requests.max(done.0 / seconds);
            rate.bytes = rate.bytes.max(done.1 / seconds);
        }
        let reads = self.recent_reads[0] + self.recent_reads[1];
        Rate { reads: reads / self.lately().0.max(1.0), ..rate }
    }
}

/// One job, by filesystem.
struct Row {
    number: u64,
    io: IoStat,
    meters: Vec<Meter>,
}

/// The disk of a filesystem.
#[derive(Clone, Copy, Debug, Default)]
struct Spell {
    /// Work of the slice, and of batch in the storage daemons.
    whole: Meter,
    daemon: Meter,
    begun_ns: u64,
    /// How long the last two took.
    seconds: [f32; 2],
    /// It ends with this reading: enough was done to tell, or too little for too long.
    over: bool,
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
    slice: IoStat,
    spells: Vec<Spell>,
    rows: Vec<Option<Row>>,
    /// Of the board's disks: with others all begins anew.
    version: u64,
    /// There was a reading before: a job that is new now has done all its work since then.
    known: bool,
    /// At the last reading all stood still.
    still: bool,
    scratch: Vec<(usize, f32)>,
    fault: Option<String>,
}

impl Jobs {
    /// Looks at nothing yet.
    pub fn new(config: &Config) -> Self {
        let slice = config.paths.cgroup.join(&config.paths.jobs_slice);
        Jobs {
            period_ns: config.disk.interval_ns.min(config.control_loop.slow_ns),
            enabled: config.disk.enabled,
            slice: IoStat::new(&slice),
            spells: Vec::new(),
            rows: Vec::new(),
            version: 0,
            known: false,
            still: false,
            scratch: Vec::with_capacity(JobSet::PLACES),
            fault: None,
        }
    }

    fn begin_anew(&mut self, board: &mut Board) {
        self.version = board.disks_version;
        self.spells = vec![Spell::default(); board.disks.len()];
        self.rows.clear();
        self.known = false;
        board.guilty.clear();
        board.guilty.resize(board.disks.len(), None);
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
                    each(&mut io, &board.disks, |filesystem, done| {
                        if let Some(meter) = meters.get_mut(filesystem) {
                            meter.base(done);
                        }
                    });
                }
                *row = Some(Row { number: job.number, io, meters });
                // What was said of the one who had this place is not said of this one.
                for set in board.guilty.iter_mut().flatten() {
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
        let mut seen = [(0u64, 0u64); FILESYSTEMS];
        self.fault = each(&mut self.slice, &board.disks, |filesystem, done| {
            if let Some(seen) = seen.get_mut(filesystem) {
                *seen = (done.reads + done.writes, done.read_bytes + done.write_bytes);
            }
        });
        if self.fault.is_some() {
            board.guilty.fill(None);
            board.others_use.fill(true);
            board.held_work.fill(false);
        }
        // What is written back while all stand still was not asked for now: the last spell before a freeze ends with its first
        // reading, and the next one begins when somebody runs again.
        let still = board.hold == Hold::All;
        let readable = self.fault.is_none() && !(still && self.still);
        let again = self.still && !still;
        if again {
            next = Next::Base;
        }
        for (filesystem, spell) in self.spells.iter_mut().enumerate() {
            let (requests, bytes) = seen.get(filesystem).copied().unwrap_or_default();
            let daemon = board.operations.get(filesystem).map_or((0, 0), |traffic| traffic.batch);
            if !self.known || again {
                spell.over = false;
                (spell.whole.requests, spell.whole.bytes) = (requests, bytes);
                (spell.daemon.requests, spell.daemon.bytes) = daemon;
                spell.begun_ns = now_ns;
                continue;
            }
            let (more, more_bytes) = spell.whole.since(requests, bytes);
            let done = work(more, more_bytes);
            let (daemon_more, daemon_bytes) = spell.daemon.since(daemon.0, daemon.1);
            let through_daemon = work(daemon_more, daemon_bytes);
            let seconds = now_ns.saturating_sub(spell.begun_ns) as f64 / 1e9;
            spell.over = readable && (done + through_daemon >= WORK_MIN || seconds >= STALE_SECONDS);
            if spell.over {
                spell.whole.pass(requests, bytes);
                spell.daemon.pass(daemon.0, daemon.1);
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
            each(&mut row.io, disks, |filesystem, done| {
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

    fn blame(&mut self, board: &mut Board) {
        let complete = board.jobs.complete();
        for (filesystem, spell) in self.spells.iter().enumerate().filter(|(_, spell)| spell.over) {
            let (whole, daemon) = (spell.whole.lately(), spell.daemon.lately());
            let of = |row: &Option<Row>| Some(row.as_ref()?.meters.get(filesystem)?.lately());
            let (rows, scratch) = (&self.rows, &mut self.scratch);
            let mut named = |pick: fn((f32, f32)) -> f32| {
                scratch.clear();
                let done =
                    |(place, row): (usize, &Option<Row>)| Some((place, pick(of(row)?))).filter(|done| done.1 > 0.0);
                scratch.extend(rows.iter().enumerate().filter_map(done));
                guilty(scratch, pick(whole) + pick(daemon))
            };
            let enough = complete && work((whole.0 + daemon.0) as u64, (whole.1 + daemon.1) as u64) >= WORK_MIN;
            let mut both = || Some(named(|done| done.0)?.or(&named(|done| done.1)?));
            let set = if enough { both() } else { None };
            if let Some(guilty) = board.guilty.get_mut(filesystem) {
                *guilty = set;
            }
            if let Some(pace) = board.pace.get_mut(filesystem) {
                pace.daemon = spell.daemon.rate(&spell.seconds);
                pace.jobs.clear();
                let rate = |place: usize| Some(rows.get(place)?.as_ref()?.meters.get(filesystem)?.rate(&spell.seconds));
                let named = set.iter().flat_map(JobSet::iter).filter_map(|place| Some((place as u16, rate(place)?)));
                pace.jobs.extend(named);
            }
            // Of the last spell alone, without what those who stand still had written before.
            let held = |place: usize| matches!(board.hold, Hold::Jobs(set) if set.contains(place));
            let last = |meter: &Meter| work(meter.recent[0].0 as u64, meter.recent[0].1 as u64);
            let theirs = rows.iter().enumerate().filter(|(place, _)| held(*place));
            let theirs: f64 = theirs.filter_map(|(_, row)| Some(last(row.as_ref()?.meters.get(filesystem)?))).sum();
            if let Some(used) = board.others_use.get_mut(filesystem) {
                *used = last(&spell.whole) + last(&spell.daemon) - theirs >= WORK_MIN;
            }
            if let Some(work) = board.held_work.get_mut(filesystem) {
                *work = theirs >= WORK_MIN;
            }
        }
    }
}

/// What was done on the disk of each filesystem that has a line; two may lie on one disk. Returns the fault.
fn each(io: &mut IoStat, disks: &[(u32, u32)], mut visit: impl FnMut(usize, &DeviceIo)) -> Option<String> {
    let devices: &[DeviceIo] = match io.read() {
        Ok(devices) => devices.unwrap_or_default(),
        Err(error) => return Some(error.to_string()),
    };
    for io in devices {
        for (filesystem, _) in disks.iter().enumerate().filter(|(_, disk)| **disk == io.device) {
            visit(filesystem, io);
        }
    }
    None
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
        self.fault = None;
        board.jobs.look(board.hold.any(), &board.limited);
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
        self.blame(board);
        self.known = true;
        match self.fault {
            Some(_) => Reading::Broken,
            None => Reading::Value,
        }
    }

    fn fault(&self) -> String {
        self.fault.clone().unwrap_or_default()
    }

    fn sample(&self, _samples: &mut Vec<Sample>) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signals::Traffic;

    const DISK: (u32, u32) = (8, 16);
    const OTHER: (u32, u32) = (8, 32);
    const SECOND_NS: u64 = 1_000_000_000;

    /// A slice on two disks; jobs do requests of 64 KiB.
    struct Rig {
        folder: tempfile::TempDir,
        signal: Jobs,
        board: Board,
        done: Vec<(String, (u32, u32), u64)>,
        now_ns: u64,
    }

    impl Rig {
        fn new(jobs: &[&str]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let text = format!("[paths]\ncgroup = \"{}\"\njobs_slice = \"jobs.slice\"\n", folder.path().display());
            let config = Config::parse("test", &text).unwrap();
            let mut board = Board::new(&config);
            (board.disks, board.disks_version) = (vec![DISK, OTHER], 1);
            board.operations = vec![Traffic::default(); 2];
            let mut rig = Rig { signal: Jobs::new(&config), board, folder, done: Vec::new(), now_ns: SECOND_NS };
            std::fs::create_dir(rig.slice()).unwrap();
            jobs.iter().for_each(|job| rig.works(job, DISK, 10_000));
            rig.read();
            rig
        }

        fn slice(&self) -> std::path::PathBuf {
            self.folder.path().join("jobs.slice")
        }

        fn works(&mut self, job: &str, disk: (u32, u32), requests: u64) {
            self.done.push((job.to_owned(), disk, requests));
            let folder = self.slice().join(job);
            std::fs::create_dir_all(&folder).unwrap();
            let text = |of: &dyn Fn(&str) -> bool| {
                let line = |disk: (u32, u32)| {
                    let done =
                        self.done.iter().filter(|(job, on, _)| *on == disk && of(job)).map(|(_, _, count)| count);
                    let sum: u64 = done.sum();
                    let bytes = sum * 65_536;
                    let line =
                        format!("{}:{} rbytes={bytes} wbytes=0 rios={sum} wios=0 dbytes=0 dios=0\n", disk.0, disk.1);
                    if sum > 0 {
                        line
                    } else {
                        String::new()
                    }
                };
                line(DISK) + &line(OTHER)
            };
            std::fs::write(folder.join("io.stat"), text(&|name| name == job)).unwrap();
            std::fs::write(self.slice().join("io.stat"), text(&|_| true)).unwrap();
        }

        fn writes(&mut self, job: &str, text: &str) {
            std::fs::write(self.slice().join(job).join("io.stat"), text).unwrap();
        }

        fn read(&mut self) {
            self.now_ns += SECOND_NS / 10;
            assert_eq!(self.signal.read(self.now_ns, &mut self.board), Reading::Value);
        }

        fn guilty(&self, filesystem: usize) -> Option<Vec<String>> {
            let set = self.board.guilty[filesystem]?;
            Some(
                self.board
                    .jobs
                    .iter()
                    .filter(|(place, _)| set.contains(*place))
                    .map(|(_, j)| j.scope.clone())
                    .collect(),
            )
        }
    }

    fn named(name: &str) -> Option<Vec<String>> {
        Some(vec![name.to_owned()])
    }

    #[test]
    fn what_was_done_before_the_guard_came_is_nobodys_guilt() {
        let mut rig = Rig::new(&["a.scope", "b.scope"]);
        rig.read();
        assert_eq!(rig.guilty(0), None);
    }

    #[test]
    fn the_hog_is_named_on_its_disk_and_nobody_on_the_other() {
        let mut rig = Rig::new(&["hog.scope", "calm.scope"]);
        rig.works("hog.scope", DISK, 50);
        rig.works("calm.scope", DISK, 2);
        rig.read();
        assert_eq!((rig.guilty(0), rig.guilty(1)), (named("hog.scope"), None));
        // Frozen: nothing is done, and it is still known who it was.
        rig.read();
        assert_eq!(rig.guilty(0), named("hog.scope"));
        // Two spells later it is somebody else's turn.
        for _ in 0..2 {
            rig.works("calm.scope", DISK, 50);
            rig.read();
        }
        assert_eq!(rig.guilty(0), named("calm.scope"));
    }

    #[test]
    fn a_job_that_has_just_begun_is_seen_at_once() {
        let mut rig = Rig::new(&["calm.scope"]);
        rig.works("new.scope", DISK, 30);
        rig.read();
        assert_eq!(rig.guilty(0), named("new.scope"));
    }

    #[test]
    fn the_work_of_jobs_that_have_ended_and_of_the_daemons_clients_is_nobodys() {
        let mut rig = Rig::new(&["a.scope", "b.scope"]);
        rig.works("a.scope", DISK, 50);
        rig.works("b.scope", DISK, 20);
        std::fs::remove_dir_all(rig.slice().join("a.scope")).unwrap();
        rig.read();
        assert_eq!(rig.guilty(0), None, "most of it is of one that is gone");
        let mut rig = Rig::new(&["a.scope", "b.scope"]);
        rig.works("a.scope", DISK, 50);
        rig.board.operations[0].batch = (50, 50 * 65_536);
        rig.read();
        assert_eq!(rig.guilty(0), None, "half of it came through the storage daemon");
    }

    #[test]
    fn what_is_written_back_while_all_stand_still_is_nobodys_guilt() {
        let mut rig = Rig::new(&["hog.scope", "writer.scope"]);
        rig.works("hog.scope", DISK, 50);
        rig.works("writer.scope", DISK, 2);
        rig.board.hold = Hold::All;
        assert!(rig.signal.urgent(&rig.board));
        rig.read();
        assert!(!rig.signal.urgent(&rig.board), "once");
        for _ in 0..8 {
            rig.works("writer.scope", DISK, 50);
            rig.read();
        }
        assert_eq!(rig.guilty(0), named("hog.scope"));
        // Nor when they run again.
        rig.board.hold = Hold::Nobody;
        assert!(rig.signal.urgent(&rig.board));
        rig.read();
        assert!(!rig.signal.urgent(&rig.board));
        rig.works("hog.scope", DISK, 30);
        rig.read();
        assert_eq!(rig.guilty(0), named("hog.scope"));
        for _ in 0..2 {
            rig.works("writer.scope", DISK, 30);
            rig.read();
        }
        assert_eq!(rig.guilty(0), named("writer.scope"), "but what it does now is");
    }

    #[test]
    fn who_uses_the_disk_beside_those_who_stand_still_is_known() {
        let mut rig = Rig::new(&["hog.scope", "other.scope"]);
        rig.works("hog.scope", DISK, 50);
        rig.read();
        let hog = rig.board.guilty[0].unwrap();
        assert!(rig.board.others_use[0] && !rig.board.held_work[0], "the hog itself, which runs");
        rig.board.hold = Hold::Jobs(hog);
        rig.works("hog.scope", DISK, 20);
        rig.read();
        assert!(!rig.board.others_use[0] && rig.board.held_work[0], "what it had written is its own");
        rig.works("other.scope", DISK, 20);
        rig.read();
        assert!(rig.board.others_use[0]);
        // Clients of the storage daemon are others too.
        for _ in 0..6 {
            rig.read();
        }
        assert!(!rig.board.others_use[0]);
        rig.board.operations[0].batch = (50, 50 * 65_536);
        rig.works("hog.scope", DISK, 10);
        rig.read();
        assert!(rig.board.others_use[0]);
    }

    #[test]
    fn a_stream_does_not_hide_seeks() {
        let mut rig = Rig::new(&["stream.scope", "seeks.scope"]);
        // Forty times the bytes with as many requests: both are named.
        rig.works("stream.scope", DISK, 40);
        rig.writes("stream.scope", "8:16 rbytes=2000000000 wbytes=0 rios=10040 wios=0\n");
        rig.writes("seeks.scope", "8:16 rbytes=655770624 wbytes=0 rios=10100 wios=0\n");
        rig.writes("", "8:16 rbytes=2655770624 wbytes=0 rios=20140 wios=0\n");
        rig.read();
        let mut both = rig.guilty(0).unwrap();
        both.sort();
        assert_eq!(both, ["seeks.scope", "stream.scope"]);
    }

    #[test]
    fn too_little_says_nothing_and_is_not_forgotten_either() {
        let mut rig = Rig::new(&["a.scope"]);
        for _ in 0..3 {
            rig.works("a.scope", DISK, 1);
            rig.read();
            assert_eq!(rig.guilty(0), None);
        }
        rig.works("a.scope", DISK, 2);
        rig.read();
        assert_eq!(rig.guilty(0), named("a.scope"));
        // Half a second without work ends a spell, and two of them the blame.
        for _ in 0..11 {
            rig.read();
        }
        assert_eq!(rig.guilty(0), None);
    }

    #[test]
    fn without_disk_statistics_nobody_is_blamed_but_jobs_are_counted() {
        let mut rig = Rig::new(&["a.scope"]);
        rig.signal.enabled = false;
        std::fs::create_dir(rig.slice().join("b.scope")).unwrap();
        assert_eq!(rig.signal.read(rig.now_ns, &mut rig.board), Reading::Value);
        assert_eq!(rig.board.jobs.count(), 2);
        rig.board.hold = Hold::All;
        assert!(!rig.signal.urgent(&rig.board));
    }

    #[test]
    fn a_damaged_file_is_told_and_blames_nobody() {
        let mut rig = Rig::new(&["a.scope"]);
        rig.works("a.scope", DISK, 50);
        rig.read();
        assert_eq!(rig.guilty(0), named("a.scope"));
        rig.works("a.scope", DISK, 50);
        let good = std::fs::read_to_string(rig.slice().join("io.stat")).unwrap();
        std::fs::write(rig.slice().join("io.stat"), "8:16 rbytes=x\n").unwrap();
        rig.now_ns += SECOND_NS / 10;
        assert_eq!(rig.signal.read(rig.now_ns, &mut rig.board), Reading::Broken);
        assert!(rig.signal.fault().contains("io.stat"), "{}", rig.signal.fault());
        assert_eq!(rig.guilty(0), None);
        std::fs::write(rig.slice().join("io.stat"), good).unwrap();
        rig.read();
        assert_eq!(rig.guilty(0), named("a.scope"), "nothing is lost");
    }

    #[test]
    fn how_fast_batch_goes_through_the_daemons_is_known_at_once() {
        let mut rig = Rig::new(&[]);
        rig.board.operations[0].batch = (100, 100 * 65_536);
        rig.now_ns += SECOND_NS / 10;
        rig.signal.read(rig.now_ns, &mut rig.board);
        let rate = rig.board.pace[0].daemon;
        assert!((999.0..=1001.0).contains(&rate.requests), "{rate:?}");
        assert_eq!(rig.board.guilty[0], None, "nobody in particular");
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What beer-probe.service reads where storage clients read too little to be judged: a latency segment of its own, fed to the
//! detectors as a class of its own. Its filesystems are those of the storage daemon, found by path.

use std::path::PathBuf;

use intf::segment::{
    Class, Filesystem, InFlight, Kind, Op, Poll, Reason, SegmentReader, SeriesDelta, SeriesId, Visitor,
};
use policy::{Config, Evaluator};

use super::{Board, Label, Reading, Sample, Signal};
use crate::metrics::names;
use crate::shared::Owner;

/// A probe in flight for longer than this has not just met a long queue.
const STUCK_NS: u64 = 1_000_000_000;

/// Probes of one filesystem since the guard started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Probes {
    reads: u64,
    errors: u64,
    sum_ns: u64,
    oldest_ns: u64,
}

/// Tells the evaluator, in the words of the storage daemon's segment.
struct Teller<'a> {
    evaluator: &'a mut Evaluator,
    /// Which of the storage daemon's filesystems each of the probe's is.
    places: &'a mut Vec<Option<u16>>,
    probes: &'a mut Vec<Probes>,
    /// Its own filesystems are others: the places must be found again.
    paths: &'a mut Vec<String>,
    known: &'a [Filesystem],
}

impl Teller<'_> {
    fn place(&self, series: SeriesId) -> Option<SeriesId> {
        // In its own segment a probe is work of the server itself.
        if Kind::of(Op::Read, Class::Internal) != Some(series.kind) {
            return None;
        }
        let filesystem = (*self.places.get(usize::from(series.filesystem))?)?;
        Some(SeriesId { filesystem, kind: Kind::PROBE_READ })
    }

    fn find(&mut self) {
        let place = |path: &String| self.known.iter().position(|known| known.path == *path).map(|place| place as u16);
        *self.places = self.paths.iter().map(place).collect();
        *self.probes = vec![Probes::default(); self.known.len()];
    }
}

impl Visitor for Teller<'_> {
    fn restart(&mut self, filesystems: &[Filesystem]) {
        *self.paths = filesystems.iter().map(|filesystem| filesystem.path.clone()).collect();
        self.find();
    }

    fn series(&mut self, delta: &SeriesDelta<'_>) {
        let Some(series) = self.place(delta.series) else { return };
        if let Some(probes) = self.probes.get_mut(usize::from(series.filesystem)) {
            probes.reads = probes.reads.wrapping_add(delta.operations);
            probes.errors = probes.errors.wrapping_add(delta.errors);
            probes.sum_ns = probes.sum_ns.wrapping_add(delta.sum_ns);
        }
        self.evaluator.series(&SeriesDelta { series, ..*delta });
    }

    fn in_flight(&mut self, request: &InFlight) {
        let Some(series) = self.place(request.series) else { return };
        if let Some(probes) = self.probes.get_mut(usize::from(series.filesystem)) {
            probes.oldest_ns = probes.oldest_ns.max(request.age_ns);
        }
        self.evaluator.in_flight(&InFlight { series, ..*request });
    }
}

/// The signal.
pub struct Probe {
    path: PathBuf,
    owner: Owner,
    reader: Option<SegmentReader>,
    paths: Vec<String>,
    places: Vec<Option<u16>>,
    probes: Vec<Probes>,
    /// Of the storage daemon's filesystems, when the places were found.
    version: u64,
    poll: Option<Poll>,
    reason: Option<Reason>,
    changed: bool,
}

impl Probe {
    /// Opens nothing yet.
    pub fn new(config: &Config, owner: Owner) -> Self {
        Probe {
            path: config.paths.probe.join(crate::probe::SEGMENT),
            owner,
            reader: None,
            paths: Vec::new(),
            places: Vec::new(),
            probes: Vec::new(),
            version: 0,
            poll: None,
            reason: None,
            changed: false,
        }
    }
}

impl Signal for Probe {
    fn name(&self) -> &'static str {
        "probe"
    }

    fn period_ns(&self) -> u64 {
        0
    }

    fn read(&mut self, now_ns: u64, board: &mut Board) -> Reading {
        self.changed = false;
        board.probes_stuck = None;
        board.evaluator.probed(policy::Signal::Missing);
        let reader = match (&mut self.reader, self.owner.get()) {
            (Some(reader), _) => reader,
            (none, Some(owner)) => none.insert(SegmentReader::new(&self.path, owner)),
            (None, None) => return Reading::Absent,
        };
        let Probe { places, probes, paths, .. } = self;
        let (evaluator, known) = (&mut board.evaluator, board.filesystems.as_slice());
        let mut teller = Teller { evaluator, places, probes, paths, known };
        if self.version != board.filesystems_version {
            self.version = board.filesystems_version;
            teller.find();
        }
        teller.probes.iter_mut().for_each(|probes| probes.oldest_ns = 0);
        let reason = match reader.poll(now_ns, &mut teller) {
            Ok(poll) => {
                self.poll = Some(poll);
                None
            }
            Err(error) => Some(error.reason),
        };
        self.changed = reason != self.reason;
        self.reason = reason;
        match (reason, &self.poll) {
            (None, Some(poll)) => {
                board.evaluator.probed(policy::Signal::Heard { heartbeat_age_ns: poll.heartbeat_age_ns });
                board.probes_stuck = Some(self.probes.iter().filter(|probes| probes.oldest_ns > STUCK_NS).count());
                return Reading::Value;
            }
            _ => self.poll = None,
        }
        match reason {
            Some(Reason::NotFound) => Reading::Absent,
            _ => Reading::Broken,
        }
    }

    fn fault(&self) -> String {
        match (&self.reason, self.owner.get()) {
            (Some(Reason::NotFound), _) => format!("{}: beer-probe.service does not run", self.path.display()),
            (Some(reason), _) => format!("{}: {reason}", self.path.display()),
            (None, None) => format!("{}: there is no user `{}` to own it", self.path.display(), self.owner.name()),
            (None, Some(_)) => String::new(),
        }
    }

    fn fault_changed(&self) -> bool {
        self.changed
    }

    fn sample(&self, samples: &mut Vec<Sample>) {
        let mut push = |metric, label, value| samples.push(Sample { metric, label, value });
        let Some(poll) = &self.poll else { return };
        push(&names::PROBE_HEARTBEAT_AGE, Label::None, poll.heartbeat_age_ns as f64 / 1e9);
        for (index, probes) in self.probes.iter().enumerate() {
            let label = Label::Filesystem(index as u16);
            push(&names::PROBE_READS, label, probes.reads as f64);
            push(&names::PROBE_SECONDS, label, probes.sum_ns as f64 / 1e9);
            push(&names::PROBE_ERRORS, label, probes.errors as f64);
            push(&names::PROBE_OLDEST, label, probes.oldest_ns as f64 / 1e9);
        }
    }
}

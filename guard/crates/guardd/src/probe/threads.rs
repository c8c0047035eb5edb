// SPDX-License-Identifier: Apache-2.0
//! A thread for each filesystem, so that one that hangs holds up none of the others; and the segment that they all write.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, Thread};
use std::time::Duration;

use intf::segment::synthetic::SegmentWriter;
use intf::segment::{Class, Filesystem, Kind, Op, SeriesId};
use policy::detector::trial::Random;

use super::{MakeReader, Outcome, Reader, SEGMENT};
use crate::clock::Clock;
use crate::shared::lock;

/// Threads that there may be: those of filesystems that are gone may hang for ever.
const MOST: usize = 256;
const STACK: usize = 128 << 10;
/// Places for requests in flight: one for each filesystem.
const SLOTS: u32 = 128;
const CLIENTS: u32 = 64;
/// A search for a file is several reads; one that takes so long is shown as if it were one that does not come back.
const SEARCH_NS: u64 = 1_000_000_000;

/// What its thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Now {
    Waits,
    Reads(u64),
    Searches(u64),
}

/// A filesystem. It keeps its thread when it goes and comes back: there is never a second read of one that hangs.
struct Place {
    path: String,
    device: (u32, u32),
    /// In the segment; `None` = the storage daemon does not have it now.
    index: Option<u16>,
    now: Now,
}

struct Shared {
    segment: Option<SegmentWriter>,
    places: Vec<Place>,
}

impl Shared {
    fn series(&self, place: usize) -> Option<SeriesId> {
        let kind = Kind::of(Op::Read, Class::Internal)?;
        Some(SeriesId { filesystem: self.places.get(place)?.index?, kind })
    }

    /// Shows it in flight.
    fn show(&mut self, place: usize, start_ns: u64) -> io::Result<()> {
        match (self.series(place), &mut self.segment) {
            (Some(series), Some(segment)) => segment.begin(u32::from(series.filesystem), series, start_ns, 4096, None),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, place: usize, now: Now) -> io::Result<()> {
        if let Some(place) = self.places.get_mut(place) {
            place.now = now;
        }
        match now {
            Now::Reads(start_ns) => self.show(place, start_ns),
            Now::Waits | Now::Searches(_) => Ok(()),
        }
    }

    fn end(&mut self, place: usize, outcome: Outcome, now_ns: u64) -> io::Result<()> {
        let Some(known) = self.places.get_mut(place) else { return Ok(()) };
        let was = std::mem::replace(&mut known.now, Now::Waits);
        let (Some(series), Some(segment)) = (self.series(place), &mut self.segment) else { return Ok(()) };
        segment.end(u32::from(series.filesystem))?;
        match (was, outcome) {
            (Now::Reads(start_ns), Outcome::Read(bytes)) => segment.complete(series, now_ns - start_ns, bytes),
            (Now::Reads(start_ns), Outcome::Failed) => {
                segment.failed(series);
                segment.complete(series, now_ns - start_ns, 0)
            }
            _ => Ok(()),
        }
    }
}

/// What one thread is told.
struct Orders {
    wanted: AtomicBool,
    over: AtomicBool,
}

/// All of them.
pub struct Threads {
    path: PathBuf,
    interval_ns: u64,
    clock: Arc<dyn Clock>,
    shared: Arc<Mutex<Shared>>,
    /// By place.
    orders: Vec<(Arc<Orders>, Thread)>,
}

impl Threads {
    /// None yet; the segment will be in this folder.
    pub fn new(folder: &Path, interval_ns: u64, clock: Arc<dyn Clock>) -> Self {
        let shared = Arc::new(Mutex::new(Shared { segment: None, places: Vec::new() }));
        Threads { path: folder.join(SEGMENT), interval_ns, clock, shared, orders: Vec::new() }
    }

    /// The storage daemon has these filesystems now.
    pub fn follow(&mut self, filesystems: &[Filesystem], make: &MakeReader) -> io::Result<()> {
        let list: Vec<(&str, u32, u32)> = filesystems.iter().map(|f| (f.path.as_str(), f.major, f.minor)).collect();
        {
            let mut shared = lock(&self.shared);
            let shared = &mut *shared;
            let mut segment =
                SegmentWriter::create(&self.path, self.clock.realtime_ns().max(1), &list, SLOTS, CLIENTS)?;
            segment.heartbeat(self.clock.monotonic_ns())?;
            shared.segment = Some(segment);
            for place in 0..shared.places.len() {
                let known = &mut shared.places[place];
                let index = filesystems.iter().position(|filesystem| filesystem.path == known.path);
                known.index = index.and_then(|index| u16::try_from(index).ok());
                if let Some(filesystem) = index.and_then(|index| filesystems.get(index)) {
                    known.device = (filesystem.major, filesystem.minor);
                }
                if let Now::Reads(start_ns) = known.now {
                    shared.show(place, start_ns)?;
                }
            }
        }
        for (index, filesystem) in (0..).zip(filesystems) {
            let known = lock(&self.shared).places.iter().any(|place| place.path == filesystem.path);
            if !known && !self.begin(index, filesystem, make(filesystem))? {
                eprintln!("<4>{}: it is not probed: there are {MOST} filesystems", filesystem.path);
            }
        }
        Ok(())
    }

    fn begin(&mut self, index: u16, filesystem: &Filesystem, reader: Box<dyn Reader>) -> io::Result<bool> {
        let number = self.orders.len();
        if number >= MOST {
            return Ok(false);
        }
        let (path, device) = (filesystem.path.clone(), (filesystem.major, filesystem.minor));
        lock(&self.shared).places.push(Place { path, device, index: Some(index), now: Now::Waits });
        let orders = Arc::new(Orders { wanted: AtomicBool::new(false), over: AtomicBool::new(false) });
        let mut worker = Worker {
            place: number,
            reader,
            shared: Arc::clone(&self.shared),
            orders: Arc::clone(&orders),
            clock: Arc::clone(&self.clock),
            interval_ns: self.interval_ns,
            random: Random::new(self.clock.realtime_ns() ^ ((number as u64) << 48)),
        };
        let thread = Builder::new().name(format!("probe-{number}")).stack_size(STACK).spawn(move || worker.run())?;
        self.orders.push((orders, thread.thread().clone()));
        Ok(true)
    }

    /// Which filesystems of the storage daemon are to be read.
    pub fn want(&self, wanted: impl Fn(usize) -> bool) {
        let shared = lock(&self.shared);
        for (place, (orders, thread)) in shared.places.iter().zip(&self.orders) {
            let now = place.index.is_some_and(|index| wanted(usize::from(index)));
            if orders.wanted.swap(now, Ordering::Relaxed) != now && now {
                thread.unpark();
            }
        }
    }

    /// A sign of life, and searches that do not end.
    pub fn beat(&self, now_ns: u64) -> io::Result<()> {
        let mut shared = lock(&self.shared);
        for place in 0..shared.places.len() {
            match shared.places[place].now {
                Now::Searches(start_ns) if now_ns.saturating_sub(start_ns) > SEARCH_NS => {
                    shared.show(place, start_ns)?
                }
                _ => {}
            }
        }
        match &mut shared.segment {
            Some(segment) => segment.heartbeat(now_ns),
            None => Ok(()),
        }
    }

    /// Those that can end do.
    pub fn end(&self) {
        for (orders, thread) in &self.orders {
            orders.over.store(true, Ordering::Relaxed);
            thread.unpark();
        }
    }
}

struct Worker {
    place: usize,
    reader: Box<dyn Reader>,
    shared: Arc<Mutex<Shared>>,
    orders: Arc<Orders>,
    clock: Arc<dyn Clock>,
    interval_ns: u64,
    random: Random,
}

impl Worker {
    fn run(&mut self) {
        // Not all at the same time.
        let mut due_ns = self.clock.monotonic_ns() + self.gap_ns(0.0, 1.0);
        while !self.orders.over.load(Ordering::Relaxed) {
            let now_ns = self.clock.monotonic_ns();
            if !self.orders.wanted.load(Ordering::Relaxed) {
                std::thread::park();
            } else if now_ns < due_ns {
                std::thread::park_timeout(Duration::from_nanos(due_ns - now_ns));
            } else {
                // Nothing that comes at even times goes with it.
                due_ns = now_ns + self.gap_ns(0.75, 0.5);
                if let Err(error) = self.probe() {
                    eprintln!("<3>the segment cannot be written: {error}");
                }
            }
        }
    }

    fn gap_ns(&mut self, least: f64, more: f64) -> u64 {
        (self.interval_ns as f64 * (least + more * self.random.uniform())) as u64
    }

    fn probe(&mut self) -> io::Result<()> {
        let device = {
            let mut shared = lock(&self.shared);
            let start_ns = self.clock.monotonic_ns();
            let now = if self.reader.ready() { Now::Reads(start_ns) } else { Now::Searches(start_ns) };
            shared.begin(self.place, now)?;
            shared.places.get(self.place).map(|place| place.device)
        };
        let outcome = device.map_or(Outcome::Nothing, |device| self.reader.read(device));
        // Before the lock, which others may hold.
        let end_ns = self.clock.monotonic_ns();
        lock(&self.shared).end(self.place, outcome, end_ns)
    }
}

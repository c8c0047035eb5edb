// SPDX-License-Identifier: Apache-2.0
//! The watch thread: what is read off like a gauge, once a second, apart from the control loop. Some of it costs more than a tick
//! may, and a read that hangs must hold up nobody: its gauges, and those behind it, become stale.

mod addresses;
mod exec;
mod holding;
mod load;
mod memory;
mod mounts;
pub(crate) mod network;
mod pressure;
mod probe;
mod scratch;
mod served;
mod stuck;
mod swaps;
mod triggers;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use policy::gauge::{source_of, Reading, SOURCES};
use policy::{Config, JobSet, EXEC_MOST};

use crate::clock::Clock;
use crate::shared::{lock, Shared};
use triggers::Triggers;

pub use triggers::said;

pub use addresses::Claim;
pub use holding::Holding;

const PERIOD: Duration = Duration::from_secs(1);

/// More jobs than these are not looked at one by one: those beyond have no place in the loop's table either.
const JOBS_MOST: usize = 2 * JobSet::PLACES;

/// May there be more than so many?
fn watchable(known: usize) -> ControlFlow<()> {
    match known < JOBS_MOST {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    }
}

/// In `Gauge::at_ns`: this node does not have it.
const ABSENT: u64 = u64::MAX;

#[derive(Debug, Default)]
struct Gauge {
    /// Bits of an f64.
    value: AtomicU64,
    /// When it was read (CLOCK_MONOTONIC); 0 = never.
    at_ns: AtomicU64,
    /// It could not be read at the last look.
    failed: AtomicBool,
}

/// The last readings, for whoever asks; nobody waits for anybody.
#[derive(Debug, Default)]
pub struct Gauges {
    own: [Gauge; SOURCES.len()],
    /// Those of commands of the site's own: their places follow.
    exec: [Gauge; EXEC_MOST],
    /// By place: why it last could not be read.
    faults: Mutex<BTreeMap<usize, String>>,
}

impl Gauges {
    /// A new value of the source of this name.
    pub fn put(&self, name: &'static str, value: Option<f64>, now_ns: u64) {
        if let Some(place) = source_of(name) {
            self.put_at(place, value, now_ns);
        }
    }

    /// The same by place.
    pub fn put_at(&self, place: usize, value: Option<f64>, now_ns: u64) {
        let Some(gauge) = self.at(place) else { return };
        gauge.value.store(value.unwrap_or_default().to_bits(), Ordering::Relaxed);
        gauge.at_ns.store(if value.is_some() { now_ns } else { ABSENT }, Ordering::Release);
        gauge.failed.store(false, Ordering::Release);
    }

    /// It could not be read: the last value stays, to become stale.
    pub fn fail(&self, name: &'static str, fault: impl Display) {
        if let Some(place) = source_of(name) {
            self.fail_at(place, fault);
        }
    }

    /// The same by place.
    pub fn fail_at(&self, place: usize, fault: impl Display) {
        let Some(gauge) = self.at(place) else { return };
        let text = fault.to_string();
        lock(&self.faults).insert(place, text);
        gauge.failed.store(true, Ordering::Release);
    }

    /// Why there is no new value of it, in one line.
    pub fn fault(&self, place: usize) -> Option<String> {
        let gauge = self.at(place)?;
        if gauge.failed.load(Ordering::Acquire) {
            return lock(&self.faults).get(&place).cloned();
        }
        (gauge.at_ns.load(Ordering::Relaxed) == ABSENT).then(|| "it is not there any more".into())
    }

    /// All that could not be read at the last look: place, why, and when it last was.
    pub fn broken(&self) -> Vec<(usize, String, Option<u64>)> {
        let faults = lock(&self.faults).clone();
        let broken = |(place, fault): (usize, String)| {
            let gauge = self.at(place).filter(|gauge| gauge.failed.load(Ordering::Acquire))?;
            let at_ns = Some(gauge.at_ns.load(Ordering::Acquire)).filter(|at_ns| !matches!(*at_ns, 0 | ABSENT));
            Some((place, fault, at_ns))
        };
        faults.into_iter().filter_map(broken).collect()
    }

    fn at(&self, place: usize) -> Option<&Gauge> {
        self.own.get(place).or_else(|| self.exec.get(place.checked_sub(SOURCES.len())?))
    }

    /// The last reading; `begun_ns` = when the guard began to look.
    pub fn read(&self, place: usize, begun_ns: u64) -> Reading {
        let Some(gauge) = self.at(place) else { return Reading::Absent };
        match gauge.at_ns.load(Ordering::Acquire) {
            0 => Reading::Missing(begun_ns),
            ABSENT => Reading::Absent,
            at_ns => Reading::Value(f64::from_bits(gauge.value.load(Ordering::Relaxed)), at_ns),
        }
    }
}

/// Reads one or a few gauges.
trait Source: Send {
    /// Puts what it read, and says of which it could not read why.
    fn read(&mut self, now_ns: u64, shared: &Shared);
}

/// The thread.
pub struct Watch {
    /// Looked at as soon as the kernel says that there is some.
    pressure: pressure::PressureOfStorage,
    triggers: Triggers,
    sources: Vec<Box<dyn Source>>,
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
}

impl Watch {
    /// Reads nothing yet.
    pub fn new(config: &Config, clock: Arc<dyn Clock>, shared: Arc<Shared>) -> Self {
        let sources: Vec<Box<dyn Source>> = vec![
            Box::new(addresses::Addresses::new(config)),
            Box::new(mounts::Mounts::new(config)),
            Box::new(swaps::Swaps::new(config)),
            Box::new(scratch::Scratch::new(config)),
            Box::new(memory::Memory::new(config)),
            Box::new(holding::Holdings::new(config)),
            Box::new(network::Network::new(config)),
            Box::new(load::Load::new(config)),
            Box::new(stuck::Stuck::new(config)),
            Box::new(exec::Exec::new(config, Arc::clone(&clock))),
            Box::new(probe::Root::new(config, Arc::clone(&clock))),
        ];
        let (pressure, triggers) = (pressure::PressureOfStorage::new(config), Triggers::new(config));
        Watch { pressure, triggers, sources, clock, shared }
    }

    /// Until the flag is up.
    pub fn run(&mut self, shutdown: &AtomicBool) {
        while !shutdown.load(Ordering::Relaxed) {
            self.pressure.read(self.clock.monotonic_ns(), &self.shared);
            // Each by its own time: one that hangs must not make a rate of those behind it.
            self.sources.iter_mut().for_each(|source| source.read(self.clock.monotonic_ns(), &self.shared));
            self.triggers.look();
            let end = Instant::now() + PERIOD;
            // The others compare two looks, which must lie apart.
            while self.triggers.fired(end) {
                self.pressure.read(self.clock.monotonic_ns(), &self.shared);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_read() {
        let gauges = Gauges::default();
        let place = source_of("host.load").unwrap();
        assert_eq!(gauges.read(place, 7), Reading::Missing(7));
        gauges.put("host.load", Some(1.5), 9);
        assert_eq!(gauges.read(place, 7), Reading::Value(1.5, 9));
        gauges.put("host.load", None, 10);
        assert_eq!(gauges.read(place, 7), Reading::Absent);
        gauges.put("no such source", Some(1.0), 11);
        assert_eq!(gauges.read(99, 7), Reading::Absent);
        assert_eq!(gauges.fault(place).unwrap(), "it is not there any more");
        gauges.fail("host.load", "no such number");
        assert_eq!(gauges.fault(place).unwrap(), "no such number");
        assert_eq!(gauges.broken(), [(place, "no such number".to_owned(), None)]);
        gauges.put("host.load", Some(1.5), 11);
        assert_eq!((gauges.fault(place), gauges.broken()), (None, vec![]));
        gauges.fail("host.load", "gone");
        assert_eq!(gauges.broken(), [(place, "gone".to_owned(), Some(11))]);
        let held = lock(&gauges.faults);
        let told = std::thread::scope(|scope| {
            let loop_thread = scope.spawn(|| gauges.put("probe.stuck", Some(2.0), 12));
            let end = Instant::now() + PERIOD;
            while !loop_thread.is_finished() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
            let told = loop_thread.is_finished();
            drop(held);
            told
        });
        assert!(told, "the control loop waits for whoever asks why a gauge is stale");
        assert_eq!(gauges.read(source_of("probe.stuck").unwrap(), 7), Reading::Value(2.0, 12));
        let last = SOURCES.len() + EXEC_MOST - 1;
        gauges.put_at(last, Some(2.5), 12);
        gauges.put_at(last + 1, Some(3.5), 13);
        assert_eq!((gauges.read(last, 7), gauges.read(last + 1, 7)), (Reading::Value(2.5, 12), Reading::Absent));
    }
}

// SPDX-License-Identifier: Apache-2.0
//! `beer-guard probe`: reads a little from each filesystem that storage clients use so little that their own requests tell nothing
//! in time, and writes how long that took into a latency segment of its own ([`crate::signals`] reads it). A service of its own
//! (beer-probe.service): a thread that waits for a dead disk cannot be ended, and keeps its whole process from ending.

mod disk;
mod root;
mod thin;
mod threads;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use intf::segment::{Filesystem, SegmentReader};
use policy::Config;

use crate::clock::Clock;
use crate::shared::Owner;
use thin::Traffic;
use threads::Threads;

pub use disk::DirectReader;
pub use root::readings_of;

/// The segment, in the folder of beer-probe.
pub const SEGMENT: &str = "probe.lat";

/// The heartbeat, and a look at how much clients do.
const LOOK: Duration = Duration::from_millis(100);

/// What a probe was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It read so many bytes.
    Read(u64),
    /// The disk failed.
    Failed,
    /// Nothing that could be measured: there is no file, or another one must be found.
    Nothing,
}

/// Reads from one filesystem. May wait for ever.
pub trait Reader: Send {
    /// Will it read? Otherwise it looks for something to read, which takes longer.
    fn ready(&self) -> bool;
    /// Does either; `device` is what is expected to be mounted there.
    fn read(&mut self, device: (u32, u32)) -> Outcome;
}

/// How a reader is made.
pub type MakeReader = dyn Fn(&Filesystem) -> Box<dyn Reader>;

/// Until the flag is up.
///
/// # Errors
/// Nobody owns the storage daemon's segment, or the own one cannot be written.
pub fn run(config: &Config, clock: Arc<dyn Clock>, make: &MakeReader, shutdown: &Arc<AtomicBool>) -> Result<()> {
    let owner = Owner::new(&config.latency.owner);
    let Some(owner) = owner.resolve(Path::new("/etc/passwd")) else {
        bail!("signals.latency.owner: there is no user `{}`", owner.name());
    };
    root::start(config, Arc::clone(&clock), shutdown)?;
    let mut storage = SegmentReader::new(&config.latency.segment, owner);
    let mut traffic = Traffic::default();
    let mut threads = Threads::new(&config.paths.probe, config.probe.interval_ns, Arc::clone(&clock));
    while !shutdown.load(Ordering::Relaxed) {
        let now_ns = clock.monotonic_ns();
        traffic.begin(now_ns);
        // While there is no storage daemon there are no clients.
        let heard = storage.poll(now_ns, &mut traffic).is_ok();
        if let Some(filesystems) = traffic.others.take() {
            threads.follow(&filesystems, make).context("the segment of beer-probe")?;
        }
        threads.want(|filesystem| config.probe.enabled && heard && traffic.thin(filesystem, now_ns));
        threads.beat(now_ns).context("the segment of beer-probe")?;
        std::thread::sleep(LOOK);
    }
    threads.end();
    Ok(())
}

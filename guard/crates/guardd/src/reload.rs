// SPDX-License-Identifier: Apache-2.0
//! SIGHUP: the configuration is read anew. One that is wrong changes nothing; what is held stays held either way. On a thread of its
//! own: the disk with the file may be the one that hangs, and who tells the watchdog that we live must not wait for it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use policy::Config;

use crate::check;
use crate::clock::Clock;
use crate::shared::{lock, Shared};

/// Nobody waits for this thread when the service ends.
const LOOK: Duration = Duration::from_secs(1);

/// The wish for it, and from where.
#[derive(Clone, Debug)]
pub struct Reload {
    /// Put up by the signal.
    pub wanted: Arc<AtomicBool>,
    /// The configuration.
    pub path: PathBuf,
}

/// What came of the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// When a configuration was last read well, CLOCK_REALTIME nanoseconds.
    pub good_ns: u64,
    /// Why the last one was refused; empty = it was not.
    pub error: String,
}

impl Reload {
    /// Until the flag is up; `config` is what is in force at first.
    pub fn run(&self, mut config: Config, shared: &Shared, clock: &dyn Clock, shutdown: &AtomicBool) {
        lock(&shared.reloaded).good_ns = clock.realtime_ns();
        while !shutdown.load(Ordering::Relaxed) {
            if self.wanted.swap(false, Ordering::Relaxed) {
                self.read(&mut config, shared, clock.realtime_ns());
            }
            std::thread::sleep(LOOK);
        }
    }

    fn read(&self, config: &mut Config, shared: &Shared, realtime_ns: u64) {
        let new = match check::load(&self.path) {
            Ok(new) => new,
            Err(error) => {
                eprintln!("<3>{error:#}; what was in force before stays so");
                lock(&shared.reloaded).error = format!("{error:#}");
                return;
            }
        };
        let (new, waiting) = config.reloaded(new);
        config.clone_from(&new);
        *lock(&shared.configuration) = Some(Box::new(new));
        *lock(&shared.reloaded) = Reloaded { good_ns: realtime_ns, error: String::new() };
        match waiting[..] {
            [] => eprintln!("<5>{}: in force now", self.path.display()),
            _ => {
                eprintln!(
                    "<4>{}: in force now, but for what needs a restart: {}",
                    self.path.display(),
                    waiting.join(", ")
                )
            }
        }
    }
}

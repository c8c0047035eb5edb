// SPDX-License-Identifier: Apache-2.0
//! `beer-guard run`: puts the threads together and watches over them.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use policy::Config;
use rustix::fs::{FlockOperation, Mode, OFlags};

use crate::actuators::{
    DisksActuator, IoMaxActuator, KillActuator, MemoryHighActuator, NetworkActuator, ShapingActuator, SliceFreezer,
    SqueezeActuator, SwapActuator, VacateActuator,
};
use crate::clock::Clock;
use crate::control::{ControlLoop, Parts, StateFile};
use crate::notify::Notifier;
use crate::operators::Operators;
use crate::publisher::Publisher;
use crate::reload::Reload;
use crate::report::{Reporter, QUEUE};
use crate::shared::{lock, Owner, Shared};
use crate::watch::Watch;
use crate::worker::{self, Knobs, Worker};
use crate::{memory, signals};

/// Pages of stack that each thread touches are locked; deep recursion has no place here.
const STACK: usize = 256 << 10;

/// How often the other threads are looked after and systemd is told; WatchdogSec= is five times that. Each look costs a wake-up; a
/// stop of the service waits for one.
const LOOK: Duration = Duration::from_millis(400);

/// The same until the control loop goes: the service is not started before.
const LOOK_AT_FIRST: Duration = Duration::from_millis(50);

/// Guards the node until the flag is up; takes over a new configuration when `reload` is wanted.
///
/// # Errors
/// The run folder cannot be written, another guard runs, or a thread died.
pub fn run(config: &Config, clock: Arc<dyn Clock>, shutdown: &Arc<AtomicBool>, reload: &Reload) -> Result<()> {
    let _only_one = only_one(&config.paths.run)?;
    let state_file = StateFile::create(&config.paths.run)?;
    let locked = memory::lock();
    if !locked {
        eprintln!("<4>memory could not be locked (LimitMEMLOCK=): the guard may wait for a page of its own");
    }
    let shared = Arc::new(Shared::default());
    let owner = Owner::new(&config.latency.owner);
    owner.resolve(Path::new("/etc/passwd"));
    let mut publisher = Publisher::new(config, &shared, &clock, locked);
    let (outbox, inbox) = sync_channel(QUEUE);
    let operators = Operators::new(config, Arc::clone(&clock), Arc::clone(&shared), outbox.clone())?;
    let mut reporter = Reporter::new(config, Arc::clone(&clock), Arc::clone(&shared), owner.clone());
    let slice = config.paths.cgroup.join(&config.paths.jobs_slice);
    let deadline = Duration::from_nanos(config.control_loop.action_deadline_ns);
    let io_max = IoMaxActuator::new(&slice, &config.paths.run, Path::new("systemctl"), deadline);
    let share = if config.node.dry_run { 1.0 } else { config.node.job_memory_high };
    let memory_high = MemoryHighActuator::new(&slice, &config.paths.run, share);
    let squeeze = SqueezeActuator::new(&slice, &config.paths.run, Path::new("systemctl"), deadline);
    let network = NetworkActuator::new(&config.paths.run, Path::new("systemctl"), deadline);
    let disks = DisksActuator::of_guard(&slice, &config.paths.run, Path::new("systemctl"), deadline);
    let swap = SwapActuator::new(&slice, &config.paths.run, Path::new("systemctl"), deadline)
        .allowed(config.node.swap_on_data_disks || config.node.dry_run);
    let vacate = VacateActuator::new(Path::new("/"), &slice, &config.paths.run);
    let kill = KillActuator::new(Path::new("/"), &slice, deadline);
    let knobs = Knobs { io_max, memory_high, squeeze, network, disks, swap, vacate, kill };
    let mut worker =
        Worker::new(knobs, Arc::clone(&clock), Arc::clone(&shared), outbox.clone()).dry_run(config.node.dry_run);
    let (wishes, wished) = sync_channel(worker::QUEUE);
    let mut watch_gauges = Watch::new(config, Arc::clone(&clock), Arc::clone(&shared));
    let mut control = ControlLoop::new(Parts {
        config: config.clone(),
        clock: Arc::clone(&clock),
        shared: Arc::clone(&shared),
        outbox,
        signals: signals::all(config, owner),
        freezer: SliceFreezer::remembering(&slice, &config.paths.run).dry_run(config.node.dry_run),
        shaping: ShapingActuator::new(&config.paths.control),
        worker: wishes,
        state_file,
    });

    let thread = |name: &str| Builder::new().name(name.into()).stack_size(STACK);
    let stop = Arc::clone(shutdown);
    // The loop ends with its thread, and the channels with the loop: actuators and reporter drain them then and end too.
    let control = thread("control").spawn(move || control.run(&stop)).context("control thread")?;
    let worker = thread("actuators").spawn(move || worker.run(&wished)).context("actuator thread")?;
    let reporter = thread("reporter").spawn(move || reporter.run(&inbox)).context("reporter thread")?;
    let stop = Arc::clone(shutdown);
    let publisher = thread("publisher").spawn(move || publisher.run(&stop)).context("publisher thread")?;
    let (stop, reload, in_force) = (Arc::clone(shutdown), reload.clone(), config.clone());
    let (known, time) = (Arc::clone(&shared), Arc::clone(&clock));
    let reload =
        thread("reload").spawn(move || reload.run(in_force, &known, &*time, &stop)).context("reload thread")?;
    let stop = Arc::clone(shutdown);
    let gauges = thread("watch").spawn(move || watch_gauges.run(&stop)).context("watch thread")?;
    let stop = Arc::clone(shutdown);
    let operators = thread("operators").spawn(move || operators.run(&stop)).context("operators thread")?;

    let threads = [&worker, &reporter, &publisher, &gauges, &reload, &operators];
    watch(&shared, shutdown, || control.is_finished() || threads.iter().any(|thread| thread.is_finished()))?;
    if control.join().is_err() {
        bail!("the control loop failed");
    }
    // A journal on a stuck disk must not keep the service from ending.
    let patience = Instant::now() + Duration::from_secs(2);
    while !(worker.is_finished() && reporter.is_finished()) && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Tells systemd that we live, but only while the control loop moves.
fn watch(shared: &Shared, shutdown: &AtomicBool, ended: impl Fn() -> bool) -> Result<()> {
    let notifier = Notifier::from_environment();
    let mut seen = 0;
    let mut ready = false;
    while !shutdown.load(Ordering::Relaxed) {
        std::thread::sleep(if ready { LOOK } else { LOOK_AT_FIRST });
        if ended() && !shutdown.load(Ordering::Relaxed) {
            shutdown.store(true, Ordering::Relaxed);
            bail!("a thread of the guard ended by itself");
        }
        let ticks = shared.ticks.load(Ordering::Relaxed);
        if !ready && ticks > 0 {
            ready = true;
            notifier.ready();
        }
        if ticks != seen {
            seen = ticks;
            let view = lock(&shared.snapshot);
            let (state, reason) = (view.state, view.reason);
            drop(view);
            notifier.alive(&format!("{state} ({})", reason.name()));
        }
    }
    notifier.stopping();
    Ok(())
}

/// Two guards would freeze and thaw against each other.
fn only_one(run: &Path) -> Result<OwnedFd> {
    let path = run.join("lock");
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let fd = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o600))
        .with_context(|| format!("{}: cannot be written", path.display()))?;
    rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive)
        .with_context(|| format!("{}: another beer-guard runs", path.display()))?;
    Ok(fd)
}

// SPDX-License-Identifier: Apache-2.0
//! The control loop: one thread that looks, decides and writes `cgroup.freeze`. It never waits for a disk, a lock
//! or another thread, and allocates nothing in steady state.

mod act;
mod data_disks;
mod leave;
mod limits;
mod look;
mod node;
mod pace;
mod publish;
mod state_file;
mod taking;
mod times;

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::Arc;

use intf::state::{NodeState, StateLine};
use policy::{Actions, Config, GaugeJudge, GaugeVerdict, Hold, Inputs, Ladder, Level, Resource, Shares};

use crate::actuators::freeze::Effect;
use crate::actuators::shaping::Fault;
use crate::actuators::{FreezeActuator, Freezer, Held, ShapingActuator};
use crate::clock::Clock;
use crate::report::Message;
use crate::shared::{Shared, SignalHealth};
use crate::signals::{Board, Reading, Signal};
use crate::worker::Wish;

use data_disks::DataDisks;
use leave::Leaving;
use limits::Limits;
use look::Slot;
use taking::Taking;

pub use node::Node;
pub use state_file::StateFile;
pub use times::LoopTimes;

/// The loop and everything it owns.
pub struct ControlLoop<F: Freezer> {
    config: Config,
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
    outbox: SyncSender<Message>,
    signals: Vec<Slot>,
    board: Board,
    ladder: Ladder,
    freezer: FreezeActuator<F>,
    shaping: ShapingActuator,
    /// As it was told last.
    shaping_fault: Option<Fault>,
    gauges: Vec<GaugeJudge>,
    judged: Vec<GaugeVerdict>,
    /// Mount points, by index.
    filesystems: Vec<String>,
    begun_ns: u64,
    limits: Limits,
    /// What batch as a whole may have.
    shares: Shares,
    /// Batch is to have less CPU since then, and it is not yet known to be so.
    less_ns: Option<u64>,
    data_disks: DataDisks,
    leaving: Leaving,
    taking: Taking,
    worker: SyncSender<Wish>,
    /// It did not fit into the worker's channel.
    unsent: Option<Wish>,
    node: Node,
    state_file: StateFile,
    times: LoopTimes,
    totals: Totals,
    slow_due_ns: u64,
    /// Evidence, or an operator's order, was there until just before this.
    uneasy_until_ns: u64,
    published: Option<(NodeState, bool, Hold)>,
    names_version: u64,
    jobs_version: u64,
}

/// What the loop itself counts.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    tick_ns: u64,
    precaution_ns: u64,
    frozen_ns: u64,
    rest_ns: u64,
    drifts: u64,
}

/// What a loop is made of.
pub struct Parts<F> {
    /// The checked configuration.
    pub config: Config,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What other threads see.
    pub shared: Arc<Shared>,
    /// To the reporter.
    pub outbox: SyncSender<Message>,
    /// The sources.
    pub signals: Vec<Box<dyn Signal>>,
    /// The knob.
    pub freezer: F,
    /// The other knob: what jobs do through the storage daemons.
    pub shaping: ShapingActuator,
    /// To the thread that turns the slow knobs.
    pub worker: SyncSender<Wish>,
    /// Where the state line goes.
    pub state_file: StateFile,
}

impl<F: Freezer> ControlLoop<F> {
    /// Takes over the node as it is: what is found frozen stays frozen until the ladder thaws it.
    pub fn new(parts: Parts<F>) -> Self {
        let Parts { config, clock, shared, outbox, signals, mut freezer, shaping, worker, state_file } = parts;
        let now_ns = clock.monotonic_ns();
        let mut board = Board::new(&config);
        let dry = config.node.dry_run;
        board.jobs.look(true, &board.throttles.jobs());
        freezer.know(&board.jobs);
        let mut freezer = FreezeActuator::new(freezer);
        if dry {
            // What a guard before it had frozen.
            freezer.undo(|| clock.monotonic_ns());
        }
        board.hold = freezer.applied();
        let ladder = config.ladder.clone();
        let ladder = match freezer.applied() {
            hold if state_file.before() == Some(NodeState::Emergency) && !dry => {
                Ladder::adopt_emergency(ladder, hold, now_ns)
            }
            Hold::Nobody => Ladder::new(ladder, now_ns),
            // They rested, or waited for their turn: a freeze of some begins as one of all. The first tick lets them run.
            Hold::Jobs(_) if state_file.before().is_some_and(|state| state < NodeState::Frozen) => {
                Ladder::new(ladder, now_ns)
            }
            hold => Ladder::adopt(ladder, hold, now_ns),
        };
        let slot = |signal: Box<dyn Signal>| {
            let health = SignalHealth { name: signal.name(), reading: Reading::Absent, value_ns: 0, took_ns: 0 };
            Slot { signal, read_ns: None, good_ns: now_ns, health }
        };
        ControlLoop {
            board,
            node: Node::new(&config),
            signals: signals.into_iter().map(slot).collect(),
            times: LoopTimes::new(config.control_loop.tick_ns),
            totals: Totals { tick_ns: now_ns, ..Totals::default() },
            slow_due_ns: 0,
            uneasy_until_ns: 0,
            published: None,
            names_version: u64::MAX,
            jobs_version: u64::MAX,
            clock,
            shared,
            outbox,
            ladder,
            freezer,
            shaping,
            shaping_fault: None,
            gauges: config.gauges.iter().map(GaugeJudge::new).collect(),
            judged: vec![GaugeVerdict::default(); config.gauges.len()],
            filesystems: Vec::new(),
            begun_ns: now_ns,
            limits: Limits::default(),
            shares: Shares::default(),
            less_ns: None,
            data_disks: DataDisks::default(),
            leaving: Leaving::default(),
            taking: Taking::new(),
            worker,
            unsent: None,
            state_file,
            config,
        }
    }

    /// Ticks until the flag is up, then thaws and says so.
    pub fn run(&mut self, shutdown: &AtomicBool) {
        let tick_ns = self.config.control_loop.tick_ns;
        let mut next_ns = self.clock.monotonic_ns();
        while !shutdown.load(Ordering::Relaxed) {
            let now_ns = self.clock.monotonic_ns();
            self.tick(now_ns);
            // After a long stall the lost ticks are skipped, not made up for.
            next_ns = (next_ns + self.board.evaluator.next_tick_ns(tick_ns)).max(now_ns);
            self.pause(next_ns);
        }
        self.stop();
    }

    /// Looks, decides, acts.
    pub fn tick(&mut self, now_ns: u64) {
        if now_ns >= self.slow_due_ns {
            self.slow_due_ns = now_ns + self.config.control_loop.slow_ns;
            self.take_over();
            self.shared.addresses.take(&mut self.board.daemons.claims_version, &mut self.board.daemons.claims);
            self.look_around(now_ns);
            self.taking.look(&self.shared.holdings, &self.board.jobs, now_ns);
            self.follow_mounts();
            self.put_gauges(now_ns);
        }
        self.board.evaluator.begin(now_ns);
        self.read_signals(now_ns);
        self.follow_jobs();
        for objective in 0..self.config.objectives.len() as u16 {
            self.board.evaluator.excuse(objective, self.ladder.excused(objective, now_ns));
        }
        self.board.evaluator.finish(now_ns, self.board.storage, self.ladder.acting());
        self.board.uneasy = self.board.evaluator.verdicts().iter().any(|verdict| verdict.level > Level::Calm);
        self.read_gauges(now_ns);
        self.limits.look(&self.board);
        let less_awaited = self.less_awaited(now_ns);
        let inputs = Inputs {
            verdicts: self.board.evaluator.verdicts(),
            gauges: &self.judged,
            filesystems: self.board.evaluator.filesystems(),
            batch_share: &self.board.batch_share,
            batch_share_now: &self.board.batch_share_now,
            workers: &self.board.workers,
            guilty: &self.board.guilty,
            others_use: &self.board.others_use,
            rotational: self.board.rotational,
            held_work: &self.board.held_work,
            used: self.limits.used(),
            taken: self.limits.taken(),
            jobs: self.node.jobs(&self.board.jobs),
            living: self.board.jobs.living(),
            oldest_first: self.board.jobs.oldest_first(),
            taker: self.taking.found(&self.board.jobs),
            self_check: self.node.slice_present() && !self.signals.iter().any(|slot| slot.missed(now_ns)),
            drained: self.shared.orders.drained.load(Ordering::Relaxed),
            ordered: now_ns < self.shared.orders.freeze_until_ns.load(Ordering::Relaxed),
            resumed: self.shared.orders.resumed.swap(false, Ordering::Relaxed),
            less_awaited,
        };
        if self.board.uneasy || inputs.ordered || inputs.verdicts.iter().any(|verdict| verdict.stuck) {
            self.uneasy_until_ns = now_ns.saturating_add(self.config.ladder.hold_max_ns);
        }
        let actions = self.ladder.step(&inputs, now_ns);
        let (written, effect) = self.act(&actions, now_ns);
        self.tell(&actions, written);
        self.report(effect);
        self.account(&actions, now_ns);
        self.write_state(&actions, now_ns);
        self.publish(&actions, now_ns);
        self.times.record(now_ns, self.clock.monotonic_ns());
        self.shared.ticks.fetch_add(1, Ordering::Relaxed);
    }

    /// A new configuration, when there is one: the only tick that may allocate for it.
    fn take_over(&mut self) {
        // Somebody is just putting one there: the next second is early enough.
        let Some(new) = self.shared.configuration.try_lock().ok().and_then(|mut new| new.take()) else { return };
        let others = self.config.objectives != new.objectives;
        if others {
            self.board.evaluator.reconfigure(&new.objectives, &self.board.filesystems);
            self.names_version = u64::MAX;
        }
        if self.config.gauges != new.gauges {
            // Those that are as they were remember for how long they have been above, or below.
            let known = |objective| self.gauges.iter().find(|judge| judge.objective() == objective).cloned();
            let judge = |objective| known(objective).unwrap_or_else(|| GaugeJudge::new(objective));
            self.gauges = new.gauges.iter().map(judge).collect();
            self.judged = vec![GaugeVerdict::default(); new.gauges.len()];
            self.names_version = u64::MAX;
        }
        self.ladder.reconfigure(new.ladder.clone(), others);
        self.node.limit(new.capacity.clone());
        self.config = *new;
    }

    /// Who has come or gone: the knobs and the reporter are to know.
    fn follow_jobs(&mut self) {
        if self.jobs_version != self.board.jobs.version() {
            self.jobs_version = self.board.jobs.version();
            self.freezer.know(&self.board.jobs);
            self.send(Message::Jobs(self.board.jobs.names()));
        }
    }

    fn report(&self, effect: Option<Effect>) {
        if let Some(effect) = effect {
            self.send(Message::Effect(effect));
        }
    }

    fn tell(&self, actions: &Actions, written: bool) {
        for event in actions.events.iter() {
            self.send(Message::Decision { event: *event, written });
        }
        self.shared.dropped.fetch_add(u64::from(actions.events.dropped), Ordering::Relaxed);
    }

    fn account(&mut self, actions: &Actions, now_ns: u64) {
        let elapsed = now_ns.saturating_sub(self.totals.tick_ns);
        self.totals.tick_ns = now_ns;
        if !actions.resting.is_empty() && !self.config.node.dry_run {
            self.totals.rest_ns += elapsed;
        }
        match (self.board.hold.any(), actions.precaution) {
            (true, true) => self.totals.precaution_ns += elapsed,
            (true, false) => self.totals.frozen_ns += elapsed,
            (false, _) => {}
        }
    }

    /// In a dry run HTCondor hears of nothing but of an operator.
    fn admit(&self, actions: &Actions) -> bool {
        match self.config.node.dry_run {
            true => !self.shared.orders.drained.load(Ordering::Relaxed),
            false => actions.admit,
        }
    }

    /// What may be offered: of what batch has less of, so much less.
    fn capacity(&self) -> (u32, u64) {
        let (cores, memory_mb) = self.node.capacity();
        let part = |all: f64, resource| all * f64::from(self.shares.of(resource));
        let cores = part(f64::from(cores), Resource::Cpu).ceil() as u32;
        (cores, part(memory_mb as f64, Resource::Memory) as u64)
    }

    fn write_state(&mut self, actions: &Actions, now_ns: u64) {
        let (dry, admit) = (self.config.node.dry_run, self.admit(actions));
        let (cores, memory_mb) = if admit { self.capacity() } else { (0, 0) };
        let dry_state = if admit { NodeState::Open } else { NodeState::Closed };
        let line = StateLine {
            state: if dry { dry_state } else { actions.state },
            admit,
            heartbeat: self.clock.realtime_ns() / 1_000_000_000,
            monotonic_ns: now_ns,
            reason: if dry { "dry_run" } else { actions.reason.name() },
            cores,
            memory_mb,
        };
        self.state_file.write(&line);
    }

    /// Waits for the next tick, or for the effect of a write just made.
    fn pause(&mut self, next_ns: u64) {
        loop {
            let now_ns = self.clock.monotonic_ns();
            if now_ns >= next_ns {
                return;
            }
            if !pace::wait(self.freezer.awaited(), next_ns - now_ns) {
                continue;
            }
            let effect = self.freezer.read_back(self.clock.monotonic_ns());
            self.report(effect);
        }
    }

    /// The end on purpose: nothing stays frozen, nothing new starts.
    fn stop(&mut self) {
        self.send(Message::Stopping);
        let clock = &self.clock;
        let effect = self.freezer.undo(|| clock.monotonic_ns());
        self.shaping.keep(Held::Nothing, clock.monotonic_ns());
        self.report(effect);
        self.state_file.write(&StateLine {
            // The next guard is to know.
            state: if self.ladder.state() == NodeState::Emergency { NodeState::Emergency } else { NodeState::Closed },
            admit: false,
            heartbeat: self.clock.realtime_ns() / 1_000_000_000,
            monotonic_ns: self.clock.monotonic_ns(),
            reason: "guard_stopped",
            cores: 0,
            memory_mb: 0,
        });
    }

    fn send(&self, message: Message) {
        deliver(&self.outbox, &self.shared, message);
    }
}

/// Never waits: a reporter that is stuck on a disk costs records, not reactions.
fn deliver(outbox: &SyncSender<Message>, shared: &Shared, message: Message) {
    if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = outbox.try_send(message) {
        Shared::count(&shared.dropped);
    }
}

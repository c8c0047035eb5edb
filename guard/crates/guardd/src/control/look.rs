// SPDX-License-Identifier: Apache-2.0
//! What a tick looks at: signals as they are due, gauges, jobs, mounts, and whether somebody else has turned a knob.

use std::sync::Arc;

use super::{deliver, ControlLoop};
use crate::actuators::freeze::Drift;
use crate::actuators::Freezer;
use crate::report::Message;
use crate::shared::{Shared, SignalHealth};
use crate::signals::{Reading, Signal, Worst};

/// A signal that has been broken for longer than this, and for two of its periods, is missed.
const SIGNAL_GRACE_NS: u64 = 10_000_000_000;

/// A signal and how it is doing.
pub(super) struct Slot {
    pub signal: Box<dyn Signal>,
    pub read_ns: Option<u64>,
    /// When it was last not broken: a value, or nothing to be had here.
    pub good_ns: u64,
    pub health: SignalHealth,
}

impl Slot {
    /// Objectives have a grace time of their own for the latency segment.
    pub fn missed(&self, now_ns: u64) -> bool {
        let grace_ns = SIGNAL_GRACE_NS + 2 * self.signal.period_ns();
        self.health.name != "latency" && now_ns.saturating_sub(self.good_ns) > grace_ns
    }
}

impl<F: Freezer> ControlLoop<F> {
    /// Once a second: the files of the cgroups, and whether somebody else wrote our knobs.
    pub(super) fn look_around(&mut self, now_ns: u64) {
        // First who has ended: his knob is gone, and nobody has changed it.
        self.board.jobs.look_again(self.board.hold.any(), &self.board.throttles.jobs(), now_ns);
        self.follow_jobs();
        let drift = self.freezer.inspect();
        if drift == Some(Drift::Changed) {
            self.totals.drifts += 1;
            self.send(Message::Drifted { of: "who stands still and who does not", at_ns: now_ns });
        }
        if self.shaping.drifted() {
            Shared::count(&self.shared.limit_drifts);
            self.send(Message::Drifted { of: "what batch may do through the storage daemons", at_ns: now_ns });
        }
        let before = self.node.slice_present();
        let first = !self.node.looked();
        self.node.look(drift.is_some());
        if first || before != self.node.slice_present() {
            self.send(Message::Slice { present: self.node.slice_present() });
        }
    }

    pub(super) fn follow_mounts(&mut self) {
        // Somebody is just putting others there: the next second is early enough.
        let Ok(mounts) = self.shared.mounts.try_lock() else { return };
        if !Arc::ptr_eq(&mounts, &self.board.mounts) {
            self.board.mounts = Arc::clone(&mounts);
            self.board.mounts_version += 1;
        }
    }

    /// Those gauges that are read here and not by the watch thread.
    pub(super) fn put_gauges(&self, now_ns: u64) {
        let overloaded = self.board.overloaded.map(|filesystems| filesystems as f64);
        self.shared.gauges.put("storage.overloaded", overloaded, now_ns);
        let stuck = self.board.probes_stuck.map(|filesystems| filesystems as f64);
        self.shared.gauges.put("probe.stuck", stuck, now_ns);
        let at_ns = self.board.worst_disk.map_or(now_ns, |(_, at_ns)| at_ns);
        let put = |name, of: fn(Worst) -> f64| {
            self.shared.gauges.put(name, self.board.worst_disk.map(|(worst, _)| of(worst)), at_ns);
        };
        put("storage.disk.await", |worst| worst.await_s);
        put("storage.disk.queue", |worst| worst.queue);
        put("storage.disk.utilisation", |worst| worst.utilisation);
        put("storage.disk.gone", |worst| f64::from(worst.gone));
    }

    pub(super) fn read_signals(&mut self, now_ns: u64) {
        for slot in &mut self.signals {
            let period_ns = if self.board.uneasy { slot.signal.hurried_ns() } else { slot.signal.period_ns() };
            let due = slot.read_ns.is_none_or(|read_ns| now_ns >= read_ns + period_ns);
            if !due && !slot.signal.urgent(&self.board) {
                continue;
            }
            slot.read_ns = Some(now_ns);
            let begun = self.clock.monotonic_ns();
            let reading = slot.signal.read(now_ns, &mut self.board);
            slot.health.took_ns = self.clock.monotonic_ns().saturating_sub(begun);
            if reading == Reading::Value {
                slot.health.value_ns = now_ns;
            }
            if reading != Reading::Broken {
                slot.good_ns = now_ns;
            }
            if reading != slot.health.reading || slot.signal.fault_changed() {
                let fault = (reading != Reading::Value).then(|| slot.signal.fault().into_boxed_str());
                let message = Message::Signal { name: slot.health.name, reading, fault };
                deliver(&self.outbox, &self.shared, message);
            }
            slot.health.reading = reading;
        }
        if self.names_version != self.board.filesystems_version {
            self.names_version = self.board.filesystems_version;
            self.follow_filesystems();
            let gauges = self.gauges.iter().map(|judge| judge.objective().name.clone()).collect();
            let names = Arc::new(policy::Names { gauges, ..self.board.evaluator.names().clone() });
            self.send(Message::Names(names));
        }
    }

    /// A storage daemon that comes back with other disks must not have the limits of these on those.
    fn follow_filesystems(&mut self) {
        let paths = self.board.filesystems.iter().map(|filesystem| &filesystem.path);
        if paths.clone().eq(&self.filesystems) {
            return;
        }
        self.filesystems = paths.cloned().collect();
        self.ladder.other_filesystems();
        self.limits.forget();
    }

    pub(super) fn read_gauges(&mut self, now_ns: u64) {
        for (judge, verdict) in self.gauges.iter_mut().zip(&mut self.judged) {
            let reading = self.shared.gauges.read(judge.objective().source, self.begun_ns);
            *verdict = judge.judge(reading, now_ns);
        }
    }
}

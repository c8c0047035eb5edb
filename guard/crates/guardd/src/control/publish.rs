// SPDX-License-Identifier: Apache-2.0
//! What other threads see of the loop: on a change, and once a second.

use policy::{Actions, Hold};

use super::ControlLoop;
use crate::actuators::Freezer;

impl<F: Freezer> ControlLoop<F> {
    /// Never waits: the next tick is early enough.
    pub(super) fn publish(&mut self, actions: &Actions, now_ns: u64) {
        let current = Some((actions.state, actions.precaution, self.freezer.applied()));
        // Another thread copies the last view just now: the next tick is early enough.
        let Ok(mut view) = self.shared.snapshot.try_lock() else { return };
        let age_ns = now_ns.saturating_sub(view.at_ns);
        if self.published == current && age_ns < self.config.control_loop.slow_ns && view.at_ns != 0 {
            return;
        }
        self.published = current;
        let admit = self.admit(actions);
        let (cores, memory_mb) = if admit { self.capacity() } else { (0, 0) };
        view.at_ns = now_ns;
        (view.state, view.precaution, view.admit) = (actions.state, actions.precaution, admit);
        (view.reason, view.quarantined, view.gone) = (actions.reason, actions.quarantined, self.board.gone);
        (view.cores, view.memory_mb, view.jobs) = (cores, memory_mb, self.node.jobs(&self.board.jobs));
        view.held_jobs = match self.board.hold {
            Hold::Nobody => 0,
            Hold::Jobs(set) => set.len() as u32,
            Hold::All => view.jobs.unwrap_or_default(),
        };
        view.resting_jobs = actions.resting.len() as u32;
        view.located_jobs = self.board.daemons.located();
        view.slice = self.node.slice_present();
        (view.leave, view.filled) = (actions.leave, actions.filled);
        view.shares = self.shares;
        (view.throttles, view.hold) = (actions.throttles, self.freezer.applied());
        (view.limits, view.together) = (self.limits.jobs(), self.limits.together());
        (view.precaution_ns, view.frozen_ns) = (self.totals.precaution_ns, self.totals.frozen_ns);
        view.rest_ns = self.totals.rest_ns;
        (view.held, view.shaping_failed) = (self.shaping.held(), self.shaping_fault.is_some());
        (view.drifts, view.counters) = (self.totals.drifts, *self.ladder.counters());
        copy(self.board.evaluator.verdicts(), &mut view.verdicts);
        copy(&self.judged, &mut view.gauges);
        copy(self.board.evaluator.filesystems(), &mut view.loads);
        copy(&self.board.disks, &mut view.disks);
        copy(&self.board.batch_share, &mut view.batch_share);
        view.histograms.clone_from(&self.board.histograms);
        view.samples.clear();
        view.signals.clear();
        for slot in &self.signals {
            slot.signal.sample(&mut view.samples);
            view.signals.push(slot.health);
        }
        view.times.clone_from(&self.times);
    }
}

fn copy<T: Copy>(from: &[T], to: &mut Vec<T>) {
    to.clear();
    to.extend_from_slice(from);
}

// SPDX-License-Identifier: Apache-2.0
//! Records of limits: who gets how much of which disk, and whether it is so.

use intf::journal::{Outcome, Record};
use intf::shaping::Allowance;

use super::Reporter;
use crate::actuators::io_max::{in_words, Limit};
use crate::worker::Limited;

impl Reporter {
    /// One record for those who are limited, and one for those who are no more.
    pub(super) fn limited(&mut self, limited: &Limited) {
        let (less, all): (Vec<_>, Vec<_>) = limited.outcomes.iter().partition(|outcome| !outcome.limits.is_empty());
        for (action, cause, outcomes) in [("limit", "made_storage_slow", less), ("unlimit", "throttle_over", all)] {
            if outcomes.is_empty() {
                continue;
            }
            let mut record = self.own_record(action, cause, limited.decided_ns);
            record.duration_ns = limited.ended_ns.saturating_sub(limited.decided_ns);
            record.jobs = outcomes.iter().map(|outcome| self.identities.of(&outcome.scope)).collect();
            record.jobs_of = self.jobs.iter().flatten().count() as u32;
            let limits = outcomes.iter().flat_map(|outcome| &outcome.limits);
            record.detail = limits.map(Limit::words).collect::<Vec<_>>().join(", ");
            if let Some(error) = outcomes.iter().find_map(|outcome| outcome.seen.as_ref().err()) {
                (record.outcome, record.detail) = (Outcome::Failed, format!("{error:#}"));
                self.log.warning(&record.detail);
            }
            self.write(record);
        }
    }

    /// What follows it, if anything, has a record of its own.
    pub(super) fn drifted(&mut self, of: &str, at_ns: u64) {
        let record = Record { detail: of.into(), ..self.own_record("correct", "somebody_else_had_changed_it", at_ns) };
        self.write(record);
    }

    /// What batch may do through the storage daemons is less than before: written to the shaping segment in the same tick.
    pub(super) fn slowed(&mut self, allowance: &Allowance, decided_ns: u64) {
        let mut record = self.own_record("limit", "made_storage_slow", decided_ns);
        let words = in_words(allowance.device, allowance.operations, allowance.bytes);
        record.detail = format!("{words} through the storage daemons");
        self.write(record);
    }
}

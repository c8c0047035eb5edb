// SPDX-License-Identifier: Apache-2.0
//! Records of jobs that were ended by force.

use intf::journal::Outcome;

use super::Reporter;
use crate::worker::Ended;

impl Reporter {
    /// One record for each job.
    pub(super) fn ended(&mut self, ended: &Ended) {
        let mut record = self.own_record("kill", ended.cause, ended.decided_ns);
        record.duration_ns = ended.ended_ns.saturating_sub(ended.decided_ns);
        record.jobs = vec![ended.job.clone()];
        record.jobs_of = self.jobs.iter().flatten().count() as u32;
        if let Err(error) = &ended.seen {
            (record.outcome, record.detail) = (Outcome::Failed, format!("{error:#}"));
            self.log.warning(&format!("{}: {}", ended.job.name(), record.detail));
        }
        self.write(record);
    }
}

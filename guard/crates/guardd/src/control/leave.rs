// SPDX-License-Identifier: Apache-2.0
//! From places to jobs: who is to leave, for the thread that tells HTCondor.

use std::sync::Arc;

use policy::{Actions, Hold};

use crate::actuators::vacate::Leaver;
use crate::jobs::{Job, JobTable};

/// Who is to leave.
#[derive(Debug, Default)]
pub struct Leaving {
    wanted: (Hold, Hold),
    version: u64,
    list: Arc<[Leaver]>,
}

impl Leaving {
    /// Takes over what the ladder wants. Has anything changed? Allocates only then.
    pub fn follow(&mut self, actions: &Actions, jobs: &JobTable) -> bool {
        let wanted = (actions.leave, actions.overdue);
        let same = wanted == self.wanted && (self.version == jobs.version() || !wanted.0.any());
        if same {
            return false;
        }
        (self.wanted, self.version) = (wanted, jobs.version());
        let leaving = jobs.iter().filter(|(place, _)| wanted.0.touches(*place));
        let leaver = |(place, job): (usize, &Job)| Leaver {
            scope: job.scope.as_str().into(),
            by_force: wanted.1.touches(place),
        };
        self.list = leaving.map(leaver).collect();
        true
    }

    /// All of them.
    pub fn list(&self) -> Arc<[Leaver]> {
        Arc::clone(&self.list)
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What the cgroup files of the node say, once a second: are there jobs, and what may be offered.

use kernfs::cgroup::Cgroup;
use policy::Config;

use crate::jobs::JobTable;

/// The cgroups of batch.
pub struct Node {
    batch: Cgroup,
    jobs: Cgroup,
    limits: policy::config::Capacity,
    looked: bool,
    present: bool,
    populated: Option<bool>,
    offer: (u32, u64),
}

impl Node {
    /// Looks at nothing yet.
    pub fn new(config: &Config) -> Self {
        let cgroup = |slice: &std::path::Path| Cgroup::new(config.paths.cgroup.join(slice));
        Node {
            batch: cgroup(&config.paths.batch_slice),
            jobs: cgroup(&config.paths.jobs_slice),
            limits: config.capacity.clone(),
            looked: false,
            present: false,
            populated: None,
            offer: (0, 0),
        }
    }

    /// Other limits of what is offered.
    pub fn limit(&mut self, limits: policy::config::Capacity) {
        self.limits = limits;
    }

    /// Reads the files. `present`: the slice of the jobs is there and its freezer can be read.
    pub fn look(&mut self, present: bool) {
        self.looked = true;
        self.present = present;
        self.populated = self.jobs.events().ok().flatten().map(|events| events.populated);
        let allowed = self.batch.cpu_count().ok().flatten();
        let cores = match (allowed, self.limits.cores) {
            (Some(allowed), Some(most)) => allowed.min(most),
            (Some(cores), None) | (None, Some(cores)) => cores,
            (None, None) => 0,
        };
        let limit = |cgroup: &mut Cgroup| cgroup.memory_max_bytes().ok().flatten().filter(|limit| *limit != u64::MAX);
        // The reserve is for what else lives in the outer slice; jobs never get more than their own slice has.
        let outer = limit(&mut self.batch).map(|bytes| bytes.saturating_sub(self.limits.memory_reserve_bytes));
        let inner = limit(&mut self.jobs);
        let bytes = [outer, inner, self.limits.memory_bytes].into_iter().flatten().min().unwrap_or_default();
        self.offer = (cores, bytes >> 20);
    }

    /// Has it been looked at?
    pub fn looked(&self) -> bool {
        self.looked
    }

    /// Is the slice of the jobs there?
    pub fn slice_present(&self) -> bool {
        self.present
    }

    /// Jobs in it, where known; what is not known the ladder takes for some. Tasks without a cgroup of their own are one job all
    /// together, containers of which nothing runs are none, and monitors that have outlived their containers are none either.
    pub fn jobs(&self, table: &JobTable) -> Option<u32> {
        let least = if table.monitored() { 0 } else { 1 };
        self.populated.map(|populated| if populated { table.count().max(least) } else { 0 })
    }

    /// Cores, and memory in MiB, that may be offered when batch is admitted.
    pub fn capacity(&self) -> (u32, u64) {
        self.offer
    }
}

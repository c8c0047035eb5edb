// SPDX-License-Identifier: Apache-2.0
//! Every metric there is. A test holds this table against the one in `guard/docs/metrics.md`.

/// How a metric behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only goes up while the guard lives.
    Counter,
    /// Goes both ways.
    Gauge,
    /// `_bucket`, `_sum`, `_count`.
    Histogram,
}

impl Kind {
    /// As in the exposition format.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// A metric.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it tells.
    pub help: &'static str,
    /// How it behaves.
    pub kind: Kind,
}

macro_rules! metrics {
    ($($kind:ident $constant:ident $name:literal $help:literal)*) => {
        $(
            #[doc = $help]
            pub static $constant: Metric = Metric { name: $name, help: $help, kind: Kind::$kind };
        )*
        /// All of them.
        pub static ALL: &[&Metric] = &[$(&$constant),*];
    };
}

metrics! {
    Gauge BUILD_INFO "beer_build_info" "Version of the guard; always 1."
    Gauge CONFIG_GOOD "beer_config_last_reload_successful" "1 if the last configuration that was read is in force, 0 if it was refused."
    Gauge CONFIG_SECONDS "beer_config_last_reload_success_timestamp_seconds" "When a configuration was last read well, Unix time."
    Gauge STATE "beer_state" "1 for the state the node is in, 0 for the others."
    Gauge STATE_SECONDS "beer_state_seconds" "How long the node has been in its state."
    Gauge PRECAUTION "beer_precaution" "1 while batch is frozen as a precaution."
    Gauge ADMIT "beer_admit" "1 while new jobs may start."
    Gauge OFFERED_CORES "beer_offered_cores" "Cores offered to batch now."
    Gauge OFFERED_MEMORY "beer_offered_memory_bytes" "Memory offered to batch now."
    Gauge JOBS "beer_jobs" "Job containers on the node."
    Gauge JOBS_HELD "beer_jobs_held" "Those of them that the guard has frozen."
    Gauge JOBS_RESTING "beer_jobs_resting" "Jobs that stand still for a while because they have had their part of a disk that clients use."
    Gauge JOBS_LOCATED "beer_jobs_located" "Jobs of which it is known from which address they come to the storage daemons."
    Gauge SLICE_PRESENT "beer_jobs_slice_present" "1 while the slice of the jobs is there."
    Gauge OBJECTIVE_LEARNED "beer_objective_learned" "1 if it judges the whole latency against a learned baseline, 0 if only the share over the threshold."
    Gauge OBJECTIVE_DEPENDENCE "beer_objective_dependence" "How many requests share one fate: evidence is divided by this, by 8 at most. 0 while unknown."
    Gauge OBJECTIVE_SLACK "beer_objective_slack" "1 = nothing slow or no user for 25 s, 0 = at the allowed share, negative = broken."
    Gauge OBJECTIVE_BUDGET "beer_objective_budget_left_ratio" "What is left of the error budget: 1 = all, 0 = nothing, negative = overspent; absent without one."
    Gauge OBJECTIVE_BURNING "beer_objective_budget_burning" "1 while the error budget is spent too fast, and no new jobs start; absent without one."
    Gauge OBJECTIVE_EVIDENCE "beer_objective_evidence" "Evidence of the worst series, in the unit of its label."
    Gauge OBJECTIVE_LEVEL "beer_objective_level" "0 = calm, 1 = weak, 2 = strong evidence."
    Gauge OBJECTIVE_FRESH "beer_objective_signal_fresh" "1 while the signal of the objective is current."
    Gauge OBJECTIVE_RATE "beer_objective_requests_per_second" "Requests judged for the objective."
    Gauge SOURCE_VALUE "beer_source_value" "The last reading of what gauges may watch, in the unit of its label; absent where this node does not have it."
    Gauge SOURCE_AGE "beer_source_age_seconds" "Age of the last reading of what gauges may watch."
    Gauge SOURCE_FAILED "beer_source_failed" "1 while a source that has been read cannot be read any more."
    Gauge GAUGE_VALUE "beer_watch_value" "The last reading of a gauge."
    Gauge GAUGE_AGE "beer_watch_age_seconds" "Age of that reading."
    Gauge GAUGE_BROKEN "beer_watch_broken" "1 while the gauge is above its limit, or too old, and lets no new jobs start."
    Counter ACTIONS "beer_actions_total" "Decisions by action and outcome."
    Counter PRECAUTIONS "beer_precautionary_freezes_total" "Precautionary freezes."
    Counter NEEDLESS "beer_precautionary_freezes_needless_total" "Precautionary freezes that no real freeze followed."
    Gauge NEEDLESS_SHARE "beer_precautionary_freezes_needless_ratio" "Share of the last hour spent in needless precautionary freezes."
    Counter FREEZES "beer_freezes_total" "Real freezes, for whatever reason; precautions are counted apart."
    Counter FROZEN_SECONDS "beer_frozen_seconds_total" "Time in which batch stood still, by kind of freeze."
    Counter REST_SECONDS "beer_rest_seconds_total" "Time in which some job stood still because it had had its part of a disk that clients use."
    Gauge THROTTLE_SHARE "beer_throttle_share_ratio" "Share that the jobs which made the disk slow get of what they did there then (it may come to be more than 1); absent where nobody is limited."
    Gauge THROTTLED_JOBS "beer_throttled_jobs" "Jobs that are limited on the disk."
    Gauge BATCH_ALLOWED "beer_batch_allowed_ratio" "Share that batch as a whole may have of the CPU, memory or network that it has when storage is well."
    Counter LIMIT_DRIFTS "beer_limit_drifts_total" "Times somebody else had changed a limit of a job, of batch as a whole, or of what it does through the storage daemons."
    Gauge BATCH_HELD "beer_storage_batch_held" "1 while batch requests wait in the storage daemons."
    Gauge SHAPING_FAILED "beer_shaping_failed" "1 while the shaping segment cannot be written, or the storage daemon does not apply it."
    Counter DRIFTS "beer_freezer_drifts_total" "Times somebody else had written cgroup.freeze of the jobs."
    Histogram STORAGE_LATENCY "beer_storage_latency_seconds" "Latency of operations in the storage layer, as libXrdBeer measured it."
    Counter STORAGE_BYTES "beer_storage_bytes_total" "Bytes read and written by the storage daemon."
    Counter STORAGE_ERRORS "beer_storage_errors_total" "Operations of the storage daemon that failed."
    Gauge IN_FLIGHT "beer_storage_requests_in_flight" "Requests inside the storage layer."
    Gauge OLDEST "beer_storage_oldest_request_seconds" "Age of the oldest storage request in flight."
    Gauge OPEN_READERS "beer_storage_open_readers" "Files open for reading."
    Gauge OPEN_WRITERS "beer_storage_open_writers" "Files open for writing."
    Gauge OVERLOADED "beer_storage_overloaded" "1 while the storage daemon takes no new files there (beer.overload)."
    Gauge FILLED "beer_filesystem_filled" "1 while its clients fill its disk: batch makes way there."
    Gauge QUARANTINED "beer_filesystem_quarantined" "1 while requests are stuck there and batch is not the reason."
    Gauge BATCH_SHARE "beer_filesystem_batch_ratio" "Share of the work on the device that is done for batch."
    Gauge DISK_UTILISATION "beer_disk_utilisation_ratio" "Share of the time in which the device had a request."
    Gauge DISK_QUEUE "beer_disk_queue_length" "Mean number of requests queued or served."
    Gauge DISK_AWAIT "beer_disk_await_seconds" "Mean time of a request at the device; while it completes none, for how long that is so."
    Gauge DISK_GONE "beer_disk_gone" "1 while the kernel does not have the device any more."
    Counter HOST_WAITING "beer_host_pressure_waiting_seconds_total" "Time in which some task waited for the resource."
    Counter HOST_STALLED "beer_host_pressure_stalled_seconds_total" "Time in which all tasks waited for the resource."
    Counter SEGMENT_RESTARTS "beer_segment_restarts_total" "Times a new writer of the latency segment was seen."
    Counter SEGMENT_DAMAGED "beer_segment_damaged_values_total" "Values of the latency segment that cannot be and were not used."
    Gauge SEGMENT_HEARTBEAT_AGE "beer_segment_heartbeat_age_seconds" "Age of the storage daemon's heartbeat."
    Gauge SEGMENT_SLOTS_OVERFLOW "beer_segment_slots_overflow" "Requests without a slot since the storage daemon started."
    Gauge SEGMENT_CLIENTS_OVERFLOW "beer_segment_clients_overflow" "Operations without a client record since the storage daemon started."
    Gauge SEGMENT_SHAPING "beer_segment_shaping_sequence" "Number of the shaping segment that the storage daemon has applied."
    Gauge SEGMENT_INTERNAL_ERRORS "beer_segment_internal_errors" "Exceptions caught in the plug-in since the storage daemon started."
    Counter PROBE_READS "beer_probe_reads_total" "Reads of beer-probe, which reads where storage clients read too little to be judged."
    Counter PROBE_SECONDS "beer_probe_read_seconds_total" "Time that these took."
    Counter PROBE_ERRORS "beer_probe_errors_total" "Those of them that failed."
    Gauge PROBE_OLDEST "beer_probe_oldest_seconds" "Age of the read of beer-probe in flight."
    Gauge PROBE_HEARTBEAT_AGE "beer_probe_heartbeat_age_seconds" "Age of the heartbeat of beer-probe."
    Gauge SIGNAL_SUCCESS "beer_guard_signal_success" "1 when the last reading of the signal gave a value."
    Gauge SIGNAL_DURATION "beer_guard_signal_duration_seconds" "Duration of the last reading."
    Gauge SIGNAL_AGE "beer_guard_signal_age_seconds" "Age of the last value."
    Counter SLICE_CPU "beer_slice_cpu_usage_seconds_total" "CPU time used by the slice."
    Gauge SLICE_MEMORY "beer_slice_memory_bytes" "Memory charged to the slice."
    Counter SLICE_READ "beer_slice_io_read_bytes_total" "Bytes read by the slice, by device."
    Counter SLICE_WRITTEN "beer_slice_io_written_bytes_total" "Bytes written by the slice, by device."
    Counter SLICE_WAITING "beer_slice_pressure_waiting_seconds_total" "Time in which some task of the slice waited for the resource."
    Counter SLICE_STALLED "beer_slice_pressure_stalled_seconds_total" "Time in which all tasks of the slice waited for the resource."
    Gauge SLICE_FROZEN "beer_slice_frozen" "1 while the kernel reports every task of the slice as frozen."
    Gauge SLICE_CPUS "beer_slice_cpus" "CPUs that the slice may use, as the kernel has it."
    Gauge SLICE_QUOTA "beer_slice_cpu_quota_cores" "Cores that it may use at a time, as the kernel has it; absent without a quota."
    Gauge SLICE_MEMORY_MAX "beer_slice_memory_max_bytes" "Most memory that it may have, as the kernel has it; absent without a limit."
    Gauge JOB_HELD "beer_job_held" "1 while the job in the slot stands still: frozen, or resting because it is left next to nothing."
    Counter JOB_CPU "beer_job_cpu_usage_seconds_total" "CPU time used by the job in the slot; begins anew with each job."
    Gauge JOB_MEMORY "beer_job_memory_bytes" "Memory charged to the job in the slot."
    Counter JOB_READ "beer_job_io_read_bytes_total" "Bytes that the job in the slot has read from devices itself."
    Counter JOB_WRITTEN "beer_job_io_written_bytes_total" "Bytes that the job in the slot has written to devices itself."
    Counter JOURNAL_RECORDS "beer_journal_records_total" "Decisions written to the journal."
    Counter JOURNAL_ERRORS "beer_journal_errors_total" "Decisions, or their flushes, that the journal's disk refused."
    Counter DROPPED "beer_guard_messages_dropped_total" "Messages that did not fit into the reporter's channel."
    Counter TICKS "beer_guard_ticks_total" "Ticks of the control loop."
    Counter LATE "beer_guard_ticks_late_total" "Ticks that came later than twice their period."
    Gauge LOOP_SECONDS "beer_guard_loop_seconds" "Duration of a tick over the last minutes."
    Counter LOOP_TOTAL "beer_guard_loop_seconds_total" "Time spent in ticks."
    Counter CPU "beer_guard_cpu_seconds_total" "CPU time of the guard."
    Gauge RSS "beer_guard_resident_memory_bytes" "Resident memory of the guard."
    Gauge SWAP_ON_DATA "beer_swap_on_data_disks" "Places that the kernel swaps to on disks that storage serves from, or that may be: the jobs have no swap while there are any, unless the site lets them."
    Gauge SCRATCH_ON_DATA "beer_scratch_on_data_disk" "1 where images and scratch of jobs are on a disk that storage serves from, or may be: jobs are slowed before their memory limit, unless the site does not want it."
    Gauge DRY_RUN "beer_guard_dry_run" "1 while nothing of what is decided is done."
    Gauge LOCKED "beer_guard_memory_locked" "1 when the guard's memory is locked."
}

// SPDX-License-Identifier: Apache-2.0
//! The journal (`/var/lib/beer/journal/*.jsonl`): one JSON object per decision; `beer why`, metrics, accounting and
//! benchmarks read this and nothing else as the history.

use crate::state::NodeState;
use serde::{Deserialize, Serialize};

/// One decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// CLOCK_REALTIME in nanoseconds since 1970.
    pub time_ns: u64,
    /// CLOCK_MONOTONIC, for durations across records of one boot.
    pub monotonic_ns: u64,
    /// State before.
    pub from: NodeState,
    /// State after.
    pub to: NodeState,
    /// Why, in one word of a fixed vocabulary (the policy's `Cause`): `strong_evidence`, `calm`, `batch_innocent`, ...
    pub cause: String,
    /// What was done, in one word: `freeze`, `extend`, `narrow`, `widen`, `thaw`, `stage`, `tighten`, `give_way`, `rest`, `go_on`,
    /// `lift`, `limit`, `unlimit`, `correct`, `squeeze`, `less_cpu`, `less_memory`, `less_network`, `all_cpu`, `all_memory`, `all_network`, `vacate`,
    /// `evacuate`, `kill`, `close`, `open`, `quarantine`, `release`, `drain`, `resume`, `hold`, `none`.
    pub action: String,
    /// Is this a precautionary freeze, or its end? Counted apart.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub precaution: bool,
    /// What it was based on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// The jobs touched: container scopes, HTCondor slots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<Job>,
    /// Of so many that were there.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub jobs_of: u32,
    /// What came of it.
    pub outcome: Outcome,
    /// The operator who ordered it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// Free text of the outcome, for a failure the error; of an order its reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// How long the action took, decision to effect.
    pub duration_ns: u64,
    /// For what ends a state: how long that state lasted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasted_ns: Option<u64>,
    /// What was measured of the one job that was chosen for its memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Sign>,
}

/// What speaks against a job in the last minute, where memory is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sign {
    /// It grew.
    Growth {
        /// Bytes.
        bytes: u64,
        /// Of so many by which the memory of all jobs grew.
        of: u64,
    },
    /// Some of its tasks waited for memory (kernel, accounting/psi.rst).
    Wait {
        /// Microseconds.
        us: u64,
        /// Of so many for which jobs waited.
        of: u64,
    },
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What a decision was based on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Name of the objective; empty for what has none.
    pub objective: String,
    /// The series, for example `storage read on /data/01`.
    pub series: String,
    /// What was measured.
    pub value: f64,
    /// Against what.
    pub limit: f64,
    /// Unit of both: `nats` (log-likelihood), `seconds`, `share`.
    pub unit: String,
}

/// A job touched by a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Its cgroup below beer-jobs.slice.
    pub scope: String,
    /// Its HTCondor slot, where known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub slot: String,
    /// Its HTCondor job, for example `12.0`, where known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The user whose it is, where known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
}

impl Job {
    /// For people: `12.0 of alice in slot1_2`, or its container where HTCondor's name is not known.
    pub fn name(&self) -> String {
        let mut name = if self.id.is_empty() { self.scope.clone() } else { self.id.clone() };
        for (word, text) in [("of", &self.owner), ("in", &self.slot)] {
            if !text.is_empty() {
                name += &format!(" {word} {text}");
            }
        }
        name
    }
}

/// What came of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Done, and seen to be done in the kernel.
    Done,
    /// Written, not yet confirmed.
    Pending,
    /// It did not work; `detail` says why.
    Failed,
    /// Only said (dry run, or nothing to do).
    Skipped,
}

impl Record {
    /// One plain English sentence for `beer why`, without the time.
    pub fn sentence(&self) -> String {
        let what = match self.outcome {
            Outcome::Skipped => format!("Dry run: {}", self.what()),
            _ => self.what(),
        };
        let why = self.why();
        match (what.is_empty(), why.is_empty()) {
            (true, _) => format!("{}.", capitalised(&why)),
            (false, true) => format!("{what}."),
            (false, false) => format!("{what} because {why}."),
        }
    }

    fn what(&self) -> String {
        let place = self.place();
        let after = self.lasted_ns.map(|ns| format!(" after {}", seconds(ns as f64 / 1e9))).unwrap_or_default();
        match self.action.as_str() {
            "freeze" if self.precaution => "Batch was frozen as a precaution".into(),
            "freeze" => "Batch was frozen".into(),
            "extend" => "The precautionary freeze became a real one".into(),
            "narrow" => "The jobs that have no part in it were thawed".into(),
            "widen" => "All jobs were frozen again".into(),
            "limit" if self.outcome == Outcome::Failed => "Jobs could not be limited".into(),
            "limit" => format!("Jobs may do no more than {}", self.detail),
            "correct" => format!("The guard puts {} right", self.detail),
            "unlimit" => "Jobs have no limit on their disk any more".into(),
            "tighten" => "Those who are limited get half of what they had".into(),
            "give_way" => "Those who use it most are left next to nothing of it".into(),
            "rest" => "Those who are left next to nothing stand still: they have had their part of it".into(),
            "go_on" => "Those who stood still for what they had taken of a disk run again".into(),
            "lift" => "Nobody is limited any more".into(),
            "less_cpu" if self.cause.starts_with("signal_") => {
                "Batch as a whole is left its least of CPU, and through the storage daemons".into()
            }
            "less_cpu" => "Batch as a whole is to have less CPU".into(),
            "less_memory" => "Batch as a whole is to have less memory".into(),
            "less_network" => "Batch as a whole is to send and receive less".into(),
            "all_cpu" => "Batch is to have all of its CPU again".into(),
            "all_memory" => "Batch is to have all of its memory again".into(),
            "all_network" => "Batch may send and receive as before".into(),
            "squeeze" if self.outcome == Outcome::Failed => format!("Batch could not be limited ({})", self.detail),
            "squeeze" => format!("Batch as a whole has {}", self.detail),
            "thaw" if self.precaution => format!("The precautionary freeze ended{after}"),
            "thaw" => format!("Batch was thawed{after}"),
            "stage" => "The next of those who stood still run again".into(),
            "open" => "New jobs are let in".into(),
            "close" => "No new jobs are let in".into(),
            "vacate" if self.cause == "gauge_above" && self.jobs.len() == 1 => {
                "The youngest job is to leave the node".into()
            }
            "vacate" if self.cause == "memory_growth" => "The job whose memory grew most is to leave the node".into(),
            "vacate" if self.cause == "memory_wait" => "The job that waits most for memory is to leave the node".into(),
            "vacate" => "Jobs are to leave the node".into(),
            "evacuate" => "All jobs are to leave the node".into(),
            "kill" if self.outcome == Outcome::Failed => "Jobs could not be ended by force".into(),
            "kill" => "Jobs were ended by force".into(),
            "quarantine" => format!("{place} was put into quarantine"),
            "release" => format!("{place} was released from quarantine"),
            "drain" => format!("{} drained the node", self.by),
            "resume" => format!("{} gave the node back to batch", self.by),
            "hold" => format!(
                "{} asked for a freeze of {}",
                self.by,
                seconds(self.lasted_ns.unwrap_or_default() as f64 / 1e9)
            ),
            "none" => String::new(),
            other if self.from == self.to => format!("The guard did `{other}`"),
            other => format!("The guard did `{other}` and went from {} to {}", self.from, self.to),
        }
    }

    fn why(&self) -> String {
        let place = self.place();
        let measured = self.measured();
        match self.cause.as_str() {
            "start" => "the guard started".into(),
            "adopted" => "the guard started and found batch frozen".into(),
            "slack" => "all objectives had slack for long enough".into(),
            "weak_evidence" => format!("{place} is probably slower than usual{measured}"),
            "strong_evidence" => format!("{place} is slower than usual{measured}"),
            "evidence_returned" => format!("{place} became slower again as soon as batch ran again{measured}"),
            "batch_uses_disk" => format!("{place} is probably slower than usual and batch uses that disk{measured}"),
            "stuck" => format!("a request on {place} is stuck while batch uses it{measured}"),
            "stuck_without_batch" => {
                format!("a request there is stuck and batch does not use it{measured}; look at that disk")
            }
            "unstuck" => "its requests move again".into(),
            "precaution_over" => "storage stayed slow although batch stood still".into(),
            "calm" => "it was calm".into(),
            "batch_innocent" => format!("{place} stayed slow without batch{measured}: batch is innocent"),
            "guilty" => {
                let (all, those) = match self.jobs.len() {
                    1 => ("one job does", "it stays frozen"),
                    _ => ("few jobs do", "they stay frozen"),
                };
                format!("{all} most of what batch does on the disk of {place}: {those}")
            }
            "guilty_not_enough" => {
                format!("{place} stayed slow although those stood still that seemed guilty{measured}")
            }
            "throttle_not_enough" => {
                format!("{place} stayed slow although those who are limited were given less{measured}")
            }
            "clients_notice" => {
                let times = self.evidence.as_ref().map_or(String::new(), |e| {
                    format!(": {:.1} times as many as usual are slow, limit {:.1}", e.value, e.limit)
                });
                format!("clients begin to notice{times}")
            }
            "clients_fill_disk" => {
                format!("storage's clients fill the disk of {place}: so many of their requests are slow{measured}")
            }
            "clients_use_disk" => format!("storage's clients use the disk of {place}, of which they are left a small part"),
            "made_storage_slow" => "they made storage slow".into(),
            "rested" => {
                "what they had taken of that disk is made good, or it has room again, or no client uses it, or a minute is over".into()
            }
            "throttle_over" => "those who were limited have ended, or have had no need of more for long".into(),
            "freeze_max" => "nothing may stay frozen for longer".into(),
            "stood_too_long" => {
                "they have stood still again and again for what they did, for as long as is allowed in all".into()
            }
            "orphan" => "HTCondor's process that kept them has gone".into(),
            "left" => "those are gone who were to leave".into(),
            "vacate_overdue" => "HTCondor did not end those in time who were to leave".into(),
            "quiet" => "no job is left and storage has been well for long".into(),
            "resumed" => "an operator gave the node back to batch".into(),
            "slow_burn" => {
                let objective = self.evidence.as_ref().map_or("an objective", |e| e.objective.as_str());
                format!("{objective} is being broken slowly{measured}")
            }
            "budget" => {
                let objective = self.evidence.as_ref().map_or("an objective", |e| e.objective.as_str());
                let speed = self.evidence.as_ref().map_or(String::new(), |e| {
                    format!(", {:.1} times as fast as it may (limit {:.1})", e.value, e.limit)
                });
                format!("{objective} spends its error budget too fast{speed}")
            }
            "breach_without_batch" => format!("{place} is slow although batch is not the cause{measured}"),
            "signal_stale" => "the storage daemon has shown no sign of life for too long".into(),
            "signal_missing" => "the storage daemon shows nothing to measure".into(),
            "gauge_above" | "memory_growth" | "memory_wait" => {
                let gauge = self.evidence.as_ref().map_or("a gauge", |e| e.objective.as_str());
                let of_it = match self.memory {
                    None => String::new(),
                    Some(Sign::Growth { bytes, of }) => {
                        let (mib, of) = (bytes >> 20, of >> 20);
                        format!("; of {of} MiB by which the memory of all jobs grew in a minute {mib} MiB are its own")
                    }
                    Some(Sign::Wait { us, of }) => {
                        let (s, of) = (us / 1_000_000, of / 1_000_000);
                        format!("; of {of} s for which jobs waited for memory in a minute {s} s are its own")
                    }
                };
                format!("{gauge} is above its limit{measured}{of_it}")
            }
            "gauge_stale" => {
                let gauge = self.evidence.as_ref().map_or("a gauge", |e| e.objective.as_str());
                format!("{gauge} has not been read for too long")
            }
            "self_check" => "the guard's own checks fail".into(),
            "drained" => "an operator drained the node".into(),
            "ordered" => "an operator asked for it".into(),
            "slow_beside_batch" => {
                let objective = self.evidence.as_ref().map_or("an objective", |e| e.objective.as_str());
                format!("{objective} was broken each time that batch ran, and not for what batch does on a disk")
            }
            "squeeze_in_vain" => {
                let gauge = self.evidence.as_ref().map_or("a gauge", |e| e.objective.as_str());
                format!("{gauge} stayed above its limit although batch had less{measured}: batch is innocent")
            }
            "squeeze_over" => "storage has enough of it, or no job is left".into(),
            "storage_short" => {
                "storage was short of it, or slow each time that batch ran, or not heard for long".into()
            }
            "many_limited" => "what the kernel leaves each of many limited jobs would add up to too much".into(),
            "squeeze_lifted" => "less is not needed any more, or was of no use".into(),
            "swap_on_data_disk" => {
                "swap passes the limits of a disk (since Linux 6.12), and storage serves from that one, or may".into()
            }
            "swap_elsewhere" => "none of it lies on a disk that storage serves from, or the site wants it so".into(),
            "order_over" => "what an operator had asked for is over".into(),
            // Whoever it was gives the reason himself, or none.
            "operator" => self.detail.clone(),
            "weak_suspended" => {
                format!("precautionary freezes are suspended, they cost too much without need{measured}")
            }
            "weak_resumed" => "precautionary freezes are possible again".into(),
            other => other.replace('_', " "),
        }
    }

    /// What the evidence is about.
    fn place(&self) -> &str {
        match self.evidence.as_ref().map(|e| e.series.as_str()) {
            None | Some("") => "the storage service",
            Some(series) => series,
        }
    }

    /// ` (1.2 s, limit 0.8 s)`
    fn measured(&self) -> String {
        let Some(evidence) = self.evidence.as_ref().filter(|e| e.limit > 0.0 || e.value > 0.0) else {
            return String::new();
        };
        let number = |value: f64| match evidence.unit.as_str() {
            "seconds" => seconds(value),
            "share" if value < 0.01 => format!("{:.2} %", value * 100.0),
            "share" => format!("{:.0} %", value * 100.0),
            _ => format!("{value:.1}"),
        };
        let name = if evidence.unit == "nats" { "evidence " } else { "" };
        format!(" ({name}{}, limit {})", number(evidence.value), number(evidence.limit))
    }
}

fn seconds(value: f64) -> String {
    match value {
        v if v < 1.0 => format!("{:.0} ms", v * 1e3),
        v if v < 100.0 => format!("{v:.1} s"),
        v => format!("{v:.0} s"),
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(cause: &str, action: &str) -> Record {
        Record {
            time_ns: 1,
            monotonic_ns: 1,
            from: NodeState::Open,
            to: NodeState::Frozen,
            cause: cause.into(),
            action: action.into(),
            precaution: false,
            evidence: Some(Evidence {
                objective: "storage-read".into(),
                series: "storage read on /data/01".into(),
                value: 26.14,
                limit: 24.0,
                unit: "nats".into(),
            }),
            jobs: Vec::new(),
            jobs_of: 0,
            by: String::new(),
            outcome: Outcome::Done,
            detail: String::new(),
            duration_ns: 0,
            lasted_ns: Some(1_230_000_000),
            memory: None,
        }
    }

    #[test]
    fn sentences_are_english() {
        assert_eq!(
            record("strong_evidence", "freeze").sentence(),
            "Batch was frozen because storage read on /data/01 is slower than usual (evidence 26.1, limit 24.0)."
        );
        let mut stuck = record("stuck_without_batch", "quarantine");
        stuck.evidence = Some(Evidence {
            objective: "storage-read".into(),
            series: "/data/02".into(),
            value: 1.5,
            limit: 0.8,
            unit: "seconds".into(),
        });
        assert_eq!(
            stuck.sentence(),
            "/data/02 was put into quarantine because a request there is stuck and batch does not use it \
             (1.5 s, limit 800 ms); look at that disk."
        );
        let mut thaw = record("calm", "thaw");
        thaw.evidence = None;
        assert_eq!(thaw.sentence(), "Batch was thawed after 1.2 s because it was calm.");
        thaw.precaution = true;
        assert_eq!(thaw.sentence(), "The precautionary freeze ended after 1.2 s because it was calm.");
        let mut budget = record("budget", "close");
        budget.evidence = Some(Evidence {
            objective: "storage-read".into(),
            series: String::new(),
            value: 7.24,
            limit: 6.0,
            unit: "count".into(),
        });
        assert_eq!(
            budget.sentence(),
            "No new jobs are let in because storage-read spends its error budget too fast, \
             7.2 times as fast as it may (limit 6.0)."
        );
        let leaves = |cause, jobs: usize, memory| {
            let evidence = Evidence {
                objective: "storage-memory".into(),
                series: String::new(),
                value: 0.2,
                limit: 0.1,
                unit: "share".into(),
            };
            Record { evidence: Some(evidence), jobs: vec![Job::default(); jobs], memory, ..record(cause, "vacate") }
                .sentence()
        };
        assert_eq!(
            leaves("memory_growth", 1, Some(Sign::Growth { bytes: 900 << 20, of: 1 << 30 })),
            "The job whose memory grew most is to leave the node because storage-memory is above its limit \
             (20 %, limit 10 %); of 1024 MiB by which the memory of all jobs grew in a minute 900 MiB are its own."
        );
        assert_eq!(
            leaves("memory_wait", 1, Some(Sign::Wait { us: 40_900_000, of: 42_000_000 })),
            "The job that waits most for memory is to leave the node because storage-memory is above its limit \
             (20 %, limit 10 %); of 42 s for which jobs waited for memory in a minute 40 s are its own."
        );
        assert_eq!(
            leaves("gauge_above", 1, None),
            "The youngest job is to leave the node because storage-memory is above its limit (20 %, limit 10 %)."
        );
        assert!(leaves("gauge_above", 3, None).starts_with("Jobs are to leave the node because"));
        let notice =
            Evidence { objective: String::new(), series: String::new(), value: 2.04, limit: 1.5, unit: "count".into() };
        assert_eq!(
            Record { evidence: Some(notice), ..record("clients_notice", "tighten") }.sentence(),
            "Those who are limited get half of what they had because clients begin to notice: 2.0 times as many as usual \
             are slow, limit 1.5."
        );
        let full = Evidence {
            objective: String::new(),
            series: "/data/01".into(),
            value: 0.9,
            limit: 0.2,
            unit: "share".into(),
        };
        assert_eq!(
            Record { evidence: Some(full), ..record("clients_fill_disk", "give_way") }.sentence(),
            "Those who use it most are left next to nothing of it because storage's clients fill the disk of /data/01: so many \
             of their requests are slow (90 %, limit 20 %)."
        );
        assert_eq!(
            Record { detail: "limits of jobs on a disk".into(), ..record("somebody_else_had_changed_it", "correct") }
                .sentence(),
            "The guard puts limits of jobs on a disk right because somebody else had changed it."
        );
        let adopted = record("adopted", "none");
        assert_eq!(adopted.sentence(), "The guard started and found batch frozen.");
    }

    #[test]
    fn words_of_a_newer_guard_are_said_as_they_are() {
        let sentence = record("moon_phase", "dim").sentence();
        assert_eq!(sentence, "The guard did `dim` and went from open to frozen because moon phase.");
    }

    #[test]
    fn a_record_is_one_line_of_json_that_comes_back() {
        let record = record("calm", "thaw");
        let line = serde_json::to_string(&record).unwrap();
        assert!(!line.contains('\n') && !line.contains("precaution") && line.contains("\"from\":\"open\""), "{line}");
        assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), record);
    }
}

// SPDX-License-Identifier: Apache-2.0
//! When a steady excess closes the node, for `beer-guard check-config`: found by letting it happen. Deterministic.

use super::{Ended, ErrorBudget, RUN};
use crate::detector::trial::{quantile, Random};
use crate::evaluator::Slack;
use crate::objective::Objective;

/// What is stated about a steady excess: in 99 of 100 trials it closes the node within this. `None` = it may never do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stated {
    /// How many times the allowed share.
    pub factor: f64,
    /// Seconds until the slack of the last minute is gone, which closes the node for as long as it is.
    pub slack_s: Option<f64>,
    /// Seconds until the error budget closes it, for longer.
    pub budget_s: Option<f64>,
}

/// Trials.
const RUNS: u64 = 100;
/// Before the excess there is a time without any slow request.
const WELL_S: f64 = 300.0;

/// Requests at an even rate, of which some are slow: by chance, in runs.
pub(super) struct Traffic {
    /// Seconds between two looks.
    pub step_s: f64,
    /// Requests per second.
    pub rate: f64,
    /// Share of them that is slow.
    pub slow: f64,
    random: Random,
    due: f64,
    next_run_s: f64,
}

impl Traffic {
    pub fn new(seed: u64, rate: f64, step_s: f64) -> Traffic {
        Traffic { step_s, rate, slow: 0.0, random: Random::new(seed), due: 0.0, next_run_s: 0.0 }
    }

    /// What ended since the last look.
    pub fn step(&mut self) -> Ended {
        self.due += self.rate * self.step_s;
        let requests = self.due as u64;
        self.due = self.due.fract();
        let mut over = 0;
        if self.slow > 0.0 {
            self.next_run_s -= self.step_s;
            while self.next_run_s <= 0.0 {
                over += RUN as u64;
                self.next_run_s += self.random.exponential(RUN / (self.rate * self.slow));
            }
        }
        Ended { requests: requests.max(over), over, late: 0 }
    }
}

/// The share of slow requests is `factor` times the allowed one from some moment on, at `rate` requests per second.
pub fn stated(objective: &Objective, rate: f64, factor: f64) -> Stated {
    let found: Vec<(f64, f64)> = (1..=RUNS).map(|seed| trial(objective, rate, factor, seed)).collect();
    let within = |mut found: Vec<f64>| {
        found.sort_unstable_by(f64::total_cmp);
        Some(quantile(&found, 0.99)).filter(|seconds| seconds.is_finite())
    };
    Stated {
        factor,
        slack_s: within(found.iter().map(|(slack, _)| *slack).collect()),
        budget_s: within(found.iter().map(|(_, budget)| *budget).collect()),
    }
}

/// Seconds until slack and budget close the node; infinite = never.
fn trial(objective: &Objective, rate: f64, factor: f64, seed: u64) -> (f64, f64) {
    let window_s = objective.budget_window_ns.map_or(0.0, |ns| ns as f64 / 1e9);
    // Fine enough for the shortest window.
    let mut traffic = Traffic::new(seed, rate, (window_s / 86400.0).clamp(0.02, 1.0));
    let mut budget = ErrorBudget::new(objective, 0);
    let mut slack = Slack::default();
    let (mut slack_s, mut budget_s) = (f64::INFINITY, f64::INFINITY);
    // No rule looks back for longer than a tenth of the window, and a step.
    let until_s = (window_s / 9.0).max(10.0 * WELL_S);
    let mut now_s = -WELL_S;
    while now_s < until_s && (slack_s.is_infinite() || budget_s.is_infinite()) {
        now_s += traffic.step_s;
        traffic.slow = if now_s > 0.0 { (factor * objective.share).min(1.0) } else { 0.0 };
        let ended = traffic.step();
        slack.add(ended.requests, ended.over, traffic.step_s);
        if slack.left(objective.share) < 0.0 {
            slack_s = slack_s.min(now_s);
        }
        if let Some(budget) = &mut budget {
            budget.follow(ended, ((now_s + WELL_S) * 1e9) as u64);
            if budget.burning().is_some() {
                budget_s = budget_s.min(now_s);
            }
        }
    }
    (slack_s, budget_s)
}

// SPDX-License-Identifier: Apache-2.0
//! What is stated about a detector, for `beer-guard check-config` and the documentation.

use super::trial::{quantile, Health, Trial};
use crate::objective::{Level, Objective};
use intf::segment::{Class, Op};

/// What is stated about an objective's detector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stated {
    /// False weak alarms per million healthy requests of one series.
    pub weak_per_million: f64,
    /// False strong alarms per million healthy requests of one series.
    pub strong_per_million: f64,
    /// Requests until the strong level after the step of the latency, median.
    pub strong_p50: f64,
    /// The same, 99th percentile.
    pub strong_p99: f64,
    /// Requests until the weak level (a precautionary freeze), median.
    pub weak_p50: f64,
    /// The same, 99th percentile.
    pub weak_p99: f64,
}

/// Requests per second of the trials.
const RATE: f64 = 300.0;
/// The same of probes.
const PROBE_RATE: f64 = 1.0;
/// Trials of a delay; enough for a 99th percentile.
const RUNS: u64 = 300;

/// False alarms per million healthy requests of a series for evidence `h`, at most: Wald's bound of a sequential test, once
/// per request. Trials (test `false_alarms_are_rarer_than_stated`) stay below it for independent requests (a tenth of it),
/// heavy tails and requests that queue. A stall in which everything waits for longer than the floor is no false alarm.
/// With many filesystems, where every request is judged with its own and with all together, the levels are raised so that
/// it holds for both.
pub fn stated_false_alarms_per_million(h: f64) -> f64 {
    1e6 * (-h).exp()
}

/// Requests per second of the series that is stated about.
pub fn stated_rate(objective: &Objective) -> f64 {
    if objective.class == Class::Probe {
        PROBE_RATE
    } else {
        RATE
    }
}

/// What `beer-guard check-config` prints about an objective that judges so many filesystems every `tick_ns`, one of which becomes `step`
/// times slower: trials of [`stated_rate`] with a median of 0.8 times the floor (8 ms where there is no floor).
pub fn stated(objective: &Objective, filesystems: usize, step: f64, tick_ns: u64) -> Stated {
    let median_ms = if objective.floor_ns > 0 { 0.8e-6 * objective.floor_ns as f64 } else { 8.0 };
    let health = Health { median_ms, ..Health::LOG_NORMAL };
    // The trial makes reads; to the detector all operations are alike.
    let class = if objective.class == Class::Probe { Class::Probe } else { Class::Storage };
    let (op, filesystem, rate) = (Op::Read, "*".into(), stated_rate(objective));
    let objective = &Objective { op, class, filesystem, ..objective.clone() };
    let mut trial = Trial::new(health, rate, objective, filesystems.max(1), 1).every(tick_ns);
    trial.run(if class == Class::Probe { 1000 } else { 20_000 });
    let delay = |level| {
        let delays = trial.delays(step, level, RUNS);
        let requests = |share| quantile(&delays, share) * rate / 1e3;
        (requests(0.5), requests(0.99))
    };
    let (weak_p50, weak_p99) = delay(Level::Weak);
    let (strong_p50, strong_p99) = delay(Level::Strong);
    Stated {
        weak_per_million: stated_false_alarms_per_million(objective.weak),
        strong_per_million: stated_false_alarms_per_million(objective.strong),
        strong_p50,
        strong_p99,
        weak_p50,
        weak_p99,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn something_is_stated_about_every_objective_of_the_default_configuration() {
        for objective in &crate::Config::default().objectives {
            let stated = super::stated(objective, 1, 3.0, crate::config::TICK_NS);
            assert!(stated.weak_per_million < 50.0 && stated.strong_per_million < 0.001, "{stated:?}");
            assert!(stated.strong_p99 < 60.0, "{}: {stated:?}", objective.name);
            assert!(stated.weak_p99 < stated.strong_p99, "{}: {stated:?}", objective.name);
            let of_many = super::stated(objective, 96, 3.0, crate::config::TICK_NS);
            assert!(of_many.strong_p99 < 100.0, "{of_many:?}");
            // With ticks as long as the shipped ones so few trials cannot tell the medians apart.
            let [one, many] = [1, 96].map(|filesystems| super::stated(objective, filesystems, 3.0, 5_000_000));
            assert!(many.strong_p50 > one.strong_p50, "{one:?} {many:?}");
            let smaller = super::stated(objective, 1, 2.0, crate::config::TICK_NS);
            assert!(smaller.strong_p50 > stated.strong_p50, "{smaller:?}");
        }
    }
}

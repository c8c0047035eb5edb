// SPDX-License-Identifier: Apache-2.0
//! The error budget of an objective: `share` of the requests of a window may be slow, and no new job starts while that is spent too
//! fast. The detectors find a breach within requests and forget it when it is over; this one finds what each of them lets pass
//! because it is short or slight, and what comes again and again.
//!
//! Multi-window burn rates as in the SRE Workbook, chapter 5, with its windows of 30 days scaled to the one configured. A rule begins
//! when both of its windows are over its rate: the long one says that it is worth acting upon, the short one that it still goes on.
//! It ends when neither is, so that what comes again and again closes the node once.

mod stated;
mod window;

use crate::event::{Measure, Unit};
use crate::objective::Objective;
use window::{Count, Window};

pub use stated::{stated, Stated};

/// Of what share of the whole window the long and the short window of a rule are, and how many times as fast as it may the budget is
/// spent there: 2 % of it in the first, 5 % in the second, 10 % in the third.
const RULES: [(u64, u64, f64); 3] = [(720, 8640, 14.4), (120, 1440, 6.0), (10, 120, 1.0)];
/// A short window holds at least ten ticks of the slowest loop (`loop.tick`), or it would end a rule between two requests.
const SHORT_MIN_NS: u64 = 1_000_000_000;
/// Slow requests come in runs (one stall of the disk, and all that wait for it), of about so many: as the detectors assume.
const RUN: f64 = 3.0;
/// Evidence (nats) that the promise is not kept, without which no rule begins: while it is kept, slow requests alone make so much
/// with a probability of e^-12 at most, whatever the rate. A day has some 3400 long windows that do not overlap (of six hours' budget):
/// less than one false alarm in a month for an objective that stands at its limit all the time, and none in practice for one that is
/// kept by half. It also means that with 1 % allowed ten slow requests are the fewest that close a node, if there are no others.
const EVIDENCE: f64 = 12.0;
/// And so many are the smallest budget that is spoken of.
const BUDGET_MIN: f64 = 10.0;

/// One pair of windows.
#[derive(Clone, Debug)]
struct Rule {
    factor: f64,
    long: Window,
    short: Window,
    burning: bool,
}

impl Rule {
    fn over(&self, window: &Window, share: f64, now_ns: u64) -> bool {
        window.over() > self.factor * share * window.requests(now_ns)
    }

    fn follow(&mut self, count: Count, share: f64, now_ns: u64) {
        self.long.add(count, now_ns);
        self.short.add(count, now_ns);
        if self.burning {
            self.burning = self.over(&self.long, share, now_ns) || self.over(&self.short, share, now_ns);
        } else if count.over > 0 {
            // Only a slow request begins it: what the windows still hold does not, after the users had left.
            let both = self.over(&self.long, share, now_ns) && self.over(&self.short, share, now_ns);
            self.burning = both && evidence(self.long.over(), share * self.long.requests(now_ns)) >= EVIDENCE;
        }
    }
}

/// That more requests are slow than the promise allows (nats): Chernoff's bound of a Poisson number, of runs.
fn evidence(over: f64, allowed: f64) -> f64 {
    if over <= allowed || allowed <= 0.0 {
        return 0.0;
    }
    (over * (over / allowed).ln() - (over - allowed)) / RUN
}

/// What happened in a tick, of all series of the objective.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Requests that ended.
    pub requests: u64,
    /// Those of them over the threshold.
    pub over: u64,
    /// Requests in flight for longer than the threshold.
    pub late: u64,
}

/// The error budget of one objective.
#[derive(Clone, Debug)]
pub struct ErrorBudget {
    share: f64,
    whole: Window,
    rules: [Rule; RULES.len()],
    /// Slow requests in flight that are counted already.
    late: u64,
    /// Such that were neither in flight nor ended at the last look: one that ends between the two halves of a look.
    missing: u64,
    now_ns: u64,
}

impl ErrorBudget {
    /// Nothing spent yet; `None` = the objective has no budget.
    pub fn new(objective: &Objective, now_ns: u64) -> Option<ErrorBudget> {
        let whole_ns = objective.budget_window_ns?;
        let rule = |(long, short, factor): (u64, u64, f64)| Rule {
            factor,
            long: Window::new(whole_ns / long, now_ns),
            short: Window::new((whole_ns / short).max(SHORT_MIN_NS), now_ns),
            burning: false,
        };
        let (share, whole, rules) = (objective.share, Window::new(whole_ns, now_ns), RULES.map(rule));
        Some(ErrorBudget { share, whole, rules, late: 0, missing: 0, now_ns })
    }

    /// A tick. A request that is slow counts when it is known to be: as soon as it has been in flight for too long, or when it ends,
    /// and not twice.
    pub fn follow(&mut self, ended: Ended, now_ns: u64) {
        self.now_ns = now_ns;
        let known = ended.over + ended.late;
        let over = known.saturating_sub(self.late);
        // What is missed at two looks has gone without a trace.
        self.missing = self.late.saturating_sub(known).saturating_sub(self.missing);
        self.late = ended.late + self.missing;
        let count = Count { requests: ended.requests.saturating_sub(ended.over) + over, over };
        self.whole.add(count, now_ns);
        for rule in &mut self.rules {
            rule.follow(count, self.share, now_ns);
        }
    }

    /// Another writer: what was in flight is gone. What users have suffered is not.
    pub fn restart(&mut self) {
        (self.late, self.missing) = (0, 0);
    }

    /// The users have left: nobody is hurt by new jobs. What was spent stays spent, for when they come back.
    pub fn rest(&mut self) {
        self.rules.iter_mut().for_each(|rule| rule.burning = false);
    }

    /// Is it spent too fast? How many times as fast as it may, against the limit of the rule that says so.
    pub fn burning(&self) -> Option<Measure> {
        let rule = self.rules.iter().find(|rule| rule.burning)?;
        let allowed = self.share * rule.long.requests(self.now_ns);
        Some(Measure { value: rule.long.over() / allowed.max(1e-9), limit: rule.factor, unit: Unit::Count })
    }

    /// What is left of the whole window's budget: 1 = nothing spent, 0 = all, negative = more than there was.
    pub fn left(&self) -> f64 {
        1.0 - self.whole.over() / (self.share * self.whole.requests(self.now_ns)).max(BUDGET_MIN)
    }
}

#[cfg(test)]
mod tests;

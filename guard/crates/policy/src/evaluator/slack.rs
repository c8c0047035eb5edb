// SPDX-License-Identifier: Apache-2.0
//! How the promise of an objective was kept over about the last minute.

/// Time constant.
const SLACK_S: f64 = 60.0;
/// Fewer slow requests than this in that time break no promise.
const SLACK_MIN: f64 = 3.0;

/// Decaying counts of requests, and of those over the threshold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slack {
    requests: f64,
    over: f64,
}

impl Slack {
    /// `tick_s` after the last time.
    pub fn add(&mut self, requests: u64, over: u64, tick_s: f64) {
        let keep = (-tick_s / SLACK_S).exp();
        self.requests = self.requests * keep + requests as f64;
        self.over = self.over * keep + over as f64;
    }

    /// 1 = nothing over the threshold, 0 = at the allowed share, negative = broken.
    pub fn left(&self, share: f64) -> f64 {
        1.0 - self.over / (share * self.requests).max(SLACK_MIN)
    }

    /// Not more than the allowed share.
    pub fn kept(&self, share: f64) -> bool {
        self.over <= share * self.requests
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What needless precautionary freezes cost: time spent, by minute, over the last hour.

const MINUTE_NS: u64 = 60_000_000_000;
const MINUTES: usize = 60;

/// Needless time of the last hour.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    minutes: [u64; MINUTES],
    /// Number of the minute that is written now.
    minute: u64,
}

impl Budget {
    pub fn new(now_ns: u64) -> Budget {
        Budget { minutes: [0; MINUTES], minute: now_ns / MINUTE_NS }
    }

    /// Forgets what is older than an hour.
    fn advance(&mut self, now_ns: u64) {
        let minute = now_ns / MINUTE_NS;
        let passed = minute.saturating_sub(self.minute).min(MINUTES as u64);
        for m in 0..passed {
            self.minutes[((minute - m) % MINUTES as u64) as usize] = 0;
        }
        self.minute = self.minute.max(minute);
    }

    pub fn spend(&mut self, now_ns: u64, cost_ns: u64) {
        self.advance(now_ns);
        self.minutes[(self.minute % MINUTES as u64) as usize] += cost_ns;
    }

    /// Share of the last hour. A guard that runs for less than an hour is not told off for its first false alarm.
    pub fn share(&mut self, now_ns: u64) -> f64 {
        self.advance(now_ns);
        self.minutes.iter().sum::<u64>() as f64 / (MINUTES as u64 * MINUTE_NS) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_remembered_and_no_more() {
        let start = 1_234_567 * MINUTE_NS;
        let mut budget = Budget::new(start);
        budget.spend(start, 3_600_000_000);
        budget.spend(start + 30 * MINUTE_NS, 3_600_000_000);
        assert_eq!(budget.share(start + 59 * MINUTE_NS), 0.002);
        assert_eq!(budget.share(start + 60 * MINUTE_NS), 0.001);
        assert_eq!(budget.share(start + 90 * MINUTE_NS), 0.0);
        budget.spend(start + 500 * MINUTE_NS, 3_600_000_000);
        assert_eq!(budget.share(start + 500 * MINUTE_NS), 0.001);
    }
}

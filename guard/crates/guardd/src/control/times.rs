// SPDX-License-Identifier: Apache-2.0
//! How long a tick takes, and how late ticks come, over the last one to two minutes.

/// Four buckets to the octave from 1 us to 1 s.
const BUCKETS: usize = 80;
const WINDOW_NS: u64 = 60_000_000_000;

/// Durations of the ticks.
#[derive(Clone, Copy, Debug)]
pub struct LoopTimes {
    tick_ns: u64,
    window_ns: u64,
    last_ns: u64,
    now: Window,
    before: Window,
    /// Ticks since the start.
    pub ticks: u64,
    /// Ticks that came later than twice their period.
    pub late: u64,
    /// Work since the start.
    pub sum_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    counts: [u32; BUCKETS],
    max_ns: u64,
}

impl Window {
    const EMPTY: Window = Window { counts: [0; BUCKETS], max_ns: 0 };
}

impl Default for LoopTimes {
    fn default() -> Self {
        LoopTimes::new(0)
    }
}

impl LoopTimes {
    /// For ticks of this period.
    pub fn new(tick_ns: u64) -> Self {
        let (now, before) = (Window::EMPTY, Window::EMPTY);
        LoopTimes { tick_ns, window_ns: 0, last_ns: 0, now, before, ticks: 0, late: 0, sum_ns: 0 }
    }

    /// One tick, from its begin to its end.
    pub fn record(&mut self, begin_ns: u64, end_ns: u64) {
        if begin_ns.saturating_sub(self.window_ns) >= WINDOW_NS {
            self.before = std::mem::replace(&mut self.now, Window::EMPTY);
            self.window_ns = begin_ns;
        }
        if self.ticks > 0 && begin_ns.saturating_sub(self.last_ns) > 2 * self.tick_ns {
            self.late += 1;
        }
        self.last_ns = begin_ns;
        self.ticks += 1;
        let took_ns = end_ns.saturating_sub(begin_ns);
        self.sum_ns += took_ns;
        self.now.max_ns = self.now.max_ns.max(took_ns);
        if let Some(count) = self.now.counts.get_mut(bucket(took_ns)) {
            *count += 1;
        }
    }

    /// Upper bound of the bucket that holds this share of the ticks; 0 without ticks.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let count = |index: usize| {
            let of = |window: &Window| u64::from(window.counts.get(index).copied().unwrap_or_default());
            of(&self.now) + of(&self.before)
        };
        let total: u64 = (0..BUCKETS).map(count).sum();
        let mut rest = (total as f64 * share).ceil() as u64;
        for index in 0..BUCKETS {
            match rest.checked_sub(count(index)) {
                Some(left) if left > 0 => rest = left,
                _ if total > 0 => return upper_ns(index).min(self.max_ns()),
                _ => return 0,
            }
        }
        self.max_ns()
    }

    /// The longest.
    pub fn max_ns(&self) -> u64 {
        self.now.max_ns.max(self.before.max_ns)
    }

    /// Mean since the start.
    pub fn mean_ns(&self) -> u64 {
        self.sum_ns.checked_div(self.ticks).unwrap_or_default()
    }
}

fn bucket(ns: u64) -> usize {
    let ns = ns.max(1 << 10);
    let octave = ns.ilog2();
    let quarter = (ns >> (octave - 2)) & 3;
    (((octave - 10) * 4) as usize + quarter as usize).min(BUCKETS - 1)
}

fn upper_ns(bucket: usize) -> u64 {
    let (octave, quarter) = (bucket as u32 / 4 + 10, bucket as u64 % 4);
    (1 << octave) / 4 * (5 + quarter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_windows() {
        let mut times = LoopTimes::new(20_000_000);
        assert_eq!((times.quantile_ns(0.99), times.max_ns(), times.mean_ns()), (0, 0, 0));
        for tick in 0..100u64 {
            let begin = tick * 20_000_000;
            times.record(begin, begin + if tick == 50 { 5_000_000 } else { 20_000 });
        }
        assert!((20_000..=25_000).contains(&times.quantile_ns(0.5)), "{}", times.quantile_ns(0.5));
        assert_eq!(times.quantile_ns(1.0), 5_000_000);
        assert_eq!((times.max_ns(), times.late), (5_000_000, 0));
        times.record(70_000_000_000, 70_000_010_000);
        assert_eq!((times.late, times.max_ns()), (1, 5_000_000), "the window before still counts");
        times.record(140_000_000_000, 140_000_010_000);
        assert_eq!(times.max_ns(), 10_000);
    }

    #[test]
    fn extremes_stay_inside() {
        assert_eq!(bucket(0), 0);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        for ns in [1025u64, 1500, 3000, 1_000_000, 123_456_789] {
            assert!(upper_ns(bucket(ns)) >= ns, "{ns}");
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Where clients do so little that their own requests tell nothing in time.

use intf::segment::{Class, Filesystem, InFlight, Op, SeriesDelta, Visitor};

/// With so many reads per second they tell themselves, within two seconds or so.
const ENOUGH: f64 = 5.0;
/// Time constant of their rate.
const RATE_S: f64 = 5.0;
/// Where there was no request for so long there is nobody to be hurt.
const LEFT_NS: u64 = 30_000_000_000;

#[derive(Clone, Copy, Debug, Default)]
struct Use {
    reads: u64,
    rate: f64,
    last_ns: Option<u64>,
}

/// What storage clients do, by filesystem of the storage daemon.
#[derive(Debug, Default)]
pub struct Traffic {
    uses: Vec<Use>,
    now_ns: u64,
    /// The storage daemon has other filesystems than before.
    pub others: Option<Vec<Filesystem>>,
}

impl Traffic {
    /// Before each look.
    pub fn begin(&mut self, now_ns: u64) {
        let passed_s = now_ns.saturating_sub(self.now_ns) as f64 / 1e9;
        if self.now_ns > 0 && passed_s > 0.0 {
            let keep = (-passed_s / RATE_S).exp();
            for usage in &mut self.uses {
                usage.rate = keep * usage.rate + (1.0 - keep) * std::mem::take(&mut usage.reads) as f64 / passed_s;
            }
        }
        self.now_ns = now_ns;
    }

    /// Some use, and not enough.
    pub fn thin(&self, filesystem: usize, now_ns: u64) -> bool {
        let Some(usage) = self.uses.get(filesystem) else { return false };
        usage.rate < ENOUGH && usage.last_ns.is_some_and(|last_ns| now_ns.saturating_sub(last_ns) <= LEFT_NS)
    }

    fn used(&mut self, filesystem: u16, reads: u64) {
        if let Some(usage) = self.uses.get_mut(usize::from(filesystem)) {
            usage.reads += reads;
            usage.last_ns = Some(self.now_ns);
        }
    }
}

impl Visitor for Traffic {
    fn restart(&mut self, filesystems: &[Filesystem]) {
        self.uses = vec![Use::default(); filesystems.len()];
        self.others = Some(filesystems.to_vec());
    }

    fn series(&mut self, delta: &SeriesDelta<'_>) {
        let kind = delta.series.kind;
        if kind.class() == Class::Storage && !matches!(kind.op(), Op::Pacing | Op::Stall) {
            self.used(delta.series.filesystem, if kind.op() == Op::Read { delta.operations } else { 0 });
        }
    }

    fn in_flight(&mut self, request: &InFlight) {
        if request.series.kind.class() == Class::Storage {
            self.used(request.series.filesystem, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use intf::segment::{Kind, SeriesId};

    const S: u64 = 1_000_000_000;

    fn filesystem(path: &str) -> Filesystem {
        let (path, major, minor) = (path.into(), 8, 1);
        Filesystem { path, major, minor, open_readers: 0, open_writers: 0, overloaded: false }
    }

    fn requests(traffic: &mut Traffic, op: Op, class: Class, operations: u64) {
        let series = SeriesId { filesystem: 0, kind: Kind::of(op, class).unwrap() };
        let (bytes, sum_ns, errors, max_ns, under, over) = (0, 0, 0, 0, 0, 0);
        let buckets = &[];
        traffic.series(&SeriesDelta { series, operations, bytes, sum_ns, errors, max_ns, under, over, buckets });
    }

    /// Twenty seconds of so many of these each; is it thin then, and on the other disk?
    fn after(op: Op, class: Class, each_second: u64) -> (bool, bool) {
        let mut traffic = Traffic::default();
        traffic.restart(&[filesystem("/a"), filesystem("/b")]);
        for second in 100..120 {
            traffic.begin(second * S);
            if each_second > 0 {
                requests(&mut traffic, op, class, each_second);
            }
        }
        (traffic.thin(0, 119 * S), traffic.thin(1, 119 * S))
    }

    #[test]
    fn a_little_use_is_thin_and_none_or_enough_is_not() {
        assert_eq!(after(Op::Read, Class::Storage, 1), (true, false));
        assert_eq!(after(Op::Read, Class::Storage, 4), (true, false));
        assert_eq!(after(Op::Read, Class::Storage, 6), (false, false));
        assert_eq!(after(Op::Read, Class::Storage, 0), (false, false));
        assert_eq!(after(Op::Write, Class::Storage, 100), (true, false), "writes say nothing of reads");
        assert_eq!(after(Op::Read, Class::Batch, 1), (false, false), "batch is not to be protected");
        assert_eq!(after(Op::Read, Class::Internal, 1), (false, false));
    }

    #[test]
    fn users_leave_but_not_while_one_waits() {
        let mut traffic = Traffic::default();
        traffic.restart(&[filesystem("/a")]);
        traffic.begin(100 * S);
        requests(&mut traffic, Op::Open, Class::Storage, 1);
        assert!(traffic.thin(0, 130 * S) && !traffic.thin(0, 131 * S));
        traffic.begin(200 * S);
        let series = SeriesId { filesystem: 0, kind: Kind::STORAGE_READ };
        traffic.in_flight(&InFlight { series, age_ns: 90 * S, tid: 1, bytes: 1, client: None });
        assert!(traffic.thin(0, 200 * S));
    }
}

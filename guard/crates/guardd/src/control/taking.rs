// SPDX-License-Identifier: Apache-2.0
//! From what the watch thread read of each job's memory to the job that takes what storage is short of.

use policy::taker::{taker, Held};
use policy::Taker;

use crate::jobs::JobTable;
use crate::shared::Told;
use crate::watch::Holding;

/// An older reading says nothing about now.
const OLD_NS: u64 = 15_000_000_000;

/// What is known.
pub struct Taking {
    list: Vec<Holding>,
    version: u64,
    held: Vec<Held>,
    /// The one, and of which jobs that is said.
    found: Option<Taker>,
    jobs: u64,
}

impl Taking {
    pub fn new() -> Self {
        let places = policy::JobSet::PLACES;
        let (list, held) = (Vec::with_capacity(places), Vec::with_capacity(places));
        Taking { list, version: 0, held, found: None, jobs: u64::MAX }
    }

    /// Once a second.
    pub fn look(&mut self, told: &Told<Holding>, jobs: &JobTable, now_ns: u64) {
        told.take(&mut self.version, &mut self.list);
        let fresh = |holding: &&Holding| now_ns.saturating_sub(holding.at_ns) <= OLD_NS;
        self.held.clear();
        self.held.extend(jobs.iter().filter_map(|(place, job)| {
            let known = self.list.iter().filter(fresh).find(|holding| holding.number == job.number)?;
            Some(Held { place, bytes: known.bytes, grown: known.grown, waited_us: known.waited_us })
        }));
        // What is not known of may have taken more.
        self.found = if jobs.complete() { taker(&self.held) } else { None };
        self.jobs = jobs.version();
    }

    /// Who it is. Nobody as soon as somebody comes or goes, who may have his place: until the next look.
    pub fn found(&self, jobs: &JobTable) -> Option<Taker> {
        self.found.filter(|_| self.jobs == jobs.version())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::Sign;

    const S: u64 = 1_000_000_000;

    #[test]
    fn the_one_is_known_by_the_number_of_his_cgroup_while_the_readings_are_fresh() {
        let folder = tempfile::tempdir().unwrap();
        let begin = |job: &str| std::fs::create_dir(folder.path().join(job)).unwrap();
        ["a.scope", "b.scope"].into_iter().for_each(begin);
        let (mut table, nobody) = (JobTable::new(folder.path()), policy::JobSet::default());
        table.look(false, &nobody);
        let of = |scope: &str| table.iter().find(|(_, job)| job.scope == scope).map(|(place, job)| (place, job.number));
        let (a, b) = (of("a.scope").unwrap(), of("b.scope").unwrap());
        let (mut taking, told) = (Taking::new(), Told::default());
        taking.look(&told, &table, 100 * S);
        assert_eq!(taking.found(&table), None);
        let holds =
            |number, mib: u64| Holding { number, bytes: mib << 20, grown: mib << 20, waited_us: 0, at_ns: 99 * S };
        told.put(&[holds(a.1, 100), holds(b.1, 300), holds(b.1 + 7, 5000)]);
        taking.look(&told, &table, 100 * S);
        assert_eq!(
            taking.found(&table),
            Some(Taker { place: b.0, sign: Sign::Growth { bytes: 300 << 20, of: 400 << 20 } })
        );
        let waits =
            |number, s: u64| Holding { number, bytes: 1 << 30, grown: 0, waited_us: s * 1_000_000, at_ns: 99 * S };
        told.put(&[waits(a.1, 40), waits(b.1, 2)]);
        taking.look(&told, &table, 100 * S);
        let sign = Sign::Wait { us: 40_000_000, of: 42_000_000 };
        assert_eq!(taking.found(&table), Some(Taker { place: a.0, sign }));
        begin("c.scope");
        table.look(false, &nobody);
        assert_eq!(taking.found(&table), None);
        taking.look(&told, &table, 114 * S);
        assert!(taking.found(&table).is_some());
        taking.look(&told, &table, 115 * S);
        assert_eq!(taking.found(&table), None, "too old");
        // Of one who has no place nothing is known, and he may be the one.
        (0..policy::JobSet::PLACES).for_each(|number| begin(&format!("{number}.scope")));
        table.look(false, &nobody);
        taking.look(&told, &table, 100 * S);
        assert_eq!(taking.found(&table), None);
    }
}

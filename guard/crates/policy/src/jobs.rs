// SPDX-License-Identifier: Apache-2.0
//! Sets of jobs, who of them stands still, and who of them is to blame for a busy device.

/// Jobs, by their place in the job table: a place belongs to one job for as long as anybody stands still.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobSet([u64; JobSet::PLACES / 64]);

impl JobSet {
    /// Most jobs that are told apart.
    pub const PLACES: usize = 256;

    /// Adds the job of a place; a place that cannot be is left out.
    pub fn insert(&mut self, place: usize) {
        if let Some(word) = self.0.get_mut(place / 64) {
            *word |= 1 << (place % 64);
        }
    }

    /// Is the job of this place in it?
    pub fn contains(&self, place: usize) -> bool {
        self.0.get(place / 64).is_some_and(|word| (word >> (place % 64)) & 1 == 1)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.0 == [0; JobSet::PLACES / 64]
    }

    /// The jobs that are in both.
    pub fn and(mut self, other: &JobSet) -> JobSet {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= other);
        self
    }

    /// The jobs that are in one of them.
    pub fn or(mut self, other: &JobSet) -> JobSet {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word |= other);
        self
    }

    /// The jobs that are not in the other.
    pub fn without(mut self, other: &JobSet) -> JobSet {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= !other);
        self
    }

    /// Takes the job of a place out.
    pub fn remove(&mut self, place: usize) {
        if let Some(word) = self.0.get_mut(place / 64) {
            *word &= !(1 << (place % 64));
        }
    }

    /// Places, in their order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..JobSet::PLACES).filter(|place| self.contains(*place))
    }
}

impl FromIterator<usize> for JobSet {
    fn from_iter<T: IntoIterator<Item = usize>>(places: T) -> JobSet {
        let mut set = JobSet::default();
        places.into_iter().for_each(|place| set.insert(place));
        set
    }
}

/// Who stands still.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// Nobody.
    #[default]
    Nobody,
    /// These jobs.
    Jobs(JobSet),
    /// The slice with everything in it, also what starts while it stands still.
    All,
}

impl Hold {
    /// Does anybody?
    pub fn any(&self) -> bool {
        *self != Hold::Nobody
    }

    /// Does the job of this place?
    pub fn touches(&self, place: usize) -> bool {
        match self {
            Hold::Nobody => false,
            Hold::Jobs(jobs) => jobs.contains(place),
            Hold::All => true,
        }
    }

    /// These, or nobody.
    pub fn of(jobs: JobSet) -> Hold {
        if jobs.is_empty() {
            Hold::Nobody
        } else {
            Hold::Jobs(jobs)
        }
    }

    /// Those who stand still in either.
    pub fn or(self, other: Hold) -> Hold {
        match (self, other) {
            (Hold::Nobody, hold) | (hold, Hold::Nobody) => hold,
            (Hold::Jobs(some), Hold::Jobs(others)) => Hold::Jobs(some.or(&others)),
            _ => Hold::All,
        }
    }

    /// But these; all are all.
    pub fn without(self, others: &JobSet) -> Hold {
        match self {
            Hold::Jobs(jobs) => Hold::of(jobs.without(others)),
            other => other,
        }
    }

    /// Without jobs that have ended; nobody when none of them is left.
    pub fn of_living(self, living: &JobSet) -> Hold {
        match self {
            Hold::Jobs(jobs) => Hold::of(jobs.and(living)),
            other => other,
        }
    }
}

/// Together those to blame have done at least this share of what batch did on the device.
const COVERED: f32 = 0.9;

/// Those are none of them who did much less than the others, if that is no more in all than this share of what batch did.
const SLIGHT: f32 = 0.125;

/// Much less than another one is less than this part of what he did.
const MUCH_LESS: f32 = 0.5;

/// Whoever is named, they did at least half of it.
const MOST_SPARED: f32 = 0.5;

/// The fewest jobs that did nearly all of batch's work on a device, without those who did much less than any other of them.
/// `work` = work done lately by each job, in any unit; `all` = that of batch as a whole, in which there may be more: of jobs that have
/// ended, or of clients of the storage daemons who are none of them; `spare` = part of it (0..1) of which nobody would be to blame if
/// there were no more. Streams hide behind seeks when work is counted in requests, and seeks behind streams when their bytes weigh as
/// well: ask for both.
///
/// `None` = not known: too much of it is of nobody in the table, or there is none. No job with less work than another is named before
/// it, so that who does nothing there is never to blame.
pub fn guilty(work: &mut [(usize, f32)], all: f32, spare: f32) -> Option<JobSet> {
    work.sort_unstable_by(|a, b| b.1.total_cmp(&a.1));
    let known: f32 = work.iter().map(|(_, work)| work).sum();
    let all = all.max(known);
    let mut covered = 0.0;
    let fewest = 1 + work.iter().position(|(_, work)| {
        covered += work;
        covered > 0.0 && covered >= COVERED * all
    })?;
    // A comparison with NaN is false: what is not known spares nobody.
    let most_spared = if spare > SLIGHT { spare.min(MOST_SPARED) } else { SLIGHT } * all;
    let mut spared = all - covered;
    let mut named = fewest;
    for (index, pair) in work.windows(2).enumerate().take(fewest - 1).rev() {
        let &[(_, more), (_, less)] = pair else { break };
        spared += less;
        if spared > most_spared {
            break;
        }
        if less < MUCH_LESS * more {
            named = index + 1;
        }
    }
    Some(work.iter().take(named).map(|(place, _)| *place).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(set: Option<JobSet>) -> Vec<usize> {
        set.map(|set| set.iter().collect()).unwrap_or_default()
    }

    #[test]
    fn a_set_keeps_what_is_put_in() {
        let set: JobSet = [0, 63, 64, 255, 256, 9999].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 64, 255]);
        assert_eq!((set.len(), set.is_empty(), set.contains(64), set.contains(65)), (4, false, true, false));
        assert!(JobSet::default().is_empty());
        assert_eq!(places(Some(set.and(&[64, 65].into_iter().collect()))), [64]);
        let mut set = set.or(&[65].into_iter().collect());
        set.remove(0);
        assert_eq!(places(Some(set)), [63, 64, 65, 255]);
    }

    #[test]
    fn jobs_that_have_ended_stand_still_no_more() {
        let both: JobSet = [1, 2].into_iter().collect();
        assert_eq!(Hold::Jobs(both).of_living(&[2, 3].into_iter().collect()), Hold::Jobs([2].into_iter().collect()));
        assert_eq!(Hold::Jobs(both).of_living(&JobSet::default()), Hold::Nobody);
        assert_eq!(Hold::All.of_living(&JobSet::default()), Hold::All);
        assert!(!Hold::Nobody.any() && Hold::All.any());
        assert!(
            !Hold::Nobody.touches(1)
                && Hold::Jobs(both).touches(1)
                && !Hold::Jobs(both).touches(3)
                && Hold::All.touches(3)
        );
        let one = |place| Hold::Jobs([place].into_iter().collect());
        assert_eq!((one(1).or(one(2)), one(1).or(Hold::Nobody)), (Hold::Jobs(both), one(1)));
        assert_eq!((one(1).or(Hold::All), Hold::All.or(Hold::Nobody)), (Hold::All, Hold::All));
    }

    #[test]
    fn one_hog_is_named_alone() {
        assert_eq!(places(guilty(&mut [(0, 2.0), (5, 95.0), (9, 3.0)], 100.0, 0.0)), [5]);
    }

    #[test]
    fn two_hogs_are_named_and_who_does_nothing_never_is() {
        assert_eq!(places(guilty(&mut [(0, 50.0), (1, 0.0), (2, 45.0), (3, 5.0)], 100.0, 0.0)), [0, 2]);
        assert_eq!(places(guilty(&mut [(0, 30.0), (1, 0.0), (2, 30.0), (3, 30.0)], 90.0, 0.0)), [0, 2, 3]);
    }

    #[test]
    fn who_did_next_to_nothing_beside_a_hog_is_no_hog_but_many_of_them_are() {
        assert_eq!(places(guilty(&mut [(0, 10.0), (1, 89.0)], 100.0, 0.0)), [1]);
        assert_eq!(places(guilty(&mut [(0, 13.0), (1, 87.0)], 100.0, 0.0)), [0, 1], "more than an eighth of it");
        let mut many: Vec<(usize, f32)> = (1..=9).map(|place| (place, 6.0)).collect();
        many.push((0, 50.0));
        assert_eq!(guilty(&mut many, 104.0, 0.2).map(|set| set.len()), Some(9), "nearly half of it is theirs");
    }

    #[test]
    fn who_did_much_less_is_none_of_them_where_his_part_alone_would_be_nobodys_fault() {
        // One of a quarter of what batch did, one of a third of it, of which nobody would be to blame.
        assert_eq!(places(guilty(&mut [(0, 25.0), (1, 75.0)], 100.0, 0.34)), [1]);
        assert_eq!(places(guilty(&mut [(0, 25.0), (1, 75.0)], 100.0, 0.2)), [0, 1], "it would be his");
        assert_eq!(places(guilty(&mut [(0, 40.0), (1, 60.0)], 100.0, 0.5)), [0, 1], "as much as a hog");
        assert_eq!(
            places(guilty(&mut [(0, 30.0), (1, 60.0)], 100.0, 0.35)),
            [0, 1],
            "what is of nobody would be there too"
        );
        assert_eq!(places(guilty(&mut [(0, 20.0), (1, 50.0), (2, 30.0)], 100.0, 0.5)), [0, 1, 2], "nobody much less");
        assert_eq!(places(guilty(&mut [(0, 4.0), (1, 60.0), (2, 20.0), (3, 16.0)], 100.0, 0.3)), [1, 2, 3]);
        assert_eq!(places(guilty(&mut [(0, 4.0), (1, 60.0), (2, 20.0), (3, 16.0)], 100.0, 0.45)), [1]);
        // However little all of it is one has done most of it.
        assert_eq!(places(guilty(&mut [(0, 9.0), (1, 91.0)], 100.0, f32::INFINITY)), [1]);
        assert_eq!(places(guilty(&mut [(0, 13.0), (1, 87.0)], 100.0, f32::NAN)), [0, 1], "not known");
    }

    #[test]
    fn work_of_somebody_unknown_names_nobody() {
        assert_eq!(guilty(&mut [(0, 80.0)], 100.0, 0.5), None);
        assert_eq!(guilty(&mut [(0, 0.0)], 0.0, 0.5), None);
        assert_eq!(guilty(&mut [], 0.0, 0.5), None);
        // The sum of the readings may be a little more than the reading of the whole.
        assert_eq!(places(guilty(&mut [(0, 101.0)], 100.0, 0.0)), [0]);
    }
}

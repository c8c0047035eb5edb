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

/// Who did less than this share of what the first of them did is none of them, unless those together did more than that share of
/// all.
const SLIGHT: f32 = 0.125;

/// The fewest jobs that did nearly all of batch's work on a device, without those who did next to nothing beside the first of them.
/// `work` = work done lately by each job, in any unit; `all` = that of batch as a whole, in which there may be more: of jobs that have
/// ended, or of clients of the storage daemons who are none of them. Streams hide behind seeks when work is counted in requests, and
/// seeks behind streams when their bytes weigh as well: ask for both.
///
/// `None` = not known: too much of it is of nobody in the table, or there is none. No job with less work than another is named before
/// it, so that who does nothing there is never to blame.
pub fn guilty(work: &mut [(usize, f32)], all: f32) -> Option<JobSet> {
    work.sort_unstable_by(|a, b| b.1.total_cmp(&a.1));
    let known: f32 = work.iter().map(|(_, work)| work).sum();
    let enough = COVERED * all.max(known);
    let mut covered = 0.0;
    let mut set = JobSet::default();
    for &(place, work) in work.iter().filter(|(_, work)| *work > 0.0) {
        if covered >= enough {
            break;
        }
        covered += work;
        set.insert(place);
    }
    let first = work.first().map_or(0.0, |(_, work)| *work);
    let slight = || work.iter().filter(|(place, work)| set.contains(*place) && *work < SLIGHT * first);
    if slight().map(|(_, work)| work).sum::<f32>() <= SLIGHT * covered {
        let slight: JobSet = slight().map(|(place, _)| *place).collect();
        slight.iter().for_each(|place| set.remove(place));
    }
    (covered >= enough && !set.is_empty()).then_some(set)
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
        assert_eq!(places(guilty(&mut [(0, 2.0), (5, 95.0), (9, 3.0)], 100.0)), [5]);
    }

    #[test]
    fn two_hogs_are_named_and_who_does_nothing_never_is() {
        assert_eq!(places(guilty(&mut [(0, 50.0), (1, 0.0), (2, 45.0), (3, 5.0)], 100.0)), [0, 2]);
        assert_eq!(places(guilty(&mut [(0, 30.0), (1, 0.0), (2, 30.0), (3, 30.0)], 90.0)), [0, 2, 3]);
    }

    #[test]
    fn who_did_next_to_nothing_beside_a_hog_is_no_hog_but_many_of_them_are() {
        assert_eq!(places(guilty(&mut [(0, 10.0), (1, 89.0)], 100.0)), [1]);
        assert_eq!(places(guilty(&mut [(0, 12.0), (1, 88.0)], 100.0)), [0, 1], "a seventh of what he did");
        let mut many: Vec<(usize, f32)> = (1..=9).map(|place| (place, 6.0)).collect();
        many.push((0, 50.0));
        assert_eq!(guilty(&mut many, 104.0).map(|set| set.len()), Some(9), "nearly half of it is theirs");
    }

    #[test]
    fn work_of_somebody_unknown_names_nobody() {
        assert_eq!(guilty(&mut [(0, 80.0)], 100.0), None);
        assert_eq!(guilty(&mut [(0, 0.0)], 0.0), None);
        assert_eq!(guilty(&mut [], 0.0), None);
        // The sum of the readings may be a little more than the reading of the whole.
        assert_eq!(places(guilty(&mut [(0, 101.0)], 100.0)), [0]);
    }
}

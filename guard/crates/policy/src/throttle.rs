// SPDX-License-Identifier: Apache-2.0
//! How much of a disk those get who made it slow: little at first, more while it is calm (additive increase), half of it when
//! it is not (multiplicative decrease), as TCP shares a link (Chiu and Jain, "Analysis of the increase and decrease algorithms
//! for congestion avoidance", 1989). The unit is what they did there when they made it slow, so that it fits any disk.
//!
//! Where it became slow is remembered, and near that share they get more only after longer and longer calm, as CUBIC stays below
//! the window at which it lost packets (RFC 9438, section 4.1): each return to it costs storage some slow requests.

use crate::jobs::JobSet;

/// Most disks on which batch is limited at a time.
pub const DISKS: usize = 4;

/// Nobody is limited to less than this share of a step: jobs that get nothing for ever may as well leave.
const LEAST: f32 = 0.25;

/// Above this part of the share that was too much before more is given with care.
const NEAR: f32 = 0.75;

/// There it takes so many dwell times for the next step, and after each further time that it was too much twice as long, so often.
const CAREFUL: u64 = 4;
const DOUBLINGS: u32 = 4;

/// Batch is limited on one disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throttle {
    /// The filesystem on it, by index.
    pub filesystem: u16,
    /// Whose work made it slow, where that is known; what batch does there through the storage daemons is limited as well.
    pub jobs: JobSet,
    /// Share that they get of what they did then; above 0, below 1.
    pub share: f32,
    /// It was given, or last changed, then.
    changed_ns: u64,
    /// It was cut then, and it has not been calm since.
    cut_ns: Option<u64>,
    /// How often a cut did not help, without a calm minute in between.
    in_vain: u32,
    /// The share that was too much; infinite = it is not known.
    too_much: f32,
    /// How often it was, without more having been borne in between.
    times: u32,
}

/// What a cut is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The share has just been halved.
    Now,
    /// It was a moment ago: what they had in flight needs its time.
    Lately,
    /// It was, and that did not help; or there is nothing left to cut.
    InVain,
}

/// All disks on which batch is limited.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Throttles([Option<Throttle>; DISKS]);

impl Throttles {
    /// None?
    pub fn is_empty(&self) -> bool {
        self.0 == [None; DISKS]
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Throttle> {
        self.0.iter().flatten()
    }

    /// Who is limited somewhere.
    pub fn jobs(&self) -> JobSet {
        self.iter().fold(JobSet::default(), |jobs, throttle| jobs.or(&throttle.jobs))
    }

    /// Of one filesystem.
    pub fn of(&self, filesystem: u16) -> Option<&Throttle> {
        self.iter().find(|throttle| throttle.filesystem == filesystem)
    }

    fn of_mut(&mut self, filesystem: u16) -> Option<&mut Throttle> {
        self.0.iter_mut().flatten().find(|throttle| throttle.filesystem == filesystem)
    }

    /// These have made it slow: they start with one `step`. Where others are limited before, all of them have no more than that.
    /// With more disks than there is room for, who had most gets everything back.
    pub fn begin(&mut self, filesystem: u16, jobs: JobSet, step: f32, now_ns: u64) {
        if let Some(throttle) = self.of_mut(filesystem) {
            if !throttle.may_be(&jobs) {
                throttle.share = throttle.share.min(step);
                (throttle.changed_ns, throttle.cut_ns) = (now_ns, Some(now_ns));
            }
            throttle.jobs = throttle.jobs.or(&jobs);
            return;
        }
        let given = |place: &Option<Throttle>| place.map_or(f32::INFINITY, |throttle| throttle.share);
        let room = self.0.iter_mut().max_by(|a, b| given(a).total_cmp(&given(b)));
        if let Some(place) = room {
            *place = Some(Throttle {
                filesystem,
                jobs,
                share: step,
                changed_ns: now_ns,
                cut_ns: Some(now_ns),
                in_vain: 0,
                too_much: f32::INFINITY,
                times: 0,
            });
        }
    }

    /// It is slow again: half of what they had. `patience_ns` = for so long a cut is given time to help.
    pub fn cut(&mut self, filesystem: u16, step: f32, patience_ns: u64, now_ns: u64) -> Cut {
        let least = LEAST * step;
        let Some(throttle) = self.of_mut(filesystem) else { return Cut::InVain };
        if let Some(cut_ns) = throttle.cut_ns {
            if now_ns.saturating_sub(cut_ns) < patience_ns {
                return Cut::Lately;
            }
            throttle.in_vain += 1;
            return Cut::InVain;
        }
        if throttle.share <= least {
            return Cut::InVain;
        }
        throttle.halve(least, now_ns);
        Cut::Now
    }

    /// They stand still for it: half of what they had when they run again.
    pub fn halve(&mut self, filesystem: u16, step: f32, now_ns: u64) {
        if let Some(throttle) = self.of_mut(filesystem) {
            throttle.halve(LEAST * step, now_ns);
        }
    }

    /// It has been calm for `calm_ns`: one more step to those whose last change is a `dwell` ago. Who has all of it is limited
    /// no more.
    pub fn ease(&mut self, calm_ns: u64, step: f32, dwell_ns: u64, now_ns: u64) {
        for place in &mut self.0 {
            let Some(throttle) = place else { continue };
            throttle.cut_ns = None;
            if calm_ns >= MINUTE_NS {
                throttle.in_vain = 0;
            }
            let wait_ns = throttle.wait_ns(step, dwell_ns);
            if calm_ns < dwell_ns || now_ns.saturating_sub(throttle.changed_ns) < wait_ns {
                continue;
            }
            if throttle.share >= throttle.too_much {
                (throttle.too_much, throttle.times) = (f32::INFINITY, 0);
            }
            throttle.share += step;
            throttle.changed_ns = now_ns;
            if throttle.share >= 1.0 {
                *place = None;
            }
        }
    }

    /// It has not been calm since their last change so long ago, and nobody says that it is batch's doing: limited no more. Else
    /// they would stay so for as long as storage is slow for reasons of its own.
    pub fn give_up(&mut self, after_ns: u64, now_ns: u64) {
        for place in &mut self.0 {
            place.take_if(|throttle| now_ns.saturating_sub(throttle.changed_ns) >= after_ns);
        }
    }

    /// They run again: from now on the share can grow.
    pub fn run(&mut self, now_ns: u64) {
        for throttle in self.0.iter_mut().flatten() {
            (throttle.changed_ns, throttle.cut_ns) = (now_ns, None);
        }
    }

    /// Is there something left to cut on this filesystem?
    pub fn can_cut(&self, filesystem: u16, step: f32) -> bool {
        self.of(filesystem).is_some_and(|throttle| throttle.share > LEAST * step)
    }

    /// How often cuts have not helped on this filesystem.
    pub fn in_vain(&self, filesystem: u16) -> u32 {
        self.of(filesystem).map_or(0, |throttle| throttle.in_vain)
    }

    /// Limited no more.
    pub fn end(&mut self, filesystem: u16) {
        for place in &mut self.0 {
            place.take_if(|throttle| throttle.filesystem == filesystem);
        }
    }

    /// On none of these, bit by index.
    pub fn end_on(&mut self, filesystems: u128) {
        for place in &mut self.0 {
            let there = |filesystem: u16| filesystems.checked_shr(u32::from(filesystem)).unwrap_or(0) & 1 == 1;
            place.take_if(|throttle| there(throttle.filesystem));
        }
    }

    /// Jobs that have ended are limited no more, nor is a disk that is not there any more or all of whose jobs have ended.
    pub fn of_living(&mut self, living: &JobSet, filesystems: usize) {
        for place in &mut self.0 {
            let Some(throttle) = place else { continue };
            let named = !throttle.jobs.is_empty();
            throttle.jobs = throttle.jobs.and(living);
            if usize::from(throttle.filesystem) >= filesystems || (named && throttle.jobs.is_empty()) {
                *place = None;
            }
        }
    }
}

const MINUTE_NS: u64 = 60_000_000_000;

impl Throttle {
    /// It has been cut, and has not been calm since: or it has just begun.
    pub fn was_cut(&self) -> bool {
        self.cut_ns.is_some()
    }

    /// Is it these who are limited? Nobody named may be anybody.
    pub fn may_be(&self, jobs: &JobSet) -> bool {
        self.jobs.and(jobs) == *jobs
    }

    /// How long their share is left alone before it grows.
    fn wait_ns(&self, step: f32, dwell_ns: u64) -> u64 {
        match self.share + step > NEAR * self.too_much {
            true => (CAREFUL * dwell_ns) << self.times.saturating_sub(1).min(DOUBLINGS),
            false => dwell_ns,
        }
    }

    fn halve(&mut self, least: f32, now_ns: u64) {
        if self.cut_ns.is_none() {
            (self.too_much, self.times) = (self.share, self.times + 1);
        }
        self.share = (self.share / 2.0).max(least);
        self.changed_ns = now_ns;
        self.cut_ns = Some(now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const STEP: f32 = 0.1;

    fn jobs(places: &[usize]) -> JobSet {
        places.iter().copied().collect()
    }

    fn limited() -> Throttles {
        let mut throttles = Throttles::default();
        throttles.begin(3, jobs(&[1]), STEP, S);
        throttles
    }

    fn share(throttles: &Throttles) -> f32 {
        throttles.of(3).map_or(1.0, |throttle| throttle.share)
    }

    #[test]
    fn one_step_more_after_each_calm_dwell_until_all_is_given_back() {
        let mut throttles = limited();
        for tick in 0..1000 {
            throttles.ease(5 * S, STEP, 2 * S, S + tick * S / 50);
        }
        assert!((share(&throttles) - 1.0).abs() < 1e-3, "20 s: nine steps and the first");
        let mut throttles = limited();
        throttles.ease(2 * S - 1, STEP, 2 * S, 10 * S);
        assert_eq!(share(&throttles), STEP, "not calm for long enough");
        throttles.ease(2 * S, STEP, 2 * S, 10 * S);
        throttles.ease(3 * S, STEP, 2 * S, 11 * S);
        assert_eq!(share(&throttles), 2.0 * STEP, "and not twice in a dwell");
        for dwell in 0..8 {
            throttles.ease(20 * S, STEP, 2 * S, (12 + 2 * dwell) * S);
        }
        assert!(throttles.is_empty());
    }

    #[test]
    fn a_cut_halves_and_is_given_time_to_help() {
        let mut throttles = limited();
        (0..4).for_each(|dwell| throttles.ease(20 * S, STEP, 2 * S, (10 + 2 * dwell) * S));
        let before = share(&throttles);
        assert_eq!(throttles.cut(3, STEP, S, 20 * S), Cut::Now);
        assert_eq!(share(&throttles), before / 2.0);
        assert_eq!(throttles.cut(3, STEP, S, 21 * S - 1), Cut::Lately);
        assert_eq!((throttles.cut(3, STEP, S, 21 * S), throttles.in_vain(3)), (Cut::InVain, 1));
        assert_eq!(share(&throttles), before / 2.0);
        // Calm in between: the next one is a new one, and after a minute what was in vain is forgotten.
        throttles.ease(S, STEP, 2 * S, 22 * S);
        assert_eq!(throttles.cut(3, STEP, S, 23 * S), Cut::Now);
        throttles.ease(MINUTE_NS, STEP, 2 * S, 90 * S);
        assert_eq!(throttles.in_vain(3), 0);
    }

    /// Eases them once a second until their share is this, or for so long; how long it took.
    fn until(throttles: &mut Throttles, wanted: f32, from: u64, seconds: u64) -> Option<u64> {
        (1..=seconds).find(|second| {
            throttles.ease(20 * S, STEP, 2 * S, (from + second) * S);
            share(throttles) >= wanted - 1e-3
        })
    }

    #[test]
    fn where_it_was_too_much_they_come_back_with_care_and_each_time_with_more() {
        let mut throttles = limited();
        assert_eq!(
            until(&mut throttles, 0.4, 10, 60),
            Some(5),
            "a step at once and each dwell time: nobody knows better"
        );
        throttles.cut(3, STEP, S, 20 * S);
        throttles.run(22 * S);
        assert_eq!(until(&mut throttles, 0.3, 22, 60), Some(2), "far from it as ever");
        assert_eq!(until(&mut throttles, 0.4, 24, 60), Some(8), "four dwell times");
        throttles.cut(3, STEP, S, 40 * S);
        throttles.run(42 * S);
        assert_eq!(until(&mut throttles, 0.4, 42, 60), Some(2 + 16), "and eight");
        // Borne there for as long: what is above is as if new.
        assert_eq!(until(&mut throttles, 0.5, 60, 60), Some(16));
        assert_eq!(until(&mut throttles, 0.7, 76, 60), Some(4));
        throttles.cut(3, STEP, S, 90 * S);
        throttles.run(92 * S);
        assert_eq!(until(&mut throttles, 0.45, 92, 60), Some(2));
    }

    #[test]
    fn two_cuts_of_one_freeze_are_one_that_was_too_much() {
        let mut throttles = limited();
        until(&mut throttles, 0.8, 10, 60);
        throttles.cut(3, STEP, S, 60 * S);
        throttles.halve(3, STEP, 60 * S);
        throttles.run(62 * S);
        assert!((share(&throttles) - 0.2).abs() < 1e-3);
        assert_eq!(until(&mut throttles, 0.6, 62, 60), Some(8), "0.4 was never too much");
    }

    #[test]
    fn something_is_always_left() {
        let mut throttles = limited();
        (0..9).for_each(|time| throttles.halve(3, STEP, time));
        assert_eq!(share(&throttles), LEAST * STEP);
        throttles.run(S);
        assert_eq!(throttles.cut(3, STEP, S, 2 * S), Cut::InVain, "nothing is left to cut");
        assert_eq!(throttles.cut(7, STEP, S, 2 * S), Cut::InVain, "nobody is limited there");
    }

    #[test]
    fn more_disks_than_there_is_room_for() {
        let mut throttles = limited();
        throttles.ease(2 * S, STEP, 2 * S, 10 * S);
        (10..10 + DISKS as u16).for_each(|filesystem| throttles.begin(filesystem, jobs(&[2]), STEP, 10 * S));
        assert_eq!(throttles.of(3), None, "who had most");
        assert_eq!(throttles.iter().count(), DISKS);
    }

    #[test]
    fn jobs_join_and_end() {
        let mut throttles = limited();
        throttles.begin(3, jobs(&[2]), STEP, 2 * S);
        throttles.begin(4, JobSet::default(), STEP, 2 * S);
        throttles.of_living(&jobs(&[2, 9]), 9);
        assert_eq!(throttles.of(3).map(|throttle| throttle.jobs), Some(jobs(&[2])));
        throttles.of_living(&jobs(&[9]), 9);
        assert_eq!((throttles.of(3), throttles.of(4).is_some()), (None, true), "nobody is named there");
        throttles.of_living(&jobs(&[9]), 4);
        assert!(throttles.is_empty(), "the disk is gone");
    }
}

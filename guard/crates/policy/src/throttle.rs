// SPDX-License-Identifier: Apache-2.0
//! How much of a disk those get who made it slow: next to nothing at first, twice as much each time that it was calm (slow start), from one
//! step on one more (additive increase), half of it when it is not (multiplicative decrease), as TCP shares a link (RFC 5681; Chiu and
//! Jain, "Analysis of the increase and decrease algorithms for congestion avoidance", 1989). The unit is what they did there when they
//! made it slow, so that it fits any disk. What the kernel cannot limit them to is an account that they rest for ([`Throttle::account`]).
//!
//! Where it became slow is remembered, and above half of that they get more only after longer and longer calm, as CUBIC stays below
//! the window at which it lost packets (RFC 9438, section 4.1): each return to it costs storage some slow requests, and a disk
//! may give no warning: with the lab's there is next to no evidence a second before there is enough.
//!
//! Before evidence comes strain ([`crate::strain`]): they get more only while clients have hardly more slow requests than usual, and
//! half when those have half as many again. So the share settles where clients do not notice it, and not where they break.
//!
//! Where clients fill a disk ([`crate::filled`]) nothing of the kind shows: there they get next to nothing until it has room again,
//! and then half of what they had.
//!
//! That it was calm says something only while they used all that they were left: who rests keeps his limit, and begins with it
//! when he comes back. It ends when nobody has come up against it for long, or with those whom it is for.

use crate::bits::{bit, contains};
use crate::evaluator::FilesystemLoad;
use crate::jobs::JobSet;
use crate::strain::Strain;

/// Most disks on which batch is limited at a time.
pub const DISKS: usize = 16;

/// Nobody is limited to less than this share of a step: jobs that get nothing for ever may as well leave. They begin with four times that.
const LEAST: f32 = 0.0625;
const FIRST: f32 = 4.0 * LEAST;

/// Above this part of the share that was too much before more is given with care.
const NEAR: f32 = 0.5;

/// Beside clients it takes so many dwell times for the next step, and there, for each time that it was too much, twice as long, so often.
const CAREFUL: u64 = 16;
const DOUBLINGS: u32 = 4;

/// But no longer than this, or than one dwell time.
const WAIT_MAX_NS: u64 = 600_000_000_000;

/// From all that they did on more is given by this factor: what they did in the moment in which they were caught may have been
/// little.
const GROWTH: f32 = 1.25;

/// More than any disk does of it; so that it stays a number.
const MOST: f32 = 1e6;

/// What somebody wrote may be on its way to the disk for so long.
const USED_NS: u64 = 10_000_000_000;

/// Whom no client has asked for anything for so long has none.
const ALONE_NS: u64 = 10_000_000_000;

/// Who has had no need of more than he is left for so long is limited no more.
const UNUSED_NS: u64 = 600_000_000_000;

/// What those who are limited on a disk do with what they are left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// Nobody would do more without a limit.
    Little,
    /// Somebody would, but not most of them.
    Part,
    /// Most of it is used; or it is not known.
    #[default]
    Full,
}

/// Batch is limited on one disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throttle {
    /// The filesystem on it, by index.
    pub filesystem: u16,
    /// Whose work made it slow, where that is known; what batch does there through the storage daemons is limited as well.
    pub jobs: JobSet,
    /// Share that they get of what they did then; above 0. More than 1 is more than that.
    pub share: f32,
    /// It was given, or last changed, then.
    changed_ns: u64,
    /// What they do with what they have; when that was last more than little.
    using: Use,
    used_ns: u64,
    /// How long they have used it in calm since it changed, and since a cut; the last calm tick.
    earned_ns: u64,
    good_ns: u64,
    calm_ns: u64,
    /// Since when it has not been calm for a dwell time.
    slow_since_ns: Option<u64>,
    /// It was cut then, and it has not been calm since.
    cut_ns: Option<u64>,
    /// How often a cut did not help, without a minute of calm use in between.
    in_vain: u32,
    /// The share that was too much; infinite = it is not known.
    too_much: f32,
    /// How often it was; one less for each step beyond it that has been borne.
    times: u32,
    /// It was less than before, and has not been more since: what was too much is known.
    backed_off: bool,
    /// What clients notice of this share.
    strain: Strain,
    /// When clients last asked for something there, since it was limited.
    asked_ns: Option<u64>,
    /// Clients fill the disk: next to nothing of the share is given.
    filled: bool,
    /// Nobody has been told yet.
    untold: bool,
}

/// Somebody was given less, because clients notice it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Eased {
    /// Where.
    pub filesystem: u16,
    /// Whose work made it slow.
    pub jobs: JobSet,
    /// How many times as many slow requests as usual, and how many are too many.
    pub slow: (f32, f32),
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
        self.0.iter().all(Option::is_none)
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Throttle> {
        self.0.iter().flatten()
    }

    /// Does everybody get the same? How long they have had it is another matter, and another one at every tick.
    pub fn give_the_same(&self, other: &Throttles) -> bool {
        let given = |throttle: &Throttle| (throttle.filesystem, throttle.jobs, throttle.given(), throttle.was_cut());
        self.iter().map(given).eq(other.iter().map(given))
    }

    /// Who is limited somewhere.
    pub fn jobs(&self) -> JobSet {
        self.iter().fold(JobSet::default(), |jobs, throttle| jobs.or(&throttle.jobs))
    }

    /// On which filesystems, bit by index.
    pub fn filesystems(&self) -> u128 {
        self.iter().fold(0, |all, throttle| all | bit(throttle.filesystem.into()))
    }

    /// Of one filesystem.
    pub fn of(&self, filesystem: u16) -> Option<&Throttle> {
        self.iter().find(|throttle| throttle.filesystem == filesystem)
    }

    fn of_mut(&mut self, filesystem: u16) -> Option<&mut Throttle> {
        self.0.iter_mut().flatten().find(|throttle| throttle.filesystem == filesystem)
    }

    /// These have made it slow: they start with a part of a `step`. Where others are limited before, all of them have no more than that.
    /// With more disks than there is room for, who has most gets everything back: nobody on a disk that clients fill, while
    /// there is another.
    pub fn begin(&mut self, filesystem: u16, jobs: JobSet, step: f32, now_ns: u64) {
        let first = FIRST * step;
        if let Some(throttle) = self.of_mut(filesystem) {
            if !throttle.may_be(&jobs) {
                throttle.set(throttle.share.min(first), now_ns);
                (throttle.cut_ns, throttle.used_ns) = (Some(now_ns), now_ns);
            }
            throttle.jobs = throttle.jobs.or(&jobs);
            return;
        }
        let given = |place: &Option<Throttle>| place.map_or(f32::INFINITY, |throttle| throttle.given());
        let share = |place: &Option<Throttle>| place.map_or(f32::INFINITY, |throttle| throttle.share);
        let more = |a: &_, b: &_| given(a).total_cmp(&given(b)).then(share(a).total_cmp(&share(b)));
        let room = self.0.iter_mut().max_by(|a, b| more(a, b));
        if let Some(place) = room {
            *place = Some(Throttle::new(filesystem, jobs, first, now_ns));
        }
    }

    /// It is slow again: half of what they had. `patience_ns` = for so long a cut is given time to help.
    pub fn cut(&mut self, filesystem: u16, step: f32, patience_ns: u64, now_ns: u64) -> Cut {
        let least = LEAST * step;
        let Some(throttle) = self.of_mut(filesystem) else { return Cut::InVain };
        if throttle.filled {
            // They have next to nothing as it is.
            return Cut::Lately;
        }
        if let Some(cut_ns) = throttle.cut_ns {
            if now_ns.saturating_sub(cut_ns) < patience_ns {
                return Cut::Lately;
            }
            throttle.in_vain += 1;
            throttle.good_ns = 0;
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
        match self.of_mut(filesystem) {
            Some(throttle) if throttle.filled => throttle.cut_ns = Some(now_ns),
            Some(throttle) => throttle.halve(LEAST * step, now_ns),
            None => {}
        }
    }

    /// What those who are limited do with what they have, by filesystem; shorter = unknown. Who rests on one because he has had all of it
    /// would do more. Who has had no need of more for long is limited no more.
    pub fn note_use(&mut self, used: &[Use], rest_on: impl Fn(u16) -> JobSet, now_ns: u64) {
        for place in &mut self.0 {
            let Some(throttle) = place else { continue };
            let resting = rest_on(throttle.filesystem).and(&throttle.jobs);
            let by_rest = match resting {
                nobody if nobody.is_empty() => Use::Little,
                all if all == throttle.jobs => Use::Full,
                _ => Use::Part,
            };
            throttle.using = used.get(usize::from(throttle.filesystem)).copied().unwrap_or_default().max(by_rest);
            if throttle.using != Use::Little {
                throttle.used_ns = now_ns;
            }
            if throttle.unused_ns(now_ns) >= UNUSED_NS {
                *place = None;
            }
        }
    }

    /// Nothing is heard of clients who were there: they may be.
    pub fn unheard(&mut self, now_ns: u64) {
        for throttle in self.0.iter_mut().flatten() {
            throttle.asked_ns = throttle.asked_ns.map(|_| now_ns);
        }
    }

    /// What clients got on each filesystem since the last time, while somebody used what he is left.
    pub fn note_strain(&mut self, loads: &[FilesystemLoad], now_ns: u64) {
        for throttle in self.0.iter_mut().flatten() {
            let Some(load) = loads.get(usize::from(throttle.filesystem)) else { continue };
            if load.slow_end.requests > 0.0 || load.storage_in_flight > 0 {
                throttle.asked_ns = Some(now_ns);
            }
            if throttle.using != Use::Little {
                throttle.strain.add(load.slow_end, load.storage_in_flight, now_ns);
            }
        }
    }

    /// Clients fill these disks, bit by index. Who took a part of one has half of what he had when it has room again: with what he did
    /// it had none.
    pub fn give_way(&mut self, filled: u128, step: f32, now_ns: u64) {
        for throttle in self.0.iter_mut().flatten() {
            let now = contains(filled, usize::from(throttle.filesystem));
            if now && !throttle.filled {
                throttle.untold = true;
                // Also of who was worth no limit until now it is to be known what he does.
                throttle.cut_ns = Some(now_ns);
                if throttle.using != Use::Little {
                    throttle.was_too_much();
                    throttle.set((throttle.share / 2.0).max(LEAST * step), now_ns);
                }
            }
            throttle.untold &= now;
            throttle.filled = now;
            if now {
                throttle.slow_since_ns = None;
            }
        }
    }

    /// Is there a place for one more?
    pub fn has_room(&self, filesystem: u16) -> bool {
        self.of(filesystem).is_some() || self.0.iter().any(Option::is_none)
    }

    /// These are to give way as well, if there is room for them: they have done nothing worse than that.
    pub fn make_way(&mut self, filesystem: u16, jobs: JobSet, now_ns: u64) {
        if let Some(throttle) = self.of_mut(filesystem) {
            (throttle.jobs, throttle.untold) = (throttle.jobs.or(&jobs), true);
        } else if let Some(place) = self.0.iter_mut().find(|place| place.is_none()) {
            *place = Some(Throttle::new(filesystem, jobs, 1.0, now_ns));
        }
    }

    /// Where somebody has just been left next to nothing because of that; each is told once.
    pub fn given_way(&mut self) -> Option<(u16, JobSet)> {
        let throttle = self.0.iter_mut().flatten().find(|throttle| throttle.untold)?;
        throttle.untold = false;
        Some((throttle.filesystem, throttle.jobs))
    }

    /// What is usual, and for whom, is another matter now.
    pub fn forget_strain(&mut self) {
        self.0.iter_mut().flatten().for_each(|throttle| throttle.strain = Strain::default());
    }

    /// It has been calm for `calm_ns`: more for those who have used all that they had for long enough, if clients do not notice; less if
    /// they do. The last of those who got less.
    pub fn ease(&mut self, calm_ns: u64, step: f32, dwell_ns: u64, now_ns: u64) -> Option<Eased> {
        let mut eased = None;
        for throttle in self.0.iter_mut().flatten() {
            throttle.cut_ns = None;
            throttle.pass(now_ns);
            if calm_ns < dwell_ns {
                continue;
            }
            throttle.slow_since_ns = None;
            eased = throttle.follow_strain(step, dwell_ns, now_ns).or(eased);
        }
        eased
    }

    /// It has not been calm for so long, nor was there a change, and nobody says that it is batch's doing: limited no more. Else
    /// they would stay so for as long as storage is slow for reasons of its own.
    pub fn give_up(&mut self, after_ns: u64, now_ns: u64) {
        for place in &mut self.0 {
            place.take_if(|throttle| {
                let since_ns = *throttle.slow_since_ns.get_or_insert(now_ns);
                // Where clients fill the disk it is known why.
                !throttle.filled && now_ns.saturating_sub(since_ns.max(throttle.changed_ns)) >= after_ns
            });
        }
    }

    /// Has somebody just used a limited share? What storage is like then is not what it is like.
    pub fn in_use(&self, now_ns: u64) -> bool {
        self.iter().any(|throttle| throttle.unused_ns(now_ns) < USED_NS)
    }

    /// They run again: from now on the share can grow.
    pub fn run(&mut self, now_ns: u64) {
        for throttle in self.0.iter_mut().flatten() {
            if throttle.was_cut() {
                throttle.used_ns = now_ns;
            }
            (throttle.changed_ns, throttle.calm_ns, throttle.cut_ns) = (now_ns, now_ns, None);
            throttle.strain.begin_anew(now_ns);
        }
    }

    /// Is there something left to cut on this filesystem?
    pub fn can_cut(&self, filesystem: u16, step: f32) -> bool {
        self.of(filesystem).is_some_and(|throttle| !throttle.filled && throttle.share > LEAST * step)
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
    fn end_on(&mut self, filesystems: u128) {
        for place in &mut self.0 {
            place.take_if(|throttle| contains(filesystems, usize::from(throttle.filesystem)));
        }
    }

    /// Of these only those that the others have, too.
    pub fn keep_those_of(&mut self, others: &Throttles) {
        for place in &mut self.0 {
            place.take_if(|throttle| others.of(throttle.filesystem).is_none());
        }
    }

    /// On these as it was before.
    pub fn give_back(&mut self, filesystems: u128, before: &Throttles) {
        let now = *self;
        self.end_on(filesystems);
        let mut free = self.0.iter_mut().filter(|place| place.is_none());
        for throttle in before.iter().filter(|throttle| contains(filesystems, usize::from(throttle.filesystem))) {
            if let Some(place) = free.next() {
                // Clients have asked for something meanwhile.
                let asked_ns = now.of(throttle.filesystem).and_then(|now| now.asked_ns).max(throttle.asked_ns);
                *place = Some(Throttle { asked_ns, ..*throttle });
            }
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
/// Ticks that lie further apart have something in between that was not calm, or not heard.
pub(crate) const TICK_MAX_NS: u64 = 1_000_000_000;

impl Throttle {
    fn new(filesystem: u16, jobs: JobSet, share: f32, now_ns: u64) -> Throttle {
        let mut strain = Strain::default();
        strain.begin_anew(now_ns);
        Throttle {
            filesystem,
            jobs,
            share,
            changed_ns: now_ns,
            using: Use::Full,
            used_ns: now_ns,
            earned_ns: 0,
            good_ns: 0,
            calm_ns: now_ns,
            slow_since_ns: None,
            cut_ns: Some(now_ns),
            in_vain: 0,
            too_much: f32::INFINITY,
            times: 0,
            backed_off: false,
            strain,
            asked_ns: None,
            filled: false,
            untold: false,
        }
    }

    /// It has been cut, and has not been calm since: or it has just begun.
    pub fn was_cut(&self) -> bool {
        self.cut_ns.is_some()
    }

    /// The share that they get now; 0 = next to nothing.
    pub fn given(&self) -> f32 {
        if self.filled {
            0.0
        } else {
            self.share
        }
    }

    /// What part of the disk's work those may have together who do more than that with the least limit that there is, while clients use
    /// the disk: `filled_share` at most where they fill it. `None` = whatever they like.
    pub fn account(&self, filled_share: f64, now_ns: u64) -> Option<f64> {
        let share = match self.filled {
            // It lets nobody rest there.
            true if filled_share >= 1.0 => return None,
            true => filled_share.min(self.share.into()),
            false if self.alone(now_ns) => return None,
            false => self.share.into(),
        };
        (share < 1.0 && !self.jobs.is_empty()).then_some(share)
    }

    /// No client uses the filesystem.
    fn alone(&self, now_ns: u64) -> bool {
        self.asked_ns.is_none_or(|asked_ns| now_ns.saturating_sub(asked_ns) >= ALONE_NS)
    }

    /// Is it these who are limited? Nobody named may be anybody.
    pub fn may_be(&self, jobs: &JobSet) -> bool {
        self.jobs.and(jobs) == *jobs
    }

    fn set(&mut self, share: f32, now_ns: u64) {
        (self.share, self.changed_ns, self.earned_ns) = (share, now_ns, 0);
        self.strain.begin_anew(now_ns);
    }

    /// A calm tick.
    fn pass(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(std::mem::replace(&mut self.calm_ns, now_ns));
        if self.using == Use::Full && passed_ns <= TICK_MAX_NS {
            self.earned_ns += passed_ns;
            self.good_ns += passed_ns;
        }
        if self.good_ns >= MINUTE_NS {
            self.in_vain = 0;
        }
    }

    fn unused_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.used_ns)
    }

    fn more(&self, step: f32) -> f32 {
        if self.share < step {
            (2.0 * self.share).min(step)
        } else if self.share < 1.0 {
            self.share + step
        } else {
            (GROWTH * self.share).min(MOST)
        }
    }

    /// For how long they must have used their share before it grows.
    fn wait_ns(&self, step: f32, dwell_ns: u64, now_ns: u64) -> u64 {
        match self.more(step) > NEAR * self.too_much {
            true => careful_ns(self.times.min(DOUBLINGS), dwell_ns),
            false if self.alone(now_ns) => dwell_ns,
            false => careful_ns(0, dwell_ns),
        }
    }

    /// More, or less, or as before. Where it is no better with the least it is not their doing.
    fn follow_strain(&mut self, step: f32, dwell_ns: u64, now_ns: u64) -> Option<Eased> {
        if self.filled {
            // Nothing shows there, and what is borne is not their share.
            self.earned_ns = 0;
            self.strain.begin_anew(now_ns);
            return None;
        }
        let least = LEAST * step;
        let long = self.earned_ns >= careful_ns(0, dwell_ns) && self.strain.told();
        if self.strain.light() {
            if self.earned_ns >= self.wait_ns(step, dwell_ns, now_ns) {
                self.grow(step, now_ns);
            }
        } else if self.share <= least {
            if long {
                self.strain.rebase(now_ns);
            }
        } else if self.strain.too_much() || long {
            let slow = (self.strain.ratio(), self.strain.limit());
            self.was_too_much();
            self.set((self.share / 2.0).max(least), now_ns);
            return Some(Eased { filesystem: self.filesystem, jobs: self.jobs, slow });
        }
        None
    }

    fn grow(&mut self, step: f32, now_ns: u64) {
        let more = self.more(step);
        self.backed_off = false;
        self.strain.unbase();
        if self.share >= self.too_much {
            self.times = self.times.saturating_sub(1);
            self.too_much = if self.times == 0 { f32::INFINITY } else { more };
        }
        self.set(more, now_ns);
    }

    fn was_too_much(&mut self) {
        if !std::mem::replace(&mut self.backed_off, true) {
            (self.too_much, self.times) = (self.share, (self.times + 1).min(DOUBLINGS + 1));
        }
    }

    fn halve(&mut self, least: f32, now_ns: u64) {
        self.was_too_much();
        self.set((self.share / 2.0).max(least), now_ns);
        (self.cut_ns, self.used_ns, self.good_ns) = (Some(now_ns), now_ns, 0);
    }
}

fn careful_ns(doublings: u32, dwell_ns: u64) -> u64 {
    ((CAREFUL * dwell_ns) << doublings).min(WAIT_MAX_NS.max(dwell_ns))
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: Apache-2.0
//! How much CPU, memory and network batch as a whole may have: half of it each time that storage is short of it for batch's sake, a step
//! more while it is not, as [`crate::throttle`] does for one disk. Batch that gets less in vain gets all of it back. So it is with CPU where
//! storage is slow each time that batch runs, and not for what batch does on a disk.

use crate::gauge::settled;

/// What batch can have less of as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Cores, and shares of one.
    Cpu,
    /// Memory.
    Memory,
    /// What it may send to other hosts and receive from them.
    Network,
}

impl Resource {
    /// All of them; the index is its place everywhere.
    pub const ALL: [Resource; 3] = [Resource::Cpu, Resource::Memory, Resource::Network];

    /// Its name, as in the journal and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Resource::Cpu => "cpu",
            Resource::Memory => "memory",
            Resource::Network => "network",
        }
    }
}

/// What batch may have of each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares([f32; Resource::ALL.len()]);

impl Default for Shares {
    fn default() -> Shares {
        Shares([1.0; Resource::ALL.len()])
    }
}

impl Shares {
    /// By resource; 1 = all.
    pub fn new(shares: [f32; Resource::ALL.len()]) -> Shares {
        Shares(shares)
    }

    /// Above 0, 1 = all.
    pub fn of(&self, resource: Resource) -> f32 {
        self.0[resource as usize]
    }

    /// Those of which it may not have all.
    pub fn less(&self) -> impl Iterator<Item = (Resource, f32)> + '_ {
        Resource::ALL.into_iter().map(|resource| (resource, self.of(resource))).filter(|(_, share)| *share < 1.0)
    }
}

/// Batch is never left with less than this share: jobs that get nothing for ever may as well leave.
const LEAST: f32 = 0.05;
/// What it gets back at a time.
const STEP: f32 = 0.1;
/// And below what was too much before, as a part of that: two minutes from half of it.
const STEP_TRIED: f32 = 0.04;
/// So much of that is as much as that.
const SAME: f32 = 0.8;
/// Less than this share of what it was is down.
const DOWN: f64 = 0.9;
/// A pause is doubled so many times at most.
const DOUBLINGS: u32 = 6;

/// What has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Batch gets less.
    Less,
    /// It gets all of it: less was of no use.
    InVain,
    /// It gets all of it: storage has enough.
    Over,
}

/// The share of one resource.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Squeeze {
    share: f32,
    changed_ns: u64,
    /// So much of it made storage slow; 0 = none is known to.
    too_much: f32,
    /// What was measured before batch got less.
    before: f64,
    /// Since when storage has had enough.
    enough_ns: Option<u64>,
    /// Batch gets no less before that, and how many pauses there were.
    until_ns: u64,
    pauses: u32,
}

impl Default for Squeeze {
    fn default() -> Squeeze {
        Squeeze { share: 1.0, changed_ns: 0, too_much: 0.0, before: 0.0, enough_ns: None, until_ns: 0, pauses: 0 }
    }
}

impl Squeeze {
    /// What batch may have of it; above 0, 1 = all.
    pub fn share(&self) -> f32 {
        self.share
    }

    /// Does batch have less than all of it?
    pub fn on(&self) -> bool {
        self.share < 1.0
    }

    /// Storage is short of it: this was measured, and then. After a squeeze in vain there is none for `backoff_ns`, after two for twice as
    /// long.
    pub fn short(&mut self, value: f64, read_ns: u64, backoff_ns: u64, now_ns: u64) -> Option<Change> {
        self.enough_ns = None;
        let all = self.share >= 1.0;
        // What was read in a pause is of the time when batch had hardly anything of it, too.
        if read_ns < self.until_ns || (!all && !settled(read_ns, self.changed_ns)) {
            return None;
        }
        // After a harm nothing had been measured.
        if all || (self.harmed() && self.before.is_infinite()) {
            self.before = value;
        }
        if self.share > LEAST {
            (self.share, self.changed_ns) = ((self.share / 2.0).max(LEAST), now_ns);
            return Some(Change::Less);
        }
        if value <= DOWN * self.before {
            return None;
        }
        Some(self.in_vain(backoff_ns, now_ns))
    }

    /// Batch made storage slow again, by what is not known: half of it, also where the last half was only a moment ago.
    pub fn harm(&mut self, backoff_ns: u64, now_ns: u64) -> Option<Change> {
        self.enough_ns = None;
        if now_ns < self.until_ns {
            return None;
        }
        if self.share <= LEAST {
            // Whoever has his least for another reason was not left it for this.
            return self.harmed().then(|| self.in_vain(backoff_ns, now_ns));
        }
        // Nearly what was too much before is the same again; it need not be less than half of that.
        if self.share < SAME * self.too_much || !self.harmed() {
            self.too_much = self.share;
        }
        // Nothing was measured that could show that this was of no use.
        self.before = f64::INFINITY;
        (self.share, self.changed_ns) = ((self.too_much / 2.0).max(LEAST), now_ns);
        Some(Change::Less)
    }

    /// It has less because it made storage slow.
    pub fn harmed(&self) -> bool {
        self.too_much > 0.0
    }

    /// And may have still less for that.
    pub fn searching(&self) -> bool {
        self.harmed() && self.share > LEAST
    }

    fn in_vain(&mut self, backoff_ns: u64, now_ns: u64) -> Change {
        let until_ns = now_ns.saturating_add(backoff_ns << self.pauses.min(DOUBLINGS));
        *self = Squeeze { until_ns, pauses: self.pauses + 1, ..Squeeze::default() };
        Change::InVain
    }

    /// Nobody knows what storage is short of: batch is left its least, for as long as that is so.
    pub fn floor(&mut self, now_ns: u64) -> Option<Change> {
        self.enough_ns = None;
        if self.share <= LEAST {
            return None;
        }
        if self.share >= 1.0 {
            // Nothing was measured that could show that this was of no use.
            self.before = f64::INFINITY;
        }
        (self.share, self.changed_ns, self.too_much) = (LEAST, now_ns, 0.0);
        Some(Change::Less)
    }

    /// Storage has enough of it, as was read then; which shows nothing where it was no reading that batch has less for.
    pub fn enough(&mut self, read_ns: u64, backoff_ns: u64, now_ns: u64) -> Option<Change> {
        let since_ns = *self.enough_ns.get_or_insert(now_ns);
        if self.share >= 1.0 {
            // Only after so long what was in vain is another story.
            if now_ns.saturating_sub(since_ns) >= backoff_ns << self.pauses.min(DOUBLINGS) {
                self.pauses = 0;
            }
            return None;
        }
        let read_ns = if self.before.is_finite() { read_ns } else { now_ns };
        if !settled(now_ns, since_ns) || !settled(read_ns, self.changed_ns) {
            return None;
        }
        // What was too much is likely to be so again: it is tried, and not soon.
        let step = if self.share < self.too_much { self.too_much * STEP_TRIED } else { STEP };
        (self.share, self.changed_ns) = (self.share + step, now_ns);
        if self.share < 1.0 {
            return None;
        }
        (self.share, self.too_much) = (1.0, 0.0);
        Some(Change::Over)
    }

    /// There is nobody to have it.
    pub fn end(&mut self) -> Option<Change> {
        let squeezed = self.on();
        (self.share, self.too_much) = (1.0, 0.0);
        squeezed.then_some(Change::Over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// Short of it for so many seconds, at this value; what happened, and when.
    fn short(squeeze: &mut Squeeze, value: f64, from: u64, seconds: u64) -> Vec<(u64, Change)> {
        (from..from + seconds).filter_map(|s| Some((s, squeeze.short(value, s * S, 60 * S, s * S)?))).collect()
    }

    fn enough(squeeze: &mut Squeeze, from: u64, seconds: u64) -> Vec<(u64, Change)> {
        (from..from + seconds).filter_map(|s| Some((s, squeeze.enough(s * S, 60 * S, s * S)?))).collect()
    }

    #[test]
    fn half_of_it_as_soon_as_a_change_can_show_and_then_bit_by_bit_all() {
        let mut squeeze = Squeeze::default();
        assert_eq!(short(&mut squeeze, 0.5, 100, 25), [100, 110, 120].map(|s| (s, Change::Less)));
        assert_eq!(squeeze.share(), 0.125);
        assert_eq!(enough(&mut squeeze, 125, 10), []);
        assert_eq!(squeeze.share(), 0.125, "it has not been enough for long");
        assert_eq!(enough(&mut squeeze, 135, 200), [(215, Change::Over)], "nine steps");
        assert_eq!(squeeze.share(), 1.0);
    }

    #[test]
    fn who_gets_less_in_vain_gets_all_back_and_is_left_alone_for_longer_and_longer() {
        let mut squeeze = Squeeze::default();
        let changes = short(&mut squeeze, 0.5, 100, 51);
        assert_eq!((changes.len(), changes.last()), (6, Some(&(150, Change::InVain))));
        assert_eq!(squeeze.share(), 1.0);
        assert_eq!(short(&mut squeeze, 0.5, 151, 60).first(), Some(&(210, Change::Less)));
        assert_eq!(short(&mut squeeze, 0.5, 211, 60).last(), Some(&(260, Change::InVain)));
        assert_eq!(short(&mut squeeze, 0.5, 271, 120).first(), Some(&(380, Change::Less)), "twice as long");
        assert_eq!(squeeze.end(), Some(Change::Over));
        enough(&mut squeeze, 500, 300);
        assert_eq!(squeeze.pauses, 0, "another story");
    }

    #[test]
    fn each_time_it_makes_storage_slow_it_gets_half_and_when_hardly_anything_is_too_much_all() {
        let mut squeeze = Squeeze::default();
        for (s, share) in [(100, 0.5), (103, 0.25), (109, 0.125)] {
            assert_eq!((squeeze.harm(60 * S, s * S), squeeze.share()), (Some(Change::Less), share));
        }
        assert_eq!(enough(&mut squeeze, 110, 11), []);
        assert_eq!(squeeze.share(), 0.135, "what was too much is tried, and not soon");
        for s in [130, 131] {
            assert_eq!(squeeze.harm(60 * S, s * S), Some(Change::Less));
        }
        assert_eq!(squeeze.share(), LEAST);
        assert_eq!((squeeze.harm(60 * S, 140 * S), squeeze.share()), (Some(Change::InVain), 1.0));
        assert!(!squeeze.harmed());
        assert_eq!(squeeze.harm(60 * S, 199 * S), None);
        assert_eq!(squeeze.harm(60 * S, 200 * S), Some(Change::Less));
    }

    #[test]
    fn nearly_as_much_as_was_too_much_is_the_same_again() {
        let mut squeeze = Squeeze::default();
        squeeze.harm(60 * S, 100 * S);
        enough(&mut squeeze, 100, 81);
        assert!((0.8..0.9).contains(&squeeze.share()), "{}", squeeze.share());
        assert_eq!((squeeze.harm(60 * S, 181 * S), squeeze.share()), (Some(Change::Less), 0.5));
        enough(&mut squeeze, 181, 40);
        assert!((0.55..0.7).contains(&squeeze.share()), "{}", squeeze.share());
        squeeze.harm(60 * S, 230 * S);
        assert!(squeeze.share() < 0.35, "less is too much as well: {}", squeeze.share());
    }

    #[test]
    fn whoever_has_his_least_for_another_reason_does_not_get_all_of_it_for_a_harm() {
        let mut squeeze = Squeeze::default();
        squeeze.harm(60 * S, 90 * S);
        squeeze.floor(100 * S);
        assert_eq!((squeeze.harm(60 * S, 101 * S), squeeze.share(), squeeze.harmed()), (None, LEAST, false));
        // Nor is he left it for ever by a gauge that has nothing of it.
        let mut squeeze = Squeeze::default();
        squeeze.harm(60 * S, 100 * S);
        assert_eq!(short(&mut squeeze, 0.5, 111, 60).last(), Some(&(151, Change::InVain)));
    }

    #[test]
    fn what_was_read_in_a_pause_is_no_reason_after_it() {
        let mut squeeze = Squeeze::default();
        assert_eq!(short(&mut squeeze, 0.5, 100, 51).last(), Some(&(150, Change::InVain)));
        assert_eq!(squeeze.short(0.5, 209 * S, 60 * S, 300 * S), None);
        assert_eq!(squeeze.short(0.5, 210 * S, 60 * S, 301 * S), Some(Change::Less));
    }

    #[test]
    fn it_comes_back_by_itself_where_nothing_was_read_that_it_went_for() {
        let mut squeeze = Squeeze::default();
        squeeze.floor(100 * S);
        let changes: Vec<_> = (100..300).filter_map(|s| Some((s, squeeze.enough(90 * S, 60 * S, s * S)?))).collect();
        assert_eq!(changes, [(200, Change::Over)]);
    }

    #[test]
    fn what_helps_a_little_stays_so_and_something_is_always_left() {
        let mut squeeze = Squeeze::default();
        short(&mut squeeze, 0.5, 100, 1);
        assert_eq!(short(&mut squeeze, 0.4, 101, 300).iter().filter(|(_, change)| *change != Change::Less).count(), 0);
        assert_eq!(squeeze.share(), LEAST);
        assert_eq!((squeeze.end(), squeeze.end()), (Some(Change::Over), None));
    }
}

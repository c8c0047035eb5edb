// SPDX-License-Identifier: Apache-2.0
//! Does a disk bear what batch does there? A sequential test (Wald, "Sequential Tests of Statistical Hypotheses", 1945) of how
//! many requests of clients are in their usual slow end: as many as ever, against half as many again. It begins anew with each
//! change of what batch is left.
//!
//! It says nothing about whose doing it is: clients who ask for more than they used to have more slow requests, too. So whoever is left
//! next to nothing, and it is no better, is not why; what is so then is what is usual from then on ([`Strain::rebase`]).

use crate::detector::SlowEnd;

/// So many times as many slow requests are too many.
const HEAVIER: f32 = 1.5;
/// Nats for that, at which batch has to give way: of requests that do not share their fate some ten that are slow beyond what is usual.
const TOO_MUCH: f32 = 4.0;
/// More than this is not kept for later: what comes then shall be seen.
const CREDIT: f32 = 2.0;
/// With so many requests the answer is wrong in one of three cases, which a next step shows; with fewer it says nothing.
const ENOUGH: f32 = 250.0;
/// After a change what was in flight before says nothing about it.
const SETTLE_NS: u64 = 1_000_000_000;
/// Without any request for so long nobody is hurt.
const IDLE_NS: u64 = 2_000_000_000;

/// The state of the test.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Strain {
    nats: f32,
    seen: SlowEnd,
    /// So many times as many slow requests, less one, are usual with next to no batch.
    more_usual: f32,
    from_ns: u64,
    active_ns: u64,
}

impl Strain {
    /// What batch is left is another now.
    pub fn begin_anew(&mut self, now_ns: u64) {
        *self =
            Strain { more_usual: self.more_usual, from_ns: now_ns + SETTLE_NS, active_ns: now_ns, ..Strain::default() };
    }

    /// What clients got since the last time; so many requests are `in_flight`.
    pub fn add(&mut self, slow: SlowEnd, in_flight: u32, now_ns: u64) {
        if slow.requests > 0.0 || in_flight > 0 {
            self.active_ns = now_ns;
        } else if now_ns.saturating_sub(self.active_ns) >= IDLE_NS {
            (self.nats, self.seen) = (0.0, SlowEnd::default());
        }
        if now_ns >= self.from_ns {
            self.seen.add(slow);
            self.nats += slow.found * HEAVIER.ln() - slow.usual * (1.0 + self.more_usual) * (HEAVIER - 1.0);
            self.nats = self.nats.clamp(-CREDIT, TOO_MUCH);
        }
    }

    /// Batch does too much.
    pub fn too_much(&self) -> bool {
        self.nats >= TOO_MUCH
    }

    /// It may be a little more: there are hardly more slow requests than usual.
    pub fn light(&self) -> bool {
        self.nats <= 0.0
    }

    /// Without requests nobody is hurt; else there must have been enough of them to say so.
    pub fn told(&self) -> bool {
        self.seen.requests == 0.0 || self.seen.requests >= ENOUGH
    }

    /// How many times as many slow requests as usual there have been since the change.
    pub fn ratio(&self) -> f32 {
        self.seen.found / self.seen.usual.max(f32::MIN_POSITIVE)
    }

    /// Too many of them.
    pub fn limit(&self) -> f32 {
        HEAVIER * (1.0 + self.more_usual)
    }

    /// It is as it is with next to no batch: that is usual.
    pub fn rebase(&mut self, now_ns: u64) {
        self.more_usual = (self.ratio() - 1.0).max(self.more_usual);
        self.begin_anew(now_ns);
    }

    /// It is better than was usual with next to no batch, with more of it.
    pub fn unbase(&mut self) {
        self.more_usual = self.more_usual.min((self.ratio() - 1.0).max(0.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// A second of fifty requests, of which one is usually slow.
    fn second(slow: f32) -> SlowEnd {
        SlowEnd { requests: 50.0, slow, found: slow, usual: 1.0 }
    }

    /// This many are slow in each of so many seconds.
    fn strain(seconds: u64, slow: f32) -> Strain {
        let mut strain = Strain::default();
        add(&mut strain, 1, seconds, slow);
        strain
    }

    fn add(strain: &mut Strain, from: u64, seconds: u64, slow: f32) {
        (from..from + seconds).for_each(|at| strain.add(second(slow), 0, at * S));
    }

    #[test]
    fn as_many_as_ever_is_light_and_twice_as_many_is_too_much_at_last() {
        assert!(strain(1, 0.0).light() && !strain(1, 0.0).told() && strain(5, 1.0).told());
        assert!(strain(500, 1.0).light() && strain(500, 1.2).light());
        assert!(!strain(9, 1.3).light() && !strain(9, 1.3).too_much());
        assert!(!strain(12, 2.0).too_much() && strain(13, 2.0).too_much());
        assert!(Strain::default().told() && Strain::default().light(), "nobody is there");
    }

    #[test]
    fn what_was_good_for_long_hides_nothing_nor_does_what_was_bad() {
        let mut strain = strain(10_000, 0.0);
        add(&mut strain, 10_001, 19, 2.0);
        assert!(!strain.too_much());
        add(&mut strain, 10_020, 1, 2.0);
        assert!(strain.too_much());
        add(&mut strain, 10_021, 8, 0.0);
        assert!(strain.light());
    }

    #[test]
    fn what_was_in_flight_before_a_change_does_not_count() {
        let mut strain = strain(30, 2.0);
        strain.begin_anew(30 * S);
        strain.add(second(50.0), 0, 31 * S - 1);
        assert!(strain.light());
        strain.add(second(50.0), 0, 31 * S);
        assert!(strain.too_much());
    }

    #[test]
    fn who_has_left_is_not_hurt() {
        let mut strain = strain(30, 2.0);
        strain.add(SlowEnd::default(), 1, 33 * S);
        strain.add(SlowEnd::default(), 0, 34 * S);
        assert!(strain.too_much(), "somebody waits");
        strain.add(SlowEnd::default(), 0, 35 * S);
        assert!(strain.light() && strain.told());
    }

    #[test]
    fn what_is_so_without_batch_is_usual() {
        let mut strain = strain(30, 2.0);
        strain.rebase(31 * S);
        assert_eq!(strain.limit(), 3.0);
        add(&mut strain, 32, 100, 2.0);
        assert!(strain.light() && (strain.ratio() - 2.0).abs() < 1e-3);
        add(&mut strain, 132, 30, 3.5);
        assert!(strain.too_much());
        // And then it was only for an hour.
        strain.begin_anew(200 * S);
        add(&mut strain, 201, 30, 1.2);
        strain.unbase();
        assert!((strain.limit() - 1.8).abs() < 1e-3, "{}", strain.limit());
        strain.begin_anew(300 * S);
        add(&mut strain, 301, 30, 0.5);
        strain.unbase();
        assert_eq!(strain.limit(), HEAVIER);
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Does a disk bear what batch does there? A sequential test (Wald, "Sequential Tests of Statistical Hypotheses", 1945) of how
//! many requests of clients are in their usual slow end: as many as ever, against half as many again. It begins anew with each
//! change of what batch is left.

use crate::detector::SlowEnd;

/// So many times as many slow requests are too many.
const HEAVIER: f32 = 1.5;
/// Nats for that, at which batch has to give way. Slow requests come in runs: it is 20 of them more than usual.
const TOO_MUCH: f32 = 8.0;
/// More than this is not kept for later: what comes then shall be seen.
const CREDIT: f32 = 4.0;
/// So many requests tell something.
const ENOUGH: f32 = 250.0;

/// The state of the test.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Strain {
    nats: f32,
    requests: f32,
}

impl Strain {
    /// What clients got since the last time.
    pub fn add(&mut self, slow: SlowEnd) {
        self.requests += slow.requests;
        self.nats += slow.found * HEAVIER.ln() - slow.usual * (HEAVIER - 1.0);
        self.nats = self.nats.clamp(-CREDIT, TOO_MUCH);
    }

    /// Batch does too much.
    pub fn too_much(&self) -> bool {
        self.nats >= TOO_MUCH
    }

    /// It may be a little more.
    pub fn light(&self) -> bool {
        self.nats <= 0.0
    }

    /// Without requests nobody is hurt; else there must have been enough of them to say so.
    pub fn told(&self) -> bool {
        self.requests == 0.0 || self.requests >= ENOUGH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many times one request in fifty is usual, and this many are slow.
    fn strain(fifties: usize, slow: f32) -> Strain {
        let mut strain = Strain::default();
        (0..fifties).for_each(|_| strain.add(SlowEnd { requests: 50.0, found: slow, usual: 1.0 }));
        strain
    }

    #[test]
    fn as_many_as_ever_is_light_and_twice_as_many_is_too_much_at_last() {
        assert!(strain(1, 0.0).light() && !strain(1, 0.0).told() && strain(5, 1.0).told());
        assert!(strain(500, 1.0).light() && strain(500, 1.2).light());
        assert!(!strain(9, 1.3).light() && !strain(9, 1.3).too_much());
        assert!(!strain(25, 2.0).too_much() && strain(26, 2.0).too_much());
        assert!(Strain::default().told() && Strain::default().light(), "nobody is there");
    }

    #[test]
    fn what_was_good_for_long_hides_nothing() {
        let mut strain = strain(10_000, 0.0);
        (0..39).for_each(|_| strain.add(SlowEnd { requests: 10.0, found: 1.0, usual: 0.2 }));
        assert!(!strain.too_much());
        strain.add(SlowEnd { requests: 10.0, found: 1.0, usual: 0.2 });
        assert!(strain.too_much());
        // Nor does what was bad for long.
        (0..16).for_each(|_| strain.add(SlowEnd { requests: 50.0, found: 0.0, usual: 1.0 }));
        assert!(strain.light());
    }
}

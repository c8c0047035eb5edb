// SPDX-License-Identifier: Apache-2.0
//! Whose memory is it that storage is short of? Of the job that took most of what jobs took lately, where that is clear. If hardly any
//! was taken, of the one that waits most for memory that others use, and holds much: the kernel takes from it what it uses all the time.
//! That is likely, and no proof: who waits is short of memory himself.

pub use intf::journal::Sign;

/// It grew by at least so much, and by this share of all that jobs hold: less makes nobody short of memory.
const LEAST_BYTES: u128 = 64 << 20;
const LEAST_SHARE: f64 = 0.02;
/// It waited for at least so long in the last minute: a twentieth of it.
const LEAST_WAIT_US: u64 = 3_000_000;

/// What a job holds, by how much that grew lately, and for how long it waited for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its place in the job table.
    pub place: usize,
    /// Bytes.
    pub bytes: u64,
    /// Bytes.
    pub grown: u64,
    /// Microseconds in which some task of it did (kernel, accounting/psi.rst).
    pub waited_us: u64,
}

/// The job that this can be said of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taker {
    /// Its place in the job table.
    pub place: usize,
    /// What speaks against it: more than against all others together.
    pub sign: Sign,
}

/// The one, if there is one.
pub fn taker(jobs: &[Held]) -> Option<Taker> {
    let all = |amount: fn(&Held) -> u64| jobs.iter().map(|job| u128::from(amount(job))).sum::<u128>();
    let (held, grown) = (all(|job| job.bytes), all(|job| job.grown));
    let substantial = |bytes: u128| bytes >= LEAST_BYTES && bytes as f64 >= LEAST_SHARE * held as f64;
    if substantial(grown) {
        // Who waits beside those who grow may be their victim.
        let (job, of) = most(jobs, |job| job.grown)?;
        let sign = Sign::Growth { bytes: job.grown, of };
        return substantial(u128::from(job.grown)).then_some(Taker { place: job.place, sign });
    }
    let (job, of) = most(jobs, |job| job.waited_us)?;
    // Without one that holds less than an even part, little would be free.
    let even = job.bytes as f64 * jobs.len() as f64 >= held as f64;
    let sign = Sign::Wait { us: job.waited_us, of };
    (even && job.waited_us >= LEAST_WAIT_US).then_some(Taker { place: job.place, sign })
}

/// The job of which there is more than of all others together, and how much of all.
fn most(jobs: &[Held], amount: fn(&Held) -> u64) -> Option<(&Held, u64)> {
    let of = jobs.iter().map(amount).try_fold(0u64, u64::checked_add)?;
    let most = jobs.iter().max_by_key(|job| amount(job))?;
    (amount(most) > of - amount(most)).then_some((most, of))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Held and grown in MiB, waited in seconds.
    fn found(jobs: impl Iterator<Item = (u64, u64, u64)>) -> Option<Taker> {
        let held = |(place, (bytes, grown, waited)): (usize, (u64, u64, u64))| Held {
            place,
            bytes: bytes * MIB,
            grown: grown * MIB,
            waited_us: waited * 1_000_000,
        };
        taker(&jobs.enumerate().map(held).collect::<Vec<_>>())
    }

    /// Held and grown, in MiB.
    fn grew(jobs: &[(u64, u64)]) -> Option<(usize, u64, u64)> {
        found(jobs.iter().map(|&(bytes, grown)| (bytes, grown, 0))).map(|taker| match taker.sign {
            Sign::Growth { bytes, of } => (taker.place, bytes / MIB, of / MIB),
            Sign::Wait { .. } => panic!("nobody waits"),
        })
    }

    /// Held in MiB, and waited in seconds.
    fn waits(jobs: &[(u64, u64)]) -> Option<(usize, u64, u64)> {
        found(jobs.iter().map(|&(bytes, waited)| (bytes, 10, waited))).map(|taker| match taker.sign {
            Sign::Wait { us, of } => (taker.place, us / 1_000_000, of / 1_000_000),
            Sign::Growth { .. } => panic!("nobody grew"),
        })
    }

    #[test]
    fn who_took_more_than_all_others_together_is_named() {
        assert_eq!(grew(&[(900, 10), (700, 600), (500, 400)]), Some((1, 600, 1010)));
        assert_eq!(grew(&[(64, 64)]), Some((0, 64, 64)));
    }

    #[test]
    fn where_it_is_not_clear_nobody_is() {
        assert_eq!(grew(&[]), None);
        assert_eq!(grew(&[(900, 500), (700, 500)]), None, "half of it each");
        assert_eq!(grew(&[(900, 500), (700, 300), (600, 300)]), None);
        assert_eq!(grew(&[(900, 63), (700, 0)]), None, "next to nothing");
        assert_eq!(grew(&[(900, 70), (50_000, 0)]), None, "next to nothing of what they hold");
        assert_eq!(grew(&[(900, 0), (700, 0)]), None);
        let job = |grown| Held { place: 0, bytes: u64::MAX, grown, waited_us: u64::MAX };
        assert_eq!(taker(&[job(u64::MAX), job(1), job(1)]), None, "nobody holds that");
    }

    #[test]
    fn if_hardly_anybody_grew_who_waits_more_than_all_others_together_is_named() {
        assert_eq!(waits(&[(900, 40), (500, 10), (100, 20)]), Some((0, 40, 70)));
        assert_eq!(waits(&[(900, 30), (500, 10), (100, 20)]), None, "half of it");
        assert_eq!(waits(&[(900, 2), (500, 0)]), None, "next to nothing");
        assert_eq!(waits(&[(400, 40), (500, 0)]), None, "with less than an even part of the memory");
        assert_eq!(waits(&[(500, 40), (500, 0)]), Some((0, 40, 40)));
    }

    #[test]
    fn who_waits_beside_those_who_grow_may_be_their_victim() {
        let sign = Sign::Growth { bytes: 600 * MIB, of: 600 * MIB };
        assert_eq!(found([(900, 0, 50), (700, 600, 0)].into_iter()), Some(Taker { place: 1, sign }));
        assert_eq!(found([(500, 500, 0), (700, 500, 0), (5000, 0, 50)].into_iter()), None);
    }
}

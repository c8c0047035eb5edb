// SPDX-License-Identifier: Apache-2.0
//! Whose memory is it that storage is short of? Of the job that took most of what jobs took lately, where that is clear. If nobody did,
//! of the one that waits most for memory and holds much of it: it uses more than there is for it, and the kernel takes it from all.

/// It grew by at least so much, and by this share of all that jobs hold: less makes nobody short of memory.
const LEAST_BYTES: u64 = 64 << 20;
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

/// What speaks against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// Its memory grew by so many bytes, and that of all jobs by so many.
    Growth {
        /// Bytes.
        bytes: u64,
        /// Bytes.
        of: u64,
    },
    /// It waited for memory for so long, and all jobs together for so long.
    Wait {
        /// Microseconds.
        us: u64,
        /// Microseconds.
        of: u64,
    },
}

/// A job of which there is more than of all others together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taker {
    /// Its place in the job table.
    pub place: usize,
    /// What there is.
    pub sign: Sign,
}

/// The one, if there is one.
pub fn taker(jobs: impl Iterator<Item = Held> + Clone) -> Option<Taker> {
    grower(jobs.clone()).or_else(|| waiter(jobs))
}

fn grower(jobs: impl Iterator<Item = Held> + Clone) -> Option<Taker> {
    let held: u128 = jobs.clone().map(|job| u128::from(job.bytes)).sum();
    let (Held { place, grown: bytes, .. }, of) = most(jobs, |job| job.grown)?;
    let substantial = bytes >= LEAST_BYTES && bytes as f64 >= LEAST_SHARE * held as f64;
    substantial.then_some(Taker { place, sign: Sign::Growth { bytes, of } })
}

/// Nobody who holds less than an even part: a small job waits at its own limit, and little would be free without it.
fn waiter(jobs: impl Iterator<Item = Held> + Clone) -> Option<Taker> {
    let (number, held) = jobs.clone().fold((0u128, 0u128), |(n, sum), job| (n + 1, sum + u128::from(job.bytes)));
    let (Held { place, bytes, waited_us: us, .. }, of) = most(jobs, |job| job.waited_us)?;
    let substantial = us >= LEAST_WAIT_US && u128::from(bytes) * number >= held;
    substantial.then_some(Taker { place, sign: Sign::Wait { us, of } })
}

/// The job of which there is more than of all others together, and how much of all.
fn most(jobs: impl Iterator<Item = Held>, amount: impl Fn(&Held) -> u64) -> Option<(Held, u64)> {
    let (mut of, mut most) = (0u128, None::<Held>);
    for job in jobs {
        of += u128::from(amount(&job));
        most = most.filter(|most| amount(most) >= amount(&job)).or(Some(job));
    }
    let most = most?;
    let its = u128::from(amount(&most));
    Some((most, of.try_into().ok()?)).filter(|_| its > of - its)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn held((place, &(bytes, grown, waited)): (usize, &(u64, u64, u64))) -> Held {
        Held { place, bytes: bytes * MIB, grown: grown * MIB, waited_us: waited * 1_000_000 }
    }

    /// Held and grown, in MiB.
    fn grew(jobs: &[(u64, u64)]) -> Option<(usize, u64, u64)> {
        let jobs: Vec<_> = jobs.iter().map(|&(bytes, grown)| (bytes, grown, 0)).collect();
        taker(jobs.iter().enumerate().map(held)).map(|taker| match taker.sign {
            Sign::Growth { bytes, of } => (taker.place, bytes / MIB, of / MIB),
            Sign::Wait { .. } => panic!("nobody waits"),
        })
    }

    /// Held in MiB, and waited in seconds.
    fn waits(jobs: &[(u64, u64)]) -> Option<(usize, u64, u64)> {
        let jobs: Vec<_> = jobs.iter().map(|&(bytes, waited)| (bytes, 10, waited)).collect();
        taker(jobs.iter().enumerate().map(held)).map(|taker| match taker.sign {
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
        let all = [Held { place: 0, bytes: u64::MAX, grown: u64::MAX, waited_us: u64::MAX }; 2];
        assert_eq!(taker(all.into_iter()), None, "nobody holds that");
    }

    #[test]
    fn if_nobody_grew_who_waits_more_than_all_others_together_is_named() {
        assert_eq!(waits(&[(900, 40), (500, 10), (100, 20)]), Some((0, 40, 70)));
        assert_eq!(waits(&[(900, 30), (500, 10), (100, 20)]), None, "half of it");
        assert_eq!(waits(&[(900, 2), (500, 0)]), None, "next to nothing");
        assert_eq!(waits(&[(400, 40), (500, 0)]), None, "with less than an even part of the memory");
        assert_eq!(waits(&[(500, 40), (500, 0)]), Some((0, 40, 40)));
    }

    #[test]
    fn who_grew_is_told_before_who_waits() {
        let jobs = [(900, 0, 50), (700, 600, 0)];
        let found = taker(jobs.iter().enumerate().map(held)).unwrap();
        assert_eq!(found, Taker { place: 1, sign: Sign::Growth { bytes: 600 * MIB, of: 600 * MIB } });
    }
}

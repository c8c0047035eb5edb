// SPDX-License-Identifier: Apache-2.0
//! Whose memory is it that storage is short of? Of the job that took most of what jobs took lately, where that is clear.

/// It grew by at least so much, and by this share of all that jobs hold: less makes nobody short of memory.
const LEAST_BYTES: u64 = 64 << 20;
const LEAST_SHARE: f64 = 0.02;

/// What a job holds, and by how much that grew lately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its place in the job table.
    pub place: usize,
    /// Bytes.
    pub bytes: u64,
    /// Bytes.
    pub grown: u64,
}

/// A job whose memory grew by more than that of all others together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grower {
    /// Its place in the job table.
    pub place: usize,
    /// By so many bytes, and that of all jobs by so many.
    pub grown: u64,
    /// See `grown`.
    pub of: u64,
}

/// The one, if there is one.
pub fn grower(jobs: impl Iterator<Item = Held>) -> Option<Grower> {
    let (mut of, mut held, mut most) = (0u128, 0u128, None::<Held>);
    for job in jobs {
        (of, held) = (of + u128::from(job.grown), held + u128::from(job.bytes));
        most = most.filter(|most| most.grown >= job.grown).or(Some(job));
    }
    let Held { place, grown, .. } = most?;
    let substantial = grown >= LEAST_BYTES && grown as f64 >= LEAST_SHARE * held as f64;
    let of_others = of - u128::from(grown);
    (substantial && u128::from(grown) > of_others).then_some(Grower { place, grown, of: of.try_into().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Held and grown, in MiB.
    fn found(jobs: &[(u64, u64)]) -> Option<(usize, u64, u64)> {
        let held = |(place, &(bytes, grown))| Held { place, bytes: bytes * MIB, grown: grown * MIB };
        grower(jobs.iter().enumerate().map(held)).map(|grower| (grower.place, grower.grown / MIB, grower.of / MIB))
    }

    #[test]
    fn who_took_more_than_all_others_together_is_named() {
        assert_eq!(found(&[(900, 10), (700, 600), (500, 400)]), Some((1, 600, 1010)));
        assert_eq!(found(&[(64, 64)]), Some((0, 64, 64)));
    }

    #[test]
    fn where_it_is_not_clear_nobody_is() {
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[(900, 500), (700, 500)]), None, "half of it each");
        assert_eq!(found(&[(900, 500), (700, 300), (600, 300)]), None);
        assert_eq!(found(&[(900, 63), (700, 0)]), None, "next to nothing");
        assert_eq!(found(&[(900, 70), (50_000, 0)]), None, "next to nothing of what they hold");
        assert_eq!(found(&[(900, 0), (700, 0)]), None);
        let all = [Held { place: 0, bytes: u64::MAX, grown: u64::MAX }; 2];
        assert_eq!(grower(all.into_iter()), None, "nobody holds that");
    }
}

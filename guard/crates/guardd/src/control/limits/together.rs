// SPDX-License-Identifier: Apache-2.0
//! What all jobs together may do to a disk, where what single ones are left adds up to too much: the kernel limits nobody to less than
//! two reads and two writes per second, and a disk with one arm does not do a hundred of them.

use crate::actuators::io_max::{Limit, LITTLE};
use crate::signals::Rate;

/// Those who are not limited did no more than this part of what those did who are (`policy::jobs::guilty` names those who did nine
/// tenths). They are to have as much as before, if that is no more than is left for those.
const OTHERS: f32 = 1.0 / 9.0;

/// A limit for all makes them wait for each other, also those who have done nothing: not where it would be of little use.
const WORTH: f32 = 1.25;

/// The limit of their slice, if there is to be one. `share` = of what they did that they may do; 0 = as little as there can be.
/// `limits` = what each of those who are limited on one disk did, and may do.
pub(super) fn limit(slice: &str, share: f32, limits: &[(Rate, Limit)]) -> Option<Limit> {
    let device = limits.first()?.1.device;
    let did: f32 = limits.iter().map(|(rate, _)| rate.requests).sum();
    let requests = (did * (share + share.min(OTHERS))).max(LITTLE.0 as f32);
    let allowed: u64 = limits.iter().map(|(_, limit)| limit.in_kernel()).map(|so| so.reads + so.writes).sum();
    if allowed as f32 <= WORTH * requests {
        return None;
    }
    let (mut bytes, mut reads) = (0, 0.0);
    for (rate, limit) in limits {
        bytes += limit.bytes;
        reads += rate.requests / did.max(1.0) * limit.reads as f32;
    }
    Some(Limit { scope: slice.into(), device, requests: requests as u64, bytes, reads: reads as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many jobs have done so many requests per second each, three of four of them reads, and may do `share` of it.
    fn jobs(count: u64, did: f32, requests: u64) -> Vec<(Rate, Limit)> {
        let rate = Rate { requests: did, bytes: did * 65536.0, reads: 0.75 };
        let job = |number| Limit {
            scope: format!("{number}.scope").into(),
            device: (8, 16),
            requests,
            bytes: LITTLE.1,
            reads: 75,
        };
        (0..count).map(|number| (rate, job(number))).collect()
    }

    fn requests(share: f32, limits: &[(Rate, Limit)]) -> Option<u64> {
        limit("beer-jobs.slice", share, limits).map(|limit| limit.requests)
    }

    #[test]
    fn a_few_are_limited_one_by_one() {
        for (count, share, each) in [(0, 0.0, 0), (1, 0.0, 1), (2, 0.0, 1), (1, 0.05, 8), (2, 0.05, 4), (2, 0.05, 200)]
        {
            assert_eq!(requests(share, &jobs(count, 20.0 * each as f32, each)), None, "{count} of {share}");
        }
    }

    #[test]
    fn many_have_together_what_they_are_to_have_and_not_what_the_kernel_leaves_each_of_them() {
        // 64 who did two requests per second each: the kernel would leave them 256.
        let many = jobs(64, 2.0, 1);
        assert_eq!((requests(0.0, &many), requests(0.05, &many)), (Some(8), Some(12)));
        let found = limit("beer-jobs.slice", 0.05, &many).unwrap();
        assert_eq!((&*found.scope, found.device, found.bytes, found.reads), ("beer-jobs.slice", (8, 16), 64 << 20, 75));
        // Others have as much as they may have had.
        assert_eq!(requests(0.5, &many), Some(78));
        // What the kernel can say of each is enough.
        assert_eq!(requests(0.5, &jobs(64, 40.0, 20)), None);
        assert_eq!(requests(0.0, &jobs(3, 40.0, 1)), Some(8));
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What all jobs together may do to a disk, where what single ones are left adds up to too much: the kernel limits nobody to less than
//! two reads and two writes per second, and a disk with one arm does not do a hundred of them.

use super::Limited;
use crate::actuators::io_max::{Limit, LITTLE};

/// Those who are not limited are taken to have done this part of what those did who are (`policy::jobs::guilty` names those who did nine
/// tenths, but for some of whom all together did not do enough to be to blame). They are to have as much as before, if that is no more
/// than is left for those.
const OTHERS: f32 = 1.0 / 9.0;

/// A limit for all makes them wait for each other, also those who have done nothing: not where it would be of little use.
const WORTH: f32 = 1.25;

/// Who did so little of it, reads or writes, does not use what the kernel leaves him of that.
const SOME: f32 = 0.05;

/// The limits of their slice, by disk. `limited` = each job once on each disk where it is limited.
pub(super) fn limits(slice: &str, limited: &[Limited]) -> Vec<Limit> {
    let mut devices: Vec<(u32, u32)> = limited.iter().map(|one| one.limit.device).collect();
    devices.sort_unstable();
    devices.dedup();
    let of = |device| of_disk(slice, device, limited.iter().filter(move |one| one.limit.device == device));
    devices.into_iter().filter_map(of).collect()
}

fn of_disk<'a>(slice: &str, device: (u32, u32), limited: impl Iterator<Item = &'a Limited>) -> Option<Limit> {
    let (mut requests, mut bytes, mut left) = (0.0, 0.0, 0);
    let (mut did, mut reads) = (0.0, 0.0);
    for Limited { did: rate, share, limit } in limited {
        let share = share + share.min(OTHERS);
        requests += share * rate.requests;
        bytes += (share * rate.bytes).max(limit.bytes as f32);
        let so = limit.in_kernel();
        left += if rate.reads >= SOME { so.reads } else { 0 };
        left += if rate.reads <= 1.0 - SOME { so.writes } else { 0 };
        did += rate.requests;
        reads += rate.requests * limit.reads as f32;
    }
    let requests = f32::max(requests, LITTLE.0 as f32);
    let reads = if did > 0.0 { (reads / did).round() as u64 } else { 50 };
    let limit = Limit { scope: slice.into(), device, requests: requests as u64, bytes: bytes as u64, reads };
    (left as f32 > WORTH * requests).then_some(limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signals::Rate;

    /// So many jobs have done so many requests per second each, this part of them reads, and may do `share` of it.
    fn jobs(count: u64, did: f32, reads: f32, share: f32, requests: u64) -> Vec<Limited> {
        let did = Rate { requests: did, bytes: did * 65536.0, reads };
        let limit = |number| Limit {
            scope: format!("{number}.scope").into(),
            device: (8, 16),
            requests,
            bytes: LITTLE.1,
            reads: 75,
        };
        (0..count).map(|number| Limited { did, share, limit: limit(number) }).collect()
    }

    fn requests(limited: &[Limited]) -> Vec<u64> {
        limits("beer-jobs.slice", limited).iter().map(|limit| limit.requests).collect()
    }

    #[test]
    fn a_few_are_limited_one_by_one() {
        let cases = [(0, 0.0, 0), (1, 0.0, 1), (2, 0.0, 1), (1, 0.05, 8), (2, 0.05, 4), (2, 0.05, 200)];
        for (count, share, each) in cases {
            let few = jobs(count, 20.0 * each as f32, 0.75, share, each);
            assert!(requests(&few).is_empty(), "{count} of {share}");
        }
        assert!(
            requests(&jobs(5, 40.0, 1.0, 0.0, 1)).is_empty(),
            "they do not write: it is ten reads and not twenty of both"
        );
    }

    #[test]
    fn many_have_together_what_they_are_to_have_and_not_what_the_kernel_leaves_each_of_them() {
        // 64 who did two requests per second each: the kernel would leave them 256.
        let share = |share| jobs(64, 2.0, 0.75, share, 1);
        assert_eq!((requests(&share(0.0)), requests(&share(0.05))), (vec![8], vec![12]));
        let found = limits("beer-jobs.slice", &share(0.05)).remove(0);
        assert_eq!((&*found.scope, found.device, found.bytes, found.reads), ("beer-jobs.slice", (8, 16), 64 << 20, 75));
        // Others have as much as they may have had, in bytes, too.
        assert_eq!(requests(&share(0.5)), [78]);
        let mut large = share(0.5);
        large.iter_mut().for_each(|one| one.did.bytes = 4e6);
        assert!(limits("beer-jobs.slice", &large)[0].bytes > 64 * 2_400_000);
        // What the kernel can say of each is enough.
        assert!(requests(&jobs(64, 40.0, 0.75, 0.5, 20)).is_empty());
        assert_eq!((requests(&jobs(3, 40.0, 0.75, 0.0, 1)), requests(&jobs(6, 40.0, 1.0, 0.0, 1))), (vec![8], vec![8]));
    }

    #[test]
    fn each_disk_has_its_own() {
        let mut limited = jobs(3, 40.0, 0.75, 0.0, 1);
        let mut others = jobs(2, 40.0, 0.75, 0.0, 1);
        others.iter_mut().for_each(|one| one.limit.device = (8, 32));
        limited.extend(others);
        let found = limits("beer-jobs.slice", &limited);
        assert_eq!(found.iter().map(|limit| limit.device).collect::<Vec<_>>(), [(8, 16)]);
        // Of 32 at 7.3 per second each the sum is a little less than it should be.
        assert_eq!(limits("beer-jobs.slice", &jobs(32, 7.3, 1.0, 0.0, 1))[0].reads, 75);
    }
}

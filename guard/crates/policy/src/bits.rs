// SPDX-License-Identifier: Apache-2.0
//! Sets of filesystems, bit by index: a segment has [`MAX_FILESYSTEMS`](intf::segment::layout::MAX_FILESYSTEMS) of them, 128 fit.

/// This one alone; none that does not fit.
pub fn bit(index: usize) -> u128 {
    u32::try_from(index).ok().and_then(|shift| 1u128.checked_shl(shift)).unwrap_or(0)
}

/// Is it one of these?
pub fn contains(set: u128, index: usize) -> bool {
    set & bit(index) != 0
}

/// Each of these, smallest first.
pub fn each(mut set: u128) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let index = set.trailing_zeros() as usize;
        set &= set.wrapping_sub(1);
        (index < 128).then_some(index)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_it_is_found_and_what_does_not_fit_is_not() {
        assert_eq!(each(bit(0) | bit(95) | bit(127)).collect::<Vec<_>>(), [0, 95, 127]);
        assert_eq!((bit(128), bit(usize::MAX), each(0).next()), (0, 0, None));
        assert!(contains(bit(95), 95) && !contains(bit(95), 94) && !contains(u128::MAX, 128));
    }
}

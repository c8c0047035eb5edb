// SPDX-License-Identifier: Apache-2.0
//! Less memory for all of batch: `memory.high`, above which the kernel takes its memory back and slows it (kernel, cgroup-v2.rst).

use super::Knob;
use crate::actuators::PAGE;

/// Not less than what a few processes need to end.
const LEAST: u64 = 64 << 20;

/// The knob for this share of what batch had when storage became short of memory.
pub(super) fn knobs(had_bytes: u64, share: f32) -> Vec<Knob> {
    let bytes = ((had_bytes as f64 * f64::from(share)) as u64).max(LEAST) / PAGE * PAGE;
    vec![Knob::new("MemoryHigh", &bytes.to_string(), "memory.high", &bytes.to_string())]
}

/// For example `1.20 of 2.40 GB of memory`. Who had next to nothing may have more than that.
pub(super) fn words(knobs: &[Knob], had_bytes: u64) -> String {
    let bytes = knobs.first().and_then(|knob| knob.value.parse::<u64>().ok()).unwrap_or_default();
    let gigabytes = |bytes: u64| bytes as f64 / 1e9;
    match bytes < had_bytes {
        true => format!("{:.2} of {:.2} GB of memory", gigabytes(bytes), gigabytes(had_bytes)),
        false => format!("no more than {:.2} GB of memory", gigabytes(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_what_it_had_in_whole_pages() {
        let half = knobs(2_000_000_000, 0.5);
        assert_eq!((half[0].value.as_str(), half[0].seen.as_str()), ("999948288", "999948288"));
        assert_eq!(words(&half, 2_000_000_000), "1.00 of 2.00 GB of memory");
        let least = knobs(1 << 20, 0.05);
        assert_eq!(least[0].value, LEAST.to_string());
        assert_eq!(words(&least, 1 << 20), "no more than 0.07 GB of memory");
    }
}

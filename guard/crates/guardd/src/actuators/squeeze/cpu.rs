// SPDX-License-Identifier: Apache-2.0
//! Less CPU for all of batch: fewer CPUs, whole cores at a time, because a thread beside one of storage on the same core slows it;
//! below one core a quota. In what is left everybody else goes first: the slice of the jobs is idle (`cpu.idle`), or becomes so. With one CPU
//! of two, and ten times storage's weight, that is a third of the latency (p90); below that the quota does it all, and one of 10 ms does
//! no better than the usual one of 100 (benchmarks/runs/2026-11-28-2-core).

use std::path::Path;

use kernfs::cpus;

use super::Knob;
use crate::failsafe::percent;

/// A cgroup's period of the quota (kernel, cgroup-v2.rst, `cpu.max`).
const PERIOD_US: f64 = 100_000.0;

/// The knobs for this share of `allowed`, of batch that has a `weight`, or is idle. Empty = it cannot be said which CPUs there are.
pub(super) fn knobs(topology: &Path, allowed: &[u32], share: f32, weight: bool) -> Vec<Knob> {
    if allowed.is_empty() {
        return Vec::new();
    }
    let wanted = f64::from(share) * allowed.len() as f64;
    let kept = whole_cores(allowed, wanted, |cpu| cpus::siblings(topology, cpu));
    let list = cpus::format(&kept);
    let mut knobs = vec![Knob::new("AllowedCPUs", &list, "cpuset.cpus", &list)];
    if wanted < kept.len() as f64 {
        // Hundredths of a percent are what systemd can be told.
        let quota_us = (wanted * PERIOD_US / 10.0).round() * 10.0;
        if let Some(quota) = percent(&format!("{quota_us}"), "100000") {
            knobs.push(Knob::new("CPUQuota", &quota, "cpu.max", &format!("{quota_us} 100000")));
        }
    }
    if weight {
        knobs.push(Knob::new("CPUWeight", "idle", "cpu.idle", "1"));
    }
    knobs
}

/// As many of the allowed CPUs as are wanted, one core at least, and none of whose core a part is left out.
fn whole_cores(allowed: &[u32], wanted: f64, siblings: impl Fn(u32) -> Vec<u32>) -> Vec<u32> {
    let mut kept: Vec<u32> = Vec::new();
    for &cpu in allowed {
        if kept.contains(&cpu) {
            continue;
        }
        let core: Vec<u32> = siblings(cpu).into_iter().filter(|other| allowed.contains(other)).collect();
        if !kept.is_empty() && (kept.len() + core.len()) as f64 > wanted {
            break;
        }
        kept.extend(core);
    }
    kept.sort_unstable();
    kept.dedup();
    kept
}

/// For example `2 of 8 CPUs`, or `0.40 of 8 CPUs`.
pub(super) fn words(knobs: &[Knob], allowed: &[u32]) -> String {
    let of = |property: &str| knobs.iter().find(|knob| knob.property == property);
    let quota = of("CPUQuota").and_then(|knob| knob.value.trim_end_matches('%').parse::<f64>().ok());
    let cpus = of("AllowedCPUs").and_then(|knob| cpus::parse(&knob.value)).map_or(0, |cpus| cpus.len());
    let part = quota.map_or_else(|| cpus.to_string(), |percent| format!("{:.2}", percent / 100.0));
    format!("{part} of {} CPUs", allowed.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Core n has the CPUs n and n + 4.
    fn threads(cpu: u32) -> Vec<u32> {
        vec![cpu % 4, cpu % 4 + 4]
    }

    #[test]
    fn whole_cores_and_at_least_one() {
        let all: Vec<u32> = (0..8).collect();
        for (wanted, kept) in [(8.0, 0..8), (0.4, 0..1), (3.9, 0..3)] {
            assert_eq!(whole_cores(&all, wanted, |cpu| vec![cpu]), kept.collect::<Vec<u32>>(), "{wanted}");
        }
        for (wanted, kept) in [(0.4, vec![0, 4]), (3.0, vec![0, 4]), (4.0, vec![0, 1, 4, 5]), (8.0, all.clone())] {
            assert_eq!(whole_cores(&all, wanted, threads), kept, "{wanted}");
        }
        assert_eq!(
            whole_cores(&[1, 2, 6], 2.0, threads),
            [1],
            "of its core only this one is allowed, and 2 and 6 are one"
        );
    }

    #[test]
    fn a_share_of_one_core_is_a_quota() {
        let folder = tempfile::tempdir().unwrap();
        let said = |share: f32, allowed: &[u32]| {
            let knobs = knobs(folder.path(), allowed, share, false);
            let lines: Vec<String> = knobs.iter().map(|knob| format!("{}={}", knob.property, knob.value)).collect();
            (lines.join(" "), words(&knobs, allowed))
        };
        assert_eq!(said(0.5, &[0, 1, 2, 3]), ("AllowedCPUs=0-1".into(), "2 of 4 CPUs".into()));
        assert_eq!(said(0.125, &[1, 2]), ("AllowedCPUs=1 CPUQuota=25%".into(), "0.25 of 2 CPUs".into()));
        assert_eq!(said(0.0625, &[1]), ("AllowedCPUs=1 CPUQuota=6.25%".into(), "0.06 of 1 CPUs".into()));
        assert!(knobs(folder.path(), &[], 0.5, true).is_empty());
    }
}

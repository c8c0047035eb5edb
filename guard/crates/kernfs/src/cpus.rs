// SPDX-License-Identifier: Apache-2.0
//! Lists of CPUs, as in `cpuset.cpus` (`0-3,8`), and which of them share a core.

use std::path::Path;

/// The numbers in such a list, which may be empty. `None` = it is none.
pub fn parse(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for range in text.trim_end().split(',').filter(|_| !text.trim_end().is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        // More than any machine has, or the same ones again and again.
        if last < first || last > 65_535 || cpus.len() > 65_536 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// The list as the kernel writes it; `cpus` in order.
pub fn format(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(cpu) => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let word = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(word).collect::<Vec<_>>().join(",")
}

/// The CPUs that share a core with this one, itself among them (`folder` = `/sys/devices/system/cpu`); alone where the kernel does
/// not say.
pub fn siblings(folder: &Path, cpu: u32) -> Vec<u32> {
    let path = folder.join(format!("cpu{cpu}/topology/thread_siblings_list"));
    let listed = std::fs::read_to_string(path).ok().and_then(|text| parse(&text));
    listed.filter(|cpus| cpus.contains(&cpu)).unwrap_or_else(|| vec![cpu])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_as_the_kernel_has_them() {
        for text in ["", "0", "0-3", "0-1,4,6-7"] {
            assert_eq!(format(&parse(text).unwrap()), text);
        }
        assert_eq!(parse("2,0-1\n").unwrap(), [2, 0, 1]);
        for text in ["a", "3-1", "0,,1", "0-4294967295", "-"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn who_shares_a_core() {
        let folder = tempfile::tempdir().unwrap();
        let topology = folder.path().join("cpu1/topology");
        std::fs::create_dir_all(&topology).unwrap();
        std::fs::write(topology.join("thread_siblings_list"), "1,5\n").unwrap();
        assert_eq!((siblings(folder.path(), 1), siblings(folder.path(), 2)), (vec![1, 5], vec![2]));
        std::fs::write(topology.join("thread_siblings_list"), "7\n").unwrap();
        assert_eq!(siblings(folder.path(), 1), [1], "of another one");
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Addresses in the network namespace of a process, from `/proc/<pid>/net/fib_trie`: the kernel's routing tables, which only who
//! may administer that namespace can change, and anybody may read.

use std::net::Ipv4Addr;
use std::path::Path;

use crate::{Error, KernFile, Result};

/// A namespace with more addresses than this is none of a container.
const MOST: usize = 64;

/// IPv4 addresses of the namespace of a process (`self`, or its number) but for those of the loopback; `None` = there is no such
/// process. In ascending order.
pub fn addresses(proc: &Path, process: &str) -> Result<Option<Vec<Ipv4Addr>>> {
    let mut file = KernFile::new(proc.join(process).join("net/fib_trie"));
    let Some(found) = file.read()?.map(parse) else { return Ok(None) };
    found.map(Some).map_err(|(line, what)| Error::parse(file.path(), line, what))
}

/// The number of a process is not its own for ever: is it in a cgroup of this name, or below one?
pub fn in_cgroup(proc: &Path, process: &str, name: &str) -> Result<bool> {
    let mut file = KernFile::new(proc.join(process).join("cgroup"));
    let text = file.read()?.unwrap_or_default();
    let path = text.lines().find_map(|line| line.strip_prefix("0::"));
    Ok(path.is_some_and(|path| path.split('/').any(|part| part == name)))
}

/// Is it the first process of a container: number 1 in a namespace of process numbers right below ours? Its end is the container's.
pub fn is_first(proc: &Path, process: &str) -> Result<bool> {
    let mut file = KernFile::new(proc.join(process).join("status"));
    let text = file.read()?.unwrap_or_default();
    let mut numbers = text.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default().split_whitespace();
    Ok(numbers.next().is_some() && numbers.next() == Some("1") && numbers.next().is_none())
}

/// `|-- 10.127.0.2`, and below it what it is: `/32 host LOCAL`. Tables are printed one after the other, and the same one twice where
/// there is no rule of the administrator's own (net/ipv4/fib_trie.c).
fn parse(text: &str) -> std::result::Result<Vec<Ipv4Addr>, (usize, &'static str)> {
    let mut found = Vec::new();
    let mut leaf = None;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = Some(address.parse::<Ipv4Addr>().map_err(|_| (number, "not an address"))?);
        } else if line == "/32 host LOCAL" {
            let address = leaf.ok_or((number, "of no address"))?;
            if !address.is_loopback() && !found.contains(&address) {
                found.push(address);
            }
            if found.len() > MOST {
                return Err((number, "too many addresses"));
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{container, damaged};

    #[test]
    fn of_a_container() {
        let found = addresses(&container("proc"), "1311").unwrap().unwrap();
        assert_eq!(found, [Ipv4Addr::new(10, 127, 0, 2)]);
        assert_eq!(addresses(&container("proc"), "1312").unwrap(), None);
    }

    #[test]
    fn of_this_machine_as_the_kernel_says() {
        // A machine without a network has none.
        assert!(addresses(Path::new("/proc"), "self")
            .unwrap()
            .is_some_and(|found| found.iter().all(|a| !a.is_loopback())));
    }

    #[test]
    fn damaged_files_are_errors() {
        let lines: Vec<_> = (0..=MOST).map(|n| format!("     |-- 10.0.0.{n}\n        /32 host LOCAL\n")).collect();
        let many = lines.concat();
        for text in ["  |-- 10.0.0\n", "/32 host LOCAL\n", "Local:\n  |-- x\n", &many] {
            let folder = damaged("7/net/fib_trie", text);
            assert!(addresses(folder.path(), "7").is_err(), "{text}");
        }
        // A network, and what somebody routes to himself, are no addresses of anybody.
        let folder = damaged("7/net/fib_trie", "  |-- 10.0.0.0\n     /24 link UNICAST\n     /24 host LOCAL\n");
        assert_eq!(addresses(folder.path(), "7").unwrap(), Some(vec![]));
    }

    #[test]
    fn the_first_process_of_a_container() {
        let proc = container("proc");
        assert!(
            is_first(&proc, "1311").unwrap() && !is_first(&proc, "1400").unwrap() && !is_first(&proc, "1").unwrap()
        );
        for (text, first) in [
            ("NSpid:\t7\t1\n", true),
            ("NSpid:\t7\t1\t1\n", false),
            ("NSpid:\t1\n", false),
            ("NSpid:\t7\t11\n", false),
            ("NSpid:\n", false),
            ("", false),
        ] {
            assert_eq!(is_first(damaged("7/status", text).path(), "7").unwrap(), first, "{text}");
        }
        assert!(!is_first(Path::new("/proc"), &std::process::id().to_string()).unwrap());
    }

    #[test]
    fn in_which_cgroup_a_process_is() {
        let proc = container("proc");
        let scope = "docker-43ab1d2673b79f028aa939c040dff5161a59eb459bdd8c52944fc1e8564e35aa.scope";
        for process in ["1311", "1400"] {
            assert!(in_cgroup(&proc, process, scope).unwrap() && in_cgroup(&proc, process, "beer-jobs.slice").unwrap());
            assert!(!in_cgroup(&proc, process, "docker-43ab1d.scope").unwrap());
        }
        assert!(!in_cgroup(&proc, "9", scope).unwrap(), "there is no such process");
        let folder = damaged("7/cgroup", "1:cpu:/docker-a6d5.scope\n0::/machine.slice/libpod-7.scope/container\n");
        assert!(in_cgroup(folder.path(), "7", "libpod-7.scope").unwrap());
        assert!(!in_cgroup(folder.path(), "7", "docker-a6d5.scope").unwrap(), "of another hierarchy");
    }
}

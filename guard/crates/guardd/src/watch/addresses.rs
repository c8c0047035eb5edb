// SPDX-License-Identifier: Apache-2.0
//! Under which address each job comes to the storage daemons of this node: a container has a network of its own, and what the
//! daemons see is its address on the bridge (nothing translates it on the way to this host).
//!
//! By what the kernel says of the container's first process, never by what a job could have written. Addresses of a network
//! belong to who may administer it, and a container may not. Should one get round that it can call itself by the address of another:
//! one that two claim is nobody's, and so is what comes from it.

use std::net::Ipv4Addr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use kernfs::cgroup::Children;
use kernfs::{net, KernFile};
use policy::Config;

use super::{watchable, Source};
use crate::jobs::MONITOR;
use crate::shared::Shared;

/// So many jobs are looked at in a second: a look is a few small files.
const LOOKS: usize = 8;

/// So often in a row one is looked at that has no address yet: the engine gives it one before its command runs.
const AGAIN: u8 = 20;

/// The first process is the one that was there before all others; more are not asked.
const PROCESSES: usize = 256;

/// A job comes from this address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// IPv6, or IPv4 as mapped address: as in the latency segment.
    pub address: std::net::Ipv6Addr,
    /// Inode of its cgroup.
    pub number: u64,
}

struct Known {
    scope: String,
    number: u64,
    addresses: Vec<Ipv4Addr>,
    /// So often more it is looked at each time.
    again: u8,
    seen: bool,
}

/// The source.
pub struct Addresses {
    slice: PathBuf,
    proc: PathBuf,
    children: Children,
    known: Vec<Known>,
    turn: usize,
}

impl Addresses {
    /// Looks at nothing yet.
    pub fn new(config: &Config) -> Self {
        let slice = config.paths.cgroup.join(&config.paths.jobs_slice);
        Addresses {
            children: Children::new(&slice),
            slice,
            proc: config.paths.proc.clone(),
            known: Vec::new(),
            turn: 0,
        }
    }

    /// Who is there.
    fn follow(&mut self) {
        self.known.iter_mut().for_each(|job| job.seen = false);
        let known = &mut self.known;
        let listed = self.children.each(|scope, number| {
            if scope.starts_with(MONITOR) {
                return ControlFlow::Continue(());
            }
            match known.iter_mut().find(|job| job.number == number && job.scope == scope) {
                Some(job) => job.seen = true,
                None => {
                    let scope = scope.to_owned();
                    known.push(Known { scope, number, addresses: Vec::new(), again: AGAIN, seen: true });
                }
            }
            watchable(known.len())
        });
        if listed.is_ok() {
            self.known.retain(|job| job.seen);
        }
    }

    /// Those that have none yet, and of the others some in turn: an address may change.
    fn look(&mut self) {
        let mut looks = LOOKS;
        for job in &mut self.known {
            if job.again > 0 && looks > 0 {
                looks -= 1;
                job.look(&self.proc, &self.slice);
                job.again = if job.addresses.is_empty() { job.again - 1 } else { 0 };
            }
        }
        for _ in 0..looks.min(self.known.len()).min(2) {
            self.turn = (self.turn + 1) % self.known.len();
            if let Some(job) = self.known.get_mut(self.turn) {
                job.look(&self.proc, &self.slice);
            }
        }
    }
}

impl Known {
    fn look(&mut self, proc: &Path, slice: &Path) {
        self.addresses = self.found(proc, slice).unwrap_or_default();
    }

    fn found(&self, proc: &Path, slice: &Path) -> Option<Vec<Ipv4Addr>> {
        let folder = slice.join(&self.scope);
        // crun makes a cgroup of its own below the scope.
        let first =
            [folder.join("cgroup.procs"), folder.join("container/cgroup.procs")].into_iter().find_map(|path| {
                let mut file = KernFile::new(path);
                let processes = file.read().ok()??.lines().take(PROCESSES);
                processes.map(str::to_owned).find(|process| matches!(net::is_first(proc, process), Ok(true)))
            })?;
        let found = net::addresses(proc, &first).ok()??;
        // By now its number may be another one's.
        matches!(net::in_cgroup(proc, &first, &self.scope), Ok(true)).then_some(found)
    }
}

/// Whose each address is, in ascending order: of one alone, and not of this host, whose network a container may have been given.
fn claims(known: &[Known], host: &[Ipv4Addr]) -> Vec<Claim> {
    let of = |job: &Known| -> Vec<Claim> {
        let own = job.addresses.iter().filter(|address| !host.contains(address));
        own.map(|address| Claim { address: address.to_ipv6_mapped(), number: job.number }).collect()
    };
    let mut all: Vec<Claim> = known.iter().flat_map(of).collect();
    all.sort_unstable();
    all.chunk_by(|a, b| a.address == b.address).filter(|same| same.len() == 1).flatten().copied().collect()
}

impl Source for Addresses {
    fn read(&mut self, _now_ns: u64, shared: &Shared) {
        self.follow();
        self.look();
        // Without knowing its own addresses the host cannot tell a job from itself.
        let host = net::addresses(&self.proc, "self").ok().flatten();
        shared.addresses.put(&host.map(|host| claims(&self.known, &host)).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node with jobs in containers, as Docker 26 and the kernel show them.
    struct Node {
        folder: tempfile::TempDir,
        source: Addresses,
        shared: Shared,
    }

    impl Node {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir(folder.path().join("jobs.slice")).unwrap();
            let root = folder.path().display();
            let text = format!("[paths]\ncgroup = \"{root}\"\njobs_slice = \"jobs.slice\"\nproc = \"{root}/proc\"\n");
            let source = Addresses::new(&Config::parse("test", &text).unwrap());
            let node = Node { folder, source, shared: Shared::default() };
            node.network("self", &["192.0.2.17", "10.127.0.1"]);
            node
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn network(&self, process: &str, addresses: &[&str]) {
            let leaves = addresses
                .iter()
                .fold(String::new(), |leaves, address| leaves + "     |-- " + address + "\n        /32 host LOCAL\n");
            let text = format!("Local:\n  +-- 127.0.0.0/8 2 0 2\n     |-- 127.0.0.1\n        /32 host LOCAL\n{leaves}");
            self.write(&format!("proc/{process}/net/fib_trie"), &text);
        }

        /// A container whose first process has this number; behind it in the list is another one of it.
        fn job(&self, scope: &str, first: u32, addresses: &[&str]) -> u64 {
            let other = first + 1000;
            self.write(&format!("jobs.slice/{scope}/cgroup.procs"), &format!("{other}\n{first}\n"));
            for (process, inside) in [(first, 1), (other, 33)] {
                self.write(&format!("proc/{process}/status"), &format!("Name:\tx\nNSpid:\t{process}\t{inside}\n"));
                self.write(&format!("proc/{process}/cgroup"), &format!("0::/beer.slice/jobs.slice/{scope}\n"));
            }
            self.network(&first.to_string(), addresses);
            self.number(scope)
        }

        fn number(&self, scope: &str) -> u64 {
            use std::os::unix::fs::MetadataExt;
            std::fs::metadata(self.folder.path().join("jobs.slice").join(scope)).unwrap().ino()
        }

        fn end(&self, scope: &str) {
            std::fs::remove_dir_all(self.folder.path().join("jobs.slice").join(scope)).unwrap();
        }

        /// What is told in the end.
        fn told(&mut self) -> Vec<(String, u64)> {
            let mut list = Vec::new();
            (0..4).for_each(|_| self.source.read(7, &self.shared));
            let mut seen = u64::MAX;
            self.shared.addresses.take(&mut seen, &mut list);
            list.iter().map(|claim| (claim.address.to_ipv4_mapped().unwrap().to_string(), claim.number)).collect()
        }
    }

    fn at(address: &str, number: u64) -> (String, u64) {
        (address.to_owned(), number)
    }

    #[test]
    fn each_job_has_the_address_of_its_first_process() {
        let mut node = Node::new();
        let a = node.job("docker-a.scope", 100, &["10.127.0.2"]);
        let b = node.job("docker-b.scope", 200, &["10.127.0.3", "10.128.0.9"]);
        // What else is in the container may have a network of its own.
        node.network("1100", &["10.127.0.3"]);
        node.job("libpod-conmon-c.scope", 300, &["10.127.0.9"]);
        assert_eq!(node.told(), [at("10.127.0.2", a), at("10.127.0.3", b), at("10.128.0.9", b)]);
        node.end("docker-a.scope");
        assert_eq!(node.told(), [at("10.127.0.3", b), at("10.128.0.9", b)]);
        // The address goes to the next one, and the name of the scope may as well.
        let next = node.job("docker-a.scope", 400, &["10.127.0.2"]);
        assert_eq!(node.told()[0], at("10.127.0.2", next));
        // And if nobody looked in between: its folder stays, so that the number is another one.
        let jobs = node.folder.path().join("jobs.slice");
        std::fs::rename(jobs.join("docker-a.scope"), node.folder.path().join("gone")).unwrap();
        let last = node.job("docker-a.scope", 500, &["10.127.0.2"]);
        assert!(last != next);
        assert_eq!(node.told()[0], at("10.127.0.2", last));
    }

    #[test]
    fn an_address_that_two_claim_is_nobodys() {
        let mut node = Node::new();
        let a = node.job("docker-a.scope", 100, &["10.127.0.2"]);
        node.job("docker-b.scope", 200, &["10.127.0.3"]);
        assert_eq!(node.told().len(), 2);
        // Two that share a network, or one that calls itself as he likes: its own address with it.
        node.network("200", &["10.127.0.2", "10.127.0.3"]);
        assert_eq!(node.told(), [at("10.127.0.3", node.number("docker-b.scope"))]);
        node.network("200", &["10.127.0.3"]);
        assert_eq!(node.told()[0], at("10.127.0.2", a), "and it is his again");
    }

    #[test]
    fn an_address_of_this_host_is_no_jobs() {
        let mut node = Node::new();
        node.job("docker-a.scope", 100, &["192.0.2.17", "10.127.0.1", "10.127.0.2"]);
        assert_eq!(node.told().iter().map(|(address, _)| address.as_str()).collect::<Vec<_>>(), ["10.127.0.2"]);
        std::fs::remove_file(node.folder.path().join("proc/self/net/fib_trie")).unwrap();
        assert_eq!(node.told(), [], "nobody can tell");
    }

    #[test]
    fn a_container_that_is_just_made_is_looked_at_again() {
        let mut node = Node::new();
        let a = node.job("docker-a.scope", 100, &[]);
        assert_eq!(node.told(), []);
        node.network("100", &["10.127.0.2"]);
        assert_eq!(node.told(), [at("10.127.0.2", a)]);
        for job in 0..20 {
            node.job(&format!("docker-{job}.scope"), 300 + job, &[&format!("10.127.1.{job}")]);
        }
        assert_eq!(node.told().len(), 21, "some at a time");
    }

    #[test]
    fn damage_blames_nobody() {
        let mut node = Node::new();
        node.job("docker-a.scope", 100, &["10.127.0.2"]);
        let b = node.job("docker-b.scope", 200, &["10.127.0.3"]);
        for (file, text) in [
            ("net/fib_trie", "  |-- 10.127.0\n     /32 host LOCAL\n"),
            ("net/fib_trie", "\u{0}"),
            ("status", "NSpid:\t100\t1\t1\n"),
            ("cgroup", "0::/beer.slice/jobs.slice/docker-b.scope\n"),
            ("cgroup", "0::/docker-a.scope.x\n"),
        ] {
            node.write(&format!("proc/100/{file}"), text);
            assert_eq!(node.told(), [at("10.127.0.3", b)], "{file}: {text:?}");
            node.job("docker-a.scope", 100, &["10.127.0.2"]);
            assert_eq!(node.told().len(), 2);
        }
    }
}

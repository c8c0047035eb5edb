// SPDX-License-Identifier: Apache-2.0
//! From where jobs come, as the kernel says of real containers: processes in networks and process numbers of their own, in real
//! cgroups.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use guardd::clock::SystemClock;
use guardd::shared::Shared;
use guardd::watch::Watch;
use policy::Config;
use support::{eventually, left_out, NodeFolders, TestCgroup};

const LONG: Duration = Duration::from_secs(20);

/// A container with this address, which has another process beside its first one.
struct Container {
    cgroup: TestCgroup,
    task: Child,
}

impl Container {
    fn start(jobs: &TestCgroup, scope: &str, address: &str) -> Option<Container> {
        let cgroup = jobs.child(scope);
        let inside = format!(
            "ip address add {address}/32 dev lo && ip link set lo up && {{ sleep 100000 & exec sleep 100000; }}"
        );
        let script = format!(
            "echo $$ > {}/cgroup.procs && exec unshare --net --pid --fork sh -c '{inside}'",
            cgroup.path.display()
        );
        let task = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        let container = Container { cgroup, task };
        // unshare itself stays in the cgroup, as a monitor would; with the two sleepers that makes three.
        let processes = || std::fs::read_to_string(container.cgroup.path.join("cgroup.procs")).unwrap().lines().count();
        let begun = std::time::Instant::now();
        while processes() < 3 {
            if begun.elapsed() > Duration::from_secs(5) {
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(container)
    }

    fn number(&self) -> u64 {
        std::fs::metadata(&self.cgroup.path).unwrap().ino()
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.cgroup.write("cgroup.kill", "1");
        let _ = self.task.wait();
    }
}

#[test]
fn jobs_have_the_addresses_of_their_containers_and_nobody_has_one_that_two_claim() {
    let Some(jobs) = TestCgroup::of_test("addresses") else { return };
    let Some(a) = Container::start(&jobs, "docker-a.scope", "10.127.0.2") else {
        return left_out("no namespaces may be made here, or there is no unshare or ip");
    };
    let b = Container::start(&jobs, "docker-b.scope", "10.127.0.3").unwrap();
    let folders = NodeFolders::new();
    let config = Config::parse("test", &folders.config(&jobs.path, "")).unwrap();
    let (shared, stop) = (Arc::new(Shared::default()), Arc::new(AtomicBool::new(false)));
    let mut watch = Watch::new(&config, Arc::new(SystemClock), Arc::clone(&shared));
    let ends = Arc::clone(&stop);
    let thread = std::thread::spawn(move || watch.run(&ends));
    let (mut seen, mut list) = (0, Vec::new());
    let mut known = |claims: &[(&str, u64)]| {
        eventually(&format!("{claims:?}"), LONG, || {
            shared.addresses.take(&mut seen, &mut list);
            let found = list.iter().map(|claim| (claim.address.to_ipv4_mapped().unwrap().to_string(), claim.number));
            found.eq(claims.iter().map(|(address, number)| ((*address).to_owned(), *number)))
        });
    };
    known(&[("10.127.0.2", a.number()), ("10.127.0.3", b.number())]);
    let liar = Container::start(&jobs, "docker-c.scope", "10.127.0.3").unwrap();
    known(&[("10.127.0.2", a.number())]);
    drop(liar);
    known(&[("10.127.0.2", a.number()), ("10.127.0.3", b.number())]);
    drop(a);
    known(&[("10.127.0.3", b.number())]);
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
}

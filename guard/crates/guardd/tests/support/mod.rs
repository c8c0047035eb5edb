// SPDX-License-Identifier: Apache-2.0
//! A node to try the guard on: folders, a configuration, and where the machine has one a real cgroup with tasks in
//! it. Used by tests and by the benchmark example.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use intf::state::{NodeState, StateLine, STATE_LINE_BYTES};
use rustix::time::{clock_gettime, ClockId};

/// CLOCK_MONOTONIC, as the guard sees it.
pub fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Waits for something, at most this long.
pub fn eventually(what: &str, within: Duration, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + within;
    while !condition() {
        assert!(Instant::now() < end, "not within {within:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What is to be run follows as arguments: it does not outlive a test or a benchmark that is killed.
pub fn ends_with_this_thread() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]);
    command
}

/// Folders and a configuration of their own.
pub struct NodeFolders {
    pub root: tempfile::TempDir,
}

impl NodeFolders {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for folder in ["run", "journal", "storage"] {
            std::fs::create_dir(root.path().join(folder)).unwrap();
        }
        NodeFolders { root }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn segment(&self) -> PathBuf {
        self.path("storage/beer.lat")
    }

    /// Where the jobs' cgroup is when it is none of the kernel's.
    pub fn slice(&self) -> PathBuf {
        self.path("cgroup/beer-jobs.slice")
    }

    /// What a control loop would have written then.
    pub fn write_state(&self, state: NodeState, monotonic_ns: u64) {
        let mut line = [0; STATE_LINE_BYTES];
        let admit = state == NodeState::Open;
        let (cores, memory_mb) = (3, 512);
        let fields = StateLine { state, admit, heartbeat: 7, monotonic_ns, reason: "slack", cores, memory_mb };
        fields.format(&mut line);
        std::fs::write(self.path("run/state"), line).unwrap();
    }

    pub fn state(&self) -> String {
        std::fs::read_to_string(self.path("run/state")).unwrap_or_default()
    }

    pub fn journal(&self) -> Vec<intf::journal::Record> {
        let Ok(entries) = std::fs::read_dir(self.path("journal")) else { return Vec::new() };
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let text: String = files.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// A configuration for this node; `jobs` is the folder of the cgroup of the jobs, `more` goes behind.
    pub fn config(&self, jobs: &Path, more: &str) -> String {
        let owner = rustix::process::getuid().as_raw();
        let path = |name: &str| self.path(name).display().to_string();
        let cgroup = jobs.parent().unwrap().display();
        let slice = jobs.file_name().unwrap().to_str().unwrap();
        format!(
            "[paths]\ncgroup = \"{cgroup}\"\njobs_slice = \"{slice}\"\nbatch_slice = \"{slice}\"\nrun = \"{}\"\ncontrol = \"{}\"\n\
             memory = \"{}\"\nexec = \"{}\"\nprobe = \"{}\"\n[signals.latency]\nsegment = \"{}\"\nowner = \"{owner}\"\n[journal]\nfolder = \"{}\"\n{more}",
            path("run"),
            path("run"),
            path("run"),
            path("exec"),
            path("probe"),
            path("storage/beer.lat"),
            path("journal"),
        )
    }
}

/// This machine lacks what a test needs: not where guard/with-cgroups.sh has seen to it.
pub fn left_out(why: &str) {
    assert!(std::env::var_os("BEER_TEST_CGROUP").is_none(), "{why}");
    eprintln!("left out: {why}");
}

/// A real cgroup of the unified hierarchy, removed at the end with all that runs in it.
pub struct TestCgroup {
    pub path: PathBuf,
    tasks: Vec<Child>,
}

impl TestCgroup {
    /// The same for a test, which is left out where there is none; not where somebody has taken care that there is.
    pub fn of_test(name: &str) -> Option<Self> {
        Self::new(name).map_err(|why| left_out(&why)).ok()
    }

    /// Below `$BEER_TEST_CGROUP`, or below the first cgroup2 mount. `Err` says why there is none.
    pub fn new(name: &str) -> Result<Self, String> {
        let parent = match std::env::var_os("BEER_TEST_CGROUP") {
            Some(path) => PathBuf::from(path),
            None => {
                let mounts = kernfs::mountinfo::MountInfo::new(Path::new("/proc")).read().unwrap().unwrap();
                let mount = mounts.into_iter().find(|mount| mount.filesystem == "cgroup2");
                mount.ok_or("no cgroup2 filesystem is mounted")?.mount_point
            }
        };
        // In a PID namespace of its own each process has the same number, and one that was killed has left its cgroup.
        let path = parent.join(format!("beer-{name}-{}-{}", std::process::id(), monotonic_ns()));
        std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if !path.join("cgroup.freeze").exists() {
            let _ = std::fs::remove_dir(&path);
            return Err(format!("{}: not a cgroup2", parent.display()));
        }
        Ok(TestCgroup { path, tasks: Vec::new() })
    }

    /// A cgroup of this name below it.
    pub fn child(&self, name: &str) -> Self {
        let path = self.path.join(name);
        std::fs::create_dir(&path).unwrap();
        TestCgroup { path, tasks: Vec::new() }
    }

    /// Its children get the controllers that it has, and with them `io.stat` and `memory.stat`. Not where it has tasks of its own
    /// (kernel, cgroup-v2.rst, "No Internal Process Constraint").
    pub fn delegate(&self) {
        for controller in std::fs::read_to_string(self.path.join("cgroup.controllers")).unwrap().split_whitespace() {
            self.write("cgroup.subtree_control", &format!("+{controller}"));
        }
    }

    /// Tasks that use all the CPU they get.
    pub fn spin(&mut self, tasks: usize) {
        self.run(tasks, "while :; do :; done");
    }

    /// A task that does nothing.
    pub fn sleep(&mut self) {
        self.run(1, "exec sleep 100000");
    }

    fn run(&mut self, tasks: usize, what: &str) {
        for _ in 0..tasks {
            let script = format!("echo $$ > {}/cgroup.procs && {what}", self.path.display());
            let nice = ["nice", "-n", "10", "sh", "-c", &script];
            let child = ends_with_this_thread().args(nice).stdin(Stdio::null()).spawn();
            self.tasks.push(child.unwrap());
        }
        let path = self.path.join("cgroup.procs");
        eventually("the tasks are in their cgroup", Duration::from_secs(10), || {
            std::fs::read_to_string(&path).unwrap().lines().count() >= tasks
        });
    }

    pub fn frozen(&self) -> bool {
        std::fs::read_to_string(self.path.join("cgroup.events")).unwrap().contains("frozen 1")
    }

    pub fn write(&self, file: &str, text: &str) {
        std::fs::write(self.path.join(file), text).unwrap();
    }
}

impl Drop for TestCgroup {
    fn drop(&mut self) {
        let _ = std::fs::write(self.path.join("cgroup.freeze"), "0");
        let _ = std::fs::write(self.path.join("cgroup.kill"), "1");
        for child in &mut self.tasks {
            let _ = child.wait();
        }
        for _ in 0..100 {
            if std::fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        eprintln!("{}: cannot be removed", self.path.display());
    }
}

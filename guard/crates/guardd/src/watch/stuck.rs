// SPDX-License-Identifier: Apache-2.0
//! Threads of the storage services that wait in D state and did not run between two looks: the picture of a disk, or of a file
//! system of the network, that hangs (seed 000, "D state inferno"). What they wait for (`/proc/<tid>/wchan`) the kernel shows to
//! those only who may trace them, which the guard may not: `beer status` looks, for root.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use policy::Config;
use rustix::io::Errno;

use super::Source;
use crate::shared::{lock, Shared};

/// A look at 1000 threads costs some milliseconds: once in so many seconds when all is well, each time while something is not.
const EVERY: u32 = 5;
/// A storage request in flight for longer than this is worth a look.
const OLD_NS: u64 = 1_000_000_000;
/// Cgroups below each other: whoever has one of his own may nest them, and our stack is small.
const DEPTH: u32 = 16;
/// Names so many of them.
const NAMED: usize = 16;
/// Looks at no more threads than this: a storage service has a few thousand at most.
const MOST: usize = 16_384;

/// The source.
pub struct Stuck {
    slice: PathBuf,
    proc: PathBuf,
    /// Threads in D state at the last look: how often each had run by then.
    waiting: HashMap<u32, u64>,
    /// Stuck ones at the last look.
    stuck: Vec<u32>,
    /// Seconds until the next look.
    rest: u32,
}

impl Stuck {
    /// Looks at nothing yet.
    pub fn new(config: &Config) -> Self {
        Stuck {
            slice: config.paths.cgroup.join(&config.paths.storage_slice),
            proc: config.paths.proc.clone(),
            waiting: HashMap::new(),
            stuck: Vec::new(),
            rest: 0,
        }
    }

    /// # Errors
    /// They cannot be looked at, which is another thing than that none of them waits.
    fn look(&mut self) -> io::Result<()> {
        let mut waiting = HashMap::new();
        let mut left = MOST;
        let (mut processes, mut seen) = (0, 0);
        each_process(&self.slice, DEPTH, &mut |pid| {
            processes += 1;
            let Some(tasks) = there(std::fs::read_dir(self.proc.join(pid.to_string()).join("task")))? else {
                return Ok(());
            };
            seen += 1;
            for task in tasks.flatten().take(left) {
                left -= 1;
                let folder = task.path();
                let tid = task.file_name().to_str().and_then(|name| name.parse().ok());
                if let Some((tid, runs)) = tid.zip(runs_of_a_waiting(&folder)?) {
                    waiting.insert(tid, runs);
                }
            }
            Ok(())
        })?;
        if processes > 0 && seen == 0 {
            // Not all of them have ended just now: /proc hides them (hidepid).
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        // A number that was given to another thread meanwhile has run another number of times.
        let stuck = |(tid, runs): (&u32, &u64)| (self.waiting.get(tid) == Some(runs)).then_some(*tid);
        self.stuck = waiting.iter().filter_map(stuck).collect();
        self.stuck.sort_unstable();
        self.waiting = waiting;
        Ok(())
    }
}

impl Source for Stuck {
    fn read(&mut self, now_ns: u64, shared: &Shared) {
        const NAME: &str = "storage.threads.stuck";
        if !self.slice.exists() {
            lock(&shared.stuck).clear();
            return shared.gauges.put(NAME, None, now_ns);
        }
        let old = lock(&shared.snapshot).loads.iter().any(|load| load.oldest_ns > OLD_NS);
        if self.rest == 0 || old || !self.stuck.is_empty() {
            if let Err(error) = self.look() {
                // It grows old, and is looked for again each second.
                self.rest = 0;
                return shared.gauges.fail(NAME, format_args!("threads of the storage services: {error}"));
            }
            *lock(&shared.stuck) = self.stuck.iter().copied().take(NAMED).collect();
            self.rest = EVERY;
        }
        self.rest -= 1;
        shared.gauges.put(NAME, Some(self.stuck.len() as f64), now_ns);
    }
}

/// Processes of a cgroup and of all below it.
fn each_process(cgroup: &Path, deep: u32, visit: &mut dyn FnMut(u32) -> io::Result<()>) -> io::Result<()> {
    let text = there(std::fs::read_to_string(cgroup.join("cgroup.procs")))?.unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).try_for_each(&mut *visit)?;
    if deep == 0 {
        return Ok(());
    }
    let Some(entries) = there(std::fs::read_dir(cgroup))? else { return Ok(()) };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            each_process(&entry.path(), deep - 1, visit)?;
        }
    }
    Ok(())
}

/// How often a thread has run, if it is in D state (`stat`; `schedstat`, third number: kernel, sched-stats.rst).
fn runs_of_a_waiting(task: &Path) -> io::Result<Option<u64>> {
    let Some(stat) = there(std::fs::read_to_string(task.join("stat")))? else { return Ok(None) };
    // The name may hold anything, also brackets: the state comes behind the last one.
    let state = stat.rsplit_once(')').and_then(|(_, after)| after.trim_start().chars().next());
    if state != Some('D') {
        return Ok(None);
    }
    let runs = there(std::fs::read_to_string(task.join("schedstat")))?;
    Ok(runs.and_then(|runs| runs.split_whitespace().nth(2)?.parse().ok()))
}

/// `None` = it has ended meanwhile, or it is a cgroup of threads, whose processes are listed above it.
fn there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    const GONE: [Errno; 4] = [Errno::NOENT, Errno::NODEV, Errno::SRCH, Errno::OPNOTSUPP];
    match result {
        Ok(read) => Ok(Some(read)),
        Err(error) if Errno::from_io_error(&error).is_some_and(|errno| GONE.contains(&errno)) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::gauge::{source_of, Reading};

    struct Rig {
        folder: tempfile::TempDir,
        source: Stuck,
        shared: Shared,
    }

    impl Rig {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(folder.path().join("storage.slice/xrootd.service")).unwrap();
            std::fs::write(folder.path().join("storage.slice/xrootd.service/cgroup.procs"), "10\n").unwrap();
            let root = folder.path().display();
            let config = format!("[paths]\ncgroup = \"{root}\"\nproc = \"{root}/proc\"\n");
            Rig { source: Stuck::new(&Config::parse("test", &config).unwrap()), folder, shared: Shared::default() }
        }

        fn thread(&self, tid: u32, state: &str, runs: u64) {
            let folder = self.folder.path().join(format!("proc/10/task/{tid}"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("stat"), format!("{tid} (x) D) {state} 1 10 10 0\n")).unwrap();
            std::fs::write(folder.join("schedstat"), format!("1000 2000 {runs}\n")).unwrap();
        }

        /// What /proc was is it again.
        fn show(&self, folder: &str) {
            let proc = self.folder.path().join("proc");
            std::fs::remove_dir_all(&proc).unwrap();
            std::fs::rename(self.folder.path().join(folder), proc).unwrap();
        }

        fn look(&mut self) -> f64 {
            self.source.rest = 0;
            self.next()
        }

        fn next(&mut self) -> f64 {
            self.source.read(5, &self.shared);
            match self.shared.gauges.read(source_of("storage.threads.stuck").unwrap(), 1) {
                Reading::Value(value, 5) => value,
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn waiting_twice_without_having_run_in_between_is_stuck() {
        let mut rig = Rig::new();
        rig.thread(10, "S", 5);
        rig.thread(11, "D", 7);
        rig.thread(12, "D", 7);
        assert_eq!(rig.look(), 0.0, "it may have begun to wait just now");
        rig.thread(12, "D", 8);
        assert_eq!(rig.look(), 1.0, "the other one has run");
        assert_eq!(*lock(&rig.shared.stuck), [11]);
        rig.thread(11, "S", 8);
        assert_eq!(rig.look(), 1.0, "now that one");
        rig.thread(12, "R", 9);
        assert_eq!(rig.look(), 0.0);
        assert!(lock(&rig.shared.stuck).is_empty());
    }

    #[test]
    fn who_cannot_be_looked_at_is_not_said_to_be_well() {
        let mut rig = Rig::new();
        rig.thread(10, "S", 5);
        assert_eq!(rig.look(), 0.0);
        let read = |rig: &mut Rig| {
            rig.source.rest = 0;
            rig.source.read(9, &rig.shared);
            rig.shared.gauges.read(source_of("storage.threads.stuck").unwrap(), 1)
        };
        let proc = rig.folder.path().join("proc");
        std::fs::rename(&proc, rig.folder.path().join("hidden")).unwrap();
        assert_eq!(read(&mut rig), Reading::Value(0.0, 5), "of the look before");
        std::fs::create_dir_all(proc.join("10/task/10/stat")).unwrap();
        assert_eq!(read(&mut rig), Reading::Value(0.0, 5));
        // Also if it is looked at out of its turn: that nothing hangs any more does not make the look before a new one.
        lock(&rig.shared.snapshot).loads = vec![policy::FilesystemLoad { oldest_ns: 2 * OLD_NS, ..Default::default() }];
        rig.source.rest = 3;
        rig.source.read(8, &rig.shared);
        lock(&rig.shared.snapshot).loads.clear();
        rig.source.read(9, &rig.shared);
        assert_eq!(rig.shared.gauges.read(source_of("storage.threads.stuck").unwrap(), 1), Reading::Value(0.0, 5));
        rig.show("hidden");
        assert_eq!(read(&mut rig), Reading::Value(0.0, 9));
    }

    #[test]
    fn calm_threads_are_looked_at_now_and_then() {
        let mut rig = Rig::new();
        rig.thread(10, "S", 5);
        rig.look();
        rig.thread(10, "D", 6);
        (1..EVERY).for_each(|_| assert!(rig.next() == 0.0 && rig.source.waiting.is_empty()));
        rig.next();
        assert_eq!(rig.source.waiting.len(), 1);
        (1..EVERY).for_each(|_| assert_eq!(rig.next(), 0.0));
        assert_eq!(rig.next(), 1.0);
        rig.thread(10, "S", 7);
        assert_eq!(rig.next(), 0.0, "at once, while somebody is stuck");
        // A request that is old is a reason to look at once.
        let mut rig = Rig::new();
        rig.thread(10, "S", 5);
        rig.look();
        rig.thread(10, "D", 6);
        lock(&rig.shared.snapshot).loads = vec![policy::FilesystemLoad { oldest_ns: 2 * OLD_NS, ..Default::default() }];
        rig.next();
        assert_eq!(rig.next(), 1.0);
    }

    #[test]
    fn without_the_slice_there_is_nothing() {
        let mut rig = Rig::new();
        rig.thread(11, "D", 7);
        rig.look();
        rig.look();
        assert_eq!(*lock(&rig.shared.stuck), [11]);
        std::fs::remove_dir_all(rig.folder.path().join("storage.slice")).unwrap();
        rig.source.read(5, &rig.shared);
        assert_eq!(rig.shared.gauges.read(source_of("storage.threads.stuck").unwrap(), 1), Reading::Absent);
        assert!(lock(&rig.shared.stuck).is_empty(), "nor anybody in it");
    }

    #[test]
    fn a_show_this_machine_is_read() {
        let task = Path::new("/proc/self/task").join(std::process::id().to_string());
        assert_eq!(runs_of_a_waiting(&task).unwrap(), None, "the main thread of a test is not in D state");
        assert!(std::fs::read_to_string(task.join("schedstat")).unwrap().split_whitespace().nth(2).is_some());
    }
}

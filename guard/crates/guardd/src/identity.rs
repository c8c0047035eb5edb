// SPDX-License-Identifier: Apache-2.0
//! Whose job a container is, for the journal. By what the container engine and the kernel say, never by what a job could have
//! written: they tell its user and, by the scratch folder `dir_<pid>` that HTCondor mounts into it, the starter; and the
//! starter's child `docker start -a HTCJob<cluster>_<proc>_<slot>_PID<pid>` (HTCondor 23, docker universe) tells job and slot.

mod engines;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use intf::journal::Job;

/// A process of HTCondor that keeps a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Starter {
    /// Its number.
    pub pid: u32,
    /// When it began, in ticks since the boot.
    begun: u64,
}

/// By whom a container is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// By this process of HTCondor.
    Starter(Starter),
    /// By one that has ended.
    Gone,
    /// It is not HTCondor's.
    Nobody,
}

/// It is not known whose container that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not known whose container it is")]
pub struct Unknown;

/// A file of the kernel; `None` = what it is about has ended. Any other failure says nothing about that.
fn text(path: &Path) -> Result<Option<String>, Unknown> {
    const ESRCH: i32 = 3;
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH) => Ok(None),
        Err(_) => Err(Unknown),
    }
}

/// Finds out, and remembers.
pub struct Identities {
    root: PathBuf,
    slice: PathBuf,
    known: HashMap<String, Job>,
}

impl Identities {
    /// `root` is normally `/`; `slice` is the folder of the cgroup of the jobs.
    pub fn new(root: &Path, slice: &Path) -> Self {
        Identities { root: root.into(), slice: slice.into(), known: HashMap::new() }
    }

    /// These are there now; what is known of others is forgotten.
    pub fn follow<'a>(&mut self, scopes: impl Iterator<Item = &'a str>) {
        let mut known = HashMap::new();
        for scope in scopes {
            let job = self.known.remove(scope).unwrap_or_else(|| self.look(scope));
            known.insert(scope.to_owned(), job);
        }
        self.known = known;
    }

    /// Whose it is, as far as is known. What was not complete is looked for again.
    pub fn of(&mut self, scope: &str) -> Job {
        match self.known.get(scope) {
            Some(job) if !job.slot.is_empty() => job.clone(),
            _ => {
                let job = self.look(scope);
                if let Some(known) = self.known.get_mut(scope) {
                    known.clone_from(&job);
                }
                job
            }
        }
    }

    /// The process of HTCondor that keeps this container.
    ///
    /// # Errors
    /// The engine's description of it cannot be read.
    pub fn keeper(&self, scope: &str) -> Result<Keeper, Unknown> {
        let description = engines::description(&self.root, scope).ok_or(Unknown)?;
        let Some(pid) = description.sources.iter().find_map(|source| starter_of(source)) else {
            return Ok(Keeper::Nobody);
        };
        let Some(begun) = self.begun(pid)? else { return Ok(Keeper::Gone) };
        // Another process may have its number by now, even one of its kind: that one has containers of its own.
        let same = self.is_starter(pid)? && self.processes(scope)?.iter().all(|process| begun <= *process);
        Ok(if same { Keeper::Starter(Starter { pid, begun }) } else { Keeper::Gone })
    }

    /// When the processes of a container began.
    fn processes(&self, scope: &str) -> Result<Vec<u64>, Unknown> {
        let pids = text(&self.slice.join(scope).join("cgroup.procs"))?.unwrap_or_default();
        let begun = pids.lines().filter_map(|pid| self.begun(pid.parse().ok()?).transpose());
        begun.collect()
    }

    /// In ticks since the boot (proc_pid_stat(5), field 22); `None` = there is no such process.
    fn begun(&self, pid: u32) -> Result<Option<u64>, Unknown> {
        let Some(stat) = text(&self.root.join(format!("proc/{pid}/stat")))? else { return Ok(None) };
        let field = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(19)?.parse().ok());
        field.map(Some).ok_or(Unknown)
    }

    fn is_starter(&self, pid: u32) -> Result<bool, Unknown> {
        let name = text(&self.root.join(format!("proc/{pid}/comm")))?;
        Ok(name.is_some_and(|name| name.trim_end() == "condor_starter"))
    }

    fn look(&self, scope: &str) -> Job {
        let mut job = Job { scope: scope.to_owned(), ..Job::default() };
        let Some(description) = engines::description(&self.root, scope) else { return job };
        job.owner = self.user(description.uid);
        let starter = description.sources.iter().find_map(|source| starter_of(source));
        if let Some((id, slot)) = starter.and_then(|pid| self.container_of(pid)) {
            (job.id, job.slot) = (id, slot);
        }
        job
    }

    /// Job and slot, of the starter's child that waits for the container's end.
    fn container_of(&self, starter: u32) -> Option<(String, String)> {
        let process = self.root.join(format!("proc/{starter}"));
        if self.is_starter(starter) != Ok(true) {
            return None;
        }
        let children = std::fs::read_to_string(process.join(format!("task/{starter}/children"))).ok()?;
        children.split_whitespace().find_map(|child| {
            let words = std::fs::read(self.root.join("proc").join(child).join("cmdline")).ok()?;
            words.split(|byte| *byte == 0).find_map(|word| named(std::str::from_utf8(word).ok()?, starter))
        })
    }

    /// A name, or the number where there is none.
    fn user(&self, uid: u32) -> String {
        let users = std::fs::read_to_string(self.root.join("etc/passwd")).unwrap_or_default();
        crate::passwd::name(&users, uid)
    }
}

/// The starter whose scratch folder this is, or lies in: `.../dir_<pid>/...`.
fn starter_of(path: &str) -> Option<u32> {
    path.split('/').find_map(|part| part.strip_prefix("dir_")?.parse().ok())
}

/// `HTCJob<cluster>_<proc>_<slot>_PID<starter>`; slots have names such as `slot1_2`.
fn named(word: &str, starter: u32) -> Option<(String, String)> {
    let rest = word.strip_prefix("HTCJob")?.strip_suffix(&format!("_PID{starter}"))?;
    let mut parts = rest.splitn(3, '_');
    let (cluster, process, slot) = (parts.next()?, parts.next()?, parts.next()?);
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (number(cluster) && number(process) && !slot.is_empty()).then(|| (format!("{cluster}.{process}"), slot.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Node(tempfile::TempDir);

    impl Node {
        /// A job of user 1001 in a docker container, as HTCondor 23.9 and Docker 26 leave it behind.
        fn new() -> Self {
            let node = Node(tempfile::tempdir().unwrap());
            node.write("etc/passwd", "root:x:0:0::/root:/bin/sh\nalice:x:1001:1001::/home/alice:/bin/sh\n");
            let description = r#"{"ociVersion":"1.1.0","process":{"user":{"uid":1001,"gid":1001},"args":["x"]},
                "mounts":[{"destination":"/proc","type":"proc","source":"proc"},
                {"destination":"/tmp","source":"/var/lib/beer/scratch/execute/dir_1083/tmp"}]}"#;
            node.write("run/containerd/io.containerd.runtime.v2.task/moby/0a1b/config.json", description);
            node.write("proc/1083/comm", "condor_starter\n");
            node.write("proc/1083/task/1083/children", "1100 1101 ");
            node.write(
                "proc/1083/stat",
                "1083 (condor_starter) S 1 1 1 0 -1 4194560 1 0 0 0 1 2 3 4 20 0 1 0 500 1 2\n",
            );
            node.write("proc/1200/stat", "1200 (a) b) (c) S 1 1 1 0 -1 4194560 1 0 0 0 1 2 3 4 20 0 1 0 600 1 2\n");
            node.write("slice/docker-0a1b.scope/cgroup.procs", "1200\n");
            node.write("proc/1100/cmdline", "/usr/bin/something\0else\0");
            node.write("proc/1101/cmdline", "/usr/bin/docker\0start\0-a\0HTCJob12_3_slot1_2_PID1083\0");
            node
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn of(&self, scope: &str) -> Job {
            self.identities().of(scope)
        }

        fn identities(&self) -> Identities {
            Identities::new(self.0.path(), &self.0.path().join("slice"))
        }
    }

    fn job(scope: &str, slot: &str, id: &str, owner: &str) -> Job {
        Job { scope: scope.into(), slot: slot.into(), id: id.into(), owner: owner.into() }
    }

    #[test]
    fn a_container_has_a_job_a_slot_and_an_owner() {
        let scope = "docker-0a1b.scope";
        assert_eq!(Node::new().of(scope), job(scope, "slot1_2", "12.3", "alice"));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { cases: 50, failure_persistence: None, ..Default::default() })]

        /// What a job could have some influence on: its environment in the description, names and arguments of processes.
        #[test]
        fn whatever_the_engine_and_processes_say(
            at in 0usize..1000,
            pieces in proptest::collection::vec(proptest::sample::select(vec![
                "{", "}", "[", "]", "\"", "dir_", "dir_1083", "/", "-1", "4294967296", "HTCJob", "_", "12", "PID1083", "condor_starter",
                "\n", "\u{0}", ")", "(", " ", "é", "\\u0000",
            ]), 0..12),
        ) {
            let node = Node::new();
            let files = [
                "run/containerd/io.containerd.runtime.v2.task/moby/0a1b/config.json", "proc/1083/comm", "proc/1083/stat", "etc/passwd",
                "proc/1083/task/1083/children", "proc/1101/cmdline", "proc/1200/stat", "slice/docker-0a1b.scope/cgroup.procs",
            ];
            for file in files {
                let path = node.0.path().join(file);
                let text = std::fs::read_to_string(&path).unwrap();
                let place = (0..=text.len() * at / 1000).rev().find(|place| text.is_char_boundary(*place)).unwrap();
                node.write(file, &format!("{}{}{}", &text[..place], pieces.concat(), &text[place..]));
                let (job, keeper) = (node.of("docker-0a1b.scope"), node.identities().keeper("docker-0a1b.scope"));
                // Nobody is taken for a starter but the one that the engine has named.
                assert!(!matches!(keeper, Ok(Keeper::Starter(starter)) if starter.pid != 1083) || file.ends_with(".json"));
                assert!(job.scope == "docker-0a1b.scope" && !job.id.contains(|c: char| !c.is_ascii_digit() && c != '.'));
                node.write(file, &text);
            }
        }
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let node = Node::new();
        for scope in ["docker-ffff.scope", "libpod-0a1b.scope", "other.scope", "docker-../x.scope", "docker-.scope", ""]
        {
            assert_eq!(node.of(scope), job(scope, "", "", ""));
        }
        // A process of that number that is no starter tells nothing, whatever its children are called.
        node.write("proc/1083/comm", "sh\n");
        assert_eq!(node.of("docker-0a1b.scope"), job("docker-0a1b.scope", "", "", "alice"));
        node.write("run/containerd/io.containerd.runtime.v2.task/moby/0a1b/config.json", "{\"process\":{}");
        assert_eq!(node.of("docker-0a1b.scope"), job("docker-0a1b.scope", "", "", ""));
    }

    #[test]
    fn a_starter_is_the_one_that_was_there_before_its_container() {
        let node = Node::new();
        let starter = || node.identities().keeper("docker-0a1b.scope");
        let Ok(Keeper::Starter(known)) = starter() else { panic!("{:?}", starter()) };
        assert_eq!(known.pid, 1083);
        node.write("proc/1083/stat", "1083 (condor_starter) S 1 1 1 0 -1 4194560 1 0 0 0 1 2 3 4 20 0 1 0 601 1 2\n");
        assert_eq!(starter(), Ok(Keeper::Gone), "its number has been given to another one");
        node.write("proc/1083/comm", "sh\n");
        assert_eq!(starter(), Ok(Keeper::Gone));
        assert_eq!(node.identities().keeper("docker-ffff.scope"), Err(Unknown));
        let description = "run/containerd/io.containerd.runtime.v2.task/moby/0a1b/config.json";
        node.write(description, r#"{"process":{"user":{"uid":7}},"mounts":[{"source":"/srv"}]}"#);
        assert_eq!(starter(), Ok(Keeper::Nobody));
    }

    #[test]
    fn a_starter_that_cannot_be_seen_is_not_known_to_be_gone() {
        for file in ["stat", "comm"] {
            let node = Node::new();
            let path = node.0.path().join(format!("proc/1083/{file}"));
            std::fs::remove_file(&path).unwrap();
            assert_eq!(node.identities().keeper("docker-0a1b.scope"), Ok(Keeper::Gone), "{file}");
            // Reading a folder is an error that says nothing about a process.
            std::fs::create_dir(&path).unwrap();
            assert_eq!(node.identities().keeper("docker-0a1b.scope"), Err(Unknown), "{file}");
        }
    }

    #[test]
    fn names_of_containers() {
        for (word, found) in [
            ("HTCJob12_3_slot1_2_PID1083", Some(("12.3", "slot1_2"))),
            ("HTCJob12_3_slot1@node_PID1083", Some(("12.3", "slot1@node"))),
            ("HTCJob12_3_slot1_2_PID1084", None),
            ("HTCJob12_x_slot1_2_PID1083", None),
            ("HTCJob12_3__PID1083", None),
            ("HTCJob_PID1083", None),
            ("start", None),
        ] {
            let found = found.map(|(id, slot)| (id.to_owned(), slot.to_owned()));
            assert_eq!(named(word, 1083), found, "{word}");
        }
        assert_eq!(starter_of("/var/lib/condor/execute/dir_77"), Some(77));
        assert_eq!(starter_of("/var/lib/condor/execute/dir_"), None);
    }

    #[test]
    fn it_is_remembered_while_the_job_is_there_and_looked_for_again_while_it_is_not_complete() {
        let node = Node::new();
        let scope = "docker-0a1b.scope";
        let mut identities = node.identities();
        node.write("proc/1083/task/1083/children", "");
        identities.follow([scope].into_iter());
        assert_eq!(identities.of(scope), job(scope, "", "", "alice"));
        node.write("proc/1083/task/1083/children", "1101");
        assert_eq!(identities.of(scope).id, "12.3");
        node.write("proc/1083/task/1083/children", "");
        identities.follow([scope].into_iter());
        assert_eq!(identities.of(scope).id, "12.3", "the job ends, and is named once more");
        identities.follow(std::iter::empty());
        assert_eq!(identities.of(scope).id, "");
    }
}

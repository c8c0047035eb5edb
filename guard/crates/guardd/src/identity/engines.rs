// SPDX-License-Identifier: Apache-2.0
//! What is known of a running container, from what lies below /run and /proc, so that no disk is waited for. Docker keeps there the
//! description that it gave its runtime. podman keeps its own where its images are, on a disk, but its runtime crun tells the first
//! process of the container, and of that one the kernel tells user and mounts.

use std::io::Read;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::Deserialize;

/// A description has some 50 KiB; with the longest environment that the kernel lets a process have, some megabytes.
const LIMIT: u64 = 16 << 20;

/// A container.
#[derive(Debug, PartialEq, Eq)]
pub struct Description {
    /// Who its first process runs as.
    pub uid: u32,
    /// Folders that were mounted into it, or what of them the kernel tells: the path within their filesystem.
    pub sources: Vec<String>,
}

/// Of the container with this cgroup; `None` = there is none, or what is said of it makes no sense.
pub fn description(root: &Path, scope: &str) -> Option<Description> {
    let container = |engine: &str| {
        let id = scope.strip_prefix(engine)?.strip_suffix(".scope")?;
        (!id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric())).then_some(id)
    };
    match (container("docker-"), container("libpod-")) {
        (Some(id), _) => of_docker(root, id),
        (_, Some(id)) => of_podman(root, id, scope),
        _ => None,
    }
}

/// What is needed of an OCI runtime configuration (runtime-spec, config.md).
#[derive(Deserialize)]
struct Spec {
    process: Process,
    #[serde(default)]
    mounts: Vec<Mount>,
}

#[derive(Deserialize)]
struct Process {
    user: User,
}

#[derive(Deserialize)]
struct User {
    uid: u32,
}

#[derive(Deserialize)]
struct Mount {
    #[serde(default)]
    source: String,
}

fn of_docker(root: &Path, id: &str) -> Option<Description> {
    let folder = root.join("run/containerd/io.containerd.runtime.v2.task/moby").join(id);
    let spec: Spec = json(&folder.join("config.json"))?;
    let sources = spec.mounts.into_iter().map(|mount| mount.source).collect();
    Some(Description { uid: spec.process.user.uid, sources })
}

/// What is needed of what crun remembers of a container (crun, src/libcrun/status.c).
#[derive(Deserialize)]
struct Status {
    pid: u32,
}

fn of_podman(root: &Path, id: &str, scope: &str) -> Option<Description> {
    let Status { pid } = json(&root.join("run/crun").join(id).join("status"))?;
    let process = root.join(format!("proc/{pid}"));
    // The number may be another's by now.
    let cgroup = std::fs::read_to_string(process.join("cgroup")).ok()?;
    cgroup.trim_end().split('/').any(|part| part == scope).then_some(())?;
    let status = std::fs::read_to_string(process.join("status")).ok()?;
    let uid =
        status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_ascii_whitespace().next()?.parse().ok()?;
    // proc_pid_mountinfo(5): the fourth word is the root of the mount. What was mounted first comes first.
    let mounts = std::fs::read_to_string(process.join("mountinfo")).ok()?;
    let sources = mounts.lines().filter_map(|line| Some(line.split(' ').nth(3)?.to_owned())).collect();
    Some(Description { uid, sources })
}

fn json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let file = std::fs::File::open(path).ok()?;
    serde_json::from_reader(std::io::BufReader::new(file.take(LIMIT))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCOPE: &str = "libpod-0a1b.scope";

    /// As podman 5.4 and crun 1.21 leave it behind.
    fn node() -> tempfile::TempDir {
        let node = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = node.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "run/crun/0a1b/status",
            r#"{"pid":1200,"process-start-time":7,"bundle":"/var/lib/x","systemd-cgroup":true}"#,
        );
        write("proc/1200/cgroup", "0::/beer.slice/beer-jobs.slice/libpod-0a1b.scope/container\n");
        write("proc/1200/status", "Name:\tsleep\nUid:\t1001\t1001\t1001\t1001\nGid:\t1\t1\t1\t1\n");
        write(
            "proc/1200/mountinfo",
            "600 500 0:60 / / rw - overlay overlay rw\n601 600 254:1 /execute/dir_1083/tmp /tmp rw - ext4 /dev/vda1 rw\n",
        );
        node
    }

    #[test]
    fn of_a_container_of_podmans_the_kernel_tells() {
        let sources = vec!["/".to_owned(), "/execute/dir_1083/tmp".to_owned()];
        assert_eq!(description(node().path(), SCOPE), Some(Description { uid: 1001, sources }));
    }

    #[test]
    fn what_makes_no_sense_is_not_known() {
        for (file, text) in [
            ("run/crun/0a1b/status", "{"),
            ("run/crun/0a1b/status", r#"{"pid":-1}"#),
            ("proc/1200/cgroup", "0::/beer.slice/beer-jobs.slice/libpod-0a1b.scope.d/x\n"),
            ("proc/1200/cgroup", "0::/user.slice\n"),
            ("proc/1200/status", "Name:\tUid:\n"),
            ("proc/1200/status", "Uid:\t-5\n"),
        ] {
            let node = node();
            std::fs::write(node.path().join(file), text).unwrap();
            assert_eq!(description(node.path(), SCOPE), None, "{file}: {text}");
        }
        let node = node();
        std::fs::write(node.path().join("proc/1200/mountinfo"), "1 2 3\n\n/ dir_1\n").unwrap();
        assert_eq!(description(node.path(), SCOPE), Some(Description { uid: 1001, sources: vec![] }));
        for scope in ["libpod-conmon-0a1b.scope", "libpod-.scope", "libpod-../0a1b.scope", "libpod-ffff.scope", ""] {
            assert_eq!(description(node.path(), scope), None, "{scope}");
        }
    }
}

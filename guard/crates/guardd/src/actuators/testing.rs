// SPDX-License-Identifier: Apache-2.0
//! What tests of the actuators that deal with HTCondor share.

use std::path::Path;

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A container of HTCondor whose starter is a process of ours.
pub fn node(starter: u32, name: &str) -> tempfile::TempDir {
    let node = tempfile::tempdir().unwrap();
    let root = node.path();
    let description = format!(r#"{{"process":{{"user":{{"uid":7}}}},"mounts":[{{"source":"/x/dir_{starter}/tmp"}}]}}"#);
    write(&root.join("run/containerd/io.containerd.runtime.v2.task/moby/0a/config.json"), &description);
    write(&root.join(format!("proc/{starter}/comm")), name);
    write(&root.join(format!("proc/{starter}/stat")), "1 (x) S 1 1 1 0 -1 0 1 0 0 0 1 2 3 4 20 0 1 0 500 1 2\n");
    write(&root.join(format!("proc/{starter}/task/{starter}/children")), "77");
    write(&root.join("proc/77/cmdline"), &format!("docker\0start\0HTCJob1_0_slot1_2_PID{starter}"));
    write(&root.join("slice/docker-0a.scope/cgroup.procs"), "");
    write(&root.join("slice/docker-0a.scope/cgroup.kill"), "");
    write(&root.join("own/x"), "");
    node
}

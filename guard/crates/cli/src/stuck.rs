// SPDX-License-Identifier: Apache-2.0
//! What a stuck thread of a storage service waits for. The kernel says so to those only who may trace it (proc_pid_wchan(5)): root,
//! and not the guard.

use std::path::Path;

/// Its line in `beer status`.
pub fn line(proc: &Path, tid: u32) -> String {
    let folder = proc.join(tid.to_string());
    let read = |name| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    // A name may hold anything.
    let name = read("comm").trim_end().escape_debug().to_string();
    let waits = match read("wchan").trim_end() {
        "" | "0" => "only root can see for what".to_owned(),
        function => format!("in {}", function.escape_debug()),
    };
    match name.is_empty() {
        true => format!("  stuck       thread {tid} of a storage service, which has ended since"),
        false => format!("  stuck       thread {tid} of a storage service ({name}) waits and does not run, {waits}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_where_it_waits_as_far_as_the_kernel_does() {
        let proc = tempfile::tempdir().unwrap();
        let folder = proc.path().join("42");
        assert!(line(proc.path(), 42).ends_with("thread 42 of a storage service, which has ended since"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("comm"), "xro\x1b[2Jotd\n").unwrap();
        std::fs::write(folder.join("wchan"), "0").unwrap();
        let text = line(proc.path(), 42);
        assert!(text.contains("only root can see") && !text.contains('\x1b'), "{text}");
        std::fs::write(folder.join("wchan"), "rpc_wait_bit_killable").unwrap();
        assert!(line(proc.path(), 42).ends_with("waits and does not run, in rpc_wait_bit_killable"));
    }

    #[test]
    fn a_thread_of_this_machine() {
        let text = line(Path::new("/proc"), std::process::id());
        assert!(text.contains("waits and does not run, "), "{text}");
    }
}

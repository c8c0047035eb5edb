// SPDX-License-Identifier: Apache-2.0
//! What a stuck thread of a storage service waits for. The kernel says so to those only who may trace it (proc_pid_wchan(5)): root,
//! and not the guard.

use std::fmt;
use std::path::Path;

use serde::Serialize;

/// A thread of a storage service that waits and does not run.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Stuck {
    /// Its thread id.
    pub thread: u32,
    /// What it is called; `None` = it has ended since.
    pub name: Option<String>,
    /// The function of the kernel in which it waits; `None` = the kernel does not say.
    pub wait_channel: Option<String>,
}

impl Stuck {
    /// As it is now. `proc` = where procfs is.
    pub fn of(proc: &Path, thread: u32) -> Stuck {
        let folder = proc.join(thread.to_string());
        // A name may hold anything.
        let read = |name| {
            let text = std::fs::read_to_string(folder.join(name)).ok()?;
            Some(text.trim_end().escape_debug().to_string())
        };
        let wait_channel = read("wchan").filter(|function| !matches!(function.as_str(), "" | "0"));
        Stuck { thread, name: read("comm"), wait_channel }
    }
}

/// Its line in `beer status`.
impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  stuck       thread {} of a storage service", self.thread)?;
        let Some(name) = &self.name else { return f.write_str(", which has ended since") };
        write!(f, " ({name}) waits and does not run, ")?;
        match &self.wait_channel {
            Some(function) => write!(f, "in {function}"),
            None => f.write_str("only root can see for what"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_where_it_waits_as_far_as_the_kernel_does() {
        let proc = tempfile::tempdir().unwrap();
        let folder = proc.path().join("42");
        let line = || Stuck::of(proc.path(), 42).to_string();
        assert!(line().ends_with("thread 42 of a storage service, which has ended since"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("comm"), "xro\x1b[2Jotd\n").unwrap();
        std::fs::write(folder.join("wchan"), "0").unwrap();
        assert!(line().contains("only root can see") && !line().contains('\x1b'), "{}", line());
        std::fs::write(folder.join("wchan"), "rpc_wait_bit_killable").unwrap();
        assert!(line().ends_with("waits and does not run, in rpc_wait_bit_killable"));
        let json = serde_json::to_value(Stuck::of(proc.path(), 42)).unwrap();
        let expected = r#"{"thread":42,"name":"xro\\u{1b}[2Jotd","wait_channel":"rpc_wait_bit_killable"}"#;
        assert_eq!(json, serde_json::from_str::<serde_json::Value>(expected).unwrap());
    }

    #[test]
    fn a_thread_of_this_machine() {
        let text = Stuck::of(Path::new("/proc"), std::process::id()).to_string();
        assert!(text.contains("waits and does not run, "), "{text}");
    }
}

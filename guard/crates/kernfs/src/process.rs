// SPDX-License-Identifier: Apache-2.0
//! Resident memory of a process, from `/proc/<pid>/statm`.

use std::path::Path;

use crate::{Error, KernFile, Result};

#[derive(Debug)]
pub struct ProcessMemory(KernFile);

impl ProcessMemory {
    pub fn of_self(proc: &Path) -> Self {
        ProcessMemory(KernFile::new(proc.join("self/statm")))
    }

    pub fn resident_bytes(&mut self) -> Result<Option<u64>> {
        let pages = match self.0.read()? {
            None => return Ok(None),
            Some(text) => text.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()),
        };
        match pages {
            Some(pages) => Ok(Some(pages.saturating_mul(rustix::param::page_size() as u64))),
            None => Err(Error::parse(self.0.path(), 0, "no second number")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::damaged;

    #[test]
    fn of_this_process() {
        let bytes = ProcessMemory::of_self(Path::new("/proc")).resident_bytes().unwrap().unwrap();
        assert!(bytes > 100_000 && bytes < 1 << 32, "{bytes}");
    }

    #[test]
    fn damaged_files_are_errors() {
        for text in ["", "12", "12 x"] {
            let dir = damaged("self/statm", text);
            assert!(ProcessMemory::of_self(dir.path()).resident_bytes().is_err());
        }
    }
}

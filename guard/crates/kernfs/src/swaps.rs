// SPDX-License-Identifier: Apache-2.0
//! `/proc/swaps` (proc(5)): where the kernel swaps to.

use std::path::{Path, PathBuf};

use crate::mountinfo::unescape;
use crate::{Error, KernFile, Result};

/// One place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Area {
    /// Of a device as the kernel names it, such as `/dev/dm-1`.
    pub path: PathBuf,
    /// A file of a filesystem; otherwise a block device.
    pub file: bool,
}

#[derive(Debug)]
pub struct Swaps(KernFile);

impl Swaps {
    /// `proc` is normally `/proc`.
    pub fn new(proc: &Path) -> Self {
        Swaps(KernFile::new(proc.join("swaps")))
    }

    /// Those in use now; none where the kernel has no swap.
    pub fn read(&mut self) -> Result<Vec<Area>> {
        let Some(text) = self.0.read()? else { return Ok(Vec::new()) };
        // The first line is a heading.
        let lines = text.lines().enumerate().skip(1);
        let areas: std::result::Result<Vec<Area>, usize> =
            lines.map(|(number, line)| parse(line).ok_or(number)).collect();
        areas.map_err(|number| Error::parse(self.0.path(), number, "not a line of /proc/swaps"))
    }
}

fn parse(line: &str) -> Option<Area> {
    let mut words = line.split_whitespace();
    let path = PathBuf::from(unescape(words.next()?));
    let file = match words.next()? {
        "file" => true,
        "partition" => false,
        _ => return None,
    };
    Some(Area { path, file })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::damaged;

    const HEADING: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";

    fn read(lines: &str) -> Result<Vec<Area>> {
        Swaps::new(damaged("swaps", &format!("{HEADING}{lines}")).path()).read()
    }

    #[test]
    fn files_and_devices() {
        let found = read(
            "/dev/dm-1                               partition\t2097148\t\t0\t\t-2\n\
             /data/01/a\\040b/swap                    file\t\t2097148\t\t12\t\t-3\n",
        );
        let area = |path: &str, file| Area { path: path.into(), file };
        assert_eq!(found.unwrap(), [area("/dev/dm-1", false), area("/data/01/a b/swap", true)]);
        assert_eq!(read("").unwrap(), []);
        assert_eq!(Swaps::new(Path::new("/nowhere")).read().unwrap(), []);
    }

    #[test]
    fn a_damaged_line_is_named() {
        for line in ["/dev/sda2\n", "/dev/sda2 moon 1 2 3\n", "\n"] {
            let error = read(&format!("/x file 1 2 3\n{line}")).unwrap_err().to_string();
            assert!(error.contains("swaps"), "{error}");
        }
    }
}

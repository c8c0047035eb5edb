// SPDX-License-Identifier: Apache-2.0
//! What a command of the site's own has printed: `readings.json`, replaced by rename. Its writer may be anybody's program, and
//! its reader is the guard: whatever is wrong with it makes all of it an error.

use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Its name in the folder of the command.
pub const READINGS: &str = "readings.json";
/// Its greatest size, and the most that a command may print.
pub const BYTES_MOST: usize = 64 << 10;

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Readings {
    /// By key.
    pub values: BTreeMap<String, Printed>,
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Printed {
    /// Finite.
    pub value: f64,
    /// When the command that printed it was started, CLOCK_MONOTONIC; never 0.
    pub at_ns: u64,
}

/// Why there are no readings. Says nothing of what is in the file: that may be anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The command has not been there, or has printed nothing yet.
    #[error("there are no readings")]
    Missing,
    /// Something else is at its place.
    #[error("a regular file is required")]
    NotRegular,
    /// Others than its owner could write it.
    #[error("it must not be writable by group or others")]
    Writable,
    /// It holds more than any good one.
    #[error("more than {BYTES_MOST} bytes")]
    TooLarge,
    /// It is no JSON of this form, or a number is none.
    #[error("not as beer-guard run-exec writes it")]
    Malformed,
    /// A time that has not come, or none.
    #[error("a value is from the future, or of no time")]
    Time,
    /// What the kernel said.
    #[error("cannot be read: {0}")]
    System(Errno),
}

impl Readings {
    /// Reads the file.
    ///
    /// # Errors
    /// See [`Fault`]; there are then no values, not even good ones.
    pub fn load(path: &Path, now_ns: impl FnOnce() -> u64) -> Result<Readings, Fault> {
        // A FIFO without a writer would wait for ever.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let fd = fs::open(path, flags, Mode::empty()).map_err(|error| match error {
            Errno::NOENT | Errno::NOTDIR => Fault::Missing,
            Errno::LOOP | Errno::NXIO => Fault::NotRegular,
            error => Fault::System(error),
        })?;
        let stat = fs::fstat(&fd).map_err(Fault::System)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Fault::NotRegular);
        }
        if stat.st_mode & 0o022 != 0 {
            return Err(Fault::Writable);
        }
        // One byte more than there may be: its owner can make it longer at any time.
        let mut text = vec![0; BYTES_MOST + 1];
        let mut length = 0;
        while let Some(rest) = text.get_mut(length..).filter(|rest| !rest.is_empty()) {
            match rustix::io::pread(&fd, rest, length as u64) {
                Ok(0) => break,
                Ok(n) => length += n,
                Err(Errno::INTR) => {}
                Err(error) => return Err(Fault::System(error)),
            }
        }
        Readings::parse(text.get(..length).unwrap_or_default(), now_ns())
    }

    /// Checks what a file holds; what was written after `now_ns` cannot be.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn parse(text: &[u8], now_ns: u64) -> Result<Readings, Fault> {
        if text.len() > BYTES_MOST {
            return Err(Fault::TooLarge);
        }
        let readings: Readings = serde_json::from_slice(text).map_err(|_| Fault::Malformed)?;
        if readings.values.values().any(|printed| !printed.value.is_finite()) {
            return Err(Fault::Malformed);
        }
        match readings.values.values().all(|printed| (1..=now_ns).contains(&printed.at_ns)) {
            true => Ok(readings),
            false => Err(Fault::Time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn parse(text: &str) -> Result<Readings, Fault> {
        Readings::parse(text.as_bytes(), 100)
    }

    #[test]
    fn what_is_written_is_read() {
        let values = [("a.b".to_owned(), Printed { value: 1.5, at_ns: 100 })].into();
        let readings = Readings { values };
        let text = serde_json::to_string(&readings).unwrap();
        assert_eq!(text, "{\"values\":{\"a.b\":{\"value\":1.5,\"at_ns\":100}}}");
        assert_eq!(parse(&text), Ok(readings));
        assert_eq!(parse("{\"values\":{}}"), Ok(Readings::default()));
    }

    #[test]
    fn what_cannot_be_is_an_error_as_a_whole() {
        let one = |value: &str, at_ns: &str| {
            format!(
                "{{\"values\":{{\"good\":{{\"value\":1,\"at_ns\":1}},\"x\":{{\"value\":{value},\"at_ns\":{at_ns}}}}}}}"
            )
        };
        assert!(parse(&one("-3", "100")).is_ok());
        for (value, at_ns) in [("NaN", "1"), ("1e999", "1"), ("null", "1"), ("\"1\"", "1"), ("[1]", "1"), ("1", "-1")] {
            assert_eq!(parse(&one(value, at_ns)), Err(Fault::Malformed), "{value} {at_ns}");
        }
        for (at_ns, fault) in [("101", Fault::Time), ("0", Fault::Time), ("1.5", Fault::Malformed)] {
            assert_eq!(parse(&one("1", at_ns)), Err(fault), "{at_ns}");
        }
        for text in ["", "{}", "[]", "{\"values\":{}} {}", "{\"values\":{},\"more\":1}", "{\"values\":[]}"] {
            assert_eq!(parse(text), Err(Fault::Malformed), "{text}");
        }
        assert_eq!(parse(&"[".repeat(60_000)), Err(Fault::Malformed));
        assert_eq!(parse(&" ".repeat(BYTES_MOST + 1)), Err(Fault::TooLarge));
        assert_eq!(Readings::parse(b"{\"values\":{\"\xff\":{\"value\":1,\"at_ns\":1}}}", 9), Err(Fault::Malformed));
    }

    #[test]
    fn only_a_regular_file_that_its_owner_alone_can_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(READINGS);
        let load = || Readings::load(&path, || 100);
        assert_eq!(load(), Err(Fault::Missing));
        let good = folder.path().join("good");
        std::fs::write(&good, "{\"values\":{}}").unwrap();
        std::os::unix::fs::symlink(&good, &path).unwrap();
        assert_eq!(load(), Err(Fault::NotRegular), "a link");
        std::fs::remove_file(&path).unwrap();
        fs::mknodat(fs::CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert_eq!(load(), Err(Fault::NotRegular), "a FIFO");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert_eq!(load(), Err(Fault::NotRegular), "a folder");
        std::fs::remove_dir(&path).unwrap();
        std::fs::rename(&good, &path).unwrap();
        assert!(load().is_ok());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(load(), Err(Fault::Writable));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(load(), Err(Fault::TooLarge));
    }
}

// SPDX-License-Identifier: Apache-2.0
use std::path::{Path, PathBuf};

pub type Result<T> = std::result::Result<T, Error>;

/// Why a file that is there could not be used. Always names the file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{} line {line}: {what}", path.display())]
    Parse { path: PathBuf, line: usize, what: &'static str },
}

impl Error {
    pub fn path(&self) -> &Path {
        match self {
            Error::Io { path, .. } | Error::Parse { path, .. } => path,
        }
    }

    pub(crate) fn io(path: &Path, source: impl Into<std::io::Error>) -> Self {
        Error::Io { path: path.to_owned(), source: source.into() }
    }

    /// `line` counts from 0 here, as `enumerate` does, and from 1 in the message.
    pub(crate) fn parse(path: &Path, line: usize, what: &'static str) -> Self {
        Error::Parse { path: path.to_owned(), line: line + 1, what }
    }
}

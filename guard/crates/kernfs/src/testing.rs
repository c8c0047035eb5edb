// SPDX-License-Identifier: Apache-2.0
//! Shared by the tests: the captured fixture tree, and files that were damaged on purpose.

use std::path::{Path, PathBuf};

/// A file or folder as captured on a Debian trixie node.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/6.12.107").join(name)
}

/// What a container there looks like.
pub fn container(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/6.12.117").join(name)
}

/// A directory that holds one file with this text.
pub fn damaged(name: &str, text: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    dir
}

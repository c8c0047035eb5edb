// SPDX-License-Identifier: Apache-2.0
//! One question to one daemon. The socket and what comes out of it are not trusted: root runs this program, and the
//! folder belongs to the user of the storage daemon.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use rustix::fs::{fstat, open, stat, FileType, Mode, OFlags};
use rustix::net::{connect, socket_with, sockopt, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Of the daemons' answers: 10,000 streams, or 8 MiB of them.
const MOST_BYTES: usize = 16 << 20;
const PATIENCE: Duration = Duration::from_secs(5);

/// Sockets of all instances, by name; none if the folder is missing.
pub fn all_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            bail!("{}: you may not look there; use sudo, or ask to be put into its group", folder.display())
        }
        entries => entries.with_context(|| folder.display().to_string())?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && path.extension().is_some_and(|extension| extension == "info") {
            found.push(path);
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The answer, which is text of a bounded length.
pub fn ask(path: &Path, word: &str) -> Result<String> {
    ask_within(path, word, PATIENCE)
}

pub(super) fn ask_within(path: &Path, word: &str, patience: Duration) -> Result<String> {
    let until = Instant::now() + patience;
    let place = checked(path)?;
    // By the descriptor: what was looked at is what is connected to.
    let address = SocketAddrUnix::new(format!("/proc/self/fd/{}", place.as_raw_fd()))?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Also for connect, which waits when the daemon's queue is full.
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(patience))?;
    match connect(&socket, &address) {
        Err(rustix::io::Errno::CONNREFUSED) => bail!("nobody answers there: the daemon is dead"),
        Err(rustix::io::Errno::ACCESS) => {
            bail!("you may not ask this daemon; use sudo, or ask to be put into its group")
        }
        Err(rustix::io::Errno::AGAIN) => bail!("the daemon does not answer within {} s", patience.as_secs()),
        connected => connected?,
    }
    let mut stream = UnixStream::from(socket);
    stream.write_all(format!("{word}\n").as_bytes())?;
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            bail!("the daemon does not answer within {} s", patience.as_secs());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) if bytes.len() + count > MOST_BYTES => bail!("the answer is longer than {MOST_BYTES} bytes"),
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if bytes.is_empty() {
        bail!("the daemon hung up: it has no memory, or does not let you ask");
    }
    String::from_utf8(bytes).context("that is no answer of a storage daemon")
}

/// A descriptor of the socket itself: no symbolic link, nothing else, and nobody else's than the folder's.
fn checked(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = match open(path, flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => bail!("there is no such socket: does that storage daemon run?"),
        Err(rustix::io::Errno::ACCESS) => bail!("you may not look there; use sudo, or ask to be put into its group"),
        opened => opened?,
    };
    let found = fstat(&place)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
        bail!("that is no socket");
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let owner = stat(folder)?.st_uid;
    if found.st_uid != owner && found.st_uid != 0 {
        bail!("that socket belongs to user {}, its folder to user {owner}", found.st_uid);
    }
    Ok(place)
}

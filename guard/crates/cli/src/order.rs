// SPDX-License-Identifier: Apache-2.0
//! Orders to the guard of this node.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use intf::order::{Answer, Order, LINE_BYTES, SOCKET};

const PATIENCE: Duration = Duration::from_secs(5);

/// Gives an order and says what became of it.
pub fn give(run: &Path, order: &Order, out: &mut impl Write) -> Result<ExitCode> {
    let path = run.join(SOCKET);
    let answer = ask(&path, order).with_context(|| path.display().to_string())?;
    if !answer.done {
        bail!("{}", answer.said);
    }
    writeln!(out, "{}", answer.said)?;
    Ok(ExitCode::SUCCESS)
}

fn ask(path: &Path, order: &Order) -> Result<Answer> {
    let mut stream = match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            bail!("you may not give orders; use sudo, or ask to be put into group beer")
        }
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            bail!("no guard listens: is beer-guard running?")
        }
        stream => stream?,
    };
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_string(order)?;
    line.push('\n');
    stream.write_all(line.as_bytes())?;
    let mut answer = String::new();
    match BufReader::new(stream.take(LINE_BYTES as u64)).read_line(&mut answer) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            bail!("the guard does not answer within {} s", PATIENCE.as_secs())
        }
        read => read?,
    };
    serde_json::from_str(&answer).context("the guard hung up")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// A guard that answers one order.
    fn answered(with: &'static str) -> (Result<ExitCode>, String) {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
            stream.write_all(with.as_bytes()).unwrap();
            assert_eq!(Order::parse(line.trim_end()), Ok(Order::Freeze { seconds: 5, why: "x".into() }));
        });
        let mut out = Vec::new();
        let done = give(folder.path(), &Order::Freeze { seconds: 5, why: "x".into() }, &mut out);
        thread.join().unwrap();
        (done, String::from_utf8(out).unwrap())
    }

    #[test]
    fn an_order_is_given_and_its_answer_shown() {
        let (done, out) = answered("{\"done\":true,\"said\":\"all jobs stand still\"}\n");
        assert!(done.is_ok());
        assert_eq!(out, "all jobs stand still\n");
    }

    #[test]
    fn a_refusal_and_a_guard_that_hangs_up_are_errors_with_the_path() {
        for (answer, word) in [("{\"done\":false,\"said\":\"no\"}\n", "no"), ("", "hung up"), ("x\n", "hung up")] {
            let error = format!("{:#}", answered(answer).0.unwrap_err());
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn without_a_guard_it_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let error = give(folder.path(), &Order::Resume { why: String::new() }, &mut Vec::new()).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains(SOCKET) && error.contains("is beer-guard running?"), "{error}");
    }
}

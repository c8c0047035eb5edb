// SPDX-License-Identifier: Apache-2.0
//! A command that must end in time, and what it prints. It is the leader of a process group, which is killed at the end in any case.
//! What leaves the group stays in the cgroup of the service, with its limits, and ends with it.

use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use intf::exec::BYTES_MOST;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use rustix::process::{pidfd_open, PidfdFlags, Signal};

/// How often the flag is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// One that was killed is gone after this, unless it is stuck in the kernel.
const KILLED: Duration = Duration::from_secs(2);

/// Why there is no output.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("it cannot be run: {0}")]
    System(#[from] std::io::Error),
    #[error("it had not ended after {} s", .0.as_secs_f64())]
    Late(Duration),
    #[error("it printed more than {BYTES_MOST} bytes")]
    TooMuch,
    #[error("it failed ({0})")]
    Failed(std::process::ExitStatus),
    #[error("it was killed and has not ended: stuck in the kernel")]
    Stuck,
    #[error("the service ends")]
    Stopped,
}

/// Runs it; what it says of its errors goes to ours.
pub(crate) fn output(command: &[String], timeout: Duration, shutdown: &AtomicBool) -> Result<Vec<u8>, Failure> {
    let (program, arguments) = command.split_first().ok_or_else(|| std::io::Error::from(ErrorKind::NotFound))?;
    // Whether the service has started is not the command's to tell.
    let mut child = Command::new(program)
        .args(arguments)
        .env_remove("NOTIFY_SOCKET")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let printed = follow(&mut child, timeout, shutdown);
    // Before it is reaped: until then nobody else can have its number.
    let killed = rustix::process::kill_process_group(rustix::process::Pid::from_child(&child), Signal::KILL);
    let end = Instant::now() + KILLED;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if killed.is_err() || Instant::now() > end => return Err(Failure::Stuck),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    match printed {
        Ok(text) if status.success() => Ok(text),
        Ok(_) => Err(Failure::Failed(status)),
        Err(failure) => Err(failure),
    }
}

/// Until it has ended: all that it has printed by then.
fn follow(child: &mut Child, timeout: Duration, shutdown: &AtomicBool) -> Result<Vec<u8>, Failure> {
    let begun = Instant::now();
    let life =
        pidfd_open(rustix::process::Pid::from_child(child), PidfdFlags::empty()).map_err(std::io::Error::from)?;
    let mut stdout = child.stdout.take();
    if let Some(stdout) = &stdout {
        rustix::fs::fcntl_setfl(stdout, OFlags::NONBLOCK).map_err(std::io::Error::from)?;
    }
    let mut text = Vec::new();
    loop {
        if shutdown.load(Ordering::Relaxed) {
            return Err(Failure::Stopped);
        }
        let Some(left) = timeout.checked_sub(begun.elapsed()) else { return Err(Failure::Late(timeout)) };
        let ended = readable(&[PollFd::new(&life, PollFlags::IN)], Duration::ZERO)?;
        if stdout.as_mut().is_some_and(|stdout| drain(stdout, &mut text)) {
            stdout = None;
        }
        if text.len() > BYTES_MOST {
            return Err(Failure::TooMuch);
        }
        if ended {
            return Ok(text);
        }
        let wait = left.min(LOOK);
        match &stdout {
            Some(stdout) => readable(
                &[PollFd::new(&life, PollFlags::IN), PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::IN)],
                wait,
            )?,
            None => readable(&[PollFd::new(&life, PollFlags::IN)], wait)?,
        };
    }
}

/// Reads what is there, and a byte more than may be at most. Is it at its end?
fn drain(stdout: &mut ChildStdout, text: &mut Vec<u8>) -> bool {
    let mut part = [0; 4096];
    while text.len() <= BYTES_MOST {
        match stdout.read(&mut part) {
            Ok(0) => return true,
            Ok(n) => text.extend(part.iter().take(n)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
    false
}

/// Waits for one of them; a signal ends the wait too.
fn readable(of: &[PollFd<'_>], within: Duration) -> Result<bool, Failure> {
    let mut of = of.to_vec();
    let within = Timespec::try_from(within).map_err(|_| std::io::Error::from(ErrorKind::InvalidInput))?;
    match poll(&mut of, Some(&within)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(std::io::Error::from(error).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    fn shell(script: &str, timeout: Duration) -> Result<Vec<u8>, Failure> {
        output(&["/bin/sh".into(), "-c".into(), script.into()], timeout, &AtomicBool::new(false))
    }

    fn lives(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
    }

    fn ends(pid: &str) {
        let end = Instant::now() + LONG;
        while lives(pid) {
            assert!(Instant::now() < end, "{pid} lives on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn what_it_prints_is_all_there() {
        assert_eq!(shell("echo a; sleep 0.1; echo b", LONG).unwrap(), b"a\nb\n");
        assert_eq!(shell("exec >&-; sleep 0.1", LONG).unwrap(), b"");
        assert!(matches!(shell("echo a; exit 3", LONG), Err(Failure::Failed(_))));
        assert!(matches!(output(&["/nowhere".into()], LONG, &AtomicBool::new(false)), Err(Failure::System(_))));
        assert!(matches!(output(&[], LONG, &AtomicBool::new(false)), Err(Failure::System(_))));
    }

    #[test]
    fn what_hangs_is_killed_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid").display().to_string();
        let begun = Instant::now();
        let script = format!("trap '' TERM; sleep 600 & echo $! > {file}; echo x; wait; sleep 600");
        let failure = shell(&script, Duration::from_millis(500)).unwrap_err();
        assert_eq!(failure.to_string(), "it had not ended after 0.5 s");
        assert!(begun.elapsed() < LONG);
        ends(&std::fs::read_to_string(file).unwrap());
    }

    #[test]
    fn what_it_leaves_behind_is_neither_waited_for_nor_left() {
        let begun = Instant::now();
        let text = shell("sleep 600 & echo $!", Duration::from_secs(300)).unwrap();
        assert!(begun.elapsed() < LONG, "its child has the pipe open");
        ends(std::str::from_utf8(&text).unwrap());
    }

    #[test]
    fn too_much_is_not_read() {
        assert!(matches!(shell("exec cat /dev/zero", LONG), Err(Failure::TooMuch)));
        let most = shell(&format!("head -c {BYTES_MOST} /dev/zero"), LONG).unwrap();
        assert_eq!(most.len(), BYTES_MOST);
    }

    #[test]
    fn the_end_of_the_service_ends_it() {
        let begun = Instant::now();
        let failure = output(&["/bin/sleep".into(), "600".into()], Duration::from_secs(300), &AtomicBool::new(true));
        assert!(matches!(failure, Err(Failure::Stopped)) && begun.elapsed() < LONG);
    }
}

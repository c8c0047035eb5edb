// SPDX-License-Identifier: Apache-2.0
//! Commands that must end in time.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};

/// How often it is asked whether it has ended.
const LOOK: Duration = Duration::from_millis(10);
/// A command that was killed is gone after this, unless it is stuck in the kernel.
const KILLED: Duration = Duration::from_millis(200);

/// It had not ended by its deadline.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {} s", .0.as_secs_f64())]
pub struct Unanswered(Duration);

/// Those who were killed and did not end: to be reaped when they do.
static STUCK: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// Runs a command that must end in time. What it says of its errors goes to ours.
///
/// # Errors
/// It cannot be started, fails, or has not ended by then ([`Unanswered`]).
pub fn run(program: &Path, arguments: &[&str], deadline: Duration) -> Result<()> {
    stuck().retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("{}", program.display()))?;
    match ended(&mut child, deadline)? {
        Some(true) => Ok(()),
        Some(false) => bail!("it failed"),
        None => {
            // One that is stuck is not waited for: others are not to be.
            let _ = child.kill();
            if !matches!(ended(&mut child, KILLED), Ok(Some(_))) {
                stuck().push(child);
            }
            Err(Unanswered(deadline).into())
        }
    }
}

fn stuck() -> MutexGuard<'static, Vec<Child>> {
    STUCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has it ended well? `None` = not by then.
fn ended(child: &mut Child, deadline: Duration) -> Result<Option<bool>> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if begun.elapsed() > deadline {
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, deadline_ms: u64) -> Result<()> {
        run(Path::new("/bin/sh"), &["-c", script], Duration::from_millis(deadline_ms))
    }

    #[test]
    fn what_ends_in_time_and_what_does_not() {
        assert!(shell("exit 0", 10_000).is_ok());
        assert!(shell("exit 3", 10_000).is_err());
        let begun = Instant::now();
        let error = shell("exec sleep 30", 50).unwrap_err();
        let said = error.to_string();
        assert!(
            error.is::<Unanswered>() && said.contains("no answer") && begun.elapsed() < Duration::from_secs(20),
            "{said}"
        );
        assert!(run(Path::new("/nowhere/systemctl"), &[], Duration::from_secs(1)).is_err());
    }
}

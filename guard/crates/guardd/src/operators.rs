// SPDX-License-Identifier: Apache-2.0
//! The operators' socket: `beer drain`, `beer resume`, `beer freeze`. A thread of its own, so that an operator who is slow
//! holds up other operators only. Root and the service's group (`Group=beer`) may connect; who did is said by the kernel
//! (`SO_PEERCRED`), and goes into the journal.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use intf::order::{Answer, Order, FREEZE_SECONDS_MAX, LINE_BYTES, SOCKET};
use policy::Config;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::net::sockopt::socket_peercred;

use crate::actuators::{gone, replace};
use crate::clock::Clock;
use crate::passwd;
use crate::report::Message;
use crate::shared::Shared;

/// How long an operator may take to send his line or to take the answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it is looked whether the guard ends, which waits for that: the reporter writes until nobody can send it anything more.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 400_000_000 };

/// An order that was accepted, for the journal.
#[derive(Clone, Debug)]
pub struct Given {
    /// The order.
    pub order: Order,
    /// Who gave it.
    pub by: String,
    /// When (CLOCK_MONOTONIC).
    pub at_ns: u64,
}

/// Takes orders.
pub struct Operators {
    listener: UnixListener,
    drained: Drained,
    frozen: Frozen,
    dry_run: bool,
    passwd: PathBuf,
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
    outbox: SyncSender<Message>,
}

impl Operators {
    /// Listens. What an earlier guard was told holds from now on: that the node is drained, and that its jobs stand still for a time that
    /// is not over.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn new(
        config: &Config,
        clock: Arc<dyn Clock>,
        shared: Arc<Shared>,
        outbox: SyncSender<Message>,
    ) -> Result<Self> {
        let drained = Drained(config.paths.memory.join("drained"));
        shared.orders.drained.store(drained.is(), Ordering::Relaxed);
        let frozen = Frozen(config.paths.run.join(Frozen::FILE));
        if let Some(until_ns) = frozen.until_ns(clock.monotonic_ns()).filter(|_| !config.node.dry_run) {
            shared.orders.freeze_until_ns.store(until_ns, Ordering::Relaxed);
            eprintln!("<5>all jobs stand still: an order to an earlier guard holds ({})", frozen.0.display());
        }
        let listener = make(&config.paths.run.join(SOCKET))?;
        listener.set_nonblocking(true).context(SOCKET)?;
        let dry_run = config.node.dry_run;
        let passwd = PathBuf::from("/etc/passwd");
        Ok(Operators { listener, drained, frozen, dry_run, passwd, clock, shared, outbox })
    }

    /// Until the flag is up.
    pub fn run(&self, shutdown: &AtomicBool) {
        while !shutdown.load(Ordering::Relaxed) {
            let mut polled = [PollFd::new(&self.listener, PollFlags::IN)];
            if poll(&mut polled, Some(&LOOK)).is_ok_and(|ready| ready > 0) {
                if let Ok((stream, _)) = self.listener.accept() {
                    // Who does not hear the answer has hung up.
                    let _ = self.serve(&stream);
                }
            }
        }
    }

    fn serve(&self, stream: &UnixStream) -> Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let by = self.name(socket_peercred(stream)?.uid.as_raw());
        let line = line(stream)?;
        let answer = match Order::parse(line.trim_end()).and_then(|order| self.obey(order, by)) {
            Ok(said) => Answer { done: true, said },
            Err(said) => Answer { done: false, said },
        };
        let mut text = serde_json::to_string(&answer)?;
        text.push('\n');
        let mut stream = stream;
        Ok(stream.write_all(text.as_bytes())?)
    }

    fn obey(&self, order: Order, by: String) -> std::result::Result<String, String> {
        let orders = &self.shared.orders;
        let at_ns = self.clock.monotonic_ns();
        let said = match &order {
            Order::Drain { .. } => {
                // First it holds, and then it is kept.
                orders.drained.store(true, Ordering::Relaxed);
                match self.drained.set(true, &by, &order.why()) {
                    Ok(()) => Ok("no job starts here any more, until `beer resume`; those that run run on".to_owned()),
                    Err(error) => {
                        Err(format!("no new jobs until the guard restarts, but it cannot be kept: {error:#}"))
                    }
                }
            }
            Order::Resume { .. } => {
                // Whatever can be ended is.
                orders.freeze_until_ns.store(0, Ordering::Relaxed);
                orders.resumed.store(true, Ordering::Relaxed);
                let thawed = self.frozen.set(None);
                let opened = self.drained.set(false, &by, "");
                orders.drained.store(opened.is_err(), Ordering::Relaxed);
                let faults = [
                    opened.map_err(|error| format!("the node stays drained: {error:#}")),
                    thawed.map_err(|error| format!("jobs would stand still again if the guard restarted: {error:#}")),
                ];
                match faults.into_iter().filter_map(Result::err).collect::<Vec<_>>() {
                    none if none.is_empty() => {
                        Ok("jobs start again when all objectives have had slack for long enough".to_owned())
                    }
                    faults => Err(faults.join("; ")),
                }
            }
            Order::Freeze { .. } if self.dry_run => {
                return Err("this is a dry run (node.dry_run): nothing is frozen".into())
            }
            Order::Freeze { seconds, .. } => {
                let until_ns = at_ns.saturating_add(u64::from(*seconds) * 1_000_000_000);
                orders.freeze_until_ns.store(until_ns, Ordering::Relaxed);
                match self.frozen.set(Some(until_ns)) {
                    Ok(()) => Ok(format!("all jobs stand still for {seconds} s, or until `beer resume`")),
                    Err(error) => Err(format!(
                        "all jobs stand still for {seconds} s unless the guard restarts: it cannot be kept: {error:#}"
                    )),
                }
            }
        };
        if self.outbox.try_send(Message::Order(Given { order, by, at_ns })).is_err() {
            Shared::count(&self.shared.dropped);
        }
        said
    }

    /// A name, or the number where there is none.
    fn name(&self, uid: u32) -> String {
        passwd::name(&std::fs::read_to_string(&self.passwd).unwrap_or_default(), uid)
    }
}

/// What comes before the end of the line, or of the data. A timeout of each read alone would let one byte a second hold up
/// the next operator for an hour.
fn line(mut stream: &UnixStream) -> Result<String> {
    let until = Instant::now() + PATIENCE;
    let mut bytes = Vec::new();
    let mut buffer = [0; LINE_BYTES];
    while !bytes.contains(&b'\n') && bytes.len() < LINE_BYTES {
        let left = until.saturating_duration_since(Instant::now());
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match stream.read(&mut buffer)? {
            0 => break,
            count if left.is_zero() => bail!("{count} more bytes after {} s", PATIENCE.as_secs()),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
    bytes.truncate(bytes.iter().position(|byte| *byte == b'\n').unwrap_or(LINE_BYTES));
    Ok(String::from_utf8(bytes)?)
}

fn make(path: &Path) -> Result<UnixListener> {
    // What a guard left that was killed; that there is only one is known by now.
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path).with_context(|| format!("{}: cannot be made", path.display()))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))
        .with_context(|| path.display().to_string())?;
    Ok(listener)
}

/// A file that is there while the node is drained, with who did it and why.
struct Drained(PathBuf);

impl Drained {
    fn is(&self) -> bool {
        self.0.exists()
    }

    fn set(&self, on: bool, by: &str, why: &str) -> Result<()> {
        match on {
            true => std::fs::write(&self.0, format!("{by}: {why}\n")).with_context(|| self.0.display().to_string()),
            false => gone(&self.0),
        }
    }
}

/// A file in the run folder, which no boot survives, with the time until that all jobs stand still by order (CLOCK_MONOTONIC, ns).
struct Frozen(PathBuf);

impl Frozen {
    const FILE: &'static str = "ordered-freeze";

    /// `None` = there is no such order, or its time is over, or nobody can have given it.
    fn until_ns(&self, now_ns: u64) -> Option<u64> {
        let until_ns = std::fs::read_to_string(&self.0).ok()?.trim_end().parse().ok()?;
        let longest_ns = u64::from(FREEZE_SECONDS_MAX) * 1_000_000_000;
        (now_ns < until_ns && until_ns - now_ns <= longest_ns).then_some(until_ns)
    }

    fn set(&self, until_ns: Option<u64>) -> Result<()> {
        match until_ns {
            // At once: half of it would end the order before.
            Some(ns) => replace(&self.0, &format!("{ns}\n")),
            None => gone(&self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{sync_channel, Receiver};

    struct At;
    impl Clock for At {
        fn monotonic_ns(&self) -> u64 {
            7_000_000_000
        }
        fn realtime_ns(&self) -> u64 {
            1
        }
    }

    struct Rig {
        folder: tempfile::TempDir,
        operators: Operators,
        shared: Arc<Shared>,
        inbox: Receiver<Message>,
    }

    fn rig() -> Rig {
        let folder = tempfile::tempdir().unwrap();
        rig_in(folder)
    }

    fn rig_in(folder: tempfile::TempDir) -> Rig {
        let root = folder.path().display();
        let config = Config::parse("test", &format!("[paths]\nrun = \"{root}\"\nmemory = \"{root}\"\n")).unwrap();
        let shared = Arc::new(Shared::default());
        let (outbox, inbox) = sync_channel(8);
        let operators = Operators::new(&config, Arc::new(At), Arc::clone(&shared), outbox).unwrap();
        Rig { folder, operators, shared, inbox }
    }

    impl Rig {
        fn ask(&self, bytes: &[u8]) -> String {
            let mut client = UnixStream::connect(self.folder.path().join(SOCKET)).unwrap();
            client.write_all(bytes).unwrap();
            client.shutdown(std::net::Shutdown::Write).unwrap();
            let (served, _) = self.operators.listener.accept().unwrap();
            let _ = self.operators.serve(&served);
            drop(served);
            let mut text = String::new();
            client.read_to_string(&mut text).unwrap();
            text
        }

        fn done(&self, line: &str) -> bool {
            serde_json::from_str::<Answer>(&self.ask(line.as_bytes())).unwrap().done
        }
    }

    #[test]
    fn a_drain_outlives_the_guard_and_resume_ends_it() {
        let first = rig();
        assert!(!first.shared.orders.drained.load(Ordering::Relaxed));
        assert!(first.done("{\"do\":\"drain\",\"why\":\"disk replacement\"}\n"));
        assert!(first.shared.orders.drained.load(Ordering::Relaxed));
        let Ok(Message::Order(given)) = first.inbox.try_recv() else { panic!("nothing was told") };
        let uid = rustix::process::getuid().as_raw();
        assert_eq!((given.by == "root", given.order.name(), given.at_ns), (uid == 0, "drain", 7_000_000_000));
        // The guard is killed, and another one begins.
        let Rig { folder, operators, .. } = first;
        drop(operators);
        let next = rig_in(folder);
        assert!(next.shared.orders.drained.load(Ordering::Relaxed));
        assert!(next.done("{\"do\":\"resume\"}\n") && next.done("{\"do\":\"resume\"}\n"));
        assert!(!next.shared.orders.drained.load(Ordering::Relaxed));
        assert!(!rig_in(next.folder).shared.orders.drained.load(Ordering::Relaxed));
    }

    #[test]
    fn a_freeze_is_until_a_time_and_resume_ends_it_too() {
        let rig = rig();
        assert!(rig.done("{\"do\":\"freeze\",\"seconds\":300}\n"));
        assert_eq!(rig.shared.orders.freeze_until_ns.load(Ordering::Relaxed), 307_000_000_000);
        assert!(rig.done("{\"do\":\"resume\"}\n"));
        assert_eq!(rig.shared.orders.freeze_until_ns.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_freeze_outlives_the_guard_until_its_time_is_over() {
        let first = rig();
        assert!(first.done("{\"do\":\"freeze\",\"seconds\":300}\n"));
        let Rig { folder, operators, .. } = first;
        let file = folder.path().join(Frozen::FILE);
        drop(operators);
        let next = rig_in(folder);
        let until = |rig: &Rig| rig.shared.orders.freeze_until_ns.load(Ordering::Relaxed);
        assert_eq!(until(&next), 307_000_000_000);
        assert!(next.done("{\"do\":\"resume\"}\n") && !file.exists());
        let mut folder = next.folder;
        for (text, expected) in
            [("7000000000\n", 0), ("soon\n", 0), ("9000000000000000\n", 0), ("7000000001\n", 7_000_000_001)]
        {
            std::fs::write(&file, text).unwrap();
            let rig = rig_in(folder);
            assert_eq!(until(&rig), expected, "{text}");
            folder = rig.folder;
        }
    }

    #[test]
    fn who_cannot_end_the_drain_ends_the_freeze_and_the_emergency_all_the_same() {
        let Rig { mut operators, shared, folder, .. } = rig();
        operators.drained = Drained(folder.path().join("drained"));
        std::fs::create_dir(&operators.drained.0).unwrap();
        operators.obey(Order::Freeze { seconds: 300, why: String::new() }, "root".into()).unwrap();
        let said = operators.obey(Order::Resume { why: String::new() }, "root".into()).unwrap_err();
        assert!(said.contains("stays drained"), "{said}");
        assert_eq!(shared.orders.freeze_until_ns.load(Ordering::Relaxed), 0);
        assert!(shared.orders.resumed.load(Ordering::Relaxed));
    }

    #[test]
    fn what_is_no_order_changes_nothing_and_is_answered() {
        let rig = rig();
        for line in [&b"\n"[..], b"drain\n", b"{\"do\":\"freeze\",\"seconds\":999999}\n", b"{\"do\":\"drain\""] {
            let answer: Answer = serde_json::from_str(&rig.ask(line)).unwrap();
            assert!(!answer.done && !answer.said.is_empty());
        }
        // Neither text nor an end: hung up.
        assert_eq!(rig.ask(&[0xff; 10]), "");
        assert!(serde_json::from_str::<Answer>(&rig.ask(&[b'x'; LINE_BYTES])).is_ok_and(|answer| !answer.done));
        assert!(rig.inbox.try_recv().is_err() && !rig.shared.orders.drained.load(Ordering::Relaxed));
    }

    #[test]
    fn a_drain_that_cannot_be_kept_is_said_and_holds_all_the_same() {
        let rig = rig();
        let Rig { mut operators, shared, inbox, .. } = rig;
        operators.drained = Drained("/nowhere/drained".into());
        let said = operators.obey(Order::Drain { why: String::new() }, "root".into()).unwrap_err();
        assert!(said.contains("/nowhere/drained") && shared.orders.drained.load(Ordering::Relaxed), "{said}");
        assert!(matches!(inbox.try_recv(), Ok(Message::Order(_))), "it holds, so it is journalled");
        let said = operators.obey(Order::Resume { why: String::new() }, "root".into());
        assert!(said.is_ok(), "what is not there need not be removed");
    }

    #[test]
    fn who_sends_a_byte_now_and_then_does_not_hold_up_the_next_one() {
        let rig = rig();
        let mut slow = UnixStream::connect(rig.folder.path().join(SOCKET)).unwrap();
        let (served, _) = rig.operators.listener.accept().unwrap();
        let sender = std::thread::spawn(move || {
            while slow.write_all(b" ").is_ok() {
                std::thread::sleep(PATIENCE / 5);
            }
        });
        let begun = Instant::now();
        assert!(rig.operators.serve(&served).is_err());
        assert!(begun.elapsed() >= PATIENCE && begun.elapsed() < 10 * PATIENCE);
        drop(served);
        sender.join().unwrap();
    }
}

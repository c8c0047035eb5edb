// SPDX-License-Identifier: Apache-2.0
//! Decisions and effects become one record each.

use std::sync::mpsc::sync_channel;

use intf::journal::Record;
use policy::Cause;

use super::*;
use crate::actuators::FreezeError;

/// A moment after everything that happens here.
struct At;
impl Clock for At {
    fn monotonic_ns(&self) -> u64 {
        1_000_000_000
    }
    fn realtime_ns(&self) -> u64 {
        1_795_173_354_000_000_000
    }
}

struct Rig {
    folders: tempfile::TempDir,
    reporter: Reporter,
    shared: Arc<Shared>,
}

impl Rig {
    fn new() -> Self {
        Rig::with("")
    }

    fn with(more: &str) -> Self {
        let folders = tempfile::tempdir().unwrap();
        let path = |name: &str| folders.path().join(name);
        std::fs::create_dir(path("journal")).unwrap();
        let root = folders.path().display();
        let text = format!(
            "[paths]\ncgroup = \"{root}\"\njobs_slice = \"jobs.slice\"\n[journal]\nfolder = \"{root}/journal\"\n{more}"
        );
        let config = Config::parse("test", &text).unwrap();
        let shared = Arc::new(Shared::default());
        let reporter = Reporter::new(&config, Arc::new(At), Arc::clone(&shared), Owner::new("0"));
        Rig { folders, reporter, shared }
    }

    /// Everything that the messages make of the journal.
    fn journal(mut self, messages: Vec<Message>) -> (Vec<Record>, Arc<Shared>) {
        let (outbox, inbox) = sync_channel(QUEUE);
        for message in messages {
            outbox.send(message).unwrap();
        }
        drop(outbox);
        self.reporter.run(&inbox);
        let text =
            std::fs::read_to_string(self.folders.path().join("journal/guard-0000000001.jsonl")).unwrap_or_default();
        (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), self.shared)
    }
}

fn event(at_ns: u64, deed: Deed) -> Event {
    Event {
        at_ns,
        from: NodeState::Open,
        to: NodeState::Frozen,
        cause: Cause::StrongEvidence,
        deed,
        precaution: false,
        hold: Hold::All,
        objective: None,
        gauge: None,
        series: None,
        filesystem: None,
        measure: None,
        taker: None,
        lasted_ns: None,
    }
}

fn jobs(names: &[Option<&str>]) -> Message {
    Message::Jobs(names.iter().map(|name| name.map(Into::into)).collect())
}

fn scopes(record: &Record) -> Vec<&str> {
    record.jobs.iter().map(|job| job.scope.as_str()).collect()
}

fn effect(decided_ns: u64, seen: Result<bool, FreezeError>) -> Message {
    Message::Effect(Effect {
        hold: Hold::All,
        decided_ns,
        written_ns: decided_ns + 40_000,
        ended_ns: decided_ns + 3_000_000,
        seen,
    })
}

#[test]
fn a_freeze_waits_for_its_effect_and_names_the_jobs() {
    let messages = vec![
        jobs(&[Some("docker-0a.scope"), None, Some("docker-0b.scope")]),
        Message::Decision { event: event(1, Deed::Freeze), written: true },
        Message::Decision { event: event(2, Deed::Close), written: false },
        effect(1, Ok(true)),
    ];
    let (journal, shared) = Rig::new().journal(messages);
    let [closed, frozen] = &journal[..] else { panic!("{journal:?}") };
    assert_eq!((closed.action.as_str(), closed.outcome), ("close", Outcome::Done));
    assert_eq!((frozen.action.as_str(), frozen.outcome, frozen.duration_ns), ("freeze", Outcome::Done, 3_000_000));
    assert_eq!((scopes(frozen), frozen.jobs_of), (vec!["docker-0a.scope", "docker-0b.scope"], 2));
    assert!(frozen.detail.contains("within 40 us"), "{}", frozen.detail);
    assert_eq!(lock(&shared.actions).len(), 2);
    assert_eq!(lock(&shared.recent).len(), 2);
}

#[test]
fn of_the_guilty_alone_only_they_are_named() {
    let hold = Hold::Jobs([2].into_iter().collect());
    let messages = vec![
        jobs(&[Some("docker-0a.scope"), None, Some("docker-0b.scope")]),
        Message::Decision { event: Event { hold, cause: Cause::Guilty, ..event(1, Deed::Narrow) }, written: true },
        effect(1, Ok(true)),
    ];
    let (journal, _) = Rig::new().journal(messages);
    assert_eq!((scopes(&journal[0]), journal[0].jobs_of), (vec!["docker-0b.scope"], 2));
    let sentence = journal[0].sentence();
    assert!(sentence.contains("were thawed because one job does most of what"), "{sentence}");
}

#[test]
fn nothing_of_a_dry_run_is_done() {
    let decision = Message::Decision { event: event(5, Deed::Freeze), written: false };
    let (records, _) = Rig::with("[node]\ndry_run = true\n").journal(vec![decision]);
    assert_eq!((records.len(), records[0].outcome, records[0].detail.as_str()), (1, Outcome::Skipped, "dry run"));
    assert!(records[0].sentence().starts_with("Dry run: Batch was frozen because "));
}

#[test]
fn failures_say_why() {
    let (journal, _) = Rig::new().journal(vec![
        Message::Decision { event: event(1, Deed::Freeze), written: true },
        effect(1, Err(FreezeError::Missing)),
        Message::Decision { event: event(5, Deed::Freeze), written: true },
        effect(5, Ok(false)),
    ]);
    assert!(journal.iter().all(|record| record.outcome == Outcome::Failed), "{journal:?}");
    assert!(journal[0].detail.contains("jobs.slice: the slice is missing"), "{}", journal[0].detail);
    assert_eq!(journal[1].detail, "no effect within 10 s");
}

#[test]
fn a_newer_decision_leaves_the_older_one_unconfirmed() {
    let (journal, _) = Rig::new().journal(vec![
        Message::Decision { event: event(1, Deed::Freeze), written: true },
        Message::Decision { event: event(2, Deed::Thaw), written: true },
        effect(2, Ok(true)),
    ]);
    let outcomes: Vec<_> = journal.iter().map(|record| (record.action.as_str(), record.outcome)).collect();
    assert_eq!(outcomes, [("freeze", Outcome::Pending), ("thaw", Outcome::Done)]);
}

#[test]
fn two_decisions_of_one_tick_have_one_effect_and_who_rests_is_served_slowly() {
    let (journal, _) = Rig::new().journal(vec![
        Message::Decision { event: event(1, Deed::Thaw), written: true },
        Message::Decision { event: event(1, Deed::GoOn), written: true },
        effect(1, Ok(true)),
        jobs(&[Some("docker-0a.scope"), None]),
        Message::Decision { event: event(2, Deed::Rest), written: true },
        effect(2, Ok(false)),
        Message::Decision { event: event(3, Deed::Freeze), written: true },
        effect(3, Ok(false)),
        // He has ended.
        jobs(&[None, Some("docker-0b.scope")]),
        Message::Decision { event: event(4, Deed::Freeze), written: true },
        effect(4, Ok(false)),
    ]);
    let told: Vec<_> = journal.iter().map(|record| (record.action.as_str(), record.outcome)).collect();
    let done = |action| (action, Outcome::Done);
    assert_eq!(told[..4], [done("go_on"), done("thaw"), done("rest"), done("freeze")]);
    assert_eq!(told[4], ("freeze", Outcome::Failed));
    assert_eq!(journal[0].detail, "in the same write as `thaw`");
    assert!(journal[2].detail.ends_with("what those who rest wait for takes longer"), "{}", journal[2].detail);
}

#[test]
fn what_needed_no_write_is_done_and_what_nobody_decided_is_told() {
    let (journal, _) = Rig::new().journal(vec![
        Message::Decision { event: event(1, Deed::Thaw), written: false },
        effect(7, Ok(true)),
        effect(2 * BEGINS_NS, Ok(true)),
        Message::Stopping,
        effect(3 * BEGINS_NS, Ok(true)),
    ]);
    let causes: Vec<_> = journal.iter().map(|record| (record.cause.as_str(), record.outcome)).collect();
    assert_eq!(
        causes,
        [
            ("strong_evidence", Outcome::Done),
            ("start", Outcome::Done),
            ("somebody_else_had_changed_it", Outcome::Done),
            ("the_guard_stops", Outcome::Done)
        ]
    );
}

#[test]
fn faults_of_signals_are_kept_until_they_are_good() {
    let mut rig = Rig::new();
    let fault = |text: Option<&str>, reading| Message::Signal { name: "psi", reading, fault: text.map(Into::into) };
    rig.reporter.receive(fault(Some("broken"), Reading::Broken));
    assert_eq!(*lock(&rig.shared.faults), [("psi", "broken".to_owned())]);
    rig.reporter.receive(fault(None, Reading::Value));
    assert!(lock(&rig.shared.faults).is_empty());
}

#[test]
fn a_refused_journal_is_counted_and_the_rest_goes_on() {
    let rig = Rig::new();
    std::fs::remove_dir(rig.folders.path().join("journal")).unwrap();
    let (journal, shared) = rig.journal(vec![Message::Decision { event: event(1, Deed::Close), written: false }]);
    assert!(journal.is_empty());
    assert_eq!(shared.journal_errors.load(Ordering::Relaxed), 1);
    assert_eq!(lock(&shared.recent).len(), 1);
}

#[test]
fn limits_are_told_in_numbers_and_what_failed_with_its_reason() {
    use crate::actuators::io_max::{Limit, Outcome as Made};
    let limit =
        |scope: &str| Limit { scope: scope.into(), device: (4095, 7), requests: 40, bytes: 2_500_000, reads: 50 };
    let made = |scope: &str, limits, seen| Made { scope: scope.into(), limits, seen };
    let limited = |outcomes| Message::Limited(crate::worker::Limited { decided_ns: 1, ended_ns: 5_000_001, outcomes });
    let allowance = intf::shaping::Allowance { device: (4095, 8), bytes: 1_000_000, operations: 9 };
    let (journal, _) = Rig::new().journal(vec![
        jobs(&[Some("a.scope"), Some("b.scope")]),
        limited(vec![made("a.scope", vec![limit("a.scope")], Ok(())), made("b.scope", vec![], Ok(()))]),
        limited(vec![made("a.scope", vec![limit("a.scope")], Err(anyhow::anyhow!("systemctl: no answer")))]),
        Message::Slowed { allowance, decided_ns: 7 },
    ]);
    let sentences: Vec<_> = journal.iter().map(Record::sentence).collect();
    let slow = "because they made storage slow.";
    assert_eq!(
        sentences,
        [
            format!("Jobs may do no more than 40 requests/s and 2.5 MB/s of 4095:7 {slow}"),
            "Jobs have no limit on their disk any more because those who were limited have ended, or have had no need of more for long."
                .to_owned(),
            format!("Jobs could not be limited {slow}"),
            format!("Jobs may do no more than 9 requests/s and 1.0 MB/s of 4095:8 through the storage daemons {slow}"),
        ]
    );
    assert_eq!((scopes(&journal[0]), scopes(&journal[1])), (vec!["a.scope"], vec!["b.scope"]));
    assert_eq!((journal[0].duration_ns, journal[0].jobs_of), (5_000_000, 2));
    assert_eq!((journal[2].outcome, journal[2].detail.as_str()), (Outcome::Failed, "systemctl: no answer"));
}

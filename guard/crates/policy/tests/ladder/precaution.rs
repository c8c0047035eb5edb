// SPDX-License-Identifier: Apache-2.0
use crate::steps::{Steps, MS, S, TICK};
use intf::segment::{Kind, SeriesId};
use intf::state::NodeState;
use policy::event::{Measure, Unit};
use policy::{Cause, Deed, Level};

#[test]
fn weak_evidence_freezes_for_a_second_at_most() {
    let mut steps = Steps::open();
    steps.level(Level::Weak);
    steps.step();
    assert_eq!(steps.state(), NodeState::Frozen);
    assert!(steps.actions().precaution && steps.actions().admit, "HTCondor need not hear of it");
    assert!(steps.ladder.acting(), "what a precaution cuts short is no lesson");
    assert_eq!(steps.until_left(2 * S), S);
    assert_eq!(steps.state(), NodeState::Open, "back where it came from");
    // Once for an excursion: the same evidence does not freeze again.
    steps.run(10 * S);
    assert_eq!(steps.state(), NodeState::Open);
    assert_eq!(steps.said(), [(Cause::WeakEvidence, Deed::Freeze), (Cause::PrecautionOver, Deed::Thaw)]);
    assert!(steps.events.iter().all(|e| e.precaution));
    steps.level(Level::Calm);
    steps.step();
    steps.level(Level::Weak);
    steps.step();
    assert!(steps.actions().precaution);
    let counters = steps.ladder.counters();
    assert_eq!((counters.precautions, counters.needless, counters.freezes), (2, 1, 0));
    assert_eq!(counters.needless_ns, S);
}

#[test]
fn calm_ends_it_early() {
    let mut steps = Steps::open();
    steps.level(Level::Weak);
    steps.run(2 * TICK);
    steps.level(Level::Calm);
    steps.step();
    assert_eq!(steps.state(), NodeState::Open);
    assert_eq!(steps.said()[1], (Cause::Calm, Deed::Thaw));
}

#[test]
fn strong_evidence_extends_it() {
    let mut steps = Steps::open();
    steps.level(Level::Weak);
    steps.run(3 * TICK);
    steps.level(Level::Strong);
    steps.step();
    assert_eq!(steps.state(), NodeState::Frozen);
    assert!(!steps.actions().precaution && !steps.actions().admit);
    steps.run(5 * S);
    assert_eq!(steps.state(), NodeState::Frozen);
    assert_eq!(steps.said(), [(Cause::WeakEvidence, Deed::Freeze), (Cause::StrongEvidence, Deed::Extend)]);
    let counters = steps.ladder.counters();
    assert_eq!((counters.precautions, counters.needless, counters.freezes), (1, 0, 1));
}

#[test]
fn evidence_that_returns_as_soon_as_batch_runs_is_strong() {
    for (pause, precaution) in [(4900 * MS, false), (5100 * MS, true)] {
        let mut steps = Steps::open();
        steps.level(Level::Weak);
        steps.run(2 * TICK);
        steps.level(Level::Calm);
        steps.run(pause);
        steps.level(Level::Weak);
        steps.step();
        assert_eq!((steps.state(), steps.actions().precaution), (NodeState::Frozen, precaution));
        let cause = if precaution { Cause::WeakEvidence } else { Cause::EvidenceReturned };
        assert_eq!(steps.said().last(), Some(&(cause, Deed::Freeze)));
        assert_eq!(steps.ladder.counters().needless, u64::from(precaution), "what helped was not needless");
    }
}

#[test]
fn it_returns_on_whichever_disk() {
    let mut steps = Steps::open();
    steps.verdicts[0].worst = Some(SeriesId { filesystem: 0, kind: Kind::STORAGE_READ });
    steps.level(Level::Weak);
    steps.run(2 * TICK);
    steps.level(Level::Calm);
    steps.step();
    steps.verdicts[0].worst = Some(SeriesId { filesystem: 1, kind: Kind::STORAGE_READ });
    steps.level(Level::Weak);
    steps.step();
    assert!(steps.actions().hold.any() && !steps.actions().precaution, "a hog that attacks disks in turn");
}

#[test]
fn in_the_closed_state_it_returns_to_closed() {
    let mut steps = Steps::new();
    steps.step();
    steps.level(Level::Weak);
    steps.step();
    assert!(steps.actions().hold.any() && !steps.actions().admit);
    steps.until_left(S);
    assert_eq!(steps.state(), NodeState::Closed);
}

#[test]
fn when_needless_ones_cost_too_much_they_are_suspended_for_as_long_as_they_do() {
    let mut steps = Steps::open();
    let mut frozen = 0;
    // An excursion every eight seconds; the budget of an hour is 3.6 s.
    for _ in 0..100 {
        for (level, time) in [(Level::Weak, 200 * MS), (Level::Calm, 7800 * MS)] {
            steps.level(level);
            for _ in 0..time / TICK {
                frozen += u64::from(steps.step().hold.any()) * TICK;
            }
        }
    }
    assert!(frozen > 3600 * MS && frozen <= 3600 * MS + 200 * MS, "{frozen}");
    assert!(steps.ladder.counters().weak_suspended);
    assert_eq!(steps.said().iter().filter(|s| s.0 == Cause::WeakSuspended).count(), 1);
    // Strong evidence is not.
    steps.level(Level::Strong);
    steps.step();
    assert!(steps.actions().hold.any());
    steps.level(Level::Calm);
    steps.run(3601 * S);
    assert!(!steps.ladder.counters().weak_suspended);
    assert_eq!(steps.said().last(), Some(&(Cause::WeakResumed, Deed::None)));
    steps.level(Level::Weak);
    steps.step();
    assert!(steps.actions().precaution);
}

/// Weak evidence of so many nats, at 84 requests/s, on a disk that batch uses: one step of it.
fn weak(value: f64) -> Steps {
    let mut steps = Steps::open();
    steps.verdicts[0].worst = Some(SeriesId { filesystem: 0, kind: Kind::STORAGE_READ });
    steps.verdicts[0].measure = Measure { value, limit: 11.2, unit: Unit::Nats };
    steps.verdicts[0].rate = 84.0;
    steps.batch_share_now = [0.5, 0.0];
    steps.level(Level::Weak);
    steps.step();
    steps
}

#[test]
fn weak_evidence_on_a_disk_that_batch_uses_is_enough_unless_it_is_of_the_weakest() {
    // 84 requests/s are exp(15.8) in a day.
    for (value, real, after) in [(15.7, false, NodeState::Open), (15.9, true, NodeState::Frozen)] {
        let mut steps = weak(value);
        assert_eq!((steps.state(), steps.actions().precaution), (NodeState::Frozen, !real), "{value}");
        steps.run(2 * S);
        assert_eq!(steps.state(), after, "a precaution ends by itself");
    }
    // Evidence that grows meanwhile is enough.
    let mut steps = weak(15.7);
    steps.step();
    steps.verdicts[0].measure.value = 15.9;
    steps.step();
    assert_eq!(steps.said().last(), Some(&(Cause::BatchUsesDisk, Deed::Extend)));
    for (share, real) in [([0.19, 1.0], false), ([0.2, 0.0], true), ([f32::NAN; 2], false)] {
        let mut steps = Steps::open();
        steps.verdicts[0].worst = Some(SeriesId { filesystem: 0, kind: Kind::STORAGE_READ });
        steps.batch_share_now = share;
        steps.level(Level::Weak);
        steps.step();
        assert_eq!((steps.state(), steps.actions().precaution), (NodeState::Frozen, !real), "{share:?}");
    }
    // It is known a moment later only: the disk is looked at when there is evidence.
    let mut steps = Steps::open();
    steps.verdicts[0].worst = Some(SeriesId { filesystem: 1, kind: Kind::STORAGE_READ });
    steps.level(Level::Weak);
    steps.run(2 * TICK);
    steps.batch_share_now = [0.0, 0.6];
    steps.step();
    assert!(steps.actions().hold.any() && !steps.actions().precaution);
    assert_eq!(steps.said(), [(Cause::WeakEvidence, Deed::Freeze), (Cause::BatchUsesDisk, Deed::Extend)]);
}

#[test]
fn weak_evidence_says_little_of_batch_that_does_what_it_does_all_the_time() {
    for (share, real) in [(0.4, false), (0.7, true)] {
        let mut steps = Steps::open();
        steps.verdicts[0].worst = Some(SeriesId { filesystem: 0, kind: Kind::STORAGE_READ });
        steps.batch_share_now = [0.4, 0.0];
        steps.filesystems[0].storage_in_flight = 2;
        steps.run(300 * S);
        steps.batch_share_now[0] = share;
        steps.level(Level::Weak);
        steps.step();
        assert_eq!((steps.state(), steps.actions().precaution), (NodeState::Frozen, !real), "{share}");
        // What comes back after a precaution was its doing, and so is what is strong.
        steps.level(Level::Calm);
        steps.run(S);
        steps.level(if real { Level::Calm } else { Level::Weak });
        steps.run(2 * TICK);
        assert_eq!((steps.state(), steps.actions().precaution), (NodeState::Frozen, false), "{share}");
    }
}

#[test]
fn a_precaution_that_did_not_help_is_not_a_reason_for_the_next_freeze() {
    let mut steps = Steps::open();
    steps.level(Level::Weak);
    steps.step();
    steps.until_left(2 * S);
    assert_eq!(steps.said().last(), Some(&(Cause::PrecautionOver, Deed::Thaw)));
    steps.level(Level::Calm);
    steps.step();
    steps.level(Level::Weak);
    steps.step();
    assert!(steps.actions().precaution, "it stayed slow without batch");
}

#[test]
fn a_loop_that_was_held_up_does_not_take_late_evidence_for_evidence_that_returned() {
    let mut steps = Steps::open();
    steps.level(Level::Weak);
    steps.step();
    steps.level(Level::Calm);
    steps.step();
    steps.now += 6 * S;
    steps.level(Level::Weak);
    steps.step();
    assert!(steps.actions().precaution);
}

// SPDX-License-Identifier: Apache-2.0
//! What operators ask for.
use crate::steps::{Steps, MS, S, TICK};
use intf::segment::{Kind, SeriesId};
use intf::state::NodeState;
use policy::{Cause, Deed, Hold, Level};

#[test]
fn a_freeze_by_order_lasts_as_long_as_it_is_asked_for() {
    let mut steps = Steps::open();
    steps.ordered = true;
    steps.step();
    assert_eq!((steps.state(), steps.actions().hold), (NodeState::Frozen, Hold::All));
    assert_eq!(steps.said(), [(Cause::Ordered, Deed::Freeze)]);
    assert!(!steps.actions().admit);
    // Longer than any freeze on evidence, calm or not.
    steps.run(600 * S);
    assert_eq!(steps.state(), NodeState::Frozen);
    steps.ordered = false;
    steps.step();
    assert_eq!((steps.state(), steps.actions().hold), (NodeState::Closed, Hold::Nobody));
    assert_eq!(steps.said()[1..], [(Cause::OrderOver, Deed::Thaw)]);
    steps.run(3 * S);
    assert_eq!(steps.state(), NodeState::Open);
}

#[test]
fn it_takes_over_what_is_frozen_on_evidence() {
    for (level, deed) in [(Level::Weak, Deed::Extend), (Level::Strong, Deed::Widen)] {
        let mut steps = Steps::open();
        steps.level(level);
        steps.verdicts[0].worst = Some(SeriesId { filesystem: 0, kind: Kind::STORAGE_READ });
        steps.step();
        steps.guilty[0] = Some([1].into_iter().collect());
        steps.batch_share_now[0] = if level == Level::Strong { 0.5 } else { 0.0 };
        steps.step();
        steps.ordered = true;
        steps.step();
        assert_eq!(steps.said().last(), Some(&(Cause::Ordered, deed)));
        steps.level(Level::Calm);
        steps.run(200 * S);
        assert_eq!((steps.state(), steps.actions().hold), (NodeState::Frozen, Hold::All));
        assert!(!steps.actions().precaution);
        steps.ordered = false;
        steps.step();
        // Whoever was found guilty before stays limited.
        let after = if level == Level::Strong { NodeState::Throttled } else { NodeState::Closed };
        assert_eq!(steps.state(), after);
    }
}

#[test]
fn what_is_slow_when_it_ends_is_judged_afresh() {
    let mut steps = Steps::open();
    steps.ordered = true;
    steps.run(100 * S);
    steps.level(Level::Strong);
    steps.run(100 * S);
    steps.ordered = false;
    steps.run(2 * TICK);
    assert_eq!(steps.said().last(), Some(&(Cause::StrongEvidence, Deed::Freeze)));
}

#[test]
fn a_node_without_jobs_is_frozen_too_so_that_none_begins() {
    let mut steps = Steps::open();
    (steps.jobs, steps.ordered) = (Some(0), true);
    steps.run(100 * MS);
    assert_eq!(steps.actions().hold, Hold::All);
}

#[test]
fn a_drained_node_lets_nothing_start_and_what_runs_run_on() {
    let mut steps = Steps::open();
    steps.drained = true;
    steps.run(600 * S);
    assert_eq!((steps.state(), steps.actions().hold), (NodeState::Closed, Hold::Nobody));
    assert_eq!((steps.actions().reason, steps.actions().admit), (Cause::Drained, false));
    steps.drained = false;
    steps.run(3 * S);
    assert!(steps.actions().admit);
}

// SPDX-License-Identifier: Apache-2.0
//! After a freeze jobs run again one after the other, the oldest first.
use crate::steps::{jobs, Steps, MS, S};
use intf::state::NodeState;
use policy::{Cause, Deed, Hold, Level};

/// Three jobs, all frozen, and calm until they are thawed.
fn thawed() -> Steps {
    let mut steps = Steps::open();
    steps.level(Level::Strong);
    steps.run(S);
    assert_eq!(steps.actions().hold, Hold::All);
    steps.level(Level::Calm);
    steps.until_left(60 * S);
    steps
}

#[test]
fn the_oldest_first_and_then_the_next() {
    let mut steps = thawed();
    assert_eq!(steps.said().last(), Some(&(Cause::Calm, Deed::Thaw)));
    assert_eq!((steps.actions().hold, steps.actions().thawing), (Hold::Jobs(jobs(&[1, 2])), true));
    steps.run(990 * MS);
    assert_eq!(steps.actions().hold, Hold::Jobs(jobs(&[1, 2])));
    steps.step();
    assert_eq!(steps.actions().hold, Hold::Jobs(jobs(&[2])));
    let event = steps.events.last().unwrap();
    assert_eq!((event.deed, event.hold, event.to), (Deed::Stage, Hold::Jobs(jobs(&[1])), NodeState::Closed));
    steps.run(S);
    assert_eq!((steps.actions().hold, steps.actions().thawing), (Hold::Nobody, false));
    assert_eq!(steps.said().iter().filter(|(_, deed)| *deed == Deed::Stage).count(), 2);
}

#[test]
fn evidence_in_between_freezes_all_of_them() {
    let mut steps = thawed();
    steps.level(Level::Strong);
    steps.step();
    assert_eq!((steps.state(), steps.actions().hold, steps.actions().thawing), (NodeState::Frozen, Hold::All, false));
    steps.run(3 * S);
    assert_eq!(steps.actions().hold, Hold::All, "nobody's turn comes meanwhile");
}

#[test]
fn the_innocent_do_not_wait() {
    let mut steps = Steps::open();
    steps.level(Level::Strong);
    steps.step();
    steps.until_left(120 * S);
    assert_eq!(steps.said().last(), Some(&(Cause::BatchInnocent, Deed::Thaw)));
    assert_eq!((steps.actions().hold, steps.actions().thawing), (Hold::Nobody, false));
}

#[test]
fn a_precaution_ends_for_all_at_once() {
    let mut steps = Steps::open();
    steps.level(Level::Weak);
    steps.step();
    steps.level(Level::Calm);
    steps.until_left(2 * S);
    assert_eq!((steps.actions().hold, steps.actions().thawing), (Hold::Nobody, false));
}

// SPDX-License-Identifier: Apache-2.0
//! A dry run: it is said what would be done, and nothing is concluded from what comes of it.
use crate::steps::{config, Steps, S, TICK};
use intf::segment::{Kind, SeriesId};
use intf::state::NodeState;
use policy::{Cause, Deed, GaugeState, Hold, JobSet, Ladder, LadderConfig, Level, Then};

fn dry() -> Steps {
    let mut steps = Steps::with(Ladder::new(LadderConfig { dry_run: true, ..config() }, 1000 * S));
    steps.run(3 * S);
    steps.events.clear();
    steps
}

fn slow(steps: &mut Steps) {
    steps.level(Level::Strong);
    steps.verdicts[0].worst = Some(SeriesId { filesystem: 0, kind: Kind::STORAGE_READ });
    (steps.guilty[0], steps.batch_share_now[0]) = (Some([1].into_iter().collect::<JobSet>()), 0.5);
}

#[test]
fn it_says_when_and_whom_and_finds_nobody_innocent() {
    let mut steps = dry();
    slow(&mut steps);
    steps.run(60 * S);
    assert_eq!(steps.said(), [(Cause::StrongEvidence, Deed::Freeze), (Cause::Guilty, Deed::Narrow)]);
    assert!(steps.actions().throttles.is_empty());
    steps.level(Level::Calm);
    steps.run(3 * S);
    assert_eq!(steps.said().get(2), Some(&(Cause::Calm, Deed::Thaw)));
    assert!(matches!(steps.state(), NodeState::Open | NodeState::Closed));
}

#[test]
fn evidence_without_an_end_is_said_once_in_a_while() {
    let mut steps = dry();
    slow(&mut steps);
    steps.run(600 * S);
    let freezes = steps.said().iter().filter(|said| said.1 == Deed::Freeze).count();
    assert!((2..=4).contains(&freezes), "{:?}", steps.said());
}

#[test]
fn nobody_is_to_leave() {
    for then in [Then::Vacate, Then::Emergency] {
        let mut steps = dry();
        (steps.gauges[0].state, steps.gauges[0].then) = (GaugeState::Broken, then);
        steps.run(30 * S + TICK);
        assert_eq!((steps.state(), steps.actions().leave), (NodeState::Closed, Hold::Nobody));
    }
}

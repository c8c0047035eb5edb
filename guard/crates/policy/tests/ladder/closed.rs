// SPDX-License-Identifier: Apache-2.0
use crate::steps::{Steps, S, TICK};
use intf::state::NodeState;
use policy::event::Unit;
use policy::{Cause, Deed, GaugeState, Level, Measure, Resource, SignalState};

#[test]
fn it_starts_closed_and_opens_after_the_dwell_time_not_one_tick_early() {
    let mut steps = Steps::new();
    steps.run(2 * S);
    assert_eq!(steps.state(), NodeState::Closed);
    assert!(!steps.actions().admit);
    steps.step();
    assert_eq!(steps.state(), NodeState::Open);
    assert!(steps.actions().admit && !steps.actions().hold.any());
    assert_eq!(steps.said(), [(Cause::Slack, Deed::Open)]);
}

const BURNING: Option<Measure> = Some(Measure { value: 7.5, limit: 6.0, unit: Unit::Count });

/// What happens, and the cause that it gives.
type Case = (Cause, fn(&mut Steps));

#[test]
fn whatever_speaks_against_new_jobs_closes_at_once_and_never_freezes() {
    let cases: [Case; 6] = [
        (Cause::SignalMissing, |s| s.verdicts[1].signal = SignalState::Missing),
        (Cause::SignalStale, |s| s.verdicts[1].signal = SignalState::Stale),
        (Cause::SelfCheck, |s| s.self_check = false),
        (Cause::Drained, |s| s.drained = true),
        (Cause::SlowBurn, |s| s.verdicts[0].slack = -0.01),
        (Cause::Budget, |s| s.verdicts[1].burning = BURNING),
    ];
    for (cause, happen) in cases {
        let mut steps = Steps::open();
        happen(&mut steps);
        steps.step();
        assert_eq!(steps.state(), NodeState::Closed, "{cause:?}");
        assert_eq!(steps.said(), [(cause, Deed::Close)]);
        steps.run(300 * S);
        // Who does not hear storage for long leaves batch its least (squeeze.rs).
        let least = (cause, Deed::Squeeze(Resource::Cpu));
        let deaf = matches!(cause, Cause::SignalMissing | Cause::SignalStale);
        assert_eq!(steps.state(), if deaf { NodeState::Throttled } else { NodeState::Closed });
        assert_eq!((steps.actions().reason, steps.actions().admit), (cause, false));
        assert_eq!(steps.said()[1..], [least][..usize::from(deaf)], "{:?}", steps.events);
    }
}

#[test]
fn it_opens_again_only_after_slack_for_the_whole_dwell_time() {
    let mut steps = Steps::open();
    steps.verdicts[0].slack = -0.5;
    steps.step();
    // Not at the limit: there must be some slack, without interruption.
    steps.verdicts[0].slack = 0.1;
    steps.run(10 * S);
    assert_eq!(steps.state(), NodeState::Closed);
    steps.verdicts[0].slack = 0.5;
    steps.run(S);
    steps.self_check = false;
    steps.step();
    steps.self_check = true;
    assert_eq!(steps.until_left(10 * S), 2 * S + TICK);
    assert_eq!(steps.state(), NodeState::Open);
}

#[test]
fn an_error_budget_that_is_spent_too_fast_keeps_it_closed_when_slack_is_back() {
    let mut steps = Steps::open();
    (steps.verdicts[0].slack, steps.verdicts[0].burning) = (-0.5, BURNING);
    steps.step();
    assert_eq!(steps.said(), [(Cause::SlowBurn, Deed::Close)]);
    steps.verdicts[0].slack = 1.0;
    steps.run(600 * S);
    assert_eq!((steps.state(), steps.actions().reason), (NodeState::Closed, Cause::Budget));
    // While the one comes and goes the other is said once.
    for slack in [-0.5, 1.0].repeat(5) {
        steps.verdicts[0].slack = slack;
        steps.run(S);
    }
    assert_eq!(steps.said(), [(Cause::SlowBurn, Deed::Close), (Cause::Budget, Deed::None)]);
    assert_eq!((steps.events[1].objective, steps.events[1].measure), (Some(0), BURNING));
    steps.verdicts[0].burning = None;
    assert_eq!(steps.until_left(10 * S), 2 * S + TICK);
    assert_eq!(steps.state(), NodeState::Open);
}

#[test]
fn an_error_budget_says_whose_it_is_and_how_fast_it_is_spent() {
    let mut steps = Steps::open();
    steps.verdicts[1].burning = BURNING;
    steps.step();
    let event = steps.events[0];
    assert_eq!((event.cause, event.objective, event.measure), (Cause::Budget, Some(1), BURNING));
    assert!(!steps.actions().hold.any() && !steps.actions().admit);
}

#[test]
fn without_jobs_evidence_closes_and_freezes_nothing() {
    let mut steps = Steps::open();
    steps.jobs = Some(0);
    steps.level(Level::Weak);
    steps.run(S);
    assert_eq!(steps.state(), NodeState::Open, "weak evidence is for precautions only");
    steps.level(Level::Strong);
    steps.run(S);
    assert_eq!(steps.state(), NodeState::Closed);
    assert_eq!(steps.said(), [(Cause::BreachWithoutBatch, Deed::Close)]);
    // Not knowing how many jobs there are is no reason to leave them alone.
    steps.jobs = None;
    steps.step();
    assert_eq!(steps.state(), NodeState::Frozen);
}

#[test]
fn a_gauge_closes_and_freezes_nobody() {
    for (state, cause) in [(GaugeState::Broken, Cause::GaugeAbove), (GaugeState::Stale, Cause::GaugeStale)] {
        let mut steps = Steps::open();
        steps.gauges[0].state = state;
        steps.run(30 * S);
        assert_eq!((steps.state(), steps.said()), (NodeState::Closed, vec![(cause, Deed::Close)]));
        assert_eq!(steps.events[0].gauge, Some(0));
        steps.gauges[0].state = GaugeState::Absent;
        steps.run(3 * S);
        assert_eq!(steps.state(), NodeState::Open, "what is not there is no reason");
    }
}

// SPDX-License-Identifier: Apache-2.0
use crate::steps::{config, Steps, MS, S, TICK};
use intf::state::NodeState;
use policy::{Cause, Deed, Hold, Ladder, LadderConfig, Level, SignalState};

#[test]
fn strong_evidence_freezes_at_once_and_holds() {
    let mut steps = Steps::open();
    // With more of them the last ones would wait for their turn: staged.rs.
    (steps.jobs, steps.living) = (Some(1), [0].into_iter().collect());
    steps.level(Level::Strong);
    steps.step();
    assert_eq!(steps.state(), NodeState::Frozen);
    assert!(steps.actions().hold.any() && !steps.actions().precaution && !steps.actions().admit);
    assert_eq!(steps.said(), [(Cause::StrongEvidence, Deed::Freeze)]);
    // Calm at once: it holds for a second and then until it was calm for two.
    steps.level(Level::Calm);
    assert_eq!(steps.until_left(10 * S), 2 * S + TICK);
    assert_eq!(steps.state(), NodeState::Closed);
    assert_eq!(steps.said()[1], (Cause::Calm, Deed::Thaw));
    assert_eq!(steps.events[1].lasted_ns, Some(2 * S + TICK));
    assert_eq!(steps.until_left(10 * S), TICK, "the calm before the thaw counts for opening too");
    assert_eq!(steps.state(), NodeState::Open);
}

#[test]
fn it_does_not_thaw_while_there_is_evidence() {
    let mut steps = Steps::open();
    steps.level(Level::Strong);
    steps.run(5 * S);
    steps.level(Level::Weak);
    steps.run(4 * S);
    assert_eq!(steps.state(), NodeState::Frozen);
    steps.level(Level::Calm);
    steps.run(2 * S);
    assert_eq!(steps.state(), NodeState::Frozen, "one tick early");
    steps.step();
    assert_eq!(steps.state(), NodeState::Closed);
}

/// Freezes, calms down, thaws; how long that took.
fn cycle(steps: &mut Steps) -> u64 {
    steps.level(Level::Strong);
    steps.step();
    assert_eq!(steps.state(), NodeState::Frozen);
    steps.level(Level::Calm);
    steps.until_left(100 * S)
}

#[test]
fn a_refreeze_soon_after_a_thaw_holds_twice_as_long() {
    let mut steps = Steps::open();
    // While batch comes back with less each time it is not the same again.
    steps.ladder.reconfigure(LadderConfig { throttle: false, ..config() }, false);
    let holds: Vec<u64> = (0..7)
        .map(|_| {
            let lasted = cycle(&mut steps);
            steps.run(S);
            lasted / S
        })
        .collect();
    assert_eq!(holds, [2, 2, 4, 8, 16, 30, 30], "dwell, then hold 2, 4, 8, 16, 30");
    assert_eq!(steps.ladder.counters().hold_ns, 30 * S);
    // A quiet time takes it down again: one half for each ten seconds.
    steps.run(31 * S);
    assert_eq!(cycle(&mut steps) / S, 3);
    steps.run(100 * S);
    assert_eq!(cycle(&mut steps) / S, 2);
    assert_eq!(steps.ladder.counters().hold_ns, S);
}

#[test]
fn nothing_is_frozen_for_longer_than_freeze_max() {
    let mut steps = Steps::open();
    // Calm now and then, but never for the dwell time: neither thaw nor innocence.
    steps.level(Level::Strong);
    steps.step();
    let mut lasted = 0;
    while steps.state() == NodeState::Frozen {
        let calm = (steps.now / S) % 3 == 0;
        steps.level(if calm { Level::Calm } else { Level::Strong });
        steps.step();
        lasted += TICK;
        assert!(lasted <= 121 * S);
    }
    assert_eq!(lasted, 120 * S);
    assert_eq!(steps.said().last(), Some(&(Cause::FreezeMax, Deed::Thaw)));
    // The same evidence does not freeze again at the next tick.
    steps.level(Level::Strong);
    steps.run(5 * S);
    assert_eq!(steps.state(), NodeState::Closed);
}

#[test]
fn found_frozen_is_frozen_since_now_and_thaws_the_normal_way() {
    let mut steps = Steps::with(Ladder::adopt(config(), Hold::All, 1000 * S));
    assert!(steps.ladder.acting());
    steps.step();
    assert_eq!(steps.state(), NodeState::Frozen);
    assert!(steps.actions().hold.any());
    assert_eq!(steps.said(), [(Cause::Adopted, Deed::None)]);
    steps.until_left(10 * S);
    assert_eq!(steps.said()[1], (Cause::Calm, Deed::Thaw));
    assert!(steps.now - 1000 * S >= S, "not before the hold time");
}

#[test]
fn a_signal_that_goes_away_ends_a_freeze_and_never_begins_one() {
    let mut steps = Steps::open();
    steps.level(Level::Strong);
    steps.run(S);
    for verdict in &mut steps.verdicts {
        verdict.signal = SignalState::Missing;
    }
    assert!(steps.until_left(10 * S) <= 2 * S + TICK);
    assert_eq!(steps.said()[1], (Cause::SignalMissing, Deed::Thaw));
    // Levels of a signal that is not there mean nothing.
    steps.run(300 * S);
    assert_eq!((steps.state(), steps.actions().admit), (NodeState::Throttled, false));
}

#[test]
fn nothing_is_learned_while_frozen_and_shortly_after() {
    let mut steps = Steps::open();
    assert!(!steps.ladder.acting());
    cycle(&mut steps);
    assert!(steps.ladder.acting());
    steps.run(10 * S - TICK);
    assert!(steps.ladder.acting());
    steps.run(TICK);
    assert!(!steps.ladder.acting());
    assert_eq!(steps.ladder.counters().frozen_ns, 2 * S + TICK);
    let _ = MS;
}

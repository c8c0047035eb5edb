// SPDX-License-Identifier: Apache-2.0
//! After a freeze those who made storage slow get their disk back bit by bit.
use crate::steps::{config, jobs, Steps, MS, S, TICK};
use intf::segment::{Kind, SeriesId};
use intf::state::NodeState;
use policy::{Cause, Deed, Hold, JobSet, Ladder, LadderConfig, Level, SlowEnd, Use};

pub const DWELL: u64 = 2 * S;

/// Job 1 makes the disk of filesystem 0 slow, is frozen for it, and is thawed when it has been calm.
pub fn throttled() -> Steps {
    throttled_with(Steps::open())
}

fn throttled_with(mut steps: Steps) -> Steps {
    slow(&mut steps, Level::Strong);
    steps.step();
    assert_eq!(steps.state(), NodeState::Frozen);
    steps.run(500 * MS);
    calm(&mut steps);
    steps.until_left(10 * S);
    steps
}

pub fn slow(steps: &mut Steps, level: Level) {
    steps.level(level);
    steps.verdicts[0].worst = Some(SeriesId { filesystem: 0, kind: Kind::STORAGE_READ });
    (steps.guilty[0], steps.batch_share_now[0]) = (Some(jobs(&[1])), 0.5);
}

pub fn calm(steps: &mut Steps) {
    steps.level(Level::Calm);
    steps.batch_share_now[0] = 0.0;
}

pub fn share(steps: &Steps) -> f32 {
    steps.actions().throttles.of(0).map_or(1.0, |throttle| throttle.share)
}

#[test]
fn the_limit_is_there_before_they_run_again_and_grows_while_it_is_calm() {
    let mut steps = Steps::open();
    slow(&mut steps, Level::Strong);
    steps.run(2 * TICK);
    let throttle = *steps.actions().throttles.of(0).unwrap();
    assert_eq!((steps.state(), throttle.jobs, throttle.share), (NodeState::Frozen, jobs(&[1]), 0.0125));
    calm(&mut steps);
    steps.until_left(10 * S);
    assert_eq!((steps.state(), steps.actions().hold), (NodeState::Throttled, Hold::Nobody));
    assert_eq!(steps.said().last(), Some(&(Cause::Calm, Deed::Thaw)));
    assert_eq!(share(&steps), 0.0125, "what was calm while they stood still does not count");
    steps.run(DWELL + TICK);
    assert_eq!(share(&steps), 0.025);
    steps.run(6 * DWELL);
    assert!((share(&steps) - 0.3).abs() < 1e-6);
    steps.run(14 * DWELL);
    // What they did then may have been little: the way goes on beyond it.
    assert!((share(&steps) - 1.0).abs() < 1e-3);
    steps.run(10 * DWELL);
    assert!(share(&steps) > 8.0);
    steps.used[0] = Use::Little;
    steps.run(601 * S);
    assert_eq!(steps.state(), NodeState::Open);
    assert_eq!(steps.said().last(), Some(&(Cause::ThrottleOver, Deed::Lift)));
    assert!(steps.actions().throttles.is_empty());
}

#[test]
fn they_give_way_when_clients_begin_to_notice_and_get_it_back_where_that_is_of_no_use() {
    let mut steps = throttled();
    steps.run(4 * DWELL + TICK);
    let before = share(&steps);
    steps.events.clear();
    // 100 requests/s, of which usually one in 50 is slow, and now three.
    steps.filesystems[0].slow_end = SlowEnd { requests: 2.0, slow: 0.12, found: 0.12, usual: 0.04 };
    steps.run(10 * S);
    assert!(share(&steps) <= before / 2.0 && steps.state() == NodeState::Throttled);
    let said = steps.events.iter().find(|event| event.cause == Cause::ClientsNotice).unwrap();
    assert_eq!((said.deed, said.hold, said.filesystem), (Deed::Tighten, Hold::Jobs(jobs(&[1])), Some(0)));
    let measure = said.measure.unwrap();
    assert!((measure.value - 3.0).abs() < 1e-3 && measure.limit == 1.5, "{measure:?}");
    // With next to nothing left for them it is the same.
    steps.run(600 * S);
    assert!(share(&steps) > before, "{}", share(&steps));
}

#[test]
fn who_rests_after_an_attack_comes_back_with_the_limit_he_had() {
    let mut steps = throttled();
    steps.run(3 * DWELL + TICK);
    let before = share(&steps);
    steps.used[0] = Use::Little;
    steps.run(300 * S);
    assert_eq!((steps.state(), share(&steps)), (NodeState::Throttled, before));
    assert!(steps.actions().admit && !steps.ladder.acting(), "storage is what it is like without him");
    steps.used[0] = Use::Full;
    steps.run(DWELL + TICK);
    assert!(share(&steps) > before && steps.ladder.acting());
    steps.used[0] = Use::Little;
    steps.run(601 * S);
    assert_eq!((steps.state(), steps.actions().throttles.is_empty()), (NodeState::Open, true));
}

#[test]
fn nobody_new_comes_before_those_who_wait_for_their_turn() {
    let mut steps = throttled();
    steps.run(DWELL);
    assert_eq!((steps.state(), steps.actions().admit), (NodeState::Throttled, true));
    slow(&mut steps, Level::Strong);
    steps.guilty[0] = None;
    steps.step();
    assert_eq!((steps.state(), steps.actions().hold), (NodeState::Frozen, Hold::All));
    calm(&mut steps);
    steps.until_left(60 * S);
    assert_eq!((steps.state(), steps.actions().thawing, steps.actions().admit), (NodeState::Throttled, true, false));
    steps.run(DWELL + TICK);
    assert_eq!((steps.actions().thawing, steps.actions().admit), (false, true));
}

#[test]
fn new_jobs_are_let_in_as_soon_as_storage_has_slack() {
    let mut steps = throttled();
    assert!(!steps.actions().admit || steps.now > 0);
    steps.run(DWELL);
    assert!(steps.actions().admit, "who is limited is no reason to let nobody else in");
    steps.verdicts[0].slack = -0.1;
    steps.step();
    assert!(!steps.actions().admit);
    assert_eq!(steps.state(), NodeState::Throttled);
    steps.verdicts[0].slack = 0.1;
    steps.run(DWELL + TICK);
    assert!(!steps.actions().admit, "not enough slack yet");
    steps.verdicts[0].slack = 1.0;
    steps.run(DWELL + TICK);
    assert!(steps.actions().admit);
}

#[test]
fn weak_evidence_halves_and_freezes_when_that_does_not_help() {
    let mut steps = throttled();
    steps.run(6 * DWELL);
    let before = share(&steps);
    slow(&mut steps, Level::Weak);
    steps.step();
    assert_eq!((steps.state(), share(&steps)), (NodeState::Throttled, before / 2.0));
    assert_eq!(steps.said().last(), Some(&(Cause::BatchUsesDisk, Deed::Tighten)));
    assert_eq!(steps.events.last().map(|e| e.hold), Some(Hold::Jobs(jobs(&[1]))));
    steps.run(S - TICK);
    assert_eq!((steps.state(), share(&steps)), (NodeState::Throttled, before / 2.0), "it is given its time");
    steps.step();
    assert_eq!(steps.said().last(), Some(&(Cause::ThrottleNotEnough, Deed::Freeze)));
    assert_eq!(steps.actions().hold, Hold::All);
}

#[test]
fn strong_evidence_freezes_at_once_and_they_come_back_with_half() {
    let mut steps = throttled();
    steps.run(6 * DWELL);
    let before = share(&steps);
    slow(&mut steps, Level::Strong);
    steps.run(2 * TICK);
    assert_eq!((steps.state(), share(&steps)), (NodeState::Frozen, before / 2.0));
    steps.run(300 * MS);
    assert_eq!(share(&steps), before / 2.0, "once for each freeze");
    calm(&mut steps);
    let begun = steps.now;
    steps.until_left(10 * S);
    assert_eq!((steps.state(), share(&steps)), (NodeState::Throttled, before / 2.0));
    assert!(steps.now - begun <= DWELL + TICK, "as soon as it has been calm");
}

#[test]
fn who_is_limited_and_does_nearly_all_that_batch_does_there_stands_still_alone_however_little_it_is() {
    for (guilty, alone) in
        [(Some(jobs(&[1])), true), (Some(jobs(&[1, 2])), false), (Some(jobs(&[2])), false), (None, false)]
    {
        let mut steps = throttled();
        slow(&mut steps, Level::Strong);
        (steps.guilty[0], steps.batch_share_now[0]) = (guilty, 0.1);
        steps.step();
        assert_eq!((steps.state(), steps.actions().hold), (NodeState::Frozen, Hold::All));
        steps.run(500 * MS);
        let expected = if alone { Hold::Jobs(jobs(&[1])) } else { Hold::All };
        assert_eq!(steps.actions().hold, expected, "{guilty:?}");
    }
    // On another disk, or when he is limited no more, so little is no reason to blame anybody.
    let mut steps = Steps::open();
    slow(&mut steps, Level::Strong);
    steps.batch_share_now[0] = 0.1;
    steps.run(500 * MS);
    assert_eq!(steps.actions().hold, Hold::All);
}

#[test]
fn who_has_nothing_left_to_lose_stands_still_for_longer_and_longer() {
    // `hold` is a second in these tests: the dwell time is longer than the first holds.
    let mut steps = throttled();
    let mut stood = Vec::new();
    for _ in 0..7 {
        slow(&mut steps, Level::Strong);
        steps.step();
        let begun = steps.now;
        steps.run(3 * TICK);
        calm(&mut steps);
        steps.until_left(40 * S);
        stood.push((steps.now - begun) / S);
    }
    assert!(stood[0] <= 3 && stood[6] >= 15 && stood.is_sorted(), "{stood:?}");
}

#[test]
fn another_disk_is_a_matter_of_its_own() {
    let mut steps = throttled();
    slow(&mut steps, Level::Strong);
    steps.verdicts[0].worst = Some(SeriesId { filesystem: 1, kind: Kind::STORAGE_READ });
    (steps.guilty[1], steps.batch_share_now[1]) = (Some(jobs(&[2])), 0.5);
    steps.run(2 * TICK);
    let throttles = steps.actions().throttles;
    assert_eq!(throttles.of(0).map(|t| t.jobs), Some(jobs(&[1])));
    assert_eq!(throttles.of(1).map(|t| t.jobs), Some(jobs(&[2])));
    assert_eq!(throttles.of(0).map(|t| t.share), Some(0.0125), "nothing was slow there");
}

#[test]
fn what_comes_through_the_storage_daemons_is_limited_without_names() {
    let mut steps = Steps::open();
    slow(&mut steps, Level::Strong);
    steps.guilty[0] = None;
    steps.run(2 * TICK);
    assert_eq!(steps.actions().throttles.of(0).map(|t| t.jobs), Some(JobSet::default()));
    calm(&mut steps);
    steps.until_left(10 * S);
    assert_eq!(steps.state(), NodeState::Throttled);
}

#[test]
fn nobody_is_limited_for_what_batch_has_next_to_no_part_in() {
    let mut steps = Steps::open();
    slow(&mut steps, Level::Strong);
    steps.batch_share_now[0] = 0.1;
    steps.run(2 * TICK);
    assert!(steps.actions().throttles.is_empty());
    calm(&mut steps);
    steps.until_left(10 * S);
    assert_eq!(steps.state(), NodeState::Closed);
}

#[test]
fn who_turns_out_to_be_innocent_gets_everything_back() {
    let mut steps = Steps::open();
    slow(&mut steps, Level::Strong);
    steps.guilty[0] = None;
    steps.run(2 * TICK);
    assert!(!steps.actions().throttles.is_empty());
    steps.batch_share_now[0] = 0.0;
    steps.until_left(30 * S);
    assert_eq!(steps.said().last(), Some(&(Cause::BatchInnocent, Deed::Thaw)));
    assert!(steps.actions().throttles.is_empty());
}

#[test]
fn a_limit_that_does_harm_is_given_up_for_a_while() {
    let mut steps = throttled();
    for _ in 0..2 {
        steps.run(3 * DWELL);
        slow(&mut steps, Level::Weak);
        steps.run(S + 2 * TICK);
        assert_eq!(steps.state(), NodeState::Frozen, "{:?}", steps.said());
        calm(&mut steps);
        steps.until_left(40 * S);
    }
    assert_eq!(steps.state(), NodeState::Closed, "{:?}", steps.said());
    assert!(steps.actions().throttles.is_empty());
    // Frozen and thawed as a whole, until the backoff is over.
    let steps = throttled_with(steps);
    assert_eq!(steps.state(), NodeState::Closed);
    let mut steps = steps;
    steps.run(80 * S);
    assert_eq!(throttled_with(steps).state(), NodeState::Throttled);
}

#[test]
fn when_the_limited_have_ended_it_is_over() {
    let mut steps = throttled();
    steps.living = jobs(&[0, 2]);
    steps.run(2 * TICK);
    assert!(matches!(steps.state(), NodeState::Open | NodeState::Closed));
    assert_eq!(steps.said().last(), Some(&(Cause::ThrottleOver, Deed::Lift)));
}

#[test]
fn somebody_else_on_a_disk_with_limits_is_frozen_for_it_and_inherits_nothing() {
    let mut steps = throttled();
    steps.run(6 * DWELL);
    let before = share(&steps);
    slow(&mut steps, Level::Weak);
    steps.guilty[0] = Some(jobs(&[2]));
    steps.step();
    assert_eq!((steps.state(), share(&steps)), (NodeState::Frozen, before), "less for others would not stop him");
    steps.step();
    let throttle = *steps.actions().throttles.of(0).unwrap();
    assert_eq!((throttle.jobs, throttle.share), (jobs(&[1, 2]), 0.0125));
}

#[test]
fn who_runs_while_others_stand_still_is_not_blamed_for_what_they_did() {
    let mut steps = Steps::open();
    slow(&mut steps, Level::Strong);
    steps.run(3 * TICK);
    assert_eq!(steps.actions().hold, Hold::Jobs(jobs(&[1])));
    steps.guilty[0] = Some(jobs(&[2]));
    steps.run(10 * TICK);
    assert_eq!(steps.actions().throttles.of(0).map(|t| t.jobs), Some(jobs(&[1])));
}

#[test]
fn that_nothing_is_heard_gives_nobody_more() {
    let mut steps = throttled();
    let before = share(&steps);
    steps.verdicts[0].signal = policy::SignalState::Stale;
    steps.run(90 * S);
    assert_eq!((steps.state(), share(&steps)), (NodeState::Throttled, before));
    steps.verdicts[0].signal = policy::SignalState::Fresh;
    steps.run(2 * DWELL);
    assert!(share(&steps) > before);
}

#[test]
fn batch_of_other_nodes_is_held_and_limited_where_no_job_runs() {
    let mut steps = Steps::open();
    (steps.jobs, steps.living) = (Some(0), JobSet::default());
    slow(&mut steps, Level::Strong);
    steps.guilty[0] = None;
    steps.run(2 * TICK);
    assert_eq!((steps.state(), steps.actions().hold), (NodeState::Frozen, Hold::All));
    calm(&mut steps);
    steps.until_left(10 * S);
    assert_eq!(steps.state(), NodeState::Throttled);
    slow(&mut steps, Level::Weak);
    steps.guilty[0] = None;
    steps.step();
    assert_eq!(steps.said().last(), Some(&(Cause::BatchUsesDisk, Deed::Tighten)), "{:?}", steps.state());
}

#[test]
fn it_can_be_turned_off() {
    let off = LadderConfig { throttle: false, ..config() };
    let mut steps = Steps::with(Ladder::new(off, 1000 * S));
    steps.run(3 * S);
    assert_eq!(throttled_with(steps).state(), NodeState::Closed);
}

#[test]
fn nobody_stays_limited_for_what_storage_does_to_itself() {
    let mut steps = throttled();
    steps.run(2 * DWELL);
    // Weak evidence, and batch has next to no part in it.
    steps.level(Level::Weak);
    steps.run(50 * S);
    assert!(!steps.actions().throttles.is_empty(), "{:?}", steps.said());
    steps.run(15 * S);
    assert!(steps.actions().throttles.is_empty(), "{:?}", steps.said());
    assert!(matches!(steps.state(), NodeState::Open | NodeState::Closed), "{:?}", steps.said());
}

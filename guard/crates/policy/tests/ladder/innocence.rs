// SPDX-License-Identifier: Apache-2.0
use crate::steps::{Steps, MS, S, TICK};
use intf::segment::{Kind, SeriesId};
use intf::state::NodeState;
use policy::{Cause, Deed, Level, SlowEnd};

#[test]
fn a_freeze_that_does_not_help_ends_and_the_same_evidence_does_not_freeze_again_for_a_while() {
    let mut steps = Steps::open();
    steps.level(Level::Strong);
    steps.step();
    assert_eq!(steps.until_left(20 * S), 10 * S);
    assert_eq!(steps.said()[1], (Cause::BatchInnocent, Deed::Thaw));
    steps.run(59 * S);
    assert_eq!(steps.state(), NodeState::Closed, "no new jobs, but those there run");
    assert_eq!(steps.actions().reason, Cause::BreachWithoutBatch);
    // Then it is tried again, and the next time later.
    steps.run(2 * S);
    assert_eq!(steps.state(), NodeState::Frozen);
    steps.until_left(20 * S);
    steps.run(119 * S);
    assert_eq!(steps.state(), NodeState::Closed);
    steps.run(2 * S);
    assert_eq!(steps.state(), NodeState::Frozen);
}

#[test]
fn other_evidence_freezes_all_the_same() {
    let mut steps = Steps::open();
    steps.level(Level::Strong);
    steps.step();
    steps.until_left(20 * S);
    steps.run(S);
    steps.verdicts[1].level = Level::Strong;
    steps.step();
    assert_eq!(steps.state(), NodeState::Frozen);
    assert_eq!(steps.events.last().unwrap().objective, Some(1));
    // What is known to have nothing to do with batch does not keep it frozen.
    steps.verdicts[1].level = Level::Calm;
    steps.run(2 * S + TICK);
    assert_eq!(steps.state(), NodeState::Closed);
    assert_eq!(steps.said().last(), Some(&(Cause::Calm, Deed::Thaw)));
}

fn slow(steps: &mut Steps, filesystem: u16) {
    steps.level(Level::Strong);
    steps.verdicts[0].worst = Some(SeriesId { filesystem, kind: Kind::STORAGE_READ });
}

#[test]
fn innocence_on_one_disk_does_not_hide_what_happens_on_another() {
    let mut steps = Steps::open();
    slow(&mut steps, 0);
    steps.step();
    steps.until_left(20 * S);
    assert_eq!(steps.said().last(), Some(&(Cause::BatchInnocent, Deed::Thaw)));
    steps.run(S);
    assert_eq!(steps.state(), NodeState::Closed);
    // The same promise, on the other disk.
    slow(&mut steps, 1);
    steps.step();
    assert_eq!(steps.state(), NodeState::Frozen);
    slow(&mut steps, 0);
    steps.run(3 * S);
    assert_eq!((steps.state(), steps.actions().reason), (NodeState::Closed, Cause::BreachWithoutBatch));
}

#[test]
fn who_is_limited_on_one_disk_stays_so_when_batch_is_innocent_on_another() {
    let mut steps = Steps::open();
    slow(&mut steps, 1);
    (steps.guilty[1], steps.batch_share_now[1]) = (Some([1].into_iter().collect()), 0.5);
    steps.run(2 * TICK);
    steps.level(Level::Calm);
    steps.batch_share_now[1] = 0.0;
    steps.until_left(10 * S);
    assert_eq!(steps.state(), NodeState::Throttled);
    slow(&mut steps, 0);
    steps.step();
    assert_eq!(steps.state(), NodeState::Frozen);
    steps.until_left(20 * S);
    assert_eq!(steps.said().last(), Some(&(Cause::BatchInnocent, Deed::Thaw)));
    assert!(steps.actions().throttles.of(1).is_some());
}

#[test]
fn who_is_limited_already_has_what_he_had_before_when_batch_is_innocent() {
    let hog = [1].into_iter().collect();
    let mut steps = Steps::open();
    let blame = |steps: &mut Steps| {
        slow(steps, 0);
        (steps.guilty[0], steps.batch_share_now[0]) = (Some(hog), 0.5);
    };
    blame(&mut steps);
    steps.run(2 * TICK);
    steps.level(Level::Calm);
    steps.batch_share_now[0] = 0.0;
    steps.until_left(10 * S);
    steps.run(12 * S);
    let share = |steps: &Steps| steps.actions().throttles.of(0).map(|throttle| throttle.share);
    let before = share(&steps).unwrap();
    // It becomes slow for another reason while he works, and stays so: cut, frozen, cut once more, and for nothing.
    blame(&mut steps);
    steps.run(4 * S);
    assert!(share(&steps).unwrap() < before / 1.9 && steps.state() == NodeState::Frozen);
    steps.until_left(40 * S);
    assert_eq!(steps.said().last(), Some(&(Cause::BatchInnocent, Deed::Thaw)));
    assert_eq!((steps.state(), share(&steps)), (NodeState::Throttled, Some(before)));
    // Another one is accused with him: he is not limited for that either, but for what comes later he is.
    steps.level(Level::Calm);
    steps.run(70 * S);
    let grown = share(&steps).unwrap();
    slow(&mut steps, 0);
    steps.verdicts[0].level = Level::Strong;
    steps.guilty[0] = Some([1, 2].into_iter().collect());
    steps.run(3 * TICK);
    assert!(share(&steps).unwrap() < grown);
    steps.until_left(40 * S);
    let throttle = *steps.actions().throttles.of(0).unwrap();
    assert_eq!((throttle.share, throttle.jobs), (grown, hog));
}

#[test]
fn evidence_after_a_calm_time_is_judged_afresh() {
    let mut steps = Steps::open();
    steps.level(Level::Strong);
    steps.step();
    steps.until_left(20 * S);
    steps.level(Level::Calm);
    steps.run(9 * S);
    steps.level(Level::Strong);
    steps.step();
    assert_ne!(steps.state(), NodeState::Frozen, "not yet calm for the flap time");
    steps.level(Level::Calm);
    steps.run(10 * S + TICK);
    steps.level(Level::Strong);
    steps.step();
    assert_eq!(steps.state(), NodeState::Frozen);
}

#[test]
fn a_freeze_that_helped_for_a_moment_is_given_the_time_from_then_on() {
    let mut steps = Steps::open();
    steps.level(Level::Strong);
    steps.run(9 * S);
    steps.level(Level::Calm);
    steps.run(S);
    steps.level(Level::Strong);
    assert_eq!(steps.until_left(20 * S), 10 * S);
    assert_eq!(steps.said()[1], (Cause::BatchInnocent, Deed::Thaw));
}

#[test]
fn evidence_that_flickers_whatever_batch_does_is_acquitted_too() {
    // Never calm for the dwell time, never slow for the effect timeout.
    let mut steps = Steps::open();
    let mut frozen = 0;
    for tick in 0..600 * S / TICK {
        steps.level(if tick % 25 == 0 { Level::Weak } else { Level::Calm });
        frozen += u64::from(steps.step().hold.any()) * TICK;
    }
    assert!(steps.said().iter().any(|said| said.0 == Cause::FreezeMax));
    assert!(frozen < 450 * S, "{} of 600 s", frozen / S);
}

/// Storage slow on filesystem 0, where batch does this part of the work; so many requests of clients per tick, this part of them
/// slow.
fn slow_by_itself(part: f32, requests: f32, slow_ones: f32) -> Steps {
    let mut steps = Steps::open();
    slow(&mut steps, 0);
    let slow = slow_ones * requests;
    steps.filesystems[0].slow_end = SlowEnd { requests, slow, found: slow / 8.0, usual: requests / 400.0 };
    steps.batch_share_now[0] = part;
    steps.step();
    assert_eq!(steps.state(), NodeState::Frozen);
    steps
}

#[test]
fn who_had_no_part_in_it_is_acquitted_soon() {
    // 120 requests/s, nearly all of them slow.
    let mut steps = slow_by_itself(0.03, 2.4, 0.9);
    assert!((2500 * MS..2500 * MS + TICK).contains(&steps.until_left(20 * S)));
    assert_eq!(steps.said().last(), Some(&(Cause::BatchInnocent, Deed::Thaw)));
    steps.run(50 * S);
    assert_eq!((steps.state(), steps.actions().reason), (NodeState::Closed, Cause::BreachWithoutBatch));
}

#[test]
fn where_batch_worked_or_little_is_known_it_takes_its_time() {
    for (part, requests, slow_ones) in [
        (0.06, 2.4, 0.9),     // it may have left a queue
        (f32::NAN, 2.4, 0.9), // not known
        (0.0, 0.4, 0.9),      // 20 requests/s: too few in a second and a half
        (0.0, 2.4, 0.4),      // what it did is fading
    ] {
        let mut steps = slow_by_itself(part, requests, slow_ones);
        let lasted = steps.until_left(20 * S);
        assert!(lasted > 2500 * MS + TICK, "{part} {requests} {slow_ones}: {lasted}");
    }
    // Once is enough: what was in flight then may have been much.
    let mut steps = slow_by_itself(0.5, 2.4, 0.9);
    steps.run(S);
    steps.batch_share_now[0] = 0.0;
    assert_eq!(steps.until_left(20 * S), 9 * S);
    // Through the storage daemons, too.
    let mut steps = slow_by_itself(0.0, 2.4, 0.9);
    steps.filesystems[0].batch_in_flight = 1;
    assert_eq!(steps.until_left(20 * S), 10 * S);
}

#[test]
fn who_made_it_slow_by_other_ways_is_not_acquitted_for_what_was_before() {
    // A backlog of a second and a half, and then it is as fast as usual; the evidence takes longer to fade.
    let mut steps = slow_by_itself(0.0, 2.4, 0.9);
    steps.run(1500 * MS);
    steps.filesystems[0].slow_end = SlowEnd { requests: 2.4, slow: 0.1, found: 0.0125, usual: 0.006 };
    steps.run(3 * S);
    assert_eq!(steps.state(), NodeState::Frozen);
    steps.level(Level::Calm);
    steps.until_left(20 * S);
    assert_eq!(steps.said().last(), Some(&(Cause::Calm, Deed::Thaw)));
}

#[test]
fn who_stands_still_again_with_all_the_others_is_judged_from_then_on() {
    let mut steps = slow_by_itself(0.5, 2.4, 0.9);
    (steps.guilty[0], steps.others_use[0]) = (Some([1].into_iter().collect()), false);
    steps.step();
    assert_eq!(steps.said().last(), Some(&(Cause::Guilty, Deed::Narrow)));
    // Job 1 stands still and does nothing, and it does not become better: the others may have done it, and have only just stopped.
    steps.batch_share_now[0] = 0.0;
    steps.run(4 * S + TICK);
    assert_eq!(steps.said().last(), Some(&(Cause::GuiltyNotEnough, Deed::Widen)));
    steps.run(2 * S);
    assert_eq!(steps.state(), NodeState::Frozen);
    steps.run(S);
    assert_eq!(steps.said().last(), Some(&(Cause::BatchInnocent, Deed::Thaw)));
}

#[test]
fn what_clients_fill_while_batch_stands_still_they_fill() {
    let filled = |waits: bool, turns: bool| {
        let mut steps = slow_by_itself(0.0, 2.4, 0.9);
        steps.rotational = u128::from(turns);
        steps.filesystems[0].storage_in_flight = 24;
        steps.run(2 * S);
        steps.filesystems[0].storage_in_flight = u32::from(waits);
        steps.step();
        steps.filesystems[0].storage_in_flight = 24;
        steps.until_left(20 * S);
        assert_eq!(steps.said().last(), Some(&(Cause::BatchInnocent, Deed::Thaw)));
        // Who takes a part of it now makes way at once.
        (steps.guilty[0], steps.batch_share_now[0]) = (Some([1].into_iter().collect()), 0.4);
        steps.run(2 * TICK);
        assert_eq!(steps.actions().filled == 1, steps.actions().throttles.of(0).is_some());
        steps.actions().filled == 1
    };
    assert!(filled(true, true));
    assert!(!filled(false, true), "there was a moment in which nobody waited");
    assert!(!filled(true, false), "it does not turn");
}

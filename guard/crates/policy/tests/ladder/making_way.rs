// SPDX-License-Identifier: Apache-2.0
//! Where clients fill a disk batch makes way; who is left next to nothing and still takes more rests meanwhile.

use intf::state::NodeState;
use policy::{Cause, Deed, Hold, JobSet, Ladder, LadderConfig, Level, SlowEnd, Taken};

use crate::steps::{config, jobs, Steps, S, TICK};
use crate::throttled::{calm, share, slow, throttled, DWELL};

/// Clients have requests in flight there all the time, so many of which complete in each tick, nearly all of them slow.
fn fill(steps: &mut Steps, requests: f32) {
    steps.filesystems[0].storage_in_flight = 24;
    let slow = 0.9 * requests;
    steps.filesystems[0].slow_end = SlowEnd { requests, slow, found: slow / 8.0, usual: 0.02 * requests / 8.0 };
}

fn empty(steps: &mut Steps) {
    steps.filesystems[0].storage_in_flight = 0;
    steps.filesystems[0].slow_end = SlowEnd { requests: 1.0, slow: 0.01, found: 0.01, usual: 0.02 };
}

fn given(steps: &Steps) -> f32 {
    steps.actions().throttles.of(0).map_or(1.0, |throttle| throttle.given())
}

fn gave_way(steps: &Steps) -> usize {
    steps.events.iter().filter(|event| event.deed == Deed::GiveWay).count()
}

/// Clients fill the disk of filesystem 0, and job 1 does 40 % of its work.
fn taking() -> Steps {
    let mut steps = Steps::open();
    fill(&mut steps, 1.2);
    (steps.guilty[0], steps.batch_share_now[0]) = (Some(jobs(&[1])), 0.4);
    steps.until_left(12 * S);
    assert_eq!((gave_way(&steps), given(&steps)), (1, 0.0));
    steps
}

#[test]
fn who_works_there_makes_way_though_he_does_too_little_to_be_to_blame() {
    let mut steps = taking();
    (steps.guilty[0], steps.workers) = (Some(jobs(&[1])), Some([Some(jobs(&[1, 2])), None]));
    steps.run(S);
    assert_eq!((gave_way(&steps), steps.actions().throttles.of(0).unwrap().jobs), (2, jobs(&[1, 2])));
}

#[test]
fn where_clients_fill_a_disk_batch_makes_way_and_nobody_stands_still() {
    let mut steps = Steps::open();
    fill(&mut steps, 1.2);
    (steps.guilty[0], steps.batch_share_now[0]) = (Some(jobs(&[1])), 0.04);
    steps.run(60 * S);
    assert_eq!(steps.state(), NodeState::Open, "he takes next to nothing");
    steps.batch_share_now[0] = 0.4;
    steps.step();
    assert_eq!((steps.state(), steps.actions().hold, given(&steps)), (NodeState::Throttled, Hold::Nobody, 0.0));
    assert!(steps.actions().admit, "others may come: they do nothing there yet");
    let said = steps.events.last().unwrap();
    assert_eq!((said.cause, said.deed, said.hold), (Cause::ClientsFillDisk, Deed::GiveWay, Hold::Jobs(jobs(&[1]))));
    assert!(said.filesystem == Some(0) && said.measure.is_some_and(|m| m.value > 0.8 && m.limit == f64::from(0.2_f32)));
    // Clients get more done for it. Another one who does the same joins him, once; whoever is limited or not.
    fill(&mut steps, 2.0);
    steps.run(2 * S);
    steps.guilty[0] = Some(jobs(&[1, 2]));
    steps.run(S);
    assert_eq!((gave_way(&steps), steps.actions().throttles.of(0).unwrap().jobs), (2, jobs(&[1, 2])));
    steps.run(600 * S);
    assert_eq!((given(&steps), steps.events.len()), (0.0, 2));
    // There is room again, for a while: they have half of what they did, and soon more.
    (steps.guilty[0], steps.batch_share_now[0]) = (None, 0.0);
    empty(&mut steps);
    steps.run(9 * S);
    assert_eq!(given(&steps), 0.0);
    steps.run(4 * S);
    assert_eq!(given(&steps), 0.5);
    steps.run(120 * S);
    assert!(given(&steps) > 0.54);
}

#[test]
fn where_clients_have_nothing_of_it_batch_has_its_disk_back() {
    let mut steps = taking();
    steps.until_left(20 * S);
    assert_eq!((steps.state(), given(&steps)), (NodeState::Open, 1.0));
    assert_eq!(steps.said().last(), Some(&(Cause::BatchInnocent, Deed::Lift)));
    steps.run(59 * S);
    assert_eq!((steps.state(), gave_way(&steps)), (NodeState::Open, 1));
    steps.run(2 * S);
    assert_eq!((given(&steps), gave_way(&steps)), (0.0, 2), "it is tried again");
}

/// Job 1 takes this part of the disk of filesystem 0.
fn takes(steps: &mut Steps, part: f32) {
    steps.taken = vec![Taken { filesystem: 0, place: 1, part }];
}

#[test]
fn who_makes_way_and_still_takes_much_of_it_rests_meanwhile() {
    let mut steps = taking();
    fill(&mut steps, 2.0);
    (steps.guilty[0], steps.batch_share_now[0]) = (None, 0.034);
    // The kernel has no limit for him yet, and then four requests per second of 118.
    takes(&mut steps, 0.4);
    steps.run(2 * S);
    takes(&mut steps, 0.034);
    steps.run(S);
    assert!(steps.actions().resting.is_empty());
    steps.run(S);
    assert_eq!((steps.state(), steps.actions().hold), (NodeState::Throttled, Hold::Nobody), "it is no freeze");
    assert_eq!(steps.actions().resting, jobs(&[1]));
    let said = steps.events.last().unwrap();
    assert_eq!((said.cause, said.deed, said.hold), (Cause::ClientsFillDisk, Deed::Rest, Hold::Jobs(jobs(&[1]))));
    assert!(steps.actions().admit && !steps.actions().thawing && steps.ladder.acting());
    // He runs again when it is made good; nobody leaves for it.
    takes(&mut steps, 0.0);
    steps.run(20 * S);
    assert!(steps.actions().resting.is_empty());
    assert_eq!(steps.said().last(), Some(&(Cause::Rested, Deed::GoOn)));
    for _ in 0..600 {
        let rests = !steps.actions().resting.is_empty();
        takes(&mut steps, if rests { 0.0 } else { 0.034 });
        steps.run(S);
    }
    assert_eq!(steps.state(), NodeState::Throttled);
    assert!(!steps.events.iter().any(|event| event.deed == Deed::Vacate));
    // Nobody does when that is allowed, and when nobody is limited any more.
    takes(&mut steps, 0.5);
    steps.run(2 * S);
    assert!(!steps.actions().resting.is_empty());
    steps.ladder.reconfigure(LadderConfig { throttle: false, ..config() }, false);
    steps.run(2 * TICK);
    assert!(steps.actions().resting.is_empty());
}

#[test]
fn who_made_it_slow_rests_while_clients_are_there() {
    let mut steps = throttled();
    steps.filesystems[0].storage_in_flight = 1;
    takes(&mut steps, 0.09);
    steps.run(3 * S);
    assert_eq!((steps.state(), steps.actions().resting), (NodeState::Throttled, jobs(&[1])));
    let said = steps.events.last().unwrap();
    assert_eq!((said.cause, said.deed, said.filesystem), (Cause::ClientsUseDisk, Deed::Rest, Some(0)));
    takes(&mut steps, 0.0);
    steps.filesystems[0].storage_in_flight = 0;
    steps.run(11 * S);
    assert_eq!(steps.said().last(), Some(&(Cause::Rested, Deed::GoOn)));
    assert!(steps.actions().resting.is_empty());
    takes(&mut steps, 0.9);
    steps.run(60 * S);
    assert!(steps.actions().resting.is_empty(), "there is nobody for whom he should");
}

#[test]
fn in_a_freeze_nobody_begins_to_rest() {
    let mut steps = taking();
    fill(&mut steps, 2.0);
    (steps.guilty[0], steps.batch_share_now[0]) = (None, 0.034);
    takes(&mut steps, 0.034);
    steps.run(6 * S);
    assert_eq!(steps.actions().resting, jobs(&[1]));
    steps.verdicts[1].level = Level::Strong;
    steps.step();
    assert_eq!(
        (steps.state(), steps.actions().hold, steps.actions().resting),
        (NodeState::Frozen, Hold::All, jobs(&[1]))
    );
    steps.verdicts[1].level = Level::Calm;
    steps.until_left(10 * S);
    steps.run(2 * S);
    assert_eq!((steps.state(), steps.actions().resting), (NodeState::Throttled, jobs(&[1])));
    // He has ended: nobody rests for him.
    steps.living = jobs(&[0, 2]);
    steps.step();
    assert!(steps.actions().resting.is_empty());
}

#[test]
fn of_a_disk_that_does_not_turn_nobody_says_that_it_is_full() {
    let mut steps = Steps::open();
    steps.rotational = 0b10;
    fill(&mut steps, 1.2);
    (steps.guilty[0], steps.batch_share_now[0]) = (Some(jobs(&[1])), 0.4);
    steps.run(60 * S);
    assert_eq!((steps.state(), given(&steps)), (NodeState::Open, 1.0));
}

#[test]
fn who_is_limited_makes_way_too() {
    let mut steps = throttled();
    steps.run(4 * DWELL + TICK);
    let before = share(&steps);
    steps.events.clear();
    fill(&mut steps, 2.0);
    steps.run(20 * S);
    let kept = share(&steps);
    assert!(kept <= before / 2.0 && kept > 0.0, "with what he had there was no room");
    assert_eq!((given(&steps), gave_way(&steps)), (0.0, 1));
    steps.run(600 * S);
    assert_eq!((share(&steps), given(&steps)), (kept, 0.0), "there is nothing to learn from it");
    // Evidence without an end is no reason to let him do as he likes, nor to have him stand still: he does nothing there.
    slow(&mut steps, Level::Weak);
    steps.run(300 * S);
    assert_eq!((steps.state(), given(&steps), share(&steps)), (NodeState::Throttled, 0.0, kept));
    calm(&mut steps);
    empty(&mut steps);
    steps.run(15 * S);
    assert!(given(&steps) >= kept);
}

#[test]
fn an_acquittal_is_none_of_who_makes_way() {
    let mut steps = taking();
    fill(&mut steps, 2.0);
    steps.run(20 * S);
    slow(&mut steps, Level::Strong);
    steps.run(TICK);
    assert_eq!(steps.state(), NodeState::Frozen);
    steps.until_left(40 * S);
    assert_eq!(steps.said().last(), Some(&(Cause::BatchInnocent, Deed::Thaw)));
    assert_eq!((steps.state(), given(&steps), gave_way(&steps)), (NodeState::Throttled, 0.0, 1));
}

#[test]
fn nobody_loses_his_limit_because_others_make_way() {
    let mut steps = throttled();
    steps.run(4 * DWELL + TICK);
    fill(&mut steps, 1.2);
    steps.filesystems[1] = steps.filesystems[0];
    for filesystem in 0..2 {
        (steps.guilty[filesystem], steps.batch_share_now[filesystem]) = (Some(jobs(&[1, 2])), 0.4);
    }
    steps.run(12 * S);
    fill(&mut steps, 2.0);
    steps.filesystems[1] = steps.filesystems[0];
    steps.run(30 * S);
    assert_eq!(steps.actions().throttles.iter().count(), 2);
    let limited =
        |filesystem| steps.actions().throttles.of(filesystem).map(|throttle| (throttle.jobs, throttle.given()));
    assert_eq!((limited(0), limited(1)), (Some((jobs(&[1, 2]), 0.0)), Some((jobs(&[1, 2]), 0.0))));
    assert!(gave_way(&steps) <= 3, "{:?}", steps.said());
}

#[test]
fn batch_in_the_storage_daemons_makes_way_and_nobody_does_where_limits_are_not_wanted() {
    let mut steps = Steps::open();
    fill(&mut steps, 2.0);
    steps.batch_share_now[0] = 0.4;
    steps.run(10 * S);
    assert_eq!((given(&steps), steps.actions().throttles.of(0).unwrap().jobs), (0.0, JobSet::default()));
    let mut steps = Steps::with(Ladder::new(LadderConfig { throttle: false, ..config() }, 1000 * S));
    fill(&mut steps, 2.0);
    steps.batch_share_now[0] = 0.4;
    steps.run(60 * S);
    assert_eq!((steps.state(), given(&steps)), (NodeState::Open, 1.0));
}

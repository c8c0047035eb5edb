// SPDX-License-Identifier: Apache-2.0
use crate::steps::{Steps, MS, S, TICK};
use intf::state::NodeState;
use policy::{Cause, Deed, Level};

fn stick(steps: &mut Steps, filesystem: usize) {
    steps.filesystems[filesystem].stuck = true;
    steps.filesystems[filesystem].oldest_ns = 900 * MS;
}

#[test]
fn a_stuck_disk_that_batch_uses_freezes_until_it_moves() {
    for by_requests in [false, true] {
        let mut steps = Steps::open();
        steps.batch_share = if by_requests { [f32::NAN; 2] } else { [0.0, 0.02] };
        steps.filesystems[1].batch_in_flight = u32::from(by_requests);
        stick(&mut steps, 1);
        steps.step();
        assert_eq!(steps.said(), [(Cause::Stuck, Deed::Freeze)]);
        assert_eq!(steps.events[0].filesystem, Some(1));
        assert_eq!(steps.events[0].measure.unwrap().value, 0.9);
        // Frozen, batch uses the disk no more; it is a suspect all the same.
        steps.batch_share = [0.0; 2];
        steps.filesystems[1].batch_in_flight = 0;
        steps.run(5 * S);
        assert_eq!((steps.state(), steps.actions().quarantined), (NodeState::Frozen, 0));
        steps.filesystems[1].stuck = false;
        assert_eq!(steps.until_left(10 * S), 2 * S + TICK);
    }
}

#[test]
fn a_dead_disk_that_batch_does_not_use_is_quarantined_and_batch_goes_on() {
    for share in [0.0, 0.019, f32::NAN] {
        let mut steps = Steps::open();
        steps.batch_share = [0.9, share];
        stick(&mut steps, 1);
        steps.step();
        assert_eq!(steps.actions().quarantined, 0b10);
        // Batch requests that arrive there later cannot have killed it.
        steps.filesystems[1].batch_in_flight = 5;
        steps.batch_share[1] = 1.0;
        steps.run(300 * S);
        assert_eq!(steps.state(), NodeState::Open);
        assert!(steps.actions().admit);
        assert_eq!(steps.said(), [(Cause::StuckWithoutBatch, Deed::Quarantine)]);
        // The other disk is guarded as before.
        stick(&mut steps, 0);
        steps.step();
        assert_eq!(steps.state(), NodeState::Frozen);
        steps.filesystems[1].stuck = false;
        steps.step();
        assert_eq!(steps.actions().quarantined, 0);
        assert_eq!(steps.said().last(), Some(&(Cause::Unstuck, Deed::Release)));
    }
}

#[test]
fn what_hung_on_a_disk_that_batch_does_not_use_accuses_nobody_when_it_comes_back() {
    let mut steps = Steps::open();
    steps.batch_share = [0.9, 0.0];
    stick(&mut steps, 1);
    steps.step();
    assert_eq!(steps.ladder.excused(0, steps.now), 0b10);
    steps.run(300 * S);
    steps.filesystems[1].stuck = false;
    assert_eq!(steps.ladder.excused(0, steps.now), 0b10, "all of it comes back in one tick");
    steps.step();
    // It takes a moment to work off what waited behind it.
    let released = steps.now;
    assert_eq!(steps.ladder.excused(0, released), 0b10);
    steps.run(2 * S);
    assert_eq!(steps.ladder.excused(0, steps.now), 0, "slow from then on is slow for a reason");
}

#[test]
fn a_suspect_that_stays_stuck_without_batch_is_dead_too() {
    let mut steps = Steps::open();
    stick(&mut steps, 0);
    steps.step();
    assert_eq!(steps.until_left(20 * S), 10 * S);
    assert_eq!(steps.said()[1], (Cause::BatchInnocent, Deed::Thaw));
    assert_eq!(steps.actions().quarantined, 0b01);
    steps.run(300 * S);
    assert_eq!(steps.state(), NodeState::Open, "a dead disk does not keep the node closed");
}

#[test]
fn a_segment_with_fewer_filesystems_forgets_the_others() {
    let mut steps = Steps::open();
    steps.batch_share = [0.0; 2];
    stick(&mut steps, 1);
    steps.step();
    let one = [steps.filesystems[0]];
    let inputs =
        policy::Inputs { verdicts: &steps.verdicts, filesystems: &one, self_check: true, ..policy::Inputs::default() };
    assert_eq!(steps.ladder.step(&inputs, steps.now + TICK).quarantined, 0);
}

#[test]
fn a_precaution_does_not_make_batch_look_innocent_of_a_stuck_disk() {
    let mut steps = Steps::open();
    steps.batch_share = [0.5, 0.0];
    steps.level(Level::Weak);
    steps.step();
    assert!(steps.actions().precaution);
    // Batch stands still, so its share is gone when the disk counts as stuck.
    steps.batch_share = [0.0; 2];
    steps.run(200 * MS);
    steps.filesystems[0].stuck = true;
    steps.filesystems[1].stuck = true;
    steps.step();
    assert!(steps.actions().hold.any() && !steps.actions().precaution);
    assert_eq!(steps.actions().quarantined, 0b10, "the one that batch did not use before either");
}

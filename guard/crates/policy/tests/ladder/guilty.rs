// SPDX-License-Identifier: Apache-2.0
//! Who is frozen: all at first, then the guilty alone, and all again if that does not help.
use crate::steps::{config, jobs, Steps, MS, S, TICK};
use intf::segment::{Kind, SeriesId};
use intf::state::NodeState;
use policy::{Cause, Deed, Hold, JobSet, Ladder, LadderConfig, Level};

/// Three jobs run, and job 1 makes the disk of filesystem 0 slow; who it is is not known yet.
fn breach(level: Level) -> Steps {
    breach_of(Steps::open(), level)
}

fn breach_of(mut steps: Steps, level: Level) -> Steps {
    steps.level(level);
    steps.verdicts[0].worst = Some(SeriesId { filesystem: 0, kind: Kind::STORAGE_READ });
    steps.step();
    assert_eq!(steps.actions().hold, Hold::All);
    steps
}

/// Job 1 did it, says who looked.
fn blame(steps: &mut Steps) {
    steps.guilty[0] = Some(jobs(&[1]));
    steps.batch_share_now[0] = 0.5;
}

fn narrowed() -> Steps {
    let mut steps = breach(Level::Strong);
    blame(&mut steps);
    steps.step();
    assert_eq!(steps.actions().hold, Hold::Jobs(jobs(&[1])));
    steps
}

#[test]
fn what_they_had_written_before_is_theirs_however_long_it_takes() {
    let mut steps = Steps::open();
    steps.level(Level::Strong);
    steps.verdicts[0].worst = Some(SeriesId { filesystem: 0, kind: Kind::STORAGE_READ });
    (steps.guilty[0], steps.batch_share_now[0]) = (Some([1].into_iter().collect()), 0.5);
    steps.run(3 * TICK);
    let only = Hold::Jobs([1].into_iter().collect());
    assert_eq!(steps.actions().hold, only);
    steps.held_work[0] = true;
    steps.run(60 * S);
    assert_eq!((steps.state(), steps.actions().hold), (NodeState::Frozen, only));
    // Not for ever: it leaves then.
    steps.run(config().freeze_max_ns - 60 * S);
    assert_eq!((steps.state(), steps.actions().leave), (NodeState::Vacating, only));
}

#[test]
fn they_have_all_the_patience_from_the_end_of_what_they_had_asked_for() {
    // Two dozen processes that wait for swap stand still only when the disk has answered each of them.
    let mut steps = narrowed();
    let only = steps.actions().hold;
    (steps.others_use[0], steps.held_work[0]) = (false, true);
    steps.run(7 * S);
    steps.held_work[0] = false;
    steps.run(3 * S);
    assert_eq!((steps.state(), steps.actions().hold), (NodeState::Frozen, only));
    steps.run(2 * S);
    assert_eq!((steps.state(), steps.actions().hold), (NodeState::Frozen, Hold::All), "but no more than that");
}

#[test]
fn the_innocent_run_on_as_soon_as_it_is_known_who_is_guilty() {
    let mut steps = narrowed();
    assert_eq!((steps.state(), steps.actions().filesystem), (NodeState::Frozen, Some(0)));
    assert_eq!(steps.said(), [(Cause::StrongEvidence, Deed::Freeze), (Cause::Guilty, Deed::Narrow)]);
    assert_eq!(steps.events[1].hold, Hold::Jobs(jobs(&[1])));
    // The evidence fades, and the guilty one is thawed like any other.
    steps.run(500 * MS);
    steps.level(Level::Calm);
    steps.until_left(10 * S);
    assert_eq!(steps.said().last(), Some(&(Cause::Calm, Deed::Thaw)));
    assert_eq!(steps.events.last().map(|e| e.hold), Some(Hold::Jobs(jobs(&[1]))), "whom it thawed");
    assert_eq!(steps.actions().hold, Hold::Nobody);
}

#[test]
fn a_precaution_is_of_all_and_what_it_becomes_is_of_the_guilty() {
    let mut steps = breach(Level::Weak);
    assert!(steps.actions().precaution);
    steps.guilty[0] = Some(jobs(&[1]));
    steps.run(200 * MS);
    assert_eq!(steps.actions().hold, Hold::All, "a precaution is short");
    steps.batch_share_now[0] = 0.5;
    steps.run(2 * TICK);
    assert_eq!(steps.actions().hold, Hold::Jobs(jobs(&[1])));
    let said = [(Cause::BatchUsesDisk, Deed::Extend), (Cause::Guilty, Deed::Narrow)];
    assert_eq!(steps.said()[1..], said);
}

#[test]
fn all_are_frozen_again_if_it_does_not_help_and_others_use_the_disk_too() {
    let mut steps = narrowed();
    steps.others_use[0] = true;
    steps.run(S - TICK);
    assert_eq!(steps.actions().hold, Hold::Jobs(jobs(&[1])));
    steps.step();
    assert_eq!(steps.actions().hold, Hold::All);
    assert_eq!(steps.said().last(), Some(&(Cause::GuiltyNotEnough, Deed::Widen)));
    // And it stays so: the same blame is not believed twice.
    steps.run(5 * S);
    assert_eq!(steps.actions().hold, Hold::All);
    assert_eq!(steps.events.len(), 3);
    // Batch as a whole is innocent when all of them have stood still for as long as a freeze may take to help.
    steps.run(5 * S - TICK);
    assert_eq!(steps.state(), NodeState::Frozen);
    steps.step();
    assert_eq!(steps.said().last(), Some(&(Cause::BatchInnocent, Deed::Thaw)));
}

#[test]
fn evidence_that_fades_is_given_its_time_where_nobody_else_uses_the_disk() {
    for level in [Level::Weak, Level::Strong] {
        let mut steps = narrowed();
        // Use of another disk is no matter.
        steps.others_use = [false, true];
        steps.level(level);
        steps.run(4 * S - TICK);
        assert_eq!(steps.actions().hold, Hold::Jobs(jobs(&[1])));
        steps.step();
        assert_eq!(steps.actions().hold, Hold::All);
    }
}

#[test]
fn evidence_on_another_disk_is_another_hog() {
    let mut steps = narrowed();
    steps.verdicts[0].worst = Some(SeriesId { filesystem: 1, kind: Kind::STORAGE_READ });
    steps.run(S);
    assert_eq!(steps.actions().hold, Hold::All);
}

#[test]
fn a_second_hog_is_met_like_the_first() {
    for (level, cause) in [(Level::Weak, Cause::BatchUsesDisk), (Level::Strong, Cause::StrongEvidence)] {
        let mut steps = narrowed();
        steps.level(Level::Calm);
        steps.run(500 * MS);
        steps.level(level);
        steps.step();
        assert_eq!(steps.actions().hold, Hold::Jobs(jobs(&[1])), "nobody else uses that disk");
        steps.others_use[0] = true;
        steps.step();
        assert_eq!(steps.actions().hold, Hold::All, "at once");
        assert_eq!(steps.said().last(), Some(&(cause, Deed::Widen)));
        // And the one who has no part in it runs on.
        (steps.guilty[0], steps.batch_share_now[0]) = (Some(jobs(&[2])), 0.5);
        steps.step();
        assert_eq!(steps.actions().hold, Hold::Jobs(jobs(&[1, 2])), "with the first, who is as guilty as before");
    }
}

#[test]
fn a_second_hog_that_begins_before_it_was_calm_is_limited_with_the_first() {
    let mut steps = narrowed();
    (steps.guilty[0], steps.others_use[0]) = (Some(jobs(&[2])), true);
    steps.run(S - TICK);
    assert_eq!(steps.actions().hold, Hold::Jobs(jobs(&[1])), "what the first had in flight takes its time");
    steps.run(2 * TICK);
    assert_eq!(steps.said()[2..], [(Cause::StrongEvidence, Deed::Widen), (Cause::Guilty, Deed::Narrow)]);
    assert_eq!(steps.actions().hold, Hold::Jobs(jobs(&[1, 2])), "who does nothing there runs on");
    steps.level(Level::Calm);
    steps.until_left(10 * S);
    assert_eq!(steps.state(), NodeState::Throttled);
    let throttle = steps.actions().throttles.of(0).unwrap();
    assert_eq!((throttle.jobs, throttle.share), (jobs(&[1, 2]), 0.0125));
}

#[test]
fn a_second_hog_on_another_disk_is_limited_there() {
    let mut steps = narrowed();
    steps.verdicts[0].worst = Some(SeriesId { filesystem: 1, kind: Kind::STORAGE_READ });
    (steps.guilty[1], steps.batch_share_now[1]) = (Some(jobs(&[2])), 0.5);
    steps.run(S + TICK);
    assert_eq!(steps.actions().hold, Hold::Jobs(jobs(&[1, 2])));
    steps.level(Level::Calm);
    steps.until_left(10 * S);
    let limited = [0, 1].map(|filesystem| steps.actions().throttles.of(filesystem).unwrap().jobs);
    assert_eq!(limited, [jobs(&[1]), jobs(&[2])]);
}

#[test]
fn nobody_else_is_named_while_the_disk_does_what_those_had_asked_for_who_stand_still() {
    let mut steps = narrowed();
    (steps.guilty[0], steps.others_use[0], steps.held_work[0]) = (Some(jobs(&[1, 2])), true, true);
    steps.run(S);
    assert_eq!(steps.said().last(), Some(&(Cause::GuiltyNotEnough, Deed::Widen)));
}

#[test]
fn a_request_that_hangs_names_nobody_else() {
    let mut steps = narrowed();
    steps.level(Level::Weak);
    (steps.guilty[0], steps.others_use[0]) = (Some(jobs(&[2])), true);
    steps.run(S - TICK);
    steps.filesystems[0].stuck = true;
    steps.step();
    assert_eq!(steps.said().last(), Some(&(Cause::GuiltyNotEnough, Deed::Widen)));
}

#[test]
fn two_hogs_that_make_no_difference_are_innocent() {
    let mut steps = narrowed();
    (steps.guilty[0], steps.others_use[0]) = (Some(jobs(&[2])), true);
    steps.run(30 * S);
    assert!(steps.said().contains(&(Cause::BatchInnocent, Deed::Thaw)), "{:?}", steps.said());
    assert!(steps.actions().throttles.is_empty());
}

#[test]
fn a_blip_after_it_was_calm_is_not_theirs_who_do_not_use_the_disk() {
    let mut steps = narrowed();
    steps.level(Level::Calm);
    steps.run(500 * MS);
    steps.level(Level::Weak);
    steps.run(8 * S);
    assert_eq!(steps.actions().hold, Hold::Jobs(jobs(&[1])));
    steps.level(Level::Strong);
    steps.step();
    assert_eq!(steps.actions().hold, Hold::All, "slow for more than four seconds, and now for sure");
}

#[test]
fn who_was_wrong_is_not_asked_again_for_a_while() {
    let mut steps = narrowed();
    steps.others_use[0] = true;
    steps.run(S);
    assert_eq!(steps.actions().hold, Hold::All);
    steps.level(Level::Calm);
    steps.until_left(10 * S);
    steps.run(5 * S);
    steps.level(Level::Strong);
    steps.run(S);
    assert_eq!((steps.state(), steps.actions().hold), (NodeState::Frozen, Hold::All), "the blame is not believed");
    steps.level(Level::Calm);
    steps.run(70 * S);
    steps.level(Level::Strong);
    steps.run(2 * TICK);
    assert_eq!(steps.actions().hold, Hold::Jobs(jobs(&[1])), "a minute later it is");
}

#[test]
fn who_has_next_to_no_share_of_the_disk_is_not_to_blame() {
    let mut steps = breach(Level::Strong);
    blame(&mut steps);
    for share in [0.19, f32::NAN] {
        steps.batch_share_now[0] = share;
        steps.run(200 * MS);
        assert_eq!(steps.actions().hold, Hold::All);
    }
}

#[test]
fn a_request_that_hangs_is_too_severe_to_look_for_the_guilty() {
    for later in [TICK, S] {
        let mut steps = narrowed();
        steps.level(Level::Calm);
        steps.run(later);
        steps.filesystems[0].stuck = true;
        steps.filesystems[0].oldest_ns = 0;
        steps.step();
        assert_eq!(steps.actions().hold, Hold::All, "those who run may have done it");
    }
    let mut steps = Steps::open();
    blame(&mut steps);
    steps.filesystems[0].stuck = true;
    steps.run(S);
    assert_eq!((steps.state(), steps.actions().hold), (NodeState::Frozen, Hold::All));
}

#[test]
fn nobody_is_let_go_when_all_are_guilty_or_who_is_guilty_is_not_known() {
    for guilty in [None, Some(jobs(&[0, 1, 2])), Some(jobs(&[7])), Some(JobSet::default())] {
        let mut steps = breach(Level::Strong);
        blame(&mut steps);
        steps.guilty[0] = guilty;
        steps.run(500 * MS);
        assert_eq!(steps.actions().hold, Hold::All, "{guilty:?}");
    }
    // Of three jobs that are there one cannot be told from the slice.
    let mut steps = breach(Level::Strong);
    blame(&mut steps);
    steps.jobs = None;
    steps.run(500 * MS);
    assert_eq!(steps.actions().hold, Hold::All);
}

#[test]
fn blame_on_another_disk_is_none() {
    let mut steps = breach(Level::Strong);
    blame(&mut steps);
    steps.guilty = [None, Some(jobs(&[1]))];
    steps.run(500 * MS);
    assert_eq!(steps.actions().hold, Hold::All);
}

#[test]
fn what_is_known_late_comes_too_late() {
    let mut steps = breach(Level::Strong);
    steps.run(S);
    blame(&mut steps);
    steps.run(S);
    assert_eq!(steps.actions().hold, Hold::All);
}

#[test]
fn an_administrator_may_want_all_of_them_frozen() {
    let config = LadderConfig { guilty_first: false, ..config() };
    let mut steps = Steps::with(Ladder::new(config, 1000 * S));
    steps.run(3 * S);
    steps.events.clear();
    let mut steps = breach_of(steps, Level::Strong);
    blame(&mut steps);
    steps.run(S);
    assert_eq!(steps.actions().hold, Hold::All);
}

#[test]
fn a_guard_that_comes_back_goes_on_with_those_whom_it_finds_frozen() {
    let mut steps = Steps::with(Ladder::adopt(config(), Hold::Jobs(jobs(&[1])), 1000 * S));
    steps.run(S);
    assert_eq!((steps.state(), steps.actions().hold), (NodeState::Frozen, Hold::Jobs(jobs(&[1]))));
    steps.until_left(10 * S);
    assert_eq!(steps.actions().hold, Hold::Nobody);
}

// SPDX-License-Identifier: Apache-2.0
//! Jobs leave: those who cannot run here without harm, those whose memory is needed, and in an emergency all of them.
use crate::steps::{config, jobs, Steps, MS, S, TICK};
use intf::segment::{Kind, SeriesId};
use intf::state::NodeState;
use policy::{Cause, Deed, GaugeState, Hold, JobSet, Ladder, LadderConfig, Level, Sign, Taker, Then};

/// Without limits, as for a job that does harm with little already.
fn unlimited() -> Steps {
    let config = LadderConfig { throttle: false, hold_ns: 10 * S, ..config() };
    let mut steps = Steps::with(Ladder::new(config, 1000 * S));
    steps.run(3 * S);
    steps.events.clear();
    steps
}

/// Job 1 makes filesystem 0 slow.
fn slow(steps: &mut Steps) {
    steps.level(Level::Strong);
    steps.verdicts[0].worst = Some(SeriesId { filesystem: 0, kind: Kind::STORAGE_READ });
    (steps.guilty[0], steps.batch_share_now[0]) = (Some(jobs(&[1])), 0.5);
}

fn calm(steps: &mut Steps) {
    steps.level(Level::Calm);
    steps.batch_share_now[0] = 0.0;
}

/// Attacks whenever it runs, for that long of each second that it is let.
fn attack_until(steps: &mut Steps, state: NodeState, limit: u64) {
    let start = steps.now;
    while steps.state() != state {
        assert!(steps.now - start < limit, "{:?}", steps.said());
        match steps.last.as_ref().is_some_and(|actions| actions.hold.any()) {
            true => {
                steps.run(200 * MS);
                calm(steps);
            }
            false => slow(steps),
        }
        steps.step();
    }
}

fn vacating() -> Steps {
    let mut steps = unlimited();
    attack_until(&mut steps, NodeState::Vacating, 400 * S);
    steps
}

#[test]
fn who_attacks_again_and_again_leaves_and_the_others_run_on() {
    let steps = vacating();
    let actions = steps.actions();
    assert_eq!(
        (actions.leave, actions.hold, actions.overdue),
        (Hold::Jobs(jobs(&[1])), Hold::Jobs(jobs(&[1])), Hold::Nobody)
    );
    let event = steps.events.last().unwrap();
    assert_eq!((event.cause, event.deed, event.hold), (Cause::StoodTooLong, Deed::Vacate, Hold::Jobs(jobs(&[1]))));
    let freezes = steps.said().iter().filter(|(_, deed)| *deed == Deed::Freeze).count();
    assert!((3..=6).contains(&freezes), "it had its chances: {freezes}");
}

#[test]
fn a_job_that_is_alone_leaves_too() {
    let mut steps = unlimited();
    (steps.jobs, steps.living) = (Some(1), jobs(&[1]));
    attack_until(&mut steps, NodeState::Vacating, 400 * S);
    assert_eq!((steps.actions().leave, steps.actions().hold), (Hold::Jobs(jobs(&[1])), Hold::All));
    steps.jobs = Some(0);
    steps.living = JobSet::default();
    steps.step();
    assert_eq!((steps.state(), steps.said().last()), (NodeState::Closed, Some(&(Cause::Left, Deed::Thaw))));
}

#[test]
fn who_attacks_once_in_a_while_stays() {
    let mut steps = unlimited();
    for _ in 0..30 {
        slow(&mut steps);
        steps.run(300 * MS);
        calm(&mut steps);
        steps.run(60 * S);
    }
    assert!(steps.said().iter().all(|(_, deed)| *deed != Deed::Vacate), "{:?}", steps.said());
}

#[test]
fn when_they_have_left_it_is_over() {
    let mut steps = vacating();
    calm(&mut steps);
    steps.run(30 * S);
    assert_eq!(steps.state(), NodeState::Vacating, "as long as it is there, and it is calm");
    steps.living = jobs(&[0, 2]);
    steps.step();
    assert_eq!((steps.state(), steps.actions().hold), (NodeState::Closed, Hold::Nobody));
    assert_eq!(steps.said().last(), Some(&(Cause::Left, Deed::Thaw)));
    steps.run(3 * S);
    assert_eq!(steps.state(), NodeState::Open);
    // Who is still there does not pay for them.
    slow(&mut steps);
    steps.step();
    assert_eq!(steps.ladder.counters().hold_ns, 10 * S);
}

#[test]
fn who_does_not_leave_in_time_makes_it_an_emergency() {
    let mut steps = vacating();
    calm(&mut steps);
    steps.run(config().vacate_deadline_ns);
    assert_eq!(
        (steps.state(), steps.said().last()),
        (NodeState::Emergency, Some(&(Cause::VacateOverdue, Deed::Evacuate)))
    );
    let actions = steps.actions();
    assert_eq!((actions.leave, actions.hold, actions.overdue), (Hold::All, Hold::All, Hold::Jobs(jobs(&[1]))));
    steps.run(config().vacate_deadline_ns);
    assert_eq!(steps.actions().overdue, Hold::All, "the others have had their time, too");
    // Until nobody is there, and for long after that.
    steps.run(2 * config().emergency_quiet_ns);
    assert_eq!(steps.state(), NodeState::Emergency);
    (steps.jobs, steps.living) = (Some(0), JobSet::default());
    steps.level(Level::Weak);
    steps.step();
    assert_eq!(
        (steps.state(), steps.actions().hold),
        (NodeState::Emergency, Hold::Nobody),
        "nobody is there to be frozen"
    );
    steps.level(Level::Calm);
    steps.run(config().emergency_quiet_ns);
    assert_eq!(steps.state(), NodeState::Emergency);
    steps.until_left(S);
    assert_eq!((steps.state(), steps.said().last()), (NodeState::Closed, Some(&(Cause::Quiet, Deed::Thaw))));
}

#[test]
fn an_operator_ends_an_emergency() {
    let mut steps = Steps::open();
    (steps.gauges[0].state, steps.gauges[0].then) = (GaugeState::Broken, Then::Emergency);
    steps.step();
    assert_eq!(
        (steps.state(), steps.said().last()),
        (NodeState::Emergency, Some(&(Cause::GaugeAbove, Deed::Evacuate)))
    );
    assert_eq!((steps.actions().leave, steps.actions().overdue), (Hold::All, Hold::Nobody));
    steps.gauges[0].state = GaugeState::Kept;
    steps.resumed = true;
    steps.step();
    assert_eq!((steps.state(), steps.actions().hold), (NodeState::Closed, Hold::Nobody));
    assert_eq!(steps.said().last(), Some(&(Cause::Resumed, Deed::Thaw)));
    // In any other state it means nothing to the ladder.
    steps.run(3 * S);
    assert_eq!(steps.state(), NodeState::Open);
}

#[test]
fn where_memory_is_needed_the_youngest_leaves_and_then_the_next() {
    let mut steps = Steps::open();
    (steps.gauges[0].state, steps.gauges[0].then) = (GaugeState::Broken, Then::Vacate);
    steps.step();
    assert_eq!((steps.state(), steps.actions().leave), (NodeState::Vacating, Hold::Jobs(jobs(&[2]))));
    assert_eq!(steps.actions().hold, Hold::Jobs(jobs(&[2])), "the others run on");
    (steps.jobs, steps.living) = (Some(2), jobs(&[0, 1]));
    steps.step();
    assert_eq!(steps.state(), NodeState::Closed);
    steps.run(9 * S);
    assert_eq!(steps.state(), NodeState::Closed, "it takes a moment until it shows");
    steps.run(S + TICK);
    assert_eq!((steps.state(), steps.actions().leave), (NodeState::Vacating, Hold::Jobs(jobs(&[1]))));
    (steps.jobs, steps.living) = (Some(1), jobs(&[0]));
    steps.gauges[0].state = GaugeState::Kept;
    steps.run(20 * S);
    assert_eq!((steps.state(), steps.actions().leave), (NodeState::Open, Hold::Nobody), "that was enough");
}

#[test]
fn what_was_read_before_somebody_left_or_is_below_its_limit_by_now_sends_nobody_away() {
    let mut steps = Steps::open();
    (steps.gauges[0].state, steps.gauges[0].then) = (GaugeState::Broken, Then::Vacate);
    steps.step();
    (steps.jobs, steps.living) = (Some(2), jobs(&[0, 1]));
    steps.step();
    assert_eq!(steps.state(), NodeState::Closed);
    // Nine of the ten seconds that it is about are since then.
    steps.gauges_read = Some(steps.now + 9 * S);
    steps.run(30 * S);
    assert_eq!(steps.state(), NodeState::Closed, "no newer value is there");
    // It is down, and not for long enough that it would be said to be kept.
    steps.gauges_read = None;
    steps.gauges[0].measure.value = 0.1;
    steps.run(5 * S);
    assert_eq!(steps.state(), NodeState::Closed);
    steps.gauges[0].measure.value = 0.2;
    steps.step();
    assert_eq!((steps.state(), steps.actions().leave), (NodeState::Vacating, Hold::Jobs(jobs(&[1]))));
}

#[test]
fn what_an_operator_has_seen_is_no_new_emergency() {
    let mut steps = Steps::open();
    (steps.gauges[0].state, steps.gauges[0].then) = (GaugeState::Broken, Then::Emergency);
    steps.step();
    steps.gauges_read = Some(steps.now);
    steps.resumed = true;
    steps.step();
    steps.resumed = false;
    steps.run(S);
    assert_eq!(steps.state(), NodeState::Closed, "it was read before");
    steps.gauges_read = None;
    steps.gauges[0].measure.value = 0.0;
    steps.run(S);
    assert_eq!(steps.state(), NodeState::Closed, "it is over, and not for long");
    steps.gauges[0].measure.value = 0.2;
    steps.step();
    assert_eq!(steps.state(), NodeState::Emergency, "again");
}

#[test]
fn a_gauge_that_is_read_seldom_hides_no_other() {
    let mut steps = Steps::open();
    (steps.gauges[0].state, steps.gauges[0].then) = (GaugeState::Broken, Then::Vacate);
    steps.gauges.push(steps.gauges[0]);
    steps.step();
    (steps.jobs, steps.living) = (Some(2), jobs(&[0, 1]));
    steps.step();
    steps.seldom = Some((0, steps.now));
    steps.run(10 * S + 2 * TICK);
    assert_eq!((steps.state(), steps.actions().leave), (NodeState::Vacating, Hold::Jobs(jobs(&[1]))));
    assert_eq!(steps.events.last().unwrap().gauge, Some(1));
}

#[test]
fn who_took_most_of_the_memory_leaves_and_not_the_youngest() {
    const MIB: u64 = 1 << 20;
    let mut steps = Steps::open();
    (steps.gauges[0].state, steps.gauges[0].then) = (GaugeState::Broken, Then::Vacate);
    steps.gauges[0].of_memory = true;
    steps.taker = Some(Taker { place: 0, sign: Sign::Growth { bytes: 900 * MIB, of: 1000 * MIB } });
    steps.step();
    assert_eq!((steps.state(), steps.actions().leave), (NodeState::Vacating, Hold::Jobs(jobs(&[0]))));
    assert_eq!((steps.actions().hold, steps.actions().reason), (Hold::Jobs(jobs(&[0])), Cause::MemoryGrowth));
    assert_eq!(steps.events[0].taker, steps.taker, "the journal says why");
    // What was said of one who has gone is said of nobody: now it is the youngest.
    (steps.jobs, steps.living) = (Some(2), jobs(&[1, 2]));
    steps.run(10 * S + 2 * TICK);
    assert_eq!((steps.state(), steps.actions().leave), (NodeState::Vacating, Hold::Jobs(jobs(&[2]))));
    let last = steps.events.last().unwrap();
    assert_eq!((last.cause, last.deed, last.taker), (Cause::GaugeAbove, Deed::Vacate, None));
}

#[test]
fn who_waits_most_for_memory_leaves_and_not_the_youngest() {
    let mut steps = Steps::open();
    (steps.gauges[0].state, steps.gauges[0].then) = (GaugeState::Broken, Then::Vacate);
    steps.gauges[0].of_memory = true;
    steps.taker = Some(Taker { place: 1, sign: Sign::Wait { us: 40_000_000, of: 42_000_000 } });
    steps.step();
    assert_eq!((steps.state(), steps.actions().leave), (NodeState::Vacating, Hold::Jobs(jobs(&[1]))));
    assert_eq!((steps.actions().reason, steps.events[0].taker), (Cause::MemoryWait, steps.taker));
}

#[test]
fn memory_is_no_reason_where_another_gauge_asks() {
    let mut steps = Steps::open();
    (steps.gauges[0].state, steps.gauges[0].then) = (GaugeState::Broken, Then::Vacate);
    steps.taker = Some(Taker { place: 0, sign: Sign::Growth { bytes: 1 << 30, of: 1 << 30 } });
    steps.step();
    assert_eq!(steps.actions().leave, Hold::Jobs(jobs(&[2])));
}

#[test]
fn a_gauge_that_is_not_heard_throws_nobody_out() {
    for then in [Then::Vacate, Then::Emergency] {
        let mut steps = Steps::open();
        (steps.gauges[0].state, steps.gauges[0].then) = (GaugeState::Stale, then);
        steps.run(30 * S);
        assert_eq!((steps.state(), steps.actions().leave), (NodeState::Closed, Hold::Nobody));
    }
}

#[test]
fn jobs_leave_also_while_all_of_them_stand_still() {
    for order in [false, true] {
        let mut steps = Steps::open();
        steps.ordered = order;
        steps.level(if order { Level::Calm } else { Level::Strong });
        steps.run(S);
        assert_eq!(steps.state(), NodeState::Frozen);
        (steps.gauges[0].state, steps.gauges[0].then) = (GaugeState::Broken, Then::Vacate);
        steps.step();
        assert_eq!((steps.actions().leave, steps.actions().hold), (Hold::Jobs(jobs(&[2])), Hold::All));
        (steps.jobs, steps.living) = (Some(2), jobs(&[0, 1]));
        steps.step();
        assert_eq!((steps.state(), steps.actions().hold), (NodeState::Frozen, Hold::All), "a freeze has no holes");
    }
}

#[test]
fn the_others_do_not_wait_for_who_leaves() {
    let mut steps = Steps::open();
    steps.level(Level::Strong);
    steps.run(500 * MS);
    (steps.gauges[0].state, steps.gauges[0].then) = (GaugeState::Broken, Then::Vacate);
    steps.step();
    assert_eq!((steps.state(), steps.actions().hold), (NodeState::Vacating, Hold::All));
    steps.level(Level::Calm);
    steps.run(3 * S);
    assert_eq!((steps.state(), steps.actions().hold), (NodeState::Vacating, Hold::Jobs(jobs(&[2]))));
}

#[test]
fn an_emergency_comes_back_with_new_jobs() {
    let mut steps = Steps::open();
    (steps.gauges[0].state, steps.gauges[0].then) = (GaugeState::Broken, Then::Emergency);
    steps.step();
    (steps.jobs, steps.living) = (Some(0), JobSet::default());
    steps.run(S);
    assert_eq!((steps.state(), steps.actions().hold), (NodeState::Emergency, Hold::Nobody));
    assert_eq!((steps.said().last(), steps.actions().reason), (Some(&(Cause::Left, Deed::Thaw)), Cause::GaugeAbove));
    (steps.jobs, steps.living) = (Some(1), jobs(&[0]));
    steps.step();
    assert_eq!(
        (steps.state(), steps.actions().hold, steps.actions().leave),
        (NodeState::Emergency, Hold::All, Hold::All)
    );
}

#[test]
fn what_others_do_meanwhile_is_not_overlooked() {
    let mut steps = vacating();
    calm(&mut steps);
    steps.run(S);
    steps.level(Level::Strong);
    steps.verdicts[0].worst = Some(SeriesId { filesystem: 1, kind: Kind::STORAGE_READ });
    steps.step();
    assert_eq!((steps.state(), steps.actions().hold), (NodeState::Vacating, Hold::All));
    assert_eq!(steps.actions().leave, Hold::Jobs(jobs(&[1])), "they do not have to leave for it");
}

#[test]
fn who_stands_still_for_what_he_did_does_so_also_when_another_has_left() {
    let mut steps = unlimited();
    slow(&mut steps);
    steps.run(300 * MS);
    assert_eq!((steps.state(), steps.actions().hold), (NodeState::Frozen, Hold::Jobs(jobs(&[1]))));
    calm(&mut steps);
    steps.run(S);
    (steps.gauges[0].state, steps.gauges[0].then) = (GaugeState::Broken, Then::Vacate);
    steps.step();
    assert_eq!((steps.state(), steps.actions().leave), (NodeState::Vacating, Hold::Jobs(jobs(&[2]))));
    steps.gauges[0].state = GaugeState::Kept;
    (steps.jobs, steps.living) = (Some(2), jobs(&[0, 1]));
    steps.step();
    assert_eq!(steps.state(), NodeState::Frozen);
    assert!(steps.actions().hold.touches(1) && steps.actions().leave == Hold::Nobody);
    steps.run(8 * S);
    assert_eq!(steps.state(), NodeState::Frozen, "for ten seconds in all");
    steps.run(2 * S);
    assert_eq!((steps.state(), steps.actions().hold), (NodeState::Open, Hold::Nobody));
}

#[test]
fn an_emergency_outlives_the_guard() {
    for (jobs_left, hold) in [(Some(0), Hold::Nobody), (Some(3), Hold::Jobs(jobs(&[1])))] {
        let mut steps = Steps::with(Ladder::adopt_emergency(config(), hold, 1000 * S));
        steps.jobs = jobs_left;
        steps.living = if jobs_left == Some(0) { JobSet::default() } else { steps.living };
        steps.step();
        let actions = steps.actions();
        assert_eq!((actions.state, actions.leave, actions.admit), (NodeState::Emergency, Hold::All, false));
        assert_eq!(actions.hold, if jobs_left == Some(0) { Hold::Nobody } else { Hold::All });
        (steps.jobs, steps.living) = (Some(0), JobSet::default());
        steps.run(config().emergency_quiet_ns - S);
        assert_eq!(steps.state(), NodeState::Emergency);
        steps.run(4 * S);
        assert_ne!(steps.state(), NodeState::Emergency);
    }
}

#[test]
fn whoever_gets_the_place_of_one_who_left_does_not_stand_still_for_him() {
    let mut steps = Steps::open();
    slow(&mut steps);
    steps.run(500 * MS);
    assert_eq!(steps.actions().hold, Hold::Jobs(jobs(&[1])));
    (steps.gauges[0].state, steps.gauges[0].then) = (GaugeState::Broken, Then::Vacate);
    steps.step();
    assert_eq!((steps.actions().leave, steps.actions().hold), (Hold::Jobs(jobs(&[2])), Hold::Jobs(jobs(&[1, 2]))));
    steps.gauges[0].state = GaugeState::Kept;
    steps.living = jobs(&[0, 1]);
    steps.step();
    steps.living = jobs(&[0, 1, 2]);
    steps.step();
    assert_eq!((steps.state(), steps.actions().hold), (NodeState::Frozen, Hold::Jobs(jobs(&[1]))));
}

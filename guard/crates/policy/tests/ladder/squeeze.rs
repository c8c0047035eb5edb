// SPDX-License-Identifier: Apache-2.0
//! Batch as a whole gets less CPU or memory.
use crate::steps::{config, Steps, MS, S, TICK};
use intf::segment::{Kind, SeriesId};
use intf::state::NodeState;
use policy::event::{Measure, Unit};
use policy::{
    Cause, Deed, GaugeState, GaugeVerdict, Hold, JobSet, Ladder, LadderConfig, Level, Resource, SignalState, Then,
};

fn gauge(value: f64, resource: Resource) -> GaugeVerdict {
    GaugeVerdict {
        source: 0,
        state: if value > 0.1 { GaugeState::Broken } else { GaugeState::Kept },
        measure: Measure { value, limit: 0.1, unit: Unit::Share },
        since_ns: 1,
        read_ns: 1,
        then: Then::Throttle(resource),
        of_memory: resource == Resource::Memory,
    }
}

fn shares(steps: &Steps) -> (f32, f32) {
    let shares = steps.actions().shares;
    (shares.of(Resource::Cpu), shares.of(Resource::Memory))
}

/// Short of CPU for so long.
fn short(seconds: u64) -> Steps {
    let mut steps = Steps::new();
    steps.run(3 * S);
    steps.events.clear();
    steps.gauges = vec![gauge(0.5, Resource::Cpu)];
    steps.run(seconds * S);
    steps
}

#[test]
fn what_storage_is_short_of_batch_gets_less_of_and_nobody_stands_still() {
    let steps = short(15);
    assert_eq!(shares(&steps), (0.25, 1.0));
    let now = (steps.state(), steps.actions().hold, steps.actions().admit);
    assert_eq!(now, (NodeState::Throttled, Hold::Nobody, false));
    let less = (Cause::GaugeAbove, Deed::Squeeze(Resource::Cpu));
    assert_eq!(steps.said(), [(Cause::GaugeAbove, Deed::Close), less, less]);
    assert_eq!((steps.events[1].gauge, steps.events[1].measure.map(|m| m.value)), (Some(0), Some(0.5)));
}

#[test]
fn a_gauge_that_is_read_once_in_minutes_moves_it_once_in_minutes() {
    let mut steps = short(1);
    assert_eq!(shares(&steps).0, 0.5);
    steps.gauges_read = Some(steps.now);
    steps.run(120 * S);
    assert_eq!(shares(&steps).0, 0.5, "neither less, for what was before, nor in vain");
    steps.gauges_read = Some(steps.now);
    steps.run(120 * S);
    assert_eq!(shares(&steps).0, 0.25);
    steps.gauges = vec![gauge(0.05, Resource::Cpu)];
    steps.gauges_read = Some(steps.now);
    steps.run(120 * S);
    assert!((shares(&steps).0 - 0.35).abs() < 1e-3, "{:?}", shares(&steps));
}

#[test]
fn what_is_above_for_a_moment_only_is_no_reason_to_give_it_more() {
    let mut steps = short(15);
    steps.gauges = vec![GaugeVerdict { state: GaugeState::Kept, ..gauge(0.5, Resource::Cpu) }];
    steps.run(60 * S);
    assert_eq!(shares(&steps).0, 0.25);
}

#[test]
fn it_gets_it_back_bit_by_bit_and_not_before_it_is_over_for_long() {
    let mut steps = short(15);
    // Below, and not for long enough that the gauge would say so.
    steps.gauges[0].measure.value = 0.05;
    steps.run(30 * S);
    assert_eq!(shares(&steps), (0.25, 1.0));
    steps.gauges = vec![gauge(0.05, Resource::Cpu)];
    steps.run(31 * S);
    assert!((shares(&steps).0 - 0.55).abs() < 1e-3, "{:?}", shares(&steps));
    assert_eq!((steps.state(), steps.actions().admit), (NodeState::Throttled, true), "new jobs share what there is");
    steps.run(60 * S);
    assert_eq!((shares(&steps), steps.state()), ((1.0, 1.0), NodeState::Open));
    assert_eq!(steps.said().last(), Some(&(Cause::SqueezeOver, Deed::Restore(Resource::Cpu))));
}

#[test]
fn batch_that_is_innocent_gets_all_of_it_back_and_is_left_alone_for_a_while() {
    let steps = short(60);
    let vain: Vec<_> = steps.said().into_iter().filter(|(cause, _)| *cause == Cause::SqueezeInVain).collect();
    assert_eq!((vain, shares(&steps).0), (vec![(Cause::SqueezeInVain, Deed::Restore(Resource::Cpu))], 1.0));
    assert_eq!(steps.state(), NodeState::Closed, "storage is short of it all the same");
}

/// Slow, frozen for it, and thawed when it has been calm.
fn slow(steps: &mut Steps) {
    steps.level(Level::Strong);
    steps.verdicts[0].worst = Some(SeriesId { filesystem: 0, kind: Kind::STORAGE_READ });
    steps.until_left(20 * S);
    assert_eq!(steps.state(), NodeState::Frozen);
    steps.run(500 * MS);
    steps.level(Level::Calm);
    steps.batch_share_now[0] = 0.0;
    steps.until_left(60 * S);
    assert_eq!((steps.said().last().map(|said| said.0), steps.actions().hold), (Some(Cause::Calm), Hold::Nobody));
}

#[test]
fn where_it_is_slow_each_time_that_batch_runs_and_for_no_disk_batch_gets_less_cpu() {
    let mut steps = Steps::open();
    steps.living = JobSet::default();
    slow(&mut steps);
    assert_eq!(shares(&steps), (1.0, 1.0), "once is chance");
    steps.run(5 * S);
    steps.events.clear();
    for share in [0.5, 0.25] {
        steps.run(S);
        steps.level(Level::Strong);
        steps.run(500 * MS);
        steps.level(Level::Calm);
        steps.until_left(60 * S);
        assert_eq!(shares(&steps), (share, 1.0));
    }
    let less = |event: &&policy::Event| event.cause == Cause::SlowBesideBatch;
    let said: Vec<_> = steps.events.iter().filter(less).map(|event| (event.deed, event.objective)).collect();
    assert_eq!(said, [(Deed::Squeeze(Resource::Cpu), Some(0)); 2]);
    // What is slow now is no reason to give it more, whoever is to blame.
    let before = shares(&steps).0;
    steps.level(Level::Weak);
    steps.batch_share[0] = 0.0;
    steps.run(4 * S);
    steps.level(Level::Calm);
    assert!(shares(&steps).0 <= before);
    steps.run(100 * S);
    assert!((0.4..0.5).contains(&shares(&steps).0), "half of it was too much a moment ago: {:?}", shares(&steps));
    steps.run(100 * S);
    assert_eq!((shares(&steps), steps.state()), ((1.0, 1.0), NodeState::Open));
    assert_eq!(steps.said().last(), Some(&(Cause::SqueezeOver, Deed::Restore(Resource::Cpu))));
}

/// Slow each time that batch runs, of which no disk says whose doing it is; calm from now on in the second freeze.
fn frozen_again() -> Steps {
    let mut steps = Steps::open();
    steps.living = JobSet::default();
    slow(&mut steps);
    steps.run(6 * S);
    steps.level(Level::Strong);
    steps.run(500 * MS);
    steps.level(Level::Calm);
    steps
}

#[test]
fn nobody_runs_again_before_less_cpu_is_so_and_what_is_slow_until_then_is_nobodys() {
    let mut steps = frozen_again();
    steps.less_awaited = true;
    steps.run(30 * S);
    assert_eq!((shares(&steps), steps.state()), ((0.5, 1.0), NodeState::Frozen));
    // To tell systemd of it takes CPU, too.
    steps.level(Level::Strong);
    steps.run(5 * S);
    steps.level(Level::Calm);
    steps.less_awaited = false;
    steps.run(S);
    assert_eq!(steps.state(), NodeState::Frozen, "calm counts from now on");
    steps.until_left(10 * S);
    assert_eq!((shares(&steps), steps.actions().hold), ((0.5, 1.0), Hold::Nobody));
    assert_eq!(steps.said().last().map(|said| said.0), Some(Cause::Calm));
}

#[test]
fn calm_counts_from_less_cpu_on_also_where_that_is_so_at_once() {
    let mut steps = frozen_again();
    while shares(&steps).0 > 0.5 {
        steps.step();
    }
    assert_eq!(steps.state(), NodeState::Frozen);
    assert!(steps.until_left(10 * S) >= 2 * S, "systemd itself may just have taken CPU for it");
}

#[test]
fn who_makes_a_disk_slow_gets_less_of_that_disk_and_batch_as_a_whole_nothing_less() {
    let mut steps = Steps::open();
    for _ in 0..3 {
        steps.guilty[0] = Some([1].into_iter().collect());
        steps.batch_share_now[0] = 0.5;
        slow(&mut steps);
        assert_eq!((shares(&steps), steps.state()), ((1.0, 1.0), NodeState::Throttled));
        steps.run(S);
    }
    // What an operator asks for is nobody's fault.
    let mut steps = Steps::open();
    for _ in 0..3 {
        steps.ordered = true;
        steps.run(2 * S);
        steps.ordered = false;
        steps.run(S);
        assert_eq!(shares(&steps), (1.0, 1.0));
    }
}

#[test]
fn a_hog_that_leaves_while_it_stands_still_is_no_reason_for_others_to_have_less() {
    let mut steps = Steps::open();
    for _ in 0..3 {
        (steps.guilty[0], steps.batch_share_now[0]) = (Some([1].into_iter().collect()), 0.5);
        steps.level(Level::Strong);
        steps.verdicts[0].worst = Some(SeriesId { filesystem: 0, kind: Kind::STORAGE_READ });
        steps.run(500 * MS);
        assert_eq!(steps.state(), NodeState::Frozen);
        steps.level(Level::Calm);
        steps.batch_share_now[0] = 0.0;
        (steps.living, steps.jobs) = ([0, 2].into_iter().collect(), Some(2));
        steps.run(20 * S);
        assert_eq!((shares(&steps), steps.actions().hold), ((1.0, 1.0), Hold::Nobody));
        (steps.living, steps.jobs) = ([0, 1, 2].into_iter().collect(), Some(3));
        steps.step();
    }
}

#[test]
fn where_next_to_no_cpu_is_still_too_much_batch_gets_all_of_it_back() {
    let mut steps = Steps::open();
    steps.living = JobSet::default();
    for _ in 0..7 {
        steps.level(Level::Strong);
        steps.run(500 * MS);
        steps.level(Level::Calm);
        steps.until_left(60 * S);
        steps.run(S);
    }
    assert_eq!(shares(&steps), (1.0, 1.0), "half of it five times, and then in vain");
    let restored = steps.events.iter().find(|event| event.deed == Deed::Restore(Resource::Cpu)).unwrap();
    assert_eq!((restored.cause, restored.objective), (Cause::ThrottleNotEnough, Some(0)));
}

#[test]
fn of_a_silence_nobody_gets_all_back_at_once_because_storage_is_slow_after_it() {
    let mut steps = deaf(SignalState::Stale, 40);
    steps.verdicts[1].signal = SignalState::Fresh;
    steps.run(100 * MS);
    steps.living = JobSet::default();
    slow(&mut steps);
    assert!(shares(&steps).0 < 0.2, "{:?}", shares(&steps));
}

#[test]
fn who_only_says_what_he_would_do_does_not_say_that() {
    let mut steps = Steps::with(Ladder::new(LadderConfig { dry_run: true, ..config() }, 1000 * S));
    steps.run(3 * S);
    for _ in 0..3 {
        slow(&mut steps);
        steps.run(S);
    }
    assert!(!steps.said().iter().any(|(cause, _)| *cause == Cause::SlowBesideBatch), "{:?}", steps.said());
}

#[test]
fn two_gauges_and_two_resources() {
    let mut steps = short(1);
    steps.gauges = vec![gauge(0.0, Resource::Cpu), gauge(0.5, Resource::Cpu), gauge(0.5, Resource::Memory)];
    steps.run(S);
    assert_eq!(shares(&steps), (0.5, 0.5), "one that is short is enough");
    steps.gauges =
        vec![gauge(0.0, Resource::Cpu), GaugeVerdict { state: GaugeState::Stale, ..gauge(0.0, Resource::Cpu) }];
    steps.run(60 * S);
    assert_eq!(shares(&steps).0, 0.5, "nobody knows");
    assert_eq!(shares(&steps).1, 1.0, "no gauge asks for it any more");
    steps.jobs = Some(0);
    steps.step();
    assert_eq!(shares(&steps).0, 1.0, "there is nobody to have it");
}

/// One objective is not heard any more; for so long.
fn deaf(signal: SignalState, seconds: u64) -> Steps {
    let mut steps = Steps::new();
    steps.run(3 * S);
    steps.events.clear();
    steps.verdicts[1].signal = signal;
    steps.run(seconds * S);
    steps
}

#[test]
fn who_does_not_hear_storage_for_long_leaves_batch_its_least_and_freezes_nobody() {
    for (signal, cause) in [(SignalState::Stale, Cause::SignalStale), (SignalState::Missing, Cause::SignalMissing)] {
        let mut steps = deaf(signal, 30);
        assert_eq!((shares(&steps), steps.actions().least, steps.state()), ((1.0, 1.0), false, NodeState::Closed));
        steps.run(2 * TICK);
        let least = |steps: &Steps| (shares(steps), steps.actions().least, steps.actions().hold);
        assert_eq!(least(&steps), ((0.05, 1.0), true, Hold::Nobody));
        steps.run(600 * S);
        assert_eq!((least(&steps), steps.state()), (((0.05, 1.0), true, Hold::Nobody), NodeState::Throttled));
        assert!(!steps.actions().admit);
        assert_eq!(steps.said(), [(cause, Deed::Close), (cause, Deed::Squeeze(Resource::Cpu))]);
        assert_eq!(steps.events[1].objective, Some(1));
        // What is heard again is trusted bit by bit.
        steps.verdicts[1].signal = SignalState::Fresh;
        steps.run(9 * S);
        assert_eq!((least(&steps), steps.actions().admit), (((0.05, 1.0), false, Hold::Nobody), true));
        steps.run(2 * S);
        assert!((shares(&steps).0 - 0.15).abs() < 1e-3, "{:?}", shares(&steps));
        steps.run(100 * S);
        assert_eq!(shares(&steps), (1.0, 1.0));
        assert_eq!(steps.said().last(), Some(&(Cause::SqueezeOver, Deed::Restore(Resource::Cpu))));
    }
}

#[test]
fn a_moment_of_silence_is_none_and_every_silence_is_its_own() {
    let mut steps = deaf(SignalState::Stale, 29);
    for _ in 0..9 {
        steps.verdicts[1].signal = SignalState::Fresh;
        steps.step();
        steps.verdicts[1].signal = SignalState::Stale;
        steps.run(29 * S);
    }
    assert_eq!((shares(&steps).0, steps.actions().least), (1.0, false));
    let never = LadderConfig { stale_floor_ns: 0, ..config() };
    let mut steps = Steps::with(Ladder::new(never, 1000 * S));
    steps.verdicts[0].signal = SignalState::Missing;
    steps.run(3600 * S);
    assert_eq!((shares(&steps).0, steps.actions().least), (1.0, false), "a site may want that");
}

#[test]
fn what_a_silence_took_is_not_taken_for_in_vain_when_storage_turns_out_to_be_short() {
    let mut steps = deaf(SignalState::Stale, 40);
    steps.verdicts[1].signal = SignalState::Fresh;
    steps.gauges = vec![gauge(0.5, Resource::Cpu)];
    steps.run(120 * S);
    assert_eq!(shares(&steps).0, 0.05);
    steps.jobs = Some(0);
    steps.verdicts[1].signal = SignalState::Stale;
    steps.run(40 * S);
    assert_eq!(shares(&steps).0, 1.0, "there is nobody to have it");
    assert!(steps.actions().least, "batch of other nodes may be there");
}

#[test]
fn of_a_freeze_they_come_back_with_as_little_as_they_had_and_the_node_is_open_when_they_have_all() {
    let mut steps = short(15);
    steps.ordered = true;
    steps.step();
    assert_eq!(steps.state(), NodeState::Frozen);
    steps.ordered = false;
    steps.run(S);
    assert_eq!((steps.state(), shares(&steps).0), (NodeState::Throttled, 0.25));
    assert_eq!(steps.said().last(), Some(&(Cause::OrderOver, Deed::Thaw)));
    steps.gauges = vec![gauge(0.05, Resource::Cpu)];
    steps.run(3 * S);
    assert!(steps.actions().admit);
    // After a freeze new jobs wait for slack, as ever.
    steps.ordered = true;
    steps.step();
    steps.ordered = false;
    steps.step();
    assert_eq!((steps.state(), steps.actions().admit), (NodeState::Throttled, false));
    steps.drained = true;
    steps.step();
    assert_eq!((steps.state(), steps.actions().reason), (NodeState::Throttled, Cause::Drained));
    steps.drained = false;
    // A precaution is over where it began.
    steps.level(Level::Weak);
    steps.step();
    assert_eq!(steps.state(), NodeState::Frozen);
    steps.run(2 * S);
    assert_eq!(steps.state(), NodeState::Throttled);
    steps.level(Level::Calm);
    steps.run(120 * S);
    assert_eq!((steps.state(), shares(&steps).0), (NodeState::Open, 1.0));
    // With nobody there who could have less there is nothing to throttle.
    let mut steps = short(15);
    steps.jobs = Some(0);
    steps.step();
    assert_eq!((steps.state(), shares(&steps).0), (NodeState::Closed, 1.0));
    assert_eq!(steps.said().last(), Some(&(Cause::SqueezeOver, Deed::Restore(Resource::Cpu))));
}

#[test]
fn while_all_stand_still_nothing_is_learned_from_it() {
    let mut steps = short(1);
    steps.ordered = true;
    steps.run(60 * S);
    assert_eq!((steps.state(), shares(&steps)), (NodeState::Frozen, (0.5, 1.0)));
}

// SPDX-License-Identifier: Apache-2.0
//! What must hold whatever happens.

use crate::steps::{config, Steps, S, TICK};
use intf::segment::{Kind, SeriesId};
use intf::state::NodeState;
use policy::{Cause, Deed, GaugeState, Hold, JobSet, Level, Resource, Shares, SignalState, SlowEnd, Then, Use};
use proptest::prelude::*;

/// Something that lasts for a number of ticks.
#[derive(Clone, Debug)]
struct Spell {
    ticks: u32,
    levels: [Level; 2],
    signals: [SignalState; 2],
    stuck: [bool; 2],
    share: f32,
    /// Storage requests in flight.
    clients: u32,
    batch_in_flight: u32,
    jobs: Option<u32>,
    /// Places 0 to 2, bit by bit.
    guilty: Option<u8>,
    living: u8,
    slack: f64,
    self_check: bool,
    gauge: GaugeState,
    then: Then,
}

fn spell() -> impl Strategy<Value = Spell> {
    let level = || prop_oneof![3 => Just(Level::Calm), 1 => Just(Level::Weak), 3 => Just(Level::Strong)];
    let signal =
        || prop_oneof![8 => Just(SignalState::Fresh), 1 => Just(SignalState::Stale), 1 => Just(SignalState::Missing)];
    let stuck = || prop::bool::weighted(0.1);
    let share = prop_oneof![Just(0.0f32), Just(0.5), Just(f32::NAN)];
    let jobs = prop_oneof![4 => Just(Some(3)), 1 => Just(Some(0)), 1 => Just(None)];
    let gauge = prop_oneof![8 => Just(GaugeState::Kept), 1 => Just(GaugeState::Broken), 1 => Just(GaugeState::Stale)];
    let less = Resource::ALL.map(Then::Throttle).to_vec();
    let then = prop_oneof![Just(Then::Close), Just(Then::Vacate), Just(Then::Emergency), prop::sample::select(less)];
    let ticks = prop_oneof![3 => 1u32..20, 2 => 20u32..500, 1 => 500u32..8000];
    (
        ticks,
        [level(), level()],
        [signal(), signal()],
        [stuck(), stuck()],
        share,
        (0u32..2, 0u32..2),
        (jobs, prop::option::of(0u8..8), prop_oneof![3 => Just(7u8), 1 => 0u8..8]),
        (-1.0f64..1.0, prop::bool::weighted(0.95)),
        (gauge, then),
    )
        .prop_map(|(ticks, levels, signals, stuck, share, (clients, batch_in_flight), who, own, gauge)| {
            let ((jobs, guilty, living), (slack, self_check), (gauge, then)) = (who, own, gauge);
            Spell {
                ticks,
                levels,
                signals,
                stuck,
                share,
                clients,
                batch_in_flight,
                jobs,
                guilty,
                living,
                slack,
                self_check,
                gauge,
                then,
            }
        })
}

fn jobs(bits: u8) -> JobSet {
    (0..3).filter(|place| (bits >> place) & 1 == 1).collect()
}

fn set(steps: &mut Steps, spell: &Spell) {
    for i in 0..2 {
        steps.verdicts[i].level = spell.levels[i];
        steps.verdicts[i].signal = spell.signals[i];
        steps.verdicts[i].worst = Some(SeriesId { filesystem: i as u16, kind: Kind::STORAGE_READ });
        steps.guilty[i] = spell.guilty.map(jobs);
        steps.verdicts[i].slack = spell.slack;
        steps.filesystems[i].stuck = spell.stuck[i];
        steps.filesystems[i].batch_in_flight = spell.batch_in_flight;
        steps.filesystems[i].storage_in_flight = spell.clients;
        let slow = if spell.clients > 0 { 1.0 } else { 0.02 };
        steps.filesystems[i].slow_end = SlowEnd { requests: 1.0, slow, found: slow, usual: 0.02 };
        steps.batch_share[i] = spell.share;
        steps.batch_share_now[i] = spell.share;
    }
    steps.jobs = spell.jobs;
    steps.living = jobs(spell.living);
    steps.self_check = spell.self_check;
    let gauge = &mut steps.gauges[0];
    (gauge.state, gauge.then) = (spell.gauge, spell.then);
    (gauge.measure.value, gauge.measure.limit) = (if spell.gauge == GaugeState::Broken { 0.5 } else { 0.05 }, 0.1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens(spells in prop::collection::vec(spell(), 1..40)) {
        let config = config();
        let mut steps = Steps::new();
        let (mut frozen_since, mut thawing_since) = (None, None);
        // Who is limited when a freeze begins.
        let mut throttled = false;
        for spell in &spells {
            set(&mut steps, spell);
            for _ in 0..spell.ticks {
                let before = steps.state();
                if before == NodeState::Throttled {
                    throttled = true;
                } else if before < NodeState::Frozen {
                    throttled = false;
                }
                let actions = steps.step().clone();
                let now = steps.now;
                // Nothing is frozen for longer than freeze_max, and who leaves not for longer than he is given for that; in an
                // emergency nobody comes back.
                match actions.state >= NodeState::Frozen && actions.hold.any() && actions.state != NodeState::Emergency {
                    true => {
                        let since = *frozen_since.get_or_insert(now);
                        let leaving_ns = if actions.leave.any() { config.vacate_deadline_ns } else { 0 };
                        prop_assert!(now - since <= config.freeze_max_ns + leaving_ns);
                        prop_assert!(!actions.precaution || now - since <= config.precaution_ns + TICK);
                    }
                    false => frozen_since = None,
                }
                // Nor waits anybody for long to run again after one, and nobody new comes before him.
                match actions.thawing {
                    true => {
                        prop_assert!(now - *thawing_since.get_or_insert(now) < 5 * S && !actions.admit);
                        prop_assert!(matches!(actions.state, NodeState::Closed | NodeState::Throttled));
                    }
                    false => thawing_since = None,
                }
                // Some jobs alone are never all of them, nor do they stand still as a precaution.
                if let Hold::Jobs(set) = actions.hold {
                    prop_assert!(!set.is_empty() && !actions.precaution);
                    prop_assert!(actions.leave.any() || actions.thawing || actions.filesystem.is_some());
                    prop_assert!(actions.leave.any() || set.len() < 3);
                }
                // Who leaves stands still until then, and force is for them alone.
                let inside = |some: Hold, others: Hold| others.or(some) == others;
                prop_assert!(inside(actions.leave, actions.hold) || steps.jobs == Some(0));
                prop_assert!(inside(actions.overdue, actions.leave));
                prop_assert!(!actions.overdue.any() || actions.state == NodeState::Emergency);
                // New jobs are let in in the open state, beside those who are limited, or in a precaution out of these.
                let may = matches!(actions.state, NodeState::Open | NodeState::Throttled);
                prop_assert!(!actions.admit || may || actions.precaution);
                // Batch is left its least only while something is not heard, and never nothing.
                let deaf = spell.signals.iter().any(|signal| *signal != SignalState::Fresh);
                prop_assert!(!actions.least || deaf);
                prop_assert!(Resource::ALL.iter().all(|of| (0.05..=1.0).contains(&actions.shares.of(*of))));
                // Throttled is when somebody is limited, or all of them are, and everybody has something left.
                let limited = !actions.throttles.is_empty() || actions.shares != Shares::default();
                prop_assert!(limited || actions.state != NodeState::Throttled);
                prop_assert!(!limited || actions.state >= NodeState::Throttled);
                for throttle in actions.throttles.iter() {
                    prop_assert!(throttle.share > 0.0 && throttle.share.is_finite() && throttle.given() <= throttle.share);
                    prop_assert!(throttle.jobs.and(&steps.living) == throttle.jobs);
                }
                // What is journalled is what happened.
                let mut state = before;
                for event in actions.events.iter() {
                    prop_assert_eq!(event.from, state, "{:?}", event);
                    state = event.to;
                    // Absence of a signal never begins a freeze.
                    let fresh = event.objective.is_none_or(|o| {
                        spell.signals[usize::from(o)] == SignalState::Fresh || event.cause == Cause::Stuck
                    });
                    if event.deed == Deed::Narrow && event.cause == Cause::Guilty {
                        let guilty = jobs(spell.guilty.unwrap()).and(&jobs(spell.living));
                        let Hold::Jobs(held) = event.hold else { panic!("{event:?}") };
                        prop_assert_eq!(held.and(&guilty), guilty);
                    }
                    if event.deed == Deed::Freeze {
                        prop_assert_eq!(event.hold, Hold::All);
                        prop_assert!(fresh, "{event:?}");
                        prop_assert!(
                            matches!(
                                event.cause,
                                Cause::WeakEvidence
                                    | Cause::EvidenceReturned
                                    | Cause::BatchUsesDisk
                                    | Cause::StrongEvidence
                                    | Cause::ThrottleNotEnough
                                    | Cause::Stuck
                            ),
                            "{event:?}"
                        );
                        let elsewhere = spell.batch_in_flight > 0 || spell.share >= 0.2;
                        prop_assert!(spell.jobs != Some(0) || elsewhere, "nothing to freeze: {event:?}");
                    }
                    // A real freeze does not end before its hold time, except by freeze_max, or of those who come back with
                    // less than they had.
                    if event.deed == Deed::Thaw
                        && !event.precaution
                        && !matches!(event.cause, Cause::FreezeMax | Cause::Left | Cause::Quiet)
                    {
                        let hold_ns = if throttled { config.precaution_ns } else { config.hold_ns };
                        prop_assert!(event.lasted_ns.unwrap() >= hold_ns, "{event:?}");
                    }
                    // Nobody leaves because nothing is heard.
                    if event.deed == Deed::Evacuate || (event.deed == Deed::Vacate && event.gauge.is_some()) {
                        let called = spell.gauge == GaugeState::Broken || event.cause == Cause::VacateOverdue;
                        prop_assert!(called || before == NodeState::Emergency);
                    }
                }
                prop_assert_eq!(state, actions.state);
            }
        }
        // Left alone, every node opens again, and who was limited has everything back.
        let calm = Spell {
            ticks: 0,
            levels: [Level::Calm; 2],
            signals: [SignalState::Fresh; 2],
            stuck: [false; 2],
            guilty: None,
            living: 7,
            share: 0.0,
            clients: 0,
            batch_in_flight: 0,
            jobs: None,
            slack: 1.0,
            self_check: true,
            gauge: GaugeState::Kept,
            then: Then::Close,
        };
        set(&mut steps, &calm);
        // Who is to leave stays, so that it becomes an emergency; an operator ends that.
        steps.run(config.vacate_deadline_ns + TICK);
        steps.resumed = true;
        steps.step();
        steps.resumed = false;
        // Who is limited rests until that is forgotten.
        steps.used = [Use::Little; 2];
        steps.run(config.hold_max_ns + 10 * S + 600 * S);
        prop_assert_eq!(steps.state(), NodeState::Open);
        prop_assert_eq!(steps.actions().quarantined, 0);
        steps.run(120 * S);
        prop_assert_eq!(steps.actions().shares, Shares::default());
    }

    #[test]
    fn only_missing_signals_never_freeze(ticks in prop::collection::vec((any::<bool>(), any::<bool>()), 1..500)) {
        let mut steps = Steps::open();
        steps.level(Level::Strong);
        for (first, second) in ticks {
            steps.verdicts[0].signal = if first { SignalState::Missing } else { SignalState::Stale };
            steps.verdicts[1].signal = if second { SignalState::Missing } else { SignalState::Fresh };
            prop_assert!(!steps.step().hold.any());
        }
    }

    #[test]
    fn a_breach_that_goes_on_is_not_thawed_into_before_the_hold_time(cycles in 1usize..8) {
        let mut steps = Steps::open();
        for _ in 0..cycles {
            steps.level(Level::Strong);
            steps.step();
            let hold = steps.ladder.counters().hold_ns;
            steps.run(hold - TICK);
            prop_assert_eq!(steps.state(), NodeState::Frozen);
            steps.level(Level::Calm);
            steps.until_left(10 * S);
        }
    }
}

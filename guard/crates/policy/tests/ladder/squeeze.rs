// SPDX-License-Identifier: Apache-2.0
//! Batch as a whole gets less CPU or memory.
use crate::steps::{Steps, S};
use intf::state::NodeState;
use policy::event::{Measure, Unit};
use policy::{Cause, Deed, GaugeState, GaugeVerdict, Hold, Resource, Then};

fn gauge(value: f64, resource: Resource) -> GaugeVerdict {
    GaugeVerdict {
        state: if value > 0.1 { GaugeState::Broken } else { GaugeState::Kept },
        measure: Measure { value, limit: 0.1, unit: Unit::Share },
        since_ns: 1,
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
    assert_eq!((steps.state(), steps.actions().hold, steps.actions().admit), (NodeState::Closed, Hold::Nobody, false));
    let less = (Cause::GaugeAbove, Deed::Squeeze(Resource::Cpu));
    assert_eq!(steps.said(), [(Cause::GaugeAbove, Deed::Close), less, less]);
    assert_eq!((steps.events[1].gauge, steps.events[1].measure.map(|m| m.value)), (Some(0), Some(0.5)));
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
    assert_eq!(steps.state(), NodeState::Open, "new jobs share what there is");
    steps.run(60 * S);
    assert_eq!(shares(&steps), (1.0, 1.0));
    assert_eq!(steps.said().last(), Some(&(Cause::SqueezeOver, Deed::Restore(Resource::Cpu))));
}

#[test]
fn batch_that_is_innocent_gets_all_of_it_back_and_is_left_alone_for_a_while() {
    let steps = short(60);
    let vain: Vec<_> = steps.said().into_iter().filter(|(cause, _)| *cause == Cause::SqueezeInVain).collect();
    assert_eq!((vain, shares(&steps).0), (vec![(Cause::SqueezeInVain, Deed::Restore(Resource::Cpu))], 1.0));
    assert_eq!(steps.state(), NodeState::Closed, "storage is short of it all the same");
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

#[test]
fn while_all_stand_still_nothing_is_learned_from_it() {
    let mut steps = short(1);
    steps.ordered = true;
    steps.run(60 * S);
    assert_eq!((steps.state(), shares(&steps)), (NodeState::Frozen, (0.5, 1.0)));
}

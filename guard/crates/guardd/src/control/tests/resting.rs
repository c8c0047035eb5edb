// SPDX-License-Identifier: Apache-2.0
//! Who rests where clients fill a disk.

use super::*;
use policy::JobSet;

/// Jobs a.scope and b.scope, and what the ladder wants when the first of them rests.
fn resting() -> (Rig, Actions, JobSet) {
    let mut rig = Rig::new(RecordingFreezer::default());
    for job in ["a.scope", "b.scope"] {
        std::fs::create_dir(rig.folders.path().join("jobs.slice").join(job)).unwrap();
    }
    rig.pass(3 * SECOND_NS);
    let found = rig.control.board.jobs.iter().find(|(_, job)| job.scope == "a.scope").map(|(place, _)| place);
    let rests: JobSet = found.into_iter().collect();
    let now_ns = rig.clock.monotonic_ns();
    let actions = rig.control.ladder.clone().step(&policy::Inputs::default(), now_ns);
    (rig, Actions { state: NodeState::Throttled, resting: rests, ..actions }, rests)
}

#[test]
fn who_rests_stands_still_and_it_is_no_freeze() {
    let (mut rig, actions, rests) = resting();
    let now_ns = rig.clock.monotonic_ns();
    rig.control.act(&actions, now_ns);
    assert_eq!(rig.control.freezer.applied(), Hold::Jobs(rests));
    assert_eq!((rig.control.board.hold, rig.control.shaping.held()), (Hold::Nobody, false));
    rig.control.account(&actions, now_ns + SECOND_NS);
    assert!(rig.control.totals.rest_ns >= SECOND_NS && rig.control.totals.frozen_ns == 0);
    rig.control.publish(&actions, now_ns + SECOND_NS);
    let view = lock(&rig.control.shared.snapshot).clone();
    assert_eq!((view.held_jobs, view.resting_jobs, view.hold), (0, 1, Hold::Jobs(rests)));
    // In a freeze he stands still like the others, and rests when they run again.
    let all = Actions { state: NodeState::Frozen, hold: Hold::All, ..actions.clone() };
    rig.control.act(&all, now_ns + 2 * SECOND_NS);
    assert_eq!((rig.control.freezer.applied(), rig.control.board.hold), (Hold::All, Hold::All));
    let guilty = Actions { hold: Hold::Jobs(rests), ..all };
    rig.control.act(&guilty, now_ns + 2 * SECOND_NS);
    assert_eq!(rig.control.board.hold, Hold::Jobs(rests), "for what he did, too");
    rig.control.act(&actions, now_ns + 3 * SECOND_NS);
    assert_eq!((rig.control.freezer.applied(), rig.control.board.hold), (Hold::Jobs(rests), Hold::Nobody));
    // He has ended.
    std::fs::remove_dir(rig.folders.path().join("jobs.slice/a.scope")).unwrap();
    rig.pass(2 * SECOND_NS);
    rig.control.act(&actions, now_ns + 6 * SECOND_NS);
    assert_eq!(rig.control.freezer.applied(), Hold::Nobody);
}

#[test]
fn the_next_guard_does_not_take_rest_for_a_freeze() {
    for (state, expected) in [(NodeState::Throttled, Hold::Nobody), (NodeState::Frozen, Hold::Jobs(JobSet::default()))]
    {
        let (mut rig, actions, rests) = resting();
        let now_ns = rig.clock.monotonic_ns();
        let actions = Actions { state, ..actions };
        rig.control.act(&actions, now_ns);
        rig.control.write_state(&actions, now_ns);
        let (outbox, _inbox) = sync_channel(4096);
        let (worker, _wishes) = sync_channel(2);
        let config = rig.control.config.clone();
        let mut next = ControlLoop::new(Parts {
            clock: Arc::clone(&rig.clock) as Arc<dyn Clock>,
            shared: Arc::default(),
            outbox,
            signals: Vec::new(),
            freezer: rig.knob.clone(),
            shaping: ShapingActuator::new(rig.folders.path()),
            worker,
            state_file: StateFile::create(rig.folders.path()).unwrap(),
            config,
        });
        let expected = if expected.any() { Hold::Jobs(rests) } else { Hold::Nobody };
        next.tick(now_ns + TICK_NS);
        assert_eq!((next.freezer.applied(), next.ladder.state() == NodeState::Frozen), (expected, expected.any()));
    }
}

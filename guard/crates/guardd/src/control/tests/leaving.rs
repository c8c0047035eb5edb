// SPDX-License-Identifier: Apache-2.0
//! An emergency, and who leaves in it.

use super::*;

#[test]
fn in_an_emergency_batch_of_other_nodes_waits_while_there_is_evidence_also_without_jobs_here() {
    let mut rig = Rig::new(RecordingFreezer::default());
    rig.pass(3_000_000_000);
    rig.control.ladder =
        Ladder::adopt_emergency(rig.control.config.ladder.clone(), Hold::Nobody, rig.clock.monotonic_ns());
    rig.pass(3_000_000_000);
    assert!(rig.state().starts_with("state=emergency") && !rig.control.shaping.held());
    rig.hang(true);
    rig.pass(2_000_000_000);
    assert!(rig.control.shaping.held(), "{}", rig.state());
    rig.hang(false);
    rig.pass(2_000_000_000);
    assert!(rig.control.shaping.held(), "not for a moment only");
    rig.pass(rig.control.config.ladder.hold_max_ns);
    assert!(rig.state().starts_with("state=emergency") && !rig.control.shaping.held());
}

#[test]
fn who_leaves_can_be_reaped_by_his_monitor_and_a_monitor_alone_is_no_job() {
    let mut rig = Rig::new(RecordingFreezer::default());
    let scope = |rig: &Rig, name: &str| rig.folders.path().join("jobs.slice").join(name);
    for name in ["libpod-a.scope", "libpod-conmon-a.scope"] {
        std::fs::create_dir(scope(&rig, name)).unwrap();
    }
    rig.pass(3 * SECOND_NS);
    rig.control.shared.orders.freeze_until_ns.store(u64::MAX, Ordering::Relaxed);
    rig.pass(SECOND_NS);
    assert_eq!(rig.writes(), [Hold::All], "nobody leaves");
    rig.control.shared.orders.freeze_until_ns.store(0, Ordering::Relaxed);
    rig.control.ladder =
        Ladder::adopt_emergency(rig.control.config.ladder.clone(), Hold::All, rig.clock.monotonic_ns());
    rig.pass(SECOND_NS);
    let job = Hold::Jobs(rig.control.board.jobs.living());
    assert_eq!((rig.writes().last(), rig.control.freezer.applied()), (Some(&job), job));
    // It is killed; its monitor has a moment to live.
    std::fs::remove_dir(scope(&rig, "libpod-a.scope")).unwrap();
    rig.pass(2 * SECOND_NS);
    assert!(rig.state().starts_with("state=emergency") && !rig.control.freezer.applied().any(), "{}", rig.state());
    assert_eq!(lock(&rig.control.shared.snapshot).jobs, Some(0));
    rig.pass(rig.control.config.ladder.emergency_quiet_ns + 5 * SECOND_NS);
    assert!(rig.state().starts_with("state=open"), "{}", rig.state());
}

#[test]
fn a_monitor_whose_container_was_ended_runs_while_the_others_stand_still() {
    let mut rig = Rig::new(RecordingFreezer::default());
    let scope = |rig: &Rig, name: &str| rig.folders.path().join("jobs.slice").join(name);
    for name in ["libpod-a.scope", "libpod-conmon-a.scope", "docker-b.scope"] {
        std::fs::create_dir(scope(&rig, name)).unwrap();
    }
    rig.pass(3 * SECOND_NS);
    rig.control.shared.orders.freeze_until_ns.store(u64::MAX, Ordering::Relaxed);
    rig.pass(SECOND_NS);
    assert_eq!(rig.control.freezer.applied(), Hold::All);
    std::fs::remove_dir(scope(&rig, "libpod-a.scope")).unwrap();
    rig.pass(SECOND_NS);
    let other = Hold::Jobs(rig.control.board.jobs.living());
    assert_eq!((rig.control.freezer.applied(), rig.control.board.jobs.count()), (other, 1));
    std::fs::remove_dir(scope(&rig, "libpod-conmon-a.scope")).unwrap();
    rig.pass(SECOND_NS);
    assert_eq!(rig.control.freezer.applied(), Hold::All);
}

#[test]
fn the_next_guard_knows_of_an_emergency() {
    let mut rig = Rig::new(RecordingFreezer::default());
    rig.control.ladder =
        Ladder::adopt_emergency(rig.control.config.ladder.clone(), Hold::Nobody, rig.clock.monotonic_ns());
    assert_eq!(rig.control.state_file.before(), None);
    rig.pass(1_000_000_000);
    let before = |rig: &Rig| StateFile::create(rig.folders.path()).unwrap().before();
    assert_eq!(before(&rig), Some(NodeState::Emergency), "killed");
    rig.control.stop();
    assert_eq!(before(&rig), Some(NodeState::Emergency), "stopped");
}

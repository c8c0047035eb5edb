// SPDX-License-Identifier: Apache-2.0
use super::testing::RecordingFreezer;
use super::*;

#[test]
fn writes_only_what_differs_and_sees_the_effect() {
    let knob = RecordingFreezer::default();
    let mut actuator = FreezeActuator::new(knob.clone());
    assert_eq!(actuator.plan(Hold::Nobody), None);
    assert_eq!(actuator.plan(Hold::All), Some(Hold::All));
    let effect = actuator.apply(Hold::All, 5, || 7).unwrap();
    let expected = Effect { hold: Hold::All, decided_ns: 5, written_ns: 7, ended_ns: 7, seen: Ok(true) };
    assert_eq!(effect, expected);
    assert_eq!(actuator.plan(Hold::All), None);
    assert_eq!(knob.0.lock().unwrap().writes, [Hold::All]);
}

#[test]
fn a_slow_effect_is_waited_for_and_given_up_at_its_deadline() {
    let knob = RecordingFreezer::default();
    knob.0.lock().unwrap().slow = true;
    let mut actuator = FreezeActuator::new(knob.clone());
    assert_eq!(actuator.apply(Hold::All, 0, || 1), None);
    assert_eq!(actuator.read_back(400_000_000), None);
    knob.0.lock().unwrap().frozen = Hold::All;
    assert_eq!(actuator.read_back(500_000_000).unwrap().seen, Ok(true));
    assert_eq!(actuator.read_back(600_000_000), None, "told once");

    assert_eq!(actuator.apply(Hold::Nobody, 0, || 1), None);
    assert_eq!(actuator.read_back(EFFECT_DEADLINE_NS), None);
    assert_eq!(actuator.read_back(EFFECT_DEADLINE_NS + 1).unwrap().seen, Ok(false));
}

#[test]
fn a_failure_is_told_once_and_tried_again() {
    let knob = RecordingFreezer::default();
    knob.0.lock().unwrap().error = Some(FreezeError::Refused(Errno::BUSY));
    let mut actuator = FreezeActuator::new(knob.clone());
    assert_eq!(actuator.apply(Hold::All, 0, || 1).unwrap().seen, Err(FreezeError::Refused(Errno::BUSY)));
    assert_eq!(actuator.plan(Hold::All), Some(Hold::All));
    assert_eq!(actuator.apply(Hold::All, 0, || 1), None);
    knob.0.lock().unwrap().error = None;
    assert_eq!(actuator.apply(Hold::All, 0, || 1).unwrap().seen, Ok(true));
    assert_eq!(knob.0.lock().unwrap().writes.len(), 3);
}

#[test]
fn adopts_inspects_and_undoes() {
    let knob = RecordingFreezer::default();
    knob.0.lock().unwrap().asked = Hold::All;
    let mut actuator = FreezeActuator::new(knob.clone());
    assert_eq!(actuator.applied(), Hold::All);
    assert_eq!(actuator.inspect(), Some(Drift::None));
    knob.0.lock().unwrap().asked = Hold::Nobody;
    assert_eq!(actuator.inspect(), Some(Drift::Changed));
    assert_eq!(actuator.plan(Hold::All), Some(Hold::All), "put right at the next tick");
    actuator.apply(Hold::All, 0, || 1);
    assert_eq!(actuator.undo(|| 2).unwrap().seen, Ok(true));
    assert_eq!(actuator.undo(|| 2), None);
    knob.0.lock().unwrap().missing = true;
    assert_eq!(actuator.inspect(), None);
}

#[test]
fn a_slice_that_is_not_there() {
    let mut freezer = SliceFreezer::new("/nowhere/beer-jobs.slice");
    assert_eq!(freezer.write(Hold::All), Err(FreezeError::Missing));
    assert_eq!((freezer.asked(), freezer.stands(Hold::All)), (None, None));
}

/// An idle slice with one job, in files; the run folder of its guard is `run`.
struct Idle {
    folder: tempfile::TempDir,
}

impl Idle {
    fn new() -> Idle {
        let idle = Idle { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir_all(idle.slice().join("docker-a.scope")).unwrap();
        std::fs::create_dir(idle.run()).unwrap();
        for folder in ["", "docker-a.scope/"] {
            idle.put(&format!("{folder}cgroup.freeze"), "0");
            idle.put(&format!("{folder}cgroup.events"), "populated 1\nfrozen 0\n");
        }
        idle.put("cpu.idle", "1");
        idle
    }

    fn slice(&self) -> std::path::PathBuf {
        self.folder.path().join("slice")
    }

    fn run(&self) -> std::path::PathBuf {
        self.folder.path().join("run")
    }

    fn put(&self, file: &str, text: &str) {
        std::fs::write(self.slice().join(file), text).unwrap();
    }

    fn freezer(&self) -> SliceFreezer {
        let mut freezer = SliceFreezer::remembering(self.slice(), &self.run());
        let mut jobs = JobTable::new(self.slice());
        jobs.look(true, &policy::JobSet::default());
        freezer.know(&jobs);
        freezer
    }

    fn is_idle(&self) -> bool {
        std::fs::read_to_string(self.slice().join("cpu.idle")).unwrap() == "1"
    }
}

#[test]
fn who_is_to_stand_still_is_not_idle_until_he_does() {
    let idle = Idle::new();
    let mut actuator = FreezeActuator::new(idle.freezer());
    assert_eq!(actuator.apply(Hold::All, 0, || 1), None);
    assert!(!idle.is_idle());
    // systemd sets something there.
    idle.put("cpu.idle", "1");
    assert_eq!(actuator.read_back(2), None);
    assert!(!idle.is_idle());
    idle.put("cgroup.events", "populated 1\nfrozen 1\n");
    assert_eq!(actuator.read_back(3).unwrap().seen, Ok(true));
    assert!(idle.is_idle());
    // One of them alone, after which all run again before he does stand still.
    idle.put("cgroup.events", "populated 1\nfrozen 0\n");
    let job: policy::JobSet = [0].into_iter().collect();
    assert_eq!(actuator.apply(Hold::Jobs(job), 4, || 5), None);
    assert!(!idle.is_idle());
    // He hangs on a disk, and others run: not for ever.
    assert_eq!(actuator.inspect(), Some(Drift::None));
    assert!(!idle.is_idle());
    assert_eq!(actuator.read_back(5 + EFFECT_DEADLINE_NS).unwrap().seen, Ok(false));
    actuator.inspect();
    assert!(idle.is_idle());
    // All of them, who run again before they stand still.
    actuator.apply(Hold::All, 6, || 7);
    assert!(!idle.is_idle());
    actuator.apply(Hold::Nobody, 8, || 9);
    assert!(idle.is_idle());
    // Who rests has time.
    actuator.hurry(false, false);
    actuator.apply(Hold::Jobs(job), 10, || 11);
    assert!(idle.is_idle());
}

#[test]
fn who_was_suspended_by_somebody_else_already_is_no_drift() {
    let idle = Idle::new();
    std::fs::write(idle.run().join(SliceFreezer::MEMORY), "").unwrap();
    idle.put("docker-a.scope/cgroup.freeze", "1");
    let mut actuator = FreezeActuator::new(idle.freezer());
    assert_eq!(actuator.applied(), Hold::Nobody, "it was not ours");
    actuator.apply(Hold::Jobs([0].into_iter().collect()), 0, || 1);
    assert_eq!(actuator.inspect(), Some(Drift::None));
    actuator.apply(Hold::Nobody, 2, || 3);
    assert_eq!(actuator.inspect(), Some(Drift::None));
    assert_eq!(std::fs::read_to_string(idle.slice().join("docker-a.scope/cgroup.freeze")).unwrap(), "1", "it stays so");
}

#[test]
fn an_earlier_guard_s_freeze_takes_effect_too_and_what_it_has_lifted_is_put_back() {
    let idle = Idle::new();
    idle.freezer().write(Hold::All).unwrap();
    let mut next = FreezeActuator::new(idle.freezer());
    assert_eq!((next.inspect(), idle.is_idle()), (Some(Drift::None), false));
    // That one is killed, and somebody thaws by hand.
    idle.put("cgroup.freeze", "0");
    let mut last = FreezeActuator::new(idle.freezer());
    assert_eq!((last.inspect(), idle.is_idle()), (Some(Drift::None), true));
}

#[test]
fn a_dry_run_leaves_an_idle_slice_alone() {
    let idle = Idle::new();
    idle.put("cgroup.freeze", "1");
    FreezeActuator::new(idle.freezer().dry_run(true)).inspect();
    assert!(idle.is_idle());
    FreezeActuator::new(idle.freezer().dry_run(false)).inspect();
    assert!(!idle.is_idle());
    // What one before it has lifted it puts back.
    idle.put("cgroup.freeze", "0");
    FreezeActuator::new(idle.freezer().dry_run(true)).inspect();
    assert!(idle.is_idle());
}

#[test]
fn who_is_to_leave_is_not_idle() {
    let idle = Idle::new();
    let mut actuator = FreezeActuator::new(idle.freezer());
    actuator.inspect();
    assert!(idle.is_idle());
    actuator.hurry(false, true);
    actuator.inspect();
    assert!(!idle.is_idle());
    // A freeze that comes and goes meanwhile changes nothing of that.
    for hold in [Hold::All, Hold::Nobody] {
        actuator.apply(hold, 0, || 1);
        assert!(!idle.is_idle());
    }
    actuator.hurry(false, false);
    actuator.inspect();
    assert!(idle.is_idle());
}

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

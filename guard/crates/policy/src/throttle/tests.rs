// SPDX-License-Identifier: Apache-2.0
//! Limits, walked forward in time.

use super::*;
use crate::detector::SlowEnd;

const S: u64 = 1_000_000_000;
const STEP: f32 = 0.1;

fn nobody() -> JobSet {
    JobSet::default()
}

fn jobs(places: &[usize]) -> JobSet {
    places.iter().copied().collect()
}

/// They have a whole step already.
fn limited() -> Throttles {
    let mut throttles = caught();
    throttles.of_mut(3).unwrap().share = STEP;
    throttles
}

fn caught() -> Throttles {
    let mut throttles = Throttles::default();
    throttles.begin(3, jobs(&[1]), STEP, S);
    throttles
}

fn share(throttles: &Throttles) -> f32 {
    throttles.of(3).map_or(1.0, |throttle| throttle.share)
}

/// Calm for long, once a second, and all is used; from the second after this one.
fn pass(throttles: &mut Throttles, from: u64, seconds: u64) {
    for second in from + 1..=from + seconds {
        assert_eq!(throttles.ease(20 * S, STEP, 2 * S, second * S), None);
    }
}

/// The same until their share is this, or for so long; how long it took.
fn until(throttles: &mut Throttles, wanted: f32, from: u64, seconds: u64) -> Option<u64> {
    (1..=seconds).find(|second| {
        pass(throttles, from + second - 1, 1);
        share(throttles) >= wanted - 1e-3
    })
}

#[test]
fn they_begin_with_next_to_nothing_and_have_twice_as_much_each_time() {
    let mut throttles = caught();
    assert_eq!(share(&throttles), STEP / 4.0);
    assert_eq!(until(&mut throttles, STEP / 2.0, 1, 60), Some(2));
    assert_eq!(until(&mut throttles, STEP, 3, 60), Some(2));
    assert_eq!(until(&mut throttles, 2.0 * STEP, 5, 60), Some(2), "and then a step");
    // Whoever joins them begins with that, too.
    throttles.begin(3, jobs(&[2]), STEP, 8 * S);
    assert_eq!(share(&throttles), STEP / 4.0);
    throttles.run(9 * S);
    assert_eq!(grown(&mut throttles, 1.0, 9, 60), Some(32), "beside clients it takes longer");
}

#[test]
fn beside_clients_they_may_take_their_share_and_no_more() {
    let mut throttles = caught();
    let account = |throttles: &Throttles, seconds| throttles.of(3).and_then(|one| one.account(0.005, seconds * S));
    assert_eq!(account(&throttles, 1), None);
    strained(&mut throttles, 1.0, 1, 1);
    assert_eq!(account(&throttles, 11), Some(f64::from(STEP / 4.0)));
    assert_eq!(account(&throttles, 12), None, "no client asks for anything any more");
    throttles.give_way(1 << 3, STEP, 60 * S);
    assert_eq!(account(&throttles, 60), Some(0.005), "they fill the disk");
    assert_eq!(throttles.of(3).and_then(|one| one.account(1.0, 60 * S)), None);
    let mut throttles = Throttles::default();
    throttles.begin(3, nobody(), STEP, S);
    strained(&mut throttles, 1.0, 1, 1);
    assert_eq!(account(&throttles, 2), None, "whose should it be?");
    // Nothing is heard of them, or they came while it was tried whether batch is why.
    let mut throttles = caught();
    throttles.unheard(S);
    assert_eq!(account(&throttles, 1), None, "nobody was there");
    let before = throttles;
    strained(&mut throttles, 1.0, 1, 1);
    throttles.unheard(60 * S);
    assert_eq!(account(&throttles, 69), Some(f64::from(STEP / 4.0)));
    throttles.give_back(1 << 3, &before);
    assert_eq!(account(&throttles, 69), Some(f64::from(STEP / 4.0)));
}

#[test]
fn who_rests_because_he_has_had_his_part_would_do_more() {
    let share_of = |rest_on: fn(u16) -> JobSet| {
        let mut throttles = caught();
        throttles.of_mut(3).unwrap().jobs = jobs(&[1, 2]);
        for second in 2..40 {
            throttles.note_use(&[Use::Little; 4], rest_on, second * S);
            assert!(strained(&mut throttles, 1.0, second - 1, 1).is_empty());
        }
        share(&throttles)
    };
    assert_eq!(share_of(|_| jobs(&[1, 2])), STEP / 2.0);
    assert_eq!(share_of(|_| jobs(&[1])), STEP / 4.0, "the other one may have what he is left");
    assert_eq!(
        share_of(|filesystem| jobs(if filesystem == 3 { &[] } else { &[1, 2] })),
        STEP / 4.0,
        "for another disk"
    );
}

#[test]
fn few_clients_are_clients() {
    let mut throttles = caught();
    let mut loads = [FilesystemLoad::default(); 4];
    for second in 2..30 {
        loads[3].storage_in_flight = u32::from(second % 3 == 0);
        throttles.note_strain(&loads, second * S);
        throttles.ease(20 * S, STEP, 2 * S, second * S);
    }
    assert_eq!(share(&throttles), STEP / 4.0);
}

#[test]
fn one_step_more_after_each_calm_dwell_in_which_it_was_used() {
    let mut throttles = limited();
    throttles.ease(2 * S - 1, STEP, 2 * S, 2 * S);
    throttles.ease(2 * S - 1, STEP, 2 * S, 3 * S);
    assert_eq!(share(&throttles), STEP, "not calm for long enough");
    pass(&mut throttles, 3, 1);
    assert_eq!(share(&throttles), 2.0 * STEP);
    pass(&mut throttles, 4, 1);
    assert_eq!(share(&throttles), 2.0 * STEP, "and not twice in a dwell");
    assert_eq!(until(&mut throttles, 1.0, 5, 60), Some(15));
    // What they did when they were caught may have been little: beyond it the way goes on, faster.
    assert_eq!(until(&mut throttles, 1.95, 20, 60), Some(6));
    assert_eq!(until(&mut throttles, 1000.0, 26, 99), Some(56), "who always needs more is not done");
    // Until he does not; one of several who does keeps it for all, and earns nothing.
    let use_of = |throttles: &mut Throttles, using, from: u64, to: u64| {
        (from..to).for_each(|second| {
            throttles.note_use(&[using; 4], |_| nobody(), second * S);
            throttles.ease(600 * S, STEP, 2 * S, second * S);
        });
    };
    let before = share(&throttles);
    use_of(&mut throttles, Use::Part, 82, 682);
    assert_eq!(share(&throttles), before);
    use_of(&mut throttles, Use::Little, 682, 1281);
    assert!(!throttles.is_empty());
    throttles.note_use(&[Use::Little; 4], |_| nobody(), 1281 * S);
    assert!(throttles.is_empty());
}

/// Calm for long, and nobody uses it.
fn rest(throttles: &mut Throttles, from: u64, seconds: u64) {
    (from + 1..=from + seconds).for_each(|second| {
        throttles.note_use(&[Use::Full, Use::Full, Use::Full, Use::Little], |_| nobody(), second * S);
        throttles.ease(600 * S, STEP, 2 * S, second * S);
    });
}

#[test]
fn who_rests_keeps_his_limit_and_learns_nothing_from_it() {
    let mut throttles = limited();
    rest(&mut throttles, 1, 598);
    assert_eq!(share(&throttles), STEP);
    assert!(!throttles.in_use(599 * S) && throttles.in_use(10 * S));
    // He is back: the time of rest has earned him nothing.
    throttles.note_use(&[], |_| nobody(), 599 * S);
    pass(&mut throttles, 599, 1);
    assert_eq!(share(&throttles), STEP);
    pass(&mut throttles, 600, 1);
    assert_eq!(share(&throttles), 2.0 * STEP);
    // For how long he was away before does not count.
    rest(&mut throttles, 601, 597);
    assert!(!throttles.is_empty());
    rest(&mut throttles, 1198, 2);
    assert!(throttles.is_empty(), "ten minutes");
}

#[test]
fn to_be_caught_is_no_rest() {
    let mut throttles = limited();
    rest(&mut throttles, 1, 590);
    throttles.halve(3, STEP, 595 * S);
    throttles.run(598 * S);
    rest(&mut throttles, 598, 30);
    assert!(!throttles.is_empty());
    // Another one who joins has done nothing for a moment only.
    let mut throttles = limited();
    rest(&mut throttles, 1, 590);
    throttles.begin(3, jobs(&[2]), STEP, 595 * S);
    rest(&mut throttles, 595, 30);
    assert!(!throttles.is_empty());
}

#[test]
fn a_freeze_for_another_disk_takes_nothing_of_what_was_earned() {
    let mut throttles = limited();
    pass(&mut throttles, 1, 1);
    throttles.run(60 * S);
    pass(&mut throttles, 60, 1);
    assert_eq!(share(&throttles), 2.0 * STEP);
}

#[test]
fn time_in_which_nothing_was_heard_earns_nothing() {
    let mut throttles = limited();
    pass(&mut throttles, 1, 1);
    pass(&mut throttles, 90, 1);
    assert_eq!(share(&throttles), STEP);
}

#[test]
fn nobody_stays_limited_for_what_is_slow_without_him() {
    let mut throttles = limited();
    pass(&mut throttles, 1, 1);
    // However long ago it was changed: it has been slow only since now. A moment of calm in between is none.
    (100..160).for_each(|second| throttles.give_up(60 * S, second * S));
    throttles.ease(S, STEP, 2 * S, 159 * S);
    assert!(!throttles.is_empty());
    throttles.give_up(60 * S, 160 * S);
    assert!(throttles.is_empty());
}

#[test]
fn a_cut_halves_and_is_given_time_to_help() {
    let mut throttles = limited();
    pass(&mut throttles, 1, 8);
    let before = share(&throttles);
    assert_eq!(throttles.cut(3, STEP, S, 20 * S), Cut::Now);
    assert_eq!(share(&throttles), before / 2.0);
    assert_eq!(throttles.cut(3, STEP, S, 21 * S - 1), Cut::Lately);
    assert_eq!((throttles.cut(3, STEP, S, 21 * S), throttles.in_vain(3)), (Cut::InVain, 1));
    assert_eq!(share(&throttles), before / 2.0);
    // Calm in between: the next one is a new one, and after a minute of use what was in vain is forgotten.
    throttles.ease(S, STEP, 2 * S, 22 * S);
    assert_eq!(throttles.cut(3, STEP, S, 23 * S), Cut::Now);
    rest(&mut throttles, 23, 100);
    assert_eq!(throttles.in_vain(3), 1, "who rests shows nothing");
    throttles.note_use(&[], |_| nobody(), 124 * S);
    pass(&mut throttles, 123, 60);
    assert_eq!(throttles.in_vain(3), 0);
}

#[test]
fn where_it_was_too_much_they_come_back_with_care_and_each_time_with_more() {
    let mut throttles = limited();
    assert_eq!(until(&mut throttles, 0.4, 1, 60), Some(6), "a step each dwell time: nobody knows better");
    throttles.cut(3, STEP, S, 20 * S);
    throttles.run(22 * S);
    assert_eq!(until(&mut throttles, 0.3, 22, 99), Some(64), "half of it was borne; above that 32 dwell times");
    throttles.cut(3, STEP, S, 90 * S);
    throttles.run(92 * S);
    assert!((share(&throttles) - 0.15).abs() < 1e-3);
    assert_eq!(until(&mut throttles, 0.25, 92, 199), Some(128), "and 64: it was too much twice");
    // Borne as much, and more: for each step beyond it one time is forgotten, then all.
    assert_eq!(until(&mut throttles, 0.35, 220, 199), Some(128));
    assert_eq!(until(&mut throttles, 0.45, 348, 199), Some(128));
    assert_eq!(until(&mut throttles, 0.55, 476, 99), Some(64));
    assert_eq!(until(&mut throttles, 0.85, 540, 99), Some(6));
}

/// Calm and used, once a second, and so many requests are slow where one of fifty usually is; from the second after this one.
fn strained(throttles: &mut Throttles, slow: f32, from: u64, seconds: u64) -> Vec<Eased> {
    let mut loads = [FilesystemLoad::default(); 4];
    loads[3].slow_end = SlowEnd { requests: 50.0, slow, found: slow, usual: 1.0 };
    (from + 1..=from + seconds)
        .filter_map(|second| {
            throttles.note_strain(&loads, second * S);
            throttles.ease(20 * S, STEP, 2 * S, second * S)
        })
        .collect()
}

/// The same until somebody gets less; how long it took.
fn noticed(throttles: &mut Throttles, slow: f32, from: u64, seconds: u64) -> Option<u64> {
    (1..=seconds).find(|second| !strained(throttles, slow, from + second - 1, 1).is_empty())
}

/// Until they get more.
fn grown(throttles: &mut Throttles, slow: f32, from: u64, seconds: u64) -> Option<u64> {
    let before = share(throttles);
    (1..=seconds).find(|second| {
        assert_eq!(strained(throttles, slow, from + second - 1, 1), []);
        share(throttles) > before
    })
}

#[test]
fn they_get_more_only_while_clients_do_not_notice() {
    let mut throttles = limited();
    assert_eq!(grown(&mut throttles, 1.0, 1, 60), Some(32), "a dwell time tells too little");
    assert_eq!(grown(&mut throttles, 1.4, 33, 30), None);
    let noticed_s = noticed(&mut throttles, 2.0, 63, 30).unwrap();
    assert!((share(&throttles) - STEP).abs() < 1e-3, "as slow as that is not slow enough for evidence");
    let from = 63 + noticed_s;
    assert_eq!(grown(&mut throttles, 0.9, from, 99), Some(64), "twice as much was too much");
    // They begin to notice: it may be chance, but not for long.
    assert_eq!(noticed(&mut throttles, 1.3, from + 64, 60), Some(32));
}

#[test]
fn one_time_that_clients_notice_is_one_that_was_too_much() {
    let mut throttles = limited();
    assert_eq!(until(&mut throttles, 0.8, 1, 60), Some(14));
    assert_eq!(strained(&mut throttles, 5.0, 15, 12).len(), 4);
    assert!((share(&throttles) - 0.05).abs() < 1e-3);
    assert_eq!(until(&mut throttles, 0.35, 27, 60), Some(16), "0.8 was too much, not 0.1");
    assert_eq!(until(&mut throttles, 0.45, 43, 99), Some(64), "once");
}

#[test]
fn who_is_left_next_to_nothing_is_not_why_clients_notice() {
    let mut throttles = limited();
    // At noon clients ask for twice as much; what is usual was learned at night.
    assert_eq!(strained(&mut throttles, 2.0, 1, 60).len(), 4);
    assert_eq!(share(&throttles), LEAST * STEP);
    assert_eq!(strained(&mut throttles, 2.0, 61, 300), []);
    assert!(share(&throttles) > 2.0 * STEP, "{}", share(&throttles));
    assert!(noticed(&mut throttles, 4.0, 361, 30).is_some(), "more than that is too much at noon, too");
    // In the evening as much as at noon is too much again, once it was better.
    strained(&mut throttles, 1.0, 391, 150);
    assert!(noticed(&mut throttles, 2.0, 541, 30).is_some());
}

#[test]
fn clients_who_have_left_notice_nothing() {
    let mut throttles = limited();
    strained(&mut throttles, 1.8, 1, 5);
    assert_eq!(share(&throttles), STEP);
    let nobody = [FilesystemLoad::default(); 4];
    (7..=16).for_each(|second| {
        assert_eq!(share(&throttles), STEP, "they were there a moment ago");
        throttles.note_strain(&nobody, second * S);
        pass(&mut throttles, second - 1, 1);
    });
    assert_eq!(share(&throttles), 2.0 * STEP);
}

#[test]
fn who_rests_is_not_why_clients_notice() {
    let mut throttles = limited();
    strained(&mut throttles, 1.0, 1, 32);
    throttles.note_use(&[Use::Little; 4], |_| nobody(), 35 * S);
    strained(&mut throttles, 9.0, 35, 60);
    assert_eq!(share(&throttles), 2.0 * STEP);
    // What was noticed before they stood still says nothing about what comes after.
    throttles.note_use(&[], |_| nobody(), 96 * S);
    strained(&mut throttles, 2.0, 96, 12);
    throttles.run(109 * S);
    strained(&mut throttles, 2.0, 109, 12);
    assert_eq!(share(&throttles), 2.0 * STEP);
    // Nor does what was promised to others, once the promise is another.
    throttles.forget_strain();
    assert_eq!(noticed(&mut throttles, 2.0, 121, 5), None);
}

#[test]
fn others_are_not_drawn_in_because_clients_notice() {
    let mut throttles = limited();
    strained(&mut throttles, 5.0, 1, 1);
    assert!(!throttles.of(3).unwrap().was_cut());
    let eased = strained(&mut throttles, 5.0, 2, 3);
    assert_eq!((eased.len(), eased[0].filesystem, eased[0].jobs), (1, 3, jobs(&[1])));
    assert!((eased[0].slow.0 - 5.0).abs() < 1e-3 && eased[0].slow.1 == 1.5, "{eased:?}");
    assert!(!throttles.of(3).unwrap().was_cut());
}

#[test]
fn nobody_waits_longer_than_ten_minutes_for_the_next_step() {
    let mut throttles = limited();
    for time in 0..9 {
        until(&mut throttles, 0.3, 10_000 * time, 9_000);
        throttles.cut(3, STEP, S, (10_000 * time + 9_500) * S);
    }
    throttles.run(90_000 * S);
    assert_eq!(until(&mut throttles, 0.25, 90_000, 999), Some(512));
    let wait_ns = throttles.of(3).map(|throttle| throttle.wait_ns(STEP, 60 * S, 90_000 * S));
    assert_eq!(wait_ns, Some(600 * S), "with a dwell time of a minute");
}

#[test]
fn two_cuts_of_one_freeze_are_one_that_was_too_much() {
    let mut throttles = limited();
    until(&mut throttles, 0.8, 1, 60);
    throttles.cut(3, STEP, S, 60 * S);
    throttles.halve(3, STEP, 60 * S);
    throttles.run(62 * S);
    assert!((share(&throttles) - 0.2).abs() < 1e-3);
    assert_eq!(until(&mut throttles, 0.4, 62, 60), Some(4), "0.4 was never too much");
}

#[test]
fn something_is_always_left() {
    let mut throttles = limited();
    (0..9).for_each(|time| throttles.halve(3, STEP, time));
    assert_eq!(share(&throttles), LEAST * STEP);
    throttles.run(S);
    assert_eq!(throttles.cut(3, STEP, S, 2 * S), Cut::InVain, "nothing is left to cut");
    assert_eq!(throttles.cut(7, STEP, S, 2 * S), Cut::InVain, "nobody is limited there");
}

#[test]
fn more_disks_than_there_is_room_for() {
    let mut throttles = limited();
    pass(&mut throttles, 1, 2);
    (10..10 + DISKS as u16).for_each(|filesystem| throttles.begin(filesystem, jobs(&[2]), STEP, 10 * S));
    assert_eq!(throttles.of(3), None, "who had most");
    assert_eq!(throttles.iter().count(), DISKS);
    // Who makes way has least.
    let mut throttles = Throttles::default();
    throttles.make_way(40, jobs(&[4]), S);
    throttles.give_way(1 << 40, STEP, S);
    (10..10 + DISKS as u16).for_each(|filesystem| throttles.begin(filesystem, jobs(&[2]), STEP, 10 * S));
    assert!(throttles.of(40).is_some());
    assert_eq!(throttles.iter().count(), DISKS);
    // Where all do, one of them has to.
    throttles.give_way(u128::MAX, STEP, 11 * S);
    throttles.begin(50, jobs(&[2]), STEP, 12 * S);
    assert!(throttles.of(50).is_some());
    assert_eq!(throttles.iter().count(), DISKS);
}

#[test]
fn who_makes_way_takes_nobody_his_place() {
    let mut throttles = limited();
    (10..9 + DISKS as u16).for_each(|filesystem| throttles.begin(filesystem, jobs(&[2]), STEP, 10 * S));
    let before = throttles;
    throttles.make_way(40, jobs(&[4]), 20 * S);
    assert!(throttles == before && throttles.has_room(3) && !throttles.has_room(40));
    throttles.make_way(3, jobs(&[4]), 20 * S);
    assert_eq!(throttles.of(3).map(|throttle| (throttle.jobs, throttle.share)), Some((jobs(&[1, 4]), STEP)));
    let mut throttles = limited();
    throttles.make_way(40, jobs(&[4]), 20 * S);
    assert_eq!(throttles.of(40).map(|throttle| throttle.given()), Some(1.0));
    throttles.give_way(1 << 40, STEP, 20 * S);
    assert_eq!(throttles.given_way(), Some((40, jobs(&[4]))));
    assert_eq!((throttles.given_way(), throttles.of(40).map(|throttle| throttle.given())), (None, Some(0.0)));
    // Of nothing nothing can be taken, nor is it learned what is too much.
    assert_eq!(throttles.cut(40, STEP, S, 60 * S), Cut::Lately);
    assert!(!throttles.can_cut(40, STEP) && throttles.filesystems() == (1 << 3) | (1 << 40));
    // But it is looked who else does something there, when they are caught again.
    throttles.ease(S, STEP, 2 * S, 60 * S);
    assert!(!throttles.of(40).unwrap().was_cut());
    throttles.halve(40, STEP, 60 * S);
    assert!(throttles.of(40).unwrap().was_cut());
    throttles.give_way(0, STEP, 61 * S);
    assert_eq!(throttles.of(40).map(|throttle| throttle.given()), Some(0.5));
}

#[test]
fn it_is_as_before_where_it_is_still_limited() {
    let mut throttles = limited();
    throttles.begin(4, jobs(&[2]), STEP, S);
    let mut before = throttles;
    throttles.halve(3, STEP, 2 * S);
    throttles.halve(4, STEP, 2 * S);
    throttles.end(4);
    throttles.begin(5, jobs(&[3]), STEP, 2 * S);
    before.keep_those_of(&throttles);
    throttles.give_back(0b11_1000, &before);
    assert_eq!((share(&throttles), throttles.iter().count()), (STEP, 1));
}

#[test]
fn jobs_join_and_end() {
    let mut throttles = limited();
    throttles.begin(3, jobs(&[2]), STEP, 2 * S);
    throttles.begin(4, JobSet::default(), STEP, 2 * S);
    throttles.of_living(&jobs(&[2, 9]), 9);
    assert_eq!(throttles.of(3).map(|throttle| throttle.jobs), Some(jobs(&[2])));
    throttles.of_living(&jobs(&[9]), 9);
    assert_eq!((throttles.of(3), throttles.of(4).is_some()), (None, true), "nobody is named there");
    throttles.of_living(&jobs(&[9]), 4);
    assert!(throttles.is_empty(), "the disk is gone");
}

// SPDX-License-Identifier: Apache-2.0
//! What the control loop makes of gauges.

use super::*;
use crate::actuators::freeze::Ease;

#[test]
fn where_storage_is_short_of_memory_who_took_it_leaves_and_else_the_youngest() {
    for (grown, leaves) in [([300, 100], "a.scope"), ([200, 200], "b.scope")] {
        let mut rig = Rig::new(RecordingFreezer::default());
        let folder = |job: &str| rig.folders.path().join("jobs.slice").join(job);
        // The one that is made later has the larger number in any cgroup hierarchy, and here as a rule.
        let mut jobs = ["a.scope", "b.scope"].map(|job| {
            std::fs::create_dir(folder(job)).unwrap();
            (std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(folder(job)).unwrap()), job)
        });
        jobs.sort_unstable();
        let place_of = |leaves: &str| if leaves == "a.scope" { jobs[0] } else { jobs[1] };
        let (_, expected) = place_of(leaves);
        rig.pass(10 * SECOND_NS);
        assert_eq!(lock(&rig.knob.0).ease, Ease::Nobody);
        rig.memory = 0.5;
        for _ in 0..12 {
            let at_ns = rig.clock.monotonic_ns();
            let of = |(number, mib): (u64, u64)| {
                let bytes = mib << 20;
                crate::watch::Holding { number, bytes, grown: bytes, waited_us: 0, at_ns }
            };
            rig.control.shared.holdings.put(&[of((jobs[0].0, grown[0])), of((jobs[1].0, grown[1]))]);
            rig.pass(SECOND_NS);
        }
        assert!(rig.state().starts_with("state=vacating"), "{}", rig.state());
        let reason = if grown[0] > grown[1] { "memory_growth" } else { "gauge_above" };
        assert!(rig.state().contains(&format!("reason={reason} ")), "{}", rig.state());
        let wish = rig.wishes.try_iter().last().unwrap();
        assert_eq!(wish.leavers.iter().map(|leaver| &*leaver.scope).collect::<Vec<_>>(), [expected]);
        assert_eq!(lock(&rig.knob.0).ease, Ease::Some, "he needs CPU for it");
    }
}

#[test]
fn a_gauge_that_is_as_it_was_goes_on_where_another_is_new() {
    let mut rig = Rig::new(RecordingFreezer::default());
    rig.memory = 0.5;
    rig.pass(9 * SECOND_NS);
    assert!(rig.state().starts_with("state=open"), "{}", rig.state());
    let mut new = rig.control.config.clone();
    let another = policy::GaugeObjective { name: "another".into(), ..new.gauges[1].clone() };
    new.gauges.push(another);
    *lock(&rig.control.shared.configuration) = Some(Box::new(new));
    rig.pass(2 * SECOND_NS);
    assert!(rig.state().contains("reason=gauge_above "), "ten seconds in all: {}", rig.state());
}

#[test]
fn an_overloaded_filesystem_is_a_gauge() {
    let mut rig = Rig::new(RecordingFreezer::default());
    let read = |rig: &Rig| {
        let place = policy::gauge::source_of("storage.overloaded").unwrap();
        rig.control.shared.gauges.read(place, 1)
    };
    let value = |rig: &Rig| if let policy::gauge::Reading::Value(value, _) = read(rig) { value } else { f64::NAN };
    rig.pass(3_000_000_000);
    assert_eq!(value(&rig), 0.0);
    rig.writer.filesystem(0, 1, 7, true).unwrap();
    rig.pass(3_000_000_000);
    assert_eq!(value(&rig), 1.0);
    std::fs::remove_file(rig.writer.path()).unwrap();
    rig.pass(3_000_000_000);
    assert_eq!(read(&rig), policy::gauge::Reading::Absent);
}

#[test]
fn a_disk_that_goes_away_is_a_gauge_and_comes_back_under_another_number() {
    let gauge = "[[gauge]]\nname = \"disk-gone\"\nsource = \"storage.disk.gone\"\nabove = 0.0\nfor = \"0s\"\n";
    let mut rig = Rig::with(RecordingFreezer::default(), gauge);
    rig.disks("8 0 sda");
    rig.pass(5 * SECOND_NS);
    assert!(rig.state().starts_with("state=open admit=1"), "{}", rig.state());
    rig.disks("8 16 sdb");
    rig.pass(3 * SECOND_NS);
    assert!(rig.state().starts_with("state=closed") && rig.state().contains("reason=gauge_above"), "{}", rig.state());
    assert_eq!((lock(&rig.control.shared.snapshot).gone, rig.writes()), (1, vec![]));
    let (path, device) = ("/data/01".to_owned(), (8, 16));
    *lock(&rig.control.shared.mounts) = [crate::signals::Mounted { path, device, disk: device }].into();
    rig.pass(14 * SECOND_NS);
    assert!(rig.state().starts_with("state=open admit=1"), "{}", rig.state());
    assert_eq!(lock(&rig.control.shared.snapshot).gone, 0);
}

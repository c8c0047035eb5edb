// SPDX-License-Identifier: Apache-2.0
//! What follows when something is not heard any more.

use super::*;

#[test]
fn what_is_not_heard_for_long_leaves_batch_its_least_also_in_the_storage_daemons() {
    let mut rig = Rig::new(RecordingFreezer::default());
    rig.pass(5 * SECOND_NS);
    rig.wishes.try_iter().count();
    let shaping = |rig: &Rig| std::fs::read(rig.folders.path().join("shaping")).unwrap_or_default();
    let number = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    rig.daemon = false;
    rig.pass(31 * SECOND_NS);
    assert!(rig.wishes.try_iter().next().is_none());
    rig.pass(2 * SECOND_NS);
    let wish = rig.wishes.try_iter().last().unwrap();
    assert_eq!((wish.shares.of(Resource::Cpu), wish.said, wish.cause), (0.05, true, "signal_stale"));
    assert!(wish.little, "of the disks themselves too");
    // One record: every filesystem, a MiB and eight requests per second, for as long as its lease.
    let file = shaping(&rig);
    assert_eq!((file[12], &file[64..72], number(&file, 72), number(&file, 80)), (1, &[0xff; 8][..], 1 << 20, 8));
    assert!(number(&file, 24) > rig.clock.monotonic_ns() && !rig.control.shaping.held() && rig.writes().is_empty());
    rig.daemon = true;
    rig.pass(2 * SECOND_NS);
    assert!(number(&shaping(&rig), 24) <= rig.clock.monotonic_ns(), "it says nothing any more");
    assert!(!rig.wishes.try_iter().last().unwrap().little);
    let mut later = |_| {
        rig.pass(SECOND_NS);
        rig.wishes.try_iter().last()
    };
    assert_eq!((0..120).filter_map(&mut later).last().unwrap().shares, Shares::default());
}

/// Something is lost, and comes back.
type Loss = fn(&mut Rig, bool);

#[test]
fn a_signal_that_is_lost_closes_the_node_after_its_grace_time_and_freezes_nobody() {
    let cases: [(&str, u64, Loss); 4] = [
        ("signal_stale", 2, |rig, back| rig.daemon = back),
        ("gauge_stale", 10, |rig, back| rig.watch = back),
        ("self_check", 12, |rig, back| {
            let text = if back { "8:0 rbytes=1 wbytes=0 rios=1 wios=0 dbytes=0 dios=0\n" } else { "8:0 damaged\n" };
            std::fs::write(rig.folders.path().join("jobs.slice/io.stat"), text).unwrap();
        }),
        ("signal_missing", 2, |rig, back| {
            let path = rig.folders.path().join("beer.lat");
            std::fs::write(path, "no segment").unwrap();
            if back {
                rig.writer =
                    SegmentWriter::create(&rig.folders.path().join("beer.lat"), 2, &[("/data/01", 8, 0)], 64, 64)
                        .unwrap();
            }
        }),
    ];
    for (reason, grace_s, lose) in cases {
        let mut rig = Rig::new(RecordingFreezer::default());
        lose(&mut rig, true);
        rig.pass(10 * SECOND_NS);
        assert!(rig.state().starts_with("state=open admit=1"), "{reason}: {}", rig.state());
        lose(&mut rig, false);
        rig.pass(grace_s * SECOND_NS - SECOND_NS);
        assert!(rig.state().starts_with("state=open admit=1"), "{reason}: {}", rig.state());
        rig.pass(3 * SECOND_NS);
        assert!(rig.state().starts_with("state=closed admit=0"), "{reason}: {}", rig.state());
        assert!(rig.state().contains(&format!("reason={reason} ")), "{}", rig.state());
        rig.pass(120 * SECOND_NS);
        assert_eq!((rig.writes(), rig.control.shaping.held()), (vec![], false), "{reason}");
        lose(&mut rig, true);
        rig.pass(20 * SECOND_NS);
        assert!(rig.state().contains(" admit=1"), "{reason}: {}", rig.state());
        // Of a silence for long batch had its least of the CPU, and gets it back bit by bit.
        rig.pass(120 * SECOND_NS);
        assert!(rig.state().starts_with("state=open admit=1"), "{reason}: {}", rig.state());
    }
}

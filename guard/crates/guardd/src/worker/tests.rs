// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::clock::SystemClock;
use std::path::Path;

fn limit() -> Limit {
    Limit { scope: "container".into(), device: (8, 16), requests: 40, bytes: 1 << 20, reads: 50 }
}

fn worker(folder: &Path) -> (Worker, Receiver<Message>) {
    let patience = Duration::from_secs(5);
    let io_max = IoMaxActuator::new(folder, folder, Path::new("systemctl"), patience);
    let vacate = VacateActuator::new(folder, folder, folder);
    let kill = KillActuator::new(folder, folder, patience);
    let (outbox, inbox) = sync_channel(16);
    let squeeze = SqueezeActuator::new(folder, folder, Path::new("systemctl"), patience);
    let network = NetworkActuator::new(folder, Path::new("systemctl"), patience);
    let disks = DisksActuator::of_guard(folder, folder, Path::new("systemctl"), patience);
    let swap = SwapActuator::new(folder, folder, Path::new("systemctl"), patience);
    let memory_high = MemoryHighActuator::new(folder, folder, 0.95);
    let knobs = Knobs { io_max, memory_high, squeeze, network, disks, swap, vacate, kill };
    (Worker::new(knobs, Arc::new(SystemClock), Arc::default(), outbox), inbox)
}

/// What the reporter hears of: is it a limit, and did it work?
fn heard(inbox: &Receiver<Message>) -> Vec<(bool, bool)> {
    let of = |message| if let Message::Limited(limited) = message { limited.outcomes } else { Vec::new() };
    inbox.try_iter().flat_map(of).map(|outcome| (!outcome.limits.is_empty(), outcome.seen.is_ok())).collect()
}

#[test]
fn a_failure_is_said_once_and_its_end_too() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("container")).unwrap();
    let (mut worker, inbox) = worker(folder.path());
    let wish = |said| Wish { limits: [limit()].into(), said, ..Wish::nothing(1) };
    let (_wishes, wished) = sync_channel(1);
    worker.grant(wish(true), &wished);
    assert_eq!(heard(&inbox), [(true, false)], "no io.max there");
    (0..3).for_each(|_| assert!(worker.look(&wished).is_none()));
    assert_eq!(heard(&inbox), []);
    std::fs::write(folder.path().join("container/io.max"), "").unwrap();
    worker.look(&wished);
    assert_eq!(heard(&inbox), [(true, true)]);
    worker.look(&wished);
    worker.grant(wish(false), &wished);
    assert_eq!(heard(&inbox), [], "nothing to do");
    // Somebody else lifts it.
    std::fs::write(folder.path().join("container/io.max"), "").unwrap();
    worker.look(&wished);
    assert_eq!(heard(&inbox), [(true, true)]);
    assert_eq!(worker.shared.limit_drifts.load(std::sync::atomic::Ordering::Relaxed), 1);
    std::fs::write(folder.path().join("container/io.max"), "").unwrap();
    worker.look(&wished);
    assert!(inbox.try_iter().any(|message| matches!(message, Message::Drifted { of: "limits of jobs on a disk", .. })));
}

#[test]
fn who_is_not_heard_has_little_of_the_disks_and_what_they_are_is_known_when_the_guard_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let slice = folder.path().join("beer-jobs");
    std::fs::create_dir(&slice).unwrap();
    std::fs::write(slice.join("io.max"), "").unwrap();
    let (mut worker, inbox) = worker(&slice);
    let (wishes, wished) = sync_channel(QUEUE);
    let disks: Arc<[(u32, u32)]> = [(8, 16)].into();
    worker.know(Arc::clone(&disks));
    // Another thread makes the kernel ready for limits, which has nothing of that in its file.
    for _ in 0..5000 {
        if std::fs::read(slice.join("io.max")).is_ok_and(|armed| !armed.is_empty()) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    std::fs::write(slice.join("io.max"), "").unwrap();
    wishes.send(Wish { disks: Arc::clone(&disks), ..Wish::nothing(1) }).unwrap();
    wishes.send(Wish { disks, little: true, ..Wish::nothing(2) }).unwrap();
    drop(wishes);
    worker.run(&wished);
    let io_max = || std::fs::read_to_string(slice.join("io.max")).unwrap();
    assert!(io_max().contains("8:16 rbps=524288 wbps=524288 riops=4 wiops=4"), "{}", io_max());
    assert_eq!(worker.disks.known(), [(8, 16)]);
    let little = |message| match message {
        Message::Squeezed { outcome, .. } => outcome.has,
        _ => None,
    };
    assert_eq!(
        inbox.try_iter().filter_map(little).collect::<Vec<_>>(),
        ["8 requests/s and 1.0 MB/s of each data disk"]
    );
}

#[test]
fn many_are_limited_together_before_each_of_them_is() {
    let folder = tempfile::tempdir().unwrap();
    let slice = folder.path().join("beer-jobs");
    std::fs::create_dir_all(slice.join("container")).unwrap();
    for file in ["io.max", "container/io.max"] {
        std::fs::write(slice.join(file), "").unwrap();
    }
    let (mut worker, inbox) = worker(&slice);
    let (wishes, wished) = sync_channel(QUEUE);
    let together = Limit { scope: "beer-jobs".into(), requests: 12, ..limit() };
    let wish = Wish { together: [together].into(), limits: [limit()].into(), ..Wish::nothing(1) };
    wishes.send(wish.clone()).unwrap();
    assert!(worker.grant(wish, &wished).is_some(), "another one has come");
    let io_max = |of: &str| std::fs::read_to_string(slice.join(of)).unwrap();
    assert!(io_max("io.max").contains("riops=6 wiops=6"), "{}", io_max("io.max"));
    assert!(io_max("container/io.max").contains("riops=20"));
    let said = |message| match message {
        Message::Squeezed { outcome, .. } => Some((outcome.of, outcome.has)),
        _ => None,
    };
    let has = Some("12 requests/s and 1.0 MB/s of 8:16".to_owned());
    assert_eq!(inbox.try_iter().filter_map(said).next(), Some((DisksActuator::TOGETHER, has)));
    // Nobody may be left with it.
    drop(wishes);
    worker.run(&wished);
    assert!(io_max("io.max").contains("riops=max wiops=max"), "{}", io_max("io.max"));
}

#[test]
fn the_end_of_the_loop_lifts_everything() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("container")).unwrap();
    std::fs::write(folder.path().join("container/io.max"), "").unwrap();
    let (mut worker, inbox) = worker(folder.path());
    let (wishes, wished) = sync_channel(QUEUE);
    let leavers = Arc::from([Leaver { scope: "container".into(), by_force: false }]);
    wishes.send(Wish { leavers, ..Wish::nothing(1) }).unwrap();
    wishes.send(Wish { limits: [limit()].into(), said: false, ..Wish::nothing(2) }).unwrap();
    drop(wishes);
    worker.run(&wished);
    assert_eq!(std::fs::read_to_string(folder.path().join(VacateActuator::SLOTS)).unwrap(), "\n");
    assert_eq!(heard(&inbox), [(true, true), (false, true)]);
    assert!(std::fs::read_to_string(folder.path().join("container/io.max")).unwrap().contains("riops=max"));
}

#[test]
fn only_what_the_loop_has_wished_for_is_granted() {
    let folder = tempfile::tempdir().unwrap();
    let (mut worker, _inbox) = worker(folder.path());
    let granted = |worker: &Worker| worker.shared.granted_ns.load(Ordering::Relaxed);
    // What was wished for before is looked at, and something else may be on its way.
    worker.look(&sync_channel(1).1);
    assert_eq!(granted(&worker), 0);
    let (wishes, wished) = sync_channel(QUEUE);
    wishes.send(Wish::nothing(7)).unwrap();
    drop(wishes);
    worker.run(&wished);
    assert_eq!(granted(&worker), 7);
}

#[test]
fn jobs_are_slowed_at_their_limit_where_their_code_is_on_a_disk_of_storage() {
    let folder = tempfile::tempdir().unwrap();
    let job = |name: &str, file: &str| folder.path().join(name).join(file);
    for name in ["docker-a.scope", "docker-b.scope"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        std::fs::write(job(name, "memory.max"), "104857600\n").unwrap();
        std::fs::write(job(name, "memory.high"), "max\n").unwrap();
    }
    let high = |name| std::fs::read_to_string(job(name, "memory.high")).unwrap().trim_end().to_owned();
    let (mut worker, _inbox) = worker(folder.path());
    *lock(&worker.shared.scratch_on_data) = Some(true);
    let (wishes, wished) = sync_channel(QUEUE);
    let thread = std::thread::spawn(move || worker.run(&wished));
    let slowed = || high("docker-a.scope") == "99614720" && high("docker-b.scope") == "99614720";
    let patience = std::time::Instant::now() + Duration::from_secs(20);
    while !slowed() && std::time::Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(wishes);
    thread.join().unwrap();
    assert!(slowed(), "also when the guard has ended");
}

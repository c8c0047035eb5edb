// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::detector::trial::{objective, Completed, Health, Random, Trial};
use crate::objective::{Level, SignalState};
use intf::segment::layout::{bucket_of, Kind, SeriesId};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
const HEARD: Signal = Signal::Heard { heartbeat_age_ns: 0 };

fn filesystems(paths: &[String]) -> Vec<Filesystem> {
    let filesystem = |path: &String| Filesystem {
        path: path.clone(),
        major: 8,
        minor: 0,
        open_readers: 0,
        open_writers: 0,
        overloaded: false,
    };
    paths.iter().map(filesystem).collect()
}

fn disks(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("/data/{i:02}")).collect()
}

fn read(filesystem: u16) -> SeriesId {
    SeriesId { filesystem, kind: Kind::STORAGE_READ }
}

/// Some disks, each with a request of about 8 ms every 160 ms.
struct Node {
    evaluator: Evaluator,
    random: Random,
    now: u64,
    disks: u16,
    factor: f64,
    /// These disks are five times slower, bit by index.
    slow: u128,
    acting: bool,
    signal: Signal,
    /// A request that never ends.
    hangs: bool,
}

impl Node {
    fn new(disk_count: u16) -> Node {
        let mut evaluator = Evaluator::new(&[objective(12.0, 24.0, 0)]);
        evaluator.restart(&filesystems(&disks(usize::from(disk_count))));
        Node {
            evaluator,
            random: Random::new(3),
            now: S,
            disks: disk_count,
            factor: 1.0,
            slow: 0,
            acting: false,
            signal: HEARD,
            hangs: false,
        }
    }

    fn tick(&mut self) -> Verdict {
        self.now += 20 * MS;
        self.evaluator.begin(self.now);
        for disk in 0..self.disks {
            if self.random.uniform() < 1.0 / 8.0 {
                let mut completed = Completed::NOTHING;
                let latency = 8e6 * (0.324 * self.random.normal()).exp() * self.factor;
                let latency = if (self.slow >> disk) & 1 == 1 { 5.0 * latency } else { latency };
                completed.add(latency as u64);
                completed.delta(read(disk)).iter().for_each(|delta| self.evaluator.series(delta));
            }
        }
        if self.hangs {
            self.evaluator.in_flight(&InFlight { series: read(0), age_ns: MS, tid: 1, bytes: 0, client: None });
        }
        self.evaluator.finish(self.now, self.signal, self.acting);
        self.evaluator.verdicts()[0]
    }

    fn run(&mut self, time: u64) {
        (0..time / (20 * MS)).for_each(|_| {
            self.tick();
        });
    }
}

#[test]
fn a_node_whose_every_disk_is_a_little_slower_shows_it_as_a_whole() {
    // 300 requests/s over 48 disks: 6 per second and disk, so that one disk alone would take seconds.
    let mut node = Node::new(48);
    node.run(300 * S);
    let verdict = node.tick();
    assert!(verdict.dependence.is_some() && verdict.level == Level::Calm);
    assert!((verdict.rate - 300.0).abs() < 30.0, "{}", verdict.rate);
    node.factor = 2.0;
    let ticks = (0..500).take_while(|_| node.tick().level < Level::Weak).count();
    assert!(ticks <= 20, "{ticks} ticks");
}

#[test]
fn a_guard_that_starts_into_trouble_learns_what_is_usual_without_batch() {
    let mut node = Node::new(2);
    node.acting = true;
    node.run(300 * S);
    assert!(node.tick().dependence.is_some());
}

#[test]
fn neither_silence_nor_a_missing_signal_teaches_anything() {
    let mut node = Node::new(2);
    while node.tick().dependence.is_none() {}
    let learned = node.now;
    let nearly = || {
        let mut node = Node::new(2);
        node.run(learned - 5 * S);
        node
    };
    let mut silent = nearly();
    silent.disks = 0;
    silent.run(60 * S);
    assert!(silent.tick().dependence.is_none(), "two seconds of silence count, and then no more");
    let mut deaf = nearly();
    deaf.signal = Signal::Heard { heartbeat_age_ns: 60 * S };
    deaf.run(60 * S);
    deaf.signal = HEARD;
    assert!(deaf.tick().dependence.is_none());
    deaf.run(10 * S);
    assert!(deaf.tick().dependence.is_some());
}

#[test]
fn what_is_known_does_not_change_while_batch_is_held_back() {
    let mut node = Node::new(2);
    node.run(300 * S);
    node.acting = true;
    node.factor = 3.0;
    node.run(3000 * S);
    node.acting = false;
    assert!(node.tick().level > Level::Calm);
}

#[test]
fn a_restart_keeps_what_is_known_about_a_path_and_forgets_the_evidence() {
    let mut node = Node::new(2);
    node.run(300 * S);
    assert!(node.tick().dependence.is_some());
    node.factor = 10.0;
    node.run(2 * S);
    assert_eq!(node.evaluator.verdicts()[0].level, Level::Strong);
    let turned: Vec<String> = disks(2).into_iter().rev().collect();
    node.evaluator.restart(&filesystems(&turned));
    node.factor = 1.0;
    let verdict = node.tick();
    assert!(verdict.dependence.is_some() && verdict.level == Level::Calm, "{verdict:?}");
    assert_eq!(node.evaluator.names().filesystems, turned);
    node.evaluator.restart(&filesystems(&["/other".into()]));
    node.disks = 1;
    assert!(node.tick().dependence.is_none());
}

#[test]
fn a_disk_keeps_its_evidence_through_ticks_without_requests() {
    let mut node = Node::new(2);
    node.run(300 * S);
    node.factor = 10.0;
    node.run(S);
    assert_eq!(node.tick().level, Level::Strong);
    node.disks = 0;
    assert_eq!(node.tick().level, Level::Strong, "nobody asks for 20 ms");
    node.run(S);
    assert_eq!(node.tick().level, Level::Strong, "nor for less than two seconds");
    node.run(2 * S);
    assert_eq!(node.tick().level, Level::Calm, "nobody is being hurt");
}

#[test]
fn a_storage_service_that_was_not_heard_has_no_evidence_left_of_any_disk() {
    let mut node = Node::new(2);
    node.run(300 * S);
    node.factor = 10.0;
    assert!((0..200).any(|_| node.tick().level == Level::Strong));
    // In the tick in which it is not heard no disk has a request: their evidence is of ticks before.
    node.disks = 0;
    assert!(node.tick().measure.value > 0.0);
    node.signal = Signal::Heard { heartbeat_age_ns: 60 * S };
    assert_eq!(node.tick().signal, SignalState::Stale);
    (node.signal, node.disks, node.factor) = (HEARD, 2, 1.0);
    assert!((0..25).all(|_| node.tick().level == Level::Calm));
}

/// The signal state of ticks one second apart.
fn states(signals: &[Signal]) -> Vec<SignalState> {
    let mut evaluator = Evaluator::new(&[objective(12.0, 24.0, 0)]);
    evaluator.restart(&filesystems(&disks(1)));
    let state = |(i, &signal): (usize, &Signal)| {
        let now = S * (i as u64 + 1);
        evaluator.begin(now);
        evaluator.finish(now, signal, false);
        evaluator.verdicts()[0].signal
    };
    signals.iter().enumerate().map(state).collect()
}

#[test]
fn no_signal_counts_after_the_grace_time() {
    use SignalState::{Fresh, Missing, Stale};
    let old = |s: u64| Signal::Heard { heartbeat_age_ns: s * S };
    assert_eq!(states(&[Signal::Missing, HEARD, old(2), old(3), HEARD]), [Missing, Fresh, Fresh, Stale, Fresh]);
    let gone = Signal::Missing;
    assert_eq!(states(&[HEARD, gone, gone, gone, HEARD]), [Fresh, Fresh, Fresh, Missing, Fresh]);
    // From the future: no signal.
    assert_eq!(states(&[Signal::Heard { heartbeat_age_ns: u64::MAX }]), [Stale]);
}

#[test]
fn an_objective_that_no_filesystem_matches_has_no_signal() {
    let mut evaluator = Evaluator::new(&[Objective { filesystem: "/other/*".into(), ..objective(12.0, 24.0, 0) }]);
    evaluator.restart(&filesystems(&disks(2)));
    evaluator.begin(S);
    evaluator.finish(S, HEARD, false);
    assert_eq!(evaluator.verdicts()[0].signal, SignalState::Missing);
}

#[test]
fn loads_say_what_is_in_flight_and_what_is_stuck() {
    let mut evaluator = Evaluator::new(&[objective(12.0, 24.0, 0)]);
    evaluator.restart(&filesystems(&disks(2)));
    evaluator.begin(S);
    let batch = SeriesId { filesystem: 1, kind: Kind::new(1).unwrap() };
    let open = SeriesId { filesystem: 1, kind: Kind::new(9).unwrap() };
    for (series, age_ns) in [(read(0), 700 * MS), (read(1), 900 * MS), (read(1), 5), (batch, 5 * S), (open, 9 * S)] {
        evaluator.in_flight(&InFlight { series, age_ns, tid: 1, bytes: 0, client: None });
    }
    // A series of a filesystem that is not there.
    evaluator.in_flight(&InFlight { series: read(7), age_ns: S, tid: 1, bytes: 0, client: None });
    evaluator.finish(S, HEARD, false);
    let loads = evaluator.filesystems();
    assert_eq!((loads[0].stuck, loads[0].oldest_ns), (false, 700 * MS));
    // Only what the objective judges is stuck.
    let expected = FilesystemLoad {
        oldest_ns: 900 * MS,
        stuck: true,
        objective: 0,
        stuck_after_ns: 800 * MS,
        storage_in_flight: 3,
        batch_in_flight: 1,
        slow_end: SlowEnd::default(),
    };
    assert_eq!(loads[1], expected);
    assert!(evaluator.verdicts()[0].stuck);
    evaluator.begin(2 * S);
    evaluator.finish(2 * S, HEARD, false);
    assert!(!evaluator.verdicts()[0].stuck && !evaluator.filesystems()[1].stuck);
}

/// Of the requests of one disk within a time, those in their slow end and those usually there.
fn slow_end(node: &mut Node, disk: usize, time: u64) -> SlowEnd {
    let mut sum = SlowEnd::default();
    for _ in 0..time / (20 * MS) {
        node.tick();
        sum.add(node.evaluator.filesystems()[disk].slow_end);
    }
    sum
}

#[test]
fn the_slow_end_shows_what_is_no_evidence_yet() {
    let mut node = Node::new(2);
    node.run(120 * S);
    assert_eq!(slow_end(&mut node, 0, 2 * S).found, 0.0, "nothing to compare with");
    // What shares its fate counts as less, and not where it is the share of all that counts: here it is not known yet, three are one.
    node.factor = 100.0;
    let slow = slow_end(&mut node, 0, S);
    assert!(slow.slow == slow.requests && (slow.found * 3.0 - slow.slow).abs() < 1e-3, "{slow:?}");
    node = Node::new(2);
    node.run(120 * S);
    let mut unknown = Node::new(1);
    unknown.factor = 100.0;
    let slow = slow_end(&mut unknown, 0, 5 * S);
    assert!(slow.found == 0.0 && slow.slow > 0.5 * slow.requests, "what was promised is known: {slow:?}");
    node.run(480 * S);
    node.acting = true;
    let usual = slow_end(&mut node, 0, 300 * S);
    assert!(usual.usual > 15.0 && (usual.found / usual.usual - 1.0).abs() < 0.5, "{usual:?}");
    node.factor = 1.3;
    let slower = slow_end(&mut node, 0, 300 * S);
    assert!(slower.found > 2.5 * slower.usual, "{slower:?}");
    assert!(node.tick().level == Level::Calm);
    // Each disk by what is usual there.
    (node.factor, node.slow) = (1.0, 2);
    let (other, slow) = (slow_end(&mut node, 0, 60 * S), slow_end(&mut node, 1, 60 * S));
    assert!(slow.found > 20.0 * slow.usual && other.found < 3.0 * other.usual, "{slow:?} {other:?}");
    assert!(slow.slow > 0.9 * slow.requests, "{slow:?}");
}

#[test]
fn who_is_promised_something_twice_is_counted_once() {
    let mut evaluator = Evaluator::new(&[objective(12.0, 24.0, 0), objective(12.0, 24.0, 0)]);
    evaluator.restart(&filesystems(&disks(1)));
    evaluator.begin(S);
    let mut completed = Completed::NOTHING;
    (0..7).for_each(|_| completed.add(1));
    completed.delta(read(0)).iter().for_each(|delta| evaluator.series(delta));
    evaluator.finish(S, HEARD, false);
    assert_eq!(evaluator.filesystems()[0].slow_end.requests, 7.0);
}

#[test]
fn slack_is_what_is_left_of_the_allowed_share() {
    let mut node = Node::new(1);
    node.run(60 * S);
    assert_eq!(node.tick().slack, 1.0);
    // Slower than the threshold of 100 ms: not broken by the first two of them.
    node.factor = 30.0;
    node.run(S / 4);
    assert!(node.tick().slack > -0.5);
    node.run(10 * S);
    assert!(node.tick().slack < -5.0);
}

/// A node whose promise is broken, and that is fast again.
fn broken() -> Node {
    let mut node = Node::new(1);
    node.run(60 * S);
    node.factor = 30.0;
    node.run(20 * S);
    node.factor = 1.0;
    node
}

#[test]
fn users_who_have_left_hold_nothing_back() {
    let mut left = broken();
    left.disks = 0;
    left.run(24 * S);
    assert!(left.tick().slack < 0.0, "they may come back");
    left.run(2 * S);
    assert_eq!(left.tick().slack, 1.0);
}

#[test]
fn who_waits_for_an_answer_has_not_left_nor_has_who_is_not_heard() {
    let mut hangs = broken();
    (hangs.disks, hangs.hangs) = (0, true);
    hangs.run(60 * S);
    assert!(hangs.tick().slack < 0.0);
    for signal in [Signal::Missing, Signal::Heard { heartbeat_age_ns: 60 * S }] {
        let mut deaf = broken();
        (deaf.disks, deaf.signal) = (0, signal);
        deaf.run(60 * S);
        assert!(deaf.tick().slack < 0.0, "{signal:?}");
    }
}

#[test]
fn users_who_rarely_ask_have_not_left() {
    for silence in [11, 15, 20, 24] {
        let mut rare = Node::new(1);
        rare.run(60 * S);
        rare.factor = 30.0;
        for _ in 0..20 {
            rare.disks = 0;
            rare.run(silence * S);
            rare.disks = 1;
            rare.run(S);
        }
        assert!(rare.tick().slack < 0.0, "six slow requests every {silence} s");
    }
}

#[test]
fn what_users_suffer_while_batch_is_held_is_taken_off_the_error_budget_too() {
    let spent = |acting| {
        let mut node = Node::new(1);
        node.run(60 * S);
        assert_eq!((node.tick().budget_left, node.tick().burning), (Some(1.0), None));
        (node.acting, node.factor) = (acting, 30.0);
        node.run(20 * S);
        let verdict = node.tick();
        assert!(verdict.burning.is_some_and(|measure| measure.value > measure.limit), "{verdict:?}");
        verdict.budget_left.unwrap()
    };
    assert!(spent(true) < 1.0 && spent(true) == spent(false));
}

#[test]
fn the_error_budget_survives_a_restart_of_the_storage_daemon_and_not_the_users() {
    let mut node = broken();
    let before = node.tick().budget_left.unwrap();
    node.evaluator.restart(&filesystems(&disks(1)));
    let verdict = node.tick();
    assert!(verdict.burning.is_some() && (verdict.budget_left.unwrap() - before).abs() < 0.01, "{verdict:?}");
    // Once its signal is gone for good nothing is counted, and nothing forgotten.
    (node.disks, node.signal) = (0, Signal::Missing);
    node.run(60 * S);
    assert_eq!(node.tick().signal, SignalState::Missing);
    node.signal = HEARD;
    assert!(node.tick().burning.is_some());
    node.run(26 * S);
    let verdict = node.tick();
    assert!(verdict.burning.is_none() && verdict.budget_left.unwrap() < 1.0, "{verdict:?}");
}

#[test]
fn the_error_budget_of_a_promise_that_stays_is_kept() {
    let mut node = broken();
    let before = node.tick().budget_left.unwrap();
    assert!(before < 1.0);
    let same = objective(12.0, 24.0, 0);
    let other = Objective { budget_window_ns: Some(7200 * S), ..same.clone() };
    let none = Objective { budget_window_ns: None, ..same.clone() };
    node.evaluator.reconfigure(&[other, none, same], &filesystems(&disks(1)));
    node.disks = 0;
    node.tick();
    let left: Vec<Option<f64>> = node.evaluator.verdicts().iter().map(|verdict| verdict.budget_left).collect();
    assert_eq!((left[0], left[1]), (Some(1.0), None));
    assert!((left[2].unwrap() - before).abs() < 0.01, "{left:?}");
}

#[test]
fn a_request_that_hangs_is_taken_off_the_error_budget_once() {
    let mut node = Node::new(1);
    node.disks = 0;
    node.tick();
    node.now += 7 * 3600 * S;
    // What is spent, of ten requests, which is the least.
    let mut spent = |ended: u32, ages: &[u64]| {
        node.now += 20 * MS;
        node.evaluator.begin(node.now);
        let buckets = &[(bucket_of(2 * S).unwrap(), ended)];
        let (series, operations) = (read(0), u64::from(ended));
        if ended > 0 {
            let (bytes, sum_ns, errors, max_ns, under, over) = (0, 0, 0, 0, 0, 0);
            let delta = SeriesDelta { series, operations, bytes, sum_ns, errors, max_ns, under, over, buckets };
            node.evaluator.series(&delta);
        }
        for &age_ns in ages {
            node.evaluator.in_flight(&InFlight { series, age_ns, tid: 1, bytes: 0, client: None });
        }
        node.evaluator.finish(node.now, HEARD, false);
        (10.0 - 10.0 * node.evaluator.verdicts()[0].budget_left.unwrap()).round()
    };
    assert_eq!(spent(0, &[90 * MS]), 0.0);
    assert_eq!(spent(0, &[200 * MS]), 1.0);
    assert_eq!(spent(0, &[300 * MS, 150 * MS]), 2.0);
    // Now it is stuck: who joins them is judged when it is over, or a dead disk would close the node for ever.
    assert_eq!(spent(0, &[900 * MS, 750 * MS, 150 * MS]), 2.0);
    assert_eq!(spent(0, &[60 * S, 59 * S, 58 * S, 57 * S, 150 * MS]), 2.0);
    assert_eq!(spent(5, &[]), 5.0, "they end");
    assert_eq!(spent(1, &[]), 6.0);
}

#[test]
fn a_new_normal_that_nobody_acts_upon_is_learned() {
    let mut node = Node::new(1);
    node.run(600 * S);
    // Slower for good, within the promise, and batch is not the cause: no action in ten minutes.
    node.factor = 3.0;
    node.run(20 * S);
    assert!(node.tick().level > Level::Calm);
    node.run(3000 * S);
    assert_eq!(node.tick().level, Level::Calm);
}

#[test]
fn without_requests_nobody_is_hurt() {
    let mut node = Node::new(48);
    node.run(120 * S);
    node.factor = 3.0;
    while node.tick().level != Level::Strong {}
    // The storage clients go away, and with them the evidence, that of the whole node included.
    node.disks = 0;
    node.run(3 * S);
    let verdict = node.tick();
    assert_eq!((verdict.level, verdict.measure.value), (Level::Calm, 0.0));
}

#[test]
fn a_disk_that_batch_is_innocent_of_does_not_hide_the_others() {
    let mut node = Node::new(3);
    node.run(600 * S);
    node.slow = 1 << 0;
    node.run(5 * S);
    let verdict = node.tick();
    assert_eq!((verdict.level, verdict.slow, verdict.excused), (Level::Strong, 1, None));
    node.evaluator.excuse(0, 1);
    node.run(2 * S);
    let verdict = node.tick();
    assert_eq!((verdict.level, verdict.slow), (Level::Calm, 0), "{verdict:?}");
    assert_eq!(verdict.excused.map(|(series, _)| series.filesystem), Some(0));
    node.slow |= 1 << 2;
    node.run(5 * S);
    let verdict = node.tick();
    assert_eq!((verdict.level, verdict.slow, verdict.worst.map(|s| s.filesystem)), (Level::Strong, 4, Some(2)));
}

#[test]
fn a_node_that_is_slow_as_a_whole_without_batch_is_excused_as_a_whole() {
    let mut node = Node::new(48);
    node.run(300 * S);
    node.factor = 2.0;
    node.run(5 * S);
    assert_eq!(node.tick().level, Level::Strong);
    node.evaluator.excuse(0, u128::MAX);
    node.run(5 * S);
    let verdict = node.tick();
    assert!(verdict.level == Level::Calm && verdict.excused.is_some(), "{verdict:?}");
}

#[test]
fn the_next_tick_comes_soon_while_a_decision_is_near() {
    const TICK: u64 = crate::config::TICK_NS;
    // One tick is not enough for the strong level.
    let mut trial = Trial::new(Health::LOG_NORMAL, 300.0, &objective(12.0, 60.0, 0), 1, 1);
    trial.run(20_000);
    let before = trial.now_ns();
    let mut sooner = 0;
    for _ in 0..3_000 {
        trial.tick();
        let Measure { value, limit, .. } = trial.evaluator.verdicts()[0].measure;
        let next = trial.evaluator.next_tick_ns(TICK);
        assert_eq!(next < TICK, value > SUSPENSE.0 * limit, "{next} ns with {value} of {limit}");
        sooner += u32::from(next > 10_000_000 && next < TICK);
    }
    assert!(sooner > 0);
    let mean = (trial.now_ns() - before) as f64 / 3_000.0;
    assert!(mean > 0.9 * TICK as f64, "a tick of healthy requests takes {mean} ns");
    trial.slow_down(3.0);
    while trial.tick() == Level::Calm {}
    assert_eq!(trial.evaluator.next_tick_ns(TICK), 10_000_000);
    assert_eq!(trial.evaluator.next_tick_ns(1_000_000), 1_000_000, "no later than was asked for");
    while trial.tick() < Level::Strong {}
    assert_eq!(trial.evaluator.next_tick_ns(TICK), TICK, "it is decided");
}

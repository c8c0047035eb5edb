// SPDX-License-Identifier: Apache-2.0
use super::*;
use policy::squeeze::Shares;

/// A folder for the cgroup, and a systemctl that does what systemd does.
struct Rig {
    folder: tempfile::TempDir,
    actuator: SqueezeActuator,
}

fn actuator(folder: &Path) -> SqueezeActuator {
    let mut actuator = SqueezeActuator::new(
        &folder.join("beer-jobs.slice"),
        folder,
        &folder.join("systemctl"),
        Duration::from_secs(20),
    );
    actuator.topology = folder.to_owned();
    actuator
}

impl Rig {
    fn new() -> Rig {
        let folder = tempfile::tempdir().unwrap();
        let slice = folder.path().join("beer-jobs.slice");
        std::fs::create_dir(&slice).unwrap();
        for (file, text) in [
            ("cpuset.cpus", "\n"),
            ("cpuset.cpus.effective", "0-3\n"),
            ("cpu.max", "max 100000\n"),
            ("memory.high", "max\n"),
            ("memory.current", "2000000000\n"),
        ] {
            std::fs::write(slice.join(file), text).unwrap();
        }
        std::fs::write(folder.path().join("possible"), "0-7\n").unwrap();
        std::os::unix::fs::symlink(&slice, folder.path().join("slice")).unwrap();
        let systemctl = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/systemctl");
        std::os::unix::fs::symlink(systemctl, folder.path().join("systemctl")).unwrap();
        Rig { actuator: actuator(folder.path()), folder }
    }

    /// What it said, and whether it worked.
    fn make(&mut self, cpu: f32, memory: f32) -> Vec<(Option<String>, bool)> {
        let outcomes = self.actuator.make(Shares::new([cpu, memory, 1.0]));
        outcomes.into_iter().map(|outcome| (outcome.has, outcome.seen.is_ok())).collect()
    }

    fn kernel(&self) -> String {
        let file = |name| now(&self.folder.path().join("beer-jobs.slice"), name).unwrap_or_default();
        ["cpuset.cpus", "cpu.max", "memory.high"].map(file).join("|")
    }

    fn idle(&self) -> String {
        now(&self.folder.path().join("beer-jobs.slice"), "cpu.idle").unwrap_or_default()
    }

    /// Was systemd told this?
    fn told(&self, words: &str) -> bool {
        now(self.folder.path(), "systemctl.said").is_some_and(|said| said.contains(words))
    }

    fn put(&self, file: &str, text: &str) {
        std::fs::write(self.folder.path().join("beer-jobs.slice").join(file), text).unwrap();
    }

    fn there(&self, name: &str) -> bool {
        self.folder.path().join(name).exists()
    }
}

fn has(words: &str) -> (Option<String>, bool) {
    (Some(words.into()), true)
}

/// All CPUs that there can be: of those it has what its parent has.
const AS_BEFORE: &str = "0-7|max 100000|max";

#[test]
fn it_gets_less_and_all_of_it_back() {
    let mut rig = Rig::new();
    assert_eq!(rig.make(0.5, 1.0), [has("2 of 4 CPUs")]);
    assert_eq!(rig.kernel(), "0-1|max 100000|max");
    assert_eq!(rig.make(0.5, 1.0), [], "it is so already");
    // What it may use now is less, and no measure of what it had.
    rig.put("cpuset.cpus.effective", "0-1\n");
    assert_eq!(rig.make(0.125, 0.5), [has("0.50 of 4 CPUs"), has("1.00 of 2.00 GB of memory")]);
    assert_eq!(rig.kernel(), "0|50000 100000|999948288");
    assert_eq!(rig.make(0.25, 0.5), [has("1 of 4 CPUs")]);
    assert_eq!(rig.kernel(), "0|max 100000|999948288", "no quota is needed");
    rig.put("memory.current", "900000000\n");
    assert_eq!(rig.make(1.0, 0.25), [(None, true), has("0.50 of 2.00 GB of memory")]);
    assert!(rig.there("squeezed") && !rig.there("squeezed-before"));
    assert_eq!(rig.make(1.0, 1.0), [(None, true)]);
    assert_eq!(rig.kernel(), AS_BEFORE);
    assert!(rig.make(1.0, 1.0).is_empty() && !rig.there("squeezed") && rig.there("squeezed-before"));
}

#[test]
fn what_somebody_else_changed_is_put_right() {
    let mut rig = Rig::new();
    rig.make(0.5, 0.5);
    assert!(!rig.actuator.drifted());
    rig.put("cpuset.cpus", "0-3\n");
    assert!(rig.actuator.drifted());
    assert_eq!(rig.make(0.5, 0.5), [has("2 of 4 CPUs")]);
    assert!(rig.kernel().starts_with("0-1|"));
    rig.put("memory.high", "max\n");
    assert!(rig.actuator.drifted());
    assert_eq!(rig.make(0.5, 0.5), [has("1.00 of 2.00 GB of memory")]);
    // For a freeze the guard lifts what would slow it down.
    rig.make(0.125, 0.5);
    rig.put("cgroup.freeze", "1\n");
    rig.put("cpu.max", "max 100000\n");
    assert!(!rig.actuator.drifted());
    rig.put("cgroup.freeze", "0\n");
    assert!(rig.actuator.drifted());
}

#[test]
fn what_the_end_of_a_freeze_has_put_back_just_then_is_given_back_again() {
    let mut rig = Rig::new();
    rig.make(0.125, 1.0);
    // As if it came between: systemd is told, and all is as it was.
    let systemctl = rig.folder.path().join("systemctl");
    std::fs::remove_file(&systemctl).unwrap();
    std::fs::write(&systemctl, "#!/bin/sh\necho \"$@\" >> \"$(dirname \"$0\")/told\"\n").unwrap();
    std::fs::set_permissions(&systemctl, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    rig.make(1.0, 1.0);
    let told = std::fs::read_to_string(rig.folder.path().join("told")).unwrap();
    assert_eq!(told.matches("CPUQuota=").count(), 2, "{told}");
    // What is not as it was need not be given back again.
    rig.make(0.125, 1.0);
    rig.put("cpu.max", "max 100000\n");
    std::fs::remove_file(rig.folder.path().join("told")).unwrap();
    rig.make(1.0, 1.0);
    let told = std::fs::read_to_string(rig.folder.path().join("told")).unwrap();
    assert_eq!(told.matches("CPUQuota=").count(), 1, "{told}");
}

/// A slice that somebody has made not idle.
fn with_a_weight() -> Rig {
    let rig = Rig::new();
    rig.put("cpu.idle", "0\n");
    rig.put("cpu.weight", "100\n");
    rig
}

#[test]
fn who_is_not_idle_becomes_so_and_has_its_weight_again() {
    let mut rig = with_a_weight();
    assert_eq!(rig.make(0.5, 1.0), [has("2 of 4 CPUs")]);
    assert_eq!(rig.idle(), "1");
    rig.put("cpu.idle", "0\n");
    assert!(rig.actuator.drifted());
    rig.make(0.5, 1.0);
    assert_eq!(rig.idle(), "1");
    // A guard that comes after one that died knows it, too.
    rig.actuator = actuator(rig.folder.path());
    rig.actuator.adopt();
    rig.make(0.25, 1.0);
    assert_eq!(rig.idle(), "1");
    rig.make(1.0, 1.0);
    assert_eq!((rig.idle().as_str(), rig.told("CPUWeight=100")), ("0", true));
}

#[test]
fn what_the_freezer_has_lifted_is_left_to_it_and_not_put_back_into_what_is_given_back() {
    let mut rig = with_a_weight();
    rig.make(0.125, 1.0);
    let lift = |rig: &Rig| {
        std::fs::write(rig.folder.path().join(IDLE_LIFTED), "").unwrap();
        rig.put("cpu.idle", "0\n");
    };
    lift(&rig);
    assert!(!rig.actuator.drifted());
    rig.make(1.0, 1.0);
    assert!(!rig.there(IDLE_LIFTED) && rig.idle() == "0");
    // Of a slice that is idle anyhow, it is the freezer's alone.
    let mut rig = Rig::new();
    rig.put("cpu.idle", "1\n");
    lift(&rig);
    rig.make(0.125, 1.0);
    rig.make(1.0, 1.0);
    assert!(rig.there(IDLE_LIFTED) && !rig.told("CPUWeight"));
    // Nor is what an idle one has for a weight any, should it seem not to be idle for a moment.
    let mut rig = Rig::new();
    rig.put("cpu.idle", "0\n");
    rig.put("cpu.weight", "0\n");
    rig.make(0.5, 1.0);
    rig.make(1.0, 1.0);
    assert!(!rig.told("CPUWeight"));
}

#[test]
fn who_comes_after_one_that_died_gives_back_what_it_left() {
    let mut rig = Rig::new();
    rig.put("cpu.max", "150000 100000\n");
    rig.make(0.125, 0.5);
    assert!(rig.kernel().contains("|50000 100000|"), "{}", rig.kernel());
    rig.actuator = actuator(rig.folder.path());
    assert_eq!(rig.make(1.0, 1.0), [], "it knows of nothing");
    rig.actuator.adopt();
    assert_eq!(rig.make(1.0, 1.0), [(None, true), (None, true)]);
    assert_eq!(rig.kernel(), "0-7|150000 100000|max");
}

#[test]
fn what_the_fail_safe_has_left_is_not_what_batch_had() {
    let mut rig = Rig::new();
    let marker = rig.folder.path().join(Failsafe::CAPPED);
    std::fs::write(&marker, "max 100000\n").unwrap();
    rig.put("cpu.max", "100000 100000\n");
    assert_eq!(rig.make(0.5, 0.5), [has("1.00 of 2.00 GB of memory")], "the caps are there still");
    // They are lifted.
    rig.put("cpu.max", "max 100000\n");
    std::fs::remove_file(&marker).unwrap();
    assert_eq!(rig.make(0.5, 0.5), [has("2 of 4 CPUs")]);
    // Who knows what batch had need not wait.
    std::fs::write(&marker, "").unwrap();
    rig.put("cpuset.cpus", "0-3\n");
    assert!(rig.actuator.drifted());
    assert_eq!(rig.make(0.5, 0.5), [has("2 of 4 CPUs")]);
    rig.make(1.0, 1.0);
    assert_eq!(rig.kernel(), AS_BEFORE);
}

#[test]
fn only_our_properties_are_given_back_whatever_the_file_says() {
    let mut rig = Rig::new();
    std::fs::write(rig.folder.path().join("squeezed"), "cpu ExecStart=/x MemoryHigh=1\nmoon X=1\n\nmemory\n").unwrap();
    rig.actuator.adopt();
    assert_eq!(rig.make(1.0, 1.0), []);
}

#[test]
fn a_failure_is_tried_again_and_a_slice_that_was_stopped_does_not_come_back_with_less() {
    let mut rig = Rig::new();
    std::fs::write(rig.folder.path().join("slow"), "").unwrap();
    assert!(!rig.make(0.5, 1.0)[0].1 && rig.there("squeezed"));
    std::fs::remove_file(rig.folder.path().join("slow")).unwrap();
    assert_eq!(rig.make(0.5, 1.0), [has("2 of 4 CPUs")]);
    std::fs::remove_dir_all(rig.folder.path().join("beer-jobs.slice")).unwrap();
    assert_eq!(rig.make(0.25, 1.0), []);
    assert_eq!(rig.make(1.0, 1.0), [(None, true)]);
    let said = std::fs::read_to_string(rig.folder.path().join("systemctl.said")).unwrap();
    let last = said.lines().last().unwrap_or_default();
    assert!(last.ends_with("AllowedCPUs= CPUQuota="), "systemd remembers the slice: {last}");
}

#[test]
fn systemd_s_files_are_tidied_up_when_all_is_given_back() {
    let mut rig = Rig::new();
    let folder = rig.folder.path().join("control/beer-jobs.slice.d");
    std::fs::create_dir_all(&folder).unwrap();
    let file = |name: &str| folder.join(name);
    let put = || ["50-AllowedCPUs.conf", "50-MemoryMax.conf"].map(|name| std::fs::write(file(name), "").unwrap());
    put();
    rig.make(0.5, 1.0);
    let control = rig.folder.path().join("control");
    rig.actuator.tidy(&control).unwrap();
    assert!(file("50-AllowedCPUs.conf").exists(), "it is in force");
    rig.make(1.0, 1.0);
    rig.actuator.tidy(&control).unwrap();
    assert_eq!((file("50-AllowedCPUs.conf").exists(), file("50-MemoryMax.conf").exists()), (false, true));
    put();
    rig.actuator.tidy(&control).unwrap();
    assert!(file("50-AllowedCPUs.conf").exists(), "somebody else's: ours are gone");
}

// SPDX-License-Identifier: Apache-2.0
use super::*;
use std::collections::BTreeSet;

fn error(text: &str) -> String {
    Config::parse("guard.toml", text).unwrap_err().to_string()
}

/// Paths of all keys, tables of an array merged.
fn keys(prefix: &str, value: &toml::Value, found: &mut BTreeSet<String>) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                keys(&format!("{prefix}.{key}"), value, found);
            }
        }
        toml::Value::Array(values) => values.iter().for_each(|value| keys(prefix, value, found)),
        _ => {
            found.insert(prefix.trim_start_matches('.').into());
        }
    }
}

fn keys_of(value: &toml::Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    keys("", value, &mut found);
    found
}

#[test]
fn the_example_is_the_defaults() {
    let example = Config::parse("guard.toml", Config::example()).unwrap();
    assert_eq!(example, Config::parse("guard.toml", "").unwrap());
    assert_eq!(example, Config::default());
}

#[test]
fn the_example_lists_exactly_the_keys_that_exist() {
    let mut full = raw::RawConfig::default();
    let mut objectives = raw::default_objectives();
    objectives[0].floor = Some(intf::units::Duration(1));
    full.objective = Some(objectives);
    full.gauge = Some(raw::default_gauges());
    let real = keys_of(&toml::Value::try_from(&full).unwrap());
    assert!(real.len() > 40, "{real:?}");
    assert_eq!(keys_of(&toml::from_str(Config::example()).unwrap()), real);
}

#[test]
fn the_example_documents_every_key_where_it_first_appears() {
    let mut documented = true;
    let mut seen = BTreeSet::new();
    let mut section = String::new();
    for line in Config::example().lines() {
        if line.starts_with('[') {
            section = line.into();
        }
        match line.split_once(" = ").filter(|_| !line.starts_with('#')) {
            // A comment is for the keys that follow it without a blank line.
            Some((key, _)) => assert!(!seen.insert(format!("{section}{key}")) || documented, "{section} {key}"),
            None => documented = line.starts_with('#'),
        }
    }
}

#[test]
fn errors_name_the_key_and_what_was_allowed() {
    for (text, expected) in [
        ("[node]\njob_memory_high = \"40%\"", "guard.toml: node.job_memory_high: 40% is outside 50% to 100%"),
        ("[ladder]\nhold = \"1h\"", "guard.toml: ladder.hold: 1h is outside 100ms to 1min"),
        ("[ladder]\nstale_floor = \"2h\"", "ladder.stale_floor: 2h is outside 1s to 1h, and is not 0s (never)"),
        ("[ladder]\nhold = 20", "guard.toml: ladder.hold: `20` has no unit; write a time such as `20ms`"),
        ("[ladder]\nholt = \"1s\"", "guard.toml: ladder.holt: unknown key `holt`; allowed: `hold`, `hold_max`"),
        ("[lader]\n", "guard.toml: lader: unknown key `lader`; allowed: `node`, `paths`, `loop`"),
        ("[signals.dsk]\n", "guard.toml: signals.dsk: unknown key `dsk`; allowed: `latency`, `disk`, `psi`"),
        ("[loop]\ntick = \"20ms\"\ntick = \"30ms\"", "duplicate key `tick`"),
        ("[loop\n", "guard.toml: invalid table header"),
        (
            "[capacity]\ncores = -1",
            "guard.toml: capacity.cores: invalid value: integer `-1`; allowed: a number of cores",
        ),
        ("[capacity]\ncores = 0", "guard.toml: capacity.cores: 0 is outside 1 to 4096"),
        ("[capacity]\nmemory = \"8\"", "guard.toml: capacity.memory: `8` has no unit"),
        ("[metrics]\nlisten = \"9721\"", "guard.toml: metrics.listen: `9721` is no address"),
        ("[paths]\njobs_slice = \"../x\"", "guard.toml: paths.jobs_slice: `../x` must be a path below"),
        ("[paths]\nrun = \"run\"", "guard.toml: paths.run: `run` must be an absolute path"),
        ("[journal]\ntotal_size = \"1MiB\"", "guard.toml: journal.total_size: 1MiB is outside 16MiB to 4TiB"),
        ("[signals.probe]\ninterval = \"2s\"", "guard.toml: signals.probe.interval: 2s is outside 200ms to 1500ms"),
        (
            "[signals.probe]\nroot = \"-f\"",
            "guard.toml: signals.probe.root: `-f` is no URL of a file; write one such as root:",
        ),
        (
            "[signals.probe]\nroot = \"root://a /b\"",
            "guard.toml: signals.probe.root: `root://a /b` is no URL of a file",
        ),
        (
            "[signals.network]\nspeed = \"fast\"",
            "guard.toml: signals.network.speed: `fast` is no speed; write one such as",
        ),
        ("[signals.network]\nspeed = \"0Gbit\"", "guard.toml: signals.network.speed: `0Gbit` is no speed"),
        ("[paths]\nprobe = \"x\"", "guard.toml: paths.probe: `x` must be an absolute path"),
        (
            "[[gauge]]\nname = \"root\"\nsource = \"probe.root.seconds\"\nabove = 1\n",
            "guard.toml: gauge[0].grace: 10s is outside 22s to 10min",
        ),
        ("objective = []", "guard.toml: objective: 0 objectives"),
        (
            "[signals.disk]\nenabled = false\n[[gauge]]\nname = \"a\"\nsource = \"storage.disk.await\"\nabove = 1.0",
            "guard.toml: gauge[0].source: `storage.disk.await` is read only with signals.disk.enabled = true",
        ),
        (
            "[signals.disk]\ninterval = \"6s\"\n[[gauge]]\nname = \"a\"\nsource = \"storage.disk.gone\"\nabove = 0.0",
            "guard.toml: gauge[0].grace: 10s is outside 12s to 10min",
        ),
    ] {
        let found = error(text);
        assert!(found.contains(expected), "{text}\n{found}\n{expected}");
        assert!(!found.contains('\n'), "{found}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    /// The shipped file, with something cut out and something put in: it is good, or one line says which key of it is not.
    #[test]
    fn whatever_is_written_is_good_or_an_error_of_one_line_that_names_the_file(
        at in 0usize..1000,
        length in 0usize..40,
        piece in proptest::sample::select(vec![
            "", "\"", "=", "[", "]", "[[gauge]]\n", "[[objective]]\n", "\n", "nan", "inf", "-1", "1e999", "0s", "99999999999999999h",
            "\"9TiB\"", "\u{0}", "é", "#", "{", "true", "throttle = 3\n", "name = \"\\n\"\n",
        ]),
    ) {
        let text = Config::example();
        let boundary = |place: usize| (0..=place.min(text.len())).rev().find(|place| text.is_char_boundary(*place)).unwrap();
        let from = boundary(text.len() * at / 1000);
        let to = boundary(from + length).max(from);
        if let Err(error) = Config::parse("guard.toml", &format!("{}{piece}{}", &text[..from], &text[to..])) {
            let said = error.to_string();
            assert!(said.starts_with("guard.toml: ") && said.len() > 14 && !said.contains('\n'), "{said:?}");
        }
    }
}

#[test]
fn errors_in_objectives_count_them() {
    let good = "[[objective]]\nname = \"a\"\nop = \"read\"\nthreshold = \"50ms\"\n";
    for (addition, expected) in [
        ("foo = 1", "objective[1].foo: unknown key `foo`; allowed: `name`, `op`, `class`"),
        ("floor = \"60ms\"", "objective[1].floor: 60ms is outside 0ns to 50ms"),
        ("weak = 30", "objective[1].strong: 24 is outside 30 to 100"),
        ("share = \"0%\"", "objective[1].share: 0% is outside 0.0001% to 20%"),
        ("class = \"bach\"", "objective[1].class: unknown value `bach`; allowed: `storage`, `batch`, `internal`"),
        ("filesystem = \"data\"", "objective[1].filesystem: `data` is no mount point"),
        ("stuck_after = \"40ms\"", "objective[1].stuck_after: 40ms is outside 50ms to 1min"),
        (
            "budget_window = \"30min\"",
            "objective[1].budget_window: 30min is outside 1h to 30d, and is not 0s (no error budget)",
        ),
        ("budget_window = 6", "objective[1].budget_window: `6` has no unit"),
        ("", "objective[1].name: `a` is there twice"),
    ] {
        let found = error(&format!("{good}{good}{addition}\n"));
        assert!(found.contains(expected), "{addition}\n{found}\n{expected}");
    }
    let found = error(&good.replace("read\"", "write\"\nclass = \"probe\""));
    assert!(found.contains("objective[0].op: probes do not write; allowed with class \"probe\": read"), "{found}");
    let found = error("[[objective]]\nname = \"a\"\nop = \"read\"\n");
    assert!(found.contains("objective[0]: missing key `threshold`"), "{found}");
}

/// What the example has behind a `#` and no blank is there to be used.
#[test]
fn the_example_of_a_command_is_good_and_has_all_its_keys() {
    let lines: Vec<&str> = Config::example().lines().filter_map(|line| line.strip_prefix('#')).collect();
    let used = lines.into_iter().filter(|line| !line.starts_with(' ')).collect::<Vec<_>>().join("\n");
    let config = Config::parse("guard.toml", &used).unwrap();
    assert_eq!((config.exec[0].interval_ns, config.exec[0].timeout_ns), (10_000_000_000, 5_000_000_000));
    assert_eq!(config.gauges[0].source, crate::gauge::SOURCES.len());
    let keys: Vec<String> = keys_of(&toml::from_str(&used).unwrap()).into_iter().collect();
    let keys: Vec<&str> = keys.iter().filter_map(|key| key.strip_prefix("exec.")).collect();
    assert_eq!(keys, ["command", "interval", "metrics", "name", "timeout"]);
}

#[test]
fn errors_in_commands_count_them() {
    let entry = |name: &str, more: &str| format!("[[exec]]\nname = \"{name}\"\n{more}\n");
    let good = "command = [\"/bin/true\"]\nmetrics = [\"a\", \"b.c_d-1\"]";
    let command = |words: &str| entry("b", &format!("command = {words}\nmetrics = [\"a\"]"));
    let metrics = |keys: &str| entry("b", &format!("command = [\"/bin/true\"]\nmetrics = {keys}"));
    let many = format!("{:?}", (0..31).map(|n| format!("k{n}")).collect::<Vec<_>>());
    let gauge =
        |source: &str, more: &str| format!("[[gauge]]\nname = \"g\"\nsource = \"{source}\"\nabove = 1\n{more}\n");
    for (text, expected) in [
        (entry("a", good), "exec[1].name: `a` is there twice"),
        (entry("a/b", good), "exec[1].name: `a/b`: 1 to 21 characters a-z, 0-9 and - are allowed"),
        (entry("a234567890123456789012", good), "1 to 21 characters"),
        (command("[]"), "exec[1].command: it is empty"),
        (command("\"/bin/true\""), "exec[1].command: invalid type: string"),
        (command("[\"true\"]"), "exec[1].command[0]: `true` must be an absolute path"),
        (command("[\"/bin/true\", \"\\u0000\"]"), "exec[1].command[1]: up to 4096 bytes"),
        (metrics("[]"), "exec[1].metrics: it is empty"),
        (metrics("[\"a\", \"A\"]"), "exec[1].metrics[1]: `A`: 1 to 64 characters a-z, 0-9, _, . and - are allowed"),
        (metrics("[\"a\", \"a\"]"), "exec[1].metrics[1]: `a` is there twice"),
        (metrics(&many), "exec: 33 metrics; up to 32 in all are possible"),
        (entry("b", &format!("{good}\ninterval = \"5min\"")), "exec[1].interval: 5min is outside 1s to 4min"),
        (entry("b", &format!("{good}\ntimeout = \"11s\"")), "exec[1].timeout: 11s is outside 100ms to 10s"),
        (
            entry("b", &format!("{good}\nshell = true")),
            "exec[1].shell: unknown key `shell`; allowed: `name`, `command`",
        ),
        (entry("b", "metrics = [\"a\"]"), "exec[1]: missing key `command`"),
        (gauge("exec.a.z", ""), "exec.a.a, exec.a.b.c_d-1"),
        (gauge("exec.a", ""), "gauge[0].source: unknown source `exec.a`"),
        (gauge("exec.a.b.c_d-1", ""), "gauge[0].grace: 10s is outside 17s to 10min"),
    ] {
        let found = error(&format!("{}{text}", entry("a", good)));
        assert!(found.contains(expected), "{text}\n{found}\n{expected}");
    }
    let text = format!("{}{}{}", entry("a", good), metrics("[\"x\"]"), gauge("exec.b.x", "grace = \"17s\""));
    let config = Config::parse("guard.toml", &text).unwrap();
    assert_eq!(config.gauges[0].source, crate::gauge::SOURCES.len() + 2);
}

#[test]
fn what_is_left_out_is_at_its_default() {
    let text = "[[objective]]\nname = \"a\"\nop = \"sync\"\nthreshold = \"80ms\"\n[metrics]\nlisten = \"off\"\n";
    let config = Config::parse("guard.toml", text).unwrap();
    let objective = &config.objectives[0];
    assert_eq!((objective.floor_ns, objective.share, objective.strong), (8_000_000, 0.01, 24.0));
    assert_eq!(objective.budget_window_ns, Some(6 * 3600 * 1_000_000_000));
    assert_eq!(config.metrics.listen, None);
    assert_eq!(config.ladder, Config::default().ladder);
}

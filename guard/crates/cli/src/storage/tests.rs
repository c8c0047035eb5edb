// SPDX-License-Identifier: Apache-2.0
use super::*;

use std::io::{BufRead, BufReader};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// A daemon that answers as the closure says; the thread ends with the test process.
fn daemon(path: &Path, answer: impl Fn(&str, usize) -> Option<String> + Send + 'static) -> Arc<AtomicUsize> {
    let listener = UnixListener::bind(path).unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream: UnixStream = stream.unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            match answer(line.trim_end(), count.fetch_add(1, Ordering::SeqCst)) {
                // A client that has heard enough hangs up.
                Some(text) => drop(stream.write_all(text.as_bytes())),
                None => std::mem::forget(stream),
            }
        }
    });
    asked
}

fn head(kind: &str, now_ns: u64) -> String {
    format!(r#"{{"format":1,"kind":"{kind}","instance":"beer","pid":7,"now_ns":{now_ns}"#)
}

fn stream(id: u64, read: u64, waited_ns: u64, waits_for_ns: &str, path: &str) -> String {
    format!(
        r#"{{"id":{id},"user":"alice","app":"scan","host":"192.0.2.7","link":"alice.1:5@desk","class":"batch",
        "filesystem":"/data/01","path":"{path}","writer":false,"age_ns":4000000000,
        "read":{{"bytes":{read},"operations":9}},"written":{{"bytes":0,"operations":0}},"waits":1,
        "waited_ns":{waited_ns},"requests_waiting":0,"waits_for_ns":{waits_for_ns},"by":"guard on /data/01"}}"#
    )
}

fn streams(now_ns: u64, list: &[String], left_out: u64) -> String {
    let open = left_out.saturating_add(list.len() as u64);
    format!(r#"{},"open":{open},"left_out":{left_out},"streams":[{}]}}"#, head("streams", now_ns), list.join(","))
}

fn ask(folder: &Path, question: &Shown) -> (String, ExitCode) {
    let mut out = Vec::new();
    let code = show_in(folder, question, Duration::from_millis(1), &mut out).unwrap();
    (String::from_utf8(out).unwrap(), code)
}

fn everybody(json: bool) -> Whom {
    Whom { daemon: Daemon::default(), json }
}

const STREAMS: fn(bool) -> Shown = |json| Shown::Streams { whom: everybody(json), most: 50 };

#[test]
fn streams_are_sorted_by_waiting_then_by_rate_of_two_looks() {
    let dir = tempfile::tempdir().unwrap();
    daemon(&dir.path().join("beer.info"), |word, number| {
        assert_eq!(word, "streams");
        Some(match number {
            0 => streams(1_000_000_000, &[stream(1, 0, 0, "null", "/slow"), stream(2, 0, 0, "null", "/fast")], 0),
            _ => {
                let list = [
                    stream(1, 2_000_000, 500_000_000, "null", "/slow"),
                    stream(2, 90_000_000, 0, "null", "/fast"),
                    stream(3, 4_000_000, 0, "1000000000", "/new, held"),
                    stream(4, 0, 0, "9000000000", "/held\\u001b[2J"),
                ];
                streams(3_000_000_000, &list, 5)
            }
        })
    });
    let (text, code) = ask(dir.path(), &STREAMS(false));
    assert_eq!(code, ExitCode::SUCCESS);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "beer (pid 7): 9 open files, 2 of them waiting");
    assert!(lines[2].ends_with(r"/held\u{1b}[2J"), "{text}");
    assert!(lines[2].trim_start().starts_with("9.0 s  guard on /data/01"), "{text}");
    assert!(lines[3].ends_with("/new, held") && lines[3].contains("1.00 MB/s"), "since its opening\n{text}");
    assert!(lines[4].ends_with("/fast") && lines[4].contains("45.0 MB/s"), "{text}");
    assert!(lines[5].ends_with("/slow") && lines[5].contains("1.00 MB/s") && lines[5].contains("25 %"), "{text}");
    assert_eq!(lines[6], "  and 5 more (the daemon lists no more)");
    assert!(["alice", "scan", "192.0.2.7", "batch"].iter().all(|word| lines[2].contains(word)), "{text}");
}

#[test]
fn most_shortens_the_list() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("beer.info");
    daemon(&path, |_, number| {
        let list: Vec<String> = (0..9).map(|id| stream(id, 0, 0, "null", "/file")).collect();
        Some(streams(number as u64 + 1, &list, 0))
    });
    let whom = || Whom { daemon: Daemon { socket: Some(path.clone()), ..Daemon::default() }, json: false };
    let (text, _) = ask(Path::new("/none"), &Shown::Streams { whom: whom(), most: 2 });
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(text.ends_with("  and 7 more (--most 0 shows all)\n"), "{text}");
    let (text, _) = ask(Path::new("/none"), &Shown::Streams { whom: whom(), most: 0 });
    assert_eq!(text.lines().count(), 11, "{text}");
}

#[test]
fn a_hostile_number_of_streams_is_shown_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    daemon(&dir.path().join("beer.info"), |_, number| {
        let list = [stream(1, 0, 0, "null", "/one"), stream(2, 0, 0, "null", "/two")];
        Some(streams(number as u64 + 1, &list, u64::MAX))
    });
    let (text, _) = ask(dir.path(), &Shown::Streams { whom: everybody(false), most: 1 });
    assert!(text.ends_with(&format!("  and {} more (the daemon lists no more)\n", u64::MAX)), "{text}");
}

const STAT: &str = r#","measures":true,"started_realtime_ns":0,"internal_errors":2,
    "streams":{"open":3,"requests_waiting":1},
    "connections_that_may_be_held":{"batch":{"used":2,"most":512},"storage":{"used":0,"most":256}},
    "filesystems":[{"path":"/data/01","open_readers":2,"open_writers":1,"overloaded":false,"operations":{
      "storage":{"read":{"operations":4,"bytes":2000000,"errors":1,"sum_ns":8000000,"max_ns":5000000},
                 "meta":{"operations":0,"bytes":0,"errors":0,"sum_ns":0,"max_ns":0}}},
      "pacing":{"batch":{"operations":2,"sum_ns":3000000000,"max_ns":2000000000}},
      "stalls":{"storage":{"operations":1,"sum_ns":7000000000,"max_ns":7000000000}}}],
    "metadata":[
      {"name":"Stat","total":100,"seconds5":5,"minute":60,"minutes5":99,"hour":100,
       "mean_ns":2000000.0,"sigma_ns":1000000.0,"p99_ns":4000000.0,"max_ns":9000000.0},
      {"name":"Stall::Stat","total":7,"seconds5":1,"minute":2,"minutes5":3,"hour":4,
       "mean_ns":0,"sigma_ns":0,"p99_ns":0,"max_ns":0},
      {"name":"Rm","total":0,"seconds5":0,"minute":0,"minutes5":0,"hour":0,
       "mean_ns":0,"sigma_ns":0,"p99_ns":0,"max_ns":0}],
    "users":[{"name":"bob\u001b","in_flight":1,"stalls":7,"stalled_ago_ns":2000000000},
             {"name":"","in_flight":0,"stalls":1,"stalled_ago_ns":3000000000},
             {"name":"carol","in_flight":0,"stalls":0,"stalled_ago_ns":null}],
    "users_left_out":4}"#;

#[test]
fn stat_shows_requests_metadata_and_who_is_stalled() {
    let dir = tempfile::tempdir().unwrap();
    daemon(&dir.path().join("beer.info"), |_, _| Some(head("stat", 1) + STAT));
    let (text, code) = ask(dir.path(), &Shown::Stat(everybody(false)));
    assert_eq!(code, ExitCode::SUCCESS);
    let squeezed: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in [
        "beer (pid 7): 3 open files, 1 request waiting for a limit or a turn, counting since 1970-01-01 00:00:00.000Z",
        "2 internal errors in the plug-in: please report",
        "batch: 2 of 512 connections that may be held",
        "/data/01 storage read 4 2.00 MB 1 2 ms 5 ms",
        "/data/01 batch wait for a limit 2 1.5 s 2.0 s 3.0 s",
        "/data/01 storage come back later 1 7.0 s 7.0 s 7.0 s",
        "METADATA SUM 5 s 1 min 5 min 1 h MEAN SIGMA P99 MAX",
        "Stat 100 5 60 99 100 2 ms 1 ms 4 ms 9 ms",
        "Stall::Stat 7 1 2 3 4",
        r"bob\u{1b} 7 2.0 s ago 1",
        "- 1 3.0 s ago 0",
        "4 users more",
    ] {
        assert!(squeezed.contains(&line.to_owned()), "{line} is not in\n{text}");
    }
    assert!(!text.contains("carol") && !text.contains("Rm") && !text.contains("meta"), "{text}");
}

#[test]
fn policy_shows_rules_and_what_the_guard_says() {
    let dir = tempfile::tempdir().unwrap();
    let body = r#","version":3,"file":"/etc/xrootd/beer-policy.cfg","rules":["beer.ban mallory"],
        "guard":{"file":"/run/beer/control/shaping","sequence":9,"lease_left_ns":1500000000,
                 "elsewhere":{"bytes_per_s":null,"operations_per_s":5}},
        "filesystems":[
          {"path":"/data/01","device":"8:1","scheduler":"bfq","priorities":"full","most_readers":200,"most_writers":0,
           "overloaded":true,"guard":{"bytes_per_s":0,"operations_per_s":null}},
          {"path":"/data/02","device":"8:2","scheduler":null,"priorities":"not known","most_readers":0,
           "most_writers":0,"overloaded":false,"guard":{"bytes_per_s":2000000,"operations_per_s":null}}]}"#;
    daemon(&dir.path().join("beer.info"), move |_, _| Some(head("policy", 1) + body));
    let (text, _) = ask(dir.path(), &Shown::Policy(everybody(false)));
    for part in [
        "1 rule in force, version 3, /etc/xrootd/beer-policy.cfg\n  beer.ban mallory\n",
        "The guard limits batch (word 9, 1.5 s left):\n",
        "HELD",
        "2.00 MB/s",
        "<= 200",
        "OVERLOADED",
        "bfq",
        "elsewhere: 5 requests/s\n",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn json_is_an_array_of_what_the_daemons_said_in_ascii() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        let list = [stream(1, 0, 0, "null", "/\u{9b}é\u{1f37a}")];
        daemon(&dir.path().join(format!("{name}.info")), move |_, _| Some(streams(1, &list, 0)));
    }
    let (text, code) = ask(dir.path(), &STREAMS(true));
    assert_eq!(code, ExitCode::SUCCESS);
    assert!(text.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)), "{text}");
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value.as_array().unwrap().len(), 2);
    assert_eq!(value[1]["streams"][0]["path"], "/\u{9b}é\u{1f37a}");
}

#[test]
fn without_a_daemon_it_says_so() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("beer.lat"), "").unwrap();
    assert_eq!(ask(dir.path(), &STREAMS(false)), (String::new(), ExitCode::from(3)));
    assert_eq!(ask(&dir.path().join("none"), &STREAMS(false)).1, ExitCode::from(3));
    assert_eq!(ask(dir.path(), &STREAMS(true)).1, ExitCode::from(3));
}

#[test]
fn one_that_does_not_answer_does_not_hide_the_others() {
    let dir = tempfile::tempdir().unwrap();
    drop(UnixListener::bind(dir.path().join("a.info")).unwrap());
    std::fs::write(dir.path().join("b.info"), "").unwrap();
    daemon(&dir.path().join("c.info"), |_, _| Some(streams(1, &[], 0)));
    let (text, code) = ask(dir.path(), &STREAMS(false));
    assert_eq!(code, ExitCode::FAILURE);
    assert_eq!(text, "beer (pid 7): 0 open files, 0 of them waiting\n");
}

fn refused(path: &Path) -> String {
    format!("{:#}", socket::ask_within(path, "stat", Duration::from_secs(20)).unwrap_err())
}

#[test]
fn what_is_not_the_daemons_socket_is_not_asked() {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().join("real.info");
    let asked = daemon(&real, |_, _| Some(String::new()));
    let link = dir.path().join("link.info");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    assert_eq!(refused(&link), "that is no socket");
    let fifo = dir.path().join("fifo.info");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert_eq!(refused(&fifo), "that is no socket");
    assert!(refused(&dir.path().join("none.info")).starts_with("there is no such socket"));
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&real, Some(12345), None).unwrap();
        assert!(refused(&real).starts_with("that socket belongs to user 12345"));
        std::os::unix::fs::chown(dir.path(), Some(12345), None).unwrap();
        assert!(refused(&real).starts_with("the daemon hung up"), "the folder's owner is the daemon's user");
    }
}

#[test]
fn a_daemon_that_is_broken_or_hostile_costs_little() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    daemon(&path("silent"), |_, _| None);
    let error = socket::ask_within(&path("silent"), "stat", Duration::from_millis(100)).unwrap_err();
    assert!(error.to_string().starts_with("the daemon does not answer within"), "{error:#}");
    daemon(&path("endless"), |_, _| Some("x".repeat(17 << 20)));
    let error = socket::ask(&path("endless"), "stat").unwrap_err().to_string();
    assert!(error.starts_with("the answer is longer than"), "{error}");
    drop(UnixListener::bind(path("dead")).unwrap());
    assert!(refused(&path("dead")).starts_with("nobody answers there"));
    for (name, text, reason) in [
        ("bytes", "[\"no head\"]".into(), "that is no answer of a storage daemon"),
        ("other", head("policy", 1) + "}", "asked for `stat`, answered with `policy`"),
        ("newer", head("stat", 1).replace("\"format\":1", "\"format\":2") + "}", "the daemon speaks format 2"),
        ("error", head("error", 1) + ",\"error\":\"no\"}", "the daemon says: no"),
    ] {
        daemon(&path(name), move |_, _| Some(text.clone()));
        let error = format!("{:#}", Answer::get(&path(name), "stat").map(|_| ()).unwrap_err());
        assert!(error.starts_with(reason), "{name}: {error}");
    }
    daemon(&path("types"), |_, _| Some(head("stat", 1) + ",\"measures\":\"yes\"}"));
    let answer = Answer::get(&path("types"), "stat").unwrap();
    assert!(answer.body::<intf::storage::Stat>().is_err());
}

#[test]
fn names_of_instances_do_not_leave_the_folder() {
    assert_eq!(instance_name("beer-2.x_y"), Ok("beer-2.x_y".into()));
    for bad in ["", "../x", ".hidden", "a/b", "a b"] {
        assert!(instance_name(bad).is_err(), "{bad}");
    }
}

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest
from beerbench.node.sampler import cpu_times, flat, io_stat, pressure
from beerbench.timeline import jobs
from beerbench.timeline.decisions import Decisions, Span
from beerbench.timeline.node import JOBS, NodeTimeline


def decision(time: float, before: str, after: str, action: str, **more: object) -> str:
    line = {
        "time_ns": int(time * 1e9),
        "monotonic_ns": 1,
        "from": before,
        "to": after,
        "cause": "strong_evidence",
        "action": action,
        "outcome": "done",
        "duration_ns": 12_000_000,
    }
    return json.dumps(line | more)


JOURNAL = "\n".join(
    [
        decision(
            110.5,
            "open",
            "frozen",
            "freeze",
            evidence={"objective": "read", "series": "storage read on /data/01", "value": 18.0, "limit": 12.0}
            | {"unit": "nats"},
            jobs=[{"scope": "docker-1.scope"}],
        ),
        decision(117.0, "frozen", "closed", "thaw", lasted_ns=6_500_000_000),
        decision(121.0, "closed", "open", "open"),
    ]
)


def test_decisions_are_read_and_moved_to_the_hosts_clock() -> None:
    found = Decisions.parse(JOURNAL, clock_offset=10.0)
    first = found.first("freeze", 0)
    assert first is not None
    assert (first.time, first.series) == (100.5, "storage read on /data/01")
    assert first.jobs == ("docker-1.scope",)
    assert found.items[1].lasted == 6.5
    assert found.first("freeze", 101) is None


def test_spans_cover_the_window_and_a_stopped_guard_wins() -> None:
    found = Decisions.parse(JOURNAL)
    spans = found.spans(100, 130)
    assert [(span.state, span.start, span.end) for span in spans] == [
        ("open", 100, 110.5),
        ("frozen", 110.5, 117.0),
        ("closed", 117.0, 121.0),
        ("open", 121.0, 130),
    ]
    assert found.frozen_seconds(100, 130) == pytest.approx(6.5)
    stopped = found.spans(100, 130, stopped=[Span("stopped", 102, 112)])
    assert [span.state for span in stopped] == ["open", "stopped", "frozen", "closed", "open"]
    assert stopped[2].start == 112


def test_the_state_before_the_window_is_carried_into_it() -> None:
    assert Decisions.parse(JOURNAL).spans(112, 113)[0].state == "frozen"


def scopes(*names: str) -> list[dict[str, str]]:
    return [{"scope": name} for name in names]


STAGED = "\n".join(
    [
        decision(10, "open", "frozen", "freeze", precaution=True, jobs=scopes("a", "b", "c")),
        decision(11, "frozen", "frozen", "extend", jobs=scopes("a", "b", "c")),
        decision(12, "frozen", "frozen", "narrow", jobs=scopes("a", "b")),
        decision(20, "frozen", "throttled", "thaw", jobs=scopes("a", "b")),
        decision(21, "throttled", "throttled", "stage", jobs=scopes("a")),
        decision(25, "throttled", "frozen", "freeze", jobs=scopes("a", "b", "c")),
        decision(26, "frozen", "vacating", "vacate", jobs=scopes("b")),
        decision(27, "vacating", "vacating", "freeze", jobs=scopes("c"), outcome="skipped"),
    ]
)


@pytest.mark.parametrize(
    ("scope", "still"),
    [("a", 11 + 5), ("b", 10 + 5), ("c", 2 + 5), ("d", 0)],
    ids=["in the second stage", "with the thaw", "is not guilty", "came later"],
)
def test_what_a_job_lost_is_told_by_who_is_named(scope: str, still: float) -> None:
    found = Decisions.parse(STAGED)
    assert found.stood_still(scope, 0, 30) == pytest.approx(still)
    assert found.stood_still(scope, 11, 30) == pytest.approx(max(0, still - 1))
    assert found.stood_still(scope, 0, 10) == 0


def test_who_rests_stands_still_whatever_else_there_is() -> None:
    lines = [
        decision(10, "throttled", "throttled", "rest", jobs=scopes("a")),
        decision(12, "throttled", "frozen", "freeze", jobs=scopes("a", "b")),
        decision(15, "frozen", "throttled", "thaw", jobs=scopes("a", "b")),
        decision(20, "throttled", "throttled", "go_on", jobs=scopes("a")),
    ]
    found = Decisions.parse("\n".join(lines))
    assert [found.stood_still(scope, 0, 30) for scope in "ab"] == pytest.approx([10, 3])


def test_who_rests_for_two_disks_is_said_to_run_once() -> None:
    def on(disk: str) -> dict[str, str]:
        return {"series": f"storage read on {disk}"}

    lines = [
        decision(10, "throttled", "throttled", "rest", jobs=scopes("a"), evidence=on("/data/01")),
        decision(20, "throttled", "throttled", "go_on", jobs=scopes("a"), evidence=on("/data/02")),
    ]
    assert Decisions.parse("\n".join(lines)).stood_still("a", 0, 30) == pytest.approx(10)


def sample(time: float, jobs_usec: int, reads: int, idle: int) -> str:
    io = {"252:16": {"rbytes": reads * 65536, "wbytes": 0, "rios": reads, "wios": 0}}
    slices = {
        JOBS: {"cpu_usec": jobs_usec, "io": io, "io_pressure": {}},
        "storage.slice": {"cpu_usec": 0, "io": {"252:16": {"rbytes": 0, "wbytes": 0, "rios": 100, "wios": 0}}},
    }
    cpus = [[0, 0, 0, 100, 0, 0, 0, 0], [0, 0, 0, idle, 0, 0, 0, 0]]
    return json.dumps({"kind": "sample", "time": time, "cpus": cpus, "slices": slices, "state": "open"})


def io_event(time: float, count: int) -> str:
    return json.dumps({"kind": "io", "time": time, "operations": {"252:16": count}})


SAMPLES = "\n".join(
    [
        sample(10.0, 0, 0, 0),
        json.dumps({"kind": "frozen", "time": 10.25, "frozen": 1}),
        sample(11.0, 500_000, 50, 25),
        json.dumps({"kind": "frozen", "time": 11.5, "frozen": 0}),
        sample(12.0, 500_000, 50, 125),
    ]
)


def test_counters_become_rates() -> None:
    found = NodeTimeline.parse(SAMPLES, clock_offset=0.0)
    assert found.batch_cpu(10, 11) == pytest.approx(0.5)
    assert found.batch_cpu(10, 12) == pytest.approx(0.25)
    assert found.allowed_idle([1], 10, 11) == pytest.approx(0.25)
    assert found.delivered_share([1], 10, 11) == pytest.approx(0.5 / 0.75)
    assert found.disk_share("252:16")[JOBS] == pytest.approx([1.0, 0.0])
    assert (found.frozen_at(10), found.thawed_at(10), found.frozen_at(10.5)) == (10.25, 11.5, None)


def test_the_last_io_of_frozen_jobs_is_seen_to_fifty_milliseconds() -> None:
    counts = ((10.3, 5), (10.35, 7), (10.4, 8), (11.9, 20))
    lines = [sample(10, 0, 0, 0), sample(12, 0, 0, 0), *(io_event(time, count) for time, count in counts)]
    found = NodeTimeline.parse("\n".join(lines))
    assert found.last_batch_io("252:16", 10.25, 11.0) == 10.4
    assert found.last_batch_io("252:32", 10.25, 11.0) == 10.25


def test_a_slice_that_starts_anew_gives_no_negative_rate() -> None:
    found = NodeTimeline.parse("\n".join([sample(1, 900, 9, 0), sample(2, 100, 1, 0)]))
    assert found.cpu[JOBS][0] == 0
    assert found.io_operations["252:16"][JOBS][0] == 0


def test_too_few_samples_are_an_error() -> None:
    with pytest.raises(ValueError, match="1 samples"):
        NodeTimeline.parse(sample(1, 0, 0, 0))


def test_the_sampler_reads_the_kernels_files() -> None:
    assert flat("populated 1\nfrozen 0\n") == {"populated": 1, "frozen": 0}
    assert io_stat("252:16 rbytes=65536 wbytes=0 rios=1 wios=0 dbytes=0 dios=0\n8:0 \n") == {
        "252:16": {"rbytes": 65536, "wbytes": 0, "rios": 1, "wios": 0, "dbytes": 0, "dios": 0}
    }
    stat = "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\nintr 1\n"
    assert cpu_times(stat) == [[1, 2, 3, 4, 5, 6, 7, 8]]
    text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=17\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"
    assert pressure(text) == {"some": 17, "full": 5}


def test_user_logs_of_htcondor_are_read() -> None:
    text = (
        "000 (012.000.000) 2026-11-20 11:00:00 Job submitted from host: <10.0.2.15:9618>\n...\n"
        "001 (012.000.000) 2026-11-20 11:00:04 Job executing on host: <10.0.2.15:9618>\n...\n"
        "006 (012.000.000) 2026-11-20 11:00:05 Image size of job updated: 1\n...\n"
        "005 (012.000.000) 2026-11-20 11:00:09 Job terminated.\n...\n"
    )
    events = jobs.parse(text)
    assert [(event.cluster, event.what) for event in events] == [(12, "submitted"), (12, "started"), (12, "ended")]
    assert events[1].time - events[0].time == 4
    assert jobs.count(events, 12, "started") == 1

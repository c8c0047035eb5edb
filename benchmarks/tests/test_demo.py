# SPDX-License-Identifier: Apache-2.0
"""What the demo computes and shows, of a run with known numbers."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import synthetic
from beerbench import cli
from beerbench.demo import page, table
from beerbench.demo.findings import Findings, study
from beerbench.record import Record


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    folder = tmp_path_factory.mktemp("demo")
    synthetic.make(folder)
    return study(Record.load(folder))


def test_phases_show_the_attack_and_the_protection(found: Findings) -> None:
    alone, bad, good = (found.phases[name] for name in ("alone", "unguarded", "guarded"))
    assert alone.p99 == pytest.approx(0.02, rel=0.05)
    assert bad.p99 == pytest.approx(0.4, rel=0.05)
    assert alone.p99 < good.p99 <= bad.p99
    assert good.p50 == pytest.approx(0.014, rel=0.1)
    assert alone.delivered == pytest.approx(synthetic.RATE * 65536, rel=0.1)
    assert alone.batch_disk == 0
    assert alone.taken == pytest.approx(0.02)
    assert bad.batch_disk == pytest.approx(80 / 120 * 21 / 24, rel=0.1)
    assert (alone.copies, bad.copies, good.copies) == (2, 1, 2)
    assert bad.copy_speed < alone.copy_speed


def test_idle_cpu_is_counted_inside_allowed_cpus_only(found: Findings) -> None:
    assert found.phases["unguarded"].batch_cpu == pytest.approx(0.95, abs=0.02)
    assert found.phases["unguarded"].batch_share == pytest.approx(0.95, abs=0.02)
    assert found.phases["guarded"].batch_share < 0.4


def test_times_of_the_reaction_are_on_the_hosts_clock(found: Findings) -> None:
    seen = found.reaction
    assert seen.first_slow == pytest.approx(synthetic.T0 + synthetic.ATTACKS[0][0], abs=0.06)
    assert seen.decided == pytest.approx(synthetic.T0 + synthetic.FROZEN[0] - 0.02, abs=0.001)
    assert seen.frozen == pytest.approx(synthetic.T0 + synthetic.FROZEN[0], abs=0.001)
    assert seen.last_io == pytest.approx(synthetic.T0 + synthetic.FROZEN[0] + 0.06, abs=0.001)
    assert 0.2 < (seen.since_slow(seen.frozen) or 0) < 0.35
    assert "storage read on /data/01 18.2 nats, limit 12 nats" in seen.evidence


def test_the_ribbon_shows_when_there_was_no_guard(found: Findings) -> None:
    states = [span.state for span in found.spans()]
    assert states == ["open", "frozen", "closed", "open", "stopped"]


def test_the_terminal_says_it_all(found: Findings) -> None:
    shown = table.terminal(found)
    assert "client requests, p99" in shown
    assert "kernel reports the hostile job frozen" in shown
    assert "beer why" in shown
    assert "500 collisions" in shown
    assert max(len(line) for line in shown.splitlines()) <= 120 or "Under the same attack" in shown


def test_a_disturbed_run_says_so(found: Findings) -> None:
    assert "Neighbours" not in table.verdict(found)
    phases = found.phases | {"guarded": replace(found.phases["guarded"], taken=0.16)}
    assert "took up to 16 % of its CPU" in table.verdict(replace(found, phases=phases))


def test_a_kept_run_holds_results_and_page_but_no_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    synthetic.make(tmp_path / "demo")
    monkeypatch.setattr(cli, "RUNS", tmp_path / "runs")
    assert cli.main(["keep", str(tmp_path / "demo")]) == 0
    folder = Path(capsys.readouterr().out.strip())
    assert folder.parent.name.endswith("-2-core-tcg")
    assert sorted(path.name for path in folder.iterdir()) == [
        "record.json",
        "report.html",
        "results.json",
        "results.txt",
    ]
    assert "kernel reports the hostile job frozen" in (folder / "results.txt").read_text()


class Checker(HTMLParser):
    VOID = ("meta", "br", "img", "path", "use", "rect", "line")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.used: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id" and value:
                self.ids.append(value)
            if name in ("href", "src", "xlink:href") and value:
                self.used.append(value)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass


def test_the_page_is_whole_and_needs_nothing_from_outside(found: Findings) -> None:
    shown = page.render(found)
    checker = Checker()
    checker.feed(shown)
    assert checker.open == []
    assert len(checker.ids) == len(set(checker.ids))
    assert all(target.startswith("#") for target in checker.used)
    assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", shown)
    assert "#0101" not in shown.split("</style>")[1], "a stand-in colour is left"
    assert "<script" not in shown


def test_a_run_in_which_the_guard_did_nothing_says_so(tmp_path: Path) -> None:
    synthetic.make(tmp_path, frozen=False)
    found = study(Record.load(tmp_path))
    assert found.reaction.decided is None
    assert "froze nothing" in table.terminal(found)
    assert "froze nothing" in page.render(found)
    assert "did not protect" in table.verdict(found) or found.phases["guarded"].p99 < found.phases["unguarded"].p99

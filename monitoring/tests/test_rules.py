# SPDX-License-Identifier: Apache-2.0
"""What promtool does not check: that every alert is tested both ways, documented, and asks for metrics that exist.

The rule files are read as text: one rule per `- alert:` or `- record:` line, which `promtool check rules` has accepted
as YAML before. So this needs nothing but pytest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
PROMETHEUS = TOP / "monitoring/prometheus"
RUNBOOK = TOP / "docs/runbook.md"
# The table that the guard itself renders /metrics from.
METRICS = TOP / "guard/crates/guardd/src/metrics/names.rs"
SEVERITIES = {"critical", "warning"}


@dataclass
class Cases:
    """Expectations of one alert in the promtool tests."""

    firing: int = 0
    quiet: int = 0


def texts(folder: str) -> str:
    files = sorted((PROMETHEUS / folder).glob("*.yml"))
    assert files, f"no files in {folder}"
    return "\n".join(path.read_text() for path in files)


def rules(kind: str) -> dict[str, str]:
    """Name and text of each rule of one kind, `alert` or `record`."""
    parts = re.split(r"^ *- (alert|record): *(\S+) *$", texts("rules"), flags=re.M)
    found = list(zip(parts[1::3], parts[2::3], parts[3::3], strict=True))
    names = [name for of, name, _ in found if of == kind]
    assert len(names) == len(set(names)), f"the same {kind} twice"
    return {name: text for of, name, text in found if of == kind}


def cases_of_alerts() -> dict[str, Cases]:
    result: dict[str, Cases] = {}
    for name, rest in re.findall(r"alertname: *(\w+)((?:.|\n)*?exp_alerts: *(?:\[\])?)", texts("tests")):
        cases = result.setdefault(name, Cases())
        if rest.endswith("[]"):
            cases.quiet += 1
        else:
            cases.firing += 1
    return result


def anchors() -> set[str]:
    headings = re.findall(r"^#+ (.+)$", RUNBOOK.read_text(), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


ALERTS = rules("alert")


def test_there_are_alerts_and_recording_rules():
    assert ALERTS
    assert rules("record")


@pytest.mark.parametrize("name", ALERTS)
def test_alert_is_complete(name: str):
    text = ALERTS[name]
    assert re.fullmatch(r"Beer([A-Z][a-z]+)+", name)
    assert re.search(r"^ *for: \d+[smh]$", text, flags=re.M), "no `for:`"
    (severity,) = re.findall(r"^ *severity: (\w+)$", text, flags=re.M)
    assert severity in SEVERITIES
    for annotation in ("summary", "description", "runbook_url"):
        assert re.search(rf"^ *{annotation}: \S", text, flags=re.M), f"no {annotation}"


@pytest.mark.parametrize("name", ALERTS)
def test_alert_has_a_firing_and_a_quiet_case(name: str):
    cases = cases_of_alerts().get(name, Cases())
    assert cases.firing > 0
    assert cases.quiet > 0


@pytest.mark.parametrize("name", ALERTS)
def test_alert_is_in_the_runbook(name: str):
    (url,) = re.findall(r"^ *runbook_url: (\S+)$", ALERTS[name], flags=re.M)
    assert url == f"docs/runbook.md#{name.lower()}"
    assert name.lower() in anchors()


def test_the_runbook_has_no_heading_of_an_alert_that_is_gone():
    documented = re.findall(r"^#+ (Beer\w+)$", RUNBOOK.read_text(), flags=re.M)
    assert set(documented) == set(ALERTS)


def test_no_case_is_for_an_alert_that_is_gone():
    assert set(cases_of_alerts()) == set(ALERTS)


@pytest.mark.parametrize("name", rules("record"))
def test_recording_rule_is_named_and_tested(name: str):
    assert re.fullmatch(r"[a-z_]+:[a-z_]+:[a-z0-9_]+", name)
    assert name in texts("tests")


def test_rules_ask_for_metrics_that_the_guard_has():
    known = set(re.findall(r'"(beer_\w+)"', METRICS.read_text()))
    known |= {f"{name}_{part}" for name in known for part in ("bucket", "sum", "count")}
    code = re.sub(r"#.*|^ *(- )?(summary|description|record): .*$", "", texts("rules"), flags=re.M)
    asked = set(re.findall(r"\bbeer_\w+", code))
    assert asked
    assert asked <= known

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest
from beer_payload import cli, job
from beer_payload.report import EXIT_CODES, PayloadError, SetupError, StorageError, WrongNumber


def test_a_report_is_one_json_object_on_standard_output(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["burn", "--units", "2"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["payload"], report["ok"], report["units"]) == ("burn", True, 2)
    assert report["cpu_seconds"] >= 0
    assert report["wall_seconds"] >= 0


@pytest.mark.parametrize(("failure", "code"), [(WrongNumber, 1), (StorageError, 3), (SetupError, 4)])
def test_a_failure_is_a_code_and_one_line(
    failure: type[PayloadError], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def fail(*arguments: object) -> None:
        raise failure("the reason")

    monkeypatch.setattr(job, "run", fail)
    assert cli.main(["physics"]) == code
    output = capsys.readouterr()
    assert output.err == "beer-payload physics: the reason\n"
    report = json.loads(output.out)
    assert (report["ok"], report["reason"]) == (False, "the reason")


def test_every_exit_code_is_in_the_help():
    for failure in PayloadError.__subclasses__():
        assert f"\n  {failure.code}  " in EXIT_CODES


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["unknown"],
        ["physics", "--events", "0"],
        ["physics", "--events", "1e3"],
        ["physics", "--seed", "900000001"],
        ["physics", "--process", "higgs"],
        ["physics", "--output", "/data/f"],
        ["burn"],
        ["burn", "--seconds", "1", "--units", "1"],
        ["burn", "--seconds", "0"],
        ["burn", "--seconds", "nan"],
        ["read-disk"],
        ["read-disk", "--seconds", "1", "--rate", "0"],
        ["hog-disk", "--seconds", "1", "--block", "64"],
        ["hog-disk", "--seconds", "1", "--block", "100B"],
        ["hog-disk", "--seconds", "1", "--size", "4KiB"],
        ["hog-disk", "--seconds", "1", "--write-share", "1.1"],
        ["hog-disk", "--seconds", "1", "--threads", "0"],
        ["hog-memory", "--seconds", "1"],
        ["hog-memory", "--size", "0MiB", "--seconds", "1"],
        ["hog-memory", "--size", "16MiB", "--seconds", "1", "--processes", "3"],
        ["fork-bomb"],
        ["fork-bomb", "--seconds", "1", "--processes", "0"],
        ["hog-network", "--seconds", "1"],
        ["hog-network", "--to", "node2:9"],
        ["hog-network", "--to", "node2", "--seconds", "1"],
        ["hog-network", "--to", "node2:0", "--seconds", "1"],
        ["hog-network", "--to", "node2:9", "--seconds", "1", "--streams", "257"],
        ["hog-xrootd", "--seconds", "1"],
        ["hog-xrootd", "--seconds", "1", "--url", "root://node/f"],
        ["hog-xrootd", "--seconds", "1", "--url", "root://node//f", "--pieces", "0"],
        ["hog-xrootd", "--seconds", "1", "--url", "root://node//f", "--pieces", "1025"],
    ],
)
def test_a_wrong_call_is_refused(arguments: list[str]):
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    assert end.value.code == 2


@pytest.mark.parametrize(("text", "value"), [("1B", 1), ("64KiB", 65536), ("1 MiB", 1 << 20), ("2GiB", 2 << 30)])
def test_sizes_have_units(text: str, value: int):
    assert cli.size(text) == value

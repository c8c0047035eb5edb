# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest
from beerbench import bench, cli, host
from beerbench.errors import BenchmarkError
from beerbench.inroot import last_json
from beerbench.record import Record, RecordError


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    made = Record("demo", {"seconds": 3}, {"cpus": 2}, {"files": {"node": "node.jsonl"}}, missing=["a quiet machine"])
    made.save(tmp_path)
    found = Record.load(tmp_path)
    assert (found.parameters, found.host, found.missing) == ({"seconds": 3}, {"cpus": 2}, ["a quiet machine"])
    assert found.file("node") == tmp_path / "node.jsonl"
    assert Record.load(tmp_path / "record.json").started == made.started


def test_numbers_that_json_does_not_know_are_kept_readable(tmp_path: Path) -> None:
    Record("demo", {}, {}, {"a": float("inf"), "b": [float("nan")]}).save(tmp_path)
    assert json.loads((tmp_path / "record.json").read_text())["data"] == {"a": "inf", "b": [None]}


@pytest.mark.parametrize("content", ["{", '{"format": "other/3"}'])
def test_other_files_are_refused_with_their_name(tmp_path: Path, content: str) -> None:
    (tmp_path / "record.json").write_text(content)
    with pytest.raises(RecordError, match=r"record\.json"):
        Record.load(tmp_path)


def test_every_benchmark_says_what_it_shows_and_what_it_does_not() -> None:
    for name in bench.NAMES:
        text = bench.load(name).__doc__ or ""
        assert "Shows:" in text, name
        assert "Does not show:" in text, name
        for part in ("arguments", "record", "study", "show"):
            assert callable(getattr(bench.load(name), part)), (name, part)


def test_the_readme_lists_every_benchmark() -> None:
    text = (Path(__file__).resolve().parent.parent / "README.md").read_text()
    for name in bench.NAMES:
        assert f"`{name}`" in text, name


def test_an_unknown_benchmark_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BenchmarkError, match="isolation"):
        bench.load("speed")


def test_list_names_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in bench.NAMES)


def test_a_record_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["format", str(tmp_path / "nothing")]) == 1
    assert capsys.readouterr().err.startswith("beerbench: ")


def test_the_last_json_of_an_output_is_taken() -> None:
    assert last_json('built\n{"a": 1}\nmore\n{\n "b": {"c": 2}\n}\n') == {"b": {"c": 2}}
    with pytest.raises(BenchmarkError, match="no JSON"):
        last_json("nothing\n")


def test_cpu_lists() -> None:
    assert host.cpu_list("0-2,5\n") == [0, 1, 2, 5]
    assert host.cpu_list("") == []


def test_the_kind_of_a_host_names_its_accelerator() -> None:
    assert host.host_kind({"cpus": 2, "lab": {"accelerator": "tcg,thread=multi"}}) == "2-core-tcg"
    assert host.host_kind({"cpus": 64}) == "64-core-real"
